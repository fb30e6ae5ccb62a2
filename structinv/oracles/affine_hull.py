r"""In-hull steps for dense rows with convex sets: boxes, zonotopes, ellipsoids.

The set of a row is :math:`S(x_i) = x_i + \{F_i \theta : \theta \in T\}` with T a box or a ball. The
loss of a row with sign :math:`y_i` is

.. math:: \ell_i(f) = \max\bigl(0,\; 1 - \min_{z \in S(x_i)} y_i \langle f, z \rangle\bigr).

An averaged plane is an element of the convex hull of its planes and the null plane. It has a dual
variable :math:`\tau_i` and a change :math:`\theta_i`:

.. math:: a_i = y_i (\tau_i x_i + F_i \theta_i), \quad \text{offset } \tau_i, \quad
   0 \le \tau_i \le 1, \quad \theta_i \in \tau_i T.

An update of a row maximizes the dual over :math:`(\tau_i, \theta_i)` of this row,

.. math:: D = \sum_i c_i \tau_i - \tfrac12 \Bigl\| \sum_i c_i a_i \Bigr\|^2 .
"""

from __future__ import annotations

import numpy as np

from ..utils.jit import njit
from ..utils.matrices import Matrix, dense_rows
from ..utils.packed_rows import PackedRows
from .hulls import IdentityHull, contiguous
from .query import rows_at

Array = np.ndarray

_MATH = {"reassoc", "contract", "nsz", "arcp"}
# Maximum numbers of steps: of Newton's method for tau and for a multiplier, of an update, of a fit.
_LEVEL_STEPS = 60
_SECULAR_STEPS = 40
_INNER_STEPS = 50
_FIT_STEPS = 500
# Slope of the dual objective at which tau has converged. The objective is then too small by about the
# square of this.
_SETTLED = 1e-10
# Fraction of a row's gap that may remain after an update. More exact updates would not save sweeps.
_LEAVE = 1e-2


@njit(cache=True, nogil=True, fastmath=_MATH)
def _dot(x, f):
    total = 0.0
    for k in range(x.size):
        total += x[k] * f[k]
    return total


@njit(cache=True, nogil=True, fastmath=_MATH)
def _add(step, x, f):
    if step != 0:
        for k in range(x.size):
            f[k] += step * x[k]


@njit(cache=True, nogil=True, fastmath=_MATH)
def _box_slope(tau, target, x, radius, c):
    """Return the features' part of slope and curvature in tau of the dual objective.

    The objective is that of the best point for each tau.
    """
    slope, curve = 0.0, 0.0
    for k in range(x.size):
        high, low = x[k] + radius[k], x[k] - radius[k]
        end = high if target[k] > tau * high else (low if target[k] < tau * low else 0.0)
        slope += (target[k] - tau * end) * end
        curve += end * end
    return c * slope, c * curve


@njit(cache=True, nogil=True, fastmath=_MATH, error_model="numpy")
def _look(x, point, radius, y, c, f, target):
    """Return worst-case margin and margin of the point; set `target`, the free optimum.

    The free optimum is the best point without bounds.
    """
    margin, inner = 0.0, 0.0
    for k in range(x.size):
        b = y * f[k]
        margin += b * x[k] - radius[k] * abs(b)
        inner += b * point[k]
        target[k] = point[k] - b / c
    return margin, inner


