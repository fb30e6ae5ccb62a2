"""Tagging with many labels: parts of speech of CoNLL-2000, next to CRFsuite.

The labels are the 44 parts of speech, the features those of words alone (`conll_features`). Fits to the
first 1000 training sentences, tested on the 2012 test sentences. C, or the weight c2 of the squared
norm, is chosen on the last tenth of these sentences, from three or four values each. Then the model is
fitted to all of them. The protocol is in `docs/evidence/structured.md`.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import sklearn_crfsuite
from conll import FOLDER, timed
from report import parser_of, require, table, write_record
from sklearn.exceptions import ConvergenceWarning

from structinv import InvariantStructuredSVC
from structinv.datasets import conll_features, load_conll
from structinv.oracles import FDrop
from structinv.structures import Sequence as Chain

METHODS = ("CRFsuite", "structinv", "structinv, FDrop(1)")
WEIGHTS = {"CRFsuite": [0.001, 0.01, 0.1, 1.0]} | dict.fromkeys(METHODS[1:], [0.1, 1.0, 10.0])
SENTENCES, CERTIFIED = 1000, 200
Examples = list[list[list[str]]]
Labels = list[list[str]]


def fitted(method: str, weight: float, X: Examples, y: Labels) -> Any:
    """A model of this method."""
    if method == "CRFsuite":
        return sklearn_crfsuite.CRF(algorithm="lbfgs", c2=weight).fit(X, y)
    oracle, tol = (FDrop(1), 1e-1) if method.endswith("FDrop(1)") else (None, 1e-2)
    model = InvariantStructuredSVC(Chain(), oracle=oracle, C=weight, tol=tol, random_state=0)
    return model.fit(X, y)


def accuracy(model: Any, X: Examples, y: Labels) -> float:
    """Correct tokens in percent."""
    return 100 * float(np.mean(np.hstack(model.predict(X)) == np.hstack(y)))


def read(path: Any) -> tuple[Examples, Labels]:
    """Features of words, and parts of speech."""
    sentences, _ = load_conll(path)
    words = [[token[0] for token in sentence] for sentence in sentences]
    return conll_features(words), [[token[1] for token in sentence] for sentence in sentences]


def measured(method: str, train: tuple[Examples, Labels], test: tuple[Examples, Labels]) -> list[str]:
    """Chosen weight, correct and certified tokens in percent, and seconds."""
    X, y = train[0][:SENTENCES], train[1][:SENTENCES]
    held = SENTENCES - SENTENCES // 10
    scores = {
        weight: accuracy(fitted(method, weight, X[:held], y[:held]), X[held:], y[held:])
        for weight in WEIGHTS[method]
    }
    best = max(scores, key=lambda weight: scores[weight])
    model, seconds = timed(lambda: fitted(method, best, X, y))
    certified = ""
    if method != "CRFsuite":
        certificate = model.certify(test[0][:CERTIFIED], oracle=FDrop(1))
        certified = f"{100 * certificate.position_accuracy:.2f}"
    return [f"{best:g}", f"{accuracy(model, *test):.2f}", certified, f"{seconds:.1f}"]


def main() -> None:
    parser = parser_of(__doc__, data="conll2000/")
    options = parser.parse_args()
    files = FOLDER / "train.txt.xz", FOLDER / "test.txt.xz"
    require(options.data, *files)
    warnings.simplefilter("ignore", ConvergenceWarning)
    train, test = (read(options.data / file) for file in files)
    for method in METHODS:  # compile
        fitted(method, 0.1, train[0][:20], train[1][:20])
    rows = [[method, *measured(method, train, test)] for method in METHODS]
    headers = ["method", "C or c2", "correct, %", "certified unchanged, %", "fit, s"]
    n_labels = len({label for labels in train[1] for label in labels})
    title = (
        f"{n_labels} parts of speech, CoNLL-2000: correct and certified tokens of the test sentences, "
        "and seconds of a fit"
    )
    print(table(title, headers, rows, key="tags"))
    write_record(options.record, f"CoNLL-2000, {n_labels} parts of speech, 2012 sentences for testing")


if __name__ == "__main__":
    main()
