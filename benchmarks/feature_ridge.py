"""Ridge classifier on features of many samples, and its table of errors."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from digits import Rows
from report import mean_text, table
from scipy import linalg
from sklearn.model_selection import StratifiedKFold

PENALTIES = (1e-4, 1e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0)
FOLDS = 5


@dataclass
class Line:
    """One classifier on one kind of features."""

    features: int
    folds: list[float]
    error: float
    tested: int
    seconds_features: float
    seconds_machine: float
    params: dict[str, float]


class FeatureRidge:
    """One-against-rest ridge for all folds, from one pass over the rows.

    `structinv.OrbitRidge` solves systems with a row for each image; here there are fewer columns.
    """

    def __init__(self, X: np.ndarray, y: np.ndarray, fold: np.ndarray) -> None:
        self.scale = 1.0 / np.maximum(X.std(axis=0, dtype=np.float64), 1e-12).astype(X.dtype)
        self.mean = X.mean(axis=0, dtype=np.float64).astype(X.dtype)
        targets = np.eye(y.max() + 1, dtype=X.dtype)[y]
        self.parts = []
        for number in range(FOLDS):
            A, Y = self.scaled(X[fold == number]), targets[fold == number]
            sums = (A.sum(axis=0, dtype=np.float64), Y.sum(axis=0, dtype=np.float64))
            self.parts.append((len(A), *sums, A.T @ A, A.T @ Y))

    def scaled(self, X: np.ndarray) -> np.ndarray:
        """Features with mean 0 and standard deviation 1 over all training rows."""
        return (X - self.mean) * self.scale

    def solve(self, penalty: float, without: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return weights and intercepts without one fold."""
        parts = [part for number, part in enumerate(self.parts) if number != without]
        count = sum(part[0] for part in parts)
        x, y = (sum(part[k] for part in parts) / count for k in (1, 2))
        gram = parts[0][3].astype(np.float64)
        for part in parts[1:]:
            gram += part[3]
        gram -= count * np.outer(x, x)
        gram[np.diag_indices(len(gram))] += penalty * count
        cross = sum(part[4].astype(np.float64) for part in parts) - count * np.outer(x, y)
        weights = linalg.solve(gram, cross, assume_a="pos", overwrite_a=True)
        return weights, y - x @ weights

    def predict(self, X: np.ndarray, solution: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        """The label of the largest score."""
        weights, intercepts = solution
        return np.argmax(self.scaled(X) @ weights.astype(X.dtype) + intercepts, axis=1)


def folds_of(y: np.ndarray) -> np.ndarray:
    """Return the fold of each row, stratified by class."""
    fold = np.empty(len(y), dtype=int)
    for number, (_, held) in enumerate(StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(y, y)):
        fold[held] = number
    return fold


def held_out_errors(train: Rows, test: Rows) -> dict[float, float]:
    """The share of wrong answers for other rows, by penalty."""
    ridge = FeatureRidge(*train, folds_of(train[1]))
    return {
        penalty: float(np.mean(ridge.predict(test[0], ridge.solve(penalty)) != test[1]))
        for penalty in PENALTIES
    }


def fit_ridge(train: Rows, test: Rows, seconds: float) -> Line:
    """Choose the penalty on the first fold; return errors of folds and test."""
    start = time.process_time()
    (X, y), fold = train, folds_of(train[1])
    ridge = FeatureRidge(X, y, fold)

    def held_error(penalty: float, number: int) -> float:
        held = fold == number
        return float(np.mean(ridge.predict(X[held], ridge.solve(penalty, number)) != y[held]))

    tried = {penalty: held_error(penalty, 0) for penalty in PENALTIES}
    penalty = min(tried, key=tried.__getitem__)
    errors = [tried[penalty], *(held_error(penalty, number) for number in range(1, FOLDS))]
    spent = time.process_time() - start
    error = float(np.mean(ridge.predict(test[0], ridge.solve(penalty)) != test[1]))
    return Line(X.shape[1], errors, error, len(test[1]), seconds, spent, {"penalty": penalty})


def print_table(title: str, found: dict[str, Line], key: str) -> None:
    """Errors with their standard errors."""
    headers = ["", "features", "parameters", "error, folds", "error, test", "features, s", "model, s"]
    rows = []
    for name, line in found.items():
        held = mean_text(100 * np.array(line.folds), ".2f")
        error = 100 * np.sqrt(line.error * (1 - line.error) / line.tested)
        params = ", ".join(f"{key} {value:g}" for key, value in line.params.items())
        rows.append([
            name, line.features, params, held, f"{100 * line.error:.2f} ± {error:.2f}",
            f"{line.seconds_features:.0f}", f"{line.seconds_machine:.0f}",
        ])  # fmt: skip
    print(table(title, headers, rows, key))