@njit(cache=True, nogil=True)
def _sweep_box(
    X, signs, weights, intercept, radii, changed, taus, points, f, order, gaps, target, unchanged
):  # fmt: skip
    """Update rows exactly: at a given tau, each feature has its own optimum."""
    d = X.shape[1]
    for i in order:
        c, y, tau, x, radius = weights[i], signs[i], taus[i], X[i], radii if changed[i] else unchanged
        gaps[i] = 0.0
        if c == 0:
            continue
        margin, inner = _look(x, points[i], radius, y, c, f, target)
        # The intercept adds ``-free - bias * tau`` to the slope.
        intercept_rate, intercept_offset = 0.0, 0.0
        if intercept:
            margin += y * f[d]
            inner += y * f[d] * tau
            intercept_rate = c
            intercept_offset = y * f[d] - c * tau
        gap = c * ((1.0 - margin if margin < 1.0 else 0.0) - tau + inner)
        if gap <= 0.0:
            continue
        gaps[i] = gap
        # Newton's method for the root of the slope, with bisection if a step leaves the bracket. `low`
        # and `high` are outside [0, 1] as long as that end may be the solution.
        low, high, old = -1.0, 2.0, tau
        for _ in range(_LEVEL_STEPS):
            slope, curve = _box_slope(tau, target, x, radius, c)
            slope, curve = slope + 1.0 - intercept_offset - intercept_rate * tau, curve + intercept_rate
            if (tau == 1.0 and slope > 0.0) or (tau == 0.0 and slope < 0.0):
                break
            if abs(slope) <= _SETTLED + 1e-13 * tau * curve:
                break
            low, high = (tau, high) if slope > 0.0 else (low, tau)
            new = tau + slope / curve if curve > 0.0 else 1.0
            new = 0.0 if new < 0.0 else (1.0 if new > 1.0 else new)
            if not low < new < high:
                new = 0.5 * ((low if low > 0.0 else 0.0) + (high if high < 1.0 else 1.0))
            if new == tau:
                break
            tau = new
        taus[i] = tau
        for k in range(d):
            least, most = tau * (x[k] - radius[k]), tau * (x[k] + radius[k])
            new = least if target[k] < least else target[k]
            new = most if new > most else new
            f[k] += c * y * (new - points[i, k])
            points[i, k] = new
        if intercept:
            f[d] += c * y * (tau - old)


@njit(cache=True, nogil=True)
def _reach(h, bounds, ball):
    """Return the largest change of a margin, ``max over theta in T of <theta, h>``."""
    if ball:
        return bounds[0] * np.sqrt(_dot(h, h))
    total = 0.0
    for k in range(h.size):
        total += bounds[k] * abs(h[k])
    return total


@njit(cache=True, nogil=True, fastmath=_MATH)
def _image(tau, theta, row, p):
    """Set `p` to the inner products of the directions with ``tau x + F theta``."""
    _c, _square, cross, gram, _bounds, ball = row
    for k in range(theta.size):
        change = gram[k, 0] * theta[k] if ball else _dot(gram[k], theta)
        p[k] = tau * cross[k] + change


@njit(cache=True, nogil=True)
def _coordinate_pass(tau, theta, g, row, p):
    """Minimize ``<g, theta> + c/2 |tau x + F theta|^2`` over each theta_k in turn."""
    c, _square, _cross, gram, bounds, _ball = row
    for k in range(theta.size):
        if gram[k, k] > 0:
            free = theta[k] - (g[k] / c + p[k]) / gram[k, k]
            bound = tau * bounds[k]
            new = -bound if free < -bound else (bound if free > bound else free)
            if new != theta[k]:
                _add(new - theta[k], gram[k], p)
                theta[k] = new


@njit(cache=True, nogil=True, fastmath=_MATH, error_model="numpy")
def _ball_pass(tau, mu, theta, g, row, p):
    r"""Minimize over theta in a ball at a given tau; return the multiplier :math:`\mu`.

    Newton's method solves :math:`|\theta(\mu)| = \tau R`. The entries of theta are independent at a
    given multiplier, because the directions are orthogonal.
    """
    c, _square, cross, gram, bounds, _ball = row
    length, excess = tau * bounds[0], 0.0
    for _ in range(_SECULAR_STEPS):
        # Squared length of theta, and minus half its derivative.
        square, slope = 0.0, 0.0
        for k in range(theta.size):
            # For a zero direction `numerator` is 0. Its theta stays 0: mu may be 0, too.
            numerator = g[k] + c * tau * cross[k]
            inverse = 1.0 / (c * gram[k, 0] + mu) if numerator != 0 else 0.0
            theta[k] = -numerator * inverse
            square += theta[k] * theta[k]
            slope += theta[k] * theta[k] * inverse
        excess = np.sqrt(square) - length
        if (mu == 0 and excess <= 0) or abs(excess) <= 1e-12 * length:
            break
        mu = mu + square / slope * excess / length if slope > 0 else 0.0
        mu = 0.0 if mu < 0.0 else mu
    if excess > 0:
        for k in range(theta.size):
            theta[k] *= length / (length + excess)
    _image(tau, theta, row, p)
    return mu


