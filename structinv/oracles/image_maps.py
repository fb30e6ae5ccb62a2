"""Geometric maps of images: where each pixel of the output comes from, and with which weights.

A *warp* is six numbers (m00, m01, m10, m11, o0, o1) that send a pixel p = (row, column) of the output
to its source ``c + M (p - c) + o`` in the input, c = ((height - 1) / 2, (width - 1) / 2) being the
centre. Interpolation is separable, so a pixel of the output is a weighted sum of 1, 4 or 16 pixels
of the input, the same ones in each channel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..compiled import njit
from ..machine import check_memory
from ..matrices import in_threads

# How pixels beyond the border are made; a number is the zero of an image less its background.
FILLS = {"zero": 0, "nearest": 1, "reflect": 2, "wrap": 3}
ORDERS = (0, 1, 3)
# Beyond these a tuple is more likely a volume, or has its channels in front.
CHANNELS_OF_A_TUPLE = 4


@dataclass(frozen=True)
class ImageShape:
    """The shape of the images that rows hold, in C order of (height, width, channels).

    Parameters
    ----------
    height, width : int
        In pixels.
    channels : int, default=1
        Values a pixel, such as 3 for colour; a geometric change treats them alike.

    Raises
    ------
    TypeError, ValueError
        If one of them is no integer of at least 1.

    Examples
    --------
    >>> ImageShape(32, 32, channels=3).size
    3072
    """

    height: int
    width: int
    channels: int = 1

    def __post_init__(self) -> None:
        for name in ("height", "width", "channels"):
            value = getattr(self, name)
            if not isinstance(value, (int, np.integer)) or isinstance(value, bool):
                raise TypeError(f"{name} of an image must be an integer, got {value!r}")
            if value < 1:
                raise ValueError(f"{name} of an image must be at least 1, got {value!r}")

    @property
    def pixels(self) -> int:
        """Height times width."""
        return self.height * self.width

    @property
    def size(self) -> int:
        """Values of an image: features of a row."""
        return self.pixels * self.channels


def image_shape(shape: Any, n_features: int | None = None) -> ImageShape | None:
    """The shape that a parameter `shape` stands for on rows of `n_features`, checked.

    None stands for square images of one channel; the answer is None if nothing is known yet.
    """
    if shape is None:
        if n_features is None:
            return None
        side = isqrt(n_features)
        if side * side != n_features:
            raise ValueError(
                f"shape must be given, as (height, width) or (height, width, channels), for images of "
                f"{n_features} features, which are not square"
            )
        return ImageShape(side, side)
    if not isinstance(shape, ImageShape):
        if not isinstance(shape, Sequence) or isinstance(shape, str):
            raise TypeError(
                f"shape must be None, an ImageShape, (height, width) or (height, width, channels), "
                f"got {shape!r}"
            )
        if len(shape) not in (2, 3):
            raise ValueError(
                f"shape must have two or three entries, height, width and channels, got {shape!r}: "
                "volumes and stacks of images are no images"
            )
        given, shape = shape, ImageShape(*shape)
        if shape.channels > CHANNELS_OF_A_TUPLE:
            raise ValueError(
                f"shape must end with the channels, at most {CHANNELS_OF_A_TUPLE}, got {given!r}: "
                "volumes are no images, and channels come last in a row (pixel by pixel); if so many "
                f"are meant, give ImageShape{tuple(given)}"
            )
    if n_features is not None and shape.size != n_features:
        raise ValueError(
            f"shape {shape} has {shape.size} values, but the rows have {n_features} features"
        )
    return shape


@dataclass(frozen=True)
class ImageMaps:
    """Several maps of images of one shape, stacked; they act on pixels, the same in each channel.

    Parameters
    ----------
    shape : ImageShape
    indptr, indices, data : arrays
        Row p of map number s is ``data[indptr[s, p]:indptr[s, p + 1]]``, in CSR.
    constant : (s, pixels) array
        What a map adds to each pixel: zero but for a background that is a number.
    """

    shape: ImageShape
    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    constant: np.ndarray

    @property
    def linear(self) -> bool:
        """Whether nothing is added."""
        return not np.any(self.constant)

    def matrix(self, number: int) -> sp.csr_matrix:
        """One map as a matrix of pixels, without what it adds."""
        first, last = self.indptr[number, 0], self.indptr[number, -1]
        parts = self.data[first:last], self.indices[first:last], self.indptr[number] - first
        return sp.csr_matrix(parts, shape=(self.shape.pixels, self.shape.pixels))

    def apply(self, X: np.ndarray, index: np.ndarray) -> np.ndarray:
        """Map number ``index[i, k]`` of row i, (n, k, d), in the precision of `X`."""
        X = np.ascontiguousarray(X)
        out = np.empty((*index.shape, self.shape.size), dtype=X.dtype)
        work = index.shape[1] * len(self.data) // len(self.constant)

        def apply(part: slice) -> None:
            _apply_maps(
                self.indptr, self.indices, self.data, self.constant, self.shape.channels,
                X[part], index[part], out[part],
            )  # fmt: skip

        in_threads(apply, len(X), len(X) * work * self.shape.channels)
        return out

    def pull_back(self, V: np.ndarray) -> np.ndarray:
        """T'v for all maps T and directions v, (s, p, d), in float64."""
        V = np.ascontiguousarray(V, dtype=np.float64)
        pulled = np.empty((len(self.constant), *V.shape))

        def pull(part: slice) -> None:
            _pull_back_maps(
                self.indptr[part], self.indices, self.data, self.shape.channels, V, pulled[part]
            )

        in_threads(pull, len(pulled), len(self.data) * V.shape[0] * self.shape.channels)
        return pulled

    def constants(self, V: np.ndarray) -> np.ndarray:
        """``<v, b>`` for what the maps add, b, (s, p)."""
        return np.repeat(self.constant, self.shape.channels, axis=1) @ np.asarray(V, np.float64).T

    def scores(self, X: np.ndarray, V: np.ndarray) -> np.ndarray:
        """``<v, T x>`` for all rows, maps and directions, (n, s, p): one product, in X's precision."""
        maps = self.pull_back(V)
        flat = np.ascontiguousarray(maps.reshape(-1, self.shape.size).T.astype(X.dtype))
        scores = (X @ flat).reshape(len(X), *maps.shape[:2])
        return scores if self.linear else scores + self.constants(V).astype(X.dtype)

    def facing_scores(self, X: np.ndarray, V: np.ndarray, assign: np.ndarray) -> np.ndarray:
        """``<V[assign[i]], T x_i>`` for all rows and maps, (n, s)."""
        asked, place = np.unique(assign, return_inverse=True)
        out = np.empty((len(X), len(self.constant)))
        if len(asked) <= max(8, len(X) // 8):
            for number, direction in enumerate(asked):
                mine = np.flatnonzero(place == number) if len(asked) > 1 else slice(None)
                out[mine] = self.scores(X[mine], V[direction : direction + 1])[:, :, 0]
            return out
        # A direction for each row: pulling each of them back costs more than the members do.
        X, V = np.ascontiguousarray(X), np.ascontiguousarray(V, dtype=np.float64)

        def ask(part: slice) -> None:
            _score_maps(
                self.indptr, self.indices, self.data, self.constant, self.shape.channels,
                X[part], V, assign[part], out[part],
            )  # fmt: skip

        in_threads(ask, len(X), len(X) * len(self.data) * self.shape.channels)
        return out


def image_maps(
    shape: ImageShape, warps: np.ndarray, order: int, fill: str | float, unitary: bool
) -> ImageMaps:
    """The maps of these warps, (s, 6)."""
    warps = np.ascontiguousarray(warps, dtype=np.float64)
    code, background = fill_code(fill)
    gains = warp_gains(warps, unitary)
    size, pixels = len(warps), shape.pixels
    # Numbers and places.
    needed = 1.0 * size * pixels * (16 if order == 3 else 4) * 12
    check_memory(f"{size} changes of images of {pixels} pixels", needed, "list fewer values")
    counts, sums = np.zeros((size, pixels), np.int64), np.zeros((size, pixels))
    nothing = np.zeros(0, np.int32), np.zeros(0)
    _fill_maps(warps, gains, shape.height, shape.width, order, code, counts, sums, *nothing)
    starts = np.concatenate([[0], np.cumsum(counts)])
    indptr = np.concatenate([starts[:-1].reshape(size, pixels), starts[pixels::pixels, None]], axis=1)
    indices, data = np.empty(starts[-1], np.int32), np.empty(starts[-1])
    _fill_maps(warps, gains, shape.height, shape.width, order, code, counts, sums, indices, data)
    constant = background * (1.0 - sums)
    for part in (indptr, indices, data, constant):
        part.setflags(write=False)
    return ImageMaps(shape, indptr, indices, data, constant)


def fill_code(fill: str | float) -> tuple[int, float]:
    """The way pixels beyond the border are made, and the background."""
    return (FILLS[fill], 0.0) if isinstance(fill, str) else (FILLS["zero"], float(fill))


def warps_of(matrices: np.ndarray, translations: np.ndarray) -> np.ndarray:
    """Warps, (m, 6), of maps that take pixel q of the input to ``c + A (q - c) + t``."""
    inverse = np.linalg.inv(matrices)
    moved = -np.einsum("mij,mj->mi", inverse, translations)
    # Adding zero makes negative zeros positive, so that equal maps have equal bytes.
    return np.concatenate([inverse.reshape(-1, 4), moved], axis=1) + 0.0


def warp_gains(warps: np.ndarray, unitary: bool) -> np.ndarray:
    """Factors of the intensities, |J|^-1/2 for the Jacobian J of the map if it is to be unitary."""
    if not unitary:
        return np.ones(warps.shape[:-1])
    gains = np.sqrt(np.abs(warps[..., 0] * warps[..., 3] - warps[..., 1] * warps[..., 2]))
    return np.where(np.abs(gains - 1.0) < 1e-12, 1.0, gains)


def sources_of(shape: ImageShape, warps: np.ndarray) -> np.ndarray:
    """Where the pixels of the output come from, (m, pixels, 2)."""
    centre = np.array([(shape.height - 1) / 2, (shape.width - 1) / 2])
    grid = np.indices((shape.height, shape.width)).reshape(2, -1).T - centre
    return grid @ warps[:, :4].reshape(-1, 2, 2).swapaxes(1, 2) + warps[:, None, 4:] + centre


def warp_images(
    X: np.ndarray,
    shape: ImageShape,
    warps: np.ndarray,
    order: int,
    fill: str | float,
    unitary: bool,
) -> np.ndarray:
    """Row i changed by ``warps[i, k]``, (n, k, d), with no matrix made."""
    X = np.ascontiguousarray(X)
    code, background = fill_code(fill)
    gains = warp_gains(warps, unitary)
    out = np.empty((*warps.shape[:2], shape.size), dtype=X.dtype)

    def warp(part: slice) -> None:
        _warp_images(
            X[part], warps[part], gains[part], shape.height, shape.width, shape.channels,
            order, code, background, out[part],
        )  # fmt: skip

    in_threads(warp, len(X), 10 * out.size)
    return out


def places_beyond(first: int, last: int, length: int, fill: int) -> np.ndarray:
    """The pixels of an axis that stand for its places from `first` to `last`; -1 for the background."""
    return np.array([_beyond(k, length, fill) for k in range(first, last + 1)], dtype=np.int64)


@njit(cache=True, nogil=True)
def _beyond(k, length, fill):
    """The pixel that stands for place k of an axis; -1 for the background."""
    if 0 <= k < length:
        return k
    if fill == 0:
        return -1
    if fill == 1:
        return 0 if k < 0 else length - 1
    if fill == 3:
        return k % length
    k = k % (2 * length)
    return k if k < length else 2 * length - 1 - k


@njit(cache=True, nogil=True)
def _axis_weights(t, length, order, fill, places, weights):
    """Pixels along an axis and their weights for a source at t; returns how many."""
    # Turns by 90 degrees and shifts by whole pixels are exact, and ties fall alike.
    halves = np.floor(2.0 * t + 0.5)
    if abs(2.0 * t - halves) < 2e-9:
        t = 0.5 * halves
    first = int(np.floor(t + 0.5)) if order == 0 else int(np.floor(t))
    u = t - first
    count = 1
    weights[0] = 1.0
    if order == 1 and u > 0.0:
        count = 2
        weights[0], weights[1] = 1.0 - u, u
    elif order == 3 and u > 0.0:
        # Cubic convolution (Keys 1981) with a = -1/2.
        count = 4
        first -= 1
        weights[0] = u * (-0.5 + u * (1.0 - 0.5 * u))
        weights[1] = 1.0 + u * u * (-2.5 + 1.5 * u)
        weights[2] = u * (0.5 + u * (2.0 - 1.5 * u))
        weights[3] = u * u * (-0.5 + 0.5 * u)
    for k in range(count):
        places[k] = _beyond(first + k, length, fill)
    return count


@njit(cache=True, nogil=True)
def _fill_maps(warps, gains, height, width, order, fill, counts, sums, indices, data):
    """All maps in CSR, if `data` has room: places in order, each once, and none without a weight.

    `counts` and `sums` are how many weights each output pixel has, and their sum.
    """
    rows, columns = np.empty(4, np.int64), np.empty(4, np.int64)
    down, across = np.empty(4), np.empty(4)
    places, weights = np.empty(16, np.int64), np.empty(16)
    middle_row, middle_column = 0.5 * (height - 1), 0.5 * (width - 1)
    end = 0
    for s in range(warps.shape[0]):
        warp, gain = warps[s], gains[s]
        for p in range(height * width):
            r, c = p // width - middle_row, p % width - middle_column
            source = warp[0] * r + warp[1] * c + warp[4] + middle_row
            n_rows = _axis_weights(source, height, order, fill, rows, down)
            source = warp[2] * r + warp[3] * c + warp[5] + middle_column
            n_columns = _axis_weights(source, width, order, fill, columns, across)
            found = 0
            for a in range(n_rows):
                for b in range(n_columns):
                    if rows[a] >= 0 and columns[b] >= 0:
                        weight = gain * down[a] * across[b]
                        found = _insert(rows[a] * width + columns[b], weight, places, weights, found)
            count, total = 0, 0.0
            for k in range(found):
                if weights[k] != 0.0:
                    if len(data):
                        indices[end], data[end] = places[k], weights[k]
                        end += 1
                    count += 1
                    total += weights[k]
            counts[s, p], sums[s, p] = count, total


@njit(cache=True, nogil=True)
def _insert(place, weight, places, weights, found):
    """Add a weight to that of its place, among places in order; returns how many there are now."""
    k = found
    while k > 0 and places[k - 1] > place:
        k -= 1
    if k > 0 and places[k - 1] == place:
        weights[k - 1] += weight
        return found
    for j in range(found, k, -1):
        places[j], weights[j] = places[j - 1], weights[j - 1]
    places[k], weights[k] = place, weight
    return found + 1


@njit(cache=True, nogil=True)
def _pull_back_maps(indptr, indices, data, channels, V, pulled):
    """T'v for all maps T and directions v, (s, p, d)."""
    # All directions side by side, so that a weight is looked up once for them.
    across, n_directions = V.T.copy(), V.shape[0]
    sums = np.empty_like(across)
    for s in range(indptr.shape[0]):
        sums[:] = 0.0
        for p in range(indptr.shape[1] - 1):
            for e in range(indptr[s, p], indptr[s, p + 1]):
                for channel in range(channels):
                    source, target = p * channels + channel, indices[e] * channels + channel
                    for j in range(n_directions):
                        sums[target, j] += data[e] * across[source, j]
        pulled[s] = sums.T


@njit(cache=True, nogil=True)
def _apply_maps(indptr, indices, data, constant, channels, X, index, out):
    for i in range(index.shape[0]):
        for k in range(index.shape[1]):
            s = index[i, k]
            for p in range(constant.shape[1]):
                for channel in range(channels):
                    total = constant[s, p]
                    for e in range(indptr[s, p], indptr[s, p + 1]):
                        total += data[e] * X[i, indices[e] * channels + channel]
                    out[i, k, p * channels + channel] = total


@njit(cache=True, nogil=True)
def _score_maps(indptr, indices, data, constant, channels, X, V, assign, out):
    for i in range(X.shape[0]):
        v = V[assign[i]]
        for s in range(constant.shape[0]):
            score = 0.0
            for p in range(constant.shape[1]):
                for channel in range(channels):
                    total = constant[s, p]
                    for e in range(indptr[s, p], indptr[s, p + 1]):
                        total += data[e] * X[i, indices[e] * channels + channel]
                    score += v[p * channels + channel] * total
            out[i, s] = score


@njit(cache=True, nogil=True)
def _warp_images(X, warps, gains, height, width, channels, order, fill, background, out):
    rows, columns = np.empty(4, np.int64), np.empty(4, np.int64)
    down, across = np.empty(4), np.empty(4)
    middle_row, middle_column = 0.5 * (height - 1), 0.5 * (width - 1)
    for i in range(warps.shape[0]):
        for k in range(warps.shape[1]):
            warp, gain = warps[i, k], gains[i, k]
            for p in range(height * width):
                r, c = p // width - middle_row, p % width - middle_column
                source = warp[0] * r + warp[1] * c + warp[4] + middle_row
                n_rows = _axis_weights(source, height, order, fill, rows, down)
                source = warp[2] * r + warp[3] * c + warp[5] + middle_column
                n_columns = _axis_weights(source, width, order, fill, columns, across)
                for channel in range(channels):
                    total, inside = 0.0, 0.0
                    for a in range(n_rows):
                        for b in range(n_columns):
                            if rows[a] >= 0 and columns[b] >= 0:
                                weight = gain * down[a] * across[b]
                                place = rows[a] * width + columns[b]
                                total += weight * X[i, place * channels + channel]
                                inside += weight
                    out[i, k, p * channels + channel] = total + background * (1.0 - inside)
