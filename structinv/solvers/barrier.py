"""Interior-point method for the quadratic program over cutting planes.

``min 1/2 |w|^2 + sum_b c_b xi_b`` subject to ``xi_b >= offset_j - <normal_j, w>`` for the planes j of
block b, and ``xi_b >= 0``. Pairwise steps on the dual are slow if normals are long and nearly parallel.
Newton's method on the barrier does not depend on the scale of the normals (Mehrotra 1992). Its equations
cost much more to form than to solve, so a step is corrected several times (Gondzio 1996).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from ..utils.jit import LEAN, njit
from ..utils.matrices import in_threads, one_blas_thread

# Maximum number of Newton steps, and number of bisections for the centered iterate.
MAX_STEPS = 50
CENTRING_STEPS = 60
# Fraction of the distance to the boundary that a step may take, as usual in interior-point methods.
TO_BOUNDARY = 0.995
# Gondzio's correctors: maximum number, additional step length to aim at, and the fraction of it that
# justifies another corrector. Products of slack and dual variable are corrected outside these multiples
# of their target.
CORRECTORS, LONGER, WORTH = 3, 0.3, 0.1
NEAR_LOW, NEAR_HIGH = 0.3, 5.0
# Shorter steps are rounding errors.
SHORTEST = 1e-9
# Steps are refined if their rounding errors change the gap by more than this fraction of the tolerance.
ROUNDING = 0.01
# Smaller values on the diagonal of Newton's equations are rounding errors.
TINY = 1e-15
# Number of multiplications in a matrix product that take as long as one value in other operations.
PRODUCTS_OF_A_VALUE = 50
# Rows are stored in full if there are more different coefficient vectors per output.
MOST_KINDS = 16


class OuterProductRows:
    """Rows ``vec(u_j (x) x_j)``, grouped by their coefficients u_j.

    A plane of a multiclass loss is a sample times the difference of two unit vectors, so few different
    u_j occur. A product then costs one product with the samples. A second moment has one block for each
    pair of outputs.

    Shapes: `points` (m, p), `coefficients` (m, k).
    """

    def __init__(self, points: np.ndarray, coefficients: np.ndarray) -> None:
        # The pairs (-u, -x) and (u, x) have the same outer product. Equal signs leave half as many
        # groups.
        first = np.argmax(coefficients != 0, axis=1)[:, None]
        signs = np.where(np.take_along_axis(coefficients, first, axis=1) < 0, -1.0, 1.0)
        points, coefficients = signs * points, signs * coefficients
        order = np.lexsort(coefficients.T)
        ordered = coefficients[order]
        edges = np.flatnonzero(np.any(ordered[1:] != ordered[:-1], axis=1)) + 1
        edges = np.concatenate([[0], edges, [len(order)]])
        kinds = ordered[edges[:-1]]
        if len(kinds) > MOST_KINDS * coefficients.shape[1]:
            written = coefficients[:, :, None] * points[:, None, :]
            points, kinds = written.reshape(len(points), -1), np.ones((1, 1))
            order, edges = np.arange(len(points)), np.array([0, len(points)])
        self.kinds = kinds
        self.order = order
        self.parts = [slice(*edge) for edge in zip(edges[:-1], edges[1:], strict=True)]
        self.kind = np.empty_like(order)
        self.kind[order] = np.repeat(np.arange(len(kinds)), np.diff(edges))
        self.points = np.ascontiguousarray(points[self.order], dtype=np.float64)
        self.place = np.empty_like(self.order)
        self.place[self.order] = np.arange(len(self.order))

    @property
    def size(self) -> int:
        """Length of a row in full."""
        return self.kinds.shape[1] * self.points.shape[1]

    def products(self, w: np.ndarray) -> np.ndarray:
        """Return the inner product of each row with a flat vector, (m,)."""
        directions = self.kinds @ w.reshape(self.kinds.shape[1], -1)
        parts = zip(self.parts, directions, strict=True)
        return np.concatenate([self.points[part] @ v for part, v in parts])[self.place]

    def combine(self, factors: np.ndarray) -> np.ndarray:
        """Return the flat vector ``sum_j factors_j row_j``."""
        ordered = factors[self.order]
        sums = np.array([ordered[part] @ self.points[part] for part in self.parts])
        return (self.kinds.T @ sums).ravel()

    def second_moment(self, factors: np.ndarray) -> np.ndarray:
        """Return ``sum_j factors_j row_j row_j'`` for non-negative factors, (size, size)."""
        k, p = self.kinds.shape[1], self.points.shape[1]
        moment = np.zeros((k, p, k, p))
        for number, own in _second_moments(self.points, np.sqrt(factors[self.order]), self.parts):
            u = self.kinds[number]
            for i in np.flatnonzero(u):
                for j in np.flatnonzero(u):
                    moment[i, :, j, :] += u[i] * u[j] * own
        return moment.reshape(self.size, self.size)

    def sums(self, factors: np.ndarray, members: np.ndarray, start: np.ndarray) -> np.ndarray:
        """Return ``sum_j factors_j row_j`` over groups of rows, (n_groups, size).

        Group g has the rows ``members[start[g]]`` to ``members[start[g + 1] - 1]``.
        """
        found = np.empty((len(start) - 1, self.kinds.shape[1], self.points.shape[1]))

        def add(part: slice) -> None:
            edges = start[part.start : part.stop + 1]
            _add_rows(
                self.points, self.kinds, self.kind, self.place, factors, members, edges, found[part]
            )

        in_threads(add, len(found), found.size)
        return found.reshape(len(found), self.size)


