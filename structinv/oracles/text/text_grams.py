"""Texts as numbered tokens, and the n-grams in them that are features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from ...utils.jit import njit
from ...utils.matrices import stack

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

    def longest(self, rows: np.ndarray) -> int:
        """Tokens of the longest of some texts."""
        return int((self.starts[rows + 1] - self.starts[rows]).max(initial=0))

    def take(self, rows: np.ndarray) -> Documents:
        """Some of the texts."""
        lengths = np.diff(self.starts)[rows]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        shifts = np.repeat(self.starts[:-1][rows] - starts[:-1], lengths)
        return Documents(starts, self.tokens[np.arange(starts[-1]) + shifts])

    def edited(self, rows: np.ndarray, edits: PlacedEdits, words: str) -> Documents:
        """The texts named, each after its edits."""
        taken = self.take(rows)
        there = np.arange(edits.spots.shape[1]) < edits.counts[:, None]
        places, news = (taken.starts[:-1, None] + edits.spots)[there], edits.tokens[there]
        starts = taken.starts
        if words == "drop":
            tokens = np.delete(taken.tokens, places)
            starts = starts - np.concatenate([[0], np.cumsum(edits.counts)])
        elif words == "add":
            tokens = np.insert(taken.tokens, places, news)
            starts = starts + np.concatenate([[0], np.cumsum(edits.counts)])
        else:
            tokens = taken.tokens
            tokens[places] = news
        return Documents(starts, tokens)


@dataclass(frozen=True)
class PlacedEdits:
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
    def none(cls, n_texts: int) -> PlacedEdits:
        """No edits of so many texts."""
        return cls(np.zeros(n_texts, dtype=np.int64), *np.zeros((2, n_texts, 0), dtype=np.int64))

    def replaced(self, mask: np.ndarray, others: PlacedEdits) -> PlacedEdits:
        """Those of other edits where `mask` is true, these elsewhere."""
        most = max(self.spots.shape[1], others.spots.shape[1])

        def either(name: str) -> np.ndarray:
            own, new = (
                np.pad(getattr(each, name), ((0, 0), (0, most - each.spots.shape[1])))
                for each in (self, others)
            )
            return np.where(mask[:, None], new, own)

        counts = np.where(mask, others.counts, self.counts)
        return PlacedEdits(counts, either("spots"), either("tokens"))


@dataclass
class WorstEdits:
    """The worst edits of some texts along given directions.

    Attributes
    ----------
    edits : PlacedEdits
    values, sizes : (n,) arrays
        What they win, and at least the sum of the sizes of its terms.
    gone, made : (n, n_features) CSR matrices
        How counts of features change: of those that go, at most 0, and of those that edits make.
    """

    edits: PlacedEdits
    values: np.ndarray
    sizes: np.ndarray
    gone: sp.csr_matrix
    made: sp.csr_matrix

    @property
    def changes(self) -> sp.csr_matrix:
        """How counts of features change."""
        return self.gone + self.made

    @classmethod
    def joined(cls, parts: Sequence[WorstEdits]) -> WorstEdits:
        """Those of all parts, in their order."""
        edits = PlacedEdits(
            *(
                np.concatenate([getattr(part.edits, name) for part in parts])
                for name in ("counts", "spots", "tokens")
            )
        )
        values, sizes = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("values", "sizes")
        )
        gone, made = (stack([getattr(part, name) for part in parts]) for name in ("gone", "made"))
        return cls(edits, values, sizes, gone, made)


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
        starts, tokens = documents.starts, documents.tokens
        found = np.full((len(tokens), self.longest), -1, dtype=np.int64)
        # The first tokens of n-grams, their nodes, and where their texts end.
        first = np.flatnonzero(tokens >= 0)
        node, ends = tokens[first], np.repeat(starts[1:], np.diff(starts))[first]
        found[first, 0] = self.features[node]
        for order in range(1, self.longest):
            more = first + order < ends
            first, node, ends = first[more], node[more], ends[more]
            node = self._after(node, tokens[first + order])
            there = node >= 0
            first, node, ends = first[there], node[there], ends[there]
            found[first + order, order] = self.features[node]
        return found

    def _after(self, nodes: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        """The nodes after nodes and tokens, -1 for none."""
        if len(self.codes) == 0:
            return np.full(len(nodes), -1, dtype=np.int64)
        codes = nodes * len(self.names) + tokens
        places = np.minimum(np.searchsorted(self.codes, codes), len(self.codes) - 1)
        return np.where((tokens >= 0) & (self.codes[places] == codes), self.nodes[places], -1)

    def created(self, documents: Documents, most: int) -> CreatableFeatures:
        """The features that at most so many deletions can make of tokens that become neighbors."""
        where = np.zeros(len(documents.tokens) + 1, dtype=np.int64)
        nowhere = np.empty((0, 4), dtype=np.int64)
        tree = len(self.names), self.codes, self.nodes, self.features
        walk = np.empty((3, self.longest), dtype=np.int64)
        given = documents.starts, documents.tokens, *tree, self.longest, most, walk
        _find_created(*given, where, nowhere)
        where = np.concatenate([[0], np.cumsum(where[:-1])])
        entries = np.empty((where[-1], 4), dtype=np.int64)
        _find_created(*given, where.copy(), entries)
        return CreatableFeatures(where, entries)

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


@dataclass(frozen=True)
class CreatableFeatures:
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
def _find_created(
    starts, tokens, n_tokens, codes, nodes, features, longest, most, walk, where, entries
):  # fmt: skip
    """Count features by the token that they end at, or list them from `where` on.

    Walks through all ways to skip at most `most` tokens between the tokens of a node, last token first.
    `walk` has room for the node, its last token and how many tokens were skipped, by depth.
    """
    node_at, place, gaps = walk[0], walk[1], walk[2]
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
                if token < 0:
                    continue
                # The node after that of the tokens before, if there is one.
                code = node_at[depth - 1] * n_tokens + token
                low, high = 0, len(codes)
                while low < high:
                    middle = (low + high) // 2
                    if codes[middle] < code:
                        low = middle + 1
                    else:
                        high = middle
                if low == len(codes) or codes[low] != code:
                    continue
                node = nodes[low]
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
