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

from ...utils.jit import njit
from ...utils.matrices import contiguous_read_only, in_threads, ranges
from .image_maps import ImageShape, places_beyond, sources_of

# Beyond these a walk takes too much memory; places are those of the frame for each pixel.
MOST_CROSSINGS = 3_000_000
MOST_PLACES = 64
# In pixels from the corner of the image: what comes from further away has lost its digits.
FURTHEST_SOURCE = 1000.0
# Pixels; the digits that a walk loses grow with the square of it.
LONGEST_LEG = 8.0
# Of the largest score there could be: a peak is looked for no longer where it can add no more.
_NOTHING = 2e-15
# Units of rounding that a walk may hide, of the largest score there could be: some, and some a pixel.
_HIDDEN, _HIDDEN_A_PIXEL = 64.0, 4.0


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
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
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
        Where on the path.
    hidden : (n,) array
        By how much, for rounding, another member may be larger. None instead of all three if the path
        is too long to be walked.
    """
    warps = np.ascontiguousarray(path.warps, dtype=np.float64)
    # After a whole turn everything comes again.
    high = min(path.high, path.low + 2.0 * np.pi) if path.turning else path.high
    walk = _walk_of(shape, warps.tobytes(), path.low, high, path.turning, fill)
    if walk is None:
        return None
    X, V, assign = map(contiguous_read_only, (X, np.asarray(V, dtype=np.float64), assign))
    values, positions = np.empty(len(X)), np.empty(len(X))

    frame = len(walk.rows) * len(walk.columns)

    def follow(part: slice) -> None:
        _follow(
            X[part], V, assign[part], shape.width, shape.channels, background,
            walk.rows, walk.columns, walk.edges, walk.sources, walk.first_cells, walk.first_places,
            walk.begins, walk.crossings, walk.waves, path.turning, path.gained,
            np.zeros((shape.channels, frame)), np.zeros((2, shape.channels, frame)), np.empty(8),
            np.empty((80, 2)), values[part], positions[part],
        )  # fmt: skip

    in_threads(follow, len(X), 40 * len(X) * (len(walk.waves) + shape.size))
    units = _HIDDEN + _HIDDEN_A_PIXEL * max(len(walk.rows), len(walk.columns))
    gain = max(abs(path.low), abs(path.high)) if path.gained else 1.0
    largest = np.max(np.abs(X), axis=1).astype(np.float64) + abs(background)
    hidden = np.finfo(np.float64).eps * units * gain * largest * np.sum(np.abs(V), axis=1)[assign]
    return values, positions, hidden


@dataclass(frozen=True)
class _Walk:
    """Where the sources of all pixels start, and the lines of the grid that they cross, in order.

    `rows` and `columns` are the pixels that stand for the places of a frame around the image, -1
    for the background; a place in the frame is its row times its width plus its column.

    The walk starts anew at each of its `edges`, between which no source moves far, so that rounding
    errors do not add up. With t = s less the middle of leg b, coordinate a of the source of pixel p
    is ``sources[b, p, a] @ (1, g1, g2)``, where g is (t, 0), or (cos t - 1, sin t) on a circle. It
    starts in the cell ``first_cells[b, p, a]``, whose corner is ``first_places[b, p]``, -1 if
    nothing is there.

    Crossings ``begins[b]`` to ``begins[b + 1]`` belong to leg b. Each has five numbers: the pixel,
    the axis of the coordinate that crosses a line, 1 for upwards or -1 for downwards, the cell of the
    other coordinate, and the place where the line meets the lower edge of that cell. `waves` are t,
    g1 and g2 there.
    """

    rows: np.ndarray
    columns: np.ndarray
    edges: np.ndarray
    sources: np.ndarray
    first_cells: np.ndarray
    first_places: np.ndarray
    begins: np.ndarray
    crossings: np.ndarray
    waves: np.ndarray


@lru_cache(maxsize=32)
def _walk_of(
    shape: ImageShape, key: bytes, low: float, high: float, turning: bool, fill: int
) -> _Walk | None:
    """The walk along a path; kept, so that asking again is cheap. None if it is too long."""
    parts = sources_of(shape, np.frombuffer(key).reshape(3, 6))
    parts[1:] -= np.array([(shape.height - 1) / 2, (shape.width - 1) / 2])
    sides = np.array([shape.height, shape.width])
    flat = parts.reshape(3, -1)
    ends, heights = _slopes(flat, low, high, turning)
    if not np.max(np.abs(heights)) <= FURTHEST_SOURCE:
        return None
    legs = _legs(heights, low, high)
    corner, far = _frame(heights.reshape(shape.pixels, 2, -1), sides, fill == 0)
    width = int(far[1] - corner[1]) + 1
    too_wide = np.prod(far - corner + 1) > MOST_PLACES * (shape.pixels + MOST_PLACES)
    too_long = len(legs) * shape.pixels > MOST_CROSSINGS // 3
    found = _crossings(flat, ends, heights, turning, sides if fill == 0 else None)
    if too_wide or too_long or found is None:
        return None
    times, crossings = found
    leg = np.searchsorted(legs[1:-1], times, side="right")
    begins = np.searchsorted(leg, np.arange(len(legs)))
    cells = _first_cells(heights).reshape(shape.pixels, 2)
    first_cells = np.empty((len(legs) - 1, shape.pixels, 2), dtype=np.int32)
    first_places = np.empty(first_cells.shape[:2], dtype=np.int32)
    places = first_cells, first_places
    _set_places(begins, crossings, cells, sides, corner, width, fill == 0, *places)
    kept = crossings[:, 4] >= 0
    middles = (legs[1:] + legs[:-1]) / 2
    walk = _Walk(
        rows=places_beyond(corner[0], far[0], shape.height, fill),
        columns=places_beyond(corner[1], far[1], shape.width, fill),
        edges=legs,
        sources=np.ascontiguousarray(_local_sources(parts, middles, turning)),
        first_cells=first_cells,
        first_places=first_places,
        begins=np.searchsorted(leg[kept], np.arange(len(legs))),
        crossings=crossings[kept],
        waves=_waves((times - middles[leg])[kept], turning),
    )
    for part in vars(walk).values():
        part.setflags(write=False)
    return walk


def _basis(s: np.ndarray, turning: bool) -> np.ndarray:
    """g1 and g2 on the whole path, (m, 2)."""
    return np.stack([np.cos(s), np.sin(s)] if turning else [s, np.zeros_like(s)], axis=1)


def _waves(t: np.ndarray, turning: bool) -> np.ndarray:
    """t, g1 and g2 on a leg, (m, 3), with no cancellation."""
    first, second = (-2.0 * np.sin(t / 2) ** 2, np.sin(t)) if turning else (t, np.zeros_like(t))
    return np.stack([t, first, second], axis=1)


def _local_sources(parts: np.ndarray, middles: np.ndarray, turning: bool) -> np.ndarray:
    """Coefficients of the coordinates of all sources on each leg, (legs, pixels, 2, 3)."""
    first, second = _basis(middles, turning).T[:, :, None, None]
    middle = parts[0] + first * parts[1] + second * parts[2]
    if not turning:
        flat = np.zeros_like(middle)
        return np.stack([middle, parts[1] + flat, flat], axis=3)
    return np.stack([middle, middle - parts[0], first * parts[2] - second * parts[1]], axis=3)


def _legs(heights: np.ndarray, low: float, high: float) -> np.ndarray:
    """Ends of equal parts of the path, on each of which no source moves by more than a few pixels."""
    way = np.max(np.sum(np.abs(np.diff(heights, axis=1)), axis=1))
    return np.linspace(low, high, int(np.ceil(way / LONGEST_LEG)) + 1 if way > 0 else 2)


def _frame(heights: np.ndarray, sides: np.ndarray, bounded: bool) -> tuple[np.ndarray, np.ndarray]:
    """First and last place of the frame along both axes."""
    lowest = np.floor(heights.min(axis=(0, 2))).astype(np.int64) - 2
    highest = np.ceil(heights.max(axis=(0, 2))).astype(np.int64) + 2
    if bounded:
        # Further out there are zeros only.
        return np.clip(lowest, -2, sides), np.clip(highest, 0, sides + 1)
    return lowest, highest


def _slopes(parts: np.ndarray, low: float, high: float, turning: bool) -> tuple[np.ndarray, np.ndarray]:
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
) -> tuple[np.ndarray, np.ndarray] | None:
    """When a coordinate crosses a line, in order, and the crossings with the lines as their places.

    With `sides` only those of lines at which the image of zeros beyond its border bends. None if
    there are too many.
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
    step, stretch = ranges(np.zeros_like(counts), counts)
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
    crossings = np.zeros((len(order), 5), dtype=np.int32)
    crossings[:, 0], crossings[:, 1] = coordinate[order] // 2, coordinate[order] % 2
    crossings[:, 2], crossings[:, 4] = np.where(rises, 1, -1)[order], line[order]
    return times[order], crossings


