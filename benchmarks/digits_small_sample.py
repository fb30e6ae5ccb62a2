"""Error and support vectors on few digits (Teo et al. 2007, figure 1).

Draws have 10 to 50 digits per class of the 60000 training images of MNIST (seeds 0, 1, ...). A smaller
draw is part of the larger one of its seed. All 10000 test images are for testing. The 20
transformations are those of the paper (`teo2007_transforms`). `digits.py` has the models and the rules.
The protocol is in `docs/evidence/images.md`.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from digits import (
    TUNING_TOL,
    Rows,
    add_data_option,
    draw_rows,
    fit_invariant,
    fit_svc,
    grid,
    load_mnist,
    tune_invariant,
    tune_svc,
    votes,
)
from report import add_record_option, table, versions, write_json, write_record

from structinv.oracles import teo2007_transforms
from structinv.solvers import REGISTRY

SIZES = (10, 20, 30, 40, 50)
PLAIN_GRID = grid((0.005, 0.01, 0.02, 0.04), (1.0, 10.0, 100.0))
GRID = grid((0.01, 0.02, 0.04), (1.0, 10.0))
EPSILONS = (0.0, 0.1, 0.3, 0.5)
TOL = 1e-2
INVARIANT = {f"InvariantSVC, plane_tol {one:g}" if one else "InvariantSVC": one for one in EPSILONS}
SETTINGS = {
    "folds": [5, 3],
    "grids": [PLAIN_GRID, GRID],
    "tuning tol": TUNING_TOL,
    "tol": TOL,
    "epsilons": list(EPSILONS),
}
MACHINES = ("SVC", "VirtualSVC", "VirtualSupportVectorSVC", *INVARIANT)
DRAWN = ("SVC", "VirtualSVC", "InvariantSVC")

Found = dict[str, dict[str, Any]]


def compare(train: Rows, test: Rows, seed: int, known: Found) -> Found:
    """Run all models on one draw, except those with results of an earlier run."""
    oracle = teo2007_transforms()
    found = dict(known)
    if not {"SVC", "VirtualSVC", "VirtualSupportVectorSVC"} <= set(known):
        chosen = {"SVC": tune_svc(*train, None, PLAIN_GRID, 5, seed)["VirtualSVC"]}
        chosen |= tune_svc(*train, oracle, GRID, 3, seed)
        for name, params in chosen.items():
            found[name] = fit_svc(name, oracle, params, train, test)[0].plain()
    if "InvariantSVC" in known:
        params = known["InvariantSVC"]["params"]
    else:
        params = tune_invariant(*train, oracle, GRID, 3, seed)
    for name, epsilon in INVARIANT.items():
        if name not in known:
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


def check_votes(train: Rows, test: Rows, count: int = 300) -> str:
    """Compare the fast predictions with those of libsvm."""
    few = test[0][:count], test[1][:count]
    _, svc = fit_svc("VirtualSVC", teo2007_transforms(), {"gamma": 0.02, "C": 10.0}, train, few)
    same = int(np.sum(votes(svc, few[0]) == svc.predict(few[0])))
    return f"votes by matrix products: as svc.predict on {same} of {count} test images"


def read_results(path: Path, solver_seconds: float) -> dict[str, Any]:
    """Results so far, if the file is there and of the same settings."""
    settings = SETTINGS | {"solver seconds": solver_seconds}
    fresh = {"versions": versions(), "settings": settings, "draws": {}, "solvers": {}}
    if not path.is_file():
        return fresh
    results = json.loads(path.read_text(encoding="utf-8"))
    if results["settings"] != settings:
        sys.exit(f"{path} has results of other settings: move it away or choose another --out")
    return results


def run(options: argparse.Namespace, results: dict[str, Any]) -> None:
    """Run all draws and models without a result."""
    train, test = load_mnist(options.data, "train"), load_mnist(options.data, "t10k")
    first = rows_of(train, draw_rows(train[1], 5, 0))
    warm = rows_of(test, np.arange(20))
    compare_solvers(compare(first, warm, 0, {}), first, warm, 1.0)  # compiles or loads all kernels
    print(check_votes(rows_of(train, draw_rows(train[1], min(options.sizes), 0)), test))
    for seed in range(options.draws):
        for size in options.sizes:
            key = f"{seed} {size}"
            some = rows_of(train, draw_rows(train[1], size, seed))
            start = time.perf_counter()
            known = results["draws"].get(key, {})
            if not set(MACHINES) <= set(known):
                results["draws"][key] = compare(some, test, seed, known)
                write_json(options.out, results)
            if seed < options.solver_draws and key not in results["solvers"]:
                found = results["draws"][key]
                results["solvers"][key] = compare_solvers(found, some, test, options.solver_seconds)
                write_json(options.out, results)
            took = time.perf_counter() - start
            print(f"seed {seed}, {size} per class: {took:.0f} s", file=sys.stderr, flush=True)


def rows_of(data: Rows, rows: np.ndarray) -> Rows:
    """Some images and their labels."""
    return data[0][rows], data[1][rows]


def chosen(runs: dict[str, Found], n_draws: int, sizes: Sequence[int]) -> dict[str, Found]:
    """Return the requested part of the results in the file."""
    keys = [f"{seed} {size}" for seed in range(n_draws) for size in sizes]
    return {key: runs[key] for key in keys}


def values(runs: Mapping[str, Found], size: int, name: str, what: str) -> np.ndarray:
    """Return the values of a model, by draw."""
    found = [run[name] for key, run in runs.items() if key.split()[1] == str(size)]
    return np.array([np.nan if one[what] is None else one[what] for one in found], dtype=float)


def standard_error(numbers: np.ndarray) -> float:
    """Return the standard error of the mean; NaN for a single number."""
    return float(np.std(numbers, ddof=1) / np.sqrt(len(numbers))) if len(numbers) > 1 else np.nan


def mean_and_error(numbers: np.ndarray, form: str) -> str:
    """A cell of a table."""
    mean, error = np.mean(numbers), standard_error(numbers)
    return f"{mean:{form}}" if np.isnan(error) else f"{mean:{form}} ± {error:{form.lstrip('+')}}"


def print_tables(runs: Mapping[str, Found], sizes: Sequence[int]) -> None:
    """Error, support vectors, and seconds of the final fit."""
    names = list(next(iter(runs.values())))
    head = ["", *(f"{size} per class" for size in sizes)]
    for title, what, scale, form in (
        ("error on the test set, %", "error", 100, ".2f"),
        ("support vectors", "support", 1, ".0f"),
        ("seconds of the final fit", "seconds", 1, ".2f"),
    ):
        rows = [
            [name, *(mean_and_error(scale * values(runs, size, name, what), form) for size in sizes)]
            for name in names
        ]
        print(table(title, head, rows, key={"error": "errors"}.get(what, what)))
    rows = [
        [name, *(mean_and_error(100 * paired(runs, size, name), "+.2f") for size in sizes)]
        for name in names if name != "VirtualSVC"
    ]  # fmt: skip
    print(
        table(
            "error minus that of VirtualSVC on the same draw, percentage points",
            head,
            rows,
            "differences",
        )
    )
    print_chosen(runs, sizes, names)


def paired(runs: Mapping[str, Found], size: int, name: str) -> np.ndarray:
    """Error less that of VirtualSVC, by draw."""
    return values(runs, size, name, "error") - values(runs, size, "VirtualSVC", "error")


def print_chosen(runs: Mapping[str, Found], sizes: Sequence[int], names: Sequence[str]) -> None:
    """Print the number of choices of each parameter pair, over all sizes."""
    lines = []
    for name in names:
        if not INVARIANT.get(name):
            points = [run[name]["params"] for run in runs.values()]
            pairs = [f"({point['gamma']:g}, {point['C']:g})" for point in points]
            counts = sorted({pair: pairs.count(pair) for pair in pairs}.items(), key=lambda one: -one[1])
            lines.append(f"{name}: " + ", ".join(f"{pair} {count}" for pair, count in counts))
    print("how often (gamma, C) were chosen", "", *lines, "", sep="\n")


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
    head = ["", "error, %", "support vectors", "seconds", "relative gap"]
    title = f"InvariantSVC by solver, to a gap of {TOL:g} or for {limit:g} s (default solver: no limit)"
    print(table(title, head, rows, key="solvers"))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_data_option(parser)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES), help="digits per class")
    parser.add_argument("--solver-draws", type=int, default=2, help="draws for all solvers")
    parser.add_argument("--solver-seconds", type=float, default=20.0, help="limit of such a fit")
    parser.add_argument("--out", type=Path, default=Path("digits_small_sample.json"))
    add_record_option(parser)
    return parser.parse_args()


def main() -> None:
    options = parse()
    warnings.simplefilter("ignore")  # gaps are in the tables
    print(versions())
    results = read_results(options.out, options.solver_seconds)
    run(options, results)
    print(f"{options.draws} draws, test set of 10000 images\n")
    runs = chosen(results["draws"], options.draws, options.sizes)
    print_tables(runs, options.sizes)
    solvers = chosen(results["solvers"], min(options.draws, options.solver_draws), options.sizes)
    if solvers:
        print_solvers(solvers, options.sizes, options.solver_seconds)
    write_record(
        options.record,
        "MNIST, 10 to 50 digits per class for training, 10000 for testing",
        seeds=f"0 to {options.draws - 1} (draws)",
    )


if __name__ == "__main__":
    main()
