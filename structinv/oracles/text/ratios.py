"""Worst edits of words for rows that are divided by their length."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from ...utils.matrices import ALL_ROWS, Rows, in_threads
from ...utils.resources import check_memory
from ..ratio_kernels import (
    ADD,
    DROP,
    EITHER,
    L1,
    L2,
    NONE,
    REPLACE,
    skyband,
    workspace,
    worst_ratios,
)
from .counted_words import CountedWords, edited_words, most_present

NORMS = {None: NONE, "l1": L1, "l2": L2}
EDITS = {"drop": DROP, "add": ADD, "edit": EITHER, "replace": REPLACE}
# Relative tolerance of the search for certificates: bounds that differ less count as equal.
TOLERANCE = 1e-14
# Number of words that are listed beyond the number of edits, at first.
_MORE_WORDS = 16
# Texts of a portion, times the square of their edits. Ctrl-C ends the search after a portion.
_WORK_AT_ONCE = 400_000
# Bytes of results whose memory is not checked.
_UNCHECKED = 1e6
_NO_LIMITS = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class Normalization:
    """Values of counted features, and the norm that divides the row.

    The value of feature j is ``scale_j t(c_j) / |(scale_1 t(c_1), ...)|``, where ``c_j`` is its count.

    - `terms`: t(c): c, 1 or ``1 + log c``; 0 for the count 0
    - `norm`: norm; None divides by 1
    - `scale` (d,): factors of the features before the norm
    """

    terms: str
    norm: str | None
    scale: np.ndarray

    def values(self, counts: np.ndarray) -> np.ndarray:
        """Return t(c) of counts."""
        if self.terms == "counts":
            return counts.astype(np.float64)
        if self.terms == "binary":
            return (counts != 0).astype(np.float64)
        return np.where(counts > 0, 1.0 + np.log(np.maximum(counts, 1)), 0.0)

    @cached_property
    def squares(self) -> np.ndarray:
        """Factors of the terms of q: the squared length, or the sum for l1, (d,)."""
        if self.norm is None:
            return np.zeros(len(self.scale))
        return np.abs(self.scale) if self.norm == "l1" else self.scale * self.scale

    def lengths(self, values: np.ndarray) -> np.ndarray:
        """Return the terms of q for values t(c)."""
        return np.abs(values) if self.norm == "l1" else values * values

    def ratios(self, a: np.ndarray, q: np.ndarray) -> np.ndarray:
        """Return the scores of rows, divided by their norm; 0 for empty rows."""
        if self.norm is None:
            return a
        divisors = q if self.norm == "l1" else np.sqrt(q)
        return np.divide(a, divisors, out=np.zeros(len(a)), where=divisors > 0)

    def rows(self, counts: sp.csr_matrix) -> sp.csr_matrix:
        """Return the rows of counted features, (n, d)."""
        indptr, indices = counts.indptr, counts.indices
        data = self.scale[indices] * self.values(counts.data)
        rows = sp.csr_matrix((data, indices, indptr), shape=(len(indptr) - 1, len(self.scale)))
        if self.norm is None:
            return rows
        totals = np.add.reduceat(np.append(self.lengths(data), 0.0), indptr[:-1]) * (np.diff(indptr) > 0)
        divisors = totals if self.norm == "l1" else np.sqrt(totals)
        rows.data /= np.repeat(np.where(divisors > 0, divisors, 1.0), np.diff(indptr))
        return rows


@dataclass(frozen=True)
class WordChanges:
    """Largest ratios of some texts along their directions, with edits.

    - `words, rows`: texts, and the numbers of those that are edited, (n,)
    - `starts` (n + 1,): the words of the i-th edited text have the entries ``starts[i] : starts[i + 1]``
    - `values, upper` (n,): largest ratio found, and upper bound of all ratios
    - `moves` (n_entries,): changes of the counts of the words of the edited texts, by the edits that
      attain `values`
    - `added, amounts` (n, most): inserted words that the text lacks, with the changes of their counts; 0
      if there is none
    """

    words: CountedWords
    rows: np.ndarray
    starts: np.ndarray
    values: np.ndarray
    upper: np.ndarray
    moves: np.ndarray
    added: np.ndarray
    amounts: np.ndarray

    def own(self, text: int) -> tuple[slice, slice]:
        """Return the entries of an edited text among all words, and among `moves`."""
        row = self.rows[text]
        return (
            slice(self.words.indptr[row], self.words.indptr[row + 1]),
            slice(self.starts[text], self.starts[text + 1]),
        )

    def of(self, text: int) -> dict[int, int]:
        """Return the changes of the counts of a text, by feature."""
        entries, own = self.own(text)
        moves = zip(self.words.indices[entries].tolist(), self.moves[own].tolist(), strict=True)
        added = zip(self.added[text].tolist(), self.amounts[text].tolist(), strict=True)
        changes: dict[int, int] = {}
        # A word of a text that is emptied may be inserted again.
        for feature, move in (*moves, *added):
            changes[feature] = changes.get(feature, 0) + move
        return {feature: move for feature, move in changes.items() if move}

    def counts(self, n_features: int) -> sp.csr_matrix:
        """Return the counts of the features after these edits, (n, n_features)."""
        words, n = self.words, len(self.rows)
        indices = np.empty(len(self.moves) + np.count_nonzero(self.amounts), dtype=np.int32)
        counts, indptr = np.empty(len(indices), dtype=np.int64), np.zeros(n + 1, dtype=np.int32)
        edited_words(
            self.rows, words.indptr, words.indices, words.plus, words.minus, self.starts, self.moves,
            self.added, self.amounts, indptr[1:], indices, counts,
        )  # fmt: skip
        parts = counts[: indptr[-1]], indices[: indptr[-1]], indptr
        return sp.csr_matrix(parts, shape=(n, n_features))


@dataclass(frozen=True)
class RatioSearch:
    """Search for the edits of words with the largest scores.

    - `words`: texts
    - `normalization`: values of the features
    - `edit`: kind of edit: "edit" deletes or inserts
    - `most`: maximum number of edits of a text
    - `rising, falling` (d,): whether an inserted token can raise or lower the count of a feature
    - `tolerance`: relative difference of bounds and attained ratios at which the search ends
    """

    words: CountedWords
    normalization: Normalization
    edit: str
    most: int
    rising: np.ndarray
    falling: np.ndarray
    tolerance: float = TOLERANCE

    def worst(self, V: np.ndarray, assign: np.ndarray, rows: Rows = ALL_ROWS) -> WordChanges:
        """Return the edits with the largest ratio for some texts.

        The ratio is ``<v, t(c)> / |scale t(c)|``.

        Shapes: `V` (p, d), `assign` (n,).
        """
        # A few of many texts: their number does not count.
        numbers = np.arange(len(self.words))[rows] if isinstance(rows, slice) else rows
        V, assign = np.ascontiguousarray(V, dtype=np.float64), np.asarray(assign, dtype=np.int64)
        listed = self._listed(numbers, V, assign)
        found, to_zero = self._search(self.words, numbers, V, assign, listed, self.edit)
        if self._guards(self.edit) and self.edit != "drop":
            some = to_zero <= self._enough(self.edit)
            some &= (np.diff(found.starts) > 0) | (self.edit == "replace")
            self._insert_into_empty(found, V, assign, listed, np.flatnonzero(some), to_zero)
        return found

    @cached_property
    def _signed(self) -> bool:
        return bool(self.falling.any() or self.words.minus.any())

    def _guards(self, edit: str) -> bool:
        """Whether the search has to exclude that all counts become 0."""
        return self._signed or edit in ("edit", "replace")

    def _enough(self, edit: str) -> int:
        """Return the number of edits that may delete all words of a text.

        Rows whose counts can all become 0 have the ratio 0 there, and the others are apart.
        """
        if self.normalization.norm is None:
            return -1
        return 0 if edit == "add" and not self._signed else self.most

    def _search(
        self,
        words: CountedWords,
        rows: np.ndarray,
        V: np.ndarray,
        assign: np.ndarray,
        listed: tuple[np.ndarray, np.ndarray, np.ndarray],
        edit: str,
        limits: np.ndarray = _NO_LIMITS,
    ) -> tuple[WordChanges, np.ndarray]:
        """Return the edits with the largest ratio, and the number of edits that delete all words.

        Texts without words may have limits of their edits, (n,).
        """
        n, most = len(rows), max(self.most, 1)
        needed, what = 40.0 * most * n, f"{most} token edits of each of {n} texts"
        # The check takes 0.4 ms.
        if needed > _UNCHECKED:
            check_memory(what, needed, "reduce max_changes, or pass fewer texts")
        starts = np.zeros(n + 1, dtype=np.int64)
        np.cumsum(words.indptr[rows + 1] - words.indptr[rows], out=starts[1:])
        (values, upper), to_zero = np.zeros((2, n)), np.zeros(n, dtype=np.int64)
        moves = np.zeros(starts[-1], dtype=np.int64)
        added, amounts = np.zeros((2, n, most), dtype=np.int64)
        binary, guards = self.normalization.terms == "binary", self._guards(edit)
        widest, n_listed = (int(np.diff(ends).max(initial=0)) for ends in (starts, listed[0]))
        sizes = most, widest, n_listed, V.shape[1]

        def search(part: slice) -> None:
            worst_ratios(
                rows[part], words.indptr, words.indices, words.plus, words.minus, words.n_unknown,
                EDITS[edit], self.rising, self.falling, binary, self.most, self._enough(edit), V,
                assign[part], *self._tables, *listed, limits[part], guards, self.tolerance,
                starts[:-1][part], values[part], upper[part], to_zero[part], moves, added[part],
                amounts[part], workspace(*sizes),
            )  # fmt: skip

        # Each line of the search visits the words of a text and those to insert.
        n_visited = starts[-1] + n * len(listed[1]) // (2 * len(V))
        in_threads(search, n, 4 * n_visited, most=max(1, _WORK_AT_ONCE // most**2))
        return WordChanges(words, rows, starts, values, upper, moves, added, amounts), to_zero

    @cached_property
    def _tables(self) -> tuple[Any, ...]:
        """Factors of lengths, values and lengths of counts, the place of count 0, and the norm."""
        norm, s = self.normalization.norm, self.normalization.squares
        zero = int(np.abs(self.words.counts()).max(initial=0)) + 2 * max(self.most, 1) + 2
        terms = self.normalization.values(np.arange(-zero, zero + 1))
        least = float(s[s > 0].min(initial=np.inf)) if norm is not None else 1.0
        return s, terms, self.normalization.lengths(terms), zero, NORMS[norm], least

    def _insert_into_empty(
        self,
        results: WordChanges,
        V: np.ndarray,
        assign: np.ndarray,
        listed: tuple[np.ndarray, np.ndarray, np.ndarray],
        rows: np.ndarray,
        to_zero: np.ndarray,
    ) -> None:
        """Replace results for texts that are worse if all words are deleted and others inserted."""
        words, left = results.words, self.most - to_zero[rows]
        if self.edit == "replace":
            left = np.minimum(self.most, to_zero[rows] + words.n_unknown[results.rows[rows]])
        rows, left = rows[left > 0], left[left > 0]
        # The results depend on the direction and the number of insertions only.
        pairs, which = np.unique(np.stack([assign[rows], left]), axis=1, return_inverse=True)
        n, none = pairs.shape[1], np.zeros(0, dtype=np.int32)
        blank = CountedWords(
            np.zeros(n + 1, dtype=np.int64), none, none, none, np.zeros(n, dtype=np.int32)
        )
        of_pair, _ = self._search(blank, np.arange(n), V, pairs[0], listed, "add", pairs[1])
        which = np.ravel(which)
        results.upper[rows] = np.maximum(results.upper[rows], of_pair.upper[which])
        better = of_pair.values[which] > results.values[rows]
        for row, pair in zip(rows[better], which[better], strict=True):
            entries, own = results.own(row)
            results.values[row] = of_pair.values[pair]
            results.moves[own] = -words.counts(entries)
            results.added[row], results.amounts[row] = of_pair.added[pair], of_pair.amounts[pair]

    @cached_property
    def _by_length(self) -> np.ndarray:
        """Words that can be inserted, by increasing length."""
        insertable = np.flatnonzero(self.rising | self.falling)
        if self.edit == "drop":
            return insertable[:0]
        return insertable[np.argsort(self.normalization.squares[insertable], kind="stable")]

    def _listed(
        self, rows: np.ndarray, V: np.ndarray, assign: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the words to insert for each direction, for theta >= 0 and for theta < 0.

        Each text lacks enough of them: a word that is not listed for a direction is dominated by more
        listed words than the text contains, by the number of edits.
        """
        s, shorter = self.normalization.squares, self._by_length
        parts, signs, used = [shorter[:0]] * (2 * len(V)), [shorter[:0]] * (2 * len(V)), set()
        if len(shorter):
            used = set(assign.tolist())
        for direction in sorted(used):
            v = V[direction]
            # The count of a word may rise or fall, or both.
            sign = np.where(self.falling & ((v < 0) | ~self.rising), -1, 1)
            gain = v * sign
            for falls in (False, True):
                if falls and not s.any():
                    continue
                ordered = shorter[::-1] if falls else shorter[gain[shorter] > 0]
                chosen = self._undominated(rows, gain, s, ordered)
                # In the sequence of the features, the first of equal words is inserted.
                parts[2 * direction + falls] = np.sort(chosen)
                signs[2 * direction + falls] = sign[parts[2 * direction + falls]]
        where = np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)
        return where, np.concatenate(parts), np.concatenate(signs).astype(np.int64)

    def _undominated(
        self, rows: np.ndarray, gain: np.ndarray, s: np.ndarray, ordered: np.ndarray
    ) -> np.ndarray:
        """Return the words with less than K + m dominating ones, if texts contain m of them.

        The words are `ordered` by `s`.
        """
        most = self.most + _MORE_WORDS
        while True:
            kept = np.empty(len(ordered), dtype=np.int64)
            listed = kept[: skyband(gain, s, ordered, most, kept)]
            if len(listed) < most:
                return listed
            is_listed = np.zeros(len(gain), dtype=bool)
            is_listed[listed] = True
            present = most_present(rows, self.words.indptr, self.words.indices, is_listed)
            if self.most + present <= most:
                return listed
            most *= 2