@njit(cache=True, nogil=True)
def _set_places(begins, crossings, now, sides, corner, width, bounded, first_cells, first_places):
    """Put cells and places for lines, and the cells and places of all pixels on each leg.

    The place is -1 where there are zeros only. `now` has the cells at the start, and is changed.
    """
    n_legs, n_pixels = first_places.shape
    for leg in range(n_legs):
        for pixel in range(n_pixels):
            row, column = now[pixel, 0], now[pixel, 1]
            first_cells[leg, pixel, 0], first_cells[leg, pixel, 1] = row, column
            first_places[leg, pixel] = (row - corner[0]) * width + column - corner[1]
            if bounded and not (-1 <= row < sides[0] and -1 <= column < sides[1]):
                first_places[leg, pixel] = -1
        for k in range(begins[leg], begins[leg + 1]):
            pixel, axis, sign, line = crossings[k, 0], crossings[k, 1], crossings[k, 2], crossings[k, 4]
            other = now[pixel, 1 - axis]
            now[pixel, axis] = line if sign > 0 else line - 1
            row, column = (line, other) if axis == 0 else (other, line)
            crossings[k, 3] = other
            crossings[k, 4] = (row - corner[0]) * width + column - corner[1]
            if bounded and not -1 <= other < sides[1 - axis]:
                crossings[k, 4] = -1


