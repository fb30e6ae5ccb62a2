"""Dual coordinate ascent: one slope of a functional after the other, each step exact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..dual import Case, DualState, chosen
from ..dual.base import OutOfTime, never
from ..spaces import RepresenterSpace
from ..spaces.representer_space import RepresenterExpansion
from ..terms import Objective
from ..terms.base import Coordinates
from ..terms.planes import PlaneSet
from .base import Bounds, check_planes
from .coefficients import CoefficientProblem, planes_of_slopes, slopes_of_planes
from .coordinate_steps import coordinate_sweeps
from .frank_wolfe import FrankWolfe, term_states
from .method import Method

SELECTIONS = ("random", "steepest")
# Sweeps over the functionals between two checks.
SWEEPS = 20
# Functionals that join the working set in a sweep where not all can be held.
NEWCOMERS = 500
# Between two looks at the clock so many entries of the Gram matrix are read.
ENTRIES_AT_ONCE = 3e8
# How hard the augmented dual holds on to the equations of the free part, in units of the Gram matrix.
GRIP = 10.0


@dataclass
class _WorkingSet:
    """Functionals of one output that are worked on, and their Gram matrix."""

    chosen: np.ndarray
    gram: np.ndarray


class CoordinateState(DualState):
    """One slope for each functional of several penalties whose losses have piecewise linear derivatives.

    The Gram matrix is kept between the functionals that are worked on: all where there is room, else
    those with a slope and, in every sweep, those that hold most of the gap.

    A free constant makes the dual an equation, ``sum of coefficients = 0``, which the method of
    multipliers holds: its penalty joins the Gram matrix, its multiplier is the constant.

    Parameters
    ----------
    objective : Objective
    terms : sequence of int
        The objective's penalties that it has.
    rng : numpy.random.Generator
    selection : {"random", "steepest"}
    """

    checks_planes = True

    def __init__(
        self,
        objective: Objective,
        terms: Sequence[int],
        rng: np.random.Generator,
        selection: str,
    ) -> None:
        space: Any = objective.space
        self.space: RepresenterSpace = space
        self.penalties: list[Any] = [objective.terms[number] for number in terms]
        found: list[Any] = [penalty.coordinates() for penalty in self.penalties]
        problem = self.problem = CoefficientProblem(space, found)
        self.rng = rng
        self.selection = selection
        pieces = problem.loss.pieces()
        assert pieces is not None
        self.tables = [
            np.ascontiguousarray(np.broadcast_to(part, (problem.size, part.shape[1])))
            for part in (pieces.breaks, pieces.intercepts, pieces.slopes)
        ]
        # The slope nearest to zero that the conjugate has.
        self.coefficients = -problem.weights * np.clip(np.zeros(problem.size), *problem.loss.domain())
        self.free = np.zeros(problem.basis.shape[1])
        if space.system.fits:
            self.held = [_WorkingSet(mine, gram) for mine, gram in problem.by_output]
        else:
            none = np.zeros(0, dtype=np.int64)
            self.held = [_WorkingSet(none, np.zeros((0, 0))) for _ in range(space.n_outputs)]

    @property
    def slopes(self) -> np.ndarray:
        """The p_i."""
        return -self.coefficients / np.where(self.problem.weights > 0, self.problem.weights, 1.0)

    @property
    def offset(self) -> float:
        problem = self.problem
        return -float(problem.weights @ problem.loss.conjugate(problem.feasible(self.slopes)))

    def sweep(self, f: RepresenterExpansion, out_of_time: OutOfTime = never) -> tuple[float, int]:
        problem = self.problem
        u = f.functionals().ravel()[problem.places]
        gaps = self._gaps(u)
        change, step = np.zeros(problem.size), np.zeros(len(self.free))
        for output, held in enumerate(self.held):
            if not self.space.system.fits:
                self._grow(held, np.where(problem.places % len(self.held) == output, gaps, 0.0))
            border = self._border(held)
            moved = self._swept(held, border, u, gaps, out_of_time)
            change[held.chosen] = moved - self.coefficients[held.chosen]
        self.coefficients = self.coefficients + change
        if len(self.free):
            # The multiplier's step, which is the constant's.
            step = self._grip * (problem.basis.T @ self.coefficients)
            self.free = self.free + step
        f += problem.function(change, step)
        return float(gaps.sum()), 0

    @property
    def _grip(self) -> float:
        diagonal = np.diagonal(self.held[0].gram)
        return GRIP * float(np.mean(diagonal)) if len(diagonal) else 0.0

    def _border(self, held: _WorkingSet) -> np.ndarray:
        """What the augmented dual of a free constant adds to the Gram matrix, as a vector."""
        if len(self.free) == 0:
            return np.zeros(0)
        return np.sqrt(self._grip) * self.problem.basis[held.chosen, 0]

    def _swept(
        self,
        held: _WorkingSet,
        border: np.ndarray,
        u: np.ndarray,
        gaps: np.ndarray,
        out_of_time: OutOfTime,
    ) -> np.ndarray:
        """The coefficients of the functionals held after some sweeps."""
        problem, chosen = self.problem, held.chosen
        moved, inner = self.coefficients[chosen], u[chosen]
        if len(border):
            inner = inner + np.sqrt(self._grip) * border * (problem.basis[:, 0] @ self.coefficients)
        breaks, intercepts, slopes = (np.ascontiguousarray(table[chosen]) for table in self.tables)
        weights = problem.weights[chosen]
        order = self._order(gaps[chosen], weights)
        at_once = max(1, int(ENTRIES_AT_ONCE // max(1, len(chosen))))
        parts = [order[first : first + at_once] for first in range(0, len(order), at_once)]
        # One portion is swept again and again without a look at the clock.
        together = SWEEPS if len(parts) == 1 and SWEEPS * len(order) <= at_once else 1
        for _ in range(0, SWEEPS, together):
            for part in parts:
                if out_of_time():
                    return moved
                coordinate_sweeps(
                    held.gram, border, inner, moved, weights, breaks, intercepts, slopes, part, together
                )
        return moved

    def _gaps(self, u: np.ndarray) -> np.ndarray:
        """What each functional has of the gap."""
        problem, slopes = self.problem, self.slopes
        parts = problem.loss.value(u) + problem.loss.conjugate(slopes) - slopes * u
        return problem.weights * np.maximum(parts, 0.0)

    def _grow(self, held: _WorkingSet, gaps: np.ndarray) -> None:
        """Where not all functionals can be held, take up those that have most of the gap."""
        kept = np.flatnonzero(self.coefficients[held.chosen])
        room = int(np.sqrt(self.space.system.cache_bytes / (16.0 * len(self.held))))
        outside = gaps.copy()
        outside[held.chosen[kept]] = 0.0
        most = np.argsort(outside)[::-1][: max(0, min(NEWCOMERS, room - len(kept)))]
        new = np.sort(most[outside[most] > 0])
        if len(kept) >= room and len(new) == 0:
            raise MemoryError(
                f"dual coordinates need the Gram matrix of more than {room} functionals: raise "
                "cache_mb, or take method='newton-cg'"
            )
        old, chosen = len(kept), np.concatenate([held.chosen[kept], new])
        table = np.empty((len(chosen), len(chosen)))
        table[:old, :old] = held.gram[np.ix_(kept, kept)]
        cross = self.problem.block(new, chosen)
        table[old:] = cross
        table[:, old:] = cross.T
        held.chosen, held.gram = chosen, table

    def _order(self, gaps: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The coordinates to visit: all at random, or those that have most of the gap."""
        counted = np.flatnonzero(weights > 0)
        if self.selection == "random":
            return self.rng.permutation(counted)
        steepest = np.argsort(-gaps[counted], kind="stable")[: max(1, len(counted) // 4)]
        return counted[steepest]

    def value(self, f: RepresenterExpansion) -> tuple[float, float]:
        value = self.problem.losses(f.functionals().ravel()[self.problem.places])
        return value, value

    def combination(self) -> RepresenterExpansion:
        problem = self.problem
        return problem.function(-problem.weights * problem.feasible(self.slopes), self.free)

    def planes(self) -> PlaneSet:
        slopes = self.problem.by_term(self.problem.feasible(self.slopes))
        return planes_of_slopes(self.space, self.penalties, range(len(slopes)), slopes)

    def restore(self, planes: PlaneSet) -> None:
        """See `DualState.restore`; terms whose slopes are not known, or not theirs, start anew."""
        known = slopes_of_planes(self.penalties, range(len(self.penalties)), planes)
        parts = zip(known, self.problem.by_term(self.slopes), strict=True)
        slopes = np.concatenate([old if own is None else own for own, old in parts])
        self.coefficients = -self.problem.weights * slopes


class DualCoordinates(Method):
    """`FrankWolfe` with one state for all penalties whose losses have piecewise linear derivatives.

    Parameters
    ----------
    objective, rng, planes
        See `Method`.
    plane_tol : float, default=0.0
        See `FrankWolfe`.
    selection : {"random", "steepest"}, default="random"
        The order of coordinates.
    """

    name = "Representer(method='dual-cd')"

    def __init__(
        self,
        objective: Objective,
        rng: np.random.Generator,
        planes: PlaneSet | None = None,
        plane_tol: float = 0.0,
        selection: str = "random",
    ) -> None:
        joined, others = _split(objective)
        parts, blocks = term_states(objective, others, rng, plane_tol)
        if joined:
            parts = [CoordinateState(objective, joined, rng, selection), *parts]
            blocks = [objective.first[joined], *blocks]
        self.solver = FrankWolfe(plane_tol)
        self.state = self.solver.begin(objective, parts, blocks, planes)

    @classmethod
    def check(cls, objective: Objective) -> None:
        check_planes(cls.name, objective, free=True)
        if objective.space.n_free:
            _check_free(objective)

    @classmethod
    def checks_planes(cls, objective: Objective, plane_tol: float = 0.0) -> bool:
        """See `Solver.checks_planes`; slopes outside a conjugate's domain are dropped."""
        others = (objective.terms[number] for number in _split(objective)[1])
        return all(chosen(Case(term, objective.space, plane_tol)).checks_planes for term in others)

    def step(self, objective: Objective) -> float:
        return self.solver.step(objective, self.state)

    def finished(self, objective: Objective) -> bool:
        return self.solver.finished(objective, self.state)

    def bounds(self, objective: Objective) -> Bounds:
        return self.solver.bounds(objective, self.state)

    def planes(self, objective: Objective) -> PlaneSet:
        return self.solver.planes(objective, self.state)


def _split(objective: Objective) -> tuple[list[int], list[int]]:
    """The numbers of the terms that share a state, and those of the others."""
    shares = [_has_pieces(term.coordinates()) for term in objective.terms]
    return [i for i, own in enumerate(shares) if own], [i for i, own in enumerate(shares) if not own]


def _has_pieces(coordinates: Coordinates | None) -> bool:
    return coordinates is not None and coordinates.loss.pieces() is not None


def _check_free(objective: Objective) -> None:
    """Refuse by name what the method of multipliers does not handle here."""
    name = DualCoordinates.name
    if objective.space.n_free > 1 or objective.space.n_outputs > 1:
        raise ValueError(
            f"{name} takes a free constant of one output, got n_free={objective.space.n_free} and "
            f"n_outputs={objective.space.n_outputs}; method='newton-cg' takes more"
        )
    for term in objective.terms:
        coordinates = term.coordinates()
        if coordinates is None:
            raise ValueError(f"{name} takes no free constant beside a {type(term).__name__} term")
        if not _has_pieces(coordinates):
            raise ValueError(
                f"{name} takes a free constant only with losses whose derivative is piecewise linear; "
                "method='newton-cg' takes smooth ones too"
            )