@njit(cache=True, nogil=True)
def _solve(tau, theta, h0, margins, row_data, margins_without, products):
    """Update a row: steps over theta alternate with steps along the ray of (tau, theta).

    All steps are exact. ``h0`` and ``margins`` are the margins of the row and of its directions;
    ``margins`` is updated. ``g0`` and ``margins_without`` are the same without the plane of this row.
    ``row_data`` contains the weight, the squared length of x, the products of x with the directions,
    their Gram matrix, the bounds, and True for a ball. Returns tau, and the gap before the update: loss
    minus averaged plane.
    """
    c, square, cross, _gram, bounds, ball = row_data
    first, mu, g0 = 0.0, 0.0, h0
    for step in range(_INNER_STEPS + 1):
        loss = 1.0 - h0 + _reach(margins, bounds, ball)
        gap = (loss if loss > 0.0 else 0.0) - tau + tau * h0 + _dot(theta, margins)
        if gap <= (_LEAVE * first + 1e-12 if step > 0 else 0.0) or step == _INNER_STEPS:
            break
        if step == 0:
            first = gap
            _image(tau, theta, row_data, products)
            g0 = h0 - c * (tau * square + _dot(cross, theta))
            for k in range(theta.size):
                margins_without[k] = margins[k] - c * products[k]
            if 1.0 - g0 + _reach(margins_without, bounds, ball) <= 0:
                for k in range(theta.size):
                    theta[k], margins[k] = 0.0, margins_without[k]
                return 0.0, first
            if ball and tau > 0 and margins.size > 0:
                mu = np.sqrt(_dot(margins, margins)) / (tau * bounds[0])
        if tau == 0:
            # Start at the point of T with the smallest margin.
            tau, length = 1.0, np.sqrt(_dot(margins_without, margins_without))
            for k in range(theta.size):
                if ball:
                    theta[k] = -bounds[0] * margins_without[k] / length if length > 0 else 0.0
                else:
                    theta[k] = -bounds[k] if margins_without[k] > 0 else bounds[k]
            _image(tau, theta, row_data, products)
        elif ball:
            mu = _ball_pass(tau, mu, theta, margins_without, row_data, products)
        else:
            _coordinate_pass(tau, theta, margins_without, row_data, products)
        # The step along the ray multiplies tau and theta by the best common factor.
        curve = c * (tau * (tau * square + _dot(cross, theta)) + _dot(theta, products))
        slope = tau - tau * g0 - _dot(theta, margins_without)
        slope = 0.0 if slope < 0.0 else slope
        factor = slope / curve if slope * tau < curve else 1.0 / tau
        for k in range(theta.size):
            theta[k] *= factor
            products[k] *= factor
            margins[k] = margins_without[k] + c * products[k]
        tau = factor * tau if factor * tau < 1.0 else 1.0
        h0 = g0 + c * (tau * square + _dot(cross, theta))
    return tau, first


@njit(cache=True, nogil=True)
def _sweep_directions(
    X, signs, weights, squares, cross, intercept, changed, F, gram, bounds, ball, taus, theta, f,
    order, gaps, work,
):  # fmt: skip
    """Update rows; with common directions an update costs O(d + t²), or O(d + t) in a ball.

    Common directions are added to `f` after all updates. Until then, ``pending`` has their coefficients,
    and ``scores`` has their products with `f` as if they were added.
    """
    d, most = X.shape[1], F.shape[1]
    shared = F.shape[0] == 1
    scores, pending, h, old = work[0], work[1], work[2], work[3]
    for k in range(most if shared else 0):
        scores[k], pending[k] = _dot(F[0, k], f), 0.0
    for i in order:
        c, y, tau, t = weights[i], signs[i], taus[i], most if changed[i] else 0
        gaps[i] = 0.0
        if c == 0:
            continue
        h0 = _dot(X[i], f) + (f[d] if intercept else 0.0)
        h0 = y * (h0 + _dot(cross[i], pending) if shared else h0)
        for k in range(t):
            h[k] = y * (scores[k] if shared else _dot(F[i, k], f))
            old[k] = theta[i, k]
        products, own = cross[i][:t], gram[0 if shared else i][:t]
        row = (c, squares[i] + intercept, products, own, bounds, ball)
        taus[i], gap = _solve(tau, theta[i][:t], h0, h[:t], row, work[4], work[5])
        if gap <= 0:
            continue
        gaps[i] = c * gap
        _add(c * y * (taus[i] - tau), X[i], f)
        if intercept:
            f[d] += c * y * (taus[i] - tau)
        for k in range(t):
            step = c * y * (theta[i, k] - old[k])
            if shared:
                pending[k] += step
                scores[k] = y * h[k]
            else:
                _add(step, F[i, k], f)
    for k in range(most if shared else 0):
        _add(pending[k], F[0, k], f)


