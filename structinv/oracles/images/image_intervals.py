"""Intervals of image transformations: support by branch and bound, meshes.

The score of a bilinear image is the sum of the values of its pixels, weighted by v. While the source of
a pixel stays in one cell of the grid, its value is a polynomial of degree 2 in the position.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...utils.jit import LEAN, njit
from ...utils.matrices import contiguous_read_only, in_threads
from .image_maps import ImageShape, places_beyond, rounding_of_sources, sources_of

# Largest coordinate of a source in pixels, in absolute value. The rounding errors of larger ones are too
# large.
FURTHEST_SOURCE = 1000.0
# Precision of the maxima, relative to the largest possible score.
_PRECISION = 2e-15
# A source this close to a line of the grid may be in the cells on both sides of the line; in units of
# eps times the largest coordinate of a source in the frame.
_SLACK = 2.0
# Tolerance of the mesh in pixels, larger than the rounding of sources in `image_maps`.
_ROUNDED = 4e-9
# Bound of the rounding errors of a score, in units of eps times the largest possible score: a constant
# plus a multiple of the largest coordinate.
_ROUNDING, _ROUNDING_PER_PIXEL = 64.0, 4.0
# Number of intervals that wait for a visit. Each has at most three quarters of the length of the one
# before, so that the last ones have no number between their ends.
_WAITING = 150


@dataclass(frozen=True)
class Motion:
    """Lines or circles on which the sources of pixels move between two values.

    The warp at s is ``warps[0] + g1 warps[1] + g2 warps[2]`` for 0 <= s <= ``edges[-1]``. Here g is
    (s, 0) on lines, or (cos s, sin s) if `turning`. The sources of pixels are the same combination of
    `parts` (3, pixels, 2). On a piece between two `edges`, no source moves by more than one pixel along
    an axis.

    The *frame* is a rectangle of pixels that contains all sources. `rows` and `columns` have the rows
    and columns of the image in the frame, -1 for the background. Sources are relative to its corner.
    """

    turning: bool
    warps: np.ndarray
    parts: np.ndarray
    rows: np.ndarray
    columns: np.ndarray
    edges: np.ndarray

    def at(self, s: np.ndarray) -> np.ndarray:
        """Return the warps at some places of the motion, (m, 6)."""
        first, second = (np.cos(s), np.sin(s)) if self.turning else (s, np.zeros_like(s))
        return self.warps[0] + np.stack([first, second], axis=1) @ self.warps[1:]


def motion_between(shape: ImageShape, warps: np.ndarray, turned: np.ndarray, fill: int) -> Motion | None:
    """Return the motion through the warps of increasing values, if there is one.

    Sources that are too far away have none. Shapes: `warps` (m, 6), `turned` (m,).
    """
    turning = bool(turned[-1] != 0)
    first, way = warps[0], warps[-1] - warps[0]
    if turning:
        turned_first = np.sign(turned[-1]) * first[[2, 3, 0, 1, 5, 4]] * [1, 1, -1, -1, 1, -1]
        basis = np.stack([np.zeros(6), first, turned_first])
        places, end = np.abs(turned), min(abs(turned[-1]), 2.0 * np.pi)
    else:
        basis, end = np.stack([first, way, np.zeros(6)]), 1.0
        places = np.clip((warps - first) @ way / max(way @ way, np.finfo(np.float64).tiny), 0.0, 1.0)
    center = np.array([(shape.height - 1) / 2, (shape.width - 1) / 2])
    parts = sources_of(shape, basis) - np.array([0, 1, 1])[:, None, None] * center
    reach = np.hypot(parts[1], parts[2])
    lowest, highest = (parts[0] - reach).min(axis=0), (parts[0] + reach).max(axis=0)
    if not max(np.max(-lowest), np.max(highest)) <= FURTHEST_SOURCE:
        return None
    corner, far = np.floor(lowest).astype(np.int64) - 2, np.ceil(highest).astype(np.int64) + 2
    sides = np.array([shape.height, shape.width])
    if fill == 0:
        # All values farther out are zero.
        corner, far = np.clip(corner, -2, sides + 1), np.clip(far, -2, sides + 1)
    # On a piece, a coordinate changes by at most one pixel, and an angle by at most one radian.
    n_pieces = int(np.ceil(end * max(np.max(reach), 1.0)))
    motion = Motion(
        turning=turning,
        warps=basis,
        parts=parts - np.array([1, 0, 0])[:, None, None] * corner,
        rows=places_beyond(corner[0], far[0], shape.height, fill),
        columns=places_beyond(corner[1], far[1], shape.width, fill),
        edges=np.linspace(0.0, end, n_pieces + 1),
    )
    return motion if np.allclose(motion.at(places), warps, rtol=1e-9, atol=1e-9) else None


def furthest(
    X: np.ndarray,
    V: np.ndarray,
    assign: np.ndarray,
    shape: ImageShape,
    motion: Motion,
    background: float,
    best: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Maximize ``<v, z - background>`` over the images z of a motion, for each row.

    Shapes: `X` (n, d), `V` (p, d), `assign` (n,), `best` (n,); returns (n,), (n,). The first result has
    the places of larger scores than `best`, -1 if there are none; `best` is overwritten by these scores.
    The second result has upper bounds.
    """
    X, V, assign = map(contiguous_read_only, (X, np.asarray(V, dtype=np.float64), assign))
    largest = np.max(np.abs(X), axis=1).astype(np.float64) + abs(background)
    scales = largest * np.sum(np.abs(V), axis=1)[assign]
    places, upper = np.full(len(X), -1.0), np.empty(len(X))
    frame = shape.channels, len(motion.rows), len(motion.columns)
    eps, far = np.finfo(np.float64).eps, max(*frame[1:], float(np.max(np.abs(motion.parts))))
    slack = _SLACK * eps * far

    def search(part: slice) -> None:
        _search(
            X[part], V, assign[part], shape.width, background, motion.rows, motion.columns, motion.parts,
            motion.turning, motion.edges, slack, _PRECISION * scales[part], np.empty(frame),
            np.empty((shape.pixels, 6)), np.arange(shape.pixels), np.empty((_WAITING, 9)), np.empty(16),
            best[part], places[part], upper[part],
        )  # fmt: skip

    in_threads(search, len(X), 40 * len(X) * len(motion.edges) * shape.size)
    # At a distance of `slack` from its cell, a polynomial differs by four times that distance.
    units = _ROUNDING + (_ROUNDING_PER_PIXEL + 4.0 * _SLACK) * far
    # Rounding of a source changes its pixel by at most twice the largest value along each axis.
    return places, upper + (eps * units + 4.0 * rounding_of_sources(shape)) * scales


