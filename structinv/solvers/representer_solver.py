"""The representer-theorem solver: the coefficients of all functionals at once."""

from __future__ import annotations

import numpy as np

from ..terms import Objective
from ..terms.planes import PlaneSet
from ..utils.parameters import check_number
from .base import Bounds, Solver
from .convex_program import ConvexProgram, check_cvxpy_solver
from .dual_coordinates import SELECTIONS, DualCoordinates
from .dual_interior import DualInterior
from .method import Method
from .newton_cg import NewtonCG
from .smooth import LBFGS

METHODS: dict[str, type[Method]] = {
    "lbfgs": LBFGS,
    "newton-cg": NewtonCG,
    "dual-interior": DualInterior,
    "dual-cd": DualCoordinates,
    "cvxpy": ConvexProgram,
}


class Representer(Solver):
    """Solves for the coefficients of representers (Zhang, Lee and Teh 2013, theorem 1).

    For objectives of penalties on families of functionals in a `RepresenterSpace`; labels of a loss
    are penalties on evaluations.

    Parameters
    ----------
    method : {"auto", "lbfgs", "newton-cg", "dual-interior", "dual-cd", "cvxpy"}, default="auto"
        "newton-cg" and "lbfgs" descend in the function space with fast products; losses with kinks
        are smoothed on the way, which the gap accounts for. Up to some thousand functionals "newton-cg"
        solves its equations by factors of the Gram matrix. "dual-interior" takes the dual within its
        bounds, if all derivatives are piecewise linear: some ten factorizations of the Gram matrix.
        "dual-cd" goes through the dual's coordinates one by one, and takes worst-case losses too, adding
        the changes that violate. "cvxpy" forms everything and takes any loss written in cvxpy. "auto" is
        "dual-cd" with worst cases, "cvxpy" with losses that only cvxpy knows, "dual-interior" where
        kinks hold most of up to some thousand functionals (absolute and epsilon-insensitive penalties),
        "newton-cg" otherwise.
    selection : {"random", "steepest"}, default="random"
        The order of coordinates in "dual-cd".
    plane_tol : float, default=0.0
        Of worst-case losses in "dual-cd"; see `FrankWolfe`.
    cvxpy_solver : str, default="CLARABEL"

    Examples
    --------
    >>> Representer(method="lbfgs")
    Representer(method='lbfgs')
    """

    def __init__(
        self,
        method: str = "auto",
        *,
        selection: str = "random",
        plane_tol: float = 0.0,
        cvxpy_solver: str = "CLARABEL",
    ) -> None:
        self.method = method
        self.selection = selection
        self.plane_tol = plane_tol
        self.cvxpy_solver = cvxpy_solver

    def resolved(self, objective: Objective) -> str:
        """The method that "auto" stands for with an objective."""
        if self.method != "auto":
            return self.method
        found = [term.coordinates() for term in objective.terms]
        if any(each is None for each in found):
            return "dual-cd"
        if any(each is not None and not each.loss.has_slopes for each in found):
            return "cvxpy"
        return "dual-interior" if DualInterior.pays(objective) else "newton-cg"

    def _method(self, objective: Objective) -> type[Method]:
        return METHODS[self.resolved(objective)]

    def validate(self, objective: Objective) -> None:
        names = ["auto", *METHODS]
        if self.method not in names:
            raise ValueError(f"method must be one of {names}, got {self.method!r}")
        check_number("plane_tol", self.plane_tol)
        if self.selection not in SELECTIONS:
            raise ValueError(f"selection must be one of {list(SELECTIONS)}, got {self.selection!r}")
        method = self.resolved(objective)
        if self.plane_tol > 0 and method != "dual-cd":
            raise ValueError(f"plane_tol above 0 needs method 'dual-cd', got {method!r}")
        if self.selection != "random" and method != "dual-cd":
            raise ValueError(f"selection={self.selection!r} needs method 'dual-cd', got {method!r}")
        METHODS[method].check(objective)
        if method == "cvxpy":
            check_cvxpy_solver(self.cvxpy_solver)

    def starts_from_planes(self, objective: Objective) -> bool:
        return self._method(objective).uses_planes

    def checks_planes(self, objective: Objective) -> bool:
        return self._method(objective).checks_planes(objective, self.plane_tol)

    def init(
        self, objective: Objective, rng: np.random.Generator, planes: PlaneSet | None = None
    ) -> Method:
        method = self._method(objective)
        if method is DualCoordinates:
            return DualCoordinates(objective, rng, planes, self.plane_tol, self.selection)
        if method is ConvexProgram:
            return ConvexProgram(objective, rng, planes, self.cvxpy_solver)
        return method(objective, rng, planes)

    def step(self, objective: Objective, state: Method) -> float | None:
        return state.step(objective)

    def finished(self, objective: Objective, state: Method) -> bool:
        return state.finished(objective)

    def bounds(self, objective: Objective, state: Method) -> Bounds:
        return state.bounds(objective)

    def planes(self, objective: Objective, state: Method) -> PlaneSet:
        return state.planes(objective)
