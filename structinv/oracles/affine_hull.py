r"""Averaged planes for sets that add a bounded change to a dense row.

The set of a row is :math:`S(x_i) = x_i + \{F_i \theta : \theta \in T\}` with T a box or a ball, and
the loss of a row of sign :math:`y_i` is

.. math:: \ell_i(f) = \max\bigl(0,\; 1 - \min_{z \in S(x_i)} y_i \langle f, z \rangle\bigr).

The hull of its planes, the null plane included, needs a level and a change in a scaled set:

.. math:: a_i = y_i (\tau_i x_i + F_i \theta_i), \quad \text{offset } \tau_i, \quad
   0 \le \tau_i \le 1, \quad \theta_i \in \tau_i T.

A visit of a row maximizes the dual over its own :math:`(\tau_i, \theta_i)`,

.. math:: D = \sum_i c_i \tau_i - \tfrac12 \Bigl\| \sum_i c_i a_i \Bigr\|^2 .
"""

from __future__ import annotations

import numpy as np

from ..utils.jit import njit
from ..utils.matrices import Matrix, dense_rows
from ..utils.packed_rows import PackedRows
from .identity_hull import IdentityHull, contiguous
from .query import rows_at

Array = np.ndarray

_MATH = {"reassoc", "contract", "nsz", "arcp"}
# Steps at most: for a level, for a multiplier, on a row, and of a least-squares fit.
_LEVEL_STEPS = 60
_SECULAR_STEPS = 40
_INNER_STEPS = 50
_FIT_STEPS = 500
# Slope at which a level counts as settled; the dual loses its square.
_SETTLED = 1e-10
# Part of a row's gap that a visit may leave; exact visits need as many passes.
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
    """Part of the features in the slope and the curvature of the best dual at a level."""
    slope, curve = 0.0, 0.0
    for k in range(x.size):
        high, low = x[k] + radius[k], x[k] - radius[k]
        end = high if target[k] > tau * high else (low if target[k] < tau * low else 0.0)
        slope += (target[k] - tau * end) * end
        curve += end * end
    return c * slope, c * curve


@njit(cache=True, nogil=True, fastmath=_MATH, error_model="numpy")
def _look(x, point, radius, y, c, f, target):
    """Worst margin and margin of a row's point; ``target`` is the point if nothing bound it."""
    margin, inner = 0.0, 0.0
    for k in range(x.size):
        b = y * f[k]
        margin += b * x[k] - radius[k] * abs(b)
        inner += b * point[k]
        target[k] = point[k] - b / c
    return margin, inner


@njit(cache=True, nogil=True)
def _sweep_box(
    X, signs, weights, intercept, radius, levels, points, f, order, gaps, target
):  # fmt: skip
    """Exact block steps: at a given level the features of a row do not interact."""
    d = X.shape[1]
    for i in order:
        c, y, tau, x = weights[i], signs[i], levels[i], X[i]
        gaps[i] = 0.0
        if c == 0:
            continue
        margin, inner = _look(x, points[i], radius, y, c, f, target)
        # The intercept's part of the slope, a constant and a rate.
        bias, free = 0.0, 0.0
        if intercept:
            margin += y * f[d]
            inner += y * f[d] * tau
            bias = c
            free = y * f[d] - c * tau
        gap = c * ((1.0 - margin if margin < 1.0 else 0.0) - tau + inner)
        if gap <= 0.0:
            continue
        gaps[i] = gap
        # The level is the root of the slope: Newton's steps, and a bisection where one leaves what is
        # known of the root. `low` and `high` are outside [0, 1] as long as that end may be the answer.
        low, high, old = -1.0, 2.0, tau
        for _ in range(_LEVEL_STEPS):
            slope, curve = _box_slope(tau, target, x, radius, c)
            slope, curve = slope + 1.0 - free - bias * tau, curve + bias
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
        # The best point at that level.
        levels[i] = tau
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
    """Largest change of a margin, ``max over theta in T of <theta, h>``."""
    if ball:
        return bounds[0] * np.sqrt(_dot(h, h))
    total = 0.0
    for k in range(h.size):
        total += bounds[k] * abs(h[k])
    return total


