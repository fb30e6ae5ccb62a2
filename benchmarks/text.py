"""Detection of edited spam at 1 % false positives: text classifiers and certificates.

The protocol is in `docs/evidence/security.md`. With ``--kinds``, classifiers that are trained for one
kind of edit are tested against all kinds, on the first draw of each unseen mailbox.
"""

from __future__ import annotations

import gzip
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from mail import ENRON, FILES, SPAMASSASSIN, load_mailboxes
from report import mean_text, parser_of, require, table, write_record
from sklearn.base import clone
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from structinv import InvariantTextClassifier, certify
from structinv.oracles import TokenEdits

PASSING, N_TRAIN, N_TEST = 0.01, 5000, 2500
# Spam of a fold that is attacked.
N_CHECKED = 300
KINDS = {"edit": "either", "drop": "deleted", "add": "inserted", "replace": "replaced"}
OURS = "InvariantTextClassifier"
FIXED, SETTING = f"{OURS}, one setting", "K 20, C 1, ham 3"
MAILBOXES = (*ENRON, SPAMASSASSIN)
LOOSE = {"tol": 2e-2, "max_seconds": 20, "only_for": "spam", "random_state": 0}
# Kinds against kinds: number of edits in training and test, C and weight of ham.
N_EDITS, KINDS_C, KINDS_HAM = 10, 1, 3


