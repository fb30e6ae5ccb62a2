"""How far the members of a continuous family of images can be from those of a grid of values."""

from __future__ import annotations

import numpy as np

from ...utils.jit import njit
from ...utils.matrices import in_threads
from .image_maps import ImageShape, places_beyond, sources_of, warp_gains

# More than sources are snapped by.
_SLACK = 4e-9


def mesh_of(
    X: np.ndarray,
    shape: ImageShape,
    ends: tuple[np.ndarray, np.ndarray],
    turned: np.ndarray,
    fill: int,
    background: float,
    unitary: bool,
    points: np.ndarray,
) -> np.ndarray:
    r"""A bound on the distance of any member to the nearest one of a grid, for each row, (n,).

    Between two values of the grid a source that moves on a line is at most half of its way from
    one of the ends; one that turns is at most half of the angle from it. Interpolated bilinearly,
    an image changes by at most :math:`g_r |\Delta r| + g_c |\Delta c|` on the way, where g is the
    largest difference of neighboring pixels, beyond the border too, in the cells that are touched;
    and by no more than the difference of any two pixels there.

    Parameters
    ----------
    X : (n, d) array
    ends : pair of (g, 6) arrays
        Warps of neighboring values of the grid.
    turned : (g,) array
        Radians by which sources turn around the center in between; zero if they move on lines.
    points : (n, s, d) array
        The members of the grid, identity included.
    """
    if not len(turned):
        return np.zeros(len(X))
    boxes, moves = _paths(shape, ends, turned)
    gains = np.stack([warp_gains(warps, unitary) for warps in ends])
    bounds = np.empty((len(X), len(turned)))
    sides = shape.height, shape.width
    if fill == 0:
        # Nothing changes further out.
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
    # The factor moves at most half of its way too, and multiplies an image without one.
    largest = np.max(np.linalg.norm(points - background, axis=2), axis=1) / np.min(gains)
    drift = np.abs(gains[0] - gains[1]) / 2 * largest[:, None]
    return np.max(np.max(gains, axis=0) * bounds + drift, axis=1)


def _paths(
    shape: ImageShape, ends: tuple[np.ndarray, np.ndarray], turned: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Cells that each source touches, (g, pixels, 4), and how far it is from an end, (g, pixels, 2)."""
    first, last = (sources_of(shape, warps) for warps in ends)
    center = np.array([(shape.height - 1) / 2, (shape.width - 1) / 2])
    radius = np.linalg.norm(first - center, axis=2)
    # An arc leaves its chord by the sagitta.
    bulge = np.where(turned <= np.pi, 1.0 - np.cos(turned / 2), 2.0)[:, None] * radius
    low = np.minimum(first, last) - bulge[:, :, None]
    high = np.maximum(first, last) + bulge[:, :, None]
    # On an arc a coordinate changes as fast as the other one is large.
    reach = np.minimum(np.maximum(high - center, center - low), radius[:, :, None])
    arc = turned[:, None, None] / 2 * reach[:, :, ::-1]
    moves = np.where(turned[:, None, None] > 0, arc, np.abs(last - first) / 2) + _SLACK
    boxes = np.concatenate([np.floor(low - _SLACK), np.ceil(high + _SLACK)], axis=2)
    return boxes.astype(np.int64), moves


@njit(cache=True, nogil=True)
def _bound_changes(X, boxes, moves, rows, columns, width, channels, background, frame, bounds):
    """How far each image can be from the ends of each part of a path; `frame` has room for a channel."""
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
                    # The largest differences of neighboring pixels, and of any two, in its cells.
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
