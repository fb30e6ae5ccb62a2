"""Geometric maps of images: sources of output pixels and interpolation weights.

A *warp* has six numbers (m00, m01, m10, m11, o0, o1). It maps a pixel p = (row, column) of the output
to its *source* ``c + M (p - c) + o`` in the input. The center is
c = ((height - 1) / 2, (width - 1) / 2). Interpolation is separable. A pixel of the output is a weighted
sum of 1, 4 or 16 pixels of the input, with the same weights in each channel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isqrt
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy import ndimage

from ...utils.jit import LEAN, njit
from ...utils.matrices import contiguous_read_only, in_threads
from ...utils.parameters import brief
from ...utils.resources import check_memory

# Values beyond the border. A numeric background is subtracted before, and added after, zero fill.
FILLS = {"zero": 0, "nearest": 1, "reflect": 2, "wrap": 3}
ORDERS = (0, 1, 3)
# A tuple with more channels is probably a volume, or has channels first.
CHANNELS_OF_A_TUPLE = 4
# Number of output pixels whose weights are computed at a time.
PIXELS_AT_ONCE = 2**13
# A source this close to a multiple of 1/2 is rounded; in units of eps times height plus width. Larger
# distances would make images better than the maxima in `image_intervals`.
_NEAR = 4.0
_SMOOTHING_MODES = {"zero": "constant", "nearest": "nearest", "reflect": "reflect", "wrap": "wrap"}


@dataclass(frozen=True)
class ImageShape:
    """Shape of images stored as rows, in C order of (height, width, channels).

    - `height, width`: numbers of pixels (>= 1)
    - `channels`: number of values per pixel (>= 1), such as 3 for color
    """

    height: int
    width: int
    channels: int = 1

    def __post_init__(self) -> None:
        for name in ("height", "width", "channels"):
            value = getattr(self, name)
            if not isinstance(value, (int, np.integer)) or isinstance(value, bool):
                raise TypeError(f"{name} of an image must be an integer, got {brief(value)}")
            if value < 1:
                raise ValueError(f"{name} of an image must be at least 1, got {brief(value)}")

    @property
    def pixels(self) -> int:
        """Number of pixels, height times width."""
        return self.height * self.width

    @property
    def size(self) -> int:
        """Number of features of an image, pixels times channels."""
        return self.pixels * self.channels


def image_shape(shape: Any, n_features: int | None = None) -> ImageShape | None:
    """Validate a parameter `shape` and return the shape of the images.

    None stands for square images of one channel. Without `n_features` it is returned unchanged.
    """
    if shape is None:
        if n_features is None:
            return None
        side = isqrt(n_features)
        if side * side != n_features:
            raise ValueError(
                f"shape must be (height, width) or (height, width, channels) if images are not square, "
                f"got None for {n_features} features"
            )
        return ImageShape(side, side)
    if not isinstance(shape, ImageShape):
        if not isinstance(shape, Sequence) or isinstance(shape, str):
            raise TypeError(
                f"shape must be None, an ImageShape, (height, width) or (height, width, channels), "
                f"got {brief(shape)}"
            )
        if len(shape) not in (2, 3):
            raise ValueError(
                f"shape must be (height, width) or (height, width, channels), got {brief(shape)}: "
                "volumes and stacks of images are not supported"
            )
        given, shape = shape, ImageShape(*shape)
        if shape.channels > CHANNELS_OF_A_TUPLE:
            raise ValueError(
                f"shape must end with at most {CHANNELS_OF_A_TUPLE} channels, got {brief(given)}: pass "
                f"ImageShape{tuple(given)} for images with more channels; channels are last, volumes "
                "are not supported"
            )
    if n_features is not None and shape.size != n_features:
        raise ValueError(
            f"shape must fit the {n_features} features of X, got {shape} with {shape.size} values"
        )
    return shape


@dataclass(frozen=True)
class ImageMaps:
    """Affine maps of images with one shape.

    The maps act on the pixels, equally in each channel.

    - `shape`: shape of the images
    - `matrices` (n_maps * n_pixels, n_pixels): matrices of all maps, one below the other, in CSR format
    - `constant` (n_maps, n_pixels): constant terms of the maps; zero unless the background is numeric
    """

    shape: ImageShape
    matrices: sp.csr_matrix
    constant: np.ndarray

    def __len__(self) -> int:
        return len(self.constant)

    @property
    def linear(self) -> bool:
        """True if all constant terms are zero."""
        return not np.any(self.constant)

    def matrix(self, number: int) -> sp.csr_matrix:
        """Return the matrix of a map on pixels, without its constant term."""
        return self.matrices[number * self.shape.pixels : (number + 1) * self.shape.pixels]

    @cached_property
    def _weights(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        # Places in 64 bits make compiled loops a tenth faster.
        return self.matrices.indptr.astype(np.int64), self.matrices.indices, self.matrices.data

    def apply(self, X: np.ndarray, index: np.ndarray) -> np.ndarray:
        """Apply map ``index[i, k]`` to row i; returns (n, k, d) with the dtype of `X`."""
        X, index = contiguous_read_only(X), contiguous_read_only(index)
        out = np.empty((*index.shape, self.shape.size), dtype=X.dtype)
        work = index.shape[1] * self.matrices.nnz // len(self)

        def apply(part: slice) -> None:
            channels = self.shape.channels
            _apply_maps(*self._weights, self.constant, channels, X[part], index[part], out[part])

        in_threads(apply, len(X), len(X) * work * self.shape.channels)
        return out

    def pull_back(self, V: np.ndarray) -> np.ndarray:
        """Return T'v for all maps T and directions v, (s, p, d), in float64."""
        V = np.ascontiguousarray(V, dtype=np.float64)
        pulled, across = np.empty((len(self), *V.shape)), np.ascontiguousarray(V.T)
        indptr, indices, data = self._weights

        def pull(part: slice) -> None:
            starts = indptr[part.start * self.shape.pixels : part.stop * self.shape.pixels + 1]
            sums = np.zeros(across.shape)
            _pull_back_maps(starts, indices, data, self.shape.channels, across, sums, pulled[part])

        in_threads(pull, len(pulled), len(data) * V.shape[0] * self.shape.channels)
        return pulled

    def scores(self, X: np.ndarray, V: np.ndarray) -> np.ndarray:
        """Return ``<v, T x>`` for all rows, maps and directions, (n, s, p)."""
        maps = self.pull_back(V)
        flat = np.ascontiguousarray(maps.reshape(-1, self.shape.size).T.astype(X.dtype))
        scores = (X @ flat).reshape(len(X), *maps.shape[:2])
        if self.linear:
            return scores
        constants = np.repeat(self.constant, self.shape.channels, axis=1)
        return scores + (constants @ np.asarray(V, np.float64).T).astype(X.dtype)

    def facing_scores(self, X: np.ndarray, V: np.ndarray, assign: np.ndarray) -> np.ndarray:
        """Return ``<V[assign[i]], T x_i>`` for all rows and maps, (n, s)."""
        directions, place = np.unique(assign, return_inverse=True)
        out = np.empty((len(X), len(self)))
        if len(directions) <= max(8, len(X) // 8):
            for number, direction in enumerate(directions):
                rows = np.flatnonzero(place == number) if len(directions) > 1 else slice(None)
                out[rows] = self.scores(X[rows], V[direction : direction + 1])[:, :, 0]
            return out
        # With many directions, adjoints are slower than transformed images.
        X, V = np.ascontiguousarray(X), np.ascontiguousarray(V, dtype=np.float64)

        def score(part: slice) -> None:
            channels = self.shape.channels
            _score_maps(*self._weights, self.constant, channels, X[part], V, assign[part], out[part])

        in_threads(score, len(X), len(X) * self.matrices.nnz * self.shape.channels)
        return out


def image_maps(shape: ImageShape, warps: np.ndarray, order: int, fill: str | float) -> ImageMaps:
    """Return the maps of warps, (s, 6)."""
    warps = np.ascontiguousarray(warps, dtype=np.float64)
    code, background = fill_code(fill)
    size, pixels = len(warps), shape.pixels
    # 12 bytes per entry: a float64 weight and an int32 index.
    needed = 1.0 * size * pixels * (16 if order == 3 else 4) * 12
    what = f"{size} transformations of images of {pixels} pixels"
    check_memory(what, needed, "list fewer values")
    step = max(1, PIXELS_AT_ONCE // pixels)
    places, weights = [np.zeros(0, np.int32)], [np.zeros(0)]
    for first in range(0, size, step):
        found = _warp_weights(shape, warps[first : first + step], order, code)
        # The background has the weight 0.
        places.append(
            np.moveaxis(np.where(found[1] == 0.0, 0, found[0]), 0, -1).ravel().astype(np.int32)
        )
        weights.append(np.moveaxis(found[1], 0, -1).ravel())
    starts = np.arange(size * pixels + 1) * (order + 1) ** 2
    arrays = np.concatenate(weights), np.concatenate(places), starts
    matrices = sp.csr_matrix(arrays, shape=(size * pixels, pixels))
    matrices.sum_duplicates()
    matrices.eliminate_zeros()
    constant = background * (1.0 - np.asarray(matrices.sum(axis=1)).reshape(size, pixels))
    for array in (matrices.indptr, matrices.indices, matrices.data, constant):
        array.setflags(write=False)
    return ImageMaps(shape, matrices, constant)


def fill_code(fill: str | float) -> tuple[int, float]:
    """Return the code of the fill beyond the border, and the background."""
    return (FILLS[fill], 0.0) if isinstance(fill, str) else (FILLS["zero"], float(fill))


def warps_of(matrices: np.ndarray, translations: np.ndarray) -> np.ndarray:
    """Return the warps, (m, 6), of the maps from q to ``c + A (q - c) + t``."""
    inverse = np.linalg.inv(matrices)
    moved = -np.einsum("mij,mj->mi", inverse, translations)
    # Adding zero changes -0.0 to 0.0, so that equal maps have equal bytes.
    return np.concatenate([inverse.reshape(-1, 4), moved], axis=1) + 0.0


def sources_of(shape: ImageShape, warps: np.ndarray) -> np.ndarray:
    """Return the sources (row, column) of the output pixels, (m, pixels, 2)."""
    center = np.array([(shape.height - 1) / 2, (shape.width - 1) / 2])
    grid = np.indices((shape.height, shape.width)).reshape(2, -1).T - center
    return grid @ warps[:, :4].reshape(-1, 2, 2).swapaxes(1, 2) + warps[:, None, 4:] + center


def warp_images(
    X: np.ndarray,
    shape: ImageShape,
    warps: np.ndarray,
    order: int,
    fill: str | float,
) -> np.ndarray:
    """Transform row i by ``warps[i, k]`` without matrices; returns (n, k, d)."""
    X = np.ascontiguousarray(X)
    code, background = fill_code(fill)
    out = np.empty((*warps.shape[:2], shape.size), dtype=X.dtype)

    step = max(1, PIXELS_AT_ONCE // max(1, warps.shape[1] * shape.pixels))

    def warp(part: slice) -> None:
        for first in range(part.start, part.stop, step):
            rows = slice(first, min(first + step, part.stop))
            places, weights = _warp_weights(shape, warps[rows].reshape(-1, 6), order, code)
            _add_up(X[rows], places, weights, shape.channels, background, out[rows])

    in_threads(warp, len(X), 10 * out.size)
    return out


def places_beyond(first: int, last: int, length: int, fill: int) -> np.ndarray:
    """Return the pixels of an axis at coordinates `first` to `last`; -1: background."""
    return _pixels_of(np.arange(first, last + 1), length, fill)


def _pixels_of(k: np.ndarray, length: int, fill: int) -> np.ndarray:
    """Return the pixels of an axis at integer coordinates k; -1: background."""
    if fill == FILLS["zero"]:
        return np.where((k >= 0) & (k < length), k, -1)
    if fill == FILLS["nearest"]:
        return np.clip(k, 0, length - 1)
    if fill == FILLS["wrap"]:
        return k % length
    k = k % (2 * length)
    return np.where(k < length, k, 2 * length - 1 - k)


def rounding_of_sources(shape: ImageShape) -> float:
    """Return how far from multiples of 1/2 sources are rounded, in pixels."""
    return _NEAR * float(np.finfo(np.float64).eps) * (shape.height + shape.width)


def _axis_weights(
    t: np.ndarray, length: int, order: int, fill: int, near: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return pixels along an axis and their weights for sources at t, both (order + 1, ...).

    Sources at most `near` from multiples of 1/2 are rounded. Weights of the background are 0.
    """
    # Coordinates near multiples of 1/2 are rounded. Rotations by 90 degrees and shifts by whole pixels
    # are then exact, and ties between pixels are broken in the same way.
    halves = np.floor(2.0 * t + 0.5)
    t = np.where(np.abs(t - 0.5 * halves) <= near, 0.5 * halves, t)
    first = np.floor(t + 0.5) if order == 0 else np.floor(t)
    u = t - first
    if order == 0:
        weights = np.ones((1, *t.shape))
    elif order == 1:
        weights = np.stack([1.0 - u, u])
    else:
        # Cubic convolution (Keys 1981) with a = -1/2.
        first -= 1.0
        weights = np.stack(
            [
                u * (-0.5 + u * (1.0 - 0.5 * u)),
                1.0 + u * u * (-2.5 + 1.5 * u),
                u * (0.5 + u * (2.0 - 1.5 * u)),
                u * u * (-0.5 + 0.5 * u),
            ]
        )
    first = first.astype(np.int64)
    places = np.stack([_pixels_of(first + k, length, fill) for k in range(order + 1)])
    if fill == FILLS["zero"]:
        weights *= places >= 0
    return places, weights


def _warp_weights(
    shape: ImageShape, warps: np.ndarray, order: int, fill: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return input pixels and their weights for each output pixel, both (w, m, pixels).

    w is the number of weights, ``(order + 1) ** 2``. Pixels with weight 0 are arbitrary. A pixel may
    occur several times.
    """
    middle_row, middle_column = 0.5 * (shape.height - 1), 0.5 * (shape.width - 1)
    pixels = np.arange(shape.pixels)
    r, c = pixels // shape.width - middle_row, pixels % shape.width - middle_column
    m = warps[:, :, None]
    source_row = m[:, 0] * r + m[:, 1] * c + m[:, 4] + middle_row
    source_column = m[:, 2] * r + m[:, 3] * c + m[:, 5] + middle_column
    near = rounding_of_sources(shape)
    rows, down = _axis_weights(source_row, shape.height, order, fill, near)
    columns, across = _axis_weights(source_column, shape.width, order, fill, near)
    # Pixels are the last axis, since it is the longest.
    weights = (down[:, None] * across).reshape((order + 1) ** 2, *source_row.shape)
    places = (rows[:, None] * shape.width + columns).reshape(weights.shape)
    return places, weights


@njit(**LEAN)
def _pull_back_maps(indptr, indices, data, channels, across, sums, pulled):
    """Write T'v for all maps T and columns v of `across` to `pulled`."""
    # Each weight is read once for all directions.
    n_directions, n_pixels = across.shape[1], across.shape[0] // channels
    for s in range(pulled.shape[0]):
        starts = indptr[s * n_pixels :]
        for p in range(n_pixels):
            for e in range(starts[p], starts[p + 1]):
                for channel in range(channels):
                    source, target = p * channels + channel, indices[e] * channels + channel
                    for j in range(n_directions):
                        sums[target, j] += data[e] * across[source, j]
        for target in range(sums.shape[0]):
            for j in range(n_directions):
                pulled[s, j, target] = sums[target, j]
                sums[target, j] = 0.0


@njit(**LEAN)
def _apply_maps(indptr, indices, data, constant, channels, X, index, out):
    n_pixels = constant.shape[1]
    for i in range(index.shape[0]):
        for k in range(index.shape[1]):
            s = index[i, k]
            starts = indptr[s * n_pixels :]
            for p in range(n_pixels):
                for channel in range(channels):
                    total = constant[s, p]
                    for e in range(starts[p], starts[p + 1]):
                        total += data[e] * X[i, indices[e] * channels + channel]
                    out[i, k, p * channels + channel] = total


@njit(**LEAN)
def _score_maps(indptr, indices, data, constant, channels, X, V, assign, out):
    n_pixels = constant.shape[1]
    for i in range(X.shape[0]):
        v = V[assign[i]]
        for s in range(constant.shape[0]):
            score, starts = 0.0, indptr[s * n_pixels :]
            for p in range(n_pixels):
                for channel in range(channels):
                    total = constant[s, p]
                    for e in range(starts[p], starts[p + 1]):
                        total += data[e] * X[i, indices[e] * channels + channel]
                    score += v[p * channels + channel] * total
            out[i, s] = score


@njit(**LEAN)
def _add_up(X, places, weights, channels, background, out):
    """Write the weighted sums of pixels to ``out[i, k]``; its weights have index i * n_outputs + k."""
    for i in range(out.shape[0]):
        for k in range(out.shape[1]):
            m = i * out.shape[1] + k
            for p in range(places.shape[2]):
                for channel in range(channels):
                    total, inside = 0.0, 0.0
                    for j in range(places.shape[0]):
                        if weights[j, m, p] != 0.0:
                            total += weights[j, m, p] * X[i, places[j, m, p] * channels + channel]
                            inside += weights[j, m, p]
                    out[i, k, p * channels + channel] = total + background * (1.0 - inside)


def step_of(shape: ImageShape, warps: np.ndarray, distance: float) -> float:
    """Return a difference of values that moves no pixel by more than 1e-6 pixels.

    Shapes: `warps` (2, 6).
    """
    ends = sources_of(shape, warps)
    speed = np.max(np.abs(ends[0] - ends[1])) / distance
    return 1e-6 / max(float(speed), 1e-2)


def smoothed(rows: np.ndarray, shape: ImageShape, deviation: float, fill: str | float) -> np.ndarray:
    """Apply a Gaussian filter with a standard deviation in pixels, in float64."""
    # Differences over a small step require the precision of float64.
    images = rows.astype(np.float64)
    if deviation == 0:
        return images
    images = images.reshape(len(rows), shape.height, shape.width, shape.channels)
    mode = _SMOOTHING_MODES[fill] if isinstance(fill, str) else "constant"
    _, background = fill_code(fill)
    images = ndimage.gaussian_filter(
        images, (0.0, deviation, deviation, 0.0), mode=mode, cval=background
    )
    return images.reshape(rows.shape)
