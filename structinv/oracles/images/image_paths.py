"""Exact support function of image transformations with one continuous parameter.

A bilinear image is a polynomial of degree 2 in the position of each source, between crossings of the
grid of pixels. The score of an image is a sum of such polynomials. A *walk* visits all crossings in
sequence and therefore finds every maximum of the score. It consists of *legs*, short parts of the path.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ...utils.jit import njit
from ...utils.matrices import contiguous_read_only, in_threads, ranges
from .image_maps import ImageShape, places_beyond, sources_of

# Maximum number of crossings of a walk, and of places of its frame per pixel: limits of the memory.
MOST_CROSSINGS = 3_000_000
MOST_PLACES = 64
# Largest coordinate of a source in pixels, in absolute value. The rounding errors of larger ones are too
# large.
FURTHEST_SOURCE = 1000.0
# Largest movement of a source on a leg in pixels; rounding errors grow with its square.
LONGEST_LEG = 8.0
# Precision of the maxima, relative to the largest possible score.
_PRECISION = 2e-15
# Bound of the rounding errors of a walk, in units of eps times the largest possible score: a constant
# plus a multiple of the number of pixels per side.
_ROUNDING, _ROUNDING_PER_PIXEL = 64.0, 4.0


@dataclass(frozen=True)
class ImagePath:
    r"""Lines or circles on which the sources of pixels move between two values.

    The source of pixel q is the point ``c + M (q - c) + m`` of the input image that gives its value,
    where c is the center of the image. With ``z = c + A (q - c) + t`` of `ImageOracle.geometry`, M is
    the inverse of A, and m is ``-M t``. A *warp* w is the six numbers of M, row by row, and of m. On the
    path it is

    .. math:: w(s) = w_0 + g_1(s)\, w_1 + g_2(s)\, w_2, \quad low \le s \le high

    with :math:`g = (s, 0)`, or :math:`g = (\cos s, \sin s)` if `turning`.

    Parameters
    ----------
    warps : ndarray of shape (3, 6)
        Warps w_0, w_1 and w_2; w_2 has no effect on lines.
    low, high : float
        Ends of the range of s.
    turning : bool, default=False
        Whether sources move on circles; s is then an angle in radians.
    value_at : callable, default=`numpy.asarray`
        Function from s, (m,), to values of the oracle's parameter, (m,). It maps low and high to both
        ends of the interval.

    Raises
    ------
    ValueError
        If `low` exceeds `high`.

    See Also
    --------
    ImageOracle : Base class whose method `path` returns it.

    Examples
    --------
    The sources of a stretch by a factor v have 1 / v of the horizontal distance from the center:

    >>> import numpy as np
    >>> from structinv.oracles import ImagePath
    >>> warps = np.zeros((3, 6))
    >>> warps[0, 0] = warps[1, 3] = 1.0
    >>> path = ImagePath(warps, 0.5, 2.0, value_at=np.reciprocal)
    >>> path.at(np.array([0.5]))
    array([[1. , 0. , 0. , 0.5, 0. , 0. ]])
    >>> path.value_at(np.array([0.5, 2.0]))
    array([2. , 0.5])
    """

    warps: np.ndarray
    low: float
    high: float
    turning: bool = False
    value_at: Callable[[np.ndarray], np.ndarray] = np.asarray

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            raise ValueError(f"low must be at most high, got {self.low!r} and {self.high!r}")

    def at(self, s: np.ndarray) -> np.ndarray:
        """Return the warps at some places of the path.

        Parameters
        ----------
        s : ndarray of shape (m,)
            Places between `low` and `high`.

        Returns
        -------
        ndarray of shape (m, 6)
            Warps.
        """
        return self.warps[0] + _basis(s, self.turning) @ self.warps[1:]


def furthest(
    X: np.ndarray,
    V: np.ndarray,
    assign: np.ndarray,
    shape: ImageShape,
    path: ImagePath,
    fill: int,
    background: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Maximize ``<v, z - background>`` over the images z of a path, for each row.

    Shapes: `X` (n, d), `V` (p, d), `assign` (n,); returns `values` (n,), `positions` (n,), `hidden`
    (n,).
    """
    warps = np.ascontiguousarray(path.warps, dtype=np.float64)
    # Rotations have a period of 2 pi.
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
            walk.begins, walk.crossings, walk.waves, path.turning,
            np.zeros((shape.channels, frame)), np.zeros((2, shape.channels, frame)), np.empty(6),
            np.empty((80, 2)), values[part], positions[part],
        )  # fmt: skip

    in_threads(follow, len(X), 40 * len(X) * (len(walk.waves) + shape.size))
    units = _ROUNDING + _ROUNDING_PER_PIXEL * max(len(walk.rows), len(walk.columns))
    largest = np.max(np.abs(X), axis=1).astype(np.float64) + abs(background)
    hidden = np.finfo(np.float64).eps * units * largest * np.sum(np.abs(V), axis=1)[assign]
    return values, positions, hidden


