"""Tables of the pieces of piecewise linear derivatives of losses."""

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
        at = np.where(np.isfinite(self.breaks), self.breaks, 0.0)
        before = self.intercepts[:, :-1] + self.slopes[:, :-1] * at
        after = self.intercepts[:, 1:] + self.slopes[:, 1:] * at
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
