"""Base class of the methods of `Representer` on coefficients."""

from __future__ import annotations

import numpy as np

from ..terms import Objective
from ..utils.row_arrays import Arrays
from .base import Bounds, Start
from .coefficient_objectives import coefficient_problem, started_slopes


class CoefficientMethod:
    """Method of `Representer` on coefficients, with a dual variable per functional.

    Shapes: `coefficients` (n,), `functionals` (n,), `free` (n_free * n_outputs,), `slopes` (n,).
    """

    name: str

    def __init__(
        self, objective: Objective, rng: np.random.Generator, start: Start | None = None
    ) -> None:
        problem = self.problem = coefficient_problem(objective, self.name)
        self.slopes = np.zeros(problem.size)
        if start is not None:
            self.slopes = np.concatenate(started_slopes(problem, start))
        self.coefficients = -problem.weights * self.slopes
        self.functionals = self.slopes.copy()
        if np.any(self.coefficients):
            self.functionals = problem.product(self.coefficients)
        self.free = np.zeros(problem.basis.shape[1])
        self._known: Bounds | None = None

    @classmethod
    def check(cls, objective: Objective) -> None:
        """Raise ValueError unless the method can solve the objective."""
        coefficient_problem(objective, cls.name)

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

    def dual_variables(self, objective: Objective) -> list[Arrays]:
        """Return the slopes of each term."""
        return [{"slopes": own} for own in self.problem.by_term(self.problem.feasible(self.slopes))]