@njit(cache=True, nogil=True)
def _fit_boxes(visited, taus, theta, margins, cross, gram, bounds, p):
    """Fit theta, within bounds, to products with the directions, by least squares."""
    for i in visited:
        row = (1.0, 0.0, cross[i], gram[0 if gram.shape[0] == 1 else i], bounds, False)
        _image(taus[i], theta[i], row, p)
        for _ in range(_FIT_STEPS):
            _coordinate_pass(taus[i], theta[i], margins[i], row, p)


class _DenseHull(IdentityHull):
    """Base class of hulls with one dense point per row in addition to its tau."""

    def combination(self) -> Array:
        """Compute ``sum_i c_i a_i`` from the dual variables."""
        f = self.weights @ self.normals_of(np.arange(len(self.taus)))
        bias = self.weights @ (self.signs * self.taus)
        return np.append(f, bias) if self.intercept else f

    @property
    def _changes(self) -> Array:
        """Representation of the points, proportional to the taus; one row each."""
        raise NotImplementedError

    def losses(self, f: Array) -> None:
        """Return None: the oracle computes the losses as fast."""

    def pack(self) -> PackedRows:
        return PackedRows((self.taus, self._changes))

    def unpack(self, packed: PackedRows, n_features: int) -> None:
        self.taus = packed.arrays[0].copy()
        self._changes[:] = packed.arrays[1]

    def _split(self, normals: Matrix, taus: Array) -> Array:
        """Set the dual variables, and return the changes ``F_i theta_i`` of the planes."""
        IdentityHull.restore(self, normals, taus)
        points = self.signs[:, None] * dense_rows(normals)
        return points - self.taus[:, None] * self.X


class BoxHull(_DenseHull):
    r"""In-hull steps for boxes: :math:`|z_k - x_{ik}| \le r_k` for each feature k.

    Updates are exact. Let g be `f` without the row. Then the point :math:`p_i = y_i a_i` has
    :math:`p_{ik} = \mathrm{clip}(-y_i g_k / c_i, \tau (x_{ik} - r_k), \tau (x_{ik} + r_k))`, and
    tau is the root of a decreasing, piecewise linear function.

    Rows without ``changed[i]`` have a radius of 0.

    Shapes: `changed` (n_rows,), `radius` (n_features,).
    """

    def __init__(
        self, X: Array, signs: Array, weights: Array, intercept: bool, changed: Array, radius: Array
    ) -> None:
        super().__init__(X, signs, weights, intercept)
        self.changed = changed
        self.radius = np.ascontiguousarray(radius, dtype=np.float64)
        self.points = np.zeros(self.X.shape)

    def sweep(self, f: Array, order: Array, gaps: Array) -> None:
        rows = (self.X, self.signs, self.weights, self.intercept)
        work = np.empty(self.X.shape[1]), np.zeros(self.X.shape[1])
        _sweep_box(*rows, self.radius, self.changed, self.taus, self.points, f, order, gaps, *work)

    def normals_of(self, rows: Array) -> Array:
        return self.signs[rows, None] * rows_at(self.points, rows)

    @property
    def _changes(self) -> Array:
        return self.points

    def restore(self, normals: Matrix, taus: Array) -> None:
        """Initialize the state from planes; changes beyond the radius are clipped."""
        changes = self._split(normals, taus)
        limits = np.outer(self.taus * self.changed, self.radius)
        self.points = self.taus[:, None] * self.X + np.clip(changes, -limits, limits)


