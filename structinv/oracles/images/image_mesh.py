"""Bound of the distance from a continuous set of transformed images to its cover."""

from __future__ import annotations

import numpy as np

from ...utils.jit import njit
from ...utils.matrices import in_threads
from .image_maps import ImageShape, places_beyond, sources_of

# Tolerance in pixels, larger than the rounding of sources in `image_maps`.
_SLACK = 4e-9


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
    boxes, moves = _paths(shape, ends, turned)
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


def _paths(
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
    half_ways = np.where(turned[:, None, None] > 0, arc, np.abs(last - first) / 2) + _SLACK
    boxes = np.concatenate([np.floor(low - _SLACK), np.ceil(high + _SLACK)], axis=2)
    return boxes.astype(np.int64), half_ways


@njit(cache=True, nogil=True)
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
