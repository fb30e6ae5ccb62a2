"""Ridge classifier on features of many samples, and its table of errors."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from digits import Rows, folds_of
from report import mean_text, table
from sklearn.linear_model import RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

PENALTIES = (1e-4, 1e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0)


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


def error_of(train: Rows, test: Rows, penalty: float) -> float:
    """The share of wrong answers for other rows."""
    model = make_pipeline(StandardScaler(), RidgeClassifier(alpha=penalty * len(train[1])))
    return float(np.mean(model.fit(*train).predict(test[0]) != test[1]))


def held_out_errors(train: Rows, test: Rows) -> dict[float, float]:
    """The share of wrong answers for other rows, by penalty."""
    return {penalty: error_of(train, test, penalty) for penalty in PENALTIES}


def fit_ridge(train: Rows, test: Rows, seconds: float) -> Line:
    """Choose the penalty on the first fold; return errors of folds and test."""
    start = time.process_time()
    X, y = train
    parts = [((X[a], y[a]), (X[b], y[b])) for a, b in folds_of(y, 5, 0)]
    tried = held_out_errors(*parts[0])
    penalty = min(tried, key=tried.__getitem__)
    errors = [tried[penalty], *(error_of(*part, penalty) for part in parts[1:])]
    spent = time.process_time() - start
    error = error_of(train, test, penalty)
    return Line(X.shape[1], errors, error, len(test[1]), seconds, spent, {"penalty": penalty})


def print_table(title: str, found: dict[str, Line], key: str) -> None:
    """Errors with their standard errors."""
    headers = [
        "model",
        "features",
        "parameters",
        "error, folds, %",
        "error, test, %",
        "features, s",
        "model, s",
    ]
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
