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


@dataclass
class ProgramState:
    """The problem and, once it is solved, coefficients, slopes and the free part."""

    problem: CoefficientProblem
    coefficients: np.ndarray
    slopes: np.ndarray
    free: np.ndarray
    solved: bool = False


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
        """See `Solver.validate`."""
        problem = coefficient_problem(objective, self.name)
        if not problem.space.system.fits:
            raise ValueError(
                f"{self.name} forms the Gram matrix, and that of {problem.size} functionals needs more "
                "than cache_mb; method='newton-cg' does not form it"
            )
        import cvxpy as cp

        for term in problem.terms:
            term.loss.expression(cp.Variable(len(term.weights)))

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
            state.solved = True

    def _solve(self, state: ProgramState) -> None:
        import cvxpy as cp

        problem = state.problem
        values, vectors = np.linalg.eigh(problem.gram())
        long = values > NEGLIGIBLE * values[-1]
        root = vectors[:, long] * np.sqrt(values[long])
        z: Any = cp.Variable(root.shape[1])
        u: Any = cp.Variable(problem.size)
        counted = np.flatnonzero(problem.weights > 0)
        losses = [
            cp.sum(cp.multiply(own, term.loss.expression(part)))
            for term, part, own in _by_term(problem, u)
            if np.any(own > 0)
        ]
        functionals = root @ z
        free: Any = None
        if problem.basis.shape[1]:
            free = cp.Variable(problem.basis.shape[1])
            functionals = functionals + problem.basis @ free
        joined = u == functionals
        program = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(z) + cp.sum(cp.hstack(losses))), [joined])
        program.solve(solver=self.cvxpy_solver)
        if z.value is None:
            raise ValueError(f"{self.cvxpy_solver} ended with status {program.status!r}")
        state.coefficients = vectors[:, long] @ (z.value / np.sqrt(values[long]))
        state.free = np.zeros(0) if free is None else np.atleast_1d(free.value)
        forces = np.zeros(problem.size)
        forces[counted] = np.ravel(joined.dual_value)[counted] / problem.weights[counted]
        found = [np.clip(sign * forces, *problem.loss.domain()) for sign in (1.0, -1.0)]
        # Which sign the multipliers have is the modelling language's business.
        state.slopes = max(map(problem.feasible, found), key=lambda slopes: _dual(problem, slopes))

    def bounds(self, objective: Objective, state: ProgramState) -> Bounds:
        """See `Solver.bounds`."""
        f = state.problem.function(state.coefficients, state.free)
        return Bounds(f, _dual(state.problem, state.slopes))

    def planes(self, objective: Objective, state: ProgramState) -> PlaneSet:
        """See `Solver.planes`."""
        return planes_of_slopes(objective, state.problem.by_term(state.slopes))


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
