"""Grid graphs with features of edges: snakes (Nowozin et al. 2011).

The label of a cell follows from the directions of its neighbors only, and each direction from the next
ones. Nodes have the colors of the 3x3 cells around as features. Edges of the first model have their
direction, those of the second also the features of both ends, by direction. Grids have too many cycles
for exact inference, so the relaxed loss is minimized. C is that of published runs, 0.1. The score is
the fraction of correct cells.
"""

from __future__ import annotations

import time

import numpy as np
import scipy.sparse as sp
from report import parser_of, table, versions, write_record
from sklearn.base import clone

from structinv import InvariantStructuredSVC
from structinv.structures import Graph

COLORS, BACKGROUND = (1, 2, 3, 4, 6), 3


def grids(data: np.lib.npyio.NpzFile, part: str) -> list[np.ndarray]:
    """The color of each cell, as a number, of every grid."""
    shapes = data[f"shape_{part}"]
    codes = (data[f"pixels_{part}"].reshape(-1, 3) // 255) @ np.array([1, 2, 4])
    colors = np.searchsorted(COLORS, codes)
    cells = np.split(colors, np.cumsum(shapes.prod(axis=1))[:-1])
    return [each.reshape(shape) for each, shape in zip(cells, shapes, strict=True)]


def around(grid: np.ndarray) -> np.ndarray:
    """Return the colors of the 3 x 3 cells around a cell, (n_cells, 45) of 0 and 1."""
    framed = np.pad(grid, 1, constant_values=BACKGROUND)
    windows = np.lib.stride_tricks.sliding_window_view(framed, (3, 3)).reshape(grid.size, 9)
    return np.eye(len(COLORS))[windows].reshape(grid.size, -1)


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


def graphs(data: np.lib.npyio.NpzFile, part: str, rich: bool) -> tuple[list, list[np.ndarray]]:
    """All grids as graphs, and the labels of their cells."""
    ends = np.cumsum(data[f"shape_{part}"].prod(axis=1))[:-1]
    return [graph(each, rich) for each in grids(data, part)], np.split(data[f"labels_{part}"], ends)


def main() -> None:
    parser = parser_of(__doc__, data="snakes/")
    parser.add_argument("--solver", default="frank_wolfe")
    parser.add_argument("--C", type=float, default=0.1)
    parser.add_argument("--gap", type=float, default=2e-2)
    parser.add_argument("--tol", type=float, default=1e-6, help="gap of relaxed inference")
    parser.add_argument("--seconds", type=float, default=600.0, help="limit of a fit")
    parser.add_argument("--models", nargs="+", default=["directions", "colors"])
    arguments = parser.parse_args()
    data, lines = np.load(arguments.data / "snakes" / "snakes.npz"), []
    structure = Graph("relaxed", tol=arguments.tol)
    for name in arguments.models:
        rich = name == "colors"
        X, y = graphs(data, "train", rich)
        model = InvariantStructuredSVC(
            structure, C=arguments.C, tol=arguments.gap, solver=arguments.solver, random_state=0
        )
        # Compiles, or loads what is compiled.
        clone(model).set_params(C=1e-3, tol=0.5).fit(X[:10], y[:10])
        model.set_params(max_seconds=arguments.seconds)
        started, clock = time.perf_counter(), time.process_time()
        model.fit(X, y)
        seconds, clock = time.perf_counter() - started, time.process_time() - clock
        found = model.solution_
        scores = [model.score(*graphs(data, part, rich)) for part in ("train", "test")]
        lines.append([name, found.outcome, f"{seconds:.0f}", f"{clock:.0f}", f"{found.relative_gap:.1e}",
                      found.iterations, *(f"{score:.4f}" for score in scores)])  # fmt: skip
        print(lines[-1], flush=True)
    headers = [
        "edge features",
        "outcome",
        "seconds",
        "processor time, s",
        "gap",
        "iterations",
        "correct, train",
        "correct, test",
    ]
    print(versions())
    title = f"Snakes, C = {arguments.C:g}: fractions of correct cells, and seconds of a fit"
    print(table(title, headers, lines, key="fits"))
    write_record(arguments.record, "snakes (Nowozin et al. 2011), 200 + 100 grids")


if __name__ == "__main__":
    main()
