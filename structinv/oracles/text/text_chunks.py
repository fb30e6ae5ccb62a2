"""Edits of texts whose features are n-grams of characters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from ...utils.matrices import ranges
from ...utils.texts import Part
from .bounded_ratios import BoundedRatios
from .ratios import TOLERANCE, Normalization
from .text_grams import Documents, PlacedEdits
from .text_phrases import search_in_places
from .text_tokens import Placed, Search, TokenReader, Tokens, column_names
from .token_edits import TokenEdits
from .vectorizers import hashes, own_functions


class Chunks(TokenReader):
    """Tokens with the blanks after them, for features of characters."""

    def __init__(self, step: Any) -> None:
        super().__init__(step)
        if hashes(step):
            raise TypeError(
                "HashingVectorizer must have ngram_range=(1, 1) and analyzer='word' for edits of "
                f"tokens, without other vectorizers, got ngram_range={step.ngram_range!r} and "
                f"analyzer={step.analyzer!r}: its columns mix features"
            )
        for name, value in own_functions(step).items():
            raise TypeError(
                f"{self.name} must have no own {name} for edits of tokens, if a vectorizer counts "
                f"characters, got {value!r}: it may read several tokens together"
            )

    @property
    def crosses(self) -> bool:
        """True if a feature may belong to several tokens."""
        return self.step.analyzer == "char" or (
            self.step.analyzer == "word" and tuple(self.step.ngram_range) != (1, 1)
        )

    def check(self, edits: TokenEdits) -> None:
        if edits.edit == "drop":
            return
        if self.crosses:
            raise TypeError(
                f"TokenEdits({edits.edit!r}) does not support {self.name} with "
                f"analyzer={self.step.analyzer!r} and ngram_range={self.step.ngram_range!r} here, "
                "because an inserted token changes n-grams of others: use edit='drop'"
            )
        if edits.allowed is None:
            raise TypeError(
                f"TokenEdits({edits.edit!r}) must have allowed tokens for {self.name} with "
                f"analyzer={self.step.analyzer!r}, because a token of any length may have all features: "
                "pass allowed"
            )

    def tokens(self, text: str) -> Tokens:
        return re.findall(r"^\s+|\S+\s*", re.sub(r"\s\s+", " ", self.step.decode(text)))

    def counts(self, texts: Sequence[Tokens]) -> sp.csr_matrix:
        return self.counts_of_texts(map("".join, texts))

    def search(
        self,
        texts: Sequence[Tokens],
        edits: TokenEdits,
        normalization: Normalization,
        tolerance: float = TOLERANCE,
    ) -> Search:
        allowed = [f"{token} " for token in self.allowed(edits.allowed or ())]
        documents, names, numbers = numbered(texts, allowed)
        most = int(edits.max_changes)
        ratios = ChunkRatios(documents, normalization, edits.edit, most, tolerance, self, names, numbers)

        # Leading blanks stay the first token.
        kept = [[max(at, text[0].isspace()) for at in range(len(text))] for text in texts]
        return search_in_places(ratios, names, kept, texts)

    def _parts(self, text: str, tokens: Tokens, placed: Placed) -> list[Part]:
        return placed.marked(tokens, lambda _, token: token)

    def counts_of_texts(self, texts: Iterable[str]) -> sp.csr_matrix:
        """Return the counts of the features of texts."""
        from sklearn.feature_extraction.text import CountVectorizer

        analyze = self.step.build_analyzer()
        counter = CountVectorizer(analyzer=analyze, vocabulary=self.step.vocabulary_, dtype=np.int64)
        counts = sp.csr_matrix(counter.transform(texts))
        counts.sort_indices()
        return counts

    @cached_property
    def orders(self) -> np.ndarray:
        """Number of characters, or words, of each feature."""
        words, names = self.step.analyzer == "word", column_names(self.step)
        return np.array([len(name.split(" ")) if words else len(name) for name in names])

    @cached_property
    def end_in_blanks(self) -> np.ndarray:
        """Mask of the features whose last character is a blank."""
        return np.array([name[-1:].isspace() for name in column_names(self.step)], dtype=bool)

    def shared(self, tokens: Tokens) -> Iterator[tuple[int, int, int]]:
        """Yield the features that tokens share, with the first and the last of them."""
        least, most = self.step.ngram_range
        words, prepare = self.step.analyzer == "word", self.step.build_preprocessor()
        split = self.step.build_tokenizer() if words else str
        stops = self._stops if words else frozenset()
        parts = [[part for part in split(prepare(token)) if part not in stops] for token in tokens]
        owners = [place for place, part in enumerate(parts) for _ in part]
        units, find = [unit for part in parts for unit in part], self.step.vocabulary_.get
        between = " " if words else ""
        for n in range(max(least, 2), most + 1):
            for first in range(len(units) - n + 1):
                left, right = owners[first], owners[first + n - 1]
                feature = find(between.join(units[first : first + n])) if left < right else None
                if feature is not None:
                    yield int(feature), left, right


@dataclass(frozen=True)
class ChunkRatios(BoundedRatios):
    """Bounds of the scores of edited texts, for tokens that blanks separate.

    - `documents, normalization, edit, most`: see `BoundedRatios`
    - `reader`: reader of the features
    - `names`: tokens by number
    - `allowed`: numbers of the tokens that may be inserted
    """

    reader: Chunks
    names: list[str]
    allowed: np.ndarray

    def counts_of(self, documents: Documents) -> sp.csr_matrix:
        if self.reader.crosses:
            texts = np.split(documents.tokens, documents.starts[1:-1])
            return self.reader.counts([[self.names[at] for at in text] for text in texts])
        n, kinds = len(documents), documents.tokens
        ones, shape = np.ones(len(kinds)), (n, len(self.names))
        counts = sp.csr_matrix((ones, kinds, documents.starts), shape=shape) @ self._of_tokens
        counts.sort_indices()
        return counts

    def found(
        self, rows: np.ndarray, V: np.ndarray, slopes: np.ndarray, assign: np.ndarray
    ) -> Iterator[tuple[np.ndarray, list[tuple[PlacedEdits, str]]]]:
        inner, crossing = self._occurrences
        created, removed = self.gains(V, slopes, self._most_created * self.most)
        text = self.documents.take(rows)
        places, owners = ranges(self.documents.starts[rows], np.diff(text.starts))
        scores = np.empty(len(owners))
        for direction in range(len(V)):
            own = np.flatnonzero(assign[owners] == direction)
            scores[own] = inner[places[own]] @ removed[direction]
            scores[own] += crossing[places[own]] @ np.maximum(removed[direction], 0.0)
            scores[own] += self._credit(created[direction])
        blank = np.array([name.isspace() for name in self.names], dtype=bool)
        scores[blank[text.tokens]] = -np.inf
        insertions = self._of_tokens[self.allowed] @ created.T
        best = insertions.max(axis=0, initial=0.0) if self.edit != "drop" else np.zeros(len(V))
        tokens = (
            self.allowed[np.argmax(insertions, axis=0)] if len(self.allowed) else np.zeros(len(V), int)
        )
        lost = np.array([self._last_blank(gains) for gains in removed])
        for total, listed in self._combined(text, owners, scores, best[assign], tokens[assign]):
            yield total + lost[assign], listed

    def _combined(
        self,
        text: Documents,
        owners: np.ndarray,
        scores: np.ndarray,
        best: np.ndarray,
        tokens: np.ndarray,
    ) -> Iterator[tuple[np.ndarray, list[tuple[PlacedEdits, str]]]]:
        """Yield the largest sums of scores of deleted tokens and gains of inserted ones."""
        n, most = len(best), self.most
        order = np.lexsort((-scores, owners))
        rank = np.arange(len(order)) - text.starts[owners]
        table, spots = np.zeros((n, most)), np.tile(np.diff(text.starts)[:, None], most)
        if self.edit != "add":
            listed = rank < most
            table[owners[listed], rank[listed]] = scores[order[listed]]
            spots[owners[listed], rank[listed]] = order[listed] - text.starts[owners[listed]]
        n_tokens = np.minimum(np.diff(text.starts), most)
        inserted = np.tile(tokens[:, None], most)
        if self.edit == "replace":
            # Each edit deletes a token and inserts another one.
            usable = np.arange(most) < n_tokens[:, None]
            sums = np.cumsum(np.where(usable, table + best[:, None], -np.inf), axis=1)
            count = np.where(sums.max(axis=1) > 0, np.argmax(sums, axis=1) + 1, 0)
            yield (
                np.maximum(sums.max(axis=1), 0.0),
                [(PlacedEdits.at(count, spots, inserted), "replace")],
            )
            return
        deleted = np.maximum(table, 0.0)
        either = np.sort(np.hstack([deleted, np.tile(best[:, None], most)]), axis=1)[:, -most:]
        listed = []
        if self.edit != "add":
            listed.append((PlacedEdits.at((deleted > 0).sum(axis=1), spots, inserted), "drop"))
        if self.edit != "drop":
            listed.append((PlacedEdits.at(most * (best > 0), np.zeros_like(spots), inserted), "add"))
        yield either.sum(axis=1), listed

    @cached_property
    def _most_created(self) -> int:
        """Largest number of occurrences of one feature that an edit creates."""
        if self.reader.crosses:
            # An n-gram may contain the place of a deleted token in n - 1 ways.
            return int(self.reader.orders.max(initial=1)) - 1
        return int(self._of_tokens.max()) if self._of_tokens.nnz else 0

    def _credit(self, created: np.ndarray) -> float:
        """Bound the gain of the n-grams that appear where tokens are deleted."""
        if not self.reader.crosses:
            return 0.0
        total, orders = 0.0, self.reader.orders
        for order in np.unique(orders):
            total += (order - 1) * float(created[orders == order].max(initial=0.0))
        return total

    def _last_blank(self, removed: np.ndarray) -> float:
        """Bound the gain if the blank before deleted last tokens disappears, too."""
        if self.reader.step.analyzer != "char":
            return 0.0
        features = self._pairs[0]
        orders, ends = self.reader.orders[features], self.reader.end_in_blanks[features]
        gains = (removed[ends & (orders == order)] for order in np.unique(orders))
        return sum(float(gain.max(initial=0.0)) for gain in gains)

    @cached_property
    def _of_tokens(self) -> sp.csr_matrix:
        """Counts of the features of each token."""
        return self.reader.counts_of_texts(self.names)

    @cached_property
    def _occurrences(self) -> tuple[sp.csr_matrix, sp.csr_matrix]:
        """How often each token has the pairs of features and counts of its text, (n_tokens, n_pairs).

        The second table has the occurrences of n-grams that several tokens share.
        """
        documents, n_pairs = self.documents, len(self._pairs[0])
        owners = np.repeat(np.arange(len(documents)), np.diff(documents.starts))
        own = sp.csr_matrix(self._of_tokens[documents.tokens])
        rows = np.repeat(np.arange(own.shape[0]), np.diff(own.indptr))

        def table(rows: np.ndarray, features: np.ndarray, values: np.ndarray) -> sp.csr_matrix:
            pairs = self.pairs_at(owners[rows], features)
            return sp.csr_matrix((values, (rows, pairs)), shape=(own.shape[0], n_pairs))

        inner = table(rows, own.indices, own.data)
        shared = self._shared() if self.reader.crosses else np.zeros((2, 0), dtype=np.int64)
        return inner, table(shared[0], shared[1], np.ones(shared.shape[1]))

    def _shared(self) -> np.ndarray:
        """Return places of tokens and features of the n-grams that they share, (2, n)."""
        places: list[int] = []
        features: list[int] = []
        starts = self.documents.starts
        for first, last in zip(starts[:-1], starts[1:], strict=True):
            names = [self.names[at] for at in self.documents.tokens[first:last]]
            for feature, left, right in self.reader.shared(names):
                places += range(int(first) + left, int(first) + right + 1)
                features += [feature] * (right + 1 - left)
        return np.array([places, features], dtype=np.int64)


def numbered(texts: Sequence[Tokens], allowed: Sequence[str]) -> tuple[Documents, list[str], np.ndarray]:
    """Return texts as numbers of tokens, the tokens, and the allowed numbers."""
    numbers: dict[str, int] = {}
    for text in (*texts, allowed):
        for token in text:
            numbers.setdefault(token, len(numbers))
    starts = np.concatenate([[0], np.cumsum([len(text) for text in texts])]).astype(np.int64)
    tokens = np.array([numbers[token] for text in texts for token in text], dtype=np.int64)
    return Documents(starts, tokens), list(numbers), np.array([numbers[each] for each in allowed], int)
