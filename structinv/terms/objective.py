"""Objective: half the squared norm plus a sum of terms, the base class of terms."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from ..losses import ScalarLoss
from ..spaces.base import Element, Space
from ..utils.matrices import ALL_ROWS, Rows
from .planes import Planes, sum_of_planes

# Called between portions of work; returns True if the rest must be skipped.
OutOfTime: TypeAlias = Callable[[], bool]


def never() -> bool:
    """Return False, for runs without a time limit."""
    return False


class Term(ABC):
    """Base class of terms: sums of weighted convex blocks ``c_b phi_b(f)``.

    Solvers minimize a sum of terms by their cutting planes.

    Shapes: `weights` (n_blocks,), `lower_bounds` (n_blocks,).
    """

    weights: np.ndarray
    lower_bounds: np.ndarray
    # Whether the term has `planes`.
    has_planes: bool = True
    # Whether dual states store one plane for the sum of all blocks.
    planes_are_sums: bool = False

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return len(self.weights)

    @property
    def relaxed(self) -> bool:
        """True for a relaxed loss, an upper bound of the loss itself; False by default."""
        return False

    @property
    def dtype(self) -> np.dtype:
        """Precision of the data; double by default."""
        return np.dtype(np.float64)

    @abstractmethod
    def validate(self, space: Space) -> None:
        """Raise ValueError if the term does not support elements of the space.

        Parameters
        ----------
        space : Space
            Space of the functions f.
        """

    @abstractmethod
    def planes(self, space: Space, f: Element, blocks: Rows = ALL_ROWS) -> Planes:
        """Return a plane per block that is tight at `f`.

        Parameters
        ----------
        space : Space
            Space of `f`.
        f : element
            Function at which the planes are computed.
        blocks : slice or array of int, default=all
            Numbers of the blocks.

        Returns
        -------
        Planes
            One plane per block.
        """

    @abstractmethod
    def values(self, space: Space, f: Element) -> tuple[np.ndarray, np.ndarray]:
        """Return the value of each block at `f`.

        Parameters
        ----------
        space : Space
            Space of `f`.
        f : element
            Function at which the blocks are evaluated.

        Returns
        -------
        upper : ndarray of shape (n_blocks,)
            Upper bounds of the values.
        attained : ndarray of shape (n_blocks,)
            Values for the perturbed samples that the oracles found.
        """

    def portions(self) -> list[Rows]:
        """Return all blocks in portions whose planes need little memory.

        Returns
        -------
        list of slice or array of int
            Numbers of the blocks of each portion.
        """
        return [ALL_ROWS]

    def blocks_at_once(self, space: Space) -> int:
        """Return the number of blocks between two checks of the time limit.

        Parameters
        ----------
        space : Space
            Space of the functions f.

        Returns
        -------
        int
            Number of blocks whose planes are computed together (>= 1).
        """
        return max(1, self.n_blocks)

    def planes_of_a_block(self, space: Space) -> int:
        """Return the number of planes per block that a dual state stores.

        Beyond this number, the planes with the smallest dual variables are averaged.

        Parameters
        ----------
        space : Space
            Space of the functions f.

        Returns
        -------
        int
            Maximum number of planes per block.
        """
        return space.planes_of_a_block

    def total(self, space: Space, f: Element) -> tuple[float, float]:
        """Return the weighted sums of `values`.

        Parameters
        ----------
        space : Space
            Space of `f`.
        f : element
            Function at which the term is evaluated.

        Returns
        -------
        upper : float
            Upper bound of the value.
        attained : float
            Value for the perturbed samples that the oracles found.
        """
        above, reached = self.values(space, f)
        # The bound of a block of weight zero may be infinite.
        counted = self.weights > 0
        return float(self.weights[counted] @ above[counted]), float(self.weights @ reached)

    def plane_of_sum(self, space: Space, f: Element) -> Planes:
        """Return the plane at `f` of the weighted sum of all blocks.

        Only one portion of the blocks is in memory at a time.

        Parameters
        ----------
        space : Space
            Space of `f`.
        f : element
            Function at which the plane is computed.

        Returns
        -------
        Planes
            A single plane.
        """
        portions = self.portions()
        parts = ((self.planes(space, f, blocks), self.weights[blocks]) for blocks in portions)
        return sum_of_planes(space, parts)

    @abstractmethod
    def rows_of(self, blocks: Rows) -> int:
        """Return the number of rows for which oracles are called to evaluate some blocks.

        Parameters
        ----------
        blocks : slice or array of int
            Numbers of the blocks.

        Returns
        -------
        int
            Number of rows.
        """

    def coordinates(self) -> Coordinates | None:
        """Return the term as a sum of scalar losses of functionals.

        Returns
        -------
        Coordinates or None
            Functionals with their losses. None, the default, if the term has no such form.
        """
        return None


@dataclass(frozen=True)
class Coordinates:
    """Term ``sum_i weights_i r_i(L_places_i f)``, for solvers for coefficients.

    - `places`: numbers of functionals of a `RepresenterSpace`, where each functional has one number per
      output
    - `loss`: losses r_i
    - `weights` (n,): weight of each loss
    """

    places: slice
    loss: ScalarLoss
    weights: np.ndarray


def check_weights(weights: ArrayLike, size: int) -> np.ndarray:
    """Return weights as an array; raise ValueError unless finite and non-negative.

    Shapes: `weights` (size,).
    """
    array = np.asarray(weights, dtype=np.float64)
    if array.ndim == 0:
        array = np.full(size, float(array))
    if array.shape != (size,):
        raise ValueError(f"weights must have shape ({size},), got {array.shape}")
    if not np.all(np.isfinite(array)) or np.any(array < 0):
        raise ValueError("weights must be finite and non-negative")
    return array


def join(space: Space, parts: Sequence[Planes], places: np.ndarray | None = None) -> Planes:
    """Concatenate planes; with `places`, plane i of the parts goes to this place."""
    if len(parts) == 1:
        return parts[0]
    joined = (
        space.stack([part.normals for part in parts]),
        np.concatenate([part.offsets for part in parts]),
        np.concatenate([part.upper for part in parts]),
        np.concatenate([part.plane_values for part in parts]),
    )
    if places is None:
        return Planes(*joined)
    order = np.argsort(places)
    return Planes(*(each[order] for each in joined))


@dataclass(frozen=True)
class Value:
    """Value of the objective.

    - `upper`: upper bound; infinity if an oracle has none
    - `attained`: value for the perturbed samples that the oracles found; equal to `upper` for exact
      oracles
    """

    upper: float
    attained: float


class Objective:
    """Objective ``F(f) = 1/2 |f|^2 + sum of terms`` for solvers.

    Parameters
    ----------
    space : Space
        Space of the functions f.
    terms : sequence of Term
        Terms. The blocks of all terms are numbered consecutively.

    Attributes
    ----------
    weights, lower_bounds : ndarray of shape (n_blocks,)
        Weight and lower bound of each block.
    rows_of_a_pass : int
        Number of rows for which oracles are called in one pass over all terms.
    oracle_calls : int
        Number of rows for which oracles have been called so far.
    out_of_time : callable
        Function that returns True if the current step of a solver must end. `solve` sets it for a run;
        see `Solver.step`.

    See Also
    --------
    structinv.solvers.solve : Minimize an objective.
    WorstCase : Worst-case loss of samples.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.oracles import Box
    >>> from structinv.spaces import ExplicitSpace
    >>> from structinv.structures import Binary
    >>> from structinv.terms import Objective, WorstCase
    >>> term = WorstCase(np.array([[2.0], [-1.0]]), np.array([1, 0]), Box(0.5), Binary())
    >>> Objective(ExplicitSpace(1), [term]).value(np.zeros(1))
    Value(upper=2.0, attained=2.0)
    """

    def __init__(self, space: Space, terms: Sequence[Term]) -> None:
        if len(terms) == 0:
            raise ValueError("terms must not be empty")
        for term in terms:
            term.validate(space)
        self.space = space
        self.terms = list(terms)
        self.weights = _joined([term.weights for term in terms])
        self.lower_bounds = _joined([term.lower_bounds for term in terms])
        self.first = np.cumsum([0, *(term.n_blocks for term in terms)])
        self.rows_of_a_pass = sum(term.rows_of(ALL_ROWS) for term in terms)
        self.oracle_calls = 0
        self.out_of_time: OutOfTime = never

    @property
    def n_blocks(self) -> int:
        """Number of blocks of all terms."""
        return len(self.weights)

    @property
    def relaxed(self) -> bool:
        """True if a term has a relaxed loss, an upper bound of the loss itself."""
        return any(term.relaxed for term in self.terms)

    @property
    def unit(self) -> float:
        """Machine epsilon of the least precise term."""
        return max((float(np.finfo(term.dtype).eps) for term in self.terms), default=0.0)

    def planes(self, f: Element, blocks: np.ndarray | None = None) -> Planes:
        """Return a plane per block that is tight at `f`.

        Parameters
        ----------
        f : element
            Function at which the planes are computed.
        blocks : array of int, optional
            Numbers of the blocks; all by default.

        Returns
        -------
        Planes
            One plane per block, in the order of `blocks`.
        """
        if blocks is None:
            self.oracle_calls += self.rows_of_a_pass
            return join(self.space, [term.planes(self.space, f) for term in self.terms])
        owner = np.searchsorted(self.first, blocks, side="right") - 1
        parts, places = [], []
        for number, term in enumerate(self.terms):
            place = np.flatnonzero(owner == number)
            if len(place):
                local = blocks[place] - self.first[number]
                self.oracle_calls += term.rows_of(local)
                parts.append(term.planes(self.space, f, local))
                places.append(place)
        return join(self.space, parts, np.concatenate(places))

    def plane_of_sum(self, f: Element) -> Planes:
        """Return the plane at `f` of the weighted sum of all blocks.

        Only one portion of the blocks is in memory at a time.

        Parameters
        ----------
        f : element
            Function at which the plane is computed.

        Returns
        -------
        Planes
            A single plane.
        """
        self.oracle_calls += self.rows_of_a_pass
        one = np.ones(1)
        parts = ((term.plane_of_sum(self.space, f), one) for term in self.terms)
        return sum_of_planes(self.space, parts)

    @cached_property
    def at_zero(self) -> Value:
        """Objective at the zero function."""
        return self.value(self.space.zeros())

    def value(self, f: Element) -> Value:
        """Return the objective at `f`.

        Parameters
        ----------
        f : element
            Function at which the objective is evaluated.

        Returns
        -------
        Value
            Upper bound and attained value.
        """
        upper = attained = 0.5 * self.space.dot(f, f)
        self.oracle_calls += self.rows_of_a_pass
        for term in self.terms:
            above, reached = term.total(self.space, f)
            upper += above
            attained += reached
        return Value(float(upper), float(attained))


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    """Concatenate arrays; return a single array without a copy."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
