"""Certificates of features and of tokens against edited letters of texts.

Data are SpamAssassin (bodies of mails) and the SMS spam collection, duplicates removed, in one 70/30
split. The letters of certified texts are edited, at random and greedily, and the texts are read again.
*changed* counts certified texts with another prediction.
"""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
from mail import FILES, SPAMASSASSIN
from report import parser_of, require, table, versions, write_record
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC
from text import mails, sms

from structinv import InvariantTextClassifier, certify
from structinv.oracles import FDrop

SOURCES = {"SMS": sms, "SpamAssassin": lambda folder: mails(folder)[SPAMASSASSIN]}


def edited(text: str, spans: list[tuple[int, int]], kind: str, place: int, token: str) -> str:
    """A text with one token deleted, replaced, or put before another one."""
    start, stop = spans[place] if place < len(spans) else (len(text), len(text))
    if kind == "add":
        return f"{text[:start]} {token} {text[start:]}"
    return text[:start] + ("" if kind == "drop" else token) + text[stop:]


class Editor:
    """Random and greedy edits of the letters of texts, with the scores of a model."""

    def __init__(self, score: Any, pattern: Any, kind: str, tokens: list[str], seed: int) -> None:
        self.score, self.pattern, self.kind = score, pattern, kind
        self.rng, self.made = np.random.default_rng(seed), 0
        alone = score(tokens)
        # Those that move most on their own, for greedy edits.
        best = np.argsort(alone)
        self.tokens, self.telling = tokens, [tokens[i] for i in (*best[:8], *best[-8:])]

    def turned(self, texts: list[str], certified: np.ndarray, most: int, edits: int) -> int:
        """Return the number of certified texts whose prediction an edit changes."""
        places = np.flatnonzero(certified)
        each, signs = max(1, edits // max(len(places), 1)), np.sign(self.score(texts))
        return sum(self._turns(texts[i], signs[i], most, each) for i in places)

    def _turns(self, text: str, sign: float, most: int, each: int) -> bool:
        current, least = text, np.inf
        for _ in range(most):
            others = self._steps(current)
            if not others:
                break
            margins = sign * self.score(others)
            self.made += len(others)
            least = min(least, float(margins.min()))
            current = others[int(np.argmin(margins))]
        others = [self._random(text, most) for _ in range(each)]
        self.made += each
        return bool(min(least, np.min(sign * self.score(others))) <= 0)

    def _steps(self, text: str) -> list[str]:
        """Single edits: every place, and the tokens that tell most."""
        spans = self._spans(text)
        places = range(len(spans) + (self.kind == "add"))
        if self.kind == "drop":
            return [edited(text, spans, "drop", place, "") for place in places]
        some = self.rng.choice(len(places), min(6, len(places)), replace=False) if places else []
        return [edited(text, spans, self.kind, place, new) for place in some for new in self.telling]

    def _random(self, text: str, most: int) -> str:
        for _ in range(most):
            spans = self._spans(text)
            n_places = len(spans) + (self.kind == "add")
            if n_places:
                new = self.tokens[self.rng.integers(len(self.tokens))]
                text = edited(text, spans, self.kind, int(self.rng.integers(n_places)), new)
        return text

    def _spans(self, text: str) -> list[tuple[int, int]]:
        return [found.span() for found in self.pattern.finditer(text)]


SETTINGS = (
    ("drop", 3, 1), ("drop", 3, 2), ("drop", 1, 1), ("drop", 3, 3),
    ("add", 3, 1), ("add", 3, 2), ("replace", 3, 1), ("replace", 3, 2),
)  # fmt: skip


def stand(
    name: str, texts: list[str], y: np.ndarray, edits: int, n_texts: int, n_settings: int
) -> dict[str, Any]:
    """Print the number of certified texts with another prediction after deletions."""
    train, test = train_test_split(np.arange(len(texts)), test_size=0.3, random_state=0, stratify=y)
    known, unseen = [texts[i] for i in train], [texts[i] for i in test[:n_texts]]
    pattern, rows = re.compile(CountVectorizer().token_pattern), []
    lowered = [text.lower() for text in unseen]
    tokens = [*CountVectorizer().fit(known).get_feature_names_out(), "unheardof", "neverseen"]

    def ask(label: str, model: Any, sure: np.ndarray, kind: str, most: int) -> None:
        editor = Editor(model.decision_function, pattern, kind, tokens, most)
        broken = editor.turned(lowered, sure, most, edits)
        rows.append([label, int(sure.sum()), editor.made, broken])
        print(*rows[-1], flush=True)

    for most in (1, 3):
        for kind, words in (
            ("TfidfVectorizer + LinearSVC, FDrop", TfidfVectorizer()),
            ("CountVectorizer, bigrams + LinearSVC, FDrop", CountVectorizer(ngram_range=(1, 2))),
        ):
            model = make_pipeline(words, LinearSVC(C=1.0 if "Tfidf" in kind else 0.01))
            model.fit(known, y[train])
            ask(f"{kind}({most})", model, certify(model, FDrop(most), lowered).correct, "drop", most)
    for kind, most, longest in SETTINGS[:n_settings]:
        grams = {"ngram_range": (1, longest)}
        for weights, words in {
            "counts": CountVectorizer(**grams),
            "binary": CountVectorizer(binary=True, **grams),
            "idf": TfidfVectorizer(norm=None, **grams),
        }.items():
            model = InvariantTextClassifier(
                kind, most, words, C=0.1, fit_intercept=True, random_state=0, max_seconds=20
            ).fit(known, y[train])
            label = f"tokens: {kind} {most}, {weights}, n-grams of 1 to {longest}"
            ask(label, model, model.certify(lowered).correct, kind, most)
    headers = [f"{name}, {len(unseen)} texts", "certified", "edited texts", "changed"]
    print(table("Certified texts after edits of their letters", headers, rows, key=name.lower()))


def main() -> None:
    parser = parser_of(__doc__, list(SOURCES), data="enron_spam/ and spamassassin/")
    parser.add_argument("--texts", type=int, default=300, help="of which letters are edited")
    parser.add_argument("--settings", type=int, default=len(SETTINGS), help="the first so many")
    parser.add_argument("--edits", type=int, default=100_000, help="random ones, of each model")
    options = parser.parse_args()
    require(options.data, FILES["spamassassin"])
    warnings.simplefilter("ignore")
    print(versions())
    for name, read in SOURCES.items():
        if name in options.rows:
            texts, y = read(options.data)
            stand(name, texts, y, options.edits, options.texts, options.settings)
    write_record(
        options.record,
        "SMS spam collection; SpamAssassin bodies; duplicates removed",
        seeds="0 (70/30 split)",
    )


if __name__ == "__main__":
    main()
