"""Comparison with the Adversarial Robustness Toolbox (ART): errors of all features, breast cancer data.

Every feature may be off by 0.2 standard deviations. For a linear model, the fast gradient method of ART
with eps = 0.2 is the worst case. The protocol is in `docs/comparison.md`.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from art.attacks.evasion import FastGradientMethod
from art.estimators.classification import SklearnClassifier
from report import mean_text, parser_of, table, write_record
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import ParameterGrid, train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from structinv import InvariantLinearSVC, certify
from structinv.oracles import Box

RADIUS = 0.2
CS = [0.001, 0.01, 0.1, 1.0]
GRIDS = {
    "LinearSVC": ParameterGrid({"C": CS}),
    "ART, adversarial training": ParameterGrid({"C": CS, "rounds": [1, 5, 20]}),
    "InvariantLinearSVC": ParameterGrid({"C": CS}),
}


def attacked(model: Any, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The samples after ART's attack."""
    wrapped = SklearnClassifier(model=model)
    return FastGradientMethod(wrapped, eps=RADIUS).generate(x=X, y=np.eye(2)[y])


def fitted(method: str, setting: dict[str, Any], X: np.ndarray, y: np.ndarray) -> Any:
    """A model of this method."""
    if method == "InvariantLinearSVC":
        return InvariantLinearSVC(Box(RADIUS), random_state=0, **setting).fit(X, y)
    rounds, C = setting.get("rounds", 0), setting["C"]
    model = LinearSVC(C=C, loss="hinge", max_iter=100_000, random_state=0).fit(X, y)
    for _ in range(rounds):
        copies = attacked(model, X, y)
        model = LinearSVC(C=C, loss="hinge", max_iter=100_000, random_state=0)
        model.fit(np.vstack([X, copies]), np.r_[y, y])
    return model


def robust(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    """The accuracy after ART's attack, which needs one of its models: a LinearSVC with the weights."""
    if isinstance(model, InvariantLinearSVC):
        copy = LinearSVC()
        copy.coef_, copy.intercept_, copy.classes_ = model.coef_, model.intercept_, model.classes_
        model = copy
    return float(model.score(attacked(model, X, y), y))


def measured(method: str, seed: int) -> list[float]:
    """Clean, attacked and certified accuracy in percent, and seconds."""
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=seed)
    X_train, X_held, y_train, y_held = train_test_split(
        X, y, test_size=0.3, stratify=y, random_state=seed
    )
    train, held_out, test = (X_train, y_train), (X_held, y_held), (X_test, y_test)
    best = max(GRIDS[method], key=lambda setting: robust(fitted(method, setting, *train), *held_out))
    start = time.process_time()
    model = fitted(method, best, *train)
    seconds = time.process_time() - start
    certified = certify(model, Box(RADIUS), *test).accuracy
    return [100 * model.score(*test), 100 * robust(model, *test), 100 * certified, seconds]


def main() -> None:
    options = parser_of(__doc__, repeats=10).parse_args()
    measured("InvariantLinearSVC", 0)  # compile
    rows = []
    for method in GRIDS:
        runs = np.array([measured(method, seed) for seed in range(options.repeats)])
        rows.append([method, *map(mean_text, runs.T[:3]), f"{np.median(runs[:, 3]):.3f}"])
    headers = ["method", "clean, %", "attacked by ART, %", "certified, %", "fit, s"]
    print(table("Every feature off by 0.2 standard deviations", headers, rows, key="art"))
    write_record(options.record, "breast cancer data of scikit-learn", f"0 to {options.repeats - 1}")


if __name__ == "__main__":
    main()