@njit(**LEAN)
def _search(
    X, V, assign, width, background, rows, columns, parts, turning, edges, slack, near,
    image, sources, order, waiting, patch, best, places, upper,
):  # fmt: skip
    """Bisect all intervals whose bound exceeds the best score by more than `near`.

    A waiting interval has its ends, the number of its pixels in several cells, and the polynomial of all
    others; its pixels in several cells are the first ones of `order`.
    """
    for i in range(X.shape[0]):
        v = V[assign[i]]
        _set_image(X[i], width, background, rows, columns, image)
        upper[i] = best[i]
        for piece in range(len(edges) - 1):
            middle = 0.5 * (edges[piece] + edges[piece + 1])
            half = edges[piece + 1] - middle
            _set_sources(parts, middle, turning, sources)
            for k in range(waiting.shape[1]):
                waiting[0, k] = 0.0
            waiting[0, 0], waiting[0, 1], waiting[0, 2] = -half, half, len(order)
            n_waiting = 1
            while n_waiting > 0:
                n_waiting -= 1
                now = waiting[n_waiting]
                low, high = now[0], now[1]
                at_low, at_high, bend = _bound(v, image, sources, order, now, turning, slack, patch)
                if max(at_low, at_high) > best[i] + near[i]:
                    best[i] = max(at_low, at_high)
                    at = middle + (low if at_low >= at_high else high)
                    places[i] = min(max(at, edges[piece]), edges[piece + 1])
                # The maximum of at_low + t (at_high - at_low) + bend t (1 - t) for 0 <= t <= 1.
                change = at_high - at_low
                if bend <= abs(change):
                    continue
                bound = at_low + (bend + change) ** 2 / (4.0 * bend)
                if bound <= best[i] + near[i]:
                    continue
                share = min(max((bend + change) / (2.0 * bend), 0.25), 0.75)
                split = low + share * (high - low)
                if n_waiting + 2 > len(waiting) or not low < split < high:
                    upper[i] = max(upper[i], bound)
                    continue
                for k in range(len(now)):
                    waiting[n_waiting + 1, k] = now[k]
                now[1] = waiting[n_waiting + 1, 0] = split
                n_waiting += 2
        upper[i] = max(upper[i], best[i] + near[i])


