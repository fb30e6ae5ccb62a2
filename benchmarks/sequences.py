"""Robust sequence models: time to a relative duality gap, and memory.

128 sequences of 40 dense rows with 20 features are normal around a mean of the row's label. 5 labels
come from a Markov chain, all from seed 0. The cost is Hamming, C = 1, and the oracle is `FDrop(1)`.
Kernels are compiled or loaded before the clock starts. Memory is the peak of the resident memory of the
process minus that of the import, in GB. Linux only.
"""

from __future__ import annotations

import resource
import time

import numpy as np
from report import parser_of, table, versions, write_record

from structinv.oracles import FDrop
from structinv.solvers import REGISTRY, Gap, Iterations, Seconds, Solution, solve
from structinv.spaces import ExplicitSpace
from structinv.structures import Layout, Sequence
from structinv.terms import Objective, WorstCase

N, LENGTH, FEATURES, LABELS = 128, 40, 20, 5


def memory() -> float:
    """The peak of the resident memory so far, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def make_sequences() -> tuple[np.ndarray, np.ndarray]:
    """Rows, (N * LENGTH, FEATURES), and their labels."""
    rng = np.random.default_rng(0)
    follows = rng.dirichlet(np.ones(LABELS), size=LABELS)
    y = np.zeros((N, LENGTH), dtype=int)
    for i in range(N):
        y[i, 0] = rng.integers(LABELS)
        for t in range(1, LENGTH):
            y[i, t] = rng.choice(LABELS, p=follows[y[i, t - 1]])
    means = rng.standard_normal((LABELS, FEATURES))
    return means[y.ravel()] + rng.standard_normal((y.size, FEATURES)), y.ravel()


def fit(X: np.ndarray, y: np.ndarray, solver: str, stop: Gap) -> Solution:
    """Train on the worst case."""
    term = WorstCase(X, y, FDrop(1), Sequence(), 1.0, layout=Layout.of_lengths([LENGTH] * N))
    space = ExplicitSpace(FEATURES, LABELS, n_pairwise=Sequence().n_pairwise(LABELS))
    return solve(Objective(space, [term]), REGISTRY[solver](), stop, random_state=0)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--solvers", nargs="+", default=["frank_wolfe", "svmstruct"])
    parser.add_argument("--gap", type=float, default=1e-2)
    parser.add_argument("--seconds", type=float, default=60.0, help="limit of a fit")
    arguments = parser.parse_args()
    imported, lines = memory(), []
    X, y = make_sequences()
    for solver in arguments.solvers:
        fit(X, y, solver, Gap(0.9) | Iterations(3))
        started = time.perf_counter()
        found = fit(X, y, solver, Gap(arguments.gap) | Seconds(arguments.seconds))
        seconds = time.perf_counter() - started
        lines.append([solver, f"{seconds:.2f}", f"{found.relative_gap:.1e}", found.iterations,
                      f"{memory() - imported:.2f}"])  # fmt: skip
    headers = ["solver", "seconds", "gap", "iterations", "GB"]
    print(versions())
    print(table("Sequences, FDrop(1)", headers, lines, key="fits"))
    write_record(
        arguments.record, "generated, 128 sequences of 40 rows, 20 features, 5 labels", seeds="0"
    )


if __name__ == "__main__":
    main()
