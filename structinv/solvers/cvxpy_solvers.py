"""Reference solver by cvxpy, for tests and very small problems."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..spaces import ExplicitSpace
from ..terms import Objective
from ..terms.planes import PlaneSet
from .base import Bounds, Solver, Start, check_planes
from .coefficients import CoefficientMethod, CoefficientProblem, coefficient_problem

if TYPE_CHECKING:
    from .representer import Representer


@dataclass
class ReferenceState:
    """All planes with dual variables of the last master problem, and its minimizer."""

    planes: PlaneSet
    f: np.ndarray


class Reference(Solver):
    """Cutting planes of every block, with a master problem in cvxpy.

    It serves as a reference for tests on small problems. No plane is dropped.

    Parameters
    ----------
    cvxpy_solver : str, default="CLARABEL"
        Name of an installed solver of cvxpy for quadratic programs.

    See Also
    --------
    SVMStruct : The same method with fast steps, for any number of rows.

    Examples
    --------
    >>> from structinv.solvers import Reference
    >>> Reference()
    Reference()
    """

    def __init__(self, cvxpy_solver: str = "CLARABEL") -> None:
        self.cvxpy_solver = cvxpy_solver

    def validate(self, objective: Objective) -> None:
        check_planes("Reference", objective)
        if not isinstance(objective.space, ExplicitSpace):
            raise ValueError(
                f"Reference requires an ExplicitSpace, got a {type(objective.space).__name__}: use "
                "another solver, because the master problem here has one variable per weight"
            )

    def init(
        self, objective: Objective, rng: np.random.Generator, start: Start | None = None
    ) -> ReferenceState:
        f = objective.space.zeros() if start is None else start.f
        every = np.arange(objective.n_blocks)
        null, alphas = np.zeros((len(every), len(f))), np.ones(len(every))
        return ReferenceState(PlaneSet(null, objective.lower_bounds.copy(), every, alphas), f)

    def step(self, objective: Objective, state: ReferenceState) -> None:
        planes = objective.planes(state.f)
        found, every = state.planes, np.arange(objective.n_blocks)
        new: Any = planes.normals
        new = new if isinstance(new, np.ndarray) else new.toarray()
        normals = np.vstack([found.normals, new])
        offsets = np.concatenate([found.offsets, planes.offsets])
        blocks = np.concatenate([found.blocks, every])
        alphas = self._alphas(objective, normals, offsets, blocks)
        state.planes = PlaneSet(normals, offsets, blocks, alphas)
        state.f = (normals * objective.weights[blocks, None]).T @ alphas

    def _alphas(
        self, objective: Objective, normals: np.ndarray, offsets: np.ndarray, blocks: np.ndarray
    ) -> np.ndarray:
        """Return the dual variables at the optimum of the master problem."""
        import cvxpy as cp

        alphas: Any = cp.Variable(len(offsets), nonneg=True)
        weight = objective.weights[blocks]
        member = (blocks[None, :] == np.arange(objective.n_blocks)[:, None]).astype(float)
        f = (normals * weight[:, None]).T @ alphas
        dual = (weight * offsets) @ alphas - 0.5 * cp.sum_squares(f)
        problem = cp.Problem(cp.Maximize(dual), [member @ alphas == 1])
        problem.solve(solver=self.cvxpy_solver)
        found = np.maximum(alphas.value, 0.0)
        return found / (member @ found)[blocks]

    def bounds(self, objective: Objective, state: ReferenceState) -> Bounds:
        found = state.planes
        linear = (objective.weights[found.blocks] * found.offsets) @ found.alphas
        return Bounds(state.f, float(linear - 0.5 * state.f @ state.f))


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
        self, objective: Objective, rng: np.random.Generator, start: Start | None, solver: Representer
    ) -> None:
        super().__init__(objective, rng, None, solver)
        self.slopes = np.clip(self.slopes, *self.problem.loss.domain())
        self.cvxpy_solver = solver.cvxpy_solver
        self.solved = False

    @classmethod
    def check(cls, objective: Objective, solver: Representer) -> None:
        problem = coefficient_problem(objective, cls.name)
        if not problem.space.system.fits:
            raise ValueError(
                f"{cls.name} stores the Gram matrix, but that of {problem.size} functionals requires "
                "more than cache_mb: increase cache_mb, or use method='newton-cg'"
            )
        import cvxpy as cp

        for term in problem.terms:
            term.loss.expression(cp.Variable(len(term.weights)))
        names = cp.installed_solvers()
        if solver.cvxpy_solver not in names:
            raise ValueError(f"cvxpy_solver must be one of {names}, got {solver.cvxpy_solver!r}")

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
        edges = np.cumsum([0, *problem.sizes])
        parts = zip(problem.terms, edges[:-1], edges[1:], strict=True)
        losses = [
            cp.sum(cp.multiply(term.weights, term.loss.expression(u[first:last])))
            for term, first, last in parts
            if np.any(term.weights > 0)
        ]
        used = np.flatnonzero(np.any(problem.basis != 0, axis=0))
        free: Any = cp.Variable(len(used)) if len(used) else None
        roots = _roots(problem)
        # The squared norm of f is the sum of those of z, of which each output has one.
        z: list[Any] = [cp.Variable(root.shape[1]) for _, root, _ in roots]
        equations = []
        for (rows, root, _), own in zip(roots, z, strict=True):
            of_basis = problem.basis[np.ix_(rows, used)]
            free_part = of_basis @ free if np.any(of_basis) else 0.0
            equations.append(u[rows] == root @ own + free_part)
        half = 0.5 * cp.sum([cp.sum_squares(own) for own in z])
        program = cp.Problem(cp.Minimize(half + cp.sum(cp.hstack([0.0, *losses]))), equations)
        program.solve(solver=self.cvxpy_solver)
        if z[0].value is None:
            raise ValueError(
                f"cvxpy_solver={self.cvxpy_solver!r} ended with status {program.status!r}: scale the "
                "features, lower C, or use another solver"
            )
        forces = np.zeros(problem.size)
        for (rows, _, inverse), own, equation in zip(roots, z, equations, strict=True):
            self.coefficients[rows] = inverse @ own.value
            forces[rows] = np.ravel(equation.dual_value)
        if free is not None:
            self.free[used] = free.value
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


def _roots(problem: CoefficientProblem) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Return the coefficient numbers of each output, a root of its Gram matrix, and the inverse.

    The inverse is the transposed pseudoinverse. Outputs with the same Gram matrix share one root.
    """
    known: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    for _, gram in problem.by_output:
        if id(gram) not in known:
            values, vectors = np.linalg.eigh(gram)
            long = values > NEGLIGIBLE * values[-1]
            lengths = np.sqrt(values[long])
            known[id(gram)] = vectors[:, long] * lengths, vectors[:, long] / lengths
    return [(rows, *known[id(gram)]) for rows, gram in problem.by_output]
