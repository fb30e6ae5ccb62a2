"""Boosted trees against an attacker who adds features: detection rates beside linear models.

The Android apps of DefenseDroid, splits and thresholds of `malware.py`: an app is detected if its score
is at least the lowest threshold with at most 1 % false positives on the benign test apps. Features that
fewer than ten training apps have are left out, for all methods. The protocol is in
`docs/evidence/security.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import scipy.sparse as sp
from malware import BENIGN, CS, MAX_FPR, Setting, detected, load, split_rows
from report import mean_text, parser_of, table, write_record
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold

N_ADDED, N_ATTACKED, FEWEST_APPS = 10, 300, 10
SHOWN = (0, 2, 5, 10)
Make = Callable[[], Any]


def trees(n_features: int, leaves: int, benign: float, monotone: bool) -> Any:
    return HistGradientBoostingClassifier(
        max_leaf_nodes=leaves,
        max_iter=200,
        class_weight={0: benign, 1: 1.0},
        monotonic_cst=[1] * n_features if monotone else None,
        random_state=0,
    )


def tried(method: str, n_features: int) -> list[Make]:
    """All settings of a method."""
    if method.startswith("boosted"):
        monotone = method.endswith("monotone")
        grid = product((15, 31), (1.0, 10.0))
        return [partial(trees, n_features, *each, monotone) for each in grid]
    changes = N_ADDED if method == "FAdd" else 0
    grid = product(CS, BENIGN)
    return [partial(Setting(method, *each, changes=changes).make, tol=1e-2) for each in grid]


METHODS = ("boosted trees", "boosted trees, monotone", "LinearSVC", "FAdd")


def threshold(model: Any, X: Any, y: np.ndarray) -> float:
    """The lowest threshold with at most 1 % false positives."""
    falling = np.sort(model.decision_function(X[y == 0]))[::-1]
    return float(np.nextafter(falling[int(MAX_FPR * len(falling))], np.inf))


def score_of(method: str, model: Any, X: Any, y: np.ndarray) -> float:
    """Detection rate for which parameters are chosen."""
    if method == "FAdd":
        return detected(model, sp.csr_matrix(X), y, [N_ADDED])[0]
    return float(np.mean(model.decision_function(X[y == 1]) >= threshold(model, X, y)))


def chosen(method: str, X: np.ndarray, y: np.ndarray) -> Any:
    """The model with the setting that detects most on folds, fitted to all rows."""
    folds = list(StratifiedKFold(2, shuffle=True, random_state=0).split(X, y))
    makes = tried(method, X.shape[1])
    scores = [
        sum(score_of(method, make().fit(X[a], y[a]), X[b], y[b]) for a, b in folds) for make in makes
    ]
    return makes[int(np.argmax(scores))]().fit(X, y)


def attacked(model: Any, X: np.ndarray) -> np.ndarray:
    """Scores of apps after 0 to `N_ADDED` greedy additions, of shape (N_ADDED + 1, n_apps)."""
    scores = np.repeat(model.decision_function(X)[None], N_ADDED + 1, axis=0)
    for app, row in enumerate(X.copy()):
        for step in range(1, N_ADDED + 1):
            absent = np.flatnonzero(row == 0)
            edited = np.repeat(row[None], len(absent), axis=0)
            edited[np.arange(len(absent)), absent] = 1.0
            found = model.decision_function(edited)
            best = np.argmin(found)
            if found[best] >= scores[step - 1, app]:
                scores[step:, app] = scores[step - 1, app]
                break
            row[absent[best]], scores[step:, app] = 1.0, found[best]
    return scores


def one_split(X: sp.csr_matrix, y: np.ndarray, seed: int) -> dict[str, list[float]]:
    """AUC and detection rates in percent, by method."""
    train, test = split_rows(len(y), seed)
    used = np.asarray((X[train] > 0).sum(axis=0)).ravel() >= FEWEST_APPS
    rows, found = X[:, used].toarray(), {}
    held, labels = rows[test], y[test]
    for method in METHODS:
        model = chosen(method, rows[train], y[train])
        scores = attacked(model, held[labels == 1][:N_ATTACKED])
        rates = np.mean(scores >= threshold(model, held, labels), axis=1)
        area = roc_auc_score(labels, model.decision_function(held))
        found[method] = [area, *(100 * rates[list(SHOWN)])]
        print(seed, method, *(f"{each:.3f}" for each in found[method]), int(used.sum()), flush=True)
    return found


def main() -> None:
    parser = parser_of(__doc__, repeats=3, data="malware/")
    options = parser.parse_args()
    X, y = load(options.data)
    splits = [one_split(X, y, seed) for seed in range(options.repeats)]
    rows = []
    for method in METHODS:
        areas, *rates = zip(*(split[method] for split in splits), strict=True)
        rows.append([method, mean_text(areas, ".3f"), *map(mean_text, rates)])
    headers = ["method", "AUC", *(f"K = {size}" for size in SHOWN)]
    print(table("AUC and detection rate of malware that adds K features, %", headers, rows, "detected"))
    write_record(options.record, "DefenseDroid", f"splits 0 to {options.repeats - 1}")


if __name__ == "__main__":
    main()
