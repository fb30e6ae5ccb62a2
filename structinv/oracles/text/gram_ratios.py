"""Bounds of token edits for n-grams of words in rows divided by their norm."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from .bounded_ratios import BoundedRatios, occurrence_gains
from .ratios import Normalization
from .text_edits import BoundTexts, TextEdits
from .text_grams import CreatableFeatures, Documents, Grams, PlacedEdits


class _CountedEdits(BoundTexts):
    """Token edits of texts, with a gain for each pair of a removed feature and its count.

    The pairs have numbers behind those of the features that edits create.
    """

    @cached_property
    def _numbered(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Features and counts of all pairs, and the number of the pair at each token, or -1."""
        found = self.oracle.grams.ending(self.oracle.documents)
        counts = self._counts_of(found)
        known, most = found >= 0, int(counts.max(initial=0)) + 1
        keys, numbers = np.unique(found[known] * most + counts[known], return_inverse=True)
        ending = np.full(found.shape, -1, dtype=np.int64)
        ending[known] = numbers + self.X.shape[1]
        return keys // most, keys % most, ending

    @cached_property
    def _ending(self) -> np.ndarray:
        return self._numbered[2]

    @cached_property
    def _fractions(self) -> np.ndarray:
        return np.ones(self._ending.shape)

    @cached_property
    def _may_remain(self) -> np.ndarray:
        return np.zeros(self._ending.shape, dtype=bool)

    @cached_property
    def _created(self) -> CreatableFeatures:
        return self.oracle.grams.created(self.oracle.documents, int(self.oracle.max_changes))

    def gains(self, V: np.ndarray, slopes: np.ndarray, normalization: Normalization) -> np.ndarray:
        """Bound the gain of each created feature, and the negative gain of each removed pair."""
        features, counts, _ = self._numbered
        n_created = 2 * self.oracle.grams.longest * int(self.oracle.max_changes)
        created, removed = occurrence_gains(V, slopes, normalization, features, counts, n_created)
        return np.hstack([created, -removed])


@dataclass(frozen=True)
class GramRatios(BoundedRatios):
    """Bounds of the scores of edited texts, for rows of n-grams of words.

    Parameters
    ----------
    documents, normalization, edit, most
        See `BoundedRatios`.
    grams : Grams
        N-grams of the features.
    allowed : array of int or None
        Numbers of the tokens that may be inserted; None for all.
    """

    grams: Grams
    allowed: np.ndarray | None

    def counts_of(self, documents: Documents) -> sp.csr_matrix:
        return self.grams.counts(documents)

    def found(
        self, rows: np.ndarray, V: np.ndarray, slopes: np.ndarray, assign: np.ndarray
    ) -> Iterator[tuple[np.ndarray, list[tuple[PlacedEdits, str]]]]:
        for parts in self._parts:
            total, listed = np.zeros(len(rows)), []
            for part in parts:
                gains = part.gains(V, slopes, self.normalization)
                worst = part.worst_of_gains(rows, gains, assign)
                total += worst.values
                listed.append((worst.edits, part.oracle.edit))
            yield total, listed

    @cached_property
    def _parts(self) -> list[list[_CountedEdits]]:
        """Edits of one kind, or of each split into deletions and insertions."""
        if self.edit != "edit":
            return [self._edits(self.edit, self.most)]
        every = range(self.most + 1)
        return [self._edits("drop", n) + self._edits("add", self.most - n) for n in every]

    def _edits(self, edit: str, most: int) -> list[_CountedEdits]:
        if most == 0:
            return []
        binary, ones = self.normalization.terms == "binary", np.ones(self.grams.n_features)
        allowed = None if edit == "drop" else self.allowed
        oracle = TextEdits(self.documents, self.grams, ones, edit, most, binary, allowed)
        return [_CountedEdits(oracle, self.counts)]
