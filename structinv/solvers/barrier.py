"""The quadratic program over planes by a primal-dual barrier method, however badly it is scaled.

``min 1/2 |w|^2 + sum_b c_b xi_b`` subject to ``xi_b >= offset_j - <normal_j, w>`` for the planes j of
block b, and ``xi_b >= 0``. Pairwise steps on its dual crawl where normals are long and nearly parallel;
Newton's method on the barrier does not see how they are scaled (Mehrotra 1992), and as its equations
cost much more than a solution of them, a step is corrected several times (Gondzio 1996).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from ..utils.jit import njit
from ..utils.matrices import in_threads, one_blas_thread

# Newton steps at most: for a program, and for one center.
MAX_STEPS = 50
CENTRING_STEPS = 60
# Share of the way to the boundary that a step takes, as usual in interior-point methods.
TO_BOUNDARY = 0.995
# Gondzio's correctors: how many, how much longer a step they aim at, what share of that is worth one
# more, and what share and multiple of the wanted product of slack and mass are near enough.
CORRECTORS, LONGER, WORTH = 3, 0.3, 0.1
NEAR_LOW, NEAR_HIGH = 0.3, 5.0
# Shorter steps than this get nowhere: rounding has taken over.
SHORTEST = 1e-9
# Less than this on the diagonal of Newton's equations is rounding.
TINY = 1e-15
# So many products of a matrix product cost as much as a value elsewhere.
PRODUCTS_OF_A_VALUE = 50
# More kinds of coefficients than this an output and rows are better written out.
MOST_KINDS = 16


class OuterProductRows:
    """Rows ``vec(u_j (x) x_j)``, taken together by their coefficients u_j, of which there are few kinds.

    A plane of a multiclass loss is an input times the difference of two unit vectors. Products then
    cost one product with the input, and second moments a block for each pair of outputs.

    Parameters
    ----------
    points : (m, p) array
    coefficients : (m, k) array
    """

    def __init__(self, points: np.ndarray, coefficients: np.ndarray) -> None:
        # The outer product of -u and -x is that of u and x: half as many kinds.
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
        """Length of a row when written out."""
        return self.kinds.shape[1] * self.points.shape[1]

    def products(self, w: np.ndarray) -> np.ndarray:
        """Inner product of each row with a flat vector, (m,)."""
        directions = self.kinds @ w.reshape(self.kinds.shape[1], -1)
        parts = zip(self.parts, directions, strict=True)
        return np.concatenate([self.points[part] @ v for part, v in parts])[self.place]

    def combine(self, factors: np.ndarray) -> np.ndarray:
        """The flat vector ``sum_j factors_j row_j``."""
        ordered = factors[self.order]
        sums = np.array([ordered[part] @ self.points[part] for part in self.parts])
        return (self.kinds.T @ sums).ravel()

    def second_moment(self, factors: np.ndarray) -> np.ndarray:
        """``sum_j factors_j row_j row_j'`` for non-negative factors, (size, size)."""
        k, p = self.kinds.shape[1], self.points.shape[1]
        moment = np.zeros((k, p, k, p))
        for number, own in _second_moments(self.points, np.sqrt(factors[self.order]), self.parts):
            u = self.kinds[number]
            for i in np.flatnonzero(u):
                for j in np.flatnonzero(u):
                    moment[i, :, j, :] += u[i] * u[j] * own
        return moment.reshape(self.size, self.size)

    def sums(self, factors: np.ndarray, members: np.ndarray, start: np.ndarray) -> np.ndarray:
        """``sum_j factors_j row_j`` over groups of rows, (n_groups, size).

        Group g owns the rows ``members[start[g]]`` to ``members[start[g + 1] - 1]``.
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
    """A quadratic program over planes, without the blocks that have none.

    Parameters
    ----------
    rows : OuterRows
        The normals.
    offsets : (m,) array
        Relative to the null plane of their block.
    blocks : (m,) array of int
    weights : (n_blocks,) array
        Above 0. Every block has a plane.
    ridge : float or (size,) array, default=1.0
        What the square of each coordinate of w counts in the norm, at least 0.
    """

    rows: OuterProductRows
    offsets: np.ndarray
    blocks: np.ndarray
    weights: np.ndarray
    ridge: float | np.ndarray = 1.0

    @property
    def n_constraints(self) -> int:
        """Number of planes, null planes included."""
        return len(self.offsets) + len(self.weights)

    @cached_property
    def single(self) -> np.ndarray:
        """Whether a plane is the only one of its block."""
        return (np.bincount(self.blocks) == 1)[self.blocks]

    @cached_property
    def companies(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The blocks of several planes, their planes, block by block, and where each block starts."""
        members = np.argsort(self.blocks, kind="stable")
        members = members[~self.single[members]]
        several, start = np.unique(self.blocks[members], return_index=True)
        return several, members, np.append(start, len(members))

    def per_block(self, values: np.ndarray) -> np.ndarray:
        """Sums over the planes of each block."""
        return np.bincount(self.blocks, values, minlength=len(self.weights))

    def highest(self, heights: np.ndarray) -> np.ndarray:
        """The largest of each block's heights, at least 0."""
        best = np.zeros(len(self.weights))
        np.maximum.at(best, self.blocks, heights)
        return best

    def solve(
        self,
        w: np.ndarray,
        level: float,
        tolerance: float,
        out_of_time: Callable[[], bool] = lambda: False,
    ) -> tuple[np.ndarray, float]:
        """Masses, (m,), non-negative and at most 1 in total for each block, and the gap they leave.

        Parameters
        ----------
        w : (size,) array
            Where to start.
        level : float
            Product of slack and mass to start with, above 0: about the gap a constraint, or more.
        tolerance : float
            The gap between the program and its dual at which to end.
        out_of_time : callable, optional
            Asked before each of Newton's steps whether to end with what there is.
        """
        best, least = np.zeros(len(self.offsets)), np.inf
        with one_blas_thread():
            at = self._centered(w, level)
            for _ in range(MAX_STEPS):
                masses, gap = self._feasible(at)
                if not np.isfinite(gap):
                    break
                if gap < least:
                    best, least = masses, gap
                if gap <= tolerance or out_of_time() or not self._step(at):
                    break
        return best, least

    def _centered(self, w: np.ndarray, level: float) -> Iterate:
        """A point whose products of slack and mass are all `level`, for the least barrier at `w`."""
        heights = self.offsets - self.rows.products(w)
        low = self.highest(heights)
        high = low + level * (1 + self.per_block(np.ones(len(self.blocks)))) / self.weights
        low = low + level / self.weights
        for _ in range(CENTRING_STEPS):
            middle = 0.5 * (low + high)
            needed = level / middle + self.per_block(level / (middle[self.blocks] - heights))
            low, high = np.where(needed > self.weights, [middle, high], [low, middle])
        bounds = 0.5 * (low + high)
        slack = np.concatenate([bounds[self.blocks] - heights, bounds])
        mass = level / slack
        mass *= self._owners(self.weights / self._totals(mass))
        return Iterate(w.copy(), bounds, slack, mass)

    def _owners(self, values: np.ndarray) -> np.ndarray:
        """A value of each block for each of its planes, null planes at the end."""
        return np.concatenate([values[self.blocks], values])

    def _totals(self, values: np.ndarray) -> np.ndarray:
        """Sums of values of all planes over each block, null planes at the end."""
        m = len(self.blocks)
        return self.per_block(values[:m]) + values[m:]

    def _feasible(self, at: Iterate) -> tuple[np.ndarray, float]:
        """Masses as shares of their blocks, and their gap at the point that they stand for."""
        m = len(self.blocks)
        shares = at.mass[:m] / self._totals(at.mass)[self.blocks]
        mass = shares * self.weights[self.blocks]
        # What the norm does not see is not told by the masses.
        w = np.where(np.equal(self.ridge, 0.0), at.w, self.rows.combine(mass))
        heights = self.offsets - self.rows.products(w)
        return shares, float(self.weights @ self.highest(heights) - mass @ heights)

    def _step(self, at: Iterate) -> bool:
        """A predictor and correctors (Mehrotra 1992, Gondzio 1996); whether it got anywhere."""
        newton = _Newton(self, at)
        products = at.mass * at.slack
        level = products.mean()
        predicted = newton.direction(-products)
        length = min(1.0, at.longest(predicted))
        share = max(at.products(predicted, length).mean(), 0.0) / level
        wanted = level * max(share**3, 1e-6)
        change = wanted - products - predicted.mass * predicted.slack
        chosen = newton.direction(change)
        length = min(1.0, TO_BOUNDARY * at.longest(chosen))
        for _ in range(CORRECTORS):
            # What is too far from the wanted product, were the step longer, is moved there.
            ahead = at.products(chosen, min(1.0, length + LONGER))
            moved = np.clip(ahead, NEAR_LOW * wanted, NEAR_HIGH * wanted) - ahead
            change = change + np.maximum(moved, -NEAR_HIGH * wanted)
            corrected = newton.direction(change)
            longer = min(1.0, TO_BOUNDARY * at.longest(corrected))
            if longer < length + WORTH * LONGER:
                break
            chosen, length = corrected, longer
        if not length > SHORTEST:
            return False
        at.move(chosen, length)
        return True


