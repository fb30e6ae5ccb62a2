"""Linear models of unscaled features: duality gap and time.

Data are iris, wine, breast_cancer and digits without rescaling, and 60 random images of 0 to 255, with
C = 1. Fits have no oracle, a box or a ball of radius 0.1, or for images shifts by a pixel. The gap is
that of the fit's certificate. Seconds are those of `fit` with compiled kernels, in processor time if
``STRUCTINV_CPU_TIME=1`` is set. Accuracies are those of the training rows. The column "peer" is that of
``LinearSVC(loss="hinge")``, or of Crammer and Singer's form for more than two classes, which have no
oracle.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from report import parser_of, table, versions, write_record
from sklearn import datasets
from sklearn.svm import LinearSVC

from structinv import InvariantLinearSVC
from structinv.oracles import Box, Ellipsoid, Shifts

SETS = ("iris", "wine", "breast_cancer", "digits", "bytes")
NOW = time.process_time if os.environ.get("STRUCTINV_CPU_TIME") else time.perf_counter
HEADERS = [
    "rows, oracle", "seconds", "iterations", "gap", "status", "training accuracy, %",
    "accuracy of the peer, %",
]  # fmt: skip


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows and labels; "bytes" are random images of 8 x 8 numbers from 0 to 255."""
    if name == "bytes":
        rng = np.random.default_rng(0)
        return rng.integers(256, size=(60, 64)).astype(float), rng.integers(2, size=60)
    return getattr(datasets, f"load_{name}")(return_X_y=True)


def oracles(n_features: int) -> dict[str, Any]:
    """The changes that are tried on rows of a length."""
    found = {"none": None, "box": Box(0.1), "ball": Ellipsoid(np.eye(n_features), radius=0.1)}
    return found | ({"shifts": Shifts(1)} if n_features == 64 else {})


def measure(name: str, oracle: Any, intercept: bool, max_seconds: float) -> dict[str, Any]:
    X, y = load(name)
    model = InvariantLinearSVC(oracle, max_seconds=max_seconds, fit_intercept=intercept, random_state=0)
    peer = LinearSVC(
        loss="hinge",
        multi_class="ovr" if len(np.unique(y)) == 2 else "crammer_singer",
        fit_intercept=intercept,
        max_iter=20000,
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        started = NOW()
        model.fit(X, y)
        seconds = NOW() - started
        peer.fit(X, y)
    solution = model.solution_
    return {
        "seconds": seconds,
        "iterations": solution.iterations,
        "gap": solution.relative_gap,
        "status": solution.status.value,
        "primal": solution.primal,
        "dual": solution.dual,
        "accuracy": model.score(X, y),
        "peer": peer.score(X, y),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--max-seconds", type=float, default=20.0)
    parser.add_argument("--without-intercept", action="store_true")
    chosen = parser.parse_args(arguments)
    intercept = not chosen.without_intercept
    rows, found = [], {}
    for name in chosen.sets:
        for label, oracle in oracles(load(name)[0].shape[1]).items():
            # Once for the compiler.
            measure(name, oracle, intercept, 1e-3)
            result = measure(name, oracle, intercept, chosen.max_seconds)
            found[f"{name} {label}"] = result
            rows.append(
                [
                    f"{name}, {label}",
                    f"{result['seconds']:.2f}",
                    result["iterations"],
                    f"{result['gap']:.1e}",
                    result["status"],
                    f"{100 * result['accuracy']:.1f}",
                    f"{100 * result['peer']:.1f}",
                ]
            )
            print(*rows[-1], flush=True)
    print(versions())
    print(table("Unscaled rows, C = 1: seconds, gap, and training accuracy", HEADERS, rows, key="fits"))
    write_record(
        chosen.record,
        "iris, wine, breast_cancer and digits of scikit-learn; 60 random images of 0 to 255",
    )


if __name__ == "__main__":
    main()
