"""The exact best member of a family of image changes that has one continuous parameter.

Along a path of warps a bilinear image is a polynomial of degree 2 in the position of each source,
and another one after the source has crossed a line of the grid of pixels. The score of an image is
a sum of such pieces, so a walk over all crossings, in order, meets every one of its maxima.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numba import njit

from ..matrices import in_threads
from .image_maps import ImageShape, places_beyond, sources_of

# Beyond these a walk would take too much memory, or lose digits to pixels that come from far away.
MOST_CROSSINGS = 3_000_000
MOST_PLACES = 64
FURTHEST_SOURCE = 1000.0
# Of the largest score there could be: a peak is looked for no longer where it can add no more.
_NOTHING = 1e-14


@dataclass(frozen=True)
class Path:
    r"""A family of changes as warps that move along a line or a circle.

    .. math:: w(s) = w_0 + g_1(s)\, w_1 + g_2(s)\, w_2, \quad low \le s \le high

    with :math:`g = (s, 0)`, or :math:`g = (\cos s, \sin s)` if `turning`.

    Parameters
    ----------
    warps : (3, 6) array
        w_0, w_1 and w_2, in the order of numbers that `image_maps` describes.
    low, high : float
    turning : bool, default=False
    gained : bool, default=False
        Whether intensities are multiplied by s, too.
    value_at : callable, default=np.asarray
        From an array of s to values of the family's parameter.
    """

    warps: np.ndarray
    low: float
    high: float
    turning: bool = False
    gained: bool = False
    value_at: Callable[[np.ndarray], np.ndarray] = np.asarray

    def at(self, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Warps and gains at many s, (m, 6) and (m,)."""
        warps = self.warps[0] + _basis(s, self.turning) @ self.warps[1:]
        return warps, s if self.gained else np.ones(len(s))


def furthest(
    X: np.ndarray,
    V: np.ndarray,
    assign: np.ndarray,
    shape: ImageShape,
    path: Path,
    fill: int,
    background: float,
) -> tuple[np.ndarray, np.ndarray] | None:
    """The largest ``<v, z - background>`` over the bilinear members z of a path, for each row.

    Parameters
    ----------
    X : (n, d) array
    V : (p, d) array
    assign : (n,) array of int
        Row i faces ``V[assign[i]]``.
    shape : ImageShape
    path : Path
    fill, background
        See `image_maps.fill_code`.

    Returns
    -------
    values : (n,) array
    positions : (n,) array
        Where on the path. None instead of both if the path is too long to be walked.
    """
    warps = np.ascontiguousarray(path.warps, dtype=np.float64)
    high = min(path.high, path.low + 2.0 * np.pi) if path.turning else path.high
    walk = _walk_of(shape, warps.tobytes(), path.low, high, path.turning, fill)
    if walk is None:
        return None
    X, V = np.ascontiguousarray(X), np.ascontiguousarray(V, dtype=np.float64)
    values, positions = np.empty(len(X)), np.empty(len(X))

    def follow(part: slice) -> None:
        _follow(
            X[part], V, assign[part], shape.width, shape.channels, background,
            walk.rows, walk.columns, walk.sources, walk.first_cells, walk.first_places,
            walk.times, walk.waves, walk.pixels, walk.axes, walk.signs, walk.cells, walk.places,
            path.low, high, path.turning, path.gained, values[part], positions[part],
        )  # fmt: skip

    in_threads(follow, len(X), 40 * len(X) * (len(walk.times) + shape.size))
    return values, positions


