"""A reference solver: every master problem by cvxpy, for tests and tiny problems."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..spaces import ExplicitSpace
from ..terms import Objective
from ..terms.planes import PlaneSet
from .base import Bounds, Solver, check_planes


@dataclass
class ReferenceState:
    """All planes found, the masses of the last master problem, and its minimiser."""

    normals: np.ndarray
    offsets: np.ndarray
    blocks: np.ndarray
    masses: np.ndarray
    f: np.ndarray


class Reference(Solver):
    """Cutting planes whose master problem is handed, whole and unscaled, to a cvxpy solver.

    Parameters
    ----------
    cvxpy_solver : str, default="CLARABEL"

    Examples
    --------
    >>> Reference()
    Reference()
    """

    def __init__(self, cvxpy_solver: str = "CLARABEL") -> None:
        self.cvxpy_solver = cvxpy_solver

    def validate(self, objective: Objective) -> None:
        """See `Solver.validate`; ValueError for a space other than one of explicit features."""
        check_planes("Reference", objective)
        if not isinstance(objective.space, ExplicitSpace):
            raise ValueError(
                f"Reference needs an ExplicitSpace, got a {type(objective.space).__name__}: its master "
                "problem is written over the weights of explicit features"
            )

    def init(
        self, objective: Objective, rng: np.random.Generator, planes: PlaneSet | None = None
    ) -> ReferenceState:
        """See `Solver.init`; starts from nothing."""
        size = len(objective.space.zeros())
        every = np.arange(objective.n_blocks)
        null = np.zeros((objective.n_blocks, size))
        masses = np.ones(objective.n_blocks)
        return ReferenceState(null, objective.floors.copy(), every, masses, np.zeros(size))

    def step(self, objective: Objective, state: ReferenceState) -> None:
        planes = objective.planes(state.f)
        normals: Any = planes.normals
        dense = normals if isinstance(normals, np.ndarray) else normals.toarray()
        state.normals = np.vstack([state.normals, dense])
        state.offsets = np.concatenate([state.offsets, planes.offsets])
        state.blocks = np.concatenate([state.blocks, np.arange(objective.n_blocks)])
        self._solve_master(objective, state)

    def _solve_master(self, objective: Objective, state: ReferenceState) -> None:
        import cvxpy as cp

        masses: Any = cp.Variable(len(state.offsets), nonneg=True)
        weight = objective.weights[state.blocks]
        member = (state.blocks[None, :] == np.arange(objective.n_blocks)[:, None]).astype(float)
        f = (state.normals * weight[:, None]).T @ masses
        dual = (weight * state.offsets) @ masses - 0.5 * cp.sum_squares(f)
        problem = cp.Problem(cp.Maximize(dual), [member @ masses == 1])
        problem.solve(solver=self.cvxpy_solver)
        found = np.maximum(masses.value, 0.0)
        state.masses = found / (member @ found)[state.blocks]
        state.f = (state.normals * weight[:, None]).T @ state.masses

    def bounds(self, objective: Objective, state: ReferenceState) -> Bounds:
        linear = (objective.weights[state.blocks] * state.offsets) @ _padded(state)
        return Bounds(state.f, float(linear - 0.5 * state.f @ state.f))

    def planes(self, objective: Objective, state: ReferenceState) -> PlaneSet:
        return PlaneSet(state.normals, state.offsets, state.blocks, _padded(state))


def _padded(state: ReferenceState) -> np.ndarray:
    masses = np.zeros(len(state.offsets))
    masses[: len(state.masses)] = state.masses
    return masses
