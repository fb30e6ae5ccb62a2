"""Texts as numbered tokens, n-gram features, and their counts."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from typing import Any

import numpy as np
import scipy.sparse as sp

from ...utils.jit import LEAN, njit
from ...utils.matrices import ranges

# Number that stands for every token without a feature.
UNKNOWN = -1


@dataclass(frozen=True)
class Documents:
    """Texts as sequences of token numbers.

    - `starts` (n_texts + 1,): text i has the tokens ``tokens[starts[i] : starts[i + 1]]``
    - `tokens` (n_tokens,): numbers of the tokens; `UNKNOWN` for tokens that occur in no feature
    """

    starts: np.ndarray
    tokens: np.ndarray

    def __len__(self) -> int:
        return len(self.starts) - 1

    def take(self, rows: np.ndarray) -> Documents:
        """Return some of the texts."""
        lengths = np.diff(self.starts)[rows]
        places, _ = ranges(self.starts[rows], lengths)
        return Documents(np.concatenate([[0], np.cumsum(lengths)]), self.tokens[places])

    def edited(self, rows: np.ndarray, edits: PlacedEdits, edit: str) -> Documents:
        """Return the edited texts; `edit` is the kind of edit."""
        texts = self.take(rows)
        used = np.arange(edits.spots.shape[1]) < edits.counts[:, None]
        places, inserted = (texts.starts[:-1, None] + edits.spots)[used], edits.tokens[used]
        starts = texts.starts
        if edit == "drop":
            tokens = np.delete(texts.tokens, places)
            starts = starts - np.concatenate([[0], np.cumsum(edits.counts)])
        elif edit == "add":
            tokens = np.insert(texts.tokens, places, inserted)
            starts = starts + np.concatenate([[0], np.cumsum(edits.counts)])
        else:
            tokens = texts.tokens
            tokens[places] = inserted
        return Documents(starts, tokens)


@dataclass(frozen=True)
class TokenTexts(Sequence[list[str]]):
    """Texts as lists of tokens, stored as numbers: strings take ten times the memory.

    - `names`: tokens by number, in the sequence of their first occurrences
    - `starts` (n_texts + 1,), `numbers` (n_tokens,): see `Documents`
    """

    names: list[str]
    starts: np.ndarray
    numbers: np.ndarray

    @classmethod
    def of(cls, texts: Iterable[Sequence[str]]) -> TokenTexts:
        """Store texts, given as lists of tokens."""
        if isinstance(texts, TokenTexts):
            return texts
        known: defaultdict[str, int] = defaultdict()
        known.default_factory = known.__len__
        numbers, starts = array("i"), array("q", [0])
        for text in texts:
            numbers.extend([known[token] for token in text])
            starts.append(len(numbers))
        return cls(list(known), np.frombuffer(starts, np.int64), np.frombuffer(numbers, np.int32))

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, text: Any) -> Any:
        numbers = self.numbers[self.starts[text] : self.starts[text + 1]]
        return [self.names[number] for number in numbers.tolist()]

    def take(self, rows: np.ndarray) -> TokenTexts:
        """Return some of the texts."""
        part = Documents(self.starts, self.numbers).take(rows)
        return TokenTexts(self.names, part.starts, part.tokens)


@dataclass(frozen=True)
class PlacedEdits:
    """Token edits of some texts, with their places.

    - `counts` (n,): number of edits of each text
    - `spots` (n, most): increasing places in the text: the deleted or replaced token, or the token after
      an inserted one
    - `tokens` (n, most): numbers of the inserted tokens
    """

    counts: np.ndarray
    spots: np.ndarray
    tokens: np.ndarray

    @classmethod
    def at(cls, counts: np.ndarray, spots: np.ndarray, tokens: np.ndarray) -> PlacedEdits:
        """Return edits whose places are in any sequence."""
        unused = np.arange(spots.shape[1]) >= counts[:, None]
        ordered = np.sort(np.where(unused, np.iinfo(np.int64).max, spots), axis=1)
        return cls(counts, ordered, tokens)

    @classmethod
    def none(cls, n_texts: int) -> PlacedEdits:
        """Return the empty edits of `n_texts` texts."""
        return cls(np.zeros(n_texts, dtype=np.int64), *np.zeros((2, n_texts, 0), dtype=np.int64))

    def take(self, rows: np.ndarray) -> PlacedEdits:
        """Return the edits of some texts."""
        return PlacedEdits(self.counts[rows], self.spots[rows], self.tokens[rows])

    def replaced(self, rows: np.ndarray, others: PlacedEdits) -> PlacedEdits:
        """Return these edits, with others for some texts."""
        if not len(rows):
            return self
        counts, n = self.counts.copy(), len(self.counts)
        counts[rows] = others.counts
        width = max(self.spots.shape[1], others.spots.shape[1])
        spots, tokens = np.zeros((2, n, width), dtype=np.int64)
        for table, old, new in ((spots, self.spots, others.spots), (tokens, self.tokens, others.tokens)):
            table[:, : old.shape[1]] = old
            table[rows, : new.shape[1]] = new
        return PlacedEdits(counts, spots, tokens)


class Grams:
    """N-gram features as a prefix tree of tokens.

    Shapes: `orders` (n_features,), `codes` (n_inner,), `nodes` (n_inner,), `features` (n_nodes,).
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
        edges = np.array(sorted(inner), dtype=np.int64).reshape(len(inner), 2)
        self.codes, self.nodes = edges[:, 0].copy(), edges[:, 1].copy()

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.orders)

    def holding(self, tokens: np.ndarray | None) -> np.ndarray:
        """Return a mask of the features with any of these tokens; None selects all."""
        if tokens is None:
            return np.ones(self.n_features, dtype=bool)
        numbers = set(tokens.tolist())
        return np.array([not numbers.isdisjoint(gram) for gram in self._members], dtype=bool)

    @cached_property
    def feature_of(self) -> np.ndarray:
        """Feature of each single token, or -1, (n_tokens,)."""
        return self.features[: len(self.names)]

    def encoded(self, texts: Iterable[Sequence[str]]) -> Documents:
        """Return texts, given as lists of tokens, as numbers."""
        # One text at a time: the strings of all tokens take ten times the memory of their numbers.
        tokens, starts = array("q"), array("q", [0])
        for text in texts:
            tokens.extend(map(self.numbers.get, text, repeat(UNKNOWN)))
            starts.append(len(tokens))
        return Documents(np.frombuffer(starts, np.int64), np.frombuffer(tokens, np.int64))

    def ending(self, documents: Documents) -> np.ndarray:
        """Return the feature of each order that ends at each token, or -1, (n_tokens, n)."""
        starts, tokens = documents.starts, documents.tokens
        found = np.full((len(tokens), self.longest), -1, dtype=np.int64)
        # First tokens of n-grams, their nodes, and the ends of their texts.
        first = np.flatnonzero(tokens >= 0)
        node, ends = tokens[first], np.repeat(starts[1:], np.diff(starts))[first]
        found[first, 0] = self.features[node]
        for order in range(1, self.longest):
            inside = first + order < ends
            first, node, ends = first[inside], node[inside], ends[inside]
            node = self._after(node, tokens[first + order])
            exists = node >= 0
            first, node, ends = first[exists], node[exists], ends[exists]
            found[first + order, order] = self.features[node]
        return found

    def _after(self, nodes: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        """Return the child of each node for a token, or -1."""
        if len(self.codes) == 0:
            return np.full(len(nodes), -1, dtype=np.int64)
        codes = nodes * len(self.names) + tokens
        places = np.minimum(np.searchsorted(self.codes, codes), len(self.codes) - 1)
        return np.where((tokens >= 0) & (self.codes[places] == codes), self.nodes[places], -1)

    def created(self, documents: Documents, most: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the features that at most `most` deletions can create.

        Features that end at token t are ``entries[where[t] : where[t + 1]]``. An entry has the feature,
        its order, the number of deletions just before its last token, and their total number. Returns
        `where` (n_tokens + 1,) and `entries` (n, 4).
        """
        where = np.zeros(len(documents.tokens) + 1, dtype=np.int64)
        nowhere = np.empty((0, 4), dtype=np.int64)
        tree = len(self.names), self.codes, self.nodes, self.features
        walk = np.empty((3, self.longest), dtype=np.int64)
        arguments = documents.starts, documents.tokens, *tree, self.longest, most, walk
        # The first call counts, the second one lists.
        _find_created(*arguments, where, nowhere)
        where = np.concatenate([[0], np.cumsum(where[:-1])])
        entries = np.empty((where[-1], 4), dtype=np.int64)
        _find_created(*arguments, where.copy(), entries)
        return where, entries

    def counts(self, documents: Documents) -> sp.csr_matrix:
        """Return the counts of all features, (n_texts, n_features)."""
        ending = self.ending(documents)
        owners = np.repeat(np.arange(len(documents)), np.diff(documents.starts))
        rows, features = np.repeat(owners, self.longest), ending.ravel()
        known = features >= 0
        rows, features = rows[known], features[known]
        shape = len(documents), self.n_features
        table = sp.coo_matrix((np.ones(len(rows)), (rows, features)), shape=shape).tocsr()
        table.sort_indices()
        return table


@njit(**LEAN)
def _find_created(
    starts, tokens, n_tokens, codes, nodes, features, longest, most, walk, where, entries
):  # fmt: skip
    """Count creatable features by their last token, or list them in `entries` from `where` on.

    A depth-first search enumerates all n-grams with at most `most` skipped tokens. `walk` is a workspace
    for the node, its last token and the number of skipped tokens, by depth.
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
                # Next candidate for the token at this depth.
                place[depth] += 1
                skipped = gaps[depth - 1] + place[depth] - place[depth - 1] - 1
                if place[depth] >= starts[i + 1] or skipped > most:
                    depth -= 1
                    continue
                token = tokens[place[depth]]
                if token < 0:
                    continue
                # Child of the previous node for this token, by binary search.
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
