"""The whole problem in coefficients, handed to cvxpy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..objective import Objective
from ..planes import PlaneSet
from .base import Bounds, Solver
from .coefficients import CoefficientProblem, coefficient_problem, planes_of_slopes

# Directions of the Gram matrix below this share of the longest are rounding.
NEGLIGIBLE = 1e-13
# How exactly programs are solved, relative to their values.
SOLVED = 1e-7


@dataclass
class ProgramState:
    """The problem and, once it is solved, coefficients, slopes and the free part."""

    problem: CoefficientProblem
    coefficients: np.ndarray
    slopes: np.ndarray
    free: np.ndarray
    solved: bool = False
    bounds: Bounds | None = None


class ConvexProgram(Solver):
    """Any convex losses, as cvxpy expressions, with the Gram matrix formed; for small problems.

    Parameters
    ----------
    cvxpy_solver : str, default="CLARABEL"
    """

    name = "Representer(method='cvxpy')"

    def __init__(self, cvxpy_solver: str = "CLARABEL") -> None:
        self.cvxpy_solver = cvxpy_solver

    def validate(self, objective: Objective) -> None:
        problem = coefficient_problem(objective, self.name)
        if not problem.space.system.fits:
            raise ValueError(
                f"{self.name} forms the Gram matrix, and that of {problem.size} functionals needs more "
                "than cache_mb; method='newton-cg' does not form it"
            )
        import cvxpy as cp

        if self.cvxpy_solver not in cp.installed_solvers():
            raise ValueError(
                f"cvxpy_solver must be one of {cp.installed_solvers()}, got {self.cvxpy_solver!r}"
            )
        for term in problem.terms:
            term.loss.expression(cp.Variable(len(term.weights)))

    def starts_from_planes(self, objective: Objective) -> bool:
        return False

    def init(
        self, objective: Objective, rng: np.random.Generator, planes: PlaneSet | None = None
    ) -> ProgramState:
        """See `Solver.init`; starts from nothing."""
        problem = coefficient_problem(objective, self.name)
        zeros = np.zeros(problem.size)
        slopes = np.clip(zeros, *problem.loss.domain())
        return ProgramState(problem, zeros, slopes, np.zeros(problem.basis.shape[1]))

    def step(self, objective: Objective, state: ProgramState) -> None:
        """See `Solver.step`; all that can be done is done in the first."""
        if not state.solved:
            self._solve(state)
            state.solved, state.bounds = True, None

    def _solve(self, state: ProgramState) -> None:
        import cvxpy as cp

        problem = state.problem
        u: Any = cp.Variable(problem.size)
        losses = [
            cp.sum(cp.multiply(own, term.loss.expression(part)))
            for term, part, own in _by_term(problem, u)
            if np.any(own > 0)
        ]
        outputs = [_Output(cp, mine, gram, problem.basis[mine]) for mine, gram in _rooted(problem)]
        joined = [u[each.mine] == each.functionals for each in outputs]
        half = 0.5 * cp.sum([cp.sum_squares(each.z) for each in outputs])
        program = cp.Problem(cp.Minimize(half + cp.sum(cp.hstack([0.0, *losses]))), joined)
        program.solve(solver=self.cvxpy_solver)
        if outputs[0].z.value is None:
            raise ValueError(f"{self.cvxpy_solver} ended with status {program.status!r}")
        forces = np.zeros(problem.size)
        for each, equation in zip(outputs, joined, strict=True):
            state.coefficients[each.mine] = each.back @ each.z.value
            if each.free is not None:
                state.free[each.seen] = each.free.value
            forces[each.mine] = np.ravel(equation.dual_value)
        forces = forces / np.where(problem.weights > 0, problem.weights, np.inf)
        found = [np.clip(sign * forces, *problem.loss.domain()) for sign in (1.0, -1.0)]
        # Which sign the multipliers have is the modelling language's business.
        state.slopes = max(map(problem.feasible, found), key=lambda slopes: _dual(problem, slopes))

    def bounds(self, objective: Objective, state: ProgramState) -> Bounds:
        if state.bounds is None:
            problem = state.problem
            f = problem.function(state.coefficients, state.free)
            upper = objective.value(f).upper
            dual = _dual(problem, state.slopes)
            if not problem.loss.has_slopes:
                # Conjugates come from programs, too, and may fall short by their tolerance.
                dual -= SOLVED * (1.0 + abs(upper))
            state.bounds = Bounds(f, dual, upper, upper)
        return state.bounds

    def planes(self, objective: Objective, state: ProgramState) -> PlaneSet:
        return planes_of_slopes(objective, state.problem.by_term(state.slopes))


class _Output:
    """The variables of one output: z with ``|f|^2 = |z|^2``, and its free part."""

    def __init__(self, cp: Any, mine: np.ndarray, root: tuple[Any, Any], basis: np.ndarray) -> None:
        forward, self.back = root
        self.mine = mine
        self.z: Any = cp.Variable(forward.shape[1])
        self.functionals = forward @ self.z
        self.seen = np.flatnonzero(np.any(basis != 0, axis=0))
        self.free: Any = None
        if len(self.seen):
            self.free = cp.Variable(len(self.seen))
            self.functionals = self.functionals + basis[:, self.seen] @ self.free


def _rooted(problem: CoefficientProblem) -> list[tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]]:
    """Each output's coefficients, with a root of its Gram matrix and the way back; equal ones once."""
    found: list[tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]] = []
    before: tuple[np.ndarray, tuple[np.ndarray, np.ndarray]] | None = None
    for mine, gram in problem.by_output:
        if before is None or before[0] is not gram:
            values, vectors = np.linalg.eigh(gram)
            long = values > NEGLIGIBLE * values[-1]
            roots = np.sqrt(values[long])
            before = gram, (vectors[:, long] * roots, vectors[:, long] / roots)
        found.append((mine, before[1]))
    return found


def _dual(problem: CoefficientProblem, slopes: np.ndarray) -> float:
    coefficients = -problem.weights * slopes
    value = problem.dual_value(slopes, float(coefficients @ problem.product(coefficients)))
    return value if np.isfinite(value) else -np.inf


def _by_term(problem: CoefficientProblem, u: Any) -> list[tuple[Any, Any, np.ndarray]]:
    """Each term, its part of a vector, and its weights."""
    edges = np.cumsum([0, *problem.sizes])
    return [
        (term, u[first:last], term.weights)
        for term, first, last in zip(problem.terms, edges[:-1], edges[1:], strict=True)
    ]