@njit(cache=True, nogil=True)
def _follow(
    X, V, assign, width, channels, background,
    rows, columns, edges, sources, first_cells, first_places,
    begins, crossings, waves, turning, gained, image, bends, c, stack, values, positions,
):  # fmt: skip
    n_legs = len(edges) - 1
    for i in range(X.shape[0]):
        v = V[assign[i]]
        size = _set_frame(X[i], width, channels, background, rows, columns, image, bends)
        near = 0.0
        for k in range(len(v)):
            near += abs(v[k])
        near *= _NOTHING * size
        values[i], positions[i] = -np.inf, edges[0]
        for leg in range(n_legs):
            middle = 0.5 * (edges[leg] + edges[leg + 1])
            half = edges[leg + 1] - middle
            # Six coefficients; the factor of the intensities is c[6] + c[7] t.
            c[6], c[7] = (middle, 1.0) if gained else (1.0, 0.0)
            _set_start(
                v, channels, image, len(columns), sources[leg], first_cells[leg],
                first_places[leg], c,
            )  # fmt: skip
            best, place = _follow_leg(
                v, channels, len(columns), bends, sources[leg], begins[leg], begins[leg + 1],
                crossings, waves, turning, half, values[i], near, c, stack,
            )  # fmt: skip
            if best > values[i]:
                at = edges[leg] if middle + place < edges[leg] else middle + place
                values[i], positions[i] = best, edges[leg + 1] if at > edges[leg + 1] else at


