"""Newton's method in the function space, with conjugate gradients or factors."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import numpy as np
from scipy.linalg import LinAlgError

from ..spaces.representer_space import RepresenterSystem
from ..terms import Objective
from ..utils.matrices import one_blas_thread
from .coefficient_objectives import CoefficientProblem
from .gram_systems import Equations
from .smooth import SmoothDescent

# Assumed number of products of a step by conjugate gradients. Number of operations below which factors
# are always used.
PRODUCTS_FOR_FACTORS, CHEAP = 300, 1e7
# Maximum numbers of functionals for a factorization, and of products of a step.
MAX_DIRECT, MAX_PRODUCTS = 3000, 200
# Maximum number of functionals for which one thread of BLAS is faster than several.
ONE_THREAD = 1500


class NewtonCG(SmoothDescent):
    """Newton steps in the function space by conjugate gradients.

    A step d solves ``(I + sum_i c_i r_i'' z_i z_i') d = - gradient``. Conjugate gradients in the inner
    product of the function space take one product with G per iteration. The number of iterations
    depends on the spread of the eigenvalues of ``c r'' G`` above 1, not of those of G. Factors of the
    Gram matrix solve the equations if they cost less than the products.
    """

    name = "Representer(method='newton-cg')"

    def step(self, objective: Objective) -> float | None:
        system = self.problem.space.system
        small = factors_pay(system) and system.size <= ONE_THREAD
        with one_blas_thread() if small else nullcontext():
            return super().step(objective)

    def _direction(self, objective: Objective) -> tuple[np.ndarray, np.ndarray]:
        problem = self.problem
        bend = problem.weights * self.loss.curvature(self.all_functionals)
        if factors_pay(problem.space.system):
            try:
                return _solved(problem, bend, self.gradient)
            except LinAlgError:
                # If the norms of representers differ very much, products have smaller rounding errors
                # than factors.
                pass
        project = _without_free(problem.basis, bend)
        first = 2.0 * self.smooth_gap
        # The tolerance decreases near the optimum, for quadratic convergence.
        value = abs(float(self.bounds(objective).upper or 1.0)) + np.finfo(float).tiny
        tolerance = min(0.05, first / value) * first
        x, of_x = np.zeros(problem.size), np.zeros(problem.size)
        r, of_r, left = -self.gradient, -self.of_gradient, first
        p, of_p = r, of_r
        for _ in range(MAX_PRODUCTS):
            bent = project(of_p)
            length = left / (float(p @ of_p) + float(of_p @ bent))
            x, of_x = x + length * p, of_x + length * of_p
            r = r - length * (p + bent)
            of_r = problem.product(r)
            before, left = left, max(float(r @ of_r), 0.0)
            # Every iterate of conjugate gradients is a descent direction.
            if left <= tolerance or objective.out_of_time():
                break
            p, of_p = r + left / before * p, of_r + left / before * of_p
        return x, of_x


def factors_pay(system: RepresenterSystem) -> bool:
    """Return whether factors of the Gram matrix fit and cost less than products."""
    if system.size > MAX_DIRECT or not system.fits:
        return False
    return system.size**3 / 3.0 <= max(PRODUCTS_FOR_FACTORS * system.product_cost, CHEAP)


def _solved(
    problem: CoefficientProblem, bend: np.ndarray, gradient: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the Newton step by factors of the Gram matrix, and its functionals.

    For functionals without curvature the step is ``-g``. For the others it solves
    ``(W^-1 + G) d = - W^-1 g - G d_others`` with ``B' d = - B' d_others`` for the free part. The slopes
    then still satisfy the equations of the dual.
    """
    others = np.where(bend > 0, 0.0, -gradient)
    right = gradient
    if np.any(others):
        right = gradient + bend * problem.formed_product(others)
    found, _ = Equations(problem, bend, exact=True).solve(right, others)
    direction = others + found
    return direction, problem.formed_product(direction)


def _without_free(basis: np.ndarray, bend: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function that multiplies by ``W - W B (B' W B)^+ B' W``, to eliminate the free part."""
    if basis.shape[1] == 0:
        return lambda values: bend * values
    weighted = bend[:, None] * basis
    inverse = np.linalg.pinv(basis.T @ weighted, hermitian=True)
    return lambda values: bend * values - weighted @ (inverse @ (weighted.T @ values))
