"""Base class of the methods of `Representer` on coefficients."""

from __future__ import annotations

import numpy as np

from ..terms import Objective
from ..terms.planes import PlaneSet
from .base import Bounds
from .coefficient_objectives import coefficient_problem, planes_of_slopes, slopes_of_planes


class CoefficientMethod:
    """Method of `Representer` on coefficients, with a dual variable per functional.

    Shapes: `coefficients` (n,), `functionals` (n,), `free` (n_free * n_outputs,), `slopes` (n,).
    """

    name: str
    uses_planes = True

    def __init__(
        self, objective: Objective, rng: np.random.Generator, planes: PlaneSet | None = None
    ) -> None:
        problem = self.problem = coefficient_problem(objective, self.name)
        self.slopes = np.zeros(problem.size)
        if planes is not None:
            known = slopes_of_planes(objective.terms, objective.first[:-1], planes)
            parts = zip(known, problem.sizes, strict=True)
            self.slopes = np.concatenate([np.zeros(n) if own is None else own for own, n in parts])
        self.coefficients = -problem.weights * self.slopes
        start = problem.product(self.coefficients) if np.any(self.coefficients) else self.slopes.copy()
        self.functionals = start
        self.free = np.zeros(problem.basis.shape[1])
        self._known: Bounds | None = None

    @classmethod
    def check(cls, objective: Objective) -> None:
        """Raise ValueError unless the method can solve the objective."""
        coefficient_problem(objective, cls.name)

    @classmethod
    def checks_planes(cls, objective: Objective, plane_tol: float = 0.0) -> bool:
        """Return whether invalid planes are dropped; see `Solver.checks_planes`."""
        # Slopes outside the domain of a conjugate are dropped.
        return True

    def step(self, objective: Objective) -> float | None:
        """Run one iteration and return an estimate of the absolute gap, if there is one."""
        raise NotImplementedError

    def finished(self, objective: Objective) -> bool:
        """Return False: all iterations are allowed."""
        return False

    @property
    def all_functionals(self) -> np.ndarray:
        """Functionals of f with its free part, (n,)."""
        return self.functionals + self.problem.basis @ self.free

    def _dual_function(self, slopes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the coefficients for slopes p, and the functionals ``G a`` of this function."""
        coefficients = -self.problem.weights * slopes
        return coefficients, self.problem.product(coefficients)

    def bounds(self, objective: Objective) -> Bounds:
        """Compute a candidate and a dual value from the state of the run."""
        if self._known is None:
            problem, functionals = self.problem, self.all_functionals
            primal = 0.5 * float(self.coefficients @ self.functionals) + problem.losses(functionals)
            dual = self._dual(problem.feasible(self.slopes))
            f = problem.function(self.coefficients, self.free, functionals)
            self._known = Bounds(f, dual, primal, primal)
        return self._known

    def _dual(self, slopes: np.ndarray) -> float:
        """Return the dual value of slopes that satisfy the equations of the free part."""
        coefficients, products = self._dual_function(slopes)
        value = self.problem.dual_value(slopes, float(coefficients @ products))
        return value if np.isfinite(value) else -np.inf

    def planes(self, objective: Objective) -> PlaneSet:
        """Return the planes with their dual variables."""
        slopes = self.problem.by_term(self.problem.feasible(self.slopes))
        return planes_of_slopes(objective.space, objective.terms, objective.first[:-1], slopes)
