"""Snakes on grids (Nowozin et al. 2011): which part of a snake is each cell, where edges know colours?

A cell's label follows from the directions of its neighbours only, and these from theirs. Nodes have the
colours of the 3x3 cells around as features. Edges of the first model know their direction; those of the
second also the features of both ends, by direction. Grids have too many cycles for exact inference, so
the relaxed loss is minimised. C is that of published runs, 0.1; the score is the share of cells.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from report import table, versions, write_json

from structinv.objective import Objective, WorstCase
from structinv.oracles import Identity
from structinv.solvers import REGISTRY, Gap, Seconds, Solution, solve
from structinv.spaces import ExplicitSpace
from structinv.structures import Graph, GraphLayout

COLOURS, BACKGROUND = (1, 2, 3, 4, 6), 3


def grids(data: np.lib.npyio.NpzFile, part: str) -> list[np.ndarray]:
    """The colour of each cell, as a number, of every grid."""
    shapes = data[f"shape_{part}"]
    codes = (data[f"pixels_{part}"].reshape(-1, 3) // 255) @ np.array([1, 2, 4])
    colours = np.searchsorted(COLOURS, codes)
    cells = np.split(colours, np.cumsum(shapes.prod(axis=1))[:-1])
    return [each.reshape(shape) for each, shape in zip(cells, shapes, strict=True)]


def around(grid: np.ndarray) -> np.ndarray:
    """Which colour each of the 3x3 cells around a cell has, (n_cells, 45) of 0 and 1."""
    framed = np.pad(grid, 1, constant_values=BACKGROUND)
    windows = np.lib.stride_tricks.sliding_window_view(framed, (3, 3)).reshape(grid.size, 9)
    return np.eye(len(COLOURS))[windows].reshape(grid.size, -1)


def graph(grid: np.ndarray, rich: bool) -> tuple[sp.csr_matrix, np.ndarray, np.ndarray]:
    """Rows, edges to the right and down, and their features."""
    cells, rows = np.arange(grid.size).reshape(grid.shape), around(grid)
    right = np.column_stack([cells[:, :-1].ravel(), cells[:, 1:].ravel()])
    down = np.column_stack([cells[:-1].ravel(), cells[1:].ravel()])
    edges = np.vstack([right, down])
    directions = np.repeat(np.eye(2), [len(right), len(down)], axis=0)
    if not rich:
        return sp.csr_matrix(rows), edges, directions
    ends = np.hstack([rows[edges[:, 0]], rows[edges[:, 1]]])
    features = directions[:, :, None] * ends[:, None, :]
    return sp.csr_matrix(rows), edges, features.reshape(len(edges), -1)


def graphs(data: np.lib.npyio.NpzFile, part: str, rich: bool) -> tuple[sp.csr_matrix, GraphLayout]:
    """Rows and layout of all grids."""
    return Graph().read([graph(each, rich) for each in grids(data, part)])


def fit(
    X: sp.csr_matrix,
    y: np.ndarray,
    layout: GraphLayout,
    structure: Graph,
    solver: str,
    stop: Gap,
    C: float,
) -> tuple[WorstCase, ExplicitSpace, Solution]:
    """Train on the relaxed loss."""
    term = WorstCase(X, y, Identity(), structure, C, layout=layout)
    space = ExplicitSpace(X.shape[1], term.labels.n_outputs, n_extra=term.labels.n_extra)
    return term, space, solve(Objective(space, [term]), REGISTRY[solver](), stop, random_state=0)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = Path(os.environ.get("STRUCTINV_DATA", "../shared/data"))
    parser.add_argument("--data", type=Path, default=default, help="folder of the data sets")
    parser.add_argument("--solver", default="frank_wolfe")
    parser.add_argument("--C", type=float, default=0.1)
    parser.add_argument("--gap", type=float, default=1e-2)
    parser.add_argument("--tol", type=float, default=1e-4, help="gap of relaxed inference")
    parser.add_argument("--steps", type=int, default=1000, help="most steps of relaxed inference")
    parser.add_argument("--seconds", type=float, default=600.0, help="limit of a fit")
    parser.add_argument("--models", nargs="+", default=["directions", "colours"])
    parser.add_argument("--json", type=Path, help="also write the table here")
    arguments = parser.parse_args()
    data, lines = np.load(arguments.data / "snakes" / "snakes.npz"), []
    structure = Graph("relaxed", tol=arguments.tol, max_steps=arguments.steps)
    for name in arguments.models:
        X, layout = graphs(data, "train", name == "colours")
        y = data["labels_train"]
        fit(X, y, layout, Graph("relaxed", max_steps=1), arguments.solver, Gap(0.9) | Seconds(1), 1e-3)
        started, clock = time.perf_counter(), time.process_time()
        stop = Gap(arguments.gap) | Seconds(arguments.seconds)
        term, space, found = fit(X, y, layout, structure, arguments.solver, stop, arguments.C)
        seconds, clock = time.perf_counter() - started, time.process_time() - clock
        scores = []
        for part in ("train", "test"):
            rows, own = graphs(data, part, name == "colours")
            labels = term.labels.predict(rows @ space.weights(found.f).T, space.extra(found.f), own)
            scores.append(np.mean(term.labels.classes[labels] == data[f"labels_{part}"]))
        lines.append([name, found.outcome, f"{seconds:.0f}", f"{clock:.0f}", f"{found.relative_gap:.1e}",
                      found.iterations, *(f"{score:.4f}" for score in scores)])  # fmt: skip
        print(lines[-1], flush=True)
    headers = ["edges know", "outcome", "seconds", "of processor", "gap", "iterations", "train", "test"]
    print(versions())
    print(table(f"Snakes, C = {arguments.C:g}", headers, lines))
    write_json(arguments.json, {"lines": [dict(zip(headers, line, strict=True)) for line in lines]})


if __name__ == "__main__":
    main()