@njit(**LEAN)
def _set_image(x, width, background, rows, columns, image):
    """Write the image minus background."""
    channels = image.shape[0]
    for r in range(len(rows)):
        for q in range(len(columns)):
            inside = rows[r] >= 0 and columns[q] >= 0
            for channel in range(channels):
                place = (rows[r] * width + columns[q]) * channels + channel
                image[channel, r, q] = x[place] - background if inside else 0.0


@njit(**LEAN)
def _set_sources(parts, middle, turning, sources):
    """Write the coefficients of (1, g1, g2) of both coordinates, with s counted from the middle.

    Here g is (s, 0), or (cos s - 1, sin s) on circles: without cancellation.
    """
    first, second = (np.cos(middle), np.sin(middle)) if turning else (middle, 0.0)
    for p in range(parts.shape[1]):
        for axis in range(2):
            moved = first * parts[1, p, axis] + second * parts[2, p, axis]
            sources[p, 3 * axis] = parts[0, p, axis] + moved
            sources[p, 3 * axis + 1] = moved if turning else parts[1, p, axis]
            turned = first * parts[2, p, axis] - second * parts[1, p, axis]
            sources[p, 3 * axis + 2] = turned if turning else 0.0


@njit(**LEAN)
def _bound(v, image, sources, order, now, turning, slack, patch):
    """Return the scores at both ends of an interval, and a bound of what is above their chord.

    The score is at most the chord plus ``bend * t * (1 - t)`` at the share t of the interval. A value
    with slopes from a to b has the bend b - a, one with second derivatives of at least -a has a / 2.

    Pixels with a single cell are moved to the polynomial of the interval, so that parts of the interval
    need not visit them.
    """
    low, length, n_apart, c = now[0], now[1] - now[0], int(now[2]), now[3:]
    low1, low2 = _wave(low, turning)
    high1, high2 = _wave(now[1], turning)
    at_low, at_high, bend = 0.0, 0.0, 0.0
    k = 0
    while k < n_apart:
        p = order[k]
        row_low, row_high, top, bottom, row_least, row_most = _way(
            sources[p, 0], sources[p, 1], sources[p, 2], low1, low2, high1, high2, length, turning
        )
        column_low, column_high, left, right, column_least, column_most = _way(
            sources[p, 3], sources[p, 4], sources[p, 5], low1, low2, high1, high2, length, turning
        )
        # Corners of all cells of the way.
        first, begin = int(np.floor(top + slack)), int(np.floor(left + slack))
        last = max(first + 1, int(np.ceil(bottom - slack)))
        end = max(begin + 1, int(np.ceil(right - slack)))
        single = last == first + 1 and end == begin + 1
        # Values beyond the frame are zero.
        first, last = max(first, 0), min(last, image.shape[1] - 1)
        begin, end = max(begin, 0), min(end, image.shape[2] - 1)
        largest = _set_patch(v, p, image, first, last, begin, end, patch)
        if single or largest == 0.0:
            n_apart -= 1
            order[k], order[n_apart] = order[n_apart], p
            if largest > 0.0:
                _add_pixel(c, patch, sources[p], first, begin)
            continue
        k += 1
        wide, here = end - begin + 1, 0
        least_down, most_down, least_right, most_right = np.inf, -np.inf, np.inf, -np.inf
        for r in range(first, last + 1):
            for q in range(begin, end + 1):
                value = patch[here]
                at_low += value * max(0.0, 1.0 - abs(row_low - r)) * max(0.0, 1.0 - abs(column_low - q))
                at_high += (
                    value * max(0.0, 1.0 - abs(row_high - r)) * max(0.0, 1.0 - abs(column_high - q))
                )
                if r < last:
                    step = patch[here + wide] - value
                    least_down, most_down = min(least_down, step), max(most_down, step)
                if q < end:
                    step = patch[here + 1] - value
                    least_right, most_right = min(least_right, step), max(most_right, step)
                here += 1
        bend += _spread(least_down, most_down, row_least, row_most)
        bend += _spread(least_right, most_right, column_least, column_most)
    now[2] = n_apart
    at_low += c[0] + low1 * (c[1] + c[3] * low1 + c[4] * low2) + low2 * (c[2] + c[5] * low2)
    at_high += c[0] + high1 * (c[1] + c[3] * high1 + c[4] * high2) + high2 * (c[2] + c[5] * high2)
    return at_low, at_high, bend + 0.5 * length**2 * _curve(c, low, length, turning)


