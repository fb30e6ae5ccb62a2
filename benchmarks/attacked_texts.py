"""Models without certificates under edits of the text: boosted trees of characters and of words.

SMS spam collection without duplicates, 70/30 splits by seed. A message is detected if its score is at
least the lowest threshold with at most 1 % false positives on the ham of the test part. The protocol is
in `docs/evidence/security.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from report import mean_text, parser_of, table, write_record
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from text import sms

from structinv import InvariantTextClassifier, certify
from structinv.model_selection import certified_accuracy_scorer
from structinv.oracles import TokenEdits

ATTACKED, CANDIDATES, MAX_FPR = 100, 100, 0.01
EDITS = {"deleted": 3, "inserted": 10}


def trees(**options: Any) -> Any:
    """Unfitted boosted trees of counted n-grams."""
    dense = FunctionTransformer(sp.csr_matrix.toarray, accept_sparse=True)
    words = CountVectorizer(max_features=2000, **options)
    return make_pipeline(words, dense, HistGradientBoostingClassifier(random_state=0))


def robust(texts: list[str], y: np.ndarray) -> Any:
    """The robust model with the chosen C."""
    model = InvariantTextClassifier(
        "add", 10, CountVectorizer(binary=True), only_for="spam", fit_intercept=True, random_state=0
    )
    scorer = certified_accuracy_scorer(TokenEdits("add", 10).only_for("spam"))
    search = GridSearchCV(model, {"C": [0.01, 0.1, 1.0]}, scoring=scorer, cv=3)
    return search.fit(texts, y).best_estimator_


METHODS: dict[str, Callable[[list[str], np.ndarray], Any]] = {
    "trees, characters": lambda texts, y: trees(analyzer="char_wb", ngram_range=(2, 4)).fit(texts, y),
    "trees, words": lambda texts, y: trees().fit(texts, y),
    "InvariantTextClassifier": robust,
}


def hammy_words(texts: list[str], y: np.ndarray) -> list[str]:
    """Words with the largest excess of ham over spam messages."""
    words = CountVectorizer(binary=True)
    X = words.fit_transform(texts)
    rates = [np.asarray(X[y == label].mean(axis=0)).ravel() for label in ("ham", "spam")]
    order = np.argsort(rates[1] - rates[0])[:CANDIDATES]
    return words.get_feature_names_out()[order].tolist()


def deletions(text: str) -> list[str]:
    """The text without each of its words."""
    words = text.split()
    return [" ".join(words[:at] + words[at + 1 :]) for at in range(len(words))]


def attacked(model: Any, text: str, edits: Callable[[str], list[str]], steps: int) -> float:
    """The lowest score that the greedy attack finds."""
    score = float(model.decision_function([text])[0])
    for _ in range(steps):
        variants = edits(text)
        if not variants:
            break
        scores = model.decision_function(variants)
        if scores.min() >= score:
            break
        text, score = variants[int(np.argmin(scores))], float(scores.min())
    return score


def one_split(texts: list[str], y: np.ndarray, seed: int) -> dict[str, list[float]]:
    """AUC and rates in percent, by method."""
    train, test, y_train, y_test = train_test_split(
        texts, y, test_size=0.3, stratify=y, random_state=seed
    )
    added, found = hammy_words(train, y_train), {}
    spam = [text for text, label in zip(test, y_test, strict=True) if label == "spam"][:ATTACKED]
    edits = {"deleted": deletions, "inserted": lambda text: [f"{text} {word}" for word in added]}
    for method, fitted in METHODS.items():
        model = fitted(train, y_train)
        scores = model.decision_function(test)
        falling = np.sort(scores[y_test == "ham"])[::-1]
        threshold = float(np.nextafter(falling[int(MAX_FPR * len(falling))], np.inf))
        rates = [np.mean(model.decision_function(spam) >= threshold)]
        for name, steps in EDITS.items():
            worst = [attacked(model, text, edits[name], steps) for text in spam]
            rates.append(np.mean(np.array(worst) >= threshold))
        if method == "InvariantTextClassifier":
            head = FixedThresholdClassifier(
                FrozenEstimator(model),
                threshold=threshold,
                pos_label="spam",
                response_method="decision_function",
            ).fit(train, y_train)
            certificate = certify(head, TokenEdits("add", 10), spam, np.repeat("spam", len(spam)))
            rates.append(certificate.accuracy)
        found[method] = [roc_auc_score(y_test == "spam", scores), *(100 * np.array(rates))]
        print(seed, method, *(f"{each:.3f}" for each in found[method]), flush=True)
    return found


def main() -> None:
    parser = parser_of(__doc__, repeats=3, data="enron_spam/ and spamassassin/")
    options = parser.parse_args()
    texts, y = sms(options.data)
    splits = [one_split(texts, y, seed) for seed in range(options.repeats)]
    rows = []
    for method in METHODS:
        areas, *rates = zip(*(split[method] for split in splits), strict=True)
        cells = [*map(mean_text, rates), *[""] * (4 - len(rates))]
        rows.append([method, mean_text(areas, ".3f"), *cells])
    headers = ["method", "AUC", "no edit", *(f"{n} {name}" for name, n in EDITS.items())]
    headers.append(f"certified, {EDITS['inserted']} inserted")
    print(table("AUC, and detected spam after edits of its text, %", headers, rows, "detected"))
    write_record(options.record, "SMS spam collection", f"splits 0 to {options.repeats - 1}")


if __name__ == "__main__":
    main()
