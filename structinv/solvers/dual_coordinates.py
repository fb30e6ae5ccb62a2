"""Dual coordinate ascent with exact steps on one slope after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..dual import DualState, dual_state
from ..dual.base import OutOfTime, never
from ..dual.penalty_state import feasible_slopes
from ..spaces import RepresenterSpace
from ..spaces.representer_space import RepresenterExpansion
from ..terms import Objective
from ..terms.objective import Coordinates
from ..utils.jit import LEAN, njit
from ..utils.row_arrays import Arrays
from .base import Bounds, Start, check_planes
from .coefficients import CoefficientProblem
from .frank_wolfe import FrankWolfe, started

if TYPE_CHECKING:
    from .representer import Representer

# Sweeps over the functionals between two checks.
SWEEPS = 20
# Maximum number of functionals that join the working set in a sweep, if it cannot contain all.
NEWCOMERS = 500
# Number of entries of the Gram matrix that are read between two checks of the time.
ENTRIES_AT_ONCE = 3e8
# Penalty of the augmented dual on the equations of the free part, relative to the Gram matrix.
PENALTY = 10.0


class CoordinateState(DualState):
    """Dual state with one slope for each functional of several penalties.

    The losses have piecewise linear derivatives. The Gram matrix of the working set is stored. The
    working set has all functionals if their matrix fits into memory. Otherwise it has those with a
    nonzero coefficient and, in every sweep, those with the largest gaps.

    A free constant adds the equation ``sum of coefficients = 0`` to the dual. The method of multipliers
    satisfies it: the penalty is added to the Gram matrix, and the multiplier is the constant.

    The arrays are the slopes of each term, named by its number.
    """

    adds_planes = False

    def __init__(self, objective: Objective, terms: Sequence[int], rng: np.random.Generator) -> None:
        space: Any = objective.space
        self.space: RepresenterSpace = space
        self.terms = terms
        coordinates: list[Any] = [objective.terms[number].coordinates() for number in terms]
        problem = self.problem = CoefficientProblem(space, coordinates)
        self.rng = rng
        pieces = problem.loss.pieces()
        assert pieces is not None
        self.tables = [
            np.ascontiguousarray(np.broadcast_to(part, (problem.size, part.shape[1])))
            for part in (pieces.breaks, pieces.intercepts, pieces.slopes)
        ]
        # The slopes nearest to zero in the domain of the conjugates.
        self.coefficients = -problem.weights * np.clip(np.zeros(problem.size), *problem.loss.domain())
        self.free = np.zeros(problem.basis.shape[1])
        if space.system.fits:
            # Functionals of each output, and their Gram matrix.
            self.working_sets = list(problem.by_output)
        else:
            none = np.zeros(0, dtype=np.int64), np.zeros((0, 0))
            self.working_sets = [none] * space.n_outputs

    @property
    def slopes(self) -> np.ndarray:
        """Slopes p_i."""
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
        for output in range(self.space.n_outputs):
            if not self.space.system.fits:
                of_output = problem.places % self.space.n_outputs == output
                self._grow(output, np.where(of_output, gaps, 0.0))
            chosen, gram = self.working_sets[output]
            moved = self._after_sweeps(chosen, gram, u, out_of_time)
            change[chosen] = moved - self.coefficients[chosen]
        self.coefficients = self.coefficients + change
        if len(self.free):
            # The constant is the multiplier of its equation, so both have the same step.
            step = self._penalty * (problem.basis.T @ self.coefficients)
            self.free = self.free + step
        f += problem.function(change, step)
        return float(gaps.sum()), 0

    @property
    def _penalty(self) -> float:
        diagonal = np.diagonal(self.working_sets[0][1])
        return PENALTY * float(np.mean(diagonal)) if len(diagonal) else 0.0

    def _after_sweeps(
        self, chosen: np.ndarray, gram: np.ndarray, u: np.ndarray, out_of_time: OutOfTime
    ) -> np.ndarray:
        """Return the coefficients of a working set after some sweeps."""
        problem = self.problem
        moved, inner = self.coefficients[chosen], u[chosen]
        # The augmented dual adds b b' to the Gram matrix, with an empty b without constant.
        border = np.zeros(0)
        if len(self.free):
            root = np.sqrt(self._penalty)
            border = root * problem.basis[chosen, 0]
            inner = inner + root * border * (problem.basis[:, 0] @ self.coefficients)
        pieces = tuple(np.ascontiguousarray(table[chosen]) for table in self.tables)
        weights = problem.weights[chosen]
        order = self.rng.permutation(np.flatnonzero(weights > 0))
        at_once = max(1, int(ENTRIES_AT_ONCE // max(1, len(chosen))))
        parts = [order[first : first + at_once] for first in range(0, len(order), at_once)]
        # If all sweeps together are short, the time is checked only before them.
        together = SWEEPS if len(parts) == 1 and SWEEPS * len(order) <= at_once else 1
        for _ in range(0, SWEEPS, together):
            for part in parts:
                if out_of_time():
                    return moved
                coordinate_sweeps(gram, border, inner, moved, weights, pieces, part, together)
        return moved

    def _gaps(self, u: np.ndarray) -> np.ndarray:
        """Return the contribution of each functional to the gap."""
        problem, slopes = self.problem, self.slopes
        parts = problem.loss.value(u) + problem.loss.conjugate(slopes) - slopes * u
        return problem.weights * np.maximum(parts, 0.0)

    def _grow(self, output: int, gaps: np.ndarray) -> None:
        """Add functionals with the largest gaps to a working set; drop those with coefficient 0."""
        before, gram = self.working_sets[output]
        active = np.flatnonzero(self.coefficients[before])
        capacity = int(np.sqrt(self.space.system.cache_bytes / (16.0 * len(self.working_sets))))
        outside = gaps.copy()
        outside[before[active]] = 0.0
        most = np.argsort(outside)[::-1][: max(0, min(NEWCOMERS, capacity - len(active)))]
        new = np.sort(most[outside[most] > 0])
        if len(active) >= capacity and len(new) == 0:
            raise MemoryError(
                f"method='dual-cd' requires the Gram matrix of more than {capacity} functionals, but "
                "cache_mb is too small for it: increase cache_mb, or use method='newton-cg'"
            )
        old, chosen = len(active), np.concatenate([before[active], new])
        table = np.empty((len(chosen), len(chosen)))
        table[:old, :old] = gram[np.ix_(active, active)]
        cross = self.problem.block(new, chosen)
        table[old:] = cross
        table[:, old:] = cross.T
        self.working_sets[output] = chosen, table

    def value(self, f: RepresenterExpansion) -> tuple[float, float]:
        value = self.problem.losses(f.functionals().ravel()[self.problem.places])
        return value, value

    def combination(self) -> RepresenterExpansion:
        problem = self.problem
        return problem.function(-problem.weights * problem.feasible(self.slopes), self.free)

    def arrays(self) -> Arrays:
        slopes = self.problem.by_term(self.problem.feasible(self.slopes))
        return {str(number): own for number, own in zip(self.terms, slopes, strict=True)}

    def _start(self, arrays: Arrays, f: RepresenterExpansion) -> int:
        slopes = np.concatenate([arrays[str(number)] for number in self.terms])
        slopes = feasible_slopes(slopes, self.problem.loss)
        self.coefficients = -self.problem.weights * slopes
        return 0


class DualCoordinates:
    """Dual coordinate ascent, with `FrankWolfe` for all other terms.

    All penalties whose losses have piecewise linear derivatives share one state.
    """

    name = "Representer(method='dual-cd')"

    def __init__(
        self, objective: Objective, rng: np.random.Generator, start: Start | None, solver: Representer
    ) -> None:
        terms = objective.terms
        self.joined = [n for n, term in enumerate(terms) if _has_pieces(term.coordinates())]
        self.others = [n for n in range(len(terms)) if n not in self.joined]
        parts = [dual_state(terms[n], objective.space, rng, solver.plane_tol) for n in self.others]
        if self.joined:
            parts = [CoordinateState(objective, self.joined, rng), *parts]
        if start is not None:
            start = replace(start, dual_variables=self._by_state(start.dual_variables))
        self.solver = FrankWolfe(solver.plane_tol)
        self.state = started(objective, parts, start)

    def _by_state(self, by_term: list[Arrays]) -> list[Arrays]:
        """Return the dual variables of each state from those of each term."""
        arrays = dict(enumerate(by_term))
        joined = {str(n): arrays[n]["slopes"] for n in self.joined if "slopes" in arrays.get(n, {})}
        others = [arrays.get(n, {}) for n in self.others]
        return [joined, *others] if self.joined else others

    @classmethod
    def check(cls, objective: Objective, solver: Representer) -> None:
        """Raise ValueError unless the method can solve the objective."""
        check_planes(cls.name, objective, free=True)
        if objective.space.n_free:
            _check_free(objective)

    def step(self, objective: Objective) -> float:
        """Run one iteration and return an estimate of the absolute gap."""
        return self.solver.step(objective, self.state)

    def finished(self, objective: Objective) -> bool:
        """Return True if the parameters allow no further iteration."""
        return self.solver.finished(objective, self.state)

    def bounds(self, objective: Objective) -> Bounds:
        """Compute a candidate and a dual value from the state of the run."""
        return self.solver.bounds(objective, self.state)

    def dual_variables(self, objective: Objective) -> list[Arrays]:
        """Return the dual variables of each term."""
        by_state = [part.arrays() for part in self.state.parts]
        joined = by_state.pop(0) if self.joined else {}
        found = {int(number): {"slopes": slopes} for number, slopes in joined.items()}
        found |= dict(zip(self.others, by_state, strict=True))
        return [found[number] for number in sorted(found)]


def _has_pieces(coordinates: Coordinates | None) -> bool:
    return coordinates is not None and coordinates.loss.pieces() is not None


def _check_free(objective: Objective) -> None:
    """Raise ValueError if the method of multipliers does not support the free part."""
    name = DualCoordinates.name
    if objective.space.n_free > 1 or objective.space.n_outputs > 1:
        raise ValueError(
            f"{name} supports an unpenalized constant of one output only, got "
            f"n_free={objective.space.n_free} and n_outputs={objective.space.n_outputs}: use "
            "method='newton-cg'"
        )
    for term in objective.terms:
        coordinates = term.coordinates()
        if coordinates is None:
            raise ValueError(
                f"{name} does not support an unpenalized constant with a {type(term).__name__} term: "
                "remove it (in estimators, bias=False)"
            )
        if not _has_pieces(coordinates):
            raise ValueError(
                f"{name} supports an unpenalized constant only for losses with a piecewise linear "
                "derivative: use method='newton-cg' for smooth losses"
            )


@njit(**LEAN)
def coordinate_sweeps(gram, border, functionals, coefficients, weights, pieces, order, n_sweeps):
    """Maximize the dual over one coefficient after the other.

    If only a_i changes, the optimum is where a line meets the curve of subgradients of r_i. The line has
    the slope ``- 1 / (c_i G_ii)`` and contains the current point ``(u_i, p_i)``, p_i = - a_i / c_i.

    Shapes: `gram` (n, n), `border` (n,), `functionals` (n,), `coefficients` (n,), `weights` (n,),
    `order` (k,); `pieces` are the breaks (n, m), intercepts (n, m + 1) and slopes (n, m + 1).
    """
    breaks, intercepts, slopes = pieces
    bordered = len(border) > 0
    for _ in range(n_sweeps):
        for i in order:
            square = gram[i, i] + border[i] ** 2 if bordered else gram[i, i]
            before = -coefficients[i] / weights[i]
            after = _slope(
                functionals[i], before, weights[i] * square, breaks[i], intercepts[i], slopes[i]
            )
            change = -weights[i] * (after - before)
            if change != 0.0:
                coefficients[i] += change
                _add(functionals, gram[i], change)
                if bordered:
                    _add(functionals, border, change * border[i])


@njit(**LEAN)
def _slope(u, before, reach, breaks, intercepts, slopes):
    """Return the subgradient p at the solution x of ``x + reach (p - before) = u``."""
    last = len(breaks)
    for k in range(last):
        if not np.isfinite(breaks[k]):
            last = k
            break
        below = breaks[k] + reach * (intercepts[k] + slopes[k] * breaks[k] - before)
        if below >= u:
            last = k
            break
        above = breaks[k] + reach * (intercepts[k + 1] + slopes[k + 1] * breaks[k] - before)
        if above >= u:
            return before + (u - breaks[k]) / reach
    x = (u + reach * (before - intercepts[last])) / (1.0 + reach * slopes[last])
    return intercepts[last] + slopes[last] * x


@njit(**LEAN)
def _add(functionals, row, change):
    for k in range(len(functionals)):
        functionals[k] += change * row[k]
