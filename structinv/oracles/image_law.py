"""Distributions over geometric changes of images."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from ..matrices import Matrix
from .base import dense_rows
from .image_maps import ImageMaps
from .laws import Law, LinearLaw, normalised


class ImageLaw(Law):
    """Maps of images, which are made once.

    Parameters
    ----------
    maps : ImageMaps
    weights : (s,) array
    numbers : (s,) array of int, optional
        Of the maps that have these weights, all of them by default.
    """

    def __init__(self, maps: ImageMaps, weights: np.ndarray, numbers: np.ndarray | None = None) -> None:
        self.maps = maps
        # Values whose density vanishes are no changes of the law.
        likely = np.flatnonzero(weights)
        self.numbers = likely if numbers is None else numbers[likely]
        self.weights = normalised(weights[likely])

    def members(self, X: Matrix) -> np.ndarray:
        rows = dense_rows(X)
        rows = rows if rows.dtype in (np.float32, np.float64) else rows.astype(np.float64)
        return self.maps.apply(rows, np.tile(self.numbers, (len(rows), 1)))

    def pull_back(self, V: np.ndarray) -> np.ndarray | None:
        """See `Law.pull_back`; None where the background is a number."""
        return self.maps.pull_back(V)[self.numbers] if self.maps.linear else None

    def take(self, numbers: Sequence[int] | np.ndarray, weights: np.ndarray | None = None) -> ImageLaw:
        chosen, weights = self._chosen(numbers, weights)
        return ImageLaw(self.maps, weights, self.numbers[chosen])

    def linear(self) -> LinearLaw | None:
        """See `Law.linear`; None where the background is a number."""
        if not self.maps.linear:
            return None
        channels = sp.identity(self.maps.shape.channels, format="csr")
        maps = [sp.kron(self.maps.matrix(int(k)), channels, format="csr") for k in self.numbers]
        return LinearLaw(maps, self.weights)