@njit(cache=True, nogil=True, fastmath=_MATH)
def _image(tau, theta, row, p):
    """Inner products ``p`` of the directions with ``tau x + F theta``."""
    _c, _square, cross, gram, _bounds, ball = row
    for k in range(theta.size):
        change = gram[k, 0] * theta[k] if ball else _dot(gram[k], theta)
        p[k] = tau * cross[k] + change


@njit(cache=True, nogil=True)
def _coordinate_pass(tau, theta, g, row, p):
    """Best value of each theta_k in turn for ``<g, theta> + c/2 |tau x + F theta|^2``."""
    c, _square, _cross, gram, bounds, _ball = row
    for k in range(theta.size):
        if gram[k, k] > 0:
            free = theta[k] - (g[k] / c + p[k]) / gram[k, k]
            room = tau * bounds[k]
            new = -room if free < -room else (room if free > room else free)
            if new != theta[k]:
                _add(new - theta[k], gram[k], p)
                theta[k] = new


@njit(cache=True, nogil=True, fastmath=_MATH, error_model="numpy")
def _ball_pass(tau, mu, theta, g, row, p):
    r"""Best theta of a level, by Newton on the secular equation :math:`|\theta(\mu)| = \tau R`.

    Orthogonal directions make it separable in theta. Returns the multiplier.
    """
    c, _square, cross, gram, bounds, _ball = row
    room, excess = tau * bounds[0], 0.0
    for _ in range(_SECULAR_STEPS):
        # Its squared length, and half the fall of that.
        size, fall = 0.0, 0.0
        for k in range(theta.size):
            # A null direction has no margin; its theta stays 0, also where mu is 0.
            top = g[k] + c * tau * cross[k]
            inverse = 1.0 / (c * gram[k, 0] + mu) if top != 0 else 0.0
            theta[k] = -top * inverse
            size += theta[k] * theta[k]
            fall += theta[k] * theta[k] * inverse
        excess = np.sqrt(size) - room
        if (mu == 0 and excess <= 0) or abs(excess) <= 1e-12 * room:
            break
        mu = mu + size / fall * excess / room if fall > 0 else 0.0
        mu = 0.0 if mu < 0.0 else mu
    if excess > 0:
        for k in range(theta.size):
            theta[k] *= room / (room + excess)
    _image(tau, theta, row, p)
    return mu


@njit(cache=True, nogil=True)
def _solve(tau, theta, h0, h, row, g, p):
    """Alternate exact steps along the ray of (tau, theta) and for theta at a level.

    ``h0`` and ``h`` are the margins of the row and its directions, ``h`` is kept up to date; ``g0``
    and ``g`` are the same without the row's own plane. ``row`` has the weight, the squared length
    of x, its products with the directions, those of the directions, and T. Returns the level, and the
    loss of the row minus its plane on arrival.
    """
    c, square, cross, _gram, bounds, ball = row
    first, mu, g0 = 0.0, 0.0, h0
    for turn in range(_INNER_STEPS + 1):
        lack = 1.0 - h0 + _reach(h, bounds, ball)
        gap = (lack if lack > 0.0 else 0.0) - tau + tau * h0 + _dot(theta, h)
        if gap <= (_LEAVE * first + 1e-12 if turn > 0 else 0.0) or turn == _INNER_STEPS:
            break
        if turn == 0:
            first = gap
            _image(tau, theta, row, p)
            g0 = h0 - c * (tau * square + _dot(cross, theta))
            for k in range(theta.size):
                g[k] = h[k] - c * p[k]
            if 1.0 - g0 + _reach(g, bounds, ball) <= 0:
                for k in range(theta.size):
                    theta[k], h[k] = 0.0, g[k]
                return 0.0, first
            if ball and tau > 0 and h.size > 0:
                mu = np.sqrt(_dot(h, h)) / (tau * bounds[0])
        if tau == 0:
            # The point of T that lowers the margin most.
            tau, length = 1.0, np.sqrt(_dot(g, g))
            for k in range(theta.size):
                if ball:
                    theta[k] = -bounds[0] * g[k] / length if length > 0 else 0.0
                else:
                    theta[k] = -bounds[k] if g[k] > 0 else bounds[k]
            _image(tau, theta, row, p)
        elif ball:
            mu = _ball_pass(tau, mu, theta, g, row, p)
        else:
            _coordinate_pass(tau, theta, g, row, p)
        # The best common factor of level and theta.
        curve = c * (tau * (tau * square + _dot(cross, theta)) + _dot(theta, p))
        slope = tau - tau * g0 - _dot(theta, g)
        slope = 0.0 if slope < 0.0 else slope
        factor = slope / curve if slope * tau < curve else 1.0 / tau
        for k in range(theta.size):
            theta[k] *= factor
            p[k] *= factor
            h[k] = g[k] + c * p[k]
        tau = factor * tau if factor * tau < 1.0 else 1.0
        h0 = g0 + c * (tau * square + _dot(cross, theta))
    return tau, first


