"""Comparison with scikit-learn: SVC on transformed copies, against InvariantSVC, on 8 x 8 digits.

Digits are shifted by a pixel in four directions or rotated by 10 degrees: seven variants, the digit
included. "SVC, copies" trains scikit-learn's SVC on all variants of all training digits. Each method
has the same grid for C and gamma. The choice is that of the best accuracy under all variants on 300
validation digits. The test set has the remaining digits.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from report import mean_text, parser_of, table, write_record
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import ParameterGrid, train_test_split
from sklearn.svm import SVC

from structinv import InvariantSVC
from structinv.oracles import Rotations, Shifts

MOVES = Shifts(1) | Rotations(degrees=[-10, 10])
GRID = ParameterGrid({"C": [1.0, 10.0, 100.0], "gamma": [0.05, 0.1, 0.2]})
TRAINING, VALIDATION = 150, 300
METHODS = ("SVC", "SVC, copies", "InvariantSVC")


def fitted(method: str, setting: dict[str, float], X: np.ndarray, y: np.ndarray) -> Any:
    """A model of this method."""
    if method == "InvariantSVC":
        return InvariantSVC(MOVES, random_state=0, **setting).fit(X, y)
    if method == "SVC, copies":
        copies = MOVES.orbit(X)
        return SVC(**setting).fit(copies.reshape(-1, X.shape[1]), np.repeat(y, copies.shape[1]))
    return SVC(**setting).fit(X, y)


def robust(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    """The fraction of samples with a correct prediction for every variant."""
    variants = MOVES.orbit(X)
    predicted = model.predict(variants.reshape(-1, X.shape[1])).reshape(variants.shape[:2])
    return float((predicted == y[:, None]).all(axis=1).mean())


def measured(method: str, seed: int) -> list[float]:
    """Error, robust and certified accuracy in percent, seconds and support vectors."""
    X, y = load_digits(return_X_y=True)
    X_train, X, y_train, y = train_test_split(
        X / 16, y, train_size=TRAINING, stratify=y, random_state=seed
    )
    held_out, test = (X[:VALIDATION], y[:VALIDATION]), (X[VALIDATION:], y[VALIDATION:])
    best = max(GRID, key=lambda setting: robust(fitted(method, setting, X_train, y_train), *held_out))
    start = time.process_time()
    model = fitted(method, best, X_train, y_train)
    seconds = time.process_time() - start
    is_ours = isinstance(model, InvariantSVC)
    certified = 100 * model.certify(*test).accuracy if is_ours else np.nan
    error = 100 * (1 - model.score(*test))
    return [error, 100 * robust(model, *test), certified, seconds, len(model.support_vectors_)]


def main() -> None:
    options = parser_of(__doc__, repeats=3).parse_args()
    warnings.simplefilter("error", ConvergenceWarning)
    for method in METHODS:  # compile
        fitted(method, {"C": 1.0, "gamma": 0.1}, np.eye(64), np.arange(64) % 10)
    rows = []
    for method in METHODS:
        runs = np.array([measured(method, seed) for seed in range(options.repeats)])
        certified = "none" if np.isnan(runs[:, 2]).any() else mean_text(runs[:, 2])
        texts = [mean_text(runs[:, 0]), mean_text(runs[:, 1]), certified]
        rows.append([method, *texts, f"{np.median(runs[:, 3]):.2f}", f"{runs[:, 4].mean():.0f}"])
    headers = ["method", "error, %", "robust, %", "certified, %", "fit, s", "support vectors"]
    print(table("Shifts and rotations of 8 x 8 digits", headers, rows, key="augmentation"))
    write_record(
        options.record, "8 x 8 digits of scikit-learn, 150 for training", f"0 to {options.repeats - 1}"
    )


if __name__ == "__main__":
    main()
