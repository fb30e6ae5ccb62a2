"""Worst edits of words for rows that are divided by their length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from ...utils.matrices import ALL_ROWS, Rows, in_threads, ranges
from ...utils.resources import check_memory
from .ratio_kernels import L1, L2, NONE, skyband, worst_ratios

NORMS = {None: NONE, "l1": L1, "l2": L2}
# Relative tolerance of the search for certificates: bounds that differ less count as equal.
TOLERANCE = 1e-14
# Number of words that are listed beyond the number of edits, at first.
_MORE_WORDS = 16
# Texts of a portion, times the square of their edits. Ctrl-C ends the search after a portion.
_WORK_AT_ONCE = 400_000
# Bytes of results whose memory is not checked.
_UNCHECKED = 1e6


@dataclass(frozen=True)
class CountedWords:
    """Words of texts, with their counts.

    - `indptr, indices`: features of each text, increasing
    - `plus, minus` (n_entries,): number of tokens of the text that raise and lower the count of the
      feature
    - `n_unknown` (n_texts,): number of tokens without a feature
    """

    indptr: np.ndarray
    indices: np.ndarray
    plus: np.ndarray
    minus: np.ndarray
    n_unknown: np.ndarray

    def __len__(self) -> int:
        return len(self.n_unknown)

    @property
    def counts(self) -> np.ndarray:
        """Counts of the features, (n_entries,)."""
        return self.plus - self.minus

    def take(self, rows: Rows) -> CountedWords:
        """Return the words of some texts."""
        if isinstance(rows, slice) and rows == ALL_ROWS:
            return self
        sizes = np.diff(self.indptr)[rows]
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        at, _ = ranges(self.indptr[:-1][rows], sizes)
        indices, plus, minus = self.indices[at], self.plus[at], self.minus[at]
        return CountedWords(starts, indices, plus, minus, self.n_unknown[rows])

    def totals(self, values: np.ndarray) -> np.ndarray:
        """Return the sum of values of the entries of each text."""
        return np.diff(np.concatenate([[0], np.cumsum(values)])[self.indptr])


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

    @property
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

    - `words`: texts
    - `values, upper` (n,): largest ratio found, and upper bound of all ratios
    - `moves` (n_entries,): changes of the counts of the words of all texts, by the edits that attain
      `values`
    - `added, amounts` (n, most): inserted words that the text lacks, with the changes of their counts; 0
      if there is none
    """

    words: CountedWords
    values: np.ndarray
    upper: np.ndarray
    moves: np.ndarray
    added: np.ndarray
    amounts: np.ndarray

    def of(self, text: int) -> dict[int, int]:
        """Return the changes of the counts of a text, by feature."""
        own = slice(self.words.indptr[text], self.words.indptr[text + 1])
        moves = zip(self.words.indices[own].tolist(), self.moves[own].tolist(), strict=True)
        added = zip(self.added[text].tolist(), self.amounts[text].tolist(), strict=True)
        changes: dict[int, int] = {}
        # A word of a text that is emptied may be inserted again.
        for feature, move in (*moves, *added):
            changes[feature] = changes.get(feature, 0) + move
        return {feature: move for feature, move in changes.items() if move}

    def counts(self, n_features: int) -> sp.csr_matrix:
        """Return the counts of the features after these edits, (n, n_features)."""
        words, shape = self.words, (len(self.words), n_features)
        own = sp.csr_matrix((words.counts + self.moves, words.indices, words.indptr), shape=shape)
        rows, at = np.nonzero(self.amounts)
        new = sp.csr_matrix((self.amounts[rows, at], (rows, self.added[rows, at])), shape=shape)
        edited = sp.csr_matrix(own + new)
        edited.eliminate_zeros()
        return edited


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
        words, V = self.words.take(rows), np.ascontiguousarray(V, dtype=np.float64)
        changes = self._changes(words)
        limits, emptied, to_zero = self._emptied(words, *changes[:2])
        listed = self._listed(words, V, assign)
        found = self._search(words, V, assign, listed, changes, limits, emptied, self.edit)
        if self._guards(self.edit) and self.edit != "drop":
            some = emptied & ((np.diff(words.indptr) > 0) | (self.edit == "replace"))
            self._insert_into_empty(found, V, assign, listed, np.flatnonzero(some), to_zero)
        return found

    @cached_property
    def _signed(self) -> bool:
        return bool(self.falling.any() or self.words.minus.any())

    def _guards(self, edit: str) -> bool:
        """Whether the search has to exclude that all counts become 0."""
        return self._signed or edit in ("edit", "replace")

    def _emptied(
        self, words: CountedWords, down: np.ndarray, up: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return limits of the edits, whether they may delete all words, and the edits of that.

        Rows whose counts can all become 0 have the ratio 0 there, and the others are apart.
        """
        counts = words.counts
        reachable = (-up <= counts) & (counts <= down)
        to_zero = words.totals(np.where(reachable, np.abs(counts), max(self.most, 1) + 1))
        emptied = to_zero <= (0 if self.edit == "add" and not self._signed else self.most)
        emptied &= self.normalization.norm is not None
        limits = np.full(len(words), self.most, dtype=np.int64)
        if not self._guards(self.edit):
            limits = np.where(emptied & (self.edit == "drop"), np.maximum(to_zero - 1, 0), limits)
        return limits, emptied, to_zero

    def _search(
        self,
        words: CountedWords,
        V: np.ndarray,
        assign: np.ndarray,
        listed: tuple[np.ndarray, np.ndarray, np.ndarray],
        changes: tuple[np.ndarray, ...],
        limits: np.ndarray,
        emptied: np.ndarray,
        edit: str,
    ) -> WordChanges:
        """Return the edits with the largest ratio, for limits of the edits of each text."""
        n, counts, most = len(words), words.counts, max(self.most, 1)
        needed, what = 40.0 * most * n, f"{most} token edits of each of {n} texts"
        # The check takes 0.4 ms.
        if needed > _UNCHECKED:
            check_memory(what, needed, "reduce max_changes, or pass fewer texts")
        values, upper = np.zeros((2, n))
        moves = np.zeros(len(words.indices), dtype=np.int64)
        added, amounts = np.zeros((2, n, most), dtype=np.int64)
        norm, s = self.normalization.norm, self.normalization.squares
        zero = int(np.abs(counts).max(initial=0)) + 2 * most + 2
        terms = self.normalization.values(np.arange(-zero, zero + 1))
        lengths = self.normalization.lengths(terms)
        least = float(s[s > 0].min(initial=np.inf)) if norm is not None else 1.0
        rows = np.arange(n, dtype=np.int64)

        def search(part: slice) -> None:
            worst_ratios(
                rows[part], words.indptr, words.indices, counts, words.n_unknown, *changes,
                edit == "replace", V, assign[part], s, terms, lengths, zero, NORMS[norm], least, *listed,
                limits, emptied, self._guards(edit), self.tolerance, values[part], upper[part], moves,
                added[part], amounts[part],
            )  # fmt: skip

        # Each line of the search visits the words of a text and those to insert.
        n_visited = len(words.indices) + n * len(listed[1]) // (2 * len(V))
        in_threads(search, n, 4 * n_visited, most=max(1, _WORK_AT_ONCE // most**2))
        return WordChanges(words, values, upper, moves, added, amounts)

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
            left = np.minimum(self.most, to_zero[rows] + words.n_unknown[rows])
        rows, left = rows[left > 0], left[left > 0]
        # The results depend on the direction and the number of insertions only.
        pairs, which = np.unique(np.stack([assign[rows], left]), axis=1, return_inverse=True)
        n, none = pairs.shape[1], np.zeros(0, dtype=np.int64)
        blank = CountedWords(
            np.zeros(n + 1, dtype=np.int64), none, none, none, np.zeros(n, dtype=np.int64)
        )
        changes, all_emptied = self._changes(blank), np.ones(n, dtype=bool)
        of_pair = self._search(blank, V, pairs[0], listed, changes, pairs[1], all_emptied, "add")
        which = np.ravel(which)
        results.upper[rows] = np.maximum(results.upper[rows], of_pair.upper[which])
        better = of_pair.values[which] > results.values[rows]
        for row, pair in zip(rows[better], which[better], strict=True):
            row_words = slice(words.indptr[row], words.indptr[row + 1])
            results.values[row] = of_pair.values[pair]
            results.moves[row_words] = -words.counts[row_words]
            results.added[row], results.amounts[row] = of_pair.added[pair], of_pair.amounts[pair]

    def _changes(self, words: CountedWords) -> tuple[np.ndarray, ...]:
        """Return how far each count may fall and rise; for replacements, also by insertions."""
        most, at, none = int(self.most), words.indices, np.zeros(0, dtype=np.int64)
        deleted = words.plus, words.minus
        inserted = most * self.falling[at].astype(np.int64), most * self.rising[at].astype(np.int64)
        limits = np.full((2, len(at)), most)
        if self.normalization.terms == "binary":
            # A count that moves away from 0 leaves the value unchanged.
            limits = np.clip([1 + words.counts, 1 - words.counts], 0, most)

        def limited(pair: Sequence[np.ndarray]) -> Iterator[np.ndarray]:
            return map(np.minimum, pair, limits)

        if self.edit == "replace":
            return (*limited(deleted), *limited(inserted))
        both = [deleted[side] + inserted[side] for side in (0, 1)]
        return (*limited({"drop": deleted, "add": inserted}.get(self.edit, both)), none, none)

    @cached_property
    def _by_length(self) -> np.ndarray:
        """Words that can be inserted, by increasing length."""
        insertable = np.flatnonzero(self.rising | self.falling)
        if self.edit == "drop":
            return insertable[:0]
        return insertable[np.argsort(self.normalization.squares[insertable], kind="stable")]

    def _listed(
        self, words: CountedWords, V: np.ndarray, assign: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the words to insert for each direction, for theta >= 0 and for theta < 0.

        Each text lacks enough of them: a word that is not listed for a direction is dominated by more
        listed words than the text contains, by the number of edits.
        """
        s, shorter = self.normalization.squares, self._by_length
        parts: list[np.ndarray] = []
        signs: list[np.ndarray] = []
        used = np.zeros(len(V), dtype=bool)
        used[assign] = True
        for direction, v in enumerate(V):
            # The count of a word may rise or fall, or both.
            sign = np.where(self.falling & ((v < 0) | ~self.rising), -1, 1)
            gain = v * sign
            for falls in (False, True):
                if not used[direction] or (falls and not s.any()):
                    chosen = shorter[:0]
                elif falls:
                    chosen = self._undominated(words, gain, -s, shorter[::-1])
                else:
                    chosen = self._undominated(words, gain, s, shorter[gain[shorter] > 0])
                # In the sequence of the features, the first of equal words is inserted.
                parts.append(np.sort(chosen))
                signs.append(sign[parts[-1]])
        where = np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)
        return where, np.concatenate(parts), np.concatenate(signs).astype(np.int64)

    def _undominated(
        self, words: CountedWords, gain: np.ndarray, s: np.ndarray, ordered: np.ndarray
    ) -> np.ndarray:
        """Return the words with less than K + m dominating ones, if texts contain m of them.

        The words are `ordered` by increasing `s`.
        """
        most = self.most + _MORE_WORDS
        while True:
            some = _candidates(gain, ordered, most)
            order = some[np.lexsort((-gain[some], s[some]))]
            kept = np.empty(len(order), dtype=np.int64)
            number = skyband(gain, order, most, kept)
            listed = kept[:number]
            if most >= len(ordered):
                return listed
            found = np.zeros(len(gain), dtype=np.int64)
            found[listed] = 1
            present = words.totals(found[words.indices])
            if self.most + int(present.max(initial=0)) <= most:
                return listed
            most *= 2


def _candidates(gain: np.ndarray, ordered: np.ndarray, most: int) -> np.ndarray:
    """Return a part of the ordered words that has all those with fewer than `most` dominating ones.

    Sorting this part is much faster than sorting all words.
    """
    n = max(len(ordered) // 16, most)
    if n >= len(ordered):
        return ordered
    best = gain[ordered[:n]]
    least = np.partition(best, n - most)[n - most]
    return np.concatenate([ordered[:n], ordered[n:][gain[ordered[n:]] > least]])
