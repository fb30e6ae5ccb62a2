"""Error and support vectors on few digits (Teo et al. 2007, figure 1).

Draws have 10 to 50 digits per class of the 60000 training images of MNIST (seeds 0, 1, ...). A smaller
draw is part of the larger one of its seed. All 10000 test images are for testing. The 20
transformations are those of the paper (`teo2007_transforms`). `digits.py` has the models and the rules.
The protocol is in `docs/evidence/symmetries.md`.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from digits import (
    Rows,
    draw_rows,
    fit_invariant,
    fit_svc,
    grid,
    load_mnist,
    tune_invariant,
    tune_svc,
)
from report import mean_text, parser_of, table, versions, write_record

from structinv.oracles import teo2007_transforms
from structinv.solvers import REGISTRY

SIZES = (10, 20, 30, 40, 50)
PLAIN_GRID = grid((0.005, 0.01, 0.02, 0.04), (1.0, 10.0, 100.0))
GRID = grid((0.01, 0.02, 0.04), (1.0, 10.0))
EPSILONS = (0.0, 0.1, 0.3, 0.5)
TOL = 1e-2
INVARIANT = {f"InvariantSVC, plane_tol {one:g}" if one else "InvariantSVC": one for one in EPSILONS}
Found = dict[str, dict[str, Any]]


def compare(train: Rows, test: Rows, seed: int) -> Found:
    """Run all models on one draw."""
    oracle = teo2007_transforms()
    chosen = {"SVC": tune_svc(*train, None, PLAIN_GRID, 5, seed)["VirtualSVC"]}
    chosen |= tune_svc(*train, oracle, GRID, 3, seed)
    found = {name: fit_svc(name, oracle, one, train, test)[0].plain() for name, one in chosen.items()}
    params = tune_invariant(*train, oracle, GRID, 3, seed)
    for name, epsilon in INVARIANT.items():
        outcome = fit_invariant(oracle, params, train, test, tol=TOL, plane_tol=epsilon)
        found[name] = outcome.plain()
    return found


def compare_solvers(found: Found, train: Rows, test: Rows, limit: float) -> Found:
    """InvariantSVC by all other solvers than the default, which `compare` has run."""
    params = found["InvariantSVC"]["params"]
    runs = {"frank_wolfe": found["InvariantSVC"]}
    for name in REGISTRY:
        if name not in runs:
            settings = {"solver": name, "tol": TOL, "max_seconds": limit}
            outcome = fit_invariant(teo2007_transforms(), params, train, test, **settings)
            runs[name] = outcome.plain()
    return runs


def run(options: argparse.Namespace) -> tuple[dict[str, Found], dict[str, Found]]:
    """All draws, and the solvers on the first of them."""
    train, test = load_mnist(options.data, "train"), load_mnist(options.data, "t10k")
    first = rows_of(train, draw_rows(train[1], 5, 0))
    warm = rows_of(test, np.arange(20))
    compare_solvers(compare(first, warm, 0), first, warm, 1.0)  # compiles or loads all kernels
    draws: dict[str, Found] = {}
    solvers: dict[str, Found] = {}
    for seed in range(options.draws):
        for size in options.sizes:
            key = f"{seed} {size}"
            some = rows_of(train, draw_rows(train[1], size, seed))
            start = time.perf_counter()
            draws[key] = compare(some, test, seed)
            if seed < options.solver_draws:
                solvers[key] = compare_solvers(draws[key], some, test, options.solver_seconds)
            took = time.perf_counter() - start
            print(f"seed {seed}, {size} per class: {took:.0f} s", file=sys.stderr, flush=True)
    return draws, solvers


def rows_of(data: Rows, rows: np.ndarray) -> Rows:
    """Some images and their labels."""
    return data[0][rows], data[1][rows]


def values(runs: Mapping[str, Found], size: int, name: str, what: str) -> np.ndarray:
    """Return the values of a model, by draw."""
    found = [run[name] for key, run in runs.items() if key.split()[1] == str(size)]
    return np.array([np.nan if one[what] is None else one[what] for one in found], dtype=float)


def print_tables(runs: Mapping[str, Found], sizes: Sequence[int]) -> None:
    """Error, support vectors, and seconds of the final fit."""
    names = list(next(iter(runs.values())))
    head = ["model", *(f"{size} per class" for size in sizes)]
    n_draws = len(values(runs, sizes[0], names[0], "error"))
    spread = f"mean ± standard error of {n_draws} draws"
    for title, what, scale, form in (
        (f"Error on 10000 test digits, %: {spread}, by training digits", "error", 100, ".2f"),
        (f"Number of support vectors: {spread}", "support", 1, ".0f"),
        (f"Seconds of the final fit: {spread}", "seconds", 1, ".2f"),
    ):
        rows = [
            [name, *(mean_text(scale * values(runs, size, name, what), form) for size in sizes)]
            for name in names
        ]
        print(table(title, head, rows, key={"error": "errors"}.get(what, what)))
    rows = [
        [name, *(mean_text(100 * paired(runs, size, name), "+.2f") for size in sizes)]
        for name in names if name != "VirtualSVC"
    ]  # fmt: skip
    print(
        table(
            "Error minus that of VirtualSVC on the same draw, points",
            head,
            rows,
            "differences",
        )
    )


def paired(runs: Mapping[str, Found], size: int, name: str) -> np.ndarray:
    """Error less that of VirtualSVC, by draw."""
    return values(runs, size, name, "error") - values(runs, size, "VirtualSVC", "error")


def print_solvers(runs: Mapping[str, Found], sizes: Sequence[int], limit: float) -> None:
    """Print means of each solver of InvariantSVC over its draws."""
    rows = []
    for size in sizes:
        for name in REGISTRY:
            mean = {
                what: np.mean(values(runs, size, name, what))
                for what in ("error", "support", "seconds", "gap")
            }
            rows.append(
                [f"{size} per class, {name}", f"{100 * mean['error']:.2f}", f"{mean['support']:.0f}",
                 f"{mean['seconds']:.1f}", f"{mean['gap']:.1e}"]
            )  # fmt: skip
    head = ["digits, solver", "error, %", "support vectors", "seconds", "relative gap"]
    title = f"InvariantSVC by solver, to a gap of {TOL:g} or for {limit:g} s (default solver: no limit)"
    print(table(title, head, rows, key="solvers"))


def parse() -> argparse.Namespace:
    parser = parser_of(__doc__, data="mnist/")
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES), help="digits per class")
    parser.add_argument("--solver-draws", type=int, default=2, help="draws for all solvers")
    parser.add_argument("--solver-seconds", type=float, default=20.0, help="limit of such a fit")
    return parser.parse_args()


def main() -> None:
    options = parse()
    warnings.simplefilter("ignore")  # gaps are in the tables
    print(versions())
    draws, solvers = run(options)
    print(f"{options.draws} draws, test set of 10000 images\n")
    print_tables(draws, options.sizes)
    if solvers:
        print_solvers(solvers, options.sizes, options.solver_seconds)
    write_record(
        options.record,
        "MNIST, 10 to 50 digits per class for training, 10000 for testing",
        seeds=f"0 to {options.draws - 1} (draws)",
    )


if __name__ == "__main__":
    main()
