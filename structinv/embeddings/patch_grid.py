"""Patches of images: transformations, positions, scaling, pooled kernel values."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy import linalg
from sklearn.base import clone

from ..kernels import Kernel
from ..kernels.kernel_values import half_norms, kernel_table, squared_norms
from ..oracles import Identity, InvarianceOracle
from ..oracles.changes import Changes
from ..oracles.images.image_borders import with_shape
from ..oracles.images.image_maps import ImageShape
from ..oracles.listed_changes import averaged
from ..utils.jit import LEAN, njit
from ..utils.matrices import in_threads, one_blas_thread


@dataclass(frozen=True)
class ImageChanges:
    """Transformations of images with one shape, or of their patches, as a list.

    - `oracle`: oracle of the transformations
    - `shape`: shape of the images
    - `n_draws`: number of randomly drawn transformations
    - `seed`: seed of the draws
    """

    oracle: InvarianceOracle
    shape: ImageShape
    n_draws: int | None
    seed: int

    @cached_property
    def changes(self) -> Changes:
        """The transformations, computed from the fields, also after loading."""
        return averaged(self.oracle, self.shape.size, self.n_draws, self.seed)

    def __reduce__(self) -> tuple[type[ImageChanges], tuple]:
        return ImageChanges, (self.oracle, self.shape, self.n_draws, self.seed)


def image_changes(
    oracle: InvarianceOracle | None,
    shape: ImageShape,
    n_draws: int | None,
    seed: int,
    *,
    names: tuple[str, str],
) -> ImageChanges:
    """Return transformations of images; image oracles without a shape get this one."""
    oracle = Identity() if oracle is None else clone(with_shape(oracle, shape))
    transformations = ImageChanges(oracle, shape, None if n_draws is None else int(n_draws), seed)
    try:
        transformations.changes  # noqa: B018
    except (TypeError, ValueError) as error:
        oracle_name, draws_name = names
        raise type(error)(
            f"{oracle_name} cannot list its transformations of images of {shape} with "
            f"{draws_name}={n_draws}: {error}"
        ) from error
    return transformations


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


LENGTHS = ("unit", "kept", "given")
# The smallest divisor of patches, in units of the root mean square of their lengths.
_LEAST = 1e-3
# Tolerance for whitening to commute with a transformation.
_COMMUTES = 1e-6


@dataclass
class PatchScaling:
    r"""Contrast normalization, whitening and lengths of patches.

    .. math:: q = \frac{p - \bar p}{\sqrt{\mathrm{var}(p) + c\, v}}, \quad
       r = (S + e\, s I)^{-1/2} (q - m), \quad u = r / |r|

    The mean variance of a training patch is v. The mean and covariance of q are m and S, and s is the
    mean of the diagonal of S. So c and e have no unit (Coates, Ng and Lee 2011).

    - `contrast`: the number c; None for no contrast normalization
    - `whitening`: the number e; None for no whitening
    - `lengths`: treatment of lengths. "unit" divides by them, "kept" divides and returns them, "given"
      does not divide
    - `offset, mean, matrix, least`: set by `learn`: ``c v``, ``m``, the whitening matrix, and the
      smallest divisor
    """

    contrast: float | None
    whitening: float | None
    lengths: str
    offset: float = 0.0
    mean: np.ndarray | None = None
    matrix: np.ndarray | None = None
    least: float = 0.0

    def learn(
        self, patches: np.ndarray, changed: Callable[[], Iterable[tuple[float, np.ndarray]]]
    ) -> PatchScaling:
        """Learn the parameters of contrast, whitening and lengths from patches.

        Shapes: `patches` (m, d).
        """
        if self.contrast is not None:
            spread = np.mean(np.var(patches, axis=1, dtype=np.float64))
            self.offset = float(self.contrast * spread) or float(np.finfo(patches.dtype).tiny)
        if self.whitening is not None:
            self._learn_covariance(changed(), patches.shape[1])
        squares = squared_norms(self._whitened(patches))
        self.least = _LEAST * float(np.sqrt(np.mean(squares))) or 1.0
        return self

    def _learn_covariance(self, parts: Iterable[tuple[float, np.ndarray]], d: int) -> None:
        total, first, second = 0.0, np.zeros(d), np.zeros((d, d))
        for weight, part in parts:
            part = self._contrasted(part).astype(np.float64)
            total += weight * len(part)
            first += weight * part.sum(axis=0)
            second += weight * (part.T @ part)
        first, second = first / total, second / total
        values, vectors = linalg.eigh(second - np.outer(first, first))
        values = np.maximum(values, 0.0)
        assert self.whitening is not None
        floor = max(self.whitening * values.mean(), 1e-10 * values.max()) or 1.0
        self.mean, self.matrix = first, (vectors / np.sqrt(values + floor)) @ vectors.T

    def _contrasted(self, patches: np.ndarray) -> np.ndarray:
        if self.contrast is None:
            return patches
        centered = patches - patches.mean(axis=1, keepdims=True)
        variance = np.einsum("ij,ij->i", centered, centered)[:, None] / patches.shape[1]
        centered /= np.sqrt(variance + patches.dtype.type(self.offset))
        return centered

    def _whitened(self, patches: np.ndarray) -> np.ndarray:
        patches = self._contrasted(patches)
        if self.matrix is None or self.mean is None:
            return patches
        matrix = self.matrix.astype(patches.dtype)
        return patches @ matrix - (self.mean @ self.matrix).astype(patches.dtype)

    def apply(self, patches: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Return scaled patches, and their lengths if features are proportional to them."""
        scaled = self._whitened(patches)
        if self.lengths == "given":
            return scaled, None
        norms = np.sqrt(squared_norms(scaled)).astype(scaled.dtype)
        scaled = scaled / np.maximum(norms, scaled.dtype.type(self.least))[:, None]
        return scaled, norms if self.lengths == "kept" else None

    def commutes(self, maps: Iterable[np.ndarray]) -> bool:
        """Return True if scaling commutes with all these isometries (d, d)."""
        return all(self._commutes(each) for each in maps)

    def _commutes(self, each: np.ndarray) -> bool:
        ones = np.ones(len(each))
        if self.contrast is not None and not np.allclose(each @ ones, ones, rtol=0, atol=1e-9):
            return False
        if self.matrix is None or self.mean is None:
            return True
        size = np.abs(self.matrix).max()
        commutes = np.allclose(each @ self.matrix, self.matrix @ each, rtol=0, atol=_COMMUTES * size)
        # `shift` is in units of whitened patches, and ``least / _LEAST`` is the root mean
        # square of their lengths.
        shift = (each @ self.mean - self.mean) @ self.matrix
        return commutes and bool(np.linalg.norm(shift) <= _COMMUTES * self.least / _LEAST)


