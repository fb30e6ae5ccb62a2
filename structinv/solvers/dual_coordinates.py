"""Dual coordinate ascent: one slope of a functional after the other, each step exact."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..dual_states import DualState
from ..objective import Coordinates, Objective, Penalty
from ..planes import PlaneSet
from ..spaces import RepresenterExpansion, RepresenterSpace
from .base import check_epsilon, check_planes
from .coefficients import CoefficientProblem
from .coordinate_steps import coordinate_sweeps
from .frank_wolfe import FrankWolfe

SWEEPS = 20
# Functionals that join the working set in a sweep where not all can be held.
NEWCOMERS = 500
# How hard the augmented dual holds on to the equations of the free part, in units of the Gram matrix.
GRIP = 10.0


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
        slopes = np.concatenate([each.loss.derivative(np.zeros(len(each.weights))) for each in found])
        self.coefficients = -problem.weights * np.clip(0.0, *_ordered(problem, slopes))
        self.free = np.zeros(problem.basis.shape[1])
        self.working = np.zeros(0, dtype=np.int64)
        self.gram = np.zeros((0, 0))
        if space.system.fits:
            self.working = np.flatnonzero(problem.weights > 0)
            gram = problem.gram()
            whole = len(self.working) == problem.size
            self.gram = gram if whole else gram[np.ix_(self.working, self.working)]

    @property
    def slopes(self) -> np.ndarray:
        """The p_i."""
        return -self.coefficients / np.where(self.problem.weights > 0, self.problem.weights, 1.0)

    @property
    def offset(self) -> float:
        """See `DualState.offset`."""
        problem = self.problem
        return -float(problem.weights @ problem.loss.conjugate(problem.feasible(self.slopes)))

    def sweep(self, f: RepresenterExpansion) -> tuple[float, int]:
        """See `DualState.sweep`."""
        problem = self.problem
        u = f.functionals().ravel()[problem.places]
        gaps = self._gaps(u)
        self._grow(gaps)
        work = self.working
        basis = problem.basis[work]
        grip = GRIP * float(np.mean(np.diagonal(self.gram))) if len(work) else 0.0
        gram = self.gram + grip * basis @ basis.T if len(self.free) else self.gram
        moved = self.coefficients[work]
        inner = u[work] + grip * basis @ (problem.basis.T @ self.coefficients)
        breaks, intercepts, slopes = (np.ascontiguousarray(table[work]) for table in self.tables)
        coordinate_sweeps(
            gram, inner, moved, problem.weights[work], breaks, intercepts, slopes,
            self._order(gaps[work]), SWEEPS,
        )  # fmt: skip
        change = np.zeros(problem.size)
        change[work] = moved - self.coefficients[work]
        self.coefficients = self.coefficients + change
        step = grip * (problem.basis.T @ self.coefficients)
        self.free = self.free + step
        f += problem.function(change, step)
        return float(gaps.sum()), 0

    def _gaps(self, u: np.ndarray) -> np.ndarray:
        """What each functional has of the gap."""
        problem, slopes = self.problem, self.slopes
        parts = problem.loss.value(u) + problem.loss.conjugate(slopes) - slopes * u
        return problem.weights * np.maximum(parts, 0.0)

    def _grow(self, gaps: np.ndarray) -> None:
        """Where not all functionals can be held, take up those that have most of the gap."""
        system = self.space.system
        if system.fits:
            return
        kept = np.flatnonzero(self.coefficients[self.working])
        room = int(np.sqrt(system.cache_bytes / 16.0))
        outside = gaps.copy()
        outside[self.working[kept]] = 0.0
        most = np.argsort(outside)[::-1][: max(0, min(NEWCOMERS, room - len(kept)))]
        new = np.sort(most[outside[most] > 0])
        if len(kept) >= room and len(new) == 0:
            raise MemoryError(
                f"dual coordinates need the Gram matrix of more than {room} functionals: raise "
                "cache_mb, or take method='newton-cg'"
            )
        old, self.working = self.working[kept], np.concatenate([self.working[kept], new])
        table = np.empty((len(self.working), len(self.working)))
        table[: len(old), : len(old)] = self.gram[np.ix_(kept, kept)]
        cross = self.problem.block(new, self.working)
        table[len(old) :] = cross
        table[:, len(old) :] = cross.T
        self.gram = table

    def _order(self, gaps: np.ndarray) -> np.ndarray:
        """The coordinates to visit: all at random, or those that have most of the gap."""
        if self.selection == "random":
            return self.rng.permutation(len(gaps))
        return np.argsort(-gaps, kind="stable")[: max(1, len(gaps) // 4)]

    def value(self, f: RepresenterExpansion) -> tuple[float, float]:
        """See `DualState.value`."""
        value = self.problem.losses(f.functionals().ravel()[self.problem.places])
        return value, value

    def combination(self) -> RepresenterExpansion:
        """See `DualState.combination`."""
        problem = self.problem
        return problem.function(-problem.weights * problem.feasible(self.slopes), self.free)

    def planes(self) -> PlaneSet:
        """See `DualState.planes`."""
        slopes = self.problem.by_term(self.problem.feasible(self.slopes))
        parts = [
            penalty.plane_of_slopes(self.space, own, block)
            for block, (penalty, own) in enumerate(zip(self.penalties, slopes, strict=True))
        ]
        merged = {block: own for part in parts for block, own in part.slopes.items()}
        return PlaneSet(
            self.space.stack([part.normals for part in parts]),
            np.concatenate([part.offsets for part in parts]),
            np.concatenate([part.blocks for part in parts]),
            np.concatenate([part.masses for part in parts]),
            slopes=merged,
        )

    def restore(self, planes: PlaneSet) -> None:
        """See `DualState.restore`; terms whose slopes are not known, or not theirs, start anew."""
        own = self.problem.by_term(self.slopes)
        for block, (term, old) in enumerate(zip(self.problem.terms, own, strict=True)):
            slopes = planes.slopes.get(block)
            if slopes is not None and slopes.shape == old.shape:
                own[block] = slopes if np.all(np.isfinite(term.loss.conjugate(slopes))) else old
        self.coefficients = -self.problem.weights * np.concatenate(own)


def _ordered(problem: CoefficientProblem, slopes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    low, high = problem.loss.domain()
    return np.broadcast_to(low, slopes.shape), np.broadcast_to(high, slopes.shape)


class DualCoordinates(FrankWolfe):
    """`FrankWolfe` with one state for all penalties whose losses have piecewise linear derivatives.

    Parameters
    ----------
    epsilon : float, default=0.0
        See `FrankWolfe`.
    selection : {"random", "steepest"}, default="random"
        The order of coordinates.
    """

    name = "Representer(method='dual-cd')"

    def __init__(self, epsilon: float = 0.0, selection: str = "random") -> None:
        super().__init__(epsilon)
        self.selection = selection

    def validate(self, objective: Objective) -> None:
        """See `Solver.validate`."""
        if self.selection not in ("random", "steepest"):
            raise ValueError(f"selection must be 'random' or 'steepest', got {self.selection!r}")
        check_epsilon(self.epsilon)
        check_planes(self.name, objective, free=True)
        if objective.space.n_free:
            _check_free(objective)

    def _states(
        self, objective: Objective, rng: np.random.Generator, without: Sequence[int] = ()
    ) -> tuple[list[DualState], list[np.ndarray]]:
        joined = [
            number for number, term in enumerate(objective.terms) if _has_pieces(term.coordinates())
        ]
        parts, blocks = super()._states(objective, rng, [*joined, *without])
        if joined:
            state = CoordinateState(objective, joined, rng, self.selection)
            parts, blocks = [state, *parts], [objective.first[joined], *blocks]
        return parts, blocks


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
        if not isinstance(term, Penalty):
            raise ValueError(f"{name} takes no free constant beside a {type(term).__name__} term")
        if not _has_pieces(term.coordinates()):
            raise ValueError(
                f"{name} takes a free constant only with losses whose derivative is piecewise linear, "
                f"got {term.loss!r}; method='newton-cg' takes it"
            )