@njit(**LEAN)
def _wave(s, turning):
    """Return g1 and g2, without cancellation."""
    return (-2.0 * np.sin(0.5 * s) ** 2, np.sin(s)) if turning else (s, 0.0)


@njit(**LEAN)
def _way(start, first, second, low1, low2, high1, high2, length, turning):
    """Return a coordinate at both ends, its range, and the range of its change per interval."""
    at_low, at_high = start + first * low1 + second * low2, start + first * high1 + second * high2
    least, most = min(at_low, at_high), max(at_low, at_high)
    if not turning:
        return at_low, at_high, least, most, first * length, first * length
    slope_low = (second * (1.0 + low1) - first * low2) * length
    slope_high = (second * (1.0 + high1) - first * high2) * length
    # A wave of this size is at most this far from its chords.
    apart = 0.125 * length * length * (abs(first) + abs(second))
    if slope_low * slope_high < 0.0:
        least, most = least - apart, most + apart
    apart *= length
    slopes = min(slope_low, slope_high) - apart, max(slope_low, slope_high) + apart
    return at_low, at_high, least, most, slopes[0], slopes[1]


@njit(**LEAN)
def _set_patch(v, pixel, image, first, last, begin, end, patch):
    """Write the parts of the score at the corners of some cells; return the largest size."""
    channels, largest, here = image.shape[0], 0.0, 0
    for r in range(first, last + 1):
        for q in range(begin, end + 1):
            value = 0.0
            for channel in range(channels):
                value += v[pixel * channels + channel] * image[channel, r, q]
            patch[here] = value
            largest = max(largest, abs(value))
            here += 1
    return largest


@njit(**LEAN)
def _add_pixel(c, patch, source, row, column):
    """Add a pixel in one cell to the coefficients of (1, g1, g2, g1^2, g1 g2, g2^2)."""
    value, down, across = patch[0], patch[2] - patch[0], patch[1] - patch[0]
    mixed = patch[3] - patch[2] - across
    u, u1, u2, w, w1, w2 = (
        source[0] - row,
        source[1],
        source[2],
        source[3] - column,
        source[4],
        source[5],
    )
    across += mixed * u
    c[0] += value + down * u + across * w
    c[1] += (down + mixed * w) * u1 + across * w1
    c[2] += (down + mixed * w) * u2 + across * w2
    c[3] += mixed * u1 * w1
    c[4] += mixed * (u1 * w2 + u2 * w1)
    c[5] += mixed * u2 * w2


@njit(**LEAN)
def _spread(a, b, c, d):
    """Return the largest minus the smallest product of a number in [a, b] and one in [c, d]."""
    return max(max(a * c, a * d), max(b * c, b * d)) - min(min(a * c, a * d), min(b * c, b * d))


@njit(**LEAN)
def _curve(c, low, length, turning):
    """Return an upper bound of minus the second derivative of a polynomial."""
    if not turning:
        return -2.0 * c[3]
    # Coefficients of (cos, sin, cos^2, cos sin).
    x, y = np.cos(low + 0.5 * length), np.sin(low + 0.5 * length)
    first, second, square = c[1] - 2.0 * c[3], c[2] - c[4], c[3] - c[5]
    bend = first * x + second * y + 2.0 * (square * (x * x - y * y) + 2.0 * c[4] * x * y)
    third = np.hypot(first, second) + 4.0 * np.hypot(square, c[4])
    return bend + 0.5 * length * third


