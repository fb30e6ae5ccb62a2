"""Bounds of the scores of edited texts, for rows divided by their norm."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from ...utils.matrices import ALL_ROWS, Rows, row_dots
from ..ratio_kernels import bounds_below
from .ratios import Normalization
from .text_grams import Documents, PlacedEdits

# Slopes are powers of this number, so that many rows share them.
_STEP = 1.15
# Number of slopes for each row.
_ROUNDS = 16
# A round that improves less than this number times the tolerance is the last one of a row.
_FEWER = 100.0
# Relative difference of bounds that counts as equal.
_SAME = 1e-9
# Number of gains in memory at a time.
_GAINS_AT_ONCE = 4_000_000


@dataclass(frozen=True)
class BoundedRatios(ABC):
    """Bounds of the scores of edited texts.

    - `documents`: texts
    - `normalization, edit, most, tolerance`: see `RatioSearch`
    """

    documents: Documents
    normalization: Normalization
    edit: str
    most: int
    tolerance: float

    @abstractmethod
    def counts_of(self, documents: Documents) -> sp.csr_matrix:
        """Return the counts of the features of texts."""

    @abstractmethod
    def found(
        self, rows: np.ndarray, V: np.ndarray, slopes: np.ndarray, assign: np.ndarray
    ) -> Iterator[tuple[np.ndarray, list[tuple[PlacedEdits, str]]]]:
        """Yield bounds of the gains of ``a - theta q``, with edits that may have them.

        Each of the edits has its kind. The largest of the yielded bounds holds for all edits.
        """

    @cached_property
    def counts(self) -> sp.csr_matrix:
        """Counts of the features of all texts."""
        return self.counts_of(self.documents)

    def gains(self, V: np.ndarray, slopes: np.ndarray, n_created: int) -> tuple[np.ndarray, np.ndarray]:
        """Bound the gain of ``a - theta q`` for each created or removed occurrence.

        Edits create at most `n_created` occurrences. A pair is a feature and its count in a text.

        Shapes: `V` (p, d), `slopes` (p,); returns `created` (p, d), `removed` (p, n_pairs).
        """
        features, counts, _ = self._pairs
        normalization, norm = self.normalization, self.normalization.norm
        terms, fine = normalization.terms, slopes[:, None] * normalization.squares
        created = V - fine
        if terms == "counts" and norm == "l2":
            # Convex for negative slopes, so that the last of several created occurrences gains most.
            most = np.zeros(V.shape[1])
            np.maximum.at(most, features, counts)
            created = np.where(fine < 0, V - fine * (2 * (most + n_created) + 1), created)
        elif terms == "sublinear":
            # Later occurrences gain almost nothing, or most is gained by the second for negative slopes.
            second = V * np.log(2.0) - fine * ((1.0 + np.log(2.0)) ** 2 - 1.0)
            convex = (fine < 0) & (norm == "l2")
            later = np.where(convex, np.maximum(second, second - V * np.log(2.0)), 0.0)
            created = np.maximum(created, later)
        elif terms == "binary":
            created = np.maximum(created, 0.0)
        removed = np.full((len(V), len(features)), -np.inf)
        before = normalization.values(counts)
        weights, fine = V[:, features], fine[:, features]
        some = np.arange(len(features))
        for n in range(1, int(counts.max(initial=0)) + 1):
            some = some[counts[some] >= n]
            after = normalization.values(counts[some] - n)
            lost = normalization.lengths(after) - normalization.lengths(before[some])
            gain = weights[:, some] * (after - before[some]) - fine[:, some] * lost
            removed[:, some] = np.maximum(removed[:, some], gain / n)
        # A feature may be removed and created again.
        return created, np.maximum(removed, -created[:, features])

    @cached_property
    def _pairs(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Features and counts of all pairs, and the number of the pair of each entry of `counts`."""
        amounts = np.rint(self.counts.data).astype(np.int64)
        most = int(amounts.max(initial=0)) + 1
        keys = self.counts.indices.astype(np.int64) * most + amounts
        pairs, numbers = np.unique(keys, return_inverse=True)
        return pairs // most, pairs % most, numbers

    def pairs_at(self, texts: np.ndarray, features: np.ndarray) -> np.ndarray:
        """Return the numbers of the pairs of texts and features that these contain."""
        places = texts * self.counts.shape[1] + features
        return self._pairs[2][np.searchsorted(self._entries, places)]

    @cached_property
    def _entries(self) -> np.ndarray:
        """Increasing numbers of the entries of `counts`, row by row."""
        n, d = self.counts.shape
        return np.repeat(np.arange(n), np.diff(self.counts.indptr)) * d + self.counts.indices

    def worst(self, V: np.ndarray, assign: np.ndarray, rows: Rows = ALL_ROWS) -> BestEdits:
        """Bound the ratios of all edited texts, as `RatioSearch.worst`."""
        texts = np.arange(len(self.documents))[rows]
        a, q = self._sums(self.counts[texts], V, assign)
        best = BestEdits(self, texts, V, assign, a, q)
        norm, left = self.normalization.norm, np.arange(len(texts))
        if norm is None:
            return best.below(a + best.heights(left, np.zeros(len(texts)), 1.0))
        lowest = q - best.heights(left, np.ones(len(texts)), 0.0)
        highest = q + best.heights(left, -np.ones(len(texts)), 0.0)
        scale = self.normalization.squares
        least = float(scale[scale > 0].min(initial=np.inf))
        empties = lowest < 0.5 * least
        lowest, highest = np.maximum(lowest, least), np.maximum(highest, least)
        slopes, heights = np.zeros((2, len(texts), _ROUNDS))
        n_lines, upper = np.zeros(len(texts), dtype=np.int64), np.full(len(texts), np.inf)
        places, same = q.copy(), max(_FEWER * self.tolerance, _SAME)
        wanted = best.values / (1.0 if norm == "l1" else 2.0 * np.sqrt(np.maximum(q, least)))
        for _ in range(_ROUNDS):
            theta = _rounded(wanted[left])
            new = ~np.any(
                (slopes[left] == theta[:, None]) & (np.arange(_ROUNDS) < n_lines[left, None]), axis=1
            )
            left, theta = left[new], theta[new]
            if not len(left):
                break
            before = upper.copy(), best.values.copy()
            gain = best.heights(left, theta, 1.0)
            slopes[left, n_lines[left]] = theta
            heights[left, n_lines[left]] = a[left] - theta * q[left] + gain
            if norm == "l1":
                height = heights[left, n_lines[left]]
                reach = theta + np.where(height > 0, height / lowest[left], height / highest[left])
                upper[left] = np.minimum(upper[left], reach)
                n_lines[left] += 1
                wanted[left] = upper[left]
            else:
                n_lines[left] += 1
                order = np.argsort(
                    np.where(np.arange(_ROUNDS) < n_lines[:, None], slopes, np.inf), kind="stable"
                )
                lines = (np.take_along_axis(each, order, axis=1) for each in (slopes, heights))
                used = np.empty(_ROUNDS, dtype=np.int64)
                bounds_below(*lines, n_lines, lowest, highest, upper, places, used)
                wanted[left] = upper[left] / (2.0 * np.sqrt(places[left]))
            slack = np.minimum(
                upper - best.values, np.maximum(before[0] - upper, best.values - before[1])
            )
            left = left[slack[left] > same * (1.0 + np.abs(upper[left]))]
        return best.below(np.maximum(upper, np.where(empties, 0.0, -np.inf)))

    def _sums(
        self, counts: sp.csr_matrix, V: np.ndarray, assign: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return a and q of rows of counts."""
        values = counts.copy()
        values.data = self.normalization.values(counts.data)
        a = row_dots(values, V, assign)
        values.data = self.normalization.lengths(values.data)
        return a, np.asarray(values @ self.normalization.squares)


class BestEdits:
    """The best edits found for some texts, with bounds of the ratios of all edits.

    Shapes: `texts` (n,), `V` (p, d), `assign` (n,), `a` (n,), `q` (n,).
    """

    upper: np.ndarray

    def __init__(
        self,
        ratios: BoundedRatios,
        texts: np.ndarray,
        V: np.ndarray,
        assign: np.ndarray,
        a: np.ndarray,
        q: np.ndarray,
    ) -> None:
        self.ratios, self.texts, self.V, self.assign = ratios, texts, V, assign
        # A copy: without a norm, these are the sums themselves, and `_keep` changes the values.
        self.values = ratios.normalization.ratios(a, q).copy()
        self.edits = PlacedEdits.none(len(a))
        self.kinds = np.full(len(a), "drop", dtype="<U7")

    def below(self, upper: np.ndarray) -> BestEdits:
        """Set the bounds of the ratios, and return the edits."""
        self.upper = np.maximum(upper, self.values)
        return self

    def counts(self) -> sp.csr_matrix:
        """Return the counts of the features after these edits."""
        parts, places = [self.ratios.counts[:0]], [np.zeros(0, dtype=np.int64)]
        for kind in np.unique(self.kinds):
            some = np.flatnonzero(self.kinds == kind)
            parts.append(self._counts_after(some, self.edits.take(some), str(kind)))
            places.append(some)
        return sp.vstack(parts, format="csr")[np.argsort(np.concatenate(places))]

    def heights(self, rows: np.ndarray, slopes: np.ndarray, alpha: float) -> np.ndarray:
        """Bound the largest gain of ``alpha a - theta q`` of each row; keep the edits."""
        gains = np.full(len(rows), -np.inf)
        for some, V, theta, assign in self._directions(rows, slopes, alpha):
            for gain, found in self.ratios.found(self.texts[rows[some]], V, theta, assign):
                gains[some] = np.maximum(gains[some], gain)
                for edits, kind in found:
                    self._keep(rows[some], edits, kind)
        return gains

    def _directions(
        self, rows: np.ndarray, slopes: np.ndarray, alpha: float
    ) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
        """Yield portions of rows with their directions, slopes, and the direction of each row."""
        keys = np.stack([self.assign[rows], slopes])
        distinct, inverse = np.unique(keys, axis=1, return_inverse=True)
        inverse = np.ravel(inverse)
        size = max(1, _GAINS_AT_ONCE // (2 * self.V.shape[1]))
        for first in range(0, distinct.shape[1], size):
            some = np.flatnonzero((inverse >= first) & (inverse < first + size))
            chosen = distinct[:, first : first + size]
            yield some, alpha * self.V[chosen[0].astype(int)], chosen[1], inverse[some] - first

    def _keep(self, rows: np.ndarray, edits: PlacedEdits, kind: str) -> None:
        counts = self._counts_after(rows, edits, kind)
        sums = self.ratios._sums(counts, self.V, self.assign[rows])
        reached = self.ratios.normalization.ratios(*sums)
        better = reached > self.values[rows]
        some = rows[better]
        self.values[some], self.kinds[some] = reached[better], kind
        self.edits = self.edits.replaced(some, edits.take(better))

    def _counts_after(self, rows: np.ndarray, edits: PlacedEdits, kind: str) -> sp.csr_matrix:
        return self.ratios.counts_of(self.ratios.documents.edited(self.texts[rows], edits, kind))


def _rounded(slopes: np.ndarray) -> np.ndarray:
    """Round slopes to powers of a number."""
    with np.errstate(divide="ignore"):
        powers = np.round(np.log(np.abs(slopes)) / np.log(_STEP))
    return np.where(np.abs(slopes) < 1e-12, 0.0, np.sign(slopes) * _STEP**powers)
