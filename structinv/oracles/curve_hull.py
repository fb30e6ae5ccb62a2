r"""Averaged planes for rows on polynomial curves.

The set of a row is :math:`S(x_i) = \{x_i(t) = \sum_{k=0}^p t^k x_{ik} : a \le t \le b\}`. The hull of
its planes, the null plane included, is

.. math:: a_i = y_i \sum_k \mu_{ik} x_{ik}, \quad \text{offset } \mu_{i0}, \quad
   \mu_i = \sum_j \alpha_{ij} (1, t_{ij}, \dots, t_{ij}^p), \quad \alpha_{ij} \ge 0, \quad
   \sum_j \alpha_{ij} \le 1,

and needs a few places :math:`t_{ij}` a row, as many as a visit makes use of. A visit maximizes the dual
over its own :math:`\alpha_i` and places: it adds the worst place, and moves mass between pairs of
places by exact steps. All of that happens in p + 1 numbers, the products with the x_k, whatever the
number of features.
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

# Rounds on a row at most, and exchanges between its points in a round.
_ROUNDS = 30
_EXCHANGES = 200
# Part of a row's gap that a visit may leave; exact visits need as many passes.
_LEAVE = 0.1
_FIT_ROUNDS = 100


class CurveHull(Hull):
    """In-hull steps of rows on curves; see the module.

    Parameters
    ----------
    X, signs, weights, intercept
        See `IdentityHull`.
    powers : (n, p, d) array
        What each power of t multiplies.
    ends : pair of float
        a <= 0 <= b.
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
        # Places are shares of the furthest one.
        reach = max(abs(ends[0]), abs(ends[1])) or 1.0
        self.ends = ends[0] / reach, ends[1] / reach
        scale = reach ** np.arange(1, degree + 1)
        self.vectors = contiguous(np.concatenate([X[:, None, :], powers * scale[:, None]], axis=1))
        wide = self.vectors.astype(np.float64, copy=False)
        self.gram = wide @ wide.transpose(0, 2, 1)
        # More are never needed at an optimum, but may be on the way to one.
        size = 2 * degree + 4
        self.places, self.masses = np.zeros((n, size)), np.zeros((n, size))

    @property
    def moments(self) -> Array:
        """The mu of each row, (n, p + 1); the first is the level."""
        orders = np.arange(self.vectors.shape[1])
        return np.einsum("ns,nsk->nk", self.masses, self.places[:, :, None] ** orders)

    @property
    def offset(self) -> float:
        return float(self.weights @ self.masses.sum(axis=1))

    def sweep(self, f: Array, order: Array, gaps: Array) -> None:
        rows = (self.vectors, self.gram, self.signs, self.weights, self.intercept)
        size = self.vectors.shape[1]
        room = np.empty(size), np.empty(size), np.empty((size, size)), np.empty((6, size + 2))
        _sweep(*rows, *self.ends, self.places, self.masses, f, order, gaps, *room)

    def combination(self) -> Array:
        normals, levels = self.planes()
        f = self.weights @ normals
        return np.append(f, self.weights @ (self.signs * levels)) if self.intercept else f

    def planes(self) -> tuple[Array, Array]:
        moments = self.moments
        points = np.einsum("nk,nkd->nd", moments, self.vectors, dtype=np.float64)
        return self.signs[:, None] * points, moments[:, 0].copy()

    def pack(self) -> PackedRows:
        """See `Hull.pack`; planes do not tell the places."""
        return PackedRows((self.places, self.masses))

    def unpack(self, packed: PackedRows, n_features: int) -> None:
        self.places[:], self.masses[:] = packed.each

    def restore(self, normals: Matrix, levels: Array) -> None:
        """See `Hull.restore`; the nearest planes of these sets, by least squares.

        Places are not told by planes. They are found again to some 1e-5 of the planes' size, which are
        then planes of this set, and what the dual is made from.
        """
        levels = np.clip(np.asarray(levels, dtype=np.float64), 0.0, 1.0)
        points = self.signs[:, None] * dense_rows(normals)
        wanted = np.einsum("nkd,nd->nk", self.vectors, points, dtype=np.float64)
        self.masses[:] = 0.0
        size = self.vectors.shape[1]
        room = np.empty(size), np.empty((size, size)), np.empty((6, size + 2))
        _fit(self.gram, wanted, levels, *self.ends, self.places, self.masses, *room)


@njit(cache=True, nogil=True)
def _at(c, t):
    total = 0.0
    for k in range(c.size - 1, -1, -1):
        total = total * t + c[k]
    return total


