"""Bounds of token edits for n-grams of words in rows divided by their norm."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from .bounded_ratios import BoundedRatios
from .gram_edits import GramEdits, GramTexts
from .text_grams import Documents, Grams, PlacedEdits


@dataclass(frozen=True)
class GramRatios(BoundedRatios):
    """Bounds of the scores of edited texts, for rows of n-grams of words.

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
        gains = self._texts.gains(V, slopes, self.most)
        for parts in self._parts:
            total, listed = np.zeros(len(rows)), []
            for part in parts:
                edits, values = part.worst(rows, gains, assign)
                total += values
                listed.append((edits, part.edit))
            yield total, listed

    @cached_property
    def _parts(self) -> list[list[GramEdits]]:
        """Edits of one kind, or of each split into deletions and insertions."""
        if self.edit != "edit":
            return [self._edits(self.edit, self.most)]
        every = range(self.most + 1)
        return [self._edits("drop", n) + self._edits("add", self.most - n) for n in every]

    def _edits(self, edit: str, most: int) -> list[GramEdits]:
        return [GramEdits(self._texts, edit, most, self.allowed)] if most > 0 else []

    @cached_property
    def _texts(self) -> GramTexts:
        return GramTexts(self.documents, self.grams, self.normalization)