@njit(cache=True, nogil=True)
def _sweep_directions(
    X, signs, weights, squares, cross, intercept, F, gram, bounds, ball, levels, theta, f, order, gaps,
    work,
):  # fmt: skip
    """Visit rows; with shared directions a visit costs O(d + t^2), or O(d + t) in a ball.

    Shared directions enter `f` at the end: until then ``scores`` has their products with the full
    `f`, and ``pending`` what `f` lacks.
    """
    d, t = X.shape[1], F.shape[1]
    shared = F.shape[0] == 1
    scores, pending, h, old = work[0], work[1], work[2], work[3]
    for k in range(t if shared else 0):
        scores[k], pending[k] = _dot(F[0, k], f), 0.0
    for i in order:
        c, y, tau = weights[i], signs[i], levels[i]
        gaps[i] = 0.0
        if c == 0:
            continue
        h0 = _dot(X[i], f) + (f[d] if intercept else 0.0)
        h0 = y * (h0 + _dot(cross[i], pending) if shared else h0)
        for k in range(t):
            h[k] = y * (scores[k] if shared else _dot(F[i, k], f))
            old[k] = theta[i, k]
        row = (c, squares[i] + intercept, cross[i], gram[0 if shared else i], bounds, ball)
        levels[i], gap = _solve(tau, theta[i], h0, h, row, work[4], work[5])
        if gap <= 0:
            continue
        gaps[i] = c * gap
        _add(c * y * (levels[i] - tau), X[i], f)
        if intercept:
            f[d] += c * y * (levels[i] - tau)
        for k in range(t):
            step = c * y * (theta[i, k] - old[k])
            if shared:
                pending[k] += step
                scores[k] = y * h[k]
            else:
                _add(step, F[i, k], f)
    for k in range(t if shared else 0):
        _add(pending[k], F[0, k], f)


@njit(cache=True, nogil=True)
def _fit_boxes(visited, levels, theta, margins, cross, gram, bounds, p):
    """Bounded least squares: products of the rows' points with the directions match minus `margins`."""
    for i in visited:
        row = (1.0, 0.0, cross[i], gram[0 if gram.shape[0] == 1 else i], bounds, False)
        _image(levels[i], theta[i], row, p)
        for _ in range(_FIT_STEPS):
            _coordinate_pass(levels[i], theta[i], margins[i], row, p)