def mesh_of(
    X: np.ndarray,
    shape: ImageShape,
    ends: tuple[np.ndarray, np.ndarray],
    turned: np.ndarray,
    fill: int,
    background: float,
) -> np.ndarray:
    r"""Bound the distance from any transformed image to the nearest one of a cover.

    Between two neighboring values of the cover, the source of a pixel moves on a line or an arc. Its
    distance from its position at the nearer value is at most half of this way. A pixel of a bilinear
    image changes by at most :math:`g_r |\Delta r| + g_c |\Delta c|` on half of the way. Here
    :math:`g_r` and :math:`g_c` are the largest differences of neighboring pixels in the cells of the
    way, along both axes. The change is also at most the largest difference of any two pixels there.

    Shapes: `X` (n, d), `ends` (g, 6), `turned` (g,); returns (n,).
    """
    if not len(turned):
        return np.zeros(len(X))
    boxes, moves = _ways(shape, ends, turned)
    bounds = np.empty((len(X), len(turned)))
    sides = shape.height, shape.width
    if fill == 0:
        # Images are constant farther out.
        boxes = np.clip(boxes, -1, np.tile(sides, 2))
    lowest = boxes.min(axis=(0, 1))
    highest = boxes.max(axis=(0, 1))
    rows, columns = (places_beyond(lowest[k], highest[k + 2], sides[k], fill) for k in range(2))
    boxes = boxes - np.tile(lowest[:2], 2)
    X = np.ascontiguousarray(X)

    def bound(part: slice) -> None:
        frame = np.empty((len(rows), len(columns)))
        _bound_changes(
            X[part], boxes, moves, rows, columns, shape.width, shape.channels, background, frame,
            bounds[part],
        )  # fmt: skip

    in_threads(bound, len(X), 4 * len(X) * moves.size)
    return np.max(bounds, axis=1)


def _ways(
    shape: ImageShape, ends: tuple[np.ndarray, np.ndarray], turned: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the cells of each source's way, (g, pixels, 4), and half the way, (g, pixels, 2)."""
    first, last = (sources_of(shape, warps) for warps in ends)
    center = np.array([(shape.height - 1) / 2, (shape.width - 1) / 2])
    radius = np.linalg.norm(first - center, axis=2)
    # The distance from an arc to its chord is at most the sagitta.
    sagitta = np.where(turned <= np.pi, 1.0 - np.cos(turned / 2), 2.0)[:, None] * radius
    low = np.minimum(first, last) - sagitta[:, :, None]
    high = np.maximum(first, last) + sagitta[:, :, None]
    # On an arc, a coordinate changes by at most the angle times the largest size of the other one.
    extent = np.minimum(np.maximum(high - center, center - low), radius[:, :, None])
    arc = turned[:, None, None] / 2 * extent[:, :, ::-1]
    half_ways = np.where(turned[:, None, None] > 0, arc, np.abs(last - first) / 2) + _ROUNDED
    boxes = np.concatenate([np.floor(low - _ROUNDED), np.ceil(high + _ROUNDED)], axis=2)
    return boxes.astype(np.int64), half_ways


@njit(**LEAN)
def _bound_changes(X, boxes, moves, rows, columns, width, channels, background, frame, bounds):
    """Write bounds of the distances to the nearer ends; `frame` is a workspace for a channel."""
    for i in range(X.shape[0]):
        for g in range(moves.shape[0]):
            bounds[i, g] = 0.0
        for channel in range(channels):
            for r in range(len(rows)):
                for c in range(len(columns)):
                    frame[r, c] = background
                    if rows[r] >= 0 and columns[c] >= 0:
                        frame[r, c] = X[i, (rows[r] * width + columns[c]) * channels + channel]
            for g in range(moves.shape[0]):
                for p in range(moves.shape[1]):
                    # In the cells: largest differences of neighbors along both axes, and both extremes.
                    down, across, least, most = 0.0, 0.0, np.inf, -np.inf
                    first, begin, last, end = (
                        boxes[g, p, 0], boxes[g, p, 1], boxes[g, p, 2], boxes[g, p, 3]
                    )  # fmt: skip
                    for r in range(first, last + 1):
                        for c in range(begin, end + 1):
                            here = frame[r, c]
                            least = here if here < least else least
                            most = here if here > most else most
                            step = abs(frame[r + 1, c] - here) if r < last else 0.0
                            down = step if step > down else down
                            step = abs(frame[r, c + 1] - here) if c < end else 0.0
                            across = step if step > across else across
                    change = down * moves[g, p, 0] + across * moves[g, p, 1]
                    change = most - least if most - least < change else change
                    bounds[i, g] += change * change
        for g in range(moves.shape[0]):
            bounds[i, g] = np.sqrt(bounds[i, g])
