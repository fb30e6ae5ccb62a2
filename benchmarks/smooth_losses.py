"""Time of smooth losses without perturbations, compared with scikit-learn.

The protocol is in `docs/evidence/speed.md`.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from digits import load_mnist
from mail import FILES, Corpus, load_mailboxes
from report import Line, parser_of, require, show, versions
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC
from speed import TRAIN, take_turns
from threadpoolctl import threadpool_limits

from structinv import InvariantLinearSVC
from structinv.losses import Logistic, SquaredHinge

LOSSES = {"logistic": Logistic(), "squared_hinge": SquaredHinge()}
LAMBDAS = (1e-2, 1e-3, 1e-4)
ENOUGH = 1e-3
# The first tolerance that is tried; 1 for peers.
FIRST = {"ours": 0.1}
# Cholesky factors of more features take minutes.
MOST_FEATURES = 3000
ALL_ROWS = ("mail", "generated", "digits")
Make = Callable[[float], Any]


def rows_of(name: str, data: Path) -> tuple[Any, np.ndarray]:
    """Rows, and labels of -1 and 1."""
    if name == "mail":
        require(data, FILES["enron"])
        bags = Corpus(load_mailboxes(data, spamassassin=False)).bags(TRAIN, form="log")
        return bags.train, np.where(bags.y == bags.y.max(), 1, -1)
    if name == "digits":
        X, y = load_mnist(data, "train")
        pair = (y == 3) | (y == 5)
        return X[pair].astype(np.float64), np.where(y[pair] == 3, 1, -1)
    rng = np.random.default_rng(0)
    X, w = rng.standard_normal((20_000, 100)), rng.standard_normal(100)
    return X, np.where(X @ w / 10 + 0.5 * rng.standard_normal(len(X)) > 0, 1, -1)


def methods(loss: str, C: float, n_features: int) -> Iterator[tuple[str, Make]]:
    """Estimators of a tolerance: ours first, then the peers."""
    same: dict[str, Any] = {"C": C, "fit_intercept": False, "random_state": 0}
    yield "ours", partial(_tolerant, InvariantLinearSVC, loss=loss, **same)
    same = {**same, "max_iter": 1000}
    for dual in (True, False):
        name = f"liblinear, {'dual' if dual else 'primal'}"
        if loss == "squared_hinge":
            yield name, partial(_tolerant, LinearSVC, loss=loss, dual=dual, **same)
        else:
            yield name, partial(_tolerant, LogisticRegression, solver="liblinear", dual=dual, **same)
    if loss == "logistic":
        few = ("newton-cholesky",) if n_features <= MOST_FEATURES else ()
        for solver in ("lbfgs", "newton-cg", *few):
            yield solver, partial(_tolerant, LogisticRegression, solver=solver, **same)


def _tolerant(kind: Any, tol: float, **parameters: Any) -> Any:
    return kind(tol=tol, **parameters)


def value(model: Any, loss: str, C: float, X: Any, y: np.ndarray) -> float:
    """The objective at a model's weights."""
    w = model.coef_.ravel().astype(np.float64)
    return float(0.5 * w @ w + C * LOSSES[loss].value(y * (X @ w)).sum())


def loosest(
    make: Make, good: Callable[[Any], bool], first: float, X: Any, y: np.ndarray
) -> float | None:
    """Return the loosest sufficient tolerance, or None without one."""
    for halvings in range(14):
        tol = first * 0.5**halvings
        model = make(tol).fit(X, y)
        if good(model):
            return tol
        if np.max(model.n_iter_) >= 1000:
            break
    return None


def line_of(name: str, loss: str, lam: float, X: Any, y: np.ndarray, repeats: int) -> Line:
    """One line of the table."""
    C = 1.0 / (lam * len(y))
    found = dict(methods(loss, C, X.shape[1]))
    most = (1 + ENOUGH) * value(found["ours"](1e-6).fit(X, y), loss, C, X, y)

    def good(model: Any) -> bool:
        return value(model, loss, C, X, y) <= most

    tols = {who: loosest(make, good, FIRST.get(who, 1.0), X, y) for who, make in found.items()}
    ready = {who: found[who](tol) for who, tol in tols.items() if tol is not None}
    works = [partial(fit, model, X, y) for model in ready.values()]
    medians = dict(zip(ready, np.median(take_turns(works, repeats)[0], axis=0), strict=True))
    ours, (best, *_) = medians.pop("ours"), sorted(medians, key=medians.__getitem__)
    peers = ", ".join(f"{who} {seconds:.3g}" for who, seconds in medians.items())
    note = f"tol {tols['ours']:.2g}, {ready['ours'].n_iter_} passes; best {best}; all: {peers}"
    work = f"{name}, {loss}, lambda {lam:g}"
    return Line(work, ours, medians[best], ours / medians[best], note)


def fit(model: Any, X: Any, y: np.ndarray, _: int) -> None:
    """Fit the timed model."""
    model.fit(X, y)


def parse() -> argparse.Namespace:
    parser = parser_of(__doc__, ALL_ROWS, 5, data="enron_spam/ and spamassassin/")
    return parser.parse_args()


def main() -> None:
    options = parse()
    warnings.simplefilter("ignore")  # the objectives are compared, whatever the status
    threadpool_limits(1, user_api="blas")
    lines = []
    for name in options.rows:
        X, y = rows_of(name, options.data)
        for loss in LOSSES:
            for lam in LAMBDAS:
                lines.append(line_of(name, loss, lam, X, y, options.repeats))
                print(*lines[-1].cells(), lines[-1].note, sep="  ", flush=True)
    print(versions())
    show(
        f"Seconds of a fit without an oracle, medians of {options.repeats}",
        lines,
        options.record,
        "enron1 and enron2; 20000 generated rows of 100 features",
    )


if __name__ == "__main__":
    main()