@dataclass(frozen=True)
class _Walk:
    """Where the sources of all pixels start, and the lines of the grid that they cross, in order.

    `rows` and `columns` are the pixels that stand for the places of a frame around the image, -1
    for the background; a place in the frame is its row times its width plus its column. Source
    coordinate a of pixel p is ``sources[p, a] @ (1, g1, g2)``. It starts in the cell
    ``first_cells[p, a]``, whose corner is ``first_places[p]``, -1 if nothing is there.

    Crossing k, at s = `times` and g = `waves`, is that of the coordinate `axes` of a pixel, upwards
    (`signs` 1) or downwards (-1), while its other coordinate is in the cell `cells`; `places` is
    where the line meets the lower edge of that cell.
    """

    rows: np.ndarray
    columns: np.ndarray
    sources: np.ndarray
    first_cells: np.ndarray
    first_places: np.ndarray
    times: np.ndarray
    waves: np.ndarray
    pixels: np.ndarray
    axes: np.ndarray
    signs: np.ndarray
    cells: np.ndarray
    places: np.ndarray


@lru_cache(maxsize=16)
def _walk_of(
    shape: ImageShape, key: bytes, low: float, high: float, turning: bool, fill: int
) -> _Walk | None:
    """The walk along a path; kept, so that asking again is cheap. None if it is too long."""
    parts = sources_of(shape, np.frombuffer(key).reshape(3, 6))
    parts[1:] -= np.array([(shape.height - 1) / 2, (shape.width - 1) / 2])
    edges, heights = _slopes(parts.reshape(3, -1), low, high, turning)
    sides = np.array([shape.height, shape.width])
    reach = heights.reshape(shape.pixels, 2, -1)
    lowest = np.floor(reach.min(axis=(0, 2))) - 2
    highest = np.ceil(reach.max(axis=(0, 2))) + 2
    if fill == 0:
        # Further out there are zeros only.
        lowest, highest = np.maximum(lowest, -2), np.minimum(highest, sides + 1)
        lowest, highest = np.minimum(lowest, sides), np.maximum(highest, 0)
    frame = np.prod(highest - lowest + 1)
    if np.max(np.abs(reach)) > FURTHEST_SOURCE or frame > MOST_PLACES * (shape.pixels + MOST_PLACES):
        return None
    found = _crossings(parts.reshape(3, -1), edges, heights, turning, sides if fill == 0 else None)
    if found is None:
        return None
    cells = _first_cells(heights).reshape(shape.pixels, 2)
    if fill == 0:
        cells = np.clip(cells, -2, sides)
    corner, width = lowest.astype(np.int64), int(highest[1] - lowest[1]) + 1
    starts = cells.astype(np.int32)
    places = _places(*found[1:], cells, sides, corner, width, fill == 0)
    rows, columns = (places_beyond(corner[k], int(highest[k]), sides[k], fill) for k in range(2))
    return _join(found, places, starts, rows, columns, parts, sides, corner, turning, fill)