@njit(cache=True, nogil=True)
def _move(step, first, second, null, gram, h, image):
    """Move mass to a place from another, or from the null plane."""
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
def _exchange(places, masses, h, unit, gram, goal, image):
    """Move mass between pairs of places, the null plane among them, by exact steps."""
    for _ in range(_EXCHANGES):
        # A place gains by its lack of margin, the null plane by nothing.
        best, most, worst, least, used = -1, 0.0, -1, 0.0, 0.0
        for j in range(places.size):
            used += masses[j]
        if used >= 1.0:
            least = np.inf
        for j in range(places.size):
            lack = unit - _at(h, places[j])
            if lack > most:
                best, most = j, lack
            if masses[j] > 0.0 and lack < least:
                worst, least = j, lack
        if most - least <= goal or best == worst:
            return
        # The squared length of the difference of the two members.
        first = places[best] if best >= 0 else places[worst]
        null = best < 0 or worst < 0
        second = 0.0 if null else places[worst]
        curve, power, other = 0.0, 1.0, 0.0 if null else 1.0
        for k in range(h.size):
            inner, at, there = 0.0, 1.0, 0.0 if null else 1.0
            for j in range(h.size):
                inner += (at - there) * gram[k, j]
                at *= first
                there *= second
            curve += (power - other) * inner
            power *= first
            other *= second
        room = masses[worst] if worst >= 0 else 1.0 - used
        step = (most - least) / curve if curve * room > most - least else room
        _move(step if best >= 0 else -step, first, second, null, gram, h, image)
        if best >= 0:
            masses[best] += step
        if worst >= 0:
            masses[worst] = 0.0 if step == room else masses[worst] - step


@njit(cache=True, nogil=True)
def _solve(places, masses, h, unit, gram, low, high, goal, rounds, work):
    """Add worst places and exchange mass until the gap is small enough; returns the gap on arrival."""
    down, image = work[0, : h.size], work[1, : h.size]
    first = 0.0
    for turn in range(rounds):
        # The place of the least margin, and how far that is below `unit`.
        degree = 0
        for k in range(h.size):
            down[k] = -h[k]
            if h[k] != 0.0:
                degree = k
        t, most = largest_place(down[: degree + 1], low, high, work[2], work[3], work[4:6])
        lack = unit + most
        # The loss less the averaged plane: each place is short of the loss by some.
        gap = 0.0 if lack < 0.0 else lack
        for j in range(places.size):
            if masses[j] > 0.0:
                gap -= masses[j] * (unit - _at(h, places[j]))
        if turn == 0:
            first = gap
            goal = _LEAVE * gap if rounds == _ROUNDS and _LEAVE * gap > goal else goal
        if gap <= goal:
            break
        if lack > 0.0:
            slot = 0
            for j in range(places.size):
                if places[j] == t and masses[j] > 0.0:
                    slot = j
                    break
                if masses[j] < masses[slot]:
                    slot = j
            if masses[slot] > 0.0 and places[slot] != t:
                _move(-masses[slot], places[slot], 0.0, True, gram, h, image)
                masses[slot] = 0.0
            places[slot] = t
        _exchange(places, masses, h, unit, gram, 0.1 * goal, image)
    return first


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def _dot(x, f):
    total = 0.0
    for j in range(x.size):
        total += x[j] * f[j]
    return total


@njit(cache=True, nogil=True)
def _sweep(
    vectors, gram, signs, weights, intercept, low, high, places, masses, f, order, gaps, h, before,
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
        _moments(places[i], masses[i], before)
        gap = _solve(places[i], masses[i], h, 1.0, curve, low, high, 1e-12, _ROUNDS, work)
        gaps[i] = 0.0 if gap < 0.0 else c * gap
        _moments(places[i], masses[i], h)
        for k in range(size):
            step = c * y * (h[k] - before[k])
            if step != 0.0:
                x = vectors[i, k]
                for j in range(d):
                    f[j] += step * x[j]
                if intercept and k == 0:
                    f[d] += step


@njit(cache=True, nogil=True)
def _moments(places, masses, into):
    for k in range(into.size):
        into[k] = 0.0
    for j in range(places.size):
        power = masses[j]
        for k in range(into.size):
            into[k] += power
            power *= places[j]


@njit(cache=True, nogil=True)
def _fit(gram, wanted, levels, low, high, places, masses, h, curve, work):
    """Least squares: the products with the vectors, and the level, of each row."""
    size = gram.shape[1]
    for i in range(gram.shape[0]):
        if levels[i] == 0.0:
            continue
        # As heavy as the vectors, so that neither gives way to the other.
        heavy = 0.0
        for k in range(size):
            heavy = gram[i, k, k] if gram[i, k, k] > heavy else heavy
        heavy = heavy if heavy > 0.0 else 1.0
        for k in range(size):
            h[k] = -wanted[i, k] / heavy
            for j in range(size):
                curve[k, j] = gram[i, k, j] / heavy
        h[0] -= levels[i]
        curve[0, 0] += 1.0
        _solve(places[i], masses[i], h, 0.0, curve, low, high, 1e-15, _FIT_ROUNDS, work)
