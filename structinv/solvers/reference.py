"""Reference solver by cvxpy, for tests and very small problems."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..spaces import ExplicitSpace
from ..terms import Objective
from ..terms.planes import PlaneSet
from .base import Bounds, Solver, Start, check_planes


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
