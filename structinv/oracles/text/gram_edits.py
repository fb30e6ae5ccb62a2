"""Worst token edits of texts if the gains of n-grams add up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from ...utils.jit import LEAN, njit
from ...utils.matrices import TIES, best_first, in_threads, longest_row, short_indices
from ...utils.resources import check_memory
from .bounded_ratios import BoundedRatios
from .text_grams import Documents, Grams, PlacedEdits


@dataclass(frozen=True)
class GramRatios(BoundedRatios):
    """Bounds of the scores of edited texts, for rows of n-grams of words.

    Gains of the n-grams that edits create and remove add up. The largest sum is a bound for all edits:

    - Deletions may create any n-gram of three tokens or more, or not, whichever is worse.
    - Inserted tokens create the best n-grams of that many tokens, regardless of their neighbors.

    - `documents, normalization, edit, most`: see `BoundedRatios`
    - `grams`: N-grams of the features
    - `allowed`: numbers of the tokens that may be inserted; None for all
    """

    grams: Grams
    allowed: np.ndarray | None

    def counts_of(self, documents: Documents) -> sp.csr_matrix:
        return self.grams.counts(documents)

    def found(
        self, rows: np.ndarray, V: np.ndarray, slopes: np.ndarray, assign: np.ndarray
    ) -> Iterator[tuple[np.ndarray, list[tuple[PlacedEdits, str]]]]:
        created, removed = self.gains(V, slopes, 2 * self.grams.longest * self.most)
        gains, splits = np.hstack([created, -removed]), [[(self.edit, self.most)]]
        if self.edit == "edit":
            splits = [[("drop", n), ("add", self.most - n)] for n in range(self.most + 1)]
        for split in splits:
            total, listed = np.zeros(len(rows)), []
            for edit, most in split:
                if most > 0:
                    edits, values = self._worst(edit, most, rows, gains, assign)
                    total += values
                    listed.append((edits, edit))
            yield total, listed

    @cached_property
    def _ending(self) -> np.ndarray:
        """Places in the gains of the n-grams that end at each token, by order, or -1."""
        ending, lengths = self.grams.ending(self.documents), np.diff(self.documents.starts)
        known = ending >= 0
        texts = np.repeat(np.repeat(np.arange(len(lengths)), lengths), known.sum(axis=1))
        ending[known] = self.pairs_at(texts, ending[known]) + self.grams.n_features
        return ending

    @cached_property
    def _features(self) -> sp.csr_matrix:
        """Features of each text, for compiled functions."""
        return short_indices(self.counts)

    @cached_property
    def _created(self) -> tuple[np.ndarray, np.ndarray]:
        return self.grams.created(self.documents, self.most)

    @property
    def _binary(self) -> bool:
        return self.normalization.terms == "binary"

    def _worst(
        self, edit: str, most: int, rows: np.ndarray, gains: np.ndarray, assign: np.ndarray
    ) -> tuple[PlacedEdits, np.ndarray]:
        """Return the edits of one kind with the largest sums of gains, and these sums.

        Shapes: `rows` (n,), `gains` (p, n_gains), `assign` (n,).
        """
        n, lengths = len(rows), np.diff(self.documents.starts)[rows]
        longest = int(lengths.max(initial=0))
        width = most if edit == "add" else max(min(most, longest), 1)
        what = f"{width} token edits of each of {n} texts"
        check_memory(what, 24.0 * width * n, "reduce max_changes, or pass fewer texts")
        counts, spots = np.zeros(n, dtype=np.int64), np.zeros((n, width), dtype=np.int64)
        inserted, values = np.full((n, width), -1, dtype=np.int64), np.zeros(n)
        if edit == "drop" and self.grams.longest > 1:
            maximize = self._by_paths(gains, width, longest)
        else:
            maximize = self._by_spots(edit, gains, width, longest)

        def maximize_part(part: slice) -> None:
            maximize(rows[part], assign[part], counts[part], spots[part], inserted[part], values[part])

        in_threads(maximize_part, n, int(lengths.sum()) * (1 + most))
        return PlacedEdits.at(counts, spots, self._tokens_of(inserted)), values

    def _by_paths(self, gains: np.ndarray, most: int, longest: int) -> Callable[..., None]:
        """Return the search for deletions, which create n-grams."""
        n, where, entries = self.grams.longest, *self._created

        def maximize(
            rows: Any, assign: Any, counts: Any, spots: Any, inserted: Any, values: Any
        ) -> None:
            best, removal = np.empty((longest + 1, most + 1, n - 1)), np.empty((longest, n + 1))
            worst_deletions(
                self.documents.starts, self._ending, where, entries, not self._binary,
                rows, gains, assign, most, removal, best, np.zeros(best.shape, dtype=np.int64),
                np.empty((n - 1, most + 1, most + 1)), counts, spots, values,
            )  # fmt: skip

        return maximize

    def _by_spots(self, edit: str, gains: np.ndarray, most: int, longest: int) -> Callable[..., None]:
        """Return the search for edits whose gains are those of their places and of new n-grams."""
        n, repeats, features = self.grams.longest, not self._binary, self._features
        drops, adds = edit == "drop", edit == "add"
        ranked, n_ranked = self._ranked(edit, gains, most)

        def maximize(rows: Any, assign: Any, *results: Any) -> None:
            created = np.empty((len(rows), most, 0 if drops else n * (n + 1) // 2), dtype=np.int64)
            creation = np.zeros((len(rows), most))
            if not drops:
                new_features(
                    features.indptr, features.indices, rows, gains, assign, ranked, n_ranked, repeats,
                    most, np.full(gains.shape[1], -1, dtype=np.int64), created, creation,
                )  # fmt: skip
            worst_spots(
                self.documents.starts, self._ending, adds, not (adds and n == 1), repeats, rows,
                gains, assign, most, created, creation, np.empty(longest),
                np.empty(most, dtype=np.int64), *results,
            )  # fmt: skip

        return maximize

    def _ranked(self, edit: str, gains: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
        """Return insertable features with positive gains by direction and order, best first."""
        n, insertable = self.grams.longest, self.grams.holding(self.allowed)
        # If features are binary, a text takes the best features that it lacks, so more are listed.
        limit = n * most + longest_row(self._features.indptr) if self._binary else 1
        limit = max(min(limit, self.grams.n_features), 1)
        ranked = np.full((len(gains), n, limit), -1, dtype=np.int64)
        n_ranked = np.zeros((len(gains), n), dtype=np.int64)
        for m in range(0 if edit == "drop" else n):
            allowed = np.flatnonzero(insertable & (self.grams.orders == m + 1))
            for p, gain in enumerate(gains[:, allowed]):
                best = np.flatnonzero(gain > 0)
                best = allowed[best[best_first(gain[best], limit)]]
                ranked[p, m, : len(best)], n_ranked[p, m] = best, len(best)
        return ranked, n_ranked

    def _tokens_of(self, features: np.ndarray) -> np.ndarray:
        """Return the token of each single-token feature; -1 for other features and feature -1."""
        of_feature = np.full(self.grams.n_features + 1, -1, dtype=np.int64)
        known = np.flatnonzero(self.grams.feature_of >= 0)
        of_feature[self.grams.feature_of[known]] = known
        return of_feature[features]


@njit(**LEAN)
def _fill_table(
    start, length, where, entries, gains, exact, most, removal, created_gains, best, previous
):
    """Fill the dynamic programming table of one text.

    best[j + 1, k, r] is the largest gain if token j remains, k tokens before it are deleted, and the
    last r + 1 remaining tokens up to j are adjacent. A step from token i to token j adds

    - the gains of the n-grams that end at the deleted tokens between i and j,
    - the gains of the n-grams that end at j and contain a deleted token,
    - the gains of the n-grams that the gap creates.
    """
    longest, run = removal.shape[1] - 1, best.shape[2]
    best[: length + 1] = -np.inf
    # No n-gram reaches back beyond the first token.
    best[0, 0, run - 1] = 0.0
    for j in range(length):
        # Gains of created features that end at j, by order, last gap and number of deletions.
        created_gains[:] = 0.0
        for c in range(where[start + j], where[start + j + 1]):
            order, gap, gain = entries[c, 1], entries[c, 2], gains[entries[c, 0]]
            bigram = exact and order == 2
            for k in range(gap if bigram else entries[c, 3], most + 1):
                if bigram or gain > created_gains[order - 2, gap, k]:
                    created_gains[order - 2, gap, k] = gain
        deleted_gain = 0.0
        for gap in range((most if most < j else j) + 1):
            if gap > 0:
                deleted_gain += removal[j - gap, longest]
            i = j - gap - 1
            for k in range(gap, most + 1):
                for r in range(run):
                    value = best[i + 1, k - gap, r]
                    if value == -np.inf:
                        continue
                    n_adjacent = r + 2 if gap == 0 else 1
                    value += deleted_gain
                    # After n - 1 adjacent tokens no n-gram reaches back to the gap.
                    if gap > 0 or r < run - 1:
                        for order in range(n_adjacent + 1, longest + 1):
                            value += removal[j, order - 1] + created_gains[order - 2, gap, k]
                    new_run = (n_adjacent if n_adjacent < run else run) - 1
                    if value - best[j + 1, k, new_run] > TIES * abs(value):
                        previous[j + 1, k, new_run] = gap * run + r
                    best[j + 1, k, new_run] = max(value, best[j + 1, k, new_run])


@njit(**LEAN)
def _backtrack(length, best, previous, most, removal, spots):
    """Write the places of the best deletions; return their number and their gain."""
    run = best.shape[2]
    value, at_j, at_k, at_r, tail = -np.inf, 0, 0, 0, 0.0
    for gap in range((most if most < length else length) + 1):
        if gap > 0:
            tail += removal[length - gap, removal.shape[1] - 1]
        j = length - gap
        for k in range(most - gap + 1):
            for r in range(run):
                reached = best[j, k, r] + tail
                if reached - value > TIES * abs(reached):
                    at_j, at_k, at_r = j, k, r
                value = max(value, reached)
    # From the end of the text: deletions after the last remaining token, then before each of them.
    count, j, k, r, gap = 0, length + 1, at_k, at_r, length - at_j
    while j > 0:
        for p in range(j - 2, j - 2 - gap, -1):
            spots[count] = p
            count += 1
        j -= gap + 1
        if j > 0:
            gap, before = previous[j, k, r] // run, previous[j, k, r] % run
            k, r = k - gap, before
    for e in range(count // 2):
        spots[e], spots[count - 1 - e] = spots[count - 1 - e], spots[e]
    return count, value


@njit(**LEAN)
def worst_deletions(
    starts, ending, where, entries, exact, rows, gains, assign, most, removal, best, previous, credit,
    counts, spots, values,
):  # fmt: skip
    """Compute the worst deletions of `most` tokens or fewer of each text.

    Shapes: `starts` (n_texts + 1,), `ending` (n_tokens, n), `rows` (n,), `gains` (p, n_features),
    `assign` (n,), `removal` (n_longest, n + 1), `best` (n_longest + 1, most + 1, n - 1), `previous`
    (n_longest + 1, most + 1, n - 1), `credit` (n - 1, most + 1, most + 1).
    """
    longest = ending.shape[1]
    for r in range(len(rows)):
        start, gain_of = starts[rows[r]], gains[assign[r]]
        length = starts[rows[r] + 1] - start
        for p in range(length):
            total = 0.0
            for m in range(longest):
                feature = ending[start + p, m]
                gain = -gain_of[feature] if feature >= 0 else 0.0
                removal[p, m] = gain
                total += gain
            removal[p, longest] = total
        _fill_table(start, length, where, entries, gain_of, exact, most, removal, credit, best, previous)
        counts[r], values[r] = _backtrack(length, best, previous, most, removal, spots[r])


@njit(**LEAN)
def new_features(
    indptr, indices, rows, gains, assign, ranked, n_ranked, repeats, most, marks, created, creation
):  # fmt: skip
    """Compute the features that successive edits create, best first, and their gains.

    Each edit creates m features of order m. If `repeats` is true, each is the best one. Otherwise it is
    the next best feature that the text lacks.

    Shapes: `ranked` (p, n, n_listed), `n_ranked` (p, n), `marks` (n_features,), `created` (n, most,
    n_created), `creation` (n, most).
    """
    for r in range(len(rows)):
        gain_of, p = gains[assign[r]], assign[r]
        for e in range(indptr[rows[r]], indptr[rows[r] + 1]):
            marks[indices[e]] = r
        for e in range(most):
            creation[r, e] = 0.0
            for column in range(created.shape[2]):
                created[r, e, column] = -1
        for m in range(ranked.shape[1]):
            at, column = 0, m * (m + 1) // 2
            for e in range(most):
                for c in range(m + 1):
                    while not repeats and at < n_ranked[p, m] and marks[ranked[p, m, at]] == r:
                        at += 1
                    if at >= n_ranked[p, m]:
                        break
                    feature = ranked[p, m, at]
                    created[r, e, column + c] = feature
                    creation[r, e] += gain_of[feature]
                    at += not repeats


@njit(**LEAN)
def worst_spots(
    starts, ending, between, places, certain, rows, gains, assign, most, created, creation, scores,
    listed, counts, spots, inserted, values,
):  # fmt: skip
    """Compute the worst edits at `most` places or fewer of each text.

    Shapes: `scores` (n_tokens,), `listed` (most,).
    """
    longest, creates, inner = ending.shape[1], created.shape[2] > 0, 1 if between else 0
    for r in range(len(rows)):
        start, stop, gain_of = starts[rows[r]], starts[rows[r] + 1], gains[assign[r]]
        length, n_listed = stop - start, 0
        # scores[p] is the gain of the n-grams that an edit of token p breaks, or an insertion before it.
        # An insertion before the first token breaks no n-gram.
        for p in range(length if places else 0):
            scores[p] = 0.0
        for at in range(start, stop if places else start):
            for m in range(longest):
                feature = ending[at, m]
                if feature >= 0:
                    gain = -gain_of[feature]
                    if gain > 0 or (certain and m == 0):
                        for back in range(m + 1 - inner):
                            scores[at - start - back] += gain
        # Places of the largest scores, in decreasing sequence, the first of equal ones.
        for p in range(length if places else 0):
            least = scores[p] - TIES * abs(scores[p])
            if n_listed == most and least <= scores[listed[n_listed - 1]]:
                continue
            place = n_listed if n_listed < most else most - 1
            while place > 0 and scores[listed[place - 1]] < least:
                listed[place] = listed[place - 1]
                place -= 1
            listed[place] = p
            n_listed += n_listed < most
        value, count = 0.0, 0
        for e in range(most):
            gain = scores[listed[e]] if e < n_listed else 0.0
            if between:
                gain = gain if gain > 0.0 else 0.0
            elif e >= n_listed:
                break
            if gain + creation[r, e] <= 0:
                break
            breaks = e < n_listed and (not between or gain > 0)
            spots[r, count] = listed[e] if breaks else length
            inserted[r, count] = created[r, e, 0] if creates else -1
            count += 1
            value += gain + creation[r, e]
        counts[r], values[r] = count, value