# Number of kernel values in a block of a thread: 1 MB of float32.
VALUES = 2**18
# Minimum number of patches in a block.
LEAST = 64


def add_kernel_values(
    kernel: Kernel,
    patches: np.ndarray,
    landmarks: np.ndarray,
    pooling: np.ndarray,
    factors: np.ndarray,
    features: np.ndarray,
) -> None:
    """Add pooled kernel values of patches and landmarks to features of images.

    Images are processed one by one, so the features of an image depend neither on other images nor on
    the number of threads. Several threads are used if `Kernel.thread_safe` is True. The caller checks
    that features are finite.

    Shapes: `patches` (n * count, d), `landmarks` (k, d), `pooling` (cells, count), `factors` (n, count),
    `features` (n, cells, k).
    """
    n, count = factors.shape
    x, y = half_norms(patches), half_norms(landmarks)
    step = max(LEAST, VALUES // len(landmarks))
    parts = [slice(first, min(first + step, count)) for first in range(0, count, step)]
    weights = [np.ascontiguousarray(pooling[:, part]) for part in parts]

    def work(images: slice) -> None:
        for i in range(images.start, images.stop):
            for part, cell_weights in zip(parts, weights, strict=True):
                these = slice(i * count + part.start, i * count + part.stop)
                values = kernel_table(kernel, patches[these], landmarks, (x[these], y))
                _add_pooled(cell_weights, factors[i, part], values, features[i])

    if not kernel.thread_safe:
        work(slice(0, n))
        return
    with one_blas_thread():
        in_threads(work, n, len(patches) * len(landmarks))


@njit(**LEAN, fastmath={"contract"})
def _add_pooled(pooling, factors, values, features):
    # BLAS is slow for few cells, and does not skip weights of 0.
    for p in range(values.shape[0]):
        for c in range(pooling.shape[0]):
            weight = pooling[c, p] * factors[p]
            if weight != 0:
                for k in range(values.shape[1]):
                    features[c, k] += weight * values[p, k]