@njit(cache=True, nogil=True)
def _follow_leg(
    v, channels, n_columns, bends, sources, begin, end, crossings, waves,
    turning, half, best, near, c, stack,
):  # fmt: skip
    """The best height on a leg, and where, if it is more than the best before."""
    before, place = -half, 0.0
    height = _derivatives(c, before, turning)[0]
    if height > best:
        best, place = height, before
    for k in range(begin, end):
        pixel, axis, here = crossings[k, 0], crossings[k, 1], crossings[k, 4]
        aside = here + (1 if axis == 0 else n_columns)
        bend, change = 0.0, 0.0
        for channel in range(channels):
            worth = v[pixel * channels + channel]
            bend += worth * bends[axis, channel, here]
            change += worth * bends[axis, channel, aside]
        if bend == 0.0 and change == 0.0:
            continue
        change -= bend
        t, first, second = waves[k, 0], waves[k, 1], waves[k, 2]
        if t > before:
            now = c[0] + first * (c[1] + c[3] * first + c[4] * second)
            now = (c[6] + c[7] * t) * (now + second * (c[2] + c[5] * second))
            # A bound on the second derivative of the leg.
            if turning:
                curve = abs(c[1] - 2.0 * c[3]) + abs(c[2] - c[4])
                curve += 2.0 * (abs(c[3] - c[5]) + abs(c[4]))
            else:
                curve = abs(c[7]) * (abs(c[1]) + 3.0 * abs(c[3]) * half)
                curve = 2.0 * (abs(c[3] * c[6]) + curve)
            room = 0.125 * (t - before) ** 2 * curve
            if (now if now > height else height) + room > best + near:
                best, place = _peak(c, before, t, turning, best, place, near, stack)
                if now > best:
                    best, place = now, t
            height, before = now, t
        # The new piece differs by (coordinate - line) times the bend, linear along the line.
        sign = crossings[k, 2]
        down, right = sign * sources[pixel, axis, 1], sign * sources[pixel, axis, 2]
        offset = -down * first - right * second
        other = sources[pixel, 1 - axis]
        bend += change * (other[0] - crossings[k, 3])
        _add_product(c, offset, down, right, bend, change * other[1], change * other[2])
    return _peak(c, before, half, turning, best, place, near, stack)


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
                size = abs(value) if abs(value) > size else size
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
    for k in range(6):
        c[k] = 0.0
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
def _derivatives(c, t, turning):
    """The height at t, its first and second derivative, and a bound on the third anywhere."""
    if turning:
        wave, y = -2.0 * np.sin(0.5 * t) ** 2, np.sin(t)
        x = 1.0 + wave
        # The same by (1, cos, sin, cos^2, cos sin, sin^2).
        first, second, swing = c[1] - 2.0 * c[3], c[2] - c[4], c[3] - c[5]
        double, twice = x * x - y * y, 2.0 * x * y
        slope = second * x - first * y - swing * twice + c[4] * double
        bend = -first * x - second * y - 2.0 * (swing * double + c[4] * twice)
        third = np.hypot(first, second) + 4.0 * np.hypot(swing, c[4])
        height = c[0] + wave * (c[1] + c[3] * wave + c[4] * y) + y * (c[2] + c[5] * y)
        return (c[6] + c[7] * t) * height, slope, bend, third
    gain, rate = c[6] + c[7] * t, c[7]
    slope, bend = c[1] + 2.0 * c[3] * t, 2.0 * c[3]
    plain = c[0] + t * (c[1] + c[3] * t)
    return (
        gain * plain,
        gain * slope + rate * plain,
        gain * bend + 2.0 * rate * slope,
        abs(3 * rate * bend),
    )


@njit(cache=True, nogil=True)
def _peak(c, low, high, turning, best, place, near, stack):
    """The best height so far and its place, after a look at all of a piece, up to `near`.

    Parts that Taylor's quadratic and its remainder keep below the best are left out, others halved.
    """
    stack[0, 0], stack[0, 1] = low, high
    filled = 1
    while filled > 0:
        filled -= 1
        left, right = stack[filled, 0], stack[filled, 1]
        middle, half = 0.5 * (left + right), 0.5 * (right - left)
        height, slope, bend, third = _derivatives(c, middle, turning)
        step = half if slope > 0 else -half
        if bend < 0.0 and abs(slope) < -bend * half:
            step = -slope / bend
        top = height + step * (slope + 0.5 * bend * step)
        rest = third * half**3 / 6.0
        if not top + rest > best + near:
            continue
        reached = _derivatives(c, middle + step, turning)[0]
        if reached > best:
            best, place = reached, middle + step
        if rest > near and left < middle < right and filled + 2 <= len(stack):
            stack[filled, 0], stack[filled, 1] = left, middle
            stack[filled + 1, 0], stack[filled + 1, 1] = middle, right
            filled += 2
    return best, place
