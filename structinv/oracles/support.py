"""What oracles answer: members of S(x), and how far others may be from these."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from ..matrices import Matrix, row_dots


@dataclass(frozen=True)
class Support:
    """An oracle's answer: for each row a member of S(x), and how far the answer can be from the best.

    Parameters
    ----------
    points : (n, d) array or CSR matrix
        ``points[i]`` lies in S(x_i).
    upper : (n,) array, optional
        Bound on the maximum of ``<v, z>``, or of ``<v, z> + cost * rho(z)`` where `rho` is given;
        infinity where nothing is known, None where `points` attain it.
    rho : (n,) array, optional
        The grade rho(x_i, points[i]) in [0, 1]; None where every change counts in full.
    """

    points: Matrix
    upper: np.ndarray | None = None
    rho: np.ndarray | None = None

    def heights(
        self, V: np.ndarray, assign: np.ndarray, constants: np.ndarray, worth: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What labels win and cost at the points, and at most.

        Parameters
        ----------
        V : (p, d) array
        assign : (n,) array of int
            The question: row i faces ``V[assign[i]]``.
        constants : (n,) array
            What a label wins at every point.
        worth : (n,) array
            What it costs where a change counts in full.

        Returns
        -------
        gains, costs, upper : (n,) arrays
            `upper` bounds the sum of both, and is no less than it.
        """
        gains = row_dots(self.points, V, assign) + constants
        costs = worth if self.rho is None else worth * self.rho
        upper = gains + costs
        if self.upper is not None:
            # The bound of an answer with grades has costs in it.
            ungraded = worth if self.rho is None else 0.0
            upper = np.maximum(upper, self.upper + ungraded + constants)
        return gains, costs, upper


@dataclass(frozen=True)
class Cover:
    """Finitely many members of each S(x), and how far any other member is from the nearest of them.

    Parameters
    ----------
    points : (n, s, d) array
        The identity first.
    mesh : (n,) array
        A bound on that Euclidean distance: 0 where the members are all there are, infinity where
        nothing is known.
    """

    points: np.ndarray
    mesh: np.ndarray


@dataclass(frozen=True)
class Additions:
    """What may be added to rows, whose own words may change by factors, too, and in no other way.

    Parameters
    ----------
    rows : (n, d) CSR matrix
        The rows, canonical and without zeros.
    adds : (n,) array of bool
        Those that may be changed.
    max_changes : int
        How many words of each, in all.
    value : (d,) array
        What may be added to a word, 0 for nothing.
    present : bool
        Whether it may be added to words that are there.
    low, high : float, default=1.0
        Factors of words that are there.
    """

    rows: sp.csr_matrix
    adds: np.ndarray
    max_changes: int
    value: np.ndarray
    present: bool
    low: float = 1.0
    high: float = 1.0

    @property
    def multiplies(self) -> bool:
        """Whether words that are there may change by a factor."""
        return self.low < self.high
