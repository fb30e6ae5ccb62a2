"""Minimization over all coefficients by a solver of cvxpy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..terms import Objective
from .base import Bounds, Start
from .coefficient_objectives import CoefficientProblem, coefficient_problem
from .method import CoefficientMethod

# Eigenvalues of the Gram matrix below this fraction of the largest one are rounding errors.
NEGLIGIBLE = 1e-13
# Tolerance of solved programs, relative to their values.
SOLVED = 1e-7


class ConvexProgram(CoefficientMethod):
    """Method for any convex losses, written as cvxpy expressions; for small problems.

    It stores the Gram matrix.
    """

    name = "Representer(method='cvxpy')"

    def __init__(
        self,
        objective: Objective,
        rng: np.random.Generator,
        start: Start | None = None,
        cvxpy_solver: str = "CLARABEL",
    ) -> None:
        super().__init__(objective, rng)
        self.slopes = np.clip(self.slopes, *self.problem.loss.domain())
        self.cvxpy_solver = cvxpy_solver
        self.solved = False

    @classmethod
    def check(cls, objective: Objective) -> None:
        problem = coefficient_problem(objective, cls.name)
        if not problem.space.system.fits:
            raise ValueError(
                f"{cls.name} stores the Gram matrix, but that of {problem.size} functionals requires "
                "more than cache_mb: increase cache_mb, or use method='newton-cg'"
            )
        import cvxpy as cp

        for term in problem.terms:
            term.loss.expression(cp.Variable(len(term.weights)))

    def step(self, objective: Objective) -> None:
        # The first step solves the problem; further steps do nothing.
        if not self.solved:
            self._solve()
            self.functionals = self.problem.product(self.coefficients)
            self.solved, self._known = True, None

    def _solve(self) -> None:
        import cvxpy as cp

        problem = self.problem
        u: Any = cp.Variable(problem.size)
        losses = [
            cp.sum(cp.multiply(own, term.loss.expression(part)))
            for term, part, own in _by_term(problem, u)
            if np.any(own > 0)
        ]
        outputs = [_Output(cp, rows, gram, problem.basis[rows]) for rows, gram in _roots(problem)]
        joined = [u[each.rows] == each.functionals for each in outputs]
        half = 0.5 * cp.sum([cp.sum_squares(each.z) for each in outputs])
        program = cp.Problem(cp.Minimize(half + cp.sum(cp.hstack([0.0, *losses]))), joined)
        program.solve(solver=self.cvxpy_solver)
        if outputs[0].z.value is None:
            raise ValueError(
                f"cvxpy_solver={self.cvxpy_solver!r} ended with status {program.status!r}: scale the "
                "features, lower C, or use another solver"
            )
        forces = np.zeros(problem.size)
        for each, equation in zip(outputs, joined, strict=True):
            self.coefficients[each.rows] = each.inverse @ each.z.value
            if each.free is not None:
                self.free[each.columns] = each.free.value
            forces[each.rows] = np.ravel(equation.dual_value)
        forces = forces / np.where(problem.weights > 0, problem.weights, np.inf)
        found = [np.clip(sign * forces, *problem.loss.domain()) for sign in (1.0, -1.0)]
        # The sign of the multipliers depends on the modeling language.
        self.slopes = max(map(problem.feasible, found), key=self._dual)

    def bounds(self, objective: Objective) -> Bounds:
        found = super().bounds(objective)
        if self.problem.loss.has_slopes:
            return found
        # cvxpy also computes these conjugates, and they may be too small by its tolerance.
        return replace(found, dual=found.dual - SOLVED * (1.0 + abs(float(found.upper or 0.0))))


def check_cvxpy_solver(name: str) -> None:
    """Raise ValueError unless cvxpy has a solver of this name."""
    import cvxpy as cp

    if name not in cp.installed_solvers():
        raise ValueError(f"cvxpy_solver must be one of {cp.installed_solvers()}, got {name!r}")


class _Output:
    """Variables of one output: z with ``|f|^2 = |z|^2``, and the free part."""

    def __init__(self, cp: Any, rows: np.ndarray, root: tuple[Any, Any], basis: np.ndarray) -> None:
        forward, self.inverse = root
        self.rows = rows
        self.z: Any = cp.Variable(forward.shape[1])
        self.functionals = forward @ self.z
        self.columns = np.flatnonzero(np.any(basis != 0, axis=0))
        self.free: Any = None
        if len(self.columns):
            self.free = cp.Variable(len(self.columns))
            self.functionals = self.functionals + basis[:, self.columns] @ self.free


def _roots(problem: CoefficientProblem) -> list[tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]]:
    """Return the coefficient numbers of each output, and a root of its Gram matrix with its inverse.

    The inverse is the transposed pseudoinverse. Outputs with the same Gram matrix share one root.
    """
    found: list[tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]] = []
    before: tuple[np.ndarray, tuple[np.ndarray, np.ndarray]] | None = None
    for rows, gram in problem.by_output:
        if before is None or before[0] is not gram:
            values, vectors = np.linalg.eigh(gram)
            long = values > NEGLIGIBLE * values[-1]
            roots = np.sqrt(values[long])
            before = gram, (vectors[:, long] * roots, vectors[:, long] / roots)
        found.append((rows, before[1]))
    return found


def _by_term(problem: CoefficientProblem, u: Any) -> list[tuple[Any, Any, np.ndarray]]:
    """Return each term, its part of a vector, and its weights."""
    edges = np.cumsum([0, *problem.sizes])
    return [
        (term, u[first:last], term.weights)
        for term, first, last in zip(problem.terms, edges[:-1], edges[1:], strict=True)
    ]