@dataclass
class Iterate:
    """Weights, a bound for each block, and slack and mass of each plane, null planes at the end."""

    w: np.ndarray
    bounds: np.ndarray
    slack: np.ndarray
    mass: np.ndarray

    def longest(self, step: Iterate) -> float:
        """How far one can go until slack or mass is used up."""
        ratios = [
            np.min(-have[less] / change[less], initial=np.inf)
            for have, change in ((self.slack, step.slack), (self.mass, step.mass))
            for less in [change < 0]
        ]
        return float(min(ratios))

    def products(self, step: Iterate, length: float) -> np.ndarray:
        """Slack times mass of each plane after so much of a step."""
        return (self.mass + length * step.mass) * (self.slack + length * step.slack)

    def move(self, step: Iterate, length: float) -> None:
        """Go there."""
        self.w = self.w + length * step.w
        self.bounds = self.bounds + length * step.bounds
        self.slack = self.slack + length * step.slack
        self.mass = self.mass + length * step.mass


class _Newton:
    """Newton's equations at an iterate, reduced to the weights w, and factorized."""

    def __init__(self, master: Master, at: Iterate) -> None:
        rows, blocks, m = master.rows, master.blocks, len(master.blocks)
        self.master = master
        self.at = at
        self.ratio = at.mass / at.slack
        self.totals = master._totals(self.ratio)
        self.left_w = rows.combine(at.mass[:m]) - master.ridge * at.w
        heights = np.concatenate([master.offsets - rows.products(at.w), np.zeros(len(self.totals))])
        self.left_slack = at.slack + heights - master._owners(at.bounds)
        self.left_mass = master._totals(at.mass) - master.weights
        # What a block's bound takes up is of rank one; where there is a single plane, it is a factor.
        own = self.ratio[:m]
        factors = np.where(master.single, own * self.ratio[m:][blocks] / self.totals[blocks], own)
        matrix = rows.second_moment(factors)
        several, members, start = master.companies
        if len(several):
            means = rows.sums(own / np.sqrt(self.totals)[blocks], members, start)
            for _, taken in _second_moments(means, np.ones(len(means)), [slice(0, len(means))]):
                matrix -= taken
        self._factorize(matrix)

    def _factorize(self, matrix: np.ndarray) -> None:
        """The ridge plus `matrix`, in units in which its diagonal is one."""
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
                # Rounding: a little more on the diagonal shortens a few directions.
                ridge *= 100.0
                if ridge > 1.0:
                    self.factor = np.eye(len(matrix)), True
                    return

    def direction(self, products: np.ndarray) -> Iterate:
        """The step that changes slack times mass, to first order, by `products`."""
        master, at = self.master, self.at
        m, blocks = len(master.blocks), master.blocks
        gained = products / at.slack + self.ratio * self.left_slack
        total = master._totals(gained) + self.left_mass
        shares = self.ratio[:m] * (total / self.totals)[blocks]
        right = self.left_w + master.rows.combine(gained[:m] - shares)
        w = self.units * cho_solve(self.factor, self.units * right, check_finite=False)
        along = master.rows.products(w)
        bounds = (total - master.per_block(self.ratio[:m] * along)) / self.totals
        slack = master._owners(bounds)
        slack[:m] += along
        return Iterate(w, bounds, slack - self.left_slack, gained - self.ratio * slack)


def _second_moments(
    rows: np.ndarray, roots: np.ndarray, parts: Sequence[slice]
) -> list[tuple[int, np.ndarray]]:
    """Terms of ``sum_j roots_j^2 row_j row_j'`` over the rows of each part, and the part's number.

    In threads of our own, since those of BLAS are held to one here.
    """
    found: dict[int, tuple[int, np.ndarray]] = {}

    def add(portion: slice) -> None:
        for number, part in enumerate(parts):
            first, last = max(part.start, portion.start), min(part.stop, portion.stop)
            if first < last:
                scaled = rows[first:last] * roots[first:last, None]
                found[first] = number, scaled.T @ scaled

    in_threads(add, len(rows), rows.size * rows.shape[1] // PRODUCTS_OF_A_VALUE)
    # In their order, whichever thread was done first.
    return [found[first] for first in sorted(found)]


@njit(cache=True, nogil=True)
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