@dataclass(frozen=True)
class _Walk:
    """Initial sources of all pixels, and their crossings of the lines of the grid in sequence.

    The *frame* is a rectangle of pixels that contains all sources. `rows` and `columns` have the rows
    and columns of the image in the frame, -1 for the background. The *place* of a pixel is its row in
    the frame times the width of the frame, plus its column.

    The `edges` divide the path into legs. The walk restarts at each leg, so that rounding errors do not
    accumulate. Let t be s minus the middle of leg b. Coordinate a of the source of pixel p is
    ``sources[b, p, a] @ (1, g1, g2)``, where g is (t, 0), or (cos t - 1, sin t) on a circle. Its first
    cell is ``first_cells[b, p, a]`` with the corner ``first_places[b, p]``; -1 if all values there are
    zero.

    Crossings ``begins[b]`` to ``begins[b + 1]`` belong to leg b. Each has five numbers:

    - the pixel,
    - the axis of the coordinate that crosses a line,
    - 1 for upward or -1 for downward,
    - the cell of the other coordinate,
    - the place where the line meets the lower edge of that cell.

    `waves` contains t, g1 and g2 of each crossing.
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
    """Return the cached walk along a path; None if it exceeds a limit of this module."""
    parts = sources_of(shape, np.frombuffer(key).reshape(3, 6))
    parts[1:] -= np.array([(shape.height - 1) / 2, (shape.width - 1) / 2])
    sides = np.array([shape.height, shape.width])
    flat = parts.reshape(3, -1)
    ends, coordinates = _slopes(flat, low, high, turning)
    if not np.max(np.abs(coordinates)) <= FURTHEST_SOURCE:
        return None
    legs = _legs(coordinates, low, high)
    corner, far = _frame(coordinates.reshape(shape.pixels, 2, -1), sides, fill == 0)
    width = int(far[1] - corner[1]) + 1
    too_wide = np.prod(far - corner + 1) > MOST_PLACES * (shape.pixels + MOST_PLACES)
    too_long = len(legs) * shape.pixels > MOST_CROSSINGS // 3
    times_and_crossings = _crossings(flat, ends, coordinates, turning, sides if fill == 0 else None)
    if too_wide or too_long or times_and_crossings is None:
        return None
    times, crossings = times_and_crossings
    leg = np.searchsorted(legs[1:-1], times, side="right")
    begins = np.searchsorted(leg, np.arange(len(legs)))
    cells = _first_cells(coordinates).reshape(shape.pixels, 2)
    first_cells = np.empty((len(legs) - 1, shape.pixels, 2), dtype=np.int32)
    first_places = np.empty(first_cells.shape[:2], dtype=np.int32)
    places = first_cells, first_places
    _set_places(begins, crossings, cells, sides, corner, width, fill == 0, *places)
    inside = crossings[:, 4] >= 0
    middles = (legs[1:] + legs[:-1]) / 2
    walk = _Walk(
        rows=places_beyond(corner[0], far[0], shape.height, fill),
        columns=places_beyond(corner[1], far[1], shape.width, fill),
        edges=legs,
        sources=np.ascontiguousarray(_local_sources(parts, middles, turning)),
        first_cells=first_cells,
        first_places=first_places,
        begins=np.searchsorted(leg[inside], np.arange(len(legs))),
        crossings=crossings[inside],
        waves=_waves((times - middles[leg])[inside], turning),
    )
    for part in vars(walk).values():
        part.setflags(write=False)
    return walk


def _basis(s: np.ndarray, turning: bool) -> np.ndarray:
    """Return g1 and g2 on the whole path, (m, 2)."""
    return np.stack([np.cos(s), np.sin(s)] if turning else [s, np.zeros_like(s)], axis=1)


def _waves(t: np.ndarray, turning: bool) -> np.ndarray:
    """Return t, g1 and g2 on a leg, (m, 3), without cancellation."""
    first, second = (-2.0 * np.sin(t / 2) ** 2, np.sin(t)) if turning else (t, np.zeros_like(t))
    return np.stack([t, first, second], axis=1)


def _local_sources(parts: np.ndarray, middles: np.ndarray, turning: bool) -> np.ndarray:
    """Return coefficients of the coordinates of sources on each leg, (legs, pixels, 2, 3)."""
    first, second = _basis(middles, turning).T[:, :, None, None]
    middle = parts[0] + first * parts[1] + second * parts[2]
    if not turning:
        flat = np.zeros_like(middle)
        return np.stack([middle, parts[1] + flat, flat], axis=3)
    return np.stack([middle, middle - parts[0], first * parts[2] - second * parts[1]], axis=3)


def _legs(coordinates: np.ndarray, low: float, high: float) -> np.ndarray:
    """Return the ends of equal legs, on which no source moves by more than `LONGEST_LEG` pixels."""
    longest_path = np.max(np.sum(np.abs(np.diff(coordinates, axis=1)), axis=1))
    return np.linspace(
        low, high, int(np.ceil(longest_path / LONGEST_LEG)) + 1 if longest_path > 0 else 2
    )


def _frame(coordinates: np.ndarray, sides: np.ndarray, bounded: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the first and the last place of the frame along both axes."""
    lowest = np.floor(coordinates.min(axis=(0, 2))).astype(np.int64) - 2
    highest = np.ceil(coordinates.max(axis=(0, 2))).astype(np.int64) + 2
    if bounded:
        # All values farther out are zero.
        return np.clip(lowest, -2, sides), np.clip(highest, 0, sides + 1)
    return lowest, highest


