"""Solver for the coefficients of representers (representer theorem)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..terms import Objective
from ..utils.parameters import check_number
from ..utils.row_arrays import Arrays
from .base import Bounds, Solver, Start
from .coefficients import CoefficientMethod
from .cvxpy_solvers import ConvexProgram
from .dual_coordinates import DualCoordinates
from .newton_cg import NewtonCG

Method = CoefficientMethod | DualCoordinates

METHODS: dict[str, Any] = {
    "newton-cg": NewtonCG,
    "dual-cd": DualCoordinates,
    "cvxpy": ConvexProgram,
}


class Representer(Solver):
    """Minimization over the coefficients of representers.

    The optimum is a sum of representers (Zhang, Lee and Teh 2013, theorem 1). The solver supports
    penalties on families of functionals in a `RepresenterSpace`. The loss of labels is also a penalty:
    its functionals are the evaluations at the samples.

    Parameters
    ----------
    method : {"auto", "newton-cg", "dual-cd", "cvxpy"}, default="auto"
        Optimization method.

        - "newton-cg" is Newton's method in the function space, with fast products of the Gram matrix. It
          smooths losses with kinks, and the duality gap includes the error. For up to 3000 functionals,
          it may factorize the Gram matrix.
        - "dual-cd" is coordinate ascent in the dual. It also supports worst-case losses.
        - "cvxpy" supports any loss written in cvxpy, for small problems.
        - "auto" is "dual-cd" for worst-case losses, "cvxpy" for losses without a derivative, and
          "newton-cg" for all others.
    plane_tol : float, default=0.0
        Plane tolerance of worst-case losses in "dual-cd" (>= 0). Larger values give fewer support
        vectors and a larger gap.
    cvxpy_solver : str, default="CLARABEL"
        Name of an installed solver of cvxpy, for "cvxpy".

    See Also
    --------
    FrankWolfe : Block-coordinate steps in the dual, for worst-case losses.
    structinv.spaces.RepresenterSpace : Space of the functions.

    Examples
    --------
    >>> from structinv.solvers import Representer
    >>> Representer(method="newton-cg")
    Representer(method='newton-cg')
    """

    still_iterations = 100

    def __init__(
        self,
        method: str = "auto",
        *,
        plane_tol: float = 0.0,
        cvxpy_solver: str = "CLARABEL",
    ) -> None:
        self.method = method
        self.plane_tol = plane_tol
        self.cvxpy_solver = cvxpy_solver

    def resolved(self, objective: Objective) -> str:
        """Return the name of the method for an objective, instead of "auto".

        Parameters
        ----------
        objective : Objective
            Objective to minimize.

        Returns
        -------
        str
            Name of the method.
        """
        if self.method != "auto":
            return self.method
        found = [term.coordinates() for term in objective.terms]
        if any(each is None for each in found):
            return "dual-cd"
        if any(each is not None and not each.loss.has_slopes for each in found):
            return "cvxpy"
        return "newton-cg"

    def validate(self, objective: Objective) -> None:
        names = ["auto", *METHODS]
        if self.method not in names:
            raise ValueError(f"method must be one of {names}, got {self.method!r}")
        check_number("plane_tol", self.plane_tol)
        method = self.resolved(objective)
        if self.plane_tol > 0 and method != "dual-cd":
            raise ValueError(f"plane_tol must be 0 unless method is 'dual-cd', got method {method!r}")
        METHODS[method].check(objective, self)

    def init(self, objective: Objective, rng: np.random.Generator, start: Start | None = None) -> Method:
        return METHODS[self.resolved(objective)](objective, rng, start, self)

    def step(self, objective: Objective, state: Method) -> float | None:
        return state.step(objective)

    def finished(self, objective: Objective, state: Method) -> bool:
        return state.finished(objective)

    def bounds(self, objective: Objective, state: Method) -> Bounds:
        return state.bounds(objective)

    def dual_variables(self, objective: Objective, state: Method) -> list[Arrays]:
        return state.dual_variables(objective)
