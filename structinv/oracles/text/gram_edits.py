"""Worst token edits of texts if the gains of n-grams add up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from ...utils.matrices import in_threads, longest_row, short_indices
from ...utils.resources import check_memory
from ...utils.ties import best_first
from .bounded_ratios import occurrence_gains
from .ratios import Normalization
from .text_grams import CreatableFeatures, Documents, Grams, PlacedEdits
from .text_paths import worst_deletions
from .text_spots import new_features, worst_spots


@dataclass(frozen=True)
class GramTexts:
    """Texts with the n-grams of their features.

    - `documents`: texts
    - `grams`: N-grams of the features
    - `normalization`: values of counted features
    """

    documents: Documents
    grams: Grams
    normalization: Normalization

    def gains(self, V: np.ndarray, slopes: np.ndarray, n_edits: int) -> np.ndarray:
        """Bound the gains of created features, and the negative gains of removed pairs.

        A pair is a feature and its count in a text. The gains hold for at most `n_edits` edits.
        """
        features, counts, _ = self.pairs
        n_created = 2 * self.grams.longest * n_edits
        created, removed = occurrence_gains(V, slopes, self.normalization, features, counts, n_created)
        return np.hstack([created, -removed])

    @cached_property
    def features(self) -> sp.csr_matrix:
        """Features of each text."""
        return short_indices(self.grams.counts(self.documents))

    @cached_property
    def pairs(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Features and counts of all pairs, and the number of the pair at each token.

        The numbers are behind those of the features that edits create.
        """
        found, starts = self.grams.ending(self.documents), self.documents.starts
        owners = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        of_text = owners[:, None] * (self.grams.n_features + 1) + found + 1
        _, inverse, counts = np.unique(of_text, return_inverse=True, return_counts=True)
        counts = counts[inverse].reshape(found.shape)
        known, most = found >= 0, int(counts.max(initial=0)) + 1
        keys, numbers = np.unique(found[known] * most + counts[known], return_inverse=True)
        ending = np.full(found.shape, -1, dtype=np.int64)
        ending[known] = numbers + self.grams.n_features
        return keys // most, keys % most, ending


