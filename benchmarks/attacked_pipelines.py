"""Edited texts against certificates of text pipelines of scikit-learn.

SMS spam collection and the mailbox enron1, duplicates removed, in one 70/30 split. `certify` and
`TokenEdits` certify texts of the test part. The protocol is in `docs/evidence/trust.md`.
"""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from mail import FILES, load_mailboxes
from report import parser_of, require, table, write_record
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.model_selection import FixedThresholdClassifier, train_test_split
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline, make_union
from sklearn.svm import LinearSVC
from text import sms
from text_certificates import edited

from structinv import certify, worst_texts
from structinv.oracles import TokenEdits

WORDS, BLANKS = CountVectorizer().token_pattern, r"\S+"
MOST, N_TELLING, UNKNOWN, TIE, THRESHOLD = (1, 3, 10), 50, "unheardof", 1e-9, 0.4
# Places and tokens that a greedy step tries at most.
PLACES, TOKENS = 30, 4


def letters(**options: Any) -> Any:
    """Unfitted vectorizer of characters within words."""
    return TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4), **options)


@dataclass(frozen=True)
class Case:
    """A pipeline, its tokens, its kinds of edits, and its method of scores with its threshold."""

    model: Any
    pattern: str = WORDS
    edits: tuple[str, ...] = ("drop", "add", "replace", "edit")
    response: str = "decision_function"
    threshold: float = 0.0

    def scores(self, texts: list[str]) -> np.ndarray:
        found = getattr(self.model, self.response)(texts)
        return (found if found.ndim == 1 else found[:, 1] - found[:, 0]) - self.threshold


def cases() -> dict[str, Case]:
    svc, logistic = LinearSVC(random_state=0), LogisticRegression(C=10.0)
    threshold = FixedThresholdClassifier(
        make_pipeline(TfidfVectorizer(), logistic), threshold=THRESHOLD, pos_label="spam"
    )
    return {
        "TF-IDF, LinearSVC": Case(make_pipeline(TfidfVectorizer(), svc)),
        "sublinear, bigrams, LogisticRegression": Case(
            make_pipeline(TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2)), logistic)
        ),
        "hashing, SGDClassifier": Case(
            make_pipeline(HashingVectorizer(), SGDClassifier(random_state=0)),
            edits=("drop", "add", "edit"),
        ),
        "l1, binary, MultinomialNB": Case(
            make_pipeline(TfidfVectorizer(norm="l1", binary=True), MultinomialNB(alpha=0.1)),
            response="predict_log_proba",
        ),
        "characters, LinearSVC": Case(make_pipeline(letters(), svc), BLANKS),
        "words and characters, LinearSVC": Case(
            make_pipeline(make_union(TfidfVectorizer(), letters()), svc), BLANKS
        ),
        "threshold, LogisticRegression": Case(
            threshold, threshold=float(np.log(THRESHOLD / (1 - THRESHOLD)))
        ),
    }


def enron(folder: Path) -> tuple[list[str], np.ndarray]:
    """Mails of one mailbox."""
    box = load_mailboxes(folder, spamassassin=False)["enron1"]
    return box.texts, np.where(box.y > 0, "spam", "ham")


SOURCES = {"SMS": (sms, 300, 24, 12_000), "enron1": (enron, 30, 6, 1200)}


def telling_words(texts: list[str], y: np.ndarray) -> list[str]:
    """Words with the largest differences between the shares of spam and ham, and an unknown token."""
    words = CountVectorizer(binary=True)
    X = words.fit_transform(texts)
    rates = [np.asarray(X[y == label].mean(axis=0)).ravel() for label in ("ham", "spam")]
    order, half = np.argsort(rates[1] - rates[0]), N_TELLING // 2
    names = words.get_feature_names_out()
    return [*names[order[:half]], *names[order[-half:]], UNKNOWN]


class Editor:
    """Random edits and single edits of texts."""

    def __init__(
        self, case: Case, kind: str, tokens: list[str], random: list[str], rng: np.random.Generator
    ) -> None:
        self.pattern, self.kind, self.random_tokens, self.rng = (
            re.compile(case.pattern),
            kind,
            random,
            rng,
        )
        self.kinds = ("drop", "add") if kind == "edit" else (kind,)
        order = np.argsort(case.scores(tokens))
        self.tokens = [tokens[place] for place in order]

    def random(self, text: str, most: int) -> str:
        """A text after 1 to `most` random edits."""
        for _ in range(self.rng.integers(1, most + 1)):
            kind, spans = str(self.rng.choice(self.kinds)), self._spans(text)
            n_places = len(spans) + (kind == "add")
            if n_places:
                new = self.random_tokens[self.rng.integers(len(self.random_tokens))]
                text = edited(text, spans, kind, int(self.rng.integers(n_places)), new)
        return text

    def single(self, text: str, sign: float) -> list[str]:
        """A text after single edits."""
        spans = self._spans(text)
        ordered = self.tokens if sign > 0 else self.tokens[::-1]
        found = []
        for kind in self.kinds:
            n = len(spans) + (kind == "add")
            places = self.rng.permutation(n)[:PLACES].tolist()
            if kind == "drop":
                found += [edited(text, spans, kind, place, "") for place in places]
            elif kind == "add":
                found += [edited(text, spans, kind, places[0], new) for new in ordered]
            else:
                new = [*ordered[:TOKENS], UNKNOWN]
                found += [edited(text, spans, kind, place, each) for place in places for each in new]
        return found

    def _spans(self, text: str) -> list[tuple[int, int]]:
        return [found.span() for found in self.pattern.finditer(text)]


