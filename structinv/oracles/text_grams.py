"""Texts as numbered tokens, and the n-grams in them that are features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..compiled import njit

_PLAIN: dict[str, Any] = {"cache": True, "nogil": True}
# The number of a token that is in no feature.
UNKNOWN = -1


@dataclass(frozen=True)
class Documents:
    """Texts as numbers of tokens.

    Parameters
    ----------
    starts : (n + 1,) array of int64
        Text i has the tokens ``tokens[starts[i] : starts[i + 1]]``.
    tokens : (n_tokens,) array of int64
        `UNKNOWN` where a token is in no feature.
    """

    starts: np.ndarray
    tokens: np.ndarray

    def __len__(self) -> int:
        return len(self.starts) - 1

    def take(self, rows: np.ndarray) -> Documents:
        """Some of the texts."""
        lengths = np.diff(self.starts)[rows]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        shifts = np.repeat(self.starts[:-1][rows] - starts[:-1], lengths)
        return Documents(starts, self.tokens[np.arange(starts[-1]) + shifts])

    def edited(self, rows: np.ndarray, edits: Edits, words: str) -> Documents:
        """The texts named, each after its edits."""
        lengths = self.starts[rows + 1] - self.starts[rows]
        more = edits.counts * {"drop": -1, "add": 1, "replace": 0}[words]
        starts = np.concatenate([[0], np.cumsum(lengths + more)])
        tokens = np.empty(starts[-1], dtype=np.int64)
        _edit(self.starts, self.tokens, rows, edits.counts, edits.spots, edits.tokens,
              words == "drop", words == "add", starts, tokens)  # fmt: skip
        return Documents(starts, tokens)


@dataclass(frozen=True)
class Edits:
    """What is done to some texts.

    Parameters
    ----------
    counts : (n,) array of int64
        How many edits each has.
    spots : (n, most) array of int64
        Their places in the text, rising: the token that is deleted or replaced, or the one that a new
        token is put before; the length of the text for its end.
    tokens : (n, most) array of int64
        The tokens that come in.
    """

    counts: np.ndarray
    spots: np.ndarray
    tokens: np.ndarray

    @classmethod
    def none(cls, n_texts: int) -> Edits:
        """No edits of so many texts."""
        return cls(np.zeros(n_texts, dtype=np.int64), *np.zeros((2, n_texts, 0), dtype=np.int64))

    def replaced(self, mask: np.ndarray, others: Edits) -> Edits:
        """Those of other edits where `mask` is true, these elsewhere."""
        most = max(self.spots.shape[1], others.spots.shape[1])

        def either(name: str) -> np.ndarray:
            own, new = (
                np.pad(getattr(each, name), ((0, 0), (0, most - each.spots.shape[1])))
                for each in (self, others)
            )
            return np.where(mask[:, None], new, own)

        counts = np.where(mask, others.counts, self.counts)
        return Edits(counts, either("spots"), either("tokens"))


class Grams:
    """The n-grams that are features, as a tree of tokens.

    Parameters
    ----------
    grams : sequence of sequences of str
        The tokens of each feature, in the order of the features.

    Attributes
    ----------
    numbers : dict of str to int
        The number of each token that is in a feature.
    longest : int
        Tokens of the longest feature, n.
    orders : (n_features,) array of int64
        Tokens of each.
    codes, nodes : (n_inner,) arrays of int64
        Which node follows a node by a token: ``codes`` are ``node * n_tokens + token``, sorted. The
        node of a single token is its number.
    features : (n_nodes,) array of int64
        The feature of each node, -1 for none.
    """

    def __init__(self, grams: Sequence[Sequence[str]]) -> None:
        names = sorted({token for gram in grams for token in gram})
        self.numbers = {name: number for number, name in enumerate(names)}
        self.names = names
        self.orders = np.array([len(gram) for gram in grams], dtype=np.int64)
        self.longest = int(self.orders.max(initial=1))
        self._members = [tuple(self.numbers[token] for token in gram) for gram in grams]
        nodes: dict[tuple[int, ...], int] = {(number,): number for number in range(len(names))}
        for gram in self._members:
            for order in range(2, len(gram) + 1):
                nodes.setdefault(gram[:order], len(nodes))
        self.features = np.full(len(nodes), -1, dtype=np.int64)
        for feature, gram in enumerate(self._members):
            self.features[nodes[gram]] = feature
        inner = [(nodes[gram[:-1]] * len(names) + gram[-1], node) for gram, node in nodes.items()
                 if len(gram) > 1]  # fmt: skip
        found = np.array(sorted(inner), dtype=np.int64).reshape(len(inner), 2)
        self.codes, self.nodes = found[:, 0].copy(), found[:, 1].copy()

    @property
    def n_features(self) -> int:
        """How many features there are."""
        return len(self.orders)

    def holding(self, tokens: np.ndarray | None) -> np.ndarray:
        """Which features hold one of these tokens, (n_features,) of bool; all for None."""
        if tokens is None:
            return np.ones(self.n_features, dtype=bool)
        wanted = set(tokens.tolist())
        return np.array([not wanted.isdisjoint(gram) for gram in self._members], dtype=bool)

    @cached_property
    def feature_of(self) -> np.ndarray:
        """The feature that a token is by itself, -1 for none, (n_tokens,)."""
        return self.features[: len(self.names)]

    def encoded(self, texts: Sequence[Sequence[str]]) -> Documents:
        """Lists of tokens as numbers."""
        number = self.numbers.get
        lengths = np.array([len(text) for text in texts], dtype=np.int64)
        tokens = np.fromiter(
            (number(token, UNKNOWN) for text in texts for token in text), np.int64, lengths.sum()
        )
        return Documents(np.concatenate([[0], np.cumsum(lengths)]), tokens)

    def ending(self, documents: Documents) -> np.ndarray:
        """The feature of each order that ends at each token, -1 for none, (n_tokens, n)."""
        found = np.full((len(documents.tokens), self.longest), -1, dtype=np.int64)
        _find_grams(documents.starts, documents.tokens, *self._tree, found)
        return found

    def created(self, documents: Documents, most: int) -> Created:
        """The features that at most so many deletions can make of tokens that become neighbours."""
        where = np.zeros(len(documents.tokens) + 1, dtype=np.int64)
        nowhere = np.empty((0, 4), dtype=np.int64)
        given = documents.starts, documents.tokens, *self._tree, self.longest, most
        _find_created(*given, where, nowhere)
        where = np.concatenate([[0], np.cumsum(where[:-1])])
        entries = np.empty((where[-1], 4), dtype=np.int64)
        _find_created(*given, where.copy(), entries)
        return Created(where, entries)

    def counts(self, documents: Documents) -> sp.csr_matrix:
        """How often each text has each feature."""
        found = self.ending(documents)
        owners = np.repeat(np.arange(len(documents)), np.diff(documents.starts))
        rows, features = np.repeat(owners, self.longest), found.ravel()
        there = features >= 0
        rows, features = rows[there], features[there]
        shape = len(documents), self.n_features
        table = sp.coo_matrix((np.ones(len(rows)), (rows, features)), shape=shape).tocsr()
        table.sort_indices()
        return table

    @property
    def _tree(self) -> tuple[Any, ...]:
        return len(self.names), self.codes, self.nodes, self.features


@dataclass(frozen=True)
class Created:
    """Features that deletions can create.

    Parameters
    ----------
    where : (n_tokens + 1,) array of int64
        Those that end at token t are ``entries[where[t] : where[t + 1]]``.
    entries : (n, 4) array of int64
        The feature, its order, how many tokens are deleted before its last token, and in all.
    """

    where: np.ndarray
    entries: np.ndarray


@njit(**_PLAIN)
def _next(n_tokens, codes, nodes, node, token):
    """The node after a node and a token, -1 for none."""
    code = node * n_tokens + token
    place = np.searchsorted(codes, code)
    return nodes[place] if place < len(codes) and codes[place] == code else -1


@njit(**_PLAIN)
def _find_grams(starts, tokens, n_tokens, codes, nodes, features, found):
    longest = found.shape[1]
    for i in range(len(starts) - 1):
        for p in range(starts[i], starts[i + 1]):
            node = tokens[p]
            if node < 0:
                continue
            found[p, 0] = features[node]
            for order in range(1, min(longest, starts[i + 1] - p)):
                token = tokens[p + order]
                node = _next(n_tokens, codes, nodes, node, token) if token >= 0 else -1
                if node < 0:
                    break
                found[p + order, order] = features[node]


@njit(**_PLAIN)
def _find_created(starts, tokens, n_tokens, codes, nodes, features, longest, most, where, entries):
    """Count features by the token that they end at, or list them from `where` on.

    Walks through all ways to skip at most `most` tokens between the tokens of a node, last token first.
    """
    node_at = np.empty(longest, dtype=np.int64)
    place, gaps = np.empty(longest, dtype=np.int64), np.empty(longest, dtype=np.int64)
    for i in range(len(starts) - 1):
        for first in range(starts[i], starts[i + 1]):
            if tokens[first] < 0 or longest < 2:
                continue
            depth = 1
            node_at[0], place[0], gaps[0] = tokens[first], first, 0
            place[1] = first
            while depth > 0:
                # The next place of the token at this depth.
                place[depth] += 1
                skipped = gaps[depth - 1] + place[depth] - place[depth - 1] - 1
                if place[depth] >= starts[i + 1] or skipped > most:
                    depth -= 1
                    continue
                token = tokens[place[depth]]
                node = _next(n_tokens, codes, nodes, node_at[depth - 1], token) if token >= 0 else -1
                if node < 0:
                    continue
                node_at[depth], gaps[depth] = node, skipped
                if skipped > 0 and features[node] >= 0:
                    at = where[place[depth]]
                    where[place[depth]] += 1
                    if len(entries):
                        entries[at, 0], entries[at, 1] = features[node], depth + 1
                        entries[at, 2] = place[depth] - place[depth - 1] - 1
                        entries[at, 3] = skipped
                if depth + 1 < longest:
                    depth += 1
                    place[depth] = place[depth - 1]


@njit(**_PLAIN)
def _edit(starts, tokens, rows, counts, spots, news, drops, adds, new_starts, edited):
    for r in range(len(rows)):
        at, e = new_starts[r], 0
        length = starts[rows[r] + 1] - starts[rows[r]]
        for p in range(length + 1):
            gone = False
            while e < counts[r] and spots[r, e] == p:
                if not drops:
                    edited[at] = news[r, e]
                    at += 1
                gone = not adds
                e += 1
            if p < length and not gone:
                edited[at] = tokens[starts[rows[r]] + p]
                at += 1