class _DenseHull(IdentityHull):
    """What all sets share: the points that stand beside the levels."""

    def combination(self) -> Array:
        """``sum_i c_i a_i``, from the state."""
        f = self.weights @ self.planes()[0]
        bias = self.weights @ (self.signs * self.levels)
        return np.append(f, bias) if self.intercept else f

    @property
    def _changes(self) -> Array:
        """What stands for the points, and has the levels as factors; a row each."""
        raise NotImplementedError

    def losses(self, f: Array) -> None:
        """See `Hull.losses`: the oracle knows them as cheaply."""

    def rescale(self, rows: Array, factors: Array) -> None:
        super().rescale(rows, factors)
        self._changes[rows] /= factors[:, None]

    def pack(self) -> PackedRows:
        return PackedRows((self.levels, self._changes))

    def unpack(self, packed: PackedRows, n_features: int) -> None:
        self.levels = packed.each[0].copy()
        self._changes[:] = packed.each[1]

    def absorb(self, rows: Array, chosen: Array, keep: Array, steps: Array, corners: Array) -> None:
        super().absorb(rows, chosen, keep, steps, corners)
        mine = rows[chosen]
        added = steps[:, None] * corners[chosen]
        self._changes[mine] = keep[:, None] * self._changes[mine] + added

    def _split(self, normals: Matrix, levels: Array) -> Array:
        """Take the levels over; return the changes ``F_i theta_i`` of the planes."""
        IdentityHull.restore(self, normals, levels)
        points = self.signs[:, None] * dense_rows(normals)
        return points - self.levels[:, None] * self.X


class BoxHull(_DenseHull):
    r"""Each feature k may move by at most ``radius[k]``: :math:`|z_k - x_{ik}| \le r_k`.

    Block steps are exact: with g what `f` is without the row, the point :math:`p_i = y_i a_i` has
    :math:`p_{ik} = \mathrm{clip}(-y_i g_k / c_i, \tau (x_{ik} - r_k), \tau (x_{ik} + r_k))`, and
    the level is the root of a decreasing, piecewise linear function.

    Parameters
    ----------
    X, signs, weights, intercept
        See `IdentityHull`.
    radius : (d,) array
    """

    def __init__(self, X: Array, signs: Array, weights: Array, intercept: bool, radius: Array) -> None:
        super().__init__(X, signs, weights, intercept)
        self.radius = np.ascontiguousarray(radius, dtype=np.float64)
        self.points = np.zeros(self.X.shape)

    def sweep(self, f: Array, order: Array, gaps: Array) -> None:
        rows = (self.X, self.signs, self.weights, self.intercept)
        room = np.empty(self.X.shape[1])
        _sweep_box(*rows, self.radius, self.levels, self.points, f, order, gaps, room)

    def normals_of(self, rows: Array) -> Array:
        return self.signs[rows, None] * rows_at(self.points, rows)

    @property
    def _changes(self) -> Array:
        return self.points

    def candidates(self, f: Array, rows: Array) -> tuple[Array, Array, Array]:
        slopes = self.signs[rows, None] * np.sign(f[: self.X.shape[1]])
        corners = self.X[rows] - slopes * self.radius
        return self.points[rows], corners, corners

    def restore(self, normals: Matrix, levels: Array) -> None:
        """See `Hull.restore`; changes beyond the radius are cut."""
        changes = self._split(normals, levels)
        room = self.levels[:, None] * self.radius
        self.points = self.levels[:, None] * self.X + np.clip(changes, -room, room)


class _DirectionHull(_DenseHull):
    """Sets spanned by directions: rows of ``directions``, (1, t, d) or (n, t, d).

    In a ball they are orthogonal, and ``gram`` (., t, 1) has only their squared lengths.
    """

    ball = False

    def __init__(
        self, X: Array, signs: Array, weights: Array, intercept: bool, F: Array, bounds: Array
    ) -> None:
        super().__init__(X, signs, weights, intercept)
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
        """Inner products of each row of `Z` with its own directions, (n, t)."""
        if len(self.directions) == 1:
            return np.ascontiguousarray(Z.astype(np.float64, copy=False) @ self.directions[0].T)
        return np.einsum("nd,ntd->nt", Z, self.directions, dtype=np.float64)

    def sweep(self, f: Array, order: Array, gaps: Array) -> None:
        rows = (self.X, self.signs, self.weights, self.squares, self.cross, self.intercept)
        sets = (self.directions, self.gram, self.bounds, self.ball)
        room = np.empty((6, self.theta.shape[1]))
        _sweep_directions(*rows, *sets, self.levels, self.theta, f, order, gaps, room)

    def normals_of(self, rows: Array) -> Array:
        return self.signs[rows, None] * self._averages(rows)

    @property
    def _changes(self) -> Array:
        return self.theta

    def _averages(self, rows: Array) -> Array:
        return self.levels[rows, None] * self.X[rows] + self._moves(self.theta[rows], rows)

    def _moves(self, theta: Array, rows: Array) -> Array:
        """The changes that the theta of some rows make."""
        if len(self.directions) == 1:
            return theta @ self.directions[0]
        return np.einsum("nt,ntd->nd", theta, self.directions[rows])

    def candidates(self, f: Array, rows: Array) -> tuple[Array, Array, Array]:
        w = f[: self.X.shape[1]]
        own = self.directions[0] if len(self.directions) == 1 else self.directions[rows]
        slopes = self.signs[rows, None] * np.atleast_2d(own @ w)
        if self.ball:
            length = np.linalg.norm(slopes, axis=1, keepdims=True)
            unit = np.divide(slopes, length, out=np.zeros_like(slopes), where=length > 0)
        else:
            unit = np.sign(slopes)
        theta = -self.bounds * unit
        return self._averages(rows), self.X[rows] + self._moves(theta, rows), theta


