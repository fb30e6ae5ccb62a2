"""Positions of image patches, and weights to pool their features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from ..oracles.images.image_maps import ImageShape


@dataclass(frozen=True)
class PatchGrid:
    """Square patches of images, with corners on a grid.

    - `shape`: shape of the images
    - `size`: side of a patch in pixels
    - `stride`: distance between adjacent corners in pixels
    """

    shape: ImageShape
    size: int
    stride: int

    @property
    def sides(self) -> tuple[int, int]:
        """Numbers of patches from top to bottom and from left to right."""
        height, width = self.shape.height, self.shape.width
        return (height - self.size) // self.stride + 1, (width - self.size) // self.stride + 1

    @property
    def count(self) -> int:
        """Number of patches of an image."""
        return self.sides[0] * self.sides[1]

    @property
    def patch(self) -> ImageShape:
        """The shape of a patch."""
        return ImageShape(self.size, self.size, self.shape.channels)

    def _windows(self, images: np.ndarray) -> np.ndarray:
        """Return a view of all patches, (n, rows, columns, size, size, channels)."""
        shape = self.shape
        images = images.reshape(-1, shape.height, shape.width, shape.channels)
        windows = sliding_window_view(images, (self.size, self.size), axis=(1, 2))
        return windows[:, :: self.stride, :: self.stride].transpose(0, 1, 2, 4, 5, 3)

    def cut(self, images: np.ndarray) -> np.ndarray:
        """Return all patches of images (n, d), (n * count, values of a patch)."""
        return self._windows(images).reshape(len(images) * self.count, self.patch.size)

    def cut_at(self, images: np.ndarray, image: np.ndarray, position: np.ndarray) -> np.ndarray:
        """Return the patches at some positions of some images, (m, values of a patch)."""
        row, column = np.divmod(position, self.sides[1])
        return self._windows(images)[image, row, column].reshape(len(image), self.patch.size)

    def pooling(self, cells: int, window: str) -> np.ndarray:
        """Return the weights of patches in ``cells x cells`` means, (cells^2, count).

        Cells divide the grid of patches evenly. A patch on an edge counts in proportion, so that cells
        are mirrored if images are. A Gaussian window is centered in its cell; its standard deviation is
        half the side of the cell.
        """
        tables = [WINDOWS[window](cells, side) for side in self.sides]
        return np.kron(*[table / table.sum(axis=1, keepdims=True) for table in tables])


def _average(cells: int, side: int) -> np.ndarray:
    first = np.arange(cells)[:, None] * side / cells
    patch = np.arange(side)
    return np.clip(np.minimum(first + side / cells, patch + 1) - np.maximum(first, patch), 0.0, None)


def _gaussian(cells: int, side: int) -> np.ndarray:
    center = (np.arange(cells)[:, None] + 0.5) * side / cells - 0.5
    return np.exp(-0.5 * ((np.arange(side) - center) / (0.5 * side / cells)) ** 2)


WINDOWS = {"average": _average, "gaussian": _gaussian}