@dataclass(frozen=True)
class Draw:
    """Texts of training and test, with the part of each training text for folds."""

    texts: list[str]
    y: np.ndarray
    parts: np.ndarray
    tested: list[str]
    y_tested: np.ndarray

    def folds(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield places of training and of validation: one part each."""
        for part in np.unique(self.parts):
            yield np.flatnonzero(self.parts != part), np.flatnonzero(self.parts == part)


def sms(folder: Path) -> tuple[list[str], np.ndarray]:
    """Short messages without duplicates."""
    texts, labels, seen = [], [], set()
    with gzip.open(folder / "sms_spam" / "SMSSpamCollection.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            label, text = line.rstrip("\n").split("\t", 1)
            key = " ".join(text.lower().split())
            if key not in seen:
                seen.add(key)
                texts.append(text)
                labels.append(label.lower())
    return texts, np.array(labels)


@cache
def mails(folder: Path) -> dict[str, tuple[list[str], np.ndarray]]:
    """Mails of all mailboxes without duplicates."""
    boxes = load_mailboxes(folder)
    return {name: (box.texts, np.where(box.y > 0, "spam", "ham")) for name, box in boxes.items()}


def split(texts: list[str], y: np.ndarray, seed: int, n_train: float = 0.7, n_test: float = 0.3) -> Draw:
    """A random split into numbers or shares of texts, with three random folds."""
    train, test = train_test_split(
        np.arange(len(texts)), train_size=n_train, test_size=n_test, random_state=seed, stratify=y
    )
    parts = np.zeros(len(train), dtype=int)
    folds = StratifiedKFold(3, shuffle=True, random_state=seed).split(train, y[train])
    for part, (_, held) in enumerate(folds):
        parts[held] = part
    return Draw([texts[i] for i in train], y[train], parts, [texts[i] for i in test], y[test])


def unseen(boxes: dict[str, tuple[list[str], np.ndarray]], name: str, seed: int) -> Draw:
    """Mails of three mailboxes, and of the fourth one for the test."""
    rng = np.random.default_rng(seed)
    others = [other for other in MAILBOXES if other != name]
    texts = [text for other in others for text in boxes[other][0]]
    y = np.concatenate([boxes[other][1] for other in others])
    parts = np.repeat([0, 1, 2], [len(boxes[other][0]) for other in others])
    train = rng.permutation(len(texts))[:N_TRAIN]
    tested, y_tested = boxes[name]
    test = rng.permutation(len(tested))[:N_TEST]
    known = [texts[i] for i in train]
    return Draw(known, y[train], parts[train], [tested[i] for i in test], y_tested[test])


def draw_of(source: str, folder: Path, seed: int) -> Draw:
    """Texts of a source."""
    if source == "SMS":
        return split(*sms(folder), seed)
    if source == "known":
        boxes = mails(folder)
        texts = [text for name in MAILBOXES for text in boxes[name][0]]
        y = np.concatenate([boxes[name][1] for name in MAILBOXES])
        return split(texts, y, seed, N_TRAIN, N_TEST)
    return unseen(mails(folder), source, seed)


# Numbers of edits, and those of replacements.
SHORT, LONG = ((1, 3, 5), (1, 3)), ((5, 10, 20), (5, 10))
SOURCES = {**dict.fromkeys(MAILBOXES, LONG), "known": LONG, "SMS": SHORT}
# Random draws, if the command does not name their number.
DRAWS = {**dict.fromkeys(MAILBOXES, 3), "known": 2, "SMS": 3}


def columns_of(source: str) -> list[tuple[str, int]]:
    """Kinds and numbers of edits."""
    numbers, replaced = SOURCES[source]
    found = [(kind, most) for kind in ("edit", "drop", "add") for most in numbers]
    return [("drop", 0), *found, *(("replace", most) for most in replaced)]


def candidates(source: str) -> dict[str, dict[str, tuple[Any, Any]]]:
    """Unfitted vectorizers and classifiers by method and parameters; ours has its own vectorizer."""
    tfidf = {"binary": TfidfVectorizer(binary=True), "plain": TfidfVectorizer()}
    counts = {"binary counts": CountVectorizer(binary=True), "counts": CountVectorizer()}
    weights = [{"ham": ham, "spam": 1} for ham in (1, 10)]
    svc = {
        f"C {C}, ham {weight['ham']}": LinearSVC(C=C, class_weight=weight, random_state=0)
        for C in (0.1, 1, 10)
        for weight in weights
    }
    logistic = {
        f"C {C}, ham {weight['ham']}": LogisticRegression(C=C, class_weight=weight, max_iter=300)
        for C in (1, 10, 100)
        for weight in weights
    }
    bayes = {f"alpha {alpha}": MultinomialNB(alpha=alpha) for alpha in (0.01, 0.1, 1)}
    numbers, Cs = ((3, 5, 10), (0.3, 1, 3)) if source == "SMS" else ((20,), (0.3, 1))
    ours = {
        f"K {K}, C {C}, ham {ham}": InvariantTextClassifier(
            max_changes=K, C=C, class_weight={"ham": ham, "spam": 1}, **LOOSE
        )
        for K in numbers
        for C in Cs
        for ham in (1, 3, 10)
    }
    methods = {
        "LinearSVC": (tfidf, svc),
        "LogisticRegression": (tfidf, logistic),
        "MultinomialNB": ({**tfidf, **counts}, bayes),
    }
    found = {
        method: {
            f"{form}, {name}": (rows, model)
            for form, rows in forms.items()
            for name, model in some.items()
        }
        for method, (forms, some) in methods.items()
    }
    found[OURS] = {name: (None, model) for name, model in ours.items()}
    if source in MAILBOXES:
        found[FIXED] = {SETTING: found[OURS][SETTING]}
    return found


class Reader:
    """Vectorizers fitted to some texts, each once, with rows of these and of other texts."""

    def __init__(self, texts: list[str], ham: list[str]) -> None:
        self.texts, self.ham = texts, ham
        self._read: dict[int, tuple[Any, Any, Any]] = {}

    def fit(self, words: Any, model: Any, y: np.ndarray) -> tuple[Any, np.ndarray]:
        """Fit a classifier, and return it with the scores of spam of the other texts."""
        model = clone(model)
        if words is None:
            return model.fit(self.texts, y), model.decision_function(self.ham)
        if id(words) not in self._read:
            fitted = clone(words)
            rows = fitted.fit_transform(self.texts)
            self._read[id(words)] = fitted, rows, fitted.transform(self.ham)
        fitted, rows, others = self._read[id(words)]
        model.fit(rows, y)
        if hasattr(model, "decision_function"):
            return make_pipeline(fitted, model), model.decision_function(others)
        return make_pipeline(fitted, model), np.diff(model.predict_joint_log_proba(others))[:, 0]


def detections(
    model: Any, ham: np.ndarray, spam: list[str], edits: list[tuple[str, int]]
) -> tuple[np.ndarray, np.ndarray]:
    """Percentages of spam that is detected after the worst edits found, and after all edits."""
    threshold = np.sort(ham)[::-1][int(PASSING * len(ham))]
    shares = []
    for kind, most in edits:
        found = certify(model, TokenEdits(kind, most), spam, ["spam"] * len(spam))
        shares.append([np.mean(found.attacked > threshold), np.mean(found.margins > threshold)])
    return tuple(100 * np.array(shares).T)


def of_label(texts: list[str], y: np.ndarray, label: str) -> list[str]:
    """Texts with this label."""
    return [texts[place] for place in np.flatnonzero(y == label)]


def scores_of(
    words: Any, model: Any, folds: list[tuple[Any, np.ndarray, list[str]]], judged: list[tuple[str, int]]
) -> list[float]:
    """Mean detection of a model on each fold."""
    scores = []
    for reader, y, spam in folds:
        fitted, ham = reader.fit(words, model, y)
        scores.append(float(detections(fitted, ham, spam, judged)[0].mean()))
    return scores


def one_draw(source: str, folder: Path, seed: int) -> dict[str, dict[str, Any]]:
    """Choose the parameters of all methods, fit and test them."""
    draw, columns, found = draw_of(source, folder, seed), columns_of(source), {}
    judged = [("drop", 0), *(("edit", most) for most in SOURCES[source][0])]
    folds = []
    for train, held in draw.folds():
        known, checked = ([draw.texts[i] for i in places] for places in (train, held))
        ham, spam = (of_label(checked, draw.y[held], label) for label in ("ham", "spam"))
        folds.append((Reader(known, ham), draw.y[train], spam[:N_CHECKED]))
    for method, models in candidates(source).items():
        began, scores = time.perf_counter(), {}
        if len(models) > 1:
            scores = {name: scores_of(*one, folds, judged) for name, one in models.items()}
        # One setting has no choice.
        chosen = max(scores, key=lambda name: min(scores[name])) if scores else SETTING
        choosing, began = time.perf_counter() - began, time.perf_counter()
        reader = Reader(draw.texts, of_label(draw.tested, draw.y_tested, "ham"))
        fitted, ham = reader.fit(*models[chosen], draw.y)
        fitting = time.perf_counter() - began
        spam = of_label(draw.tested, draw.y_tested, "spam")
        attacked, certified = detections(fitted, ham, spam, columns)
        found[method] = {
            "chosen": chosen, "choosing": choosing, "fit": fitting, "scores": scores,
            "attacked": attacked, "certified": certified,
        }  # fmt: skip
        print(f"  {source}, {seed}: {method}, {chosen}, {choosing:.0f} s, {fitting:.1f} s,", end=" ")
        print(*(f"{value:.0f}" for value in attacked), flush=True)
    return found


def means(values: Any) -> list[str]:
    """Means with standard errors of the columns, if there is more than one row."""
    values = np.asarray(values)
    return [mean_text(one) if len(values) > 1 else f"{one[0]:.1f}" for one in values.T]


def show(
    title: str, key: str, columns: list[tuple[str, int]], groups: list[list[dict[str, Any]]]
) -> None:
    """Print detections, and the parameters with times and the slack of certificates.

    The errors are those of the means of the groups of runs.
    """
    runs = [run for group in groups for run in group]

    def row(name: str, method: str, what: str) -> list[str]:
        each = [np.mean([run[method][what] for run in group], axis=0) for group in groups]
        return [name, *means(each)]

    heads = [f"{KINDS[kind]} {most}" if most else "no edit" for kind, most in columns]
    rows = [row(method, method, "attacked") for method in runs[0]]
    ours = [method for method in (OURS, FIXED) if method in runs[0]]
    rows += [row(f"{method}, certified", method, "certified") for method in ours]
    print(table(title, ["", *heads], rows, key=key))
    rows = []
    for method in runs[0]:
        each = [run[method] for run in runs]
        slack = max(np.max(np.subtract(one["attacked"], one["certified"])) for one in each)
        times = [f"{np.mean([one[what] for one in each]):.1f}" for what in ("fit", "choosing")]
        names = [one["chosen"] for one in each]
        chosen = "; ".join(f"{name} ({names.count(name)})" for name in sorted(set(names)))
        rows.append([method, *times, f"{slack:.2f}", chosen])
    heads = ["fit, s", "choice, s", "attacked - certified, points", "chosen (draws)"]
    print(table(f"{title}: choices", ["", *heads], rows, key=f"{key}_choices"))


def kinds_of_one(draw: Draw) -> dict[str, np.ndarray]:
    """Detections of spam, by the kind of edit in training and in test."""
    ham, spam = (of_label(draw.tested, draw.y_tested, label) for label in ("ham", "spam"))
    columns, found = [("drop", 0), *((kind, N_EDITS) for kind in KINDS)], {}
    weight = {"ham": KINDS_HAM, "spam": 1}
    options = {**LOOSE, "C": KINDS_C, "class_weight": weight, "max_seconds": None}
    models = {kind: InvariantTextClassifier(kind, N_EDITS, **options) for kind in KINDS}
    linear = LinearSVC(C=0.1, class_weight={"ham": 10, "spam": 1}, random_state=0)
    plain = make_pipeline(TfidfVectorizer(binary=True), linear)
    for kind, model in {"LinearSVC": plain, **models}.items():
        model.fit(draw.texts, draw.y)
        attacked, certified = detections(model, model.decision_function(ham), spam, columns)
        slack = np.max(attacked - certified)
        name = f"{N_EDITS} {KINDS[kind]}" if kind in KINDS else kind
        print(f"  {name}:", *(f"{value:.1f}" for value in attacked), f"slack {slack:.2f}", flush=True)
        found[name] = np.array([*attacked, slack])
    return found


def show_kinds(names: list[str], folder: Path) -> None:
    """Print detections of models for one kind of edit against all kinds: means, and each mailbox."""
    runs = {}
    for name in names:
        print(name, flush=True)
        runs[name] = kinds_of_one(unseen(mails(folder), name, 0))
    heads = ["trained for", "no edit", *(f"{N_EDITS} {kind}" for kind in KINDS.values())]
    several = {"": runs, **{f", {name}": {name: run} for name, run in runs.items()}}
    for key, some in several.items():
        rows = [
            [trained, *means([run[trained][:-1] for run in some.values()])]
            for trained in next(iter(runs.values()))
        ]
        title = f"Spam detected at 1 % false positives after {N_EDITS} edits, %{key}"
        print(table(title, heads, rows, key=f"kinds{key.replace(', ', '_')}"))
    slack = max(float(one[-1]) for run in runs.values() for one in run.values())
    print(f"largest difference of attacked and certified detection: {slack:.2f} points")


def main() -> None:
    parser = parser_of(__doc__, list(SOURCES), data="enron_spam/ and spamassassin/")
    parser.add_argument("--kinds", action="store_true", help="one kind of edit against the others")
    parser.add_argument("--repeats", type=int, help="random draws of each source")
    options = parser.parse_args()
    require(options.data, FILES["enron"], FILES["spamassassin"])
    warnings.simplefilter("ignore")
    if options.kinds:
        names = [name for name in options.rows if name in MAILBOXES]
        show_kinds(names, options.data)
        data = "; ".join(f"unseen mailbox {name}" for name in names)
        write_record(options.record, f"{data}; duplicates removed", "random draws: 1 of each")
        return
    done: dict[str, Any] = {}
    planned = {source: options.repeats or DRAWS[source] for source in options.rows}
    for seed in range(max(planned.values())):
        for source in options.rows:
            if seed < planned[source]:
                done[f"{source} {seed}"] = one_draw(source, options.data, seed)
    runs = {
        source: [done[f"{source} {seed}"] for seed in range(number)]
        for source, number in planned.items()
    }
    for source, found in runs.items():
        title = f"{source}: spam detected at 1 % false positives, %; draws: {len(found)}"
        show(title, source.lower(), columns_of(source), [[run] for run in found])
    boxes = [found for source, found in runs.items() if source in MAILBOXES]
    if boxes:
        title = f"Unseen mailboxes: spam detected at 1 % false positives, %; mailboxes: {len(boxes)}"
        show(title, "unseen", columns_of(MAILBOXES[0]), boxes)
    names = {"SMS": "SMS spam collection", "known": "mails of four mailboxes"}
    data = "; ".join(names.get(source, f"unseen mailbox {source}") for source in runs)
    numbers = ", ".join(f"{len(found)} of {source}" for source, found in runs.items())
    write_record(options.record, f"{data}; duplicates removed", f"random draws: {numbers}")


if __name__ == "__main__":
    main()
