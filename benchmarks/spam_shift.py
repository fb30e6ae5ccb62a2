"""Spam filters on an unseen mailbox: accuracy, AUC and certified accuracy.

Each of four sources is held out in turn. A filter for an Enron mailbox is trained on the two others. A
filter for the SpamAssassin bodies, which are unlike them all, is trained on the three Enron mailboxes.
SpamAssassin is never trained on: it represents out-of-domain mail without labels. Rows are raw counts.
The protocol is in `docs/evidence/security.md`.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from mail import ENRON, FILES, SPAMASSASSIN, Bags, Corpus, describe, load_mailboxes
from report import mcnemar, parser_of, require, table, versions, write_record
from sklearn.metrics import roc_auc_score
from sklearn.naive_bayes import MultinomialNB
from sklearn.svm import LinearSVC

from structinv import InvariantLinearSVC
from structinv.oracles import FDrop, FScale

SOURCES = (*ENRON, SPAMASSASSIN)
METHODS = ("hinge", "FDrop", "FScale", "LinearSVC", "MultinomialNB")
ROBUST = ("FDrop", "FScale")
CERTIFIED = ("hinge", *ROBUST)
EDITS = (0, 1, 2, 5, 10, 20, 50)
# Models without another parameter have a wider grid of lambda.
LAMBDAS = {
    "plain": (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001),
    "robust": (1.0, 0.3, 0.1, 0.03, 0.01, 0.003),
}
CHANGES = {"FDrop": (2, 5, 10, 20), "FScale": (5, 20)}
FACTORS = ((0.5, 2.0), (0.5, 8.0), (0.0, 2.0))
# Tolerance and seconds of fits for the choice, and of the last fit.
TUNING, FINAL = (1e-2, 20.0), (1e-3, 60.0)

Params = tuple[tuple[str, Any], ...]


@dataclass
class Outcome:
    """A method on a held-out mailbox; `certified` has a share for each number of dropped words."""

    scores: np.ndarray
    accuracy: float
    auc: float
    certified: list[float] = field(default_factory=list)


def grid(method: str) -> list[Params]:
    """All parameters of a method that are tried."""
    if method == "MultinomialNB":
        return [(("alpha", alpha),) for alpha in (0.01, 0.1, 1.0)]
    lambdas = LAMBDAS["robust" if method in ROBUST else "plain"]
    if method not in ROBUST:
        return [(("lam", lam),) for lam in lambdas]
    points = [(("lam", lam), ("max_changes", K)) for lam in lambdas for K in CHANGES[method]]
    if method == "FDrop":
        return points
    return [(*point, ("low", low), ("high", high)) for point in points for low, high in FACTORS]


def make(method: str, params: Params, n_mails: int, intercept: bool, effort: tuple[float, float]) -> Any:
    """An unfitted classifier."""
    given = dict(params)
    if method == "MultinomialNB":
        return MultinomialNB(**given)
    C = 1.0 / (given.pop("lam") * n_mails)
    if method == "LinearSVC":
        return LinearSVC(loss="hinge", C=C, fit_intercept=intercept, random_state=0)
    oracle = {"hinge": None, "FDrop": FDrop, "FScale": FScale}[method]
    tol, limit = effort
    return InvariantLinearSVC(
        oracle and oracle(**given), C=C, tol=tol, max_seconds=limit, fit_intercept=intercept,
        random_state=0,
    )  # fmt: skip


def decision(model: Any, X: Any) -> np.ndarray:
    """Scores, positive for spam."""
    if isinstance(model, MultinomialNB):
        ham, spam = model.predict_joint_log_proba(X).T
        return spam - ham
    return model.decision_function(X)


def quality(scores: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Accuracy and AUC."""
    return float(np.mean((scores > 0) == (y > 0))), float(roc_auc_score(y, scores))


def without(names: tuple[str, ...], name: str) -> tuple[str, ...]:
    """All names but one."""
    return tuple(one for one in names if one != name)


def try_grid(
    corpus: Corpus, train: tuple[str, ...], intercept: bool, jobs: int
) -> dict[tuple[str, Params], dict[str, tuple[float, float]]]:
    """Accuracy and AUC of every grid point on all sources that are not trained on."""
    bags = corpus.bags(train, [name for name in corpus.labels if name not in train], "counts")
    points = [(method, one) for method in METHODS for one in grid(method)]

    def one(method: str, params: Params) -> dict[str, tuple[float, float]]:
        model = make(method, params, len(bags.y), intercept, TUNING)
        model.fit(bags.train, bags.y)
        return {name: quality(decision(model, X), y) for name, (X, y) in bags.others.items()}

    # Kernels and liblinear release the interpreter's lock.
    results = Parallel(n_jobs=jobs, prefer="threads")(delayed(one)(*point) for point in points)
    return dict(zip(points, results, strict=True))


