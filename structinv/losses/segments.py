"""Derivatives that are piecewise linear, as sums of what each jump and each slope adds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .pieces import Pieces


@dataclass(frozen=True)
class Segments:
    """Derivatives of n losses as ``base_i + sum of t_k over the k of i``, ``low_k <= t_k <= high_k``.

    At u a segment is where ``u = start_k + bend_k t_k``, kept between its ends: a jump has no bend, a
    slope the inverse of it. The conjugate at the sum is, but for a constant, the least of
    ``sum_k start_k t_k + bend_k t_k^2 / 2``.

    Parameters
    ----------
    owners : (k,) array of int
        The loss that each segment belongs to, never decreasing.
    start, bend, low, high : (k,) arrays
        Ends may be infinite where there is a bend.
    base : (n,) array

    Examples
    --------
    The derivative of the hinge is -1, and jumps by 1 at 1.

    >>> segments = segments_of(Pieces.row([1.0], [-1.0, 0.0], [0.0, 0.0]), 1)
    >>> segments.base, segments.start, segments.high
    (array([-1.]), array([1.]), array([1.]))
    """

    owners: np.ndarray
    start: np.ndarray
    bend: np.ndarray
    low: np.ndarray
    high: np.ndarray
    base: np.ndarray

    def total(self, values: np.ndarray) -> np.ndarray:
        """The sum of what the segments of each loss have, (n,)."""
        return np.bincount(self.owners, values, len(self.base))


def segments_of(pieces: Pieces, size: int) -> Segments:
    """The segments of pieces, of which there is a row for each of `size` losses, or one for all.

    Examples
    --------
    >>> segments_of(Pieces.row([], [0.0], [2.0]), 2).bend
    array([0.5, 0.5])
    """
    parts = (pieces.breaks, pieces.intercepts, pieces.slopes)
    breaks, intercepts, slopes = (np.broadcast_to(part, (size, part.shape[1])) for part in parts)
    finite = np.isfinite(breaks)
    at = np.where(finite, breaks, 0.0)
    before = intercepts[:, :-1] + slopes[:, :-1] * at
    behind = intercepts[:, 1:] + slopes[:, 1:] * at
    whole = ~np.any(finite, axis=1)
    # At the first break from below, where the segment before it ends; without breaks at 0.
    base = np.where(whole, intercepts[:, 0], before[:, 0] if breaks.shape[1] else 0.0)
    found = []

    def add(
        which: np.ndarray, start: np.ndarray, bend: np.ndarray, low: np.ndarray, high: np.ndarray
    ) -> None:
        own = np.flatnonzero(which)
        found.append([own, *(np.broadcast_to(part, size)[own] for part in (start, bend, low, high))])

    none = np.zeros(size)
    for number in range(slopes.shape[1]):
        slope = slopes[:, number]
        bent = slope > 0
        bend = 1.0 / np.where(bent, slope, 1.0)
        last = finite.sum(axis=1) == number
        if number == 0:
            add(bent & whole, none, bend, none - np.inf, none + np.inf)
            if at.shape[1]:
                add(bent & ~whole, at[:, 0], bend, none - np.inf, none)
            continue
        here = finite[:, number - 1]
        rise = behind[:, number - 1] - before[:, number - 1]
        rounding = 1e-12 * (np.abs(before[:, number - 1]) + np.abs(behind[:, number - 1]))
        add(here & (rise > rounding), at[:, number - 1], none, none, rise)
        add(here & bent & last, at[:, number - 1], bend, none, none + np.inf)
        if number < slopes.shape[1] - 1:
            rise = before[:, number] - behind[:, number - 1]
            add(here & bent & ~last & (rise > 0), at[:, number - 1], bend, none, rise)
    owners, start, bends, low, high = (np.concatenate(column) for column in zip(*found, strict=True))
    order = np.argsort(owners, kind="stable")
    return Segments(owners[order], start[order], bends[order], low[order], high[order], base)
