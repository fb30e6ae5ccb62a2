r"""In-hull steps for rows on polynomial curves.

The set of a row is :math:`S(x_i) = \{x_i(t) = \sum_{k=0}^p t^k x_{ik} : a \le t \le b\}`. An averaged
plane, in the hull of its planes and the null plane, has the normal and the offset

.. math:: a_i = y_i \sum_k \mu_{ik} x_{ik}, \quad \mu_{i0}.

Here

.. math:: \mu_i = \sum_j \alpha_{ij} (1, t_{ij}, \dots, t_{ij}^p), \quad \alpha_{ij} \ge 0, \quad
   \sum_j \alpha_{ij} \le 1.

A few values :math:`t_{ij}` per row are enough. An update adds the worst t of a row, and changes pairs of
its dual variables by exact steps. These steps use only the p + 1 products of f with the x_k, and not the
features.
"""

from __future__ import annotations

import numpy as np

from ..utils.jit import njit
from ..utils.matrices import Matrix, dense_rows
from ..utils.packed_rows import PackedRows
from ..utils.polynomials import largest_place
from .hulls import Hull
from .identity_hull import contiguous

Array = np.ndarray

# Maximum number of values of t that an update adds, and of exchanges after each.
_ROUNDS = 30
_EXCHANGES = 200
# Fraction of a row's gap that may remain after an update. More exact updates would not save sweeps.
_LEAVE = 0.1
_FIT_ROUNDS = 100


class CurveHull(Hull):
    """In-hull steps for rows on polynomial curves.

    Shapes: `powers` (n_rows, degree, n_features).
    """

    def __init__(
        self,
        X: Array,
        signs: Array,
        weights: Array,
        intercept: bool,
        powers: Array,
        ends: tuple[float, float],
    ) -> None:
        self.signs = np.ascontiguousarray(signs, dtype=np.float64)
        self.weights = np.array(weights, dtype=np.float64)
        self.intercept = bool(intercept)
        n, degree, _ = powers.shape
        # Rescale t to at most 1 in absolute value.
        reach = max(abs(ends[0]), abs(ends[1])) or 1.0
        self.ends = ends[0] / reach, ends[1] / reach
        scale = reach ** np.arange(1, degree + 1)
        self.vectors = contiguous(np.concatenate([X[:, None, :], powers * scale[:, None]], axis=1))
        wide = self.vectors.astype(np.float64, copy=False)
        self.gram = wide @ wide.transpose(0, 2, 1)
        # More values than an optimum needs, because iterations may use more.
        size = 2 * degree + 4
        self.places, self.alphas = np.zeros((n, size)), np.zeros((n, size))

    @property
    def moments(self) -> Array:
        """The mu of each row, (n, p + 1); the first one is tau."""
        orders = np.arange(self.vectors.shape[1])
        return np.einsum("ns,nsk->nk", self.alphas, self.places[:, :, None] ** orders)

    @property
    def offset(self) -> float:
        return float(self.weights @ self.alphas.sum(axis=1))

    def sweep(self, f: Array, order: Array, gaps: Array) -> None:
        rows = (self.vectors, self.gram, self.signs, self.weights, self.intercept)
        size = self.vectors.shape[1]
        work = np.empty(size), np.empty(size), np.empty((size, size)), np.empty((6, size + 2))
        _sweep(*rows, *self.ends, self.places, self.alphas, f, order, gaps, *work)

    def combination(self) -> Array:
        normals, taus = self.planes()
        f = self.weights @ normals
        return np.append(f, self.weights @ (self.signs * taus)) if self.intercept else f

    def planes(self) -> tuple[Array, Array]:
        moments = self.moments
        points = np.einsum("nk,nkd->nd", moments, self.vectors, dtype=np.float64)
        return self.signs[:, None] * points, moments[:, 0].copy()

    def pack(self) -> PackedRows:
        """Return values of t and dual variables, which planes do not determine."""
        return PackedRows((self.places, self.alphas))

    def unpack(self, packed: PackedRows, n_features: int) -> None:
        self.places[:], self.alphas[:] = packed.arrays

    def restore(self, normals: Matrix, taus: Array) -> None:
        """Initialize the state from planes of these sets, by least squares.

        Planes do not contain the values of t. The fit has a relative error of about 1e-5. The state
        remains consistent, because its planes are computed from the fit.
        """
        taus = np.clip(np.asarray(taus, dtype=np.float64), 0.0, 1.0)
        points = self.signs[:, None] * dense_rows(normals)
        targets = np.einsum("nkd,nd->nk", self.vectors, points, dtype=np.float64)
        self.alphas[:] = 0.0
        size = self.vectors.shape[1]
        work = np.empty(size), np.empty((size, size)), np.empty((6, size + 2))
        _fit(self.gram, targets, taus, *self.ends, self.places, self.alphas, *work)


@njit(cache=True, nogil=True)
def _at(c, t):
    total = 0.0
    for k in range(c.size - 1, -1, -1):
        total = total * t + c[k]
    return total


@njit(cache=True, nogil=True)
def _move(step, first, second, null, gram, h, image):
    """Update the products ``h`` after a step from `second`, or the null plane, to `first`."""
    power, other = 1.0, 0.0 if null else 1.0
    for j in range(h.size):
        image[j] = 0.0
    for k in range(h.size):
        change = power - other
        power *= first
        other *= second
        for j in range(h.size):
            image[j] += change * gram[k, j]
    for j in range(h.size):
        h[j] += step * image[j]


