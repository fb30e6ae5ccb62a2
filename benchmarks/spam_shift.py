"""Spam filters on an unseen mailbox: accuracy, AUC and certified accuracy.

Each of four sources is held out in turn. A filter for an Enron mailbox is trained on the two others. A
filter for the SpamAssassin bodies, which are unlike them all, is trained on the three Enron mailboxes.
SpamAssassin is never trained on: it represents out-of-domain mail without labels. The protocol is in
`docs/evidence/security.md`.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from mail import (
    ENRON,
    FORMS,
    SPAMASSASSIN,
    Bags,
    Corpus,
    add_data_option,
    describe,
    load_mailboxes,
    require,
)
from report import add_record_option, mcnemar, table, versions, write_record
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
LAMBDAS = {
    "plain": {
        "log": (1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5),
        "counts": (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001),
    },
    "robust": {
        "log": (3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5),
        "counts": (1.0, 0.3, 0.1, 0.03, 0.01, 0.003),
    },
}
CHANGES = {"FDrop": (2, 5, 10, 20), "FScale": (5, 20)}
FACTORS = ((0.5, 2.0), (0.5, 8.0), (0.0, 2.0))

Params = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Setting:
    """The features of mails, and the use of an intercept."""

    form: str
    intercept: bool

    def __str__(self) -> str:
        form = {"counts": "raw counts", "log": "log counts of unit length"}[self.form]
        return f"{form}, {'with' if self.intercept else 'no'} intercept"


@dataclass(frozen=True)
class Effort:
    """Tolerances and time limits of a fit, and how many grid points are tried."""

    tuning_tol: float = 1e-2
    tuning_seconds: float = 20.0
    final_tol: float = 1e-3
    final_seconds: float = 60.0
    quick: bool = False
    jobs: int = 2


@dataclass
class Outcome:
    """A method on a held-out mailbox."""

    params: Params
    validated: float
    scores: np.ndarray = field(repr=False)
    accuracy: float
    auc: float
    gap: float = np.nan
    certified: dict[str, list[float]] = field(default_factory=dict)
    best: float = np.nan


def grid(method: str, form: str, quick: bool) -> list[Params]:
    """All parameters of a method that are tried."""
    if method == "MultinomialNB":
        return [(("alpha", alpha),) for alpha in (0.01, 0.1, 1.0)]
    lambdas = LAMBDAS["robust" if method in ROBUST else "plain"][form]
    lambdas = lambdas[1::2] if quick else lambdas
    if method not in ROBUST:
        return [(("lam", lam),) for lam in lambdas]
    changes = CHANGES[method][1:2] if quick else CHANGES[method]
    points = [(("lam", lam), ("max_changes", K)) for lam in lambdas for K in changes]
    if method == "FDrop":
        return points
    factors = FACTORS[:2] if quick else FACTORS
    return [(*point, ("low", low), ("high", high)) for point in points for low, high in factors]


def make(method: str, params: Params, n_mails: int, intercept: bool, tol: float, limit: float) -> Any:
    given = dict(params)
    if method == "MultinomialNB":
        return MultinomialNB(**given)
    C = 1.0 / (given.pop("lam") * n_mails)
    if method == "LinearSVC":
        return LinearSVC(loss="hinge", C=C, fit_intercept=intercept, random_state=0)
    oracle = {"hinge": None, "FDrop": FDrop, "FScale": FScale}[method]
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
    return float(np.mean((scores > 0) == (y > 0))), float(roc_auc_score(y, scores))


def training_mailboxes(held_out: str) -> tuple[str, ...]:
    """Return the training mailboxes of a filter for a held-out source."""
    return tuple(name for name in ENRON if name != held_out)


def without(names: Sequence[str], name: str) -> tuple[str, ...]:
    """All names but one."""
    return tuple(one for one in names if one != name)


def try_grid(
    corpus: Corpus, train: tuple[str, ...], setting: Setting, effort: Effort
) -> dict[tuple[str, Params], dict[str, tuple[float, float]]]:
    """Accuracy and AUC of every grid point on all sources that are not trained on."""
    others = [name for name in corpus.labels if name not in train]
    bags = corpus.bags(train, others, setting.form)
    points = [(method, one) for method in METHODS for one in grid(method, setting.form, effort.quick)]

    def one(method: str, params: Params) -> dict[str, tuple[float, float]]:
        limits = effort.tuning_tol, effort.tuning_seconds
        model = make(method, params, len(bags.y), setting.intercept, *limits)
        model.fit(bags.train, bags.y)
        return {name: quality(decision(model, X), y) for name, (X, y) in bags.others.items()}

    # Kernels and liblinear release the interpreter's lock.
    results = Parallel(n_jobs=effort.jobs, prefer="threads")(delayed(one)(*point) for point in points)
    return dict(zip(points, results, strict=True))


def choose(
    tried: Mapping, method: str, held_out: str, setting: Setting, quick: bool
) -> tuple[Params, float]:
    """Choose the grid point with the best mean accuracy over left-out mailboxes."""
    train = training_mailboxes(held_out)

    def worth(params: Params) -> tuple[float, float]:
        folds = [tried[without(train, left)][method, params][left] for left in train]
        accuracy, auc = np.mean(folds, axis=0)
        return accuracy, auc

    best = max(grid(method, setting.form, quick), key=worth)
    return best, worth(best)[0]


def fit_final(
    bags: Bags,
    held_out: str,
    method: str,
    chosen: tuple[Params, float],
    setting: Setting,
    effort: Effort,
) -> Outcome:
    """Train with the parameters chosen; measure and certify on the held-out source."""
    params, validated = chosen
    limits = effort.final_tol, effort.final_seconds
    model = make(method, params, len(bags.y), setting.intercept, *limits)
    model.fit(bags.train, bags.y)
    X, y = bags.others[held_out]
    scores = decision(model, X)
    outcome = Outcome(params, validated, scores, *quality(scores, y))
    if method in CERTIFIED:
        outcome.gap = model.solution_.relative_gap
        for kind, oracles in attacks().items():
            outcome.certified[kind] = [
                model.set_params(oracle=oracle).certify(X, y).accuracy for oracle in oracles
            ]
    return outcome


def attacks() -> dict[str, list[Any]]:
    """The edits that models are certified against, by kind."""
    return {
        "drop": [FDrop(K) for K in EDITS],
        "scale": [FScale(K, 0.5, 2.0) for K in EDITS],
    }


def run(
    corpus: Corpus, setting: Setting, effort: Effort, ceiling: bool
) -> dict[str, dict[str, Outcome]]:
    """Tune on the training mailboxes, then test on each held-out source."""
    folds = {
        without(training_mailboxes(held), left) for held in SOURCES for left in training_mailboxes(held)
    }
    whole = {training_mailboxes(held) for held in SOURCES} if ceiling else set()
    tried = {}
    for train in sorted(folds | whole, key=lambda names: (len(names), names)):
        tried[train] = try_grid(corpus, train, setting, effort)
        note(f"{setting}: tried all parameters on {' + '.join(train)}")
    results = {}
    for held in SOURCES:
        train = training_mailboxes(held)
        bags = corpus.bags(train, [held], setting.form)
        chosen = {one: choose(tried, one, held, setting, effort.quick) for one in METHODS}
        outcomes = Parallel(n_jobs=effort.jobs, prefer="threads")(
            delayed(fit_final)(bags, held, method, point, setting, effort)
            for method, point in chosen.items()
        )
        results[held] = dict(zip(METHODS, outcomes, strict=True))
        if ceiling:
            for method in METHODS:
                points = grid(method, setting.form, effort.quick)
                results[held][method].best = max(tried[train][method, one][held][0] for one in points)
        note(f"{setting}: tested on {held}")
    return results


def right_alone(reference: np.ndarray, other: np.ndarray, y: np.ndarray) -> tuple[int, int]:
    """Mails that only one of two methods gets right."""
    first, second = (reference > 0) == (y > 0), (other > 0) == (y > 0)
    return int(np.sum(first & ~second)), int(np.sum(second & ~first))


def show(params: Params) -> str:
    short = {"lam": "lambda", "max_changes": "K"}
    return " ".join(f"{short.get(name, name)}={value:g}" for name, value in params)


def print_tables(results: Mapping, setting: Setting, corpus: Corpus, ceiling: bool) -> None:
    """All tables of a setting."""
    head = ["held out", *METHODS]
    percent = [
        [held, *(f"{100 * one.accuracy:.2f} / {100 * one.auc:.2f}" for one in row.values())]
        for held, row in results.items()
    ]
    key = f"{setting.form}{'_intercept' if setting.intercept else ''}".replace(" ", "_")
    print(table(f"{setting}: accuracy / AUC, %", head, percent, key))
    print_parameters(results, f"{key}_parameters")
    print_mcnemar(results, corpus, f"{key}_mcnemar")
    for kind, title in (
        ("drop", "certified accuracy, %, K words dropped"),
        ("scale", "certified accuracy, %, K words scaled by 1/2 to 2"),
    ):
        print(table(title, ["held out, method", *(f"K={K}" for K in EDITS)], [
            [f"{held} {method}", *(f"{100 * share:.1f}" for share in row[method].certified[kind])]
            for held, row in results.items() for method in CERTIFIED
        ], f"{key}_certified_{kind}"))  # fmt: skip
    if ceiling:
        print(table(
            "best accuracy of the grid on the held-out source itself, %: not a result of a method;\n"
            "it shows the cost of the choice on other mailboxes",
            head,
            [
                [held, *(f"{100 * one.best:.2f}" for one in row.values())]
                for held, row in results.items()
            ],
            f"{key}_best_of_grid",
        ))  # fmt: skip


def print_parameters(results: Mapping, key: str) -> None:
    """Print chosen parameters, accuracies on left-out mailboxes, and gaps."""
    rows = [
        [f"{held} {method}", show(one.params), f"{100 * one.validated:.2f}", _gap(one.gap)]
        for held, row in results.items()
        for method, one in row.items()
    ]
    head = ["held out, method", "chosen", "accuracy left out, %", "gap"]
    print(table("parameters chosen on the training mailboxes, and the final fit", head, rows, key))


def _gap(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.1e}"


def print_mcnemar(results: Mapping, corpus: Corpus, key: str) -> None:
    """McNemar's exact test of the robust methods against plain hinge."""
    rows = []
    for held, row in results.items():
        for method in ROBUST:
            lost, won = right_alone(row["hinge"].scores, row[method].scores, corpus.labels[held])
            rows.append([f"{held} {method}", lost, won, f"{mcnemar(lost, won):.1e}"])
    head = ["held out, method", "only hinge right", "only this right", "p"]
    print(table("McNemar's test against hinge (exact, two-sided)", head, rows, key))