def choose(tried: Mapping, method: str, train: tuple[str, ...]) -> Params:
    """The grid point with the best mean accuracy over left-out mailboxes; of equal ones the best AUC."""

    def worth(params: Params) -> tuple[float, float]:
        folds = [tried[without(train, left)][method, params][left] for left in train]
        return tuple(np.mean(folds, axis=0))

    return max(grid(method), key=worth)


def fit_final(bags: Bags, held_out: str, method: str, params: Params, intercept: bool) -> Outcome:
    """Train with the parameters chosen; measure and certify on the held-out source."""
    model = make(method, params, len(bags.y), intercept, FINAL)
    model.fit(bags.train, bags.y)
    X, y = bags.others[held_out]
    scores = decision(model, X)
    outcome = Outcome(scores, *quality(scores, y))
    if method in CERTIFIED:
        outcome.certified = [model.set_params(oracle=FDrop(K)).certify(X, y).accuracy for K in EDITS]
    return outcome


def run(corpus: Corpus, intercept: bool, jobs: int) -> dict[str, dict[str, Outcome]]:
    """Tune on the training mailboxes, then test on each held-out source."""
    trains = {held: without(ENRON, held) for held in SOURCES}
    tried = {}
    for train in sorted({without(names, left) for names in trains.values() for left in names}):
        tried[train] = try_grid(corpus, train, intercept, jobs)
        note(f"tried all parameters on {' + '.join(train)}")
    results = {}
    for held, train in trains.items():
        bags = corpus.bags(train, [held], "counts")
        outcomes = Parallel(n_jobs=jobs, prefer="threads")(
            delayed(fit_final)(bags, held, method, choose(tried, method, train), intercept)
            for method in METHODS
        )
        results[held] = dict(zip(METHODS, outcomes, strict=True))
        note(f"tested on {held}")
    return results


def print_tables(results: Mapping, intercept: bool, corpus: Corpus) -> None:
    """Accuracies, McNemar's exact test of the robust methods against plain hinge, and certificates."""
    name, key = ("an intercept", "counts_intercept") if intercept else ("intercept", "counts")
    name = f"{'with' if intercept else 'no'} {name}"
    percent = [
        [held, *(f"{100 * one.accuracy:.2f} / {100 * one.auc:.2f}" for one in row.values())]
        for held, row in results.items()
    ]
    print(table(f"Accuracy / AUC, %, raw counts, {name}", ["held out", *METHODS], percent, key))
    rows = []
    for held, row in results.items():
        plain = (row["hinge"].scores > 0) == (corpus.labels[held] > 0)
        for method in ROBUST:
            right = (row[method].scores > 0) == (corpus.labels[held] > 0)
            lost, won = int(np.sum(plain & ~right)), int(np.sum(right & ~plain))
            rows.append([f"{held} {method}", lost, won, f"{mcnemar(lost, won):.1e}"])
    head = ["held out, method", "only hinge right", "only this right", "p"]
    title = (
        f"Mails that one of two classifies correctly, {'with' if intercept else 'without'} an intercept "
        "(exact McNemar test against the plain hinge)"
    )
    print(table(title, head, rows, f"{key}_mcnemar"))
    rows = [
        [f"{held} {method}", *(f"{100 * share:.1f}" for share in row[method].certified)]
        for held, row in results.items()
        for method in CERTIFIED
    ]
    head = ["held out, method", *(f"K={K}" for K in EDITS)]
    print(table("Certified accuracy, %, after any K dropped words", head, rows, f"{key}_certified_drop"))


def note(text: str) -> None:
    """Progress, apart from the results."""
    print(f"[{time.perf_counter() - STARTED:6.0f} s] {text}", file=sys.stderr, flush=True)


def main() -> None:
    parser = parser_of(__doc__, data="enron_spam/ and spamassassin/")
    parser.add_argument("--jobs", type=int, default=2, help="fits at the same time")
    options = parser.parse_args()
    require(options.data, FILES["enron"], FILES[SPAMASSASSIN])
    warnings.simplefilter("ignore")
    boxes = load_mailboxes(options.data)
    print(f"{versions()}\n{describe(boxes)}\n")
    corpus = Corpus(boxes)
    for intercept in (False, True):
        print_tables(run(corpus, intercept, options.jobs), intercept, corpus)
    write_record(
        options.record,
        "enron1, enron2, enron3 (Metsis et al. 2006), SpamAssassin bodies; duplicates removed",
    )


STARTED = time.perf_counter()

if __name__ == "__main__":
    main()
