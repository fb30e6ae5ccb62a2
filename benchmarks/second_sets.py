"""Second data sets of texts for advice such as "another method is better".

Small runs; each part takes minutes. Parameters are chosen by three folds of the training samples.
`signals.py` and `noisy_faces.py` have second sets of images.

- added_words: SMS, binary words; an attacker adds words to spam. `FAdd` and weights >= 0.
- typos: SMS with mistyped words; training on mistyped text and `InvariantTextClassifier`.
- intercept: SMS; `InvariantTextClassifier` with and without an intercept, at a false-positive rate.
- source: SMS, filtered by models of the Enron mailboxes.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
from malware import MAX_FPR, Bounded
from report import mean_text, parser_of, table, write_record
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC
from text import detections, mails, of_label, sms, split

from structinv import InvariantLinearSVC, InvariantTextClassifier
from structinv.datasets import mistype
from structinv.inspection import security_curve
from structinv.oracles import FAdd

ADDED = 5
RATES = (0.0, 0.1, 0.2, 0.3)
Rows = tuple[Any, np.ndarray]


def detected(model: Any, test: Rows, sizes: Sequence[int]) -> np.ndarray:
    """Detection rates in percent after the worst additions."""
    curve = security_curve(
        {"it": model}, *test, oracle=FAdd(1), n_changes=sizes, label=1, max_fpr=MAX_FPR
    )
    return 100 * np.asarray(curve.detected["it"])


def added_words(options: Any) -> tuple[str, list[str], list[list[str]]]:
    """Compare linear models of binary words."""
    texts, labels = sms(options.data)
    y, found = (labels == "spam").astype(int), {}
    weights = tuple(product((0.1, 1.0), (1.0, 10.0)))
    makers: dict[str, list[Any]] = {
        "LinearSVC": [LinearSVC(C=C, class_weight={0: w, 1: 1.0}, max_iter=20_000) for C, w in weights],
        "weights >= 0": [Bounded(0.0, np.inf, C, w, tol=1e-3) for C, w in weights],
        "FAdd": [
            InvariantLinearSVC(
                FAdd(ADDED).only_for([1]), C=C, loss="squared_hinge", class_weight={0: w, 1: 1.0},
                tol=1e-2, max_seconds=20, random_state=0,
            )
            for C, w in weights
        ],
    }  # fmt: skip
    for seed in range(options.draws):
        parts = train_test_split(texts, y, test_size=0.3, stratify=y, random_state=seed)
        words = CountVectorizer(binary=True, dtype=np.float64, min_df=2).fit(parts[0])
        X, X_test = map(words.transform, parts[:2])
        folds = list(StratifiedKFold(3, shuffle=True, random_state=0).split(X, parts[2]))
        for name, models in makers.items():
            rates = [
                sum(
                    detected(clone(one).fit(X[a], parts[2][a]), (X[b], parts[2][b]), [ADDED])[0]
                    for a, b in folds
                )
                for one in models
            ]
            best = clone(models[int(np.argmax(rates))]).fit(X, parts[2])
            found.setdefault(name, []).append(detected(best, (X_test, parts[3]), [0, 2, ADDED, 10]))
    heads = ["model", "no edit", "2 added", f"{ADDED} added", "10 added"]
    rows = [[name, *map(mean_text, np.transpose(rates))] for name, rates in found.items()]
    title = f"SMS, binary words: detected spam at 1 % false positives, %, splits: {options.draws}"
    return f"{title}, after the worst added words", heads, rows


def accuracies(title: str, heads: Sequence[str], found: dict[Any, Any]) -> tuple[str, Any, Any]:
    """A table of accuracies in percent; `found` has lists of draws by model, then by column."""
    rows = [[name, *(mean_text(one) for one in columns.values())] for name, columns in found.items()]
    return title, list(heads), rows


def mistyped(texts: Sequence[str], rate: float, seed: int) -> list[str]:
    """Texts with mistyped words."""
    sentences = [text.split() for text in texts]
    return [" ".join(words) for words in mistype(sentences, rate, random_state=seed)]


def typos(options: Any) -> tuple[str, list[str], list[list[str]]]:
    """Compare plain, augmented and robust filters under typing errors."""
    texts, y = sms(options.data)
    found: dict[str, dict[float, list[float]]] = {}
    svm = LinearSVC(class_weight="balanced", max_iter=20_000)
    plain = make_pipeline(CountVectorizer(binary=True), svm)
    robust = InvariantTextClassifier(
        "replace", 1, CountVectorizer(binary=True), class_weight="balanced", fit_intercept=True,
        max_seconds=20, random_state=0,
    )  # fmt: skip
    for seed in range(options.draws):
        train, test, y_train, y_test = train_test_split(
            texts, y, test_size=0.3, stratify=y, random_state=seed
        )
        more = [*train, *mistyped(train, 0.2, 100 + seed)]
        fits = {
            "plain": (plain, "linearsvc__C", train, y_train),
            "trained on mistyped text": (plain, "linearsvc__C", more, np.tile(y_train, 2)),
            "InvariantTextClassifier, 1 replaced": (robust, "C", train, y_train),
        }
        for name, (model, C, seen, labels) in fits.items():
            search = GridSearchCV(model, {C: [0.01, 0.1, 1.0]}, scoring="balanced_accuracy", cv=3)
            search.fit(seen, labels)
            for rate in RATES:
                answers = search.predict(mistyped(test, rate, seed))
                right = [np.mean(answers[y_test == label] == label) for label in ("ham", "spam")]
                found.setdefault(name, {}).setdefault(rate, []).append(100 * float(np.mean(right)))
    heads = ["model", *(f"{100 * rate:.0f} % mistyped" for rate in RATES)]
    return accuracies(
        f"SMS with mistyped words: balanced accuracy, %, splits: {options.draws}", heads, found
    )


def intercept(options: Any) -> tuple[str, list[str], list[list[str]]]:
    """Compare filters with and without an intercept; the threshold has 1 % false positives."""
    models = {
        "TF-IDF, LinearSVC": make_pipeline(TfidfVectorizer(binary=True), LinearSVC()),
        "no intercept": InvariantTextClassifier(max_changes=5, C=3, only_for="spam", random_state=0),
        "intercept": InvariantTextClassifier(
            max_changes=5, C=3, only_for="spam", fit_intercept=True, random_state=0
        ),
    }
    found: dict[str, list[np.ndarray]] = {name: [] for name in models}
    for seed in range(options.draws):
        draw = split(*sms(options.data), seed)
        ham, spam = (of_label(draw.tested, draw.y_tested, label) for label in ("ham", "spam"))
        for name, model in models.items():
            fitted = clone(model).fit(draw.texts, draw.y)
            edits = [("drop", 0), ("edit", 3), ("edit", 5)]
            found[name].append(detections(fitted, fitted.decision_function(ham), spam, edits)[0])
    rows = [[name, *map(mean_text, np.transpose(rates))] for name, rates in found.items()]
    heads = ["model", "no edit", "3 edits", "5 edits"]
    return f"SMS: detected spam at 1 % false positives, %, splits: {options.draws}", heads, rows


def source(options: Any) -> tuple[str, list[str], list[list[str]]]:
    """Test filters of Enron mail on short messages."""
    boxes, (texts, y) = mails(options.data), sms(options.data)
    found: dict[str, dict[str, list[float]]] = {}
    for seed in range(options.draws):
        rng = np.random.default_rng(seed)
        known = [text for name in ("enron1", "enron2", "enron3") for text in boxes[name][0]]
        labels = np.concatenate([boxes[name][1] for name in ("enron1", "enron2", "enron3")])
        order = rng.permutation(len(known))
        train, held = order[:5000], order[5000:7500]
        models: dict[str, Any] = {
            "LinearSVC": make_pipeline(TfidfVectorizer(), LinearSVC()),
            "MultinomialNB": make_pipeline(CountVectorizer(), MultinomialNB()),
            "InvariantTextClassifier": InvariantTextClassifier(
                max_changes=5, only_for="spam", fit_intercept=True, max_seconds=60, random_state=0
            ),
        }
        for name, model in models.items():
            model.fit([known[i] for i in train], labels[train])
            for column, asked, truth in (
                ("Enron", [known[i] for i in held], labels[held]), ("SMS", texts, y)
            ):  # fmt: skip
                accuracy = 100 * np.mean(model.predict(asked) == truth)
                found.setdefault(name, {}).setdefault(column, []).append(float(accuracy))
    found["always ham"] = {"Enron": [100 * np.mean(labels == "ham")], "SMS": [100 * np.mean(y == "ham")]}
    title = (
        "Filters of 5000 Enron mails: accuracy on 2500 other Enron mails and on SMS, %, "
        f"draws: {options.draws}"
    )
    return accuracies(title, ["model", "Enron", "SMS"], found)


PARTS = {one.__name__: one for one in (added_words, typos, intercept, source)}


def main() -> None:
    parser = parser_of(__doc__, tuple(PARTS), data="sms_spam/ and enron_spam/")
    parser.add_argument("--draws", type=int, default=3)
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    for name in options.rows:
        began = time.perf_counter()
        title, heads, rows = PARTS[name](options)
        print(table(title, heads, rows, key=name), flush=True)
        print(f"{name}: {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
    write_record(
        options.record,
        "SMS spam collection; enron1 to enron3; duplicates removed",
        f"0 to {options.draws - 1}",
    )


if __name__ == "__main__":
    main()