class _DirectionHull(_DenseHull):
    """Base class of hulls with directions, (1, t, d) for all rows or (n, t, d).

    In a ball the directions are orthogonal, and ``gram`` (., t, 1) has only their squared lengths.
    """

    ball = False

    def __init__(
        self,
        X: Array,
        signs: Array,
        weights: Array,
        intercept: bool,
        changed: Array,
        F: Array,
        bounds: Array,
    ) -> None:
        super().__init__(X, signs, weights, intercept)
        self.changed = changed
        F = contiguous(F if F.ndim == 3 else F[None])
        self.bounds = np.ascontiguousarray(bounds, dtype=np.float64)
        self.theta = np.zeros((len(self.X), F.shape[1]))
        self.directions = F
        wide = F.astype(np.float64, copy=False)
        if self.ball:
            self.gram = np.sum(wide**2, axis=2, keepdims=True)
        else:
            self.gram = wide @ wide.transpose(0, 2, 1)
        self.cross = self._products(self.X)

    def _products(self, Z: Array) -> Array:
        """Compute the inner products of each row of `Z` with its directions, (n, t)."""
        if len(self.directions) == 1:
            return np.ascontiguousarray(Z.astype(np.float64, copy=False) @ self.directions[0].T)
        return np.einsum("nd,ntd->nt", Z, self.directions, dtype=np.float64)

    def sweep(self, f: Array, order: Array, gaps: Array) -> None:
        rows = (self.X, self.signs, self.weights, self.squares, self.cross, self.intercept, self.changed)
        sets = (self.directions, self.gram, self.bounds, self.ball)
        work = np.empty((6, self.theta.shape[1]))
        _sweep_directions(*rows, *sets, self.taus, self.theta, f, order, gaps, work)

    def normals_of(self, rows: Array) -> Array:
        theta = self.theta[rows]
        if len(self.directions) == 1:
            moves = theta @ self.directions[0]
        else:
            moves = np.einsum("nt,ntd->nd", theta, self.directions[rows])
        return self.signs[rows, None] * (self.taus[rows, None] * self.X[rows] + moves)

    @property
    def _changes(self) -> Array:
        return self.theta


class ZonotopeHull(_DirectionHull):
    r"""In-hull steps for zonotopes: bounded combinations of the columns of F.

    .. math:: S(x_i) = \{x_i + F_i\theta : |\theta_k| \le b_k\}

    Shapes: `directions` (t, n_features) or (n_rows, t, n_features), `bounds` (t,).
    """

    def restore(self, normals: Matrix, taus: Array) -> None:
        """Initialize the state from planes, by a least-squares fit within the bounds."""
        products = self._products(self._split(normals, taus))
        inverse = np.linalg.pinv(self.gram, rcond=1e-12, hermitian=True)
        limits = np.outer(self.taus * self.changed, self.bounds)
        free = np.matmul(products[:, None, :], inverse)[:, 0]
        self.theta = np.clip(free, -limits, limits)
        # If an unconstrained fit exceeds the bounds, another theta within them may give the same point.
        cut = np.flatnonzero(self.changed & np.any(self.theta != free, axis=1))
        margins = -products - self.taus[:, None] * self.cross
        sets = self.cross, self.gram, self.bounds
        _fit_boxes(cut, self.taus, self.theta, margins, *sets, np.empty(len(self.bounds)))


class EllipsoidHull(_DirectionHull):
    r"""In-hull steps for ellipsoids: images of a ball under F.

    .. math:: S(x_i) = \{x_i + F_i\theta : \|\theta\|_2 \le R\}

    The directions are :math:`F_i V` from the singular value decomposition :math:`F_i = U \Sigma
    V^\top`. They are orthogonal and span the same set. The best theta at a given tau solves a secular
    equation, and tau is the root of a decreasing function.

    Shapes: `factor` (n_features, r) or (n_rows, n_features, r).
    """

    ball = True

    def __init__(
        self,
        X: Array,
        signs: Array,
        weights: Array,
        intercept: bool,
        changed: Array,
        factor: Array,
        radius: float,
    ) -> None:
        U, lengths, _ = np.linalg.svd(np.asarray(factor, np.float64), full_matrices=False)
        top = np.max(lengths, axis=-1, initial=0.0, keepdims=True)
        lengths = np.where(lengths > 1e-13 * top, lengths, 0.0)
        if radius == 0:
            U, lengths = U[..., :0], lengths[..., :0]
        directions = np.swapaxes(U * lengths[..., None, :], -1, -2)
        super().__init__(X, signs, weights, intercept, changed, directions, np.array([radius]))

    def restore(self, normals: Matrix, taus: Array) -> None:
        """Initialize the state from planes, projected to the span of F and to the ball."""
        products = self._products(self._split(normals, taus))
        squares = self.gram[:, :, 0]
        theta = np.divide(products, squares, out=np.zeros_like(products), where=squares > 0)
        size = np.linalg.norm(theta, axis=1)
        limits = self.taus * self.changed * self.bounds[0]
        fit = np.divide(limits, size, out=np.ones_like(size), where=size > limits)
        self.theta = theta * fit[:, None]
