"""Lists of transformed images, and covers of continuous sets of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from ...utils.matrices import ALL_ROWS, Matrix, Rows, dense_rows, take
from ..changes import Changes, LinearChanges, normalized
from .image_maps import ImageMaps

if TYPE_CHECKING:
    from .image_base import ImageOracle


class MovedImages(Changes):
    """Images transformed by fixed maps, which are computed once.

    Shapes: `X` (n_samples, n_features), `weights` (n_members,).
    """

    def __init__(
        self,
        X: Matrix,
        maps: ImageMaps,
        names: Sequence[str] | None = None,
        weights: np.ndarray | None = None,
    ) -> None:
        super().__init__(X)
        self.maps = maps
        self._names = names
        self._weights = None if weights is None else normalized(weights)

    @property
    def size(self) -> int:
        return len(self.maps.constant)

    @property
    def names(self) -> list[str]:
        return super().names if self._names is None else list(self._names)

    def _images(self, rows: Rows) -> np.ndarray:
        images = dense_rows(take(self.X, rows))
        return images if images.dtype in (np.float32, np.float64) else images.astype(np.float64)

    def members(self, rows: Rows = ALL_ROWS, numbers: np.ndarray | None = None) -> np.ndarray:
        images, chosen = self._images(rows), np.arange(self.size) if numbers is None else numbers
        return self.maps.apply(images, np.tile(chosen, (len(images), 1)))

    def points(self, rows: Rows, index: np.ndarray) -> np.ndarray:
        images, index = self._images(rows), np.asarray(index, dtype=np.intp)
        last = self.size - 1
        if index.shape != (len(images),) or np.any((index < 0) | (index > last)):
            raise ValueError(f"index must contain {len(images)} numbers from 0 to {last}, got {index!r}")
        return self.maps.apply(images, index[:, None])[:, 0]

    def adjoint(self, V: np.ndarray) -> np.ndarray | None:
        # With a numeric background, the maps are affine and have no adjoint.
        return self.maps.pull_back(V) if self.maps.linear else None

    def _member_scores(self, rows: Rows, V: np.ndarray) -> np.ndarray:
        return self.maps.scores(self._images(rows), V)

    def linear(self) -> LinearChanges | None:
        if not self.maps.linear:
            return None
        channels = sp.identity(self.maps.shape.channels, format="csr")
        maps = [sp.kron(self.maps.matrix(number), channels, format="csr") for number in range(self.size)]
        return LinearChanges(self.X, maps, self._names, self.weights)


class CoverOfImages(MovedImages):
    """Cover of a continuous set of transformed images, with a local search.

    Shapes: `X` (n_samples, n_features).
    """

    scored = False

    def __init__(self, oracle: ImageOracle, X: Matrix, maps: ImageMaps, names: Sequence[str]) -> None:
        super().__init__(X, maps, names)
        self.oracle = oracle

    def mesh(self, rows: Rows = ALL_ROWS) -> np.ndarray:
        return self.oracle.mesh(self._images(rows))

    def refine(
        self, rows: Rows, index: np.ndarray, score: Callable[[np.ndarray], np.ndarray]
    ) -> np.ndarray:
        return self.oracle.refined(self._images(rows), self.points(rows, index), index, score)

    # The fixed maps are only the cover of the set.
    def adjoint(self, V: np.ndarray) -> None:
        return None

    def linear(self) -> None:
        return None