class ZonotopeHull(_DirectionHull):
    r"""Sum of segments: :math:`S(x_i) = \{x_i + F_i\theta : |\theta_k| \le b_k\}`.

    Parameters
    ----------
    X, signs, weights, intercept
        See `IdentityHull`.
    directions : (t, d) or (n, t, d) array
        The columns of F, shared or of each row.
    bounds : (t,) array
    """

    def restore(self, normals: Matrix, levels: Array) -> None:
        """See `Hull.restore`; the nearest change within the bounds, by least squares."""
        products = self._products(self._split(normals, levels))
        inverse = np.linalg.pinv(self.gram, rcond=1e-12, hermitian=True)
        room = self.levels[:, None] * self.bounds
        free = np.matmul(products[:, None, :], inverse)[:, 0]
        self.theta = np.clip(free, -room, room)
        # A plain least-squares theta beyond the bounds can have an equivalent within them.
        cut = np.flatnonzero(np.any(self.theta != free, axis=1))
        margins = -products - self.levels[:, None] * self.cross
        sets = self.cross, self.gram, self.bounds
        _fit_boxes(cut, self.levels, self.theta, margins, *sets, np.empty(len(self.bounds)))


class EllipsoidHull(_DirectionHull):
    r"""Image of a ball: :math:`S(x_i) = \{x_i + F_i\theta : \|\theta\|_2 \le R\}`.

    The directions kept are :math:`F_i V`, orthogonal, from the singular value decomposition
    :math:`F_i = U \Sigma V^\top`, which spans the same set; the best theta at a level then solves
    a secular equation, and the level is the root of a decreasing function.

    Parameters
    ----------
    X, signs, weights, intercept
        See `IdentityHull`.
    factor : (d, r) or (n, d, r) array
        F, shared or of each row.
    radius : float
    """

    ball = True

    def __init__(
        self, X: Array, signs: Array, weights: Array, intercept: bool, factor: Array, radius: float
    ) -> None:
        U, lengths, _ = np.linalg.svd(np.asarray(factor, np.float64), full_matrices=False)
        top = np.max(lengths, axis=-1, initial=0.0, keepdims=True)
        lengths = np.where(lengths > 1e-13 * top, lengths, 0.0)
        if radius == 0:
            U, lengths = U[..., :0], lengths[..., :0]
        directions = np.swapaxes(U * lengths[..., None, :], -1, -2)
        super().__init__(X, signs, weights, intercept, directions, np.array([radius]))

    def restore(self, normals: Matrix, levels: Array) -> None:
        """See `Hull.restore`; the change in the span of the factor, shrunk into the ball."""
        products = self._products(self._split(normals, levels))
        squares = self.gram[:, :, 0]
        theta = np.divide(products, squares, out=np.zeros_like(products), where=squares > 0)
        size = np.linalg.norm(theta, axis=1)
        room = self.levels * self.bounds[0]
        fit = np.divide(room, size, out=np.ones_like(size), where=size > room)
        self.theta = theta * fit[:, None]