def note(text: str) -> None:
    """Progress, apart from the results."""
    print(f"[{time.perf_counter() - STARTED:6.0f} s] {text}", file=sys.stderr, flush=True)


def settings(forms: Iterable[str], intercept: str) -> list[Setting]:
    """Return the requested settings."""
    choices = {"no": (False,), "yes": (True,), "both": (False, True)}[intercept]
    return [Setting(form, with_one) for with_one in choices for form in forms]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_data_option(parser)
    parser.add_argument("--form", nargs="+", choices=FORMS, default=list(FORMS))
    parser.add_argument("--intercept", choices=("no", "yes", "both"), default="both")
    parser.add_argument("--quick", action="store_true", help="a small grid, for trying the script")
    parser.add_argument(
        "--ceiling", action="store_true", help="also tell the grid's best on the held-out source"
    )
    parser.add_argument("--tuning-tol", type=float, default=1e-2, help="relative gap while tuning")
    parser.add_argument("--jobs", type=int, default=2, help="fits at the same time")
    add_record_option(parser)
    return parser.parse_args()


def main() -> None:
    options = parse()
    require(options.data, "enron", SPAMASSASSIN)
    warnings.simplefilter("ignore")  # gaps are in the tables
    effort = Effort(tuning_tol=options.tuning_tol, quick=options.quick, jobs=options.jobs)
    boxes = load_mailboxes(options.data)
    print(f"{versions()}\n{describe(boxes)}\n")
    corpus = Corpus(boxes)
    note("mails read")
    for setting in settings(options.form, options.intercept):
        results = run(corpus, setting, effort, options.ceiling)
        print_tables(results, setting, corpus, options.ceiling)
    write_record(
        options.record,
        "enron1, enron2, enron3 (Metsis et al. 2006), SpamAssassin bodies; duplicates removed",
    )
    print(f"{time.perf_counter() - STARTED:.0f} s in all")


STARTED = time.perf_counter()

if __name__ == "__main__":
    main()