def _join(
    found: tuple[np.ndarray, ...],
    met: tuple[np.ndarray, np.ndarray],
    starts: np.ndarray,
    rows: np.ndarray,
    columns: np.ndarray,
    parts: np.ndarray,
    sides: np.ndarray,
    corner: np.ndarray,
    turning: bool,
    fill: int,
) -> _Walk:
    times, coordinates, _, signs = found
    cells, places = met
    kept = places >= 0
    first = (starts[:, 0] - corner[0]) * len(columns) + starts[:, 1] - corner[1]
    if fill == 0:
        first[np.any((starts < -1) | (starts >= sides), axis=1)] = -1
    walk = _Walk(
        rows=rows,
        columns=columns,
        sources=np.ascontiguousarray(np.moveaxis(parts, 0, 2)),
        first_cells=starts,
        first_places=first.astype(np.int64),
        times=times[kept],
        waves=_basis(times[kept], turning),
        pixels=(coordinates[kept] // 2).astype(np.int32),
        axes=(coordinates[kept] % 2).astype(np.int8),
        signs=signs[kept],
        cells=cells[kept],
        places=places[kept],
    )
    for part in vars(walk).values():
        part.setflags(write=False)
    return walk


def _basis(s: np.ndarray, turning: bool) -> np.ndarray:
    """g1 and g2, (m, 2)."""
    return np.stack([np.cos(s), np.sin(s)] if turning else [s, np.zeros_like(s)], axis=1)


def _slopes(
    parts: np.ndarray, low: float, high: float, turning: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Ends of the stretches on which each coordinate rises or falls, (q, m), and its values there."""
    size = parts.shape[1]
    if not turning:
        edges = np.tile([low, high], (size, 1))
        return edges, parts[0, :, None] + parts[1, :, None] * edges
    phase, radius = np.arctan2(parts[2], parts[1])[:, None], np.hypot(parts[1], parts[2])[:, None]
    turns = phase + np.pi * np.ceil((low - phase) / np.pi)
    turns = turns + np.pi * np.arange(int((high - low) / np.pi) + 1)
    edges = np.concatenate([np.full((size, 1), low), turns, np.full((size, 1), high)], axis=1)
    edges = np.clip(edges, low, high)
    return edges, parts[0, :, None] + radius * np.cos(edges - phase)


def _first_cells(heights: np.ndarray) -> np.ndarray:
    """The cell of each coordinate just after the start."""
    moved = heights != heights[:, :1]
    next_height = heights[np.arange(len(heights)), np.argmax(moved, axis=1)]
    falls = next_height < heights[:, 0]
    return np.where(falls, np.ceil(heights[:, 0]) - 1, np.floor(heights[:, 0])).astype(np.int64)


def _crossings(
    parts: np.ndarray,
    edges: np.ndarray,
    heights: np.ndarray,
    turning: bool,
    sides: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray] | None:
    """Times, coordinates (twice the pixel plus the axis), lines and signs of all crossings, in order.

    With `sides` only those of lines at which the image of zeros beyond its border bends.
    """
    ends = heights[:, :-1], heights[:, 1:]
    first = np.floor(np.minimum(*ends)) + 1
    last = np.ceil(np.maximum(*ends)) - 1
    if sides is not None:
        first = np.maximum(first, -1)
        last = np.minimum(last, np.tile(sides, len(heights) // 2)[:, None])
    counts = np.maximum(last - first + 1, 0).astype(np.int64).ravel()
    if np.sum(counts) > MOST_CROSSINGS:
        return None
    stretch = np.repeat(np.arange(len(counts)), counts)
    step = np.arange(len(stretch)) - np.repeat(np.cumsum(counts) - counts, counts)
    coordinate = stretch // ends[0].shape[1]
    rises = (ends[1] > ends[0]).ravel()[stretch]
    line = np.where(rises, first.ravel()[stretch] + step, last.ravel()[stretch] - step)
    begin, end = edges[:, :-1].ravel()[stretch], edges[:, 1:].ravel()[stretch]
    offset, slope, other = parts[:, coordinate]
    if turning:
        phase = np.arctan2(other, slope)
        angle = np.arccos(np.clip((line - offset) / np.hypot(slope, other), -1.0, 1.0))
        summit = phase + 2.0 * np.pi * np.round(((begin + end) / 2 - phase) / (2.0 * np.pi))
        times = np.where(rises, summit - angle, summit + angle)
    else:
        times = (line - offset) / slope
    times = np.clip(times, begin, end)
    order = np.argsort(times, kind="stable")
    signs = np.where(rises, 1, -1).astype(np.int8)
    return times[order], coordinate[order], line[order].astype(np.int64), signs[order]


@njit(cache=True, nogil=True)
def _places(coordinates, lines, signs, cells, sides, corner, width, bounded):
    """The cell of the other coordinate at each crossing, and the place; `cells` are moved along."""
    others = np.empty(len(lines), dtype=np.int32)
    places = np.empty(len(lines), dtype=np.int32)
    for k in range(len(lines)):
        pixel, axis = coordinates[k] // 2, coordinates[k] % 2
        other = cells[pixel, 1 - axis]
        cells[pixel, axis] = lines[k] if signs[k] > 0 else lines[k] - 1
        others[k] = other
        if bounded and not -1 <= other < sides[1 - axis]:
            places[k] = -1
            continue
        row, column = (lines[k], other) if axis == 0 else (other, lines[k])
        places[k] = (row - corner[0]) * width + column - corner[1]
    return others, places


@njit(cache=True, nogil=True)
def _follow(
    X, V, assign, width, channels, background,
    rows, columns, sources, first_cells, first_places,
    times, waves, pixels, axes, signs, cells, places,
    low, high, turning, gained, values, positions,
):  # fmt: skip
    frame = len(rows) * len(columns)
    image, bends = np.zeros((channels, frame)), np.zeros((2, channels, frame))
    asides = (1, len(columns))
    c, stack = np.empty(6), np.empty((80, 2))
    for i in range(X.shape[0]):
        v = V[assign[i]]
        size = _set_frame(X[i], width, channels, background, rows, columns, image, bends)
        near = _NOTHING * size * np.sum(np.abs(v))
        _set_start(v, channels, image, len(columns), sources, first_cells, first_places, c)
        before = low
        height = _height(c, low, turning, gained)
        best, place = height, low
        for k in range(len(times)):
            pixel, axis = pixels[k], axes[k]
            bend, change = 0.0, 0.0
            for channel in range(channels):
                worth = v[pixel * channels + channel]
                here = bends[axis, channel, places[k]]
                bend += worth * here
                change += worth * (bends[axis, channel, places[k] + asides[axis]] - here)
            if bend == 0.0 and change == 0.0:
                continue
            if times[k] > before:
                now = _height_at(c, waves[k, 0], waves[k, 1], gained)
                room = 0.125 * (times[k] - before) ** 2 * _curvature(c, before, times[k], turning, gained)
                if max(height, now) + room > best + near:
                    best, place = _peak(
                        c, before, times[k], turning, gained, best, place, near, stack
                    )
                if now > best:
                    best, place = now, times[k]
                height, before = now, times[k]
            # The new piece differs by (coordinate - line) times the bend, linear along the line.
            down, right = signs[k] * sources[pixel, axis, 1], signs[k] * sources[pixel, axis, 2]
            offset = -down * waves[k, 0] - right * waves[k, 1]
            other = sources[pixel, 1 - axis]
            _add_product(
                c, offset, down, right,
                bend + change * (other[0] - cells[k]), change * other[1], change * other[2],
            )  # fmt: skip
        best, place = _peak(c, before, high, turning, gained, best, place, near, stack)
        values[i], positions[i] = best, place


@njit(cache=True, nogil=True)
def _set_frame(x, width, channels, background, rows, columns, image, bends):
    """The image in its frame, less the background, and its second differences; the largest pixel."""
    size, n_columns = 0.0, len(columns)
    for r in range(len(rows)):
        for s in range(n_columns):
            for channel in range(channels):
                value = 0.0
                if rows[r] >= 0 and columns[s] >= 0:
                    value = x[(rows[r] * width + columns[s]) * channels + channel] - background
                image[channel, r * n_columns + s] = value
                size = max(size, abs(value))
    for channel in range(channels):
        part = image[channel]
        for r in range(len(rows)):
            for s in range(n_columns):
                p = r * n_columns + s
                if 0 < r < len(rows) - 1:
                    bends[0, channel, p] = part[p + n_columns] - 2.0 * part[p] + part[p - n_columns]
                if 0 < s < n_columns - 1:
                    bends[1, channel, p] = part[p + 1] - 2.0 * part[p] + part[p - 1]
    return size


@njit(cache=True, nogil=True)
def _set_start(v, channels, image, n_columns, sources, cells, places, c):
    """Coefficients of the first piece by (1, g1, g2, g1^2, g1 g2, g2^2)."""
    c[:] = 0.0
    for pixel in range(len(places)):
        p = places[pixel]
        if p < 0:
            continue
        here, below, beside, twist = 0.0, 0.0, 0.0, 0.0
        for channel in range(channels):
            worth, part = v[pixel * channels + channel], image[channel]
            here += worth * part[p]
            below += worth * (part[p + n_columns] - part[p])
            beside += worth * (part[p + 1] - part[p])
            twist += worth * (part[p + n_columns + 1] - part[p + n_columns] - part[p + 1] + part[p])
        row, column = sources[pixel, 0], sources[pixel, 1]
        u, w = row[0] - cells[pixel, 0], column[0] - cells[pixel, 1]
        c[0] += here + below * u
        c[1] += below * row[1]
        c[2] += below * row[2]
        _add_product(c, beside + twist * u, twist * row[1], twist * row[2], w, column[1], column[2])


@njit(cache=True, nogil=True)
def _add_product(c, a, a1, a2, b, b1, b2):
    """Add (a + a1 g1 + a2 g2)(b + b1 g1 + b2 g2)."""
    c[0] += a * b
    c[1] += a * b1 + a1 * b
    c[2] += a * b2 + a2 * b
    c[3] += a1 * b1
    c[4] += a1 * b2 + a2 * b1
    c[5] += a2 * b2


@njit(cache=True, nogil=True)
def _height_at(c, g1, g2, gained):
    height = c[0] + g1 * (c[1] + c[3] * g1 + c[4] * g2) + g2 * (c[2] + c[5] * g2)
    return g1 * height if gained else height


@njit(cache=True, nogil=True)
def _height(c, s, turning, gained):
    if turning:
        return _height_at(c, np.cos(s), np.sin(s), gained)
    return _height_at(c, s, 0.0, gained)


@njit(cache=True, nogil=True)
def _curvature(c, low, high, turning, gained):
    """A bound on the second derivative between two ends."""
    if turning:
        return abs(c[1]) + abs(c[2]) + 2.0 * (abs(c[3] - c[5]) + abs(c[4]))
    if gained:
        return 2.0 * abs(c[1]) + 6.0 * abs(c[3]) * max(abs(low), abs(high))
    return 2.0 * abs(c[3])


@njit(cache=True, nogil=True)
def _derivatives(c, s, turning, gained):
    """The height at s, its first and second derivative, and a bound on the third anywhere."""
    if turning:
        x, y = np.cos(s), np.sin(s)
        height = _height_at(c, x, y, False)
        swing, twice = c[3] - c[5], 2.0 * x * y
        double = x * x - y * y
        first = c[2] * x - c[1] * y - swing * twice + c[4] * double
        second = -c[1] * x - c[2] * y - 2.0 * (swing * double + c[4] * twice)
        return height, first, second, np.hypot(c[1], c[2]) + 4.0 * np.hypot(swing, c[4])
    if gained:
        first = c[0] + s * (2.0 * c[1] + 3.0 * c[3] * s)
        second = 2.0 * c[1] + 6.0 * c[3] * s
        return _height_at(c, s, 0.0, True), first, second, 6.0 * abs(c[3])
    return _height_at(c, s, 0.0, False), c[1] + 2.0 * c[3] * s, 2.0 * c[3], 0.0


@njit(cache=True, nogil=True)
def _peak(c, low, high, turning, gained, best, place, near, stack):
    """The best height so far and its place, after a look at all of a piece, up to `near`.

    Parts that Taylor's quadratic and its remainder keep below the best are left out, others halved.
    """
    stack[0] = low, high
    filled = 1
    while filled > 0:
        filled -= 1
        left, right = stack[filled]
        middle, half = 0.5 * (left + right), 0.5 * (right - left)
        height, first, second, third = _derivatives(c, middle, turning, gained)
        step = half if first > 0 else -half
        if second < 0.0 and abs(first) < -second * half:
            step = -first / second
        top = height + step * (first + 0.5 * second * step)
        rest = third * half**3 / 6.0
        if not top + rest > best + near:
            continue
        reached = _height(c, middle + step, turning, gained)
        if reached > best:
            best, place = reached, middle + step
        if rest > near and left < middle < right and filled + 2 <= len(stack):
            stack[filled] = left, middle
            stack[filled + 1] = middle, right
            filled += 2
    return best, place
