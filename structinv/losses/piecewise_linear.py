"""Piecewise linear derivatives of losses: tables of pieces, and sums of segments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike


@dataclass(frozen=True)
class Pieces:
    """Derivatives of n losses, linear between breaks.

    Between ``breaks[:, k - 1]`` and ``breaks[:, k]`` each is ``intercepts[:, k] + slopes[:, k] * u``.

    Parameters
    ----------
    breaks : ndarray of shape (n, m)
        Limits of the pieces, nondecreasing along a row. A piece between equal breaks has no length. Rows
        with fewer breaks end in infinities; the pieces after them are ignored. n is 1 if the loss is
        the same for every element.
    intercepts : ndarray of shape (n, m + 1)
        Intercept of each piece.
    slopes : ndarray of shape (n, m + 1)
        Slope of each piece.

    See Also
    --------
    ScalarLoss : Its method `pieces` returns such a table.

    Examples
    --------
    The derivative of ``|u|`` jumps from -1 to 1.

    >>> import numpy as np
    >>> from structinv.losses import Pieces
    >>> pieces = Pieces.row([0.0], [-1.0, 1.0], [0.0, 0.0])
    >>> pieces.derivative(np.array([-2.0, 3.0]))
    array([-1.,  1.])
    """

    breaks: np.ndarray
    intercepts: np.ndarray
    slopes: np.ndarray

    @classmethod
    def row(cls, breaks: ArrayLike, intercepts: ArrayLike, slopes: ArrayLike) -> Pieces:
        """Return the pieces of a loss that is the same for every element.

        Parameters
        ----------
        breaks : array-like of shape (m,)
            Limits of the pieces, increasing.
        intercepts, slopes : array-like of shape (m + 1,)
            Intercept and slope of the derivative on each piece.

        Returns
        -------
        Pieces
            A table with one row.
        """
        lists = (breaks, intercepts, slopes)
        return cls(*(np.asarray(numbers, dtype=float)[None, :] for numbers in lists))

    @classmethod
    def join(cls, parts: Sequence[tuple[Pieces, int]]) -> Pieces:
        """Concatenate pieces; a single row is repeated for all of its elements.

        Parameters
        ----------
        parts : list of (Pieces, int)
            Pieces and the number of their elements.

        Examples
        --------
        >>> from structinv.losses import Pieces
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
        """Return the rows of some elements; a single row stands for all elements.

        Parameters
        ----------
        indices : slice or ndarray
            Elements, as an index of NumPy.

        Returns
        -------
        Pieces
            The chosen rows.
        """
        if len(self.breaks) == 1:
            return self
        rows = np.arange(len(self.breaks))[indices]
        return Pieces(self.breaks[rows], self.intercepts[rows], self.slopes[rows])

    def derivative(self, u: ArrayLike) -> np.ndarray:
        """Return the derivatives; at a jump, the left derivatives.

        Parameters
        ----------
        u : array-like of shape (..., n)
            Arguments.

        Returns
        -------
        ndarray of shape (..., n)
            Derivatives.
        """
        return self._look_up(self.intercepts, u) + self._look_up(self.slopes, u) * u

    def curvature(self, u: ArrayLike) -> np.ndarray:
        """Return the slopes of the derivatives.

        Parameters
        ----------
        u : array-like of shape (..., n)
            Arguments.

        Returns
        -------
        ndarray of shape (..., n)
            Second derivatives.
        """
        return self._look_up(self.slopes, u)

    def kinks(self) -> np.ndarray:
        """Return True for each derivative with a jump above rounding errors.

        Returns
        -------
        ndarray of bool of shape (n,)
            One entry per loss.
        """
        _, before, after = self._at_breaks()
        return np.any(self._jumps(before, after), axis=1)

    def _at_breaks(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the breaks, and the derivatives before and after each, (n, m).

        Infinite breaks are replaced by 0.
        """
        at = np.where(np.isfinite(self.breaks), self.breaks, 0.0)
        before = self.intercepts[:, :-1] + self.slopes[:, :-1] * at
        return at, before, self.intercepts[:, 1:] + self.slopes[:, 1:] * at

    def _jumps(self, before: np.ndarray, after: np.ndarray) -> np.ndarray:
        """Return True for each break with a jump above rounding errors, (n, m)."""
        rounding = 1e-12 * (np.abs(before) + np.abs(after))
        return np.isfinite(self.breaks) & (after - before > rounding)

    def segments(self, weights: np.ndarray) -> Segments:
        """Return the segments of the weighted derivatives with positive weights.

        Parameters
        ----------
        weights : ndarray of shape (size,)
            One weight per row, or any number of weights if there is a single row.

        Returns
        -------
        Segments
            The segments.

        Examples
        --------
        >>> import numpy as np
        >>> from structinv.losses import Pieces
        >>> Pieces.row([], [0.0], [2.0]).segments(np.array([1.0, 2.0])).bend
        array([0.5 , 0.25])
        """
        spread = self._spread(len(weights))._pad(max(1, self.breaks.shape[1]))
        at, before, after = spread._at_breaks()
        last = np.isfinite(spread.breaks).sum(axis=1, keepdims=True)
        # Columns: the first piece, the jump at its end, the next piece, and so on.
        shape = len(weights), 2 * at.shape[1] + 1
        is_segment = np.zeros(shape, dtype=bool)
        start, bend, low, high = (np.zeros(shape) for _ in range(4))
        is_segment[:, 1::2], high[:, 1::2] = spread._jumps(before, after), after - before
        start[:, 1::2] = start[:, 2::2] = at
        start[:, 0] = at[:, 0]
        low[:, 0] = -np.inf
        number = np.arange(at.shape[1] + 1)
        is_sloped = (spread.slopes > 0) & (number <= last)
        bend[:, ::2] = 1.0 / np.where(is_sloped, spread.slopes, 1.0)
        high[:, 2:-1:2] = before[:, 1:] - after[:, :-1]
        high[:, ::2] = np.where(number == last, np.inf, high[:, ::2])
        is_segment[:, ::2] = is_sloped & ((high[:, ::2] > 0) | (number == 0))
        is_segment &= weights[:, None] > 0
        owners, places = np.nonzero(is_segment)
        weight, where = weights[owners], (owners, places)
        return Segments(
            owners,
            start[where],
            bend[where] / weight,
            low[where] * weight,
            high[where] * weight,
            weights * before[:, 0],
        )

    def bounds_its_minima(self) -> np.ndarray:
        """Return True for each loss that increases in both directions.

        Losses of a margin increase in one direction only.

        Returns
        -------
        ndarray of bool of shape (n,)
            One entry per loss.
        """
        last = np.count_nonzero(np.isfinite(self.breaks), axis=1)
        rows = np.arange(len(last))
        falls = (self.slopes[:, 0] > 0) | (self.intercepts[:, 0] < 0)
        return falls & ((self.slopes[rows, last] > 0) | (self.intercepts[rows, last] > 0))

    def affine(self, signs: ArrayLike, targets: ArrayLike) -> Pieces:
        """Return the pieces of ``r(signs * u - targets)``.

        Parameters
        ----------
        signs : array-like of shape (n,) or float
            -1 or +1 for each element.
        targets : array-like of shape (n,) or float
            Shift of each element.

        Returns
        -------
        Pieces
            Pieces of the shifted losses.
        """
        signs, targets = np.broadcast_arrays(np.atleast_1d(signs), targets)
        old = self._spread(max(len(self.breaks), len(signs)))
        signs, targets = signs[:, None], targets[:, None]
        # A negative sign reverses the finite breaks of a row; infinite ones stay at the end.
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
        """Return the pieces of the Moreau envelope: jumps become slopes of ``1 / width``.

        Parameters
        ----------
        width : float
            Width of the envelope (> 0).

        Returns
        -------
        Pieces
            Pieces of the smooth losses.
        """
        at, before, after = self._at_breaks()
        ends = np.stack([self.breaks + width * before, self.breaks + width * after], axis=2)
        intercepts = np.empty((len(at), 2 * at.shape[1] + 1))
        slopes = np.empty_like(intercepts)
        intercepts[:, ::2] = self.intercepts / (1.0 + width * self.slopes)
        slopes[:, ::2] = self.slopes / (1.0 + width * self.slopes)
        intercepts[:, 1::2] = -at / width
        slopes[:, 1::2] = 1.0 / width
        # Without a jump, both ends are equal up to rounding errors.
        breaks = np.maximum.accumulate(ends.reshape(len(at), -1), axis=1)
        return Pieces(breaks, intercepts, slopes)

    def _look_up(self, table: np.ndarray, u: ArrayLike) -> np.ndarray:
        is_shared = len(self.breaks) == 1
        breaks = self.breaks[0] if is_shared else self.breaks
        piece = (np.asarray(u)[..., None] > breaks).sum(axis=-1)
        return table[0 if is_shared else np.arange(len(table)), piece]

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
    """Derivatives of n losses as sums of segments with limits.

    The derivative of loss i is ``base_i`` plus the sum of t_k over its segments k, with ``low_k <= t_k
    <= high_k``. At u, a segment solves ``u = start_k + bend_k t_k``, clipped to its limits. A jump has
    the bend 0; a slope has its inverse as bend. The conjugate at the sum is the minimum of ``sum_k
    start_k t_k + bend_k t_k^2 / 2``, up to a constant.

    - `owners` (k,): loss of each segment, nondecreasing
    - `start, bend, low, high` (k,): parameters of each segment
    - `base` (n,): constant of each loss
    """

    owners: np.ndarray
    start: np.ndarray
    bend: np.ndarray
    low: np.ndarray
    high: np.ndarray
    base: np.ndarray

    def total(self, values: np.ndarray) -> np.ndarray:
        """Return the sum over the segments of each loss, (n,)."""
        return np.bincount(self.owners, values, len(self.base))
