"""Times of fits and certificates for edits of texts.

Fits are those of `InvariantTextClassifier` with its default rows on 3600 short messages and 4000 mails
of enron1, to a relative gap of 1e-2. Only spam is edited. Certificates are those of a Pipeline of
`TfidfVectorizer` and `LinearSVC` for 1548 messages and 2500 mails, which is fitted to the others. Every
time is the shortest one of three, after a first run that loads compiled functions.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from attacked_pipelines import enron
from mail import FILES
from report import parser_of, require, table, write_record
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC
from speed import take_turns
from text import sms

from structinv import InvariantTextClassifier, certify
from structinv.oracles import TokenEdits

K, REPEATS, ONE_BY_ONE = 5, 3, 20
KINDS = {"drop": "deleted", "add": "inserted", "edit": "deleted or inserted", "replace": "replaced"}


def shortest(work: Callable[[], Any]) -> tuple[float, Any]:
    """The shortest time of a function after a first call, and its result."""
    seconds, found = take_turns([lambda _: work()], REPEATS + 1)
    return float(seconds[1:].min()), found[-1][0]


def mixed(texts: list[str], y: np.ndarray) -> tuple[list[str], np.ndarray]:
    """Texts in random sequence."""
    order = np.random.default_rng(0).permutation(len(texts))
    return [texts[i] for i in order], y[order]


def sources(folder: Path) -> Iterator[tuple[str, list[str], np.ndarray, int, int]]:
    """Names, texts, labels, and numbers of texts for training and for certificates."""
    yield "short messages", *mixed(*sms(folder)), 3600, 1548
    yield "mails", *mixed(*enron(folder)), 4000, 2500


def main() -> None:
    parser = parser_of(__doc__, data="enron_spam/ and spamassassin/")
    options = parser.parse_args()
    require(options.data, FILES["enron"])
    warnings.simplefilter("ignore")
    fits, certificates = [], []
    for name, texts, y, n_train, n_tested in sources(options.data):
        known, labels = texts[:n_train], y[:n_train]
        for edit in ("drop", "edit"):
            model = InvariantTextClassifier(edit, K, only_for="spam", random_state=0)
            seconds, fitted = shortest(lambda model=model: model.fit(known, labels))  # noqa: B023
            fits.append([f"{n_train} {name}, {K} {KINDS[edit]}", f"{seconds:.2f}", fitted.n_iter_])
        pipeline = make_pipeline(TfidfVectorizer(), LinearSVC())
        pipeline.fit(texts[:-n_tested], y[:-n_tested])
        tested, truth = texts[-n_tested:], y[-n_tested:]
        for edit, done in KINDS.items():
            edits = TokenEdits(edit, K)
            seconds, _ = shortest(lambda: certify(pipeline, edits, tested, truth))  # noqa: B023
            single, _ = shortest(
                lambda: [certify(pipeline, edits, [text]) for text in tested[:ONE_BY_ONE]]  # noqa: B023
            )
            row = [
                f"{n_tested} {name}, {K} {done}",
                f"{seconds:.2f}",
                f"{1e3 * single / ONE_BY_ONE:.1f}",
            ]
            certificates.append(row)
    print(table("Fits to a relative gap of 1e-2", ["", "s", "passes"], fits, key="fits"))
    heads = ["", "all, s", "one text, ms"]
    print(table("Certificates of TF-IDF with LinearSVC", heads, certificates, key="certificates"))
    write_record(options.record, "SMS spam collection, enron1; duplicates removed")


if __name__ == "__main__":
    main()