@dataclass(frozen=True)
class GramEdits:
    """Token edits of one kind, with gains of the n-grams that they create and remove.

    The largest sum of gains is a bound for all edits:

    - Deletions may create any n-gram of three tokens or more, or not, whichever is worse.
    - Inserted tokens create the best n-grams of that many tokens, regardless of their neighbors.

    - `edit`: kind of edit
    - `most`: maximum number of edits per text (>= 1)
    - `allowed`: numbers of the tokens that may be inserted; None for all
    """

    texts: GramTexts
    edit: str
    most: int
    allowed: np.ndarray | None

    def worst(
        self, rows: np.ndarray, gains: np.ndarray, assign: np.ndarray
    ) -> tuple[PlacedEdits, np.ndarray]:
        """Return the edits of texts with the largest sums of gains, and these sums.

        Shapes: `rows` (n,), `gains` (p, n_gains), `assign` (n,).
        """
        most, n = self._most(rows), len(rows)
        what = f"{most} token edits of each of {n} texts"
        check_memory(what, 24.0 * most * n, "reduce max_changes, or pass fewer texts")
        counts, spots = np.zeros(n, dtype=np.int64), np.zeros((n, most), dtype=np.int64)
        inserted, values = np.full((n, most), -1, dtype=np.int64), np.zeros(n)
        maximize = self._by_paths(gains, most) if self._is_path else self._by_spots(gains, most)

        def maximize_part(part: slice) -> None:
            maximize(rows[part], assign[part], counts[part], spots[part], inserted[part], values[part])

        in_threads(maximize_part, n, self._work(rows))
        return PlacedEdits.at(counts, spots, self._tokens_of(inserted)), values

    def _most(self, rows: np.ndarray) -> int:
        """Return the largest number of edits of these texts; at least 1, as a length of arrays."""
        if self.edit == "add" or not len(rows):
            return self.most
        starts = self.texts.documents.starts
        return max(min(self.most, int((starts[rows + 1] - starts[rows]).max())), 1)

    @property
    def _is_path(self) -> bool:
        """True if deletions create n-grams."""
        return self.edit == "drop" and self.texts.grams.longest > 1

    @property
    def _binary(self) -> bool:
        return self.texts.normalization.terms == "binary"

    def _by_paths(self, gains: np.ndarray, most: int) -> Callable[..., None]:
        n, documents = self.texts.grams.longest, self.texts.documents
        created = self._created

        def maximize(
            rows: Any, assign: Any, counts: Any, spots: Any, inserted: Any, values: Any
        ) -> None:
            longest = documents.longest(rows)
            best, removal = np.empty((longest + 1, most + 1, n - 1)), np.empty((longest, n + 1))
            worst_deletions(
                documents.starts, self.texts.pairs[2], created.where, created.entries, not self._binary,
                rows, gains, assign, most, removal, best, np.zeros(best.shape, dtype=np.int64),
                np.empty((n - 1, most + 1, most + 1)), counts, spots, values,
            )  # fmt: skip

        return maximize

    @cached_property
    def _created(self) -> CreatableFeatures:
        return self.texts.grams.created(self.texts.documents, self.most)

    def _by_spots(self, gains: np.ndarray, most: int) -> Callable[..., None]:
        longest, repeats, features = self.texts.grams.longest, not self._binary, self.texts.features
        drops, adds = self.edit == "drop", self.edit == "add"
        ranked, n_ranked = self._ranked(gains, most)

        def maximize(rows: Any, assign: Any, *results: Any) -> None:
            n = len(rows)
            created = np.empty((n, most, 0 if drops else longest * (longest + 1) // 2), dtype=np.int64)
            creation, scores = np.zeros((n, most)), np.empty(self.texts.documents.longest(rows))
            if not drops:
                new_features(
                    features.indptr, features.indices, rows, gains, assign, ranked, n_ranked, repeats,
                    most, np.full(gains.shape[1], -1, dtype=np.int64), created, creation,
                )  # fmt: skip
            worst_spots(
                self.texts.documents.starts, self.texts.pairs[2], adds, not (adds and longest == 1),
                repeats, rows, gains, assign, most, created, creation, scores,
                np.empty(most, dtype=np.int64), *results,
            )  # fmt: skip

        return maximize

    def _ranked(self, gains: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
        """Return insertable features with positive gains by direction and order, best first."""
        n, insertable = self.texts.grams.longest, self.texts.grams.holding(self.allowed)
        # If features are binary, a text takes the best features that it lacks, so more are listed.
        limit = n * most + longest_row(self.texts.features.indptr) if self._binary else 1
        limit = max(min(limit, self.texts.grams.n_features), 1)
        ranked = np.full((len(gains), n, limit), -1, dtype=np.int64)
        n_ranked = np.zeros((len(gains), n), dtype=np.int64)
        for m in range(0 if self.edit == "drop" else n):
            allowed = np.flatnonzero(insertable & (self.texts.grams.orders == m + 1))
            for p, gain in enumerate(gains[:, allowed]):
                best = np.flatnonzero(gain > 0)
                best = allowed[best[best_first(gain[best], limit)]]
                ranked[p, m, : len(best)], n_ranked[p, m] = best, len(best)
        return ranked, n_ranked

    def _tokens_of(self, features: np.ndarray) -> np.ndarray:
        """Return the token of each single-token feature; -1 for other features and feature -1."""
        of_feature = np.full(self.texts.grams.n_features + 1, -1, dtype=np.int64)
        known = np.flatnonzero(self.texts.grams.feature_of >= 0)
        of_feature[self.texts.grams.feature_of[known]] = known
        return of_feature[features]

    def _work(self, rows: np.ndarray) -> int:
        starts = self.texts.documents.starts
        return int((starts[rows + 1] - starts[rows]).sum()) * (1 + self.most)