def greedy(
    case: Case, editor: Editor, texts: list[str], signs: np.ndarray, most: int
) -> Iterator[tuple[np.ndarray, list[str], np.ndarray]]:
    """Yield owners, edited texts and their margins after each greedy step."""
    current = list(texts)
    for _ in range(most):
        variants = [editor.single(text, sign) for text, sign in zip(current, signs, strict=True)]
        owners = np.repeat(np.arange(len(texts)), list(map(len, variants)))
        flat = [text for some in variants for text in some]
        if not flat:
            return
        margins = signs[owners] * case.scores(flat)
        yield owners, flat, margins
        for place in range(len(texts)):
            own = np.flatnonzero(owners == place)
            if len(own):
                current[place] = flat[own[np.argmin(margins[own])]]


def count(
    case: Case, kind: str, most: int, texts: list[str], tokens: list[str], random: list[str],
    n_greedy: int, n_random: int, rng: np.random.Generator,
) -> list[int]:  # fmt: skip
    """Certified, edited, changed, below, attacked and turned texts."""
    closed = case.pattern == BLANKS and kind != "drop"
    oracle = TokenEdits(kind, most, tokens if closed else None)
    editor = Editor(case, kind, tokens, tokens if closed else random, rng)
    certificate = certify(case.model, oracle, texts)
    own, sure = case.model.predict(texts), certificate.correct
    signs = np.where(own == "spam", 1.0, -1.0)
    edits = changed = below = 0

    def ask(owners: np.ndarray, others: list[str]) -> None:
        nonlocal edits, changed
        if not others:
            return
        edits += len(others)
        differs = case.model.predict(others) != own[owners]
        changed += int(np.sum(differs & sure[owners]))

    listed = np.flatnonzero(sure)
    if len(listed):
        owners = rng.choice(listed, n_random)
        ask(owners, [editor.random(texts[at], most) for at in owners])
    near = listed[np.argsort(certificate.margins[listed])][:n_greedy]
    chosen = np.concatenate([near, np.flatnonzero(~sure)[: n_greedy // 4]])
    for owners, others, margins in greedy(
        case, editor, [texts[at] for at in chosen], signs[chosen], most
    ):
        below += int(np.sum(margins < certificate.margins[chosen[owners]] - TIE))
        held = sure[chosen[owners]]
        ask(chosen[owners][held], [text for text, is_held in zip(others, held, strict=True) if is_held])
    worst = worst_texts(case.model, oracle, texts)
    turned = case.model.predict(worst) != own
    ask(listed, [worst[at] for at in listed])
    below += int(np.sum(signs * case.scores(worst) < certificate.margins - TIE))
    attacked = certificate.attacked < -TIE
    return [len(listed), edits, changed, below, int(attacked.sum()), int((attacked & turned).sum())]


def main() -> None:
    names = list(cases())
    parser = parser_of(__doc__, names, data="enron_spam/ and spamassassin/")
    parser.add_argument("--share", type=float, default=1.0, help="of the random edits")
    options = parser.parse_args()
    require(options.data, FILES["enron"])
    warnings.simplefilter("ignore")
    total = np.zeros(6, dtype=int)
    headers = ["certified", "edited texts", "changed", "below margin", "attacked", "reached"]
    for source, (read, n_texts, n_greedy, n_random) in SOURCES.items():
        texts, y = read(options.data)
        train, test, y_train, _ = train_test_split(texts, y, test_size=0.3, stratify=y, random_state=0)
        tokens = telling_words(train, y_train)
        known = [*CountVectorizer().fit(train).get_feature_names_out(), UNKNOWN]
        rows = []
        for name in options.rows:
            case, began = cases()[name], time.perf_counter()
            case.model.fit(train, y_train)
            for kind in case.edits:
                for most in MOST:
                    counts = count(
                        case, kind, most, test[:n_texts], tokens, known, n_greedy,
                        int(options.share * n_random), np.random.default_rng(0),
                    )  # fmt: skip
                    rows.append([f"{name}, {kind} {most}", *counts])
                    print(source, *rows[-1], f"{time.perf_counter() - began:.0f} s", flush=True)
                    total += counts
        title = f"Edits of {n_texts} texts of {source}: numbers of texts, by pipeline and edit"
        print(table(title, ["pipeline, edit", *headers], rows, key=source.lower()))
    print(
        table("All edits: numbers of texts", ["edits", *headers], [["all", *total.tolist()]], key="all")
    )
    write_record(options.record, "SMS spam collection and the mailbox enron1, duplicates removed", "0")


if __name__ == "__main__":
    main()
