"""Run time of solvers for perturbation sets with very many corners.

Rows are random, with targets or two noisy classes of a linear function. Oracles are boxes, balls, and
words that are dropped or scaled. Losses are those of regression and of two classes. Seconds are those
of `fit` with compiled kernels, in processor time if ``STRUCTINV_CPU_TIME=1`` is set. The first row of a
pair has the solver of "auto". "frank_wolfe" stores a few planes or points of each row. For the hinge
loss it has in-hull steps.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from report import add_record_option, table, versions, write_record

from structinv import InvariantLinearSVC, InvariantLinearSVR
from structinv.oracles import Box, Ellipsoid, FDrop, FScale, InvarianceOracle

NOW = time.process_time if os.environ.get("STRUCTINV_CPU_TIME") else time.perf_counter
ORACLES: dict[str, InvarianceOracle] = {
    "box": Box(0.1),
    "ball": Ellipsoid(0.3),
    "drop": FDrop(2),
    "scale": FScale(2, 0.5, 1.5),
}
LOSSES = ("regression", "squared_hinge", "logistic", "hinge")
SOLVERS = ("auto", "frank_wolfe")
HEADERS = ["loss", "oracle", "C", "solver", "seconds", "iterations", "gap", "status"]


def load(n_rows: int, n_features: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, numbers, and classes."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, n_features))
    values = 2.0 * X @ rng.standard_normal(n_features) / np.sqrt(n_features)
    noise = rng.standard_normal((2, n_rows))
    return X, values + 0.3 * noise[0], np.sign(values + 0.7 * noise[1]).astype(int)


def measure(
    data: tuple[np.ndarray, np.ndarray, np.ndarray], loss: str, model: dict[str, Any]
) -> dict[str, Any]:
    X, numbers, classes = data
    made = (
        InvariantLinearSVR(**model) if loss == "regression" else InvariantLinearSVC(loss=loss, **model)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        started = NOW()
        made.fit(X, numbers if loss == "regression" else classes)
        seconds = NOW() - started
    solution = made.solution_
    return {
        "seconds": seconds,
        "taken": solution.solver,
        "iterations": solution.iterations,
        "gap": solution.relative_gap,
        "status": solution.status.value,
        "primal": solution.primal,
        "dual": solution.dual,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--losses", nargs="+", choices=LOSSES, default=LOSSES)
    parser.add_argument("--changes", nargs="+", choices=ORACLES, default=list(ORACLES))
    parser.add_argument("--solvers", nargs="+", default=SOLVERS)
    parser.add_argument("--C", nargs="+", type=float, default=[1.0, 10.0])
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--features", type=int, default=50)
    parser.add_argument("--max-seconds", type=float, default=6.0)
    add_record_option(parser)
    chosen = parser.parse_args(arguments)
    data, rows, found = load(chosen.rows, chosen.features), [], {}
    for loss in chosen.losses:
        for name in chosen.changes:
            for C in chosen.C:
                for solver in chosen.solvers:
                    model = {"oracle": ORACLES[name], "C": C, "solver": solver, "random_state": 0}
                    # Once for the compiler.
                    measure(data, loss, model | {"max_seconds": 1e-2})
                    result = measure(data, loss, model | {"max_seconds": chosen.max_seconds})
                    found[f"{loss} {name} {C:g} {solver}"] = result
                    taken = result["taken"] if solver == "auto" else solver
                    numbers = f"{result['seconds']:.2f}", result["iterations"], f"{result['gap']:.1e}"
                    rows.append([loss, name, f"{C:g}", taken, *numbers, result["status"]])
                    print(*rows[-1], flush=True)
    size = f"{chosen.rows} rows of {chosen.features} features"
    print(table(f"Sets of many corners, {size} ({versions()})", HEADERS, rows, key="fits"))
    write_record(chosen.record, "2000 random rows of 50 features")


if __name__ == "__main__":
    main()
