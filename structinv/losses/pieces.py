"""Derivatives that are piecewise linear: as tables, and as sums of what each jump and slope adds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike


@dataclass(frozen=True)
class Pieces:
    """Derivatives of n losses, linear between their breaks.

    Between ``breaks[:, k - 1]`` and ``breaks[:, k]`` each is ``intercepts[:, k] + slopes[:, k] * u``.

    Parameters
    ----------
    breaks : (n, m) array
        Never decreasing along a row; a piece between equal breaks has no length. Rows with fewer
        breaks than others end in infinities, and the pieces behind those never matter. n is 1 if
        the loss is the same for every element.
    intercepts : (n, m + 1) array
    slopes : (n, m + 1) array

    Examples
    --------
    The derivative of ``|u|`` jumps from -1 to 1.

    >>> pieces = Pieces.row([0.0], [-1.0, 1.0], [0.0, 0.0])
    >>> pieces.derivative(np.array([-2.0, 3.0]))
    array([-1.,  1.])
    """

    breaks: np.ndarray
    intercepts: np.ndarray
    slopes: np.ndarray

    @classmethod
    def row(cls, breaks: ArrayLike, intercepts: ArrayLike, slopes: ArrayLike) -> Pieces:
        """The pieces of a loss that is the same for every element, from three lists."""
        lists = (breaks, intercepts, slopes)
        return cls(*(np.asarray(numbers, dtype=float)[None, :] for numbers in lists))

    @classmethod
    def join(cls, parts: Sequence[tuple[Pieces, int]]) -> Pieces:
        """Families one after the other, each repeated to its size if it has a single row.

        Parameters
        ----------
        parts : list of (Pieces, int)
            Families and the number of their elements.

        Examples
        --------
        >>> jump = Pieces.row([1.0], [-1.0, 0.0], [0.0, 0.0])
        >>> line = Pieces.row([], [0.0], [2.0])
        >>> Pieces.join([(jump, 1), (line, 2)]).breaks.ravel()
        array([ 1., inf, inf])
        """
        longest = max(pieces.breaks.shape[1] for pieces, _ in parts)
        padded = [pieces._spread(size)._pad(longest) for pieces, size in parts]
        return cls(
            np.concatenate([pieces.breaks for pieces in padded]),
            np.concatenate([pieces.intercepts for pieces in padded]),
            np.concatenate([pieces.slopes for pieces in padded]),
        )

    def take(self, indices: Any) -> Pieces:
        """The rows of some of the elements; all of it if there is one row for all."""
        if len(self.breaks) == 1:
            return self
        rows = np.arange(len(self.breaks))[indices]
        return Pieces(self.breaks[rows], self.intercepts[rows], self.slopes[rows])

    def derivative(self, u: ArrayLike) -> np.ndarray:
        """The derivatives at `u`, (..., n); from below at a jump."""
        return self._look_up(self.intercepts, u) + self._look_up(self.slopes, u) * u

    def curvature(self, u: ArrayLike) -> np.ndarray:
        """The derivatives' slopes at `u`, (..., n)."""
        return self._look_up(self.slopes, u)

    def kinks(self) -> np.ndarray:
        """Which derivatives jump somewhere, (n,); rounding makes no jump."""
        _, before, behind = self._at_breaks()
        return np.any(self._jumps(before, behind), axis=1)

    def _at_breaks(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The breaks, 0 for infinite ones, and the derivatives before and behind each, (n, m)."""
        at = np.where(np.isfinite(self.breaks), self.breaks, 0.0)
        before = self.intercepts[:, :-1] + self.slopes[:, :-1] * at
        return at, before, self.intercepts[:, 1:] + self.slopes[:, 1:] * at

    def _jumps(self, before: np.ndarray, behind: np.ndarray) -> np.ndarray:
        """At which breaks derivatives jump by more than rounding, (n, m)."""
        rounding = 1e-12 * (np.abs(before) + np.abs(behind))
        return np.isfinite(self.breaks) & (behind - before > rounding)

    def segments(self, weights: np.ndarray) -> Segments:
        """The segments of the derivatives times weights, of those whose weight is above 0.

        Parameters
        ----------
        weights : (size,) array
            Of as many losses as there are rows, or of any number if one row stands for all.

        Examples
        --------
        >>> Pieces.row([], [0.0], [2.0]).segments(np.array([1.0, 2.0])).bend
        array([0.5 , 0.25])
        """
        spread = self._spread(len(weights))._pad(max(1, self.breaks.shape[1]))
        at, before, behind = spread._at_breaks()
        last = np.isfinite(spread.breaks).sum(axis=1, keepdims=True)
        # The first piece, the jump at its end, the next piece, and so on.
        shape = len(weights), 2 * at.shape[1] + 1
        kept = np.zeros(shape, dtype=bool)
        start, bend, low, high = (np.zeros(shape) for _ in range(4))
        kept[:, 1::2], high[:, 1::2] = spread._jumps(before, behind), behind - before
        start[:, 1::2] = start[:, 2::2] = at
        start[:, 0] = at[:, 0]
        low[:, 0] = -np.inf
        number = np.arange(at.shape[1] + 1)
        bent = (spread.slopes > 0) & (number <= last)
        bend[:, ::2] = 1.0 / np.where(bent, spread.slopes, 1.0)
        high[:, 2:-1:2] = before[:, 1:] - behind[:, :-1]
        high[:, ::2] = np.where(number == last, np.inf, high[:, ::2])
        kept[:, ::2] = bent & ((high[:, ::2] > 0) | (number == 0))
        kept &= weights[:, None] > 0
        owners, places = np.nonzero(kept)
        own, at_own = weights[owners], (owners, places)
        return Segments(
            owners,
            start[at_own],
            bend[at_own] / own,
            low[at_own] * own,
            high[at_own] * own,
            weights * before[:, 0],
        )

    def bounds_its_minima(self) -> np.ndarray:
        """Which losses rise on either side, (n,): those of a margin do on one."""
        last = np.count_nonzero(np.isfinite(self.breaks), axis=1)
        rows = np.arange(len(last))
        falls = (self.slopes[:, 0] > 0) | (self.intercepts[:, 0] < 0)
        return falls & ((self.slopes[rows, last] > 0) | (self.intercepts[rows, last] > 0))

    def affine(self, signs: ArrayLike, targets: ArrayLike) -> Pieces:
        """The pieces of ``r(signs * u - targets)``, each sign -1 or +1."""
        signs, targets = np.broadcast_arrays(np.atleast_1d(signs), targets)
        old = self._spread(max(len(self.breaks), len(signs)))
        signs, targets = signs[:, None], targets[:, None]
        # A turned row runs backward as far as its finite breaks go; the rest stays behind them.
        finite = np.isfinite(old.breaks).sum(axis=1, keepdims=True)
        piece = np.arange(old.slopes.shape[1])
        order = np.where((signs < 0) & (piece <= finite), finite - piece, piece)
        piece = piece[:-1]
        breaks_order = np.where((signs < 0) & (piece < finite), finite - 1 - piece, piece)
        breaks = np.take_along_axis(signs * (old.breaks + targets), breaks_order, axis=1)
        return Pieces(
            np.where(np.isfinite(breaks), breaks, np.inf),
            np.take_along_axis(signs * (old.intercepts - old.slopes * targets), order, axis=1),
            np.take_along_axis(old.slopes, order, axis=1),
        )

    def envelope(self, width: float) -> Pieces:
        """The pieces of the Moreau envelope: every jump becomes a slope of ``1 / width``."""
        at, before, behind = self._at_breaks()
        ends = np.stack([self.breaks + width * before, self.breaks + width * behind], axis=2)
        intercepts = np.empty((len(at), 2 * at.shape[1] + 1))
        slopes = np.empty_like(intercepts)
        intercepts[:, ::2] = self.intercepts / (1.0 + width * self.slopes)
        slopes[:, ::2] = self.slopes / (1.0 + width * self.slopes)
        intercepts[:, 1::2] = -at / width
        slopes[:, 1::2] = 1.0 / width
        # Where nothing jumps the two ends are equal but for rounding.
        breaks = np.maximum.accumulate(ends.reshape(len(at), -1), axis=1)
        return Pieces(breaks, intercepts, slopes)

    def _look_up(self, table: np.ndarray, u: ArrayLike) -> np.ndarray:
        alike = len(self.breaks) == 1
        breaks = self.breaks[0] if alike else self.breaks
        piece = (np.asarray(u)[..., None] > breaks).sum(axis=-1)
        return table[0 if alike else np.arange(len(table)), piece]

    def _spread(self, size: int) -> Pieces:
        rows = len(self.breaks)
        if rows not in (1, size):
            raise ValueError(f"pieces of {size} elements must have 1 or {size} rows, got {rows}")
        parts = (self.breaks, self.intercepts, self.slopes)
        return Pieces(*(np.broadcast_to(part, (size, part.shape[1])) for part in parts))

    def _pad(self, n_breaks: int) -> Pieces:
        more = ((0, 0), (0, n_breaks - self.breaks.shape[1]))
        return Pieces(
            np.pad(self.breaks, more, constant_values=np.inf),
            np.pad(self.intercepts, more, mode="edge"),
            np.pad(self.slopes, more, mode="edge"),
        )


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

    >>> segments = Pieces.row([1.0], [-1.0, 0.0], [0.0, 0.0]).segments(np.ones(1))
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
