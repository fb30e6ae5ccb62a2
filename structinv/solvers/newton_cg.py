"""Newton's method in the function space, its equations solved by conjugate gradients."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import numpy as np
from scipy.linalg import LinAlgError

from ..spaces.representer_space import RepresenterSystem
from ..terms import Objective
from ..utils.matrices import one_blas_thread
from .coefficients import CoefficientProblem
from .equations import Equations
from .smooth import SmoothDescent

# How many products a step by conjugate gradients is reckoned with, and how many operations are nothing.
PRODUCTS_FOR_FACTORS, CHEAP = 300, 1e7
# Most functionals whose Gram matrix is formed, and most products of a step.
MAX_DIRECT, MAX_PRODUCTS = 3000, 200
# Up to so many functionals one thread of BLAS is faster than several.
ONE_THREAD = 1500


class NewtonCG(SmoothDescent):
    """Newton steps ``(I + sum_i c_i r_i'' z_i z_i') d = - gradient`` by conjugate gradients.

    The iteration runs in the inner product of the function space: one product with G an iteration,
    and as many as the spread of ``c r'' G`` beyond 1 asks for, not that of G. Where factors of the
    Gram matrix cost less than products, they solve the equations.
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
                # Rounding in a Gram matrix of very different lengths; products lose less.
                pass
        project = _without_free(problem.basis, bend)
        first = 2.0 * self.smooth_gap
        # Tighter as the value is nearer to the optimum, for steps that square the error.
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
            # Every iterate of conjugate gradients is a direction of descent.
            if left <= tolerance or objective.out_of_time():
                break
            p, of_p = r + left / before * p, of_r + left / before * of_p
        return x, of_x


def factors_pay(system: RepresenterSystem) -> bool:
    """Whether a Gram matrix fits, and a factorization of it costs less than products would."""
    if system.size > MAX_DIRECT or not system.fits:
        return False
    return system.size**3 / 3.0 <= max(PRODUCTS_FOR_FACTORS * system.product_cost, CHEAP)


def _solved(
    problem: CoefficientProblem, bend: np.ndarray, gradient: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The Newton step by factors of the Gram matrix, output by output, and its functionals.

    Where nothing bends it is ``-g``; for the others ``(W^-1 + G) d = - W^-1 g - G d_others``, bordered
    by ``B' d = - B' d_others`` for the move of the free part, so that the slopes go on satisfying the
    dual's equations.
    """
    others = np.where(bend > 0, 0.0, -gradient)
    right = gradient
    if np.any(others):
        right = gradient + bend * problem.formed_product(others)
    found, _ = Equations(problem, bend, exact=True).solve(right, others)
    direction = others + found
    return direction, problem.formed_product(direction)


def _without_free(basis: np.ndarray, bend: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Multiplication by ``W - W B (B' W B)^+ B' W``: the free part follows f."""
    if basis.shape[1] == 0:
        return lambda values: bend * values
    weighted = bend[:, None] * basis
    inverse = np.linalg.pinv(basis.T @ weighted, hermitian=True)
    return lambda values: bend * values - weighted @ (inverse @ (weighted.T @ values))
