"""Comparison with CRFsuite: chains of labels on generated sentences.

Both methods get the same token features (`conll_features`). C, or the weight c2 of the squared norm, is
chosen on 60 validation sentences, from three values each. The measure is the fraction of sentences that
stay correct if any one feature of any one token is removed. It is found by trying all removals, on
validation and on test sentences. "certified" is the same fraction by a certificate of structinv.
Seconds are processor seconds of the last fit. It needs sklearn-crfsuite (MIT license).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import sklearn_crfsuite
from report import mean_text, parser_of, table, write_record

from structinv import InvariantStructuredSVC
from structinv.datasets import conll_features, make_tagged_text
from structinv.oracles import Budget, FDrop
from structinv.structures import Sequence as Chain

TRAINING, VALIDATION, TEST = 200, 60, 60
WEIGHTS = [0.01, 0.1, 1.0]
METHODS = ("CRFsuite", "structinv", "structinv, FDrop(1)")
Examples = Sequence[list[list[str]]]


def fitted(method: str, weight: float, X: Examples, y: Sequence[list[str]]) -> Any:
    """A model of this method."""
    if method == "CRFsuite":
        return sklearn_crfsuite.CRF(
            algorithm="lbfgs", c2=weight, max_iterations=1000, all_possible_transitions=True
        ).fit(X, y)
    oracle = FDrop(1) if method.endswith("FDrop(1)") else None
    return InvariantStructuredSVC(Chain("iob2"), oracle=oracle, C=weight, random_state=0).fit(X, y)


def removals(sentence: list[list[str]]) -> list[list[list[str]]]:
    """The sentence, and all sentences with one feature less."""
    variants = [sentence]
    for at, token in enumerate(sentence):
        for feature in range(len(token)):
            shorter = token[:feature] + token[feature + 1 :]
            variants.append(sentence[:at] + [shorter] + sentence[at + 1 :])
    return variants


def robust(model: Any, X: Examples, y: Sequence[list[str]]) -> float:
    """The fraction of sentences that are correct after every removal of one feature."""
    variants = [removals(sentence) for sentence in X]
    predicted = model.predict([one for each in variants for one in each])
    ends = np.cumsum([len(each) for each in variants])
    correct = [
        all(list(one) == truth for one in predicted[end - len(each) : end])
        for each, end, truth in zip(variants, ends, y, strict=True)
    ]
    return float(np.mean(correct))


def measured(method: str, seed: int) -> list[float]:
    """Token accuracy, correct sentences, robust and certified sentences in percent, and seconds."""
    sentences, labels = make_tagged_text(TRAINING + VALIDATION + TEST, random_state=seed)
    X, ends = conll_features(sentences), [0, TRAINING, TRAINING + VALIDATION, len(sentences)]
    train, held_out, test = (
        (X[start:stop], labels[start:stop]) for start, stop in zip(ends[:-1], ends[1:], strict=True)
    )
    best = max(WEIGHTS, key=lambda weight: robust(fitted(method, weight, *train), *held_out))
    start = time.process_time()
    model = fitted(method, best, *train)
    seconds = time.process_time() - start
    predicted = [list(one) for one in model.predict(test[0])]
    whole = np.mean([one == two for one, two in zip(predicted, test[1], strict=True)])
    certified = np.nan
    if method != "CRFsuite":
        certified = 100 * model.certify(*test, oracle=Budget(FDrop(1))).accuracy
    accuracy = np.mean(np.hstack(predicted) == np.hstack(test[1]))
    return [100 * accuracy, 100 * whole, 100 * robust(model, *test), certified, seconds]


def main() -> None:
    options = parser_of(__doc__, repeats=3).parse_args()
    sentences, labels = make_tagged_text(20, random_state=0)
    for method in METHODS:  # compile
        fitted(method, 0.1, conll_features(sentences), labels)
    rows = []
    for method in METHODS:
        runs = np.array([measured(method, seed) for seed in range(options.repeats)])
        certified = "none" if np.isnan(runs[:, 3]).any() else mean_text(runs[:, 3])
        rows.append([method, *map(mean_text, runs.T[:3]), certified, f"{np.median(runs[:, 4]):.2f}"])
    headers = ["method", "tokens, %", "sentences, %", "robust, %", "certified, %", "fit, s"]
    print(table("One removed feature of a sentence", headers, rows, key="crfsuite"))
    write_record(options.record, "generated sentences, 200 for training", f"0 to {options.repeats - 1}")


if __name__ == "__main__":
    main()