def _slopes(parts: np.ndarray, low: float, high: float, turning: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of monotone parts of each coordinate, (q, m), and its values there."""
    size = parts.shape[1]
    if not turning:
        edges = np.tile([low, high], (size, 1))
        return edges, parts[0, :, None] + parts[1, :, None] * edges
    phase, radius = np.arctan2(parts[2], parts[1])[:, None], np.hypot(parts[1], parts[2])[:, None]
    extrema = phase + np.pi * np.ceil((low - phase) / np.pi)
    extrema = extrema + np.pi * np.arange(int((high - low) / np.pi) + 1)
    edges = np.concatenate([np.full((size, 1), low), extrema, np.full((size, 1), high)], axis=1)
    edges = np.clip(edges, low, high)
    return edges, parts[0, :, None] + radius * np.cos(edges - phase)


def _first_cells(coordinates: np.ndarray) -> np.ndarray:
    """Return the cell of each coordinate just after the start."""
    moved = coordinates != coordinates[:, :1]
    next_value = coordinates[np.arange(len(coordinates)), np.argmax(moved, axis=1)]
    falls = next_value < coordinates[:, 0]
    return np.where(falls, np.ceil(coordinates[:, 0]) - 1, np.floor(coordinates[:, 0])).astype(np.int64)


def _crossings(
    parts: np.ndarray,
    edges: np.ndarray,
    coordinates: np.ndarray,
    turning: bool,
    sides: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the sorted positions s of all crossings, and the crossings.

    The last number of a crossing is its line, which `_set_places` replaces. With `sides`, lines beyond
    the border are omitted, since the image is zero there. The result is None if there are more than
    `MOST_CROSSINGS`.
    """
    ends = coordinates[:, :-1], coordinates[:, 1:]
    first = np.floor(np.minimum(*ends)) + 1
    last = np.ceil(np.maximum(*ends)) - 1
    if sides is not None:
        first = np.maximum(first, -1)
        last = np.minimum(last, np.tile(sides, len(coordinates) // 2)[:, None])
    counts = np.maximum(last - first + 1, 0).astype(np.int64).ravel()
    if np.sum(counts) > MOST_CROSSINGS:
        return None
    step, part = ranges(np.zeros_like(counts), counts)
    coordinate = part // ends[0].shape[1]
    rises = (ends[1] > ends[0]).ravel()[part]
    line = np.where(rises, first.ravel()[part] + step, last.ravel()[part] - step)
    begin, end = edges[:, :-1].ravel()[part], edges[:, 1:].ravel()[part]
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
    """Replace lines by cells and places in `crossings`, and write first cells and places of each leg.

    The place is -1 if all values are zero. `now` has the initial cells and is overwritten.
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
    begins, crossings, waves, turning, image, bends, c, stack, values, positions,
):  # fmt: skip
    n_legs = len(edges) - 1
    for i in range(X.shape[0]):
        v = V[assign[i]]
        size = _set_frame(X[i], width, channels, background, rows, columns, image, bends)
        near = 0.0
        for k in range(len(v)):
            near += abs(v[k])
        near *= _PRECISION * size
        values[i], positions[i] = -np.inf, edges[0]
        for leg in range(n_legs):
            middle = 0.5 * (edges[leg] + edges[leg + 1])
            half = edges[leg + 1] - middle
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
    """Walk along a leg; return the best score so far and its position from the middle."""
    before, place = -half, 0.0
    score = _derivatives(c, before, turning)[0]
    if score > best:
        best, place = score, before
    for k in range(begin, end):
        pixel, axis, here = crossings[k, 0], crossings[k, 1], crossings[k, 4]
        next_place = here + (1 if axis == 0 else n_columns)
        second_difference, its_slope = 0.0, 0.0
        for channel in range(channels):
            weight = v[pixel * channels + channel]
            second_difference += weight * bends[axis, channel, here]
            its_slope += weight * bends[axis, channel, next_place]
        if second_difference == 0.0 and its_slope == 0.0:
            continue
        its_slope -= second_difference
        t, first, second = waves[k, 0], waves[k, 1], waves[k, 2]
        if t > before:
            now = c[0] + first * (c[1] + c[3] * first + c[4] * second)
            now = now + second * (c[2] + c[5] * second)
            # Bound of the second derivative on the leg.
            if turning:
                curve = abs(c[1] - 2.0 * c[3]) + abs(c[2] - c[4])
                curve += 2.0 * (abs(c[3] - c[5]) + abs(c[4]))
            else:
                curve = 2.0 * abs(c[3])
            slack = 0.125 * (t - before) ** 2 * curve
            if (now if now > score else score) + slack > best + near:
                best, place = _peak(c, before, t, turning, best, place, near, stack)
                if now > best:
                    best, place = now, t
            score, before = now, t
        # At the line, the polynomial changes by (coordinate - line) times the second difference across
        # it. This difference is linear in the other coordinate.
        sign = crossings[k, 2]
        down, right = sign * sources[pixel, axis, 1], sign * sources[pixel, axis, 2]
        offset = -down * first - right * second
        other = sources[pixel, 1 - axis]
        second_difference += its_slope * (other[0] - crossings[k, 3])
        _add_product(
            c, offset, down, right, second_difference, its_slope * other[1], its_slope * other[2]
        )
    return _peak(c, before, half, turning, best, place, near, stack)


@njit(cache=True, nogil=True)
def _set_frame(x, width, channels, background, rows, columns, image, bends):
    """Write the image minus background and its second differences; return its maximum."""
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
    """Write the coefficients of (1, g1, g2, g1^2, g1 g2, g2^2) at the start of a leg."""
    for k in range(6):
        c[k] = 0.0
    for pixel in range(len(places)):
        p = places[pixel]
        if p < 0:
            continue
        value, row_step, column_step, mixed_step = 0.0, 0.0, 0.0, 0.0
        for channel in range(channels):
            weight, part = v[pixel * channels + channel], image[channel]
            value += weight * part[p]
            row_step += weight * (part[p + n_columns] - part[p])
            column_step += weight * (part[p + 1] - part[p])
            mixed_step += weight * (
                part[p + n_columns + 1] - part[p + n_columns] - part[p + 1] + part[p]
            )
        row, column = sources[pixel, 0], sources[pixel, 1]
        u, w = row[0] - cells[pixel, 0], column[0] - cells[pixel, 1]
        c[0] += value + row_step * u
        c[1] += row_step * row[1]
        c[2] += row_step * row[2]
        _add_product(
            c,
            column_step + mixed_step * u,
            mixed_step * row[1],
            mixed_step * row[2],
            w,
            column[1],
            column[2],
        )


@njit(cache=True, nogil=True)
def _add_product(c, a, a1, a2, b, b1, b2):
    """Add the coefficients of (a + a1 g1 + a2 g2)(b + b1 g1 + b2 g2)."""
    c[0] += a * b
    c[1] += a * b1 + a1 * b
    c[2] += a * b2 + a2 * b
    c[3] += a1 * b1
    c[4] += a1 * b2 + a2 * b1
    c[5] += a2 * b2


@njit(cache=True, nogil=True)
def _derivatives(c, t, turning):
    """Return the score at t, two derivatives, and a bound of the third derivative everywhere."""
    if turning:
        wave, y = -2.0 * np.sin(0.5 * t) ** 2, np.sin(t)
        x = 1.0 + wave
        # Coefficients of (1, cos, sin, cos^2, cos sin, sin^2).
        first, second, square_coefficient = c[1] - 2.0 * c[3], c[2] - c[4], c[3] - c[5]
        cos_2t, sin_2t = x * x - y * y, 2.0 * x * y
        slope = second * x - first * y - square_coefficient * sin_2t + c[4] * cos_2t
        bend = -first * x - second * y - 2.0 * (square_coefficient * cos_2t + c[4] * sin_2t)
        third = np.hypot(first, second) + 4.0 * np.hypot(square_coefficient, c[4])
        score = c[0] + wave * (c[1] + c[3] * wave + c[4] * y) + y * (c[2] + c[5] * y)
        return score, slope, bend, third
    return c[0] + t * (c[1] + c[3] * t), c[1] + 2.0 * c[3] * t, 2.0 * c[3], 0.0


@njit(cache=True, nogil=True)
def _peak(c, low, high, turning, best, place, near, stack):
    """Search between two crossings; return the best score so far and its position.

    The precision is `near`. Intervals whose Taylor bound is below the best score are discarded, others
    are halved.
    """
    stack[0, 0], stack[0, 1] = low, high
    filled = 1
    while filled > 0:
        filled -= 1
        left, right = stack[filled, 0], stack[filled, 1]
        middle, half = 0.5 * (left + right), 0.5 * (right - left)
        score, slope, bend, third = _derivatives(c, middle, turning)
        step = half if slope > 0 else -half
        if bend < 0.0 and abs(slope) < -bend * half:
            step = -slope / bend
        top = score + step * (slope + 0.5 * bend * step)
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
