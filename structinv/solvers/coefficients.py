"""Objectives of functionals as functions of the coefficients of representers."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ..dual.penalty_state import feasible_slopes
from ..losses import ScalarLoss
from ..losses.combined import ConcatenatedLoss
from ..spaces import RepresenterSpace
from ..spaces.representer_space import RepresenterExpansion
from ..terms import Objective
from ..terms.objective import Coordinates
from ..utils.row_arrays import Arrays, fitting
from .base import Bounds, Start

if TYPE_CHECKING:
    from .representer import Representer

# Rounding error of an equation, relative to its terms.
ROUNDING = 1e-14
# Relative rounding error of a product in a sum.
UNIT = 2.0 * float(np.finfo(np.float64).eps)
# Maximum number of functionals whose norms are all computed; number of norms for more functionals.
MAX_CHECKED, NORMS_SEEN = 3000, 256


class CoefficientProblem:
    """Minimization over the coefficients of representers.

    The objective is ``1/2 |f|^2 + sum_i c_i r_i(u_i)`` for ``f = sum_i a_i z_i`` plus a free part with
    coefficients b. The functionals are ``u = G a + B b``. By the representer theorem (Zhang, Lee and Teh
    2013, theorem 1) the optimum has this form. For slopes p_i in the domain of r_i* with
    ``B'(c p) = 0``, the dual value is ``- 1/2 |f_p|^2 - sum_i c_i r_i*(p_i)``. The function f_p has the
    coefficients ``a = - c p``.

    Shapes: `places` (n,), `weights` (n,), `basis` (n, n_free * n_outputs).
    """

    def __init__(self, space: RepresenterSpace, terms: list[Coordinates]) -> None:
        self.space = space
        self.terms = terms
        every = np.arange(space.system.size * space.n_outputs)
        self.places = np.concatenate([every[term.places] for term in terms])
        self.weights = np.concatenate([term.weights for term in terms])
        self.sizes = [len(term.weights) for term in terms]
        self.loss: ScalarLoss = ConcatenatedLoss([term.loss for term in terms], self.sizes)
        whole = np.kron(space.functionals_of_basis, np.eye(space.n_outputs))
        self.basis = whole[self.places]
        self._ordered = np.array_equal(self.places, every)

    @property
    def size(self) -> int:
        """Number of coefficients."""
        return len(self.places)

    def product(self, coefficients: np.ndarray) -> np.ndarray:
        """Return ``G a``, the functionals of ``sum_i a_i z_i``."""
        found = self.space.system.apply(self._spread(coefficients))
        return found.ravel() if self._ordered else found.ravel()[self.places]

    @cached_property
    def _norms(self) -> np.ndarray:
        """Norms of the representers, (n,).

        For more than `MAX_CHECKED` functionals, all values are the largest norm of a sample.
        """
        system = self.space.system
        if system.size <= MAX_CHECKED:
            squares = system.diagonal()
        else:
            sample = np.linspace(0, system.size - 1, NORMS_SEEN).astype(int)
            squares = np.full(system.size, system.diagonal(sample).max())
        norms = np.sqrt(np.maximum(squares, 0.0))
        return np.repeat(norms, self.space.n_outputs)[self.places]

    @cached_property
    def by_output(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Indices of each output's coefficients, and their Gram matrix.

        Entries of G between different outputs are zero.
        """
        table, n_outputs = self.space.system.table(), self.space.n_outputs
        found: list[tuple[np.ndarray, np.ndarray]] = []
        before: tuple[np.ndarray, np.ndarray] | None = None
        for output in range(n_outputs):
            selected = np.flatnonzero(self.places % n_outputs == output)
            own = self.places[selected] // n_outputs
            if before is None or not np.array_equal(before[0], own):
                whole = np.array_equal(own, np.arange(len(table)))
                before = own, table if whole else table[np.ix_(own, own)]
            found.append((selected, before[1]))
        return found

    def formed_product(self, coefficients: np.ndarray) -> np.ndarray:
        """Return ``G a`` by the stored Gram matrix."""
        found = np.empty(self.size)
        for selected, gram in self.by_output:
            found[selected] = gram @ coefficients[selected]
        return found

    def block(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Return the block of G of these rows and columns."""
        n_outputs = self.space.n_outputs
        (own, k), (other, m) = (np.divmod(self.places[each], n_outputs) for each in (rows, columns))
        found = self.space.system.gram(own, other)
        return found if n_outputs == 1 else found * (k[:, None] == m)

    def _spread(self, coefficients: np.ndarray) -> np.ndarray:
        shape = self.space.system.size, self.space.n_outputs
        if self._ordered:
            return coefficients.reshape(shape)
        total = np.zeros(shape[0] * shape[1])
        np.add.at(total, self.places, coefficients)
        return total.reshape(shape)

    def function(
        self, coefficients: np.ndarray, free: np.ndarray, functionals: np.ndarray | None = None
    ) -> RepresenterExpansion:
        """Return the element of the space, with cached functionals if all are given."""
        shape = self.space.n_free, self.space.n_outputs
        f = self.space.of_representers(self._spread(coefficients), free.reshape(shape))
        if functionals is not None and self._ordered:
            f.know(functionals.reshape(-1, self.space.n_outputs).copy())
        return f

    def losses(self, functionals: np.ndarray) -> float:
        """Return ``sum_i c_i r_i(u_i)``."""
        return float(self.weights @ self.loss.value(functionals))

    def dual_value(self, slopes: np.ndarray, squared_norm: float) -> float:
        """Return the dual value of slopes, minus a bound of its rounding error.

        `squared_norm` is the squared norm of the function of the slopes.
        """
        forces = self.weights * np.abs(slopes)
        # The squared norm is inaccurate if large terms of opposite signs almost cancel.
        lost = UNIT * float(forces @ self._norms) ** 2
        return -0.5 * (squared_norm + lost) - float(self.weights @ self.loss.conjugate(slopes))

    def feasible(self, slopes: np.ndarray) -> np.ndarray:
        """Return slopes that satisfy the equation of a free constant.

        Slopes of the predominant sign are scaled toward zero. Zero is in the domain of all conjugates,
        because losses are bounded from below. If more than a constant is free, slopes are returned
        unchanged, or as NaN if they violate an equation by more than rounding errors.
        """
        if self.space.n_free > 1:
            weighted_slopes = self.weights * slopes
            excess = np.abs(self.basis.T @ weighted_slopes)
            holds = np.all(excess <= 1e-9 * (np.abs(self.basis).T @ np.abs(weighted_slopes)))
            return slopes if holds else np.full(len(slopes), np.nan)
        for constant in self.basis.T:
            parts = self.weights * slopes * constant
            up, down = parts[parts > 0].sum(), -parts[parts < 0].sum()
            if abs(up - down) > ROUNDING * (up + down):
                is_larger_side = parts > 0 if up > down else parts < 0
                slopes = np.where(is_larger_side, min(up, down) / max(up, down) * slopes, slopes)
        return slopes

    def by_term(self, slopes: np.ndarray) -> list[np.ndarray]:
        """Return the slopes of each term."""
        return np.split(slopes, np.cumsum(self.sizes)[:-1])


def coefficient_problem(objective: Objective, solver: str) -> CoefficientProblem:
    """Return the objective as a function of coefficients.

    Raises ValueError with the solver's name if the space or a term has no such form.
    """
    space = objective.space
    if not isinstance(space, RepresenterSpace):
        raise ValueError(f"{solver} requires a RepresenterSpace, got a {type(space).__name__}")
    found = [term.coordinates() for term in objective.terms]
    for term, coordinates in zip(objective.terms, found, strict=True):
        if coordinates is None:
            raise ValueError(
                f"{solver} requires terms that are sums of losses of functionals, got a "
                f"{type(term).__name__}: use Representer(method='dual-cd')"
            )
    return CoefficientProblem(space, [each for each in found if each is not None])


class CoefficientMethod:
    """Method of `Representer` on coefficients, with a dual variable per functional.

    Shapes: `coefficients` (n,), `functionals` (n,), `free` (n_free * n_outputs,), `slopes` (n,).
    """

    name: str

    def __init__(
        self, objective: Objective, rng: np.random.Generator, start: Start | None, solver: Representer
    ) -> None:
        problem = self.problem = coefficient_problem(objective, self.name)
        self.slopes = np.zeros(problem.size)
        given = [] if start is None else start.dual_variables
        for part, term, arrays in zip(problem.by_term(self.slopes), problem.terms, given, strict=False):
            part[:] = feasible_slopes(fitting(arrays, {"slopes": part})["slopes"], term.loss)
        self.coefficients = -problem.weights * self.slopes
        self.functionals = self.slopes.copy()
        if np.any(self.coefficients):
            self.functionals = problem.product(self.coefficients)
        self.free = np.zeros(problem.basis.shape[1])
        self._known: Bounds | None = None

    @classmethod
    def check(cls, objective: Objective, solver: Representer) -> None:
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