@dataclass(frozen=True)
class Master:
    """Master problem: the quadratic program over planes, for blocks with a plane.

    - `rows`: normals
    - `offsets` (m,): offsets of the planes, relative to the null plane of their block
    - `blocks` (m,): block of each plane
    - `weights` (n_blocks,): weight c_b of each block (> 0)
    - `ridge` (size,): weight of the square of each coordinate of w in the squared norm (>= 0)
    """

    rows: OuterProductRows
    offsets: np.ndarray
    blocks: np.ndarray
    weights: np.ndarray
    ridge: float | np.ndarray = 1.0

    @property
    def n_constraints(self) -> int:
        """Number of planes, including null planes."""
        return len(self.offsets) + len(self.weights)

    @cached_property
    def single(self) -> np.ndarray:
        """Mask of planes without another plane in their block."""
        return (np.bincount(self.blocks) == 1)[self.blocks]

    @cached_property
    def companies(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Blocks with several planes, their planes sorted by block, and the starts."""
        members = np.argsort(self.blocks, kind="stable")
        members = members[~self.single[members]]
        several, start = np.unique(self.blocks[members], return_index=True)
        return several, members, np.append(start, len(members))

    def per_block(self, values: np.ndarray) -> np.ndarray:
        """Return the sums over the planes of each block."""
        return np.bincount(self.blocks, values, minlength=len(self.weights))

    def highest(self, plane_values: np.ndarray) -> np.ndarray:
        """Return the largest value of each block's planes, at least 0."""
        best = np.zeros(len(self.weights))
        np.maximum.at(best, self.blocks, plane_values)
        return best

    def solve(
        self,
        w: np.ndarray,
        mu: float,
        tolerance: float,
        out_of_time: Callable[[], bool] = lambda: False,
    ) -> tuple[np.ndarray, float]:
        """Solve the program.

        Shapes: `w` (size,); returns `alphas` (m,).
        """
        best, least = np.zeros(len(self.offsets)), np.inf
        with one_blas_thread():
            at = self._centered(w, mu)
            for _ in range(MAX_STEPS):
                alphas, gap = self._feasible(at)
                if not np.isfinite(gap):
                    break
                if gap < least:
                    best, least = alphas, gap
                if gap <= tolerance or out_of_time() or not self._step(at, tolerance):
                    break
        return best, least

    def _centered(self, w: np.ndarray, mu: float) -> Iterate:
        """Return the iterate at `w` with `mu` as the product of each slack and dual variable."""
        plane_values = self.offsets - self.rows.products(w)
        low = self.highest(plane_values)
        high = low + mu * (1 + self.per_block(np.ones(len(self.blocks)))) / self.weights
        low = low + mu / self.weights
        for _ in range(CENTRING_STEPS):
            middle = 0.5 * (low + high)
            needed = mu / middle + self.per_block(mu / (middle[self.blocks] - plane_values))
            low, high = np.where(needed > self.weights, [middle, high], [low, middle])
        bounds = 0.5 * (low + high)
        slack = np.concatenate([bounds[self.blocks] - plane_values, bounds])
        alpha = mu / slack
        alpha *= self._owners(self.weights / self._totals(alpha))
        return Iterate(w.copy(), bounds, slack, alpha)

    def _owners(self, values: np.ndarray) -> np.ndarray:
        """Repeat each block's value for its planes; null planes are last."""
        return np.concatenate([values[self.blocks], values])

    def _totals(self, values: np.ndarray) -> np.ndarray:
        """Sum the values of all planes over each block; null planes are last."""
        m = len(self.blocks)
        return self.per_block(values[:m]) + values[m:]

    def _feasible(self, at: Iterate) -> tuple[np.ndarray, float]:
        """Return feasible dual variables, as fractions of their block's weight, and the duality gap."""
        m = len(self.blocks)
        alphas = at.alpha[:m] / self._totals(at.alpha)[self.blocks]
        alpha = alphas * self.weights[self.blocks]
        # Coordinates with ridge 0 are not in the norm, so the dual variables do not determine them.
        w = np.where(np.equal(self.ridge, 0.0), at.w, self.rows.combine(alpha))
        plane_values = self.offsets - self.rows.products(w)
        return alphas, float(self.weights @ self.highest(plane_values) - alpha @ plane_values)

    def _step(self, at: Iterate, tolerance: float) -> bool:
        """Do a step with correctors (Mehrotra 1992, Gondzio 1996); return False if it is too short."""
        newton = _Newton(self, at)
        products = at.alpha * at.slack
        mu = products.mean()
        predicted = newton.direction(-products)
        length = min(1.0, at.longest(predicted))
        mu_ratio = max(at.products(predicted, length).mean(), 0.0) / mu
        target_mu = mu * max(mu_ratio**3, 1e-6)
        product_change = target_mu - products - predicted.alpha * predicted.slack
        best_step = newton.direction(product_change)
        length = min(1.0, TO_BOUNDARY * at.longest(best_step))
        for _ in range(CORRECTORS):
            # Correct the products that are far from their target after a longer step.
            ahead = at.products(best_step, min(1.0, length + LONGER))
            correction = np.clip(ahead, NEAR_LOW * target_mu, NEAR_HIGH * target_mu) - ahead
            product_change = product_change + np.maximum(correction, -NEAR_HIGH * target_mu)
            corrected = newton.direction(product_change)
            longer = min(1.0, TO_BOUNDARY * at.longest(corrected))
            if longer < length + WORTH * LONGER:
                break
            best_step, length = corrected, longer
        newton.refine(best_step, ROUNDING * tolerance)
        length = min(1.0, TO_BOUNDARY * at.longest(best_step))
        if not length > SHORTEST:
            return False
        at.move(best_step, length)
        return True


@dataclass
class Iterate:
    """Weights w, a bound per block, and slack and dual variable of each plane.

    Null planes are last.
    """

    w: np.ndarray
    bounds: np.ndarray
    slack: np.ndarray
    alpha: np.ndarray

    def longest(self, step: Iterate) -> float:
        """Return the longest step with non-negative slacks and dual variables."""
        ratios = [
            np.min(-have[less] / change[less], initial=np.inf)
            for have, change in ((self.slack, step.slack), (self.alpha, step.alpha))
            for less in [change < 0]
        ]
        return float(min(ratios))

    def products(self, step: Iterate, length: float) -> np.ndarray:
        """Return slack times dual variable of each plane after a step of this length."""
        return (self.alpha + length * step.alpha) * (self.slack + length * step.slack)

    def move(self, step: Iterate, length: float) -> None:
        """Add `length` times `step` to the iterate."""
        self.w = self.w + length * step.w
        self.bounds = self.bounds + length * step.bounds
        self.slack = self.slack + length * step.slack
        self.alpha = self.alpha + length * step.alpha


class _Newton:
    """Factorized Newton equations at an iterate, reduced to the weights w."""

    def __init__(self, master: Master, at: Iterate) -> None:
        rows, blocks, m = master.rows, master.blocks, len(master.blocks)
        self.master = master
        self.at = at
        self.ratio = at.alpha / at.slack
        self.totals = master._totals(self.ratio)
        self.left_w = rows.combine(at.alpha[:m]) - master.ridge * at.w
        plane_values = np.concatenate([master.offsets - rows.products(at.w), np.zeros(len(self.totals))])
        self.left_slack = at.slack + plane_values - master._owners(at.bounds)
        self.left_alpha = master._totals(at.alpha) - master.weights
        # Elimination of a block's bound subtracts a matrix of rank one. In a block with a single plane,
        # this only scales the term of that plane.
        plane_ratios = self.ratio[:m]
        factors = np.where(
            master.single, plane_ratios * self.ratio[m:][blocks] / self.totals[blocks], plane_ratios
        )
        matrix = rows.second_moment(factors)
        several, members, start = master.companies
        if len(several):
            means = rows.sums(plane_ratios / np.sqrt(self.totals)[blocks], members, start)
            for _, rank_one_terms in _second_moments(means, np.ones(len(means)), [slice(0, len(means))]):
                matrix -= rank_one_terms
        self._factorize(matrix)

    def _factorize(self, matrix: np.ndarray) -> None:
        """Factorize the ridge plus `matrix`, scaled to a unit diagonal."""
        places = np.diag_indices(len(matrix))
        matrix[places] += self.master.ridge
        self.units = 1.0 / np.sqrt(np.maximum(matrix[places], np.maximum(self.master.ridge, TINY)))
        matrix *= self.units
        matrix *= self.units[:, None]
        ridge = 1e-15
        while True:
            matrix[places] = 1.0 + ridge
            try:
                self.factor = cho_factor(matrix, lower=True, check_finite=False)
                return
            except np.linalg.LinAlgError:
                # Rounding errors have made the matrix indefinite. A larger diagonal shortens the step in
                # a few directions.
                ridge *= 100.0
                if ridge > 1.0:
                    self.factor = np.eye(len(matrix)), True
                    return

    def direction(self, products: np.ndarray) -> Iterate:
        """Return the step that changes slack times dual variable by `products`, to first order."""
        gained = products / self.at.slack + self.ratio * self.left_slack
        step = self._solve(gained, self.left_w, self.left_alpha)
        step.slack -= self.left_slack
        return step

    def refine(self, step: Iterate, enough: float) -> None:
        """Solve again for the rounding errors of a step, if they change the gap by more than `enough`.

        This is one step of iterative refinement. An error of the equation for w changes the value of
        each plane by its product with the normal.
        """
        master, m = self.master, len(self.master.blocks)
        left_w = self.left_w + master.rows.combine(step.alpha[:m]) - master.ridge * step.w
        if self.at.alpha[:m] @ np.abs(master.rows.products(left_w)) > enough:
            left_alpha = self.left_alpha + master._totals(step.alpha)
            step.move(self._solve(np.zeros_like(self.ratio), left_w, left_alpha), 1.0)

    def _solve(
        self, alpha_change: np.ndarray, residual_w: np.ndarray, residual_totals: np.ndarray
    ) -> Iterate:
        """Solve Newton's equations.

        `alpha_change` is the change of the dual variables if the slacks stay unchanged. `residual_w` and
        `residual_totals` are the residuals of the equation for w and of the sums of dual variables.
        """
        master, m, blocks = self.master, len(self.master.blocks), self.master.blocks
        total = master._totals(alpha_change) + residual_totals
        shares = self.ratio[:m] * (total / self.totals)[blocks]
        right = residual_w + master.rows.combine(alpha_change[:m] - shares)
        w = self.units * cho_solve(self.factor, self.units * right, check_finite=False)
        normal_products = master.rows.products(w)
        bounds = (total - master.per_block(self.ratio[:m] * normal_products)) / self.totals
        slack = master._owners(bounds)
        slack[:m] += normal_products
        return Iterate(w, bounds, slack, alpha_change - self.ratio * slack)


def _second_moments(
    rows: np.ndarray, roots: np.ndarray, parts: Sequence[slice]
) -> list[tuple[int, np.ndarray]]:
    """Return terms of ``sum_j roots_j^2 row_j row_j'``, each with the number of its part of the rows.

    The threads are those of `in_threads`, because BLAS is limited to one thread here.
    """
    found: dict[int, tuple[int, np.ndarray]] = {}

    def add(portion: slice) -> None:
        for number, part in enumerate(parts):
            first, last = max(part.start, portion.start), min(part.stop, portion.stop)
            if first < last:
                scaled = rows[first:last] * roots[first:last, None]
                found[first] = number, scaled.T @ scaled

    in_threads(add, len(rows), rows.size * rows.shape[1] // PRODUCTS_OF_A_VALUE)
    # A fixed order makes sums independent of the order of the threads.
    return [found[first] for first in sorted(found)]


@njit(**LEAN)
def _add_rows(points, kinds, kind, place, factors, members, start, found):
    for g in range(len(found)):
        found[g] = 0.0
        for j in members[start[g] : start[g + 1]]:
            point = points[place[j]]
            for k in range(kinds.shape[1]):
                factor = factors[j] * kinds[kind[j], k]
                if factor != 0.0:
                    for i in range(len(point)):
                        found[g, k, i] += factor * point[i]
