"""Newton's method in the function space, with conjugate gradients or factors."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.optimize import brentq

from ..functionals.representers import Representers
from ..losses import ScalarLoss
from ..losses.combined import Affine, ConcatenatedLoss
from ..terms import Objective
from ..utils.matrices import one_blas_thread
from .base import Start
from .coefficients import CoefficientMethod, CoefficientProblem, coefficient_problem

if TYPE_CHECKING:
    from .representer import Representer

# Envelopes are narrowed if smoothing causes more than this fraction of the gap.
HIDDEN_SHARE = 0.5
# Initial width of envelopes, relative to the median of weight times squared norm of a representer.
FIRST_WIDTH = 1.0
NARROWEST = 1e-9
FREE_STEPS = 50
LINE_STEPS, LINE_ACCURACY = 30, 0.1
# Assumed number of products of a step by conjugate gradients. Number of operations below which factors
# are always used.
PRODUCTS_FOR_FACTORS, CHEAP = 300, 1e7
# Maximum numbers of functionals for a factorization, and of products of a step.
MAX_DIRECT, MAX_PRODUCTS = 3000, 200
# Maximum number of functionals for which one thread of BLAS is faster than several.
ONE_THREAD = 1500


class NewtonCG(CoefficientMethod):
    """Newton steps on f in the function space, by conjugate gradients.

    For coefficients a, the gradient of the function space has the coefficients ``a + c r'(G a)``. At any
    f the slopes ``p = r'(u)`` are dual feasible, with the gap ``1/2 |gradient|^2``. The free part is
    optimal at every f, so the slopes satisfy the equations of the dual.

    A step d solves ``(I + sum_i c_i r_i'' z_i z_i') d = - gradient``. Conjugate gradients in the inner
    product of the function space take one product with G per iteration. The number of iterations
    depends on the spread of the eigenvalues of ``c r'' G`` above 1, not of those of G. Factors of the
    Gram matrix solve the equations if they cost less than the products.

    Losses with kinks are replaced by envelopes ``max_p p u - r*(p) - w/2 (p - q)^2`` of width w. Their
    centers q are updated to the slopes found. This is the proximal point method on the dual
    (Rockafellar 1976), so w need not converge to zero. The reported gap is that of the original losses.

    Shapes: `widths` (n_terms,), `narrowest` (n_terms,), `slopes` (n,), `gradient` (n,), `of_gradient`
    (n,).
    """

    name = "Representer(method='newton-cg')"

    @classmethod
    def check(cls, objective: Objective, solver: Representer) -> None:
        for term in coefficient_problem(objective, cls.name).terms:
            loss = term.loss
            if not loss.smooth and loss.pieces() is None:
                raise ValueError(
                    f"{cls.name} requires losses that are smooth or have a piecewise linear derivative, "
                    f"got {loss!r}: use Representer(method='cvxpy')"
                )

    def __init__(
        self, objective: Objective, rng: np.random.Generator, start: Start | None, solver: Representer
    ) -> None:
        super().__init__(objective, rng, start, solver)
        self.widths = _first_widths(self.problem, rng)
        self.narrowest = NARROWEST * self.widths
        self.steps_of_envelope = 0
        self.loss = _enveloped(self.problem, self.widths, self.slopes)
        self._update_gradient()

    def step(self, objective: Objective) -> float | None:
        system = self.problem.space.system
        small = factors_pay(system) and system.size <= ONE_THREAD
        with one_blas_thread() if small else nullcontext():
            return self._step(objective)

    def _step(self, objective: Objective) -> float:
        gap, hidden = self._gaps(objective)
        self.steps_of_envelope += 1
        if hidden > HIDDEN_SHARE * gap:
            # After few steps with the last envelope, the next one is much narrower.
            narrower = min(0.1 * self.steps_of_envelope, 0.6) * self.widths
            self.widths = np.maximum(narrower, self.narrowest)
            self.steps_of_envelope = 0
            self.loss = _enveloped(self.problem, self.widths, self.slopes)
            self._update_gradient()
        self._search(*self._direction(objective))
        return self._gaps(objective)[0]

    def _direction(self, objective: Objective) -> tuple[np.ndarray, np.ndarray]:
        """Return a descent direction and its functionals; the best one so far if the time is up."""
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

    @property
    def smooth_gap(self) -> float:
        """Duality gap of the minimized losses at f, ``1/2 |gradient|^2``."""
        return 0.5 * max(float(self.gradient @ self.of_gradient), 0.0)

    def _update_gradient(self) -> None:
        """Compute the slopes and the gradient at the current point, by one product."""
        problem = self.problem
        self.free = _best_free(problem, self.loss, self.functionals, self.free)
        self.slopes = self.loss.derivative(self.all_functionals)
        self.gradient = self.coefficients + problem.weights * self.slopes
        self.of_gradient = problem.product(self.gradient)
        self._known = None

    def _search(self, direction: np.ndarray, of_direction: np.ndarray) -> None:
        """Do a line search along a direction, with one product."""
        problem = self.problem
        linear = float(self.coefficients @ of_direction)
        square = float(direction @ of_direction)
        start = self.all_functionals
        step = self._free_step(start, of_direction)
        of_step = of_direction + problem.basis @ step

        def slope(length: float) -> float:
            own = problem.weights * self.loss.derivative(start + length * of_step)
            return linear + length * square + float(own @ of_step)

        length = _root(slope, float(self.gradient @ of_direction))
        self.coefficients = self.coefficients + length * direction
        self.functionals = self.functionals + length * of_direction
        self.free = self.free + length * step
        self._update_gradient()

    def _free_step(self, u: np.ndarray, of_direction: np.ndarray) -> np.ndarray:
        """Return the change of the optimal free part along a direction of f, to first order."""
        basis = self.problem.basis
        if basis.shape[1] == 0:
            return np.zeros(0)
        weighted = (self.problem.weights * self.loss.curvature(u))[:, None] * basis
        return -np.linalg.pinv(basis.T @ weighted, hermitian=True) @ (weighted.T @ of_direction)

    def _gaps(self, objective: Objective) -> tuple[float, float]:
        """Return the gap of the original losses, and the part that is due to envelopes."""
        bounds = self.bounds(objective)
        gap = float(bounds.upper or 0.0) - bounds.dual
        return gap, max(gap - self.smooth_gap, 0.0)

    def _dual_function(self, slopes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if slopes is not self.slopes:
            return super()._dual_function(slopes)
        # The coefficients are a - g, whose product with G is already computed.
        return self.coefficients - self.gradient, self.functionals - self.of_gradient


def factors_pay(system: Representers) -> bool:
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
    direction = others + _solve_equations(problem, bend, right, others)
    return direction, problem.formed_product(direction)


def _solve_equations(
    problem: CoefficientProblem, weights: np.ndarray, right: np.ndarray, coefficients: np.ndarray
) -> np.ndarray:
    """Return d with ``(G + W^-1) d - B b = - W^-1 right`` and ``B' d = - B' coefficients``.

    Rows with weight 0 have d = 0. LinAlgError is raised if a matrix is not positive definite.
    """
    found = np.zeros(problem.size)
    for rows, gram in problem.by_output:
        used = weights[rows] > 0
        chosen = rows[used]
        if len(chosen) == 0:
            continue
        inverse = 1.0 / weights[chosen]
        # The matrix is symmetric, so its transpose has the order of memory that LAPACK requires.
        matrix = np.array(gram if used.all() else gram[np.ix_(used, used)], dtype=np.float64).T
        np.fill_diagonal(matrix, np.diagonal(matrix) + inverse)
        factors = cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
        if not np.all(np.isfinite(np.diagonal(factors[0]))):
            raise LinAlgError("a Gram matrix contains NaN or infinity")
        found[chosen] = cho_solve(factors, -inverse * right[chosen], check_finite=False)
        basis = problem.basis[rows]
        columns = np.flatnonzero(np.any(basis != 0, axis=0))
        if len(columns):
            border = problem.basis[np.ix_(chosen, columns)]
            inverse_border = cho_solve(factors, border, check_finite=False)
            excess = -basis[:, columns].T @ coefficients[rows] - border.T @ found[chosen]
            free = np.linalg.lstsq(border.T @ inverse_border, excess, rcond=None)[0]
            found[chosen] += inverse_border @ free
    return found


def _without_free(basis: np.ndarray, bend: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function that multiplies by ``W - W B (B' W B)^+ B' W``, to eliminate the free part."""
    if basis.shape[1] == 0:
        return lambda values: bend * values
    weighted = bend[:, None] * basis
    inverse = np.linalg.pinv(basis.T @ weighted, hermitian=True)
    return lambda values: bend * values - weighted @ (inverse @ (weighted.T @ values))


def _root(slope: Callable[[float], float], first: float) -> float:
    """Return an approximate root of the increasing function `slope`; `first` < 0 is its value at 0.

    The first trial value is 1.
    """
    low, of_low, length = 0.0, first, 1.0
    high, of_high = np.inf, np.inf
    for _ in range(LINE_STEPS):
        here = slope(length)
        if abs(here) <= LINE_ACCURACY * abs(first):
            break
        if here < 0:
            low, of_low = length, here
        else:
            high, of_high = length, here
        if not np.isfinite(high):
            length = 2.0 * length
        else:
            # Regula falsi, with a distance from the ends, because kinks may be near them.
            share = of_low / (of_low - of_high)
            length = low + min(max(share, 0.1), 0.9) * (high - low)
    return length


def _first_widths(problem: CoefficientProblem, rng: np.random.Generator) -> np.ndarray:
    """Return the initial envelope width of each term with kinks; 0 for smooth terms."""
    widths = np.zeros(len(problem.terms))
    if problem.loss.smooth:
        return widths
    signs = rng.choice([-1.0, 1.0], problem.size)
    # Estimates of the squared norms of representers: for random signs s, the mean of s_i (G s)_i is
    # G_ii.
    squares = np.abs(signs * problem.product(signs))
    parts = zip(problem.by_term(problem.weights * squares), problem.terms, strict=True)
    for number, (reach, term) in enumerate(parts):
        if not term.loss.smooth:
            # A term without weight also needs a positive width.
            widths[number] = FIRST_WIDTH * float(np.median(reach)) or 1.0
    return widths


def _enveloped(problem: CoefficientProblem, widths: np.ndarray, centers: np.ndarray) -> ScalarLoss:
    """Return the losses, with envelopes around the centers for losses with kinks."""
    losses: list[ScalarLoss] = []
    for term, width, own in zip(problem.terms, widths, problem.by_term(centers), strict=True):
        # Up to a constant, the envelope around q at u is the envelope around 0 at u + w q.
        envelope = term.loss.smoothed(float(width))
        losses.append(term.loss if term.loss.smooth else Affine(envelope, 1.0, -width * own))
    return ConcatenatedLoss(losses, problem.sizes)


def _best_free(
    problem: CoefficientProblem, loss: ScalarLoss, functionals: np.ndarray, start: np.ndarray
) -> np.ndarray:
    """Return the optimal free part for f."""
    basis, weights = problem.basis, problem.weights
    if basis.shape[1] == 0:
        return start
    free = start.copy()
    if problem.space.n_free > 1:
        rows = np.flatnonzero(np.any(basis != 0, axis=1) & (weights > 0))
        return _by_newton(basis[rows], weights[rows], loss.take(rows), functionals[rows], free)
    for output in range(basis.shape[1]):
        rows = np.flatnonzero((basis[:, output] != 0) & (weights > 0))
        if len(rows):
            own = basis[rows, output], weights[rows], loss.take(rows), functionals[rows]
            free[output] = _best_constant(*own, free[output])
    return free


def _best_constant(
    basis: np.ndarray, weights: np.ndarray, loss: ScalarLoss, functionals: np.ndarray, start: float
) -> float:
    """Return the root b of the increasing function ``sum_i c_i B_i r_i'(u_i + B_i b)``."""
    scaled = weights * basis

    def slope(b: float) -> float:
        return float(scaled @ loss.derivative(functionals + b * basis))

    first = slope(start)
    if first == 0:
        return start
    # Increasing steps toward the other sign.
    step, near = -np.sign(first) * 1e-3 * (1.0 + abs(start)), start
    for _ in range(FREE_STEPS):
        far = start + step
        after = slope(far)
        if after == 0:
            return far
        if np.sign(after) != np.sign(first):
            return float(brentq(slope, near, far, xtol=1e-15 * (1.0 + abs(far)), rtol=1e-15))
        near, step = far, 4.0 * step
    return start


def _by_newton(
    basis: np.ndarray, weights: np.ndarray, loss: ScalarLoss, functionals: np.ndarray, free: np.ndarray
) -> np.ndarray:
    """Return the optimal free coefficients, by Newton's method with backtracking."""
    value = weights @ loss.value(functionals + basis @ free)
    scale = np.abs(basis).T @ weights
    for _ in range(FREE_STEPS):
        u = functionals + basis @ free
        slope = basis.T @ (weights * loss.derivative(u))
        if np.all(np.abs(slope) <= 1e-13 * scale):
            break
        bend = basis.T @ ((weights * loss.curvature(u))[:, None] * basis)
        # Without curvature, such as far from all kinks, a small regularization gives a long step.
        bend = bend + 1e-6 * max(np.trace(bend), 1e-6 * scale.max()) * np.eye(len(bend))
        step = -np.linalg.solve(bend, slope)
        length = 1.0
        while length > 1e-12:
            lower = weights @ loss.value(functionals + basis @ (free + length * step))
            if lower <= value + 1e-4 * length * float(slope @ step):
                break
            length *= 0.5
        else:
            break
        free, value = free + length * step, lower
    return free