@njit(cache=True, nogil=True)
def _exchange(places, alphas, h, unit, gram, goal, image):
    """Step the dual variables of pairs of t exactly; the null plane counts as a t."""
    for _ in range(_EXCHANGES):
        # The dual objective's derivative for a t is `unit` minus margin; for the null plane it is 0.
        best, largest, worst, smallest, used = -1, 0.0, -1, 0.0, 0.0
        for j in range(places.size):
            used += alphas[j]
        if used >= 1.0:
            smallest = np.inf
        for j in range(places.size):
            slope = unit - _at(h, places[j])
            if slope > largest:
                best, largest = j, slope
            if alphas[j] > 0.0 and slope < smallest:
                worst, smallest = j, slope
        if largest - smallest <= goal or best == worst:
            return
        # Squared length of the difference of both members.
        first = places[best] if best >= 0 else places[worst]
        null = best < 0 or worst < 0
        second = 0.0 if null else places[worst]
        curve, power, other = 0.0, 1.0, 0.0 if null else 1.0
        for k in range(h.size):
            inner, first_power, second_power = 0.0, 1.0, 0.0 if null else 1.0
            for j in range(h.size):
                inner += (first_power - second_power) * gram[k, j]
                first_power *= first
                second_power *= second
            curve += (power - other) * inner
            power *= first
            other *= second
        limit = alphas[worst] if worst >= 0 else 1.0 - used
        step = (largest - smallest) / curve if curve * limit > largest - smallest else limit
        _move(step if best >= 0 else -step, first, second, null, gram, h, image)
        if best >= 0:
            alphas[best] += step
        if worst >= 0:
            alphas[worst] = 0.0 if step == limit else alphas[worst] - step


@njit(cache=True, nogil=True)
def _solve(ts, alphas, h, unit_margin, gram, low, high, tolerance, rounds, work):
    """Add the worst t and step dual variables until the gap is small; return the first gap."""
    negative, image = work[0, : h.size], work[1, : h.size]
    first = 0.0
    for round_number in range(rounds):
        # Find the t with the smallest margin; `slope` is `unit_margin` minus this margin.
        degree = 0
        for k in range(h.size):
            negative[k] = -h[k]
            if h[k] != 0.0:
                degree = k
        t, highest = largest_place(negative[: degree + 1], low, high, work[2], work[3], work[4:6])
        slope = unit_margin + highest
        # Gap: loss minus averaged plane.
        gap = 0.0 if slope < 0.0 else slope
        for j in range(ts.size):
            if alphas[j] > 0.0:
                gap -= alphas[j] * (unit_margin - _at(h, ts[j]))
        if round_number == 0:
            first = gap
            tolerance = _LEAVE * gap if rounds == _ROUNDS and _LEAVE * gap > tolerance else tolerance
        if gap <= tolerance:
            break
        if slope > 0.0:
            slot = 0
            for j in range(ts.size):
                if ts[j] == t and alphas[j] > 0.0:
                    slot = j
                    break
                if alphas[j] < alphas[slot]:
                    slot = j
            if alphas[slot] > 0.0 and ts[slot] != t:
                _move(-alphas[slot], ts[slot], 0.0, True, gram, h, image)
                alphas[slot] = 0.0
            ts[slot] = t
        _exchange(ts, alphas, h, unit_margin, gram, 0.1 * tolerance, image)
    return first


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def _dot(x, f):
    total = 0.0
    for j in range(x.size):
        total += x[j] * f[j]
    return total


@njit(cache=True, nogil=True)
def _sweep(
    vectors, gram, signs, weights, intercept, low, high, places, alphas, f, order, gaps, h, before,
    curve, work,
):  # fmt: skip
    size, d = vectors.shape[1], vectors.shape[2]
    for i in order:
        c, y = weights[i], signs[i]
        gaps[i] = 0.0
        if c == 0:
            continue
        for k in range(size):
            h[k] = y * _dot(vectors[i, k], f)
            for j in range(size):
                curve[k, j] = c * gram[i, k, j]
        if intercept:
            h[0] += y * f[d]
            curve[0, 0] += c
        _moments(places[i], alphas[i], before)
        gap = _solve(places[i], alphas[i], h, 1.0, curve, low, high, 1e-12, _ROUNDS, work)
        gaps[i] = 0.0 if gap < 0.0 else c * gap
        _moments(places[i], alphas[i], h)
        for k in range(size):
            step = c * y * (h[k] - before[k])
            if step != 0.0:
                x = vectors[i, k]
                for j in range(d):
                    f[j] += step * x[j]
                if intercept and k == 0:
                    f[d] += step


@njit(cache=True, nogil=True)
def _moments(places, alphas, into):
    for k in range(into.size):
        into[k] = 0.0
    for j in range(places.size):
        power = alphas[j]
        for k in range(into.size):
            into[k] += power
            power *= places[j]


@njit(cache=True, nogil=True)
def _fit(gram, targets, taus, low, high, places, alphas, h, curve, work):
    """Fit places and dual variables to the targets and tau of each row, by least squares."""
    size = gram.shape[1]
    for i in range(gram.shape[0]):
        if taus[i] == 0.0:
            continue
        # Rescale the products, so that they and tau have similar weights in the objective.
        largest_square = 0.0
        for k in range(size):
            largest_square = gram[i, k, k] if gram[i, k, k] > largest_square else largest_square
        largest_square = largest_square if largest_square > 0.0 else 1.0
        for k in range(size):
            h[k] = -targets[i, k] / largest_square
            for j in range(size):
                curve[k, j] = gram[i, k, j] / largest_square
        h[0] -= taus[i]
        curve[0, 0] += 1.0
        _solve(places[i], alphas[i], h, 0.0, curve, low, high, 1e-15, _FIT_ROUNDS, work)
