"""Duality gap over time for every solver, and time per pass for sizes of data.

The loss is FScale(10, 0.5, 2) on ``log(1 + count)`` of enron1 and enron2, rows of length 1, no
intercept. Gaps are those of the common loop of all solvers: the smallest objective so far minus the
largest lower bound, divided by the former. The time includes these checks. Kernels are compiled before
any clock starts.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from mail import FILES, Corpus, load_mailboxes
from report import parser_of, require, table, versions, write_record

from structinv.oracles import FScale
from structinv.solvers import REGISTRY, Gap, Iterations, Seconds, Solution, solve
from structinv.spaces import ExplicitSpace
from structinv.structures import Binary
from structinv.terms import Objective, WorstCase

TRAIN = ("enron1", "enron2")
SIZES = (625, 1250, 2500, 5000, 10000)


def objective(X: Any, y: np.ndarray, lam: float) -> Objective:
    """The robust objective at a value of lambda."""
    term = WorstCase(X, y, FScale(10, 0.5, 2.0), Binary(), 1.0 / (lam * len(y)))
    return Objective(ExplicitSpace(X.shape[1]), [term])


def minimize(name: str, X: Any, y: np.ndarray, lam: float, stop: Any) -> Solution:
    """Run a solver of the registry."""
    return solve(objective(X, y, lam), REGISTRY[name](), stop, random_state=0, check_always=True)


def gap_curves(
    X: Any, y: np.ndarray, lambdas: Sequence[float], gap: float, limit: float
) -> dict[float, dict[str, Solution]]:
    """A solution of each solver, by lambda."""
    return {
        lam: {name: minimize(name, X, y, lam, Gap(gap) | Seconds(limit)) for name in REGISTRY}
        for lam in lambdas
    }


def pass_times(
    X: Any, y: np.ndarray, lam: float, sizes: Sequence[int], passes: int, repeats: int
) -> dict[str, list[float]]:
    """Median seconds a pass of each solver, by number of mails."""
    order = np.random.default_rng(0).permutation(len(y))
    times: dict[str, list[float]] = {name: [] for name in REGISTRY}
    for size in sizes:
        few = np.sort(order[:size])
        rows, labels = X[few], y[few]
        stop = Iterations(passes)
        for name, found in times.items():
            runs = [minimize(name, rows, labels, lam, stop) for _ in range(repeats)]
            found.append(float(np.median([run.seconds / run.iterations for run in runs])))
    return times


def exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """Slope of log time over log size."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def curve(solution: Solution) -> tuple[np.ndarray, np.ndarray]:
    """Seconds and relative gap at each check."""
    seconds = np.array([record.seconds for record in solution.history])
    primal = np.array([record.primal for record in solution.history])
    dual = np.array([record.dual for record in solution.history])
    return seconds, np.maximum(primal - dual, 1e-12 * primal) / primal


def seconds_to(solution: Solution, gap: float) -> str:
    """When a relative gap was first reached."""
    seconds, gaps = curve(solution)
    reached = np.flatnonzero(gaps <= gap)
    return f"{seconds[reached[0]]:.2f}" if len(reached) else "-"


def print_gaps(curves: Mapping[float, Mapping[str, Solution]]) -> None:
    """When each solver reached which gap."""
    levels = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
    rows = [
        [f"{lam:g} {name}", *(seconds_to(one, level) for level in levels), one.iterations,
         f"{one.relative_gap:.1e}", one.status.value]
        for lam, solutions in curves.items() for name, one in solutions.items()
    ]  # fmt: skip
    head = ["lambda, solver", *(f"{level:g}" for level in levels), "passes", "last gap", "status"]
    print(
        table("Seconds to a relative gap, by lambda and solver (-: not reached)", head, rows, key="gaps")
    )


def print_passes(sizes: Sequence[int], times: Mapping[str, Sequence[float]]) -> None:
    """Milliseconds a pass and the fitted exponents."""
    rows = [
        [name, *(f"{1e3 * one:.1f}" for one in seconds), f"{exponent(sizes, seconds):.2f}"]
        for name, seconds in times.items()
    ]
    head = ["solver", *(str(size) for size in sizes), "exponent"]
    print(table("Milliseconds per pass, by number of mails", head, rows, key="passes"))


def parse() -> argparse.Namespace:
    parser = parser_of(__doc__, data="enron_spam/ and spamassassin/")
    parser.add_argument("--lam", nargs="+", type=float, default=[0.01, 0.001])
    parser.add_argument("--gap", type=float, default=1e-5, help="relative gap to stop at")
    parser.add_argument("--seconds", type=float, default=60.0, help="limit of a run")
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=5)
    return parser.parse_args()


def main() -> None:
    options = parse()
    require(options.data, FILES["enron"])
    warnings.simplefilter("ignore")  # gaps and statuses are in the table
    bags = Corpus(load_mailboxes(options.data, spamassassin=False)).bags(TRAIN, form="log")
    print(f"{versions()}\n")
    for name in REGISTRY:
        minimize(name, bags.train[:200], np.resize([-1, 1], 200), 0.01, Iterations(2))
    curves = gap_curves(bags.train, bags.y, options.lam, options.gap, options.seconds)
    print_gaps(curves)
    times = pass_times(bags.train, bags.y, options.lam[0], SIZES, options.passes, options.repeats)
    print_passes(SIZES, times)
    gaps = {
        f"{lam:g}": {name: np.transpose(curve(one)) for name, one in solutions.items()}
        for lam, solutions in curves.items()
    }
    write_record(options.record, "enron1 and enron2, log counts of unit length", curves=gaps)


if __name__ == "__main__":
    main()
