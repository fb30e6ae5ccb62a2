"""Words of texts with their counts, before and after edits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from ...utils.jit import LEAN, njit
from ...utils.matrices import ALL_ROWS
from .text_grams import TokenTexts


@dataclass(frozen=True)
class CountedWords:
    """Words of texts, with their counts.

    - `indptr, indices`: features of each text, increasing
    - `plus, minus` (n_entries,): number of tokens of the text that raise and lower the count of the
      feature
    - `n_unknown` (n_texts,): number of tokens without a feature

    Other arrays than `indptr` have 32-bit integers.
    """

    indptr: np.ndarray
    indices: np.ndarray
    plus: np.ndarray
    minus: np.ndarray
    n_unknown: np.ndarray

    @classmethod
    def of(cls, texts: TokenTexts, codes: np.ndarray, n_features: int) -> CountedWords:
        """Count words; `codes` are those of the tokens, as of `Words`."""
        n = len(texts)
        indptr, n_unknown = np.zeros(n + 1, dtype=np.int64), np.zeros(n, dtype=np.int32)
        last = np.full(n_features, -1, dtype=np.int64)
        arguments = texts.starts, texts.numbers, codes, last
        _count(*arguments, indptr[1:], n_unknown)
        np.cumsum(indptr, out=indptr)
        indices, both = np.empty(indptr[-1], dtype=np.int32), np.empty(indptr[-1], dtype=np.int64)
        last[:] = -1
        _list(*arguments, indices, both)
        table = sp.csr_matrix((both, indices, indptr), shape=(n, n_features))
        table.sort_indices()
        plus, minus = (table.data >> 32).astype(np.int32), table.data.astype(np.int32)
        return cls(indptr, table.indices.astype(np.int32, copy=False), plus, minus, n_unknown)

    def __len__(self) -> int:
        return len(self.n_unknown)

    def counts(self, entries: slice = ALL_ROWS) -> np.ndarray:
        """Return the counts of the features of some entries, all by default."""
        return self.plus[entries] - self.minus[entries]


@njit(**LEAN)
def _count(starts, numbers, codes, last, n_words, n_unknown):
    """Count the distinct features of each text, and its tokens without a feature.

    `last` (d,) is a workspace of -1.
    """
    for i in range(len(n_words)):
        for t in range(starts[i], starts[i + 1]):
            code = codes[numbers[t]]
            if code < 0:
                n_unknown[i] += 1
            elif last[code >> 1] != i:
                last[code >> 1] = i
                n_words[i] += 1


@njit(**LEAN)
def _list(starts, numbers, codes, last, indices, both):
    """List the distinct features of each text, with their counts.

    One number has both counts: ``plus * 2**32 + minus``. `last` (d,) is a workspace of -1.
    """
    at = 0
    for i in range(len(starts) - 1):
        first = at
        for t in range(starts[i], starts[i + 1]):
            code = codes[numbers[t]]
            if code < 0:
                continue
            feature = code >> 1
            if last[feature] < first:
                last[feature], indices[at], both[at] = at, feature, 0
                at += 1
            both[last[feature]] += 1 if code & 1 else 1 << 32


@njit(**LEAN)
def most_present(rows, indptr, indices, listed):
    """Return the largest number of listed words in a row; `listed` (d,) is a mask."""
    most = 0
    for r in rows:
        n = 0
        for e in range(indptr[r], indptr[r + 1]):
            n += listed[indices[e]]
        most = max(most, n)
    return most


@njit(**LEAN)
def edited_words(
    rows, indptr, features, plus, minus, starts, moves, added, amounts, ends, indices, counts
):  # fmt: skip
    """Write the words of edited rows with their counts, and the ends of the rows.

    Words are sorted, and those with count 0 are left out.

    Shapes: `rows` (n,), `starts` (n,), `added` (n, most), `amounts` (n, most), `ends` (n,).
    """
    at, most = 0, added.shape[1]
    for i in range(len(rows)):
        first, r = at, rows[i]
        for e in range(indptr[r], indptr[r + 1]):
            count = plus[e] - minus[e] + moves[starts[i] + e - indptr[r]]
            indices[at], counts[at] = features[e], count
            at += 1
        for k in range(most):
            if amounts[i, k] == 0:
                continue
            f, place = added[i, k], at
            while place > first and indices[place - 1] >= f:
                place -= 1
            if place < at and indices[place] == f:
                counts[place] += amounts[i, k]
                continue
            for j in range(at, place, -1):
                indices[j], counts[j] = indices[j - 1], counts[j - 1]
            indices[place], counts[place] = f, amounts[i, k]
            at += 1
        kept = first
        for j in range(first, at):
            if counts[j] != 0:
                indices[kept], counts[kept] = indices[j], counts[j]
                kept += 1
        ends[i] = at = kept
