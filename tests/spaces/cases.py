"""Kernels' spaces beside dense matrices over all members and functionals, and a continuum on a line."""

from __future__ import annotations

import numpy as np
import pytest

from structinv.functionals import (
    Evaluation,
    Gradient,
    LocalAverage,
    SecondDerivative,
    TransformDifference,
)
from structinv.functionals.representers import Representers
from structinv.kernels import Gaussian
from structinv.oracles import Changes, InvarianceOracle, Support
from structinv.spaces import RepresenterSpace
from structinv.spaces.kernel_space import KernelSpace
from structinv.spaces.point_sums import PointSums
from structinv.utils.matrices import ALL_ROWS

from ..kernel_problems import CACHES
from ..oracles.cases import Reorderings, Shrinkings

D = 3


FAMILIES = [
    Evaluation(),
    Gradient(),
    TransformDifference(Reorderings([[0, 1, 2], [2, 1, 0]])),
    LocalAverage(0.5, n_nodes=3),
    SecondDerivative(0, 1),
]


DEGREES = [None, 0, 1]


# Whether there are representers, the degree of the free part, and the room for a table.
SPACES = [(False, None, cache_mb) for cache_mb in CACHES]


# Every degree with two of the rooms, in turns.
SPACES += [
    (True, degree, cache_mb)
    for i, degree in enumerate(DEGREES)
    for j, cache_mb in enumerate(CACHES)
    if (i + j) % 2 == 0
]


every_space = pytest.mark.parametrize(("representers", "free_degree", "cache_mb"), SPACES)


class Model:
    """A space over the members of rows, perhaps with functionals at others, and the Gram matrix of both.

    A function is told by dense numbers: one for each functional and each point, and free coefficients.
    """

    def __init__(
        self, cache_mb=100.0, n_outputs=2, kernel=None, representers=False, free_degree=None, seed=0
    ):
        self.kernel, self.rng = kernel or Gaussian(1.5), np.random.default_rng(seed)
        self.X, Z = self.rng.standard_normal((8, D)), self.rng.standard_normal((3, D))
        families = FAMILIES if representers else []
        self.parts = [family.bind(Z).parts(self.kernel) for family in families]
        self.n_outputs, self.n_functionals, self.n_free = n_outputs, 0, 0
        if representers:
            self.system = Representers(self.kernel, self.parts, cache_mb=cache_mb)
            room = {"free_degree": free_degree, "cache_mb": cache_mb}
            self.space = RepresenterSpace(self.system, D, n_outputs, **room)
            self.n_functionals, self.n_free = self.system.size, self.space.n_free
        else:
            self.space = KernelSpace(self.kernel, D, n_outputs, cache_mb=cache_mb)
        self.source = Shrinkings().changes(self.X)
        self.pool = self.space.atoms.pool(self.source)
        members = self.source.members()
        self.size, self.points = members.shape[1], np.zeros((0, D))
        self.add(members.reshape(-1, D))

    def add(self, points):
        """More points that functions may expand over; their numbers."""
        first = len(self.points)
        self.points = np.vstack([self.points, points])
        every = [*self.parts, Evaluation().bind(self.points).parts(self.kernel)]
        self.gram = Representers(self.kernel, every).gram()
        # What functionals and points are of the free functions.
        of_points = np.column_stack([np.ones(len(self.points)), self.points])
        above = self.system.monomials(1) if self.n_functionals else of_points[:0]
        self.free = np.vstack([above, of_points])[:, : self.n_free]
        return np.arange(first, len(self.points))

    def add_loose(self, n):
        """New points that belong to no cover, and their keys."""
        fresh = self.rng.standard_normal((n, D))
        return self.add(fresh), self.space.atoms.add_points(fresh, np.zeros((n, 2), dtype=np.int64))

    def key(self, number):
        """Keys of members, by their number."""
        return self.pool.keys(*np.divmod(number, self.size))

    def rows_of(self, numbers, keys, sizes):
        """Normals with given points, and the same as a dense array, (m, numbers, outputs)."""
        start, K = np.r_[0, np.cumsum(sizes)], self.n_outputs
        coefficients = self.rng.standard_normal((start[-1], K)) * (self.rng.random((start[-1], K)) < 0.8)
        dense = np.zeros((len(sizes), len(self.gram), K))
        places = self.n_functionals + numbers
        np.add.at(dense, (np.repeat(np.arange(len(sizes)), sizes), places), coefficients)
        return PointSums(keys, coefficients, start), dense

    def normals(self, m, most=3):
        """Rows of none, one or several members, some of them twice."""
        sizes = self.rng.integers(most + 1, size=m)
        numbers = self.rng.integers(self.size * len(self.X), size=sizes.sum())
        return self.rows_of(numbers, self.key(numbers), sizes)

    def function(self, atoms=True, representers=True, free=True):
        """A function of the kinds that are asked for, and the same as dense arrays."""
        shape, K = (self.n_functionals, self.n_outputs), self.n_outputs
        r = self.rng.standard_normal(shape) * (self.rng.random(shape) < 0.7) * representers
        b = self.rng.standard_normal((self.n_free, K)) * free
        f = self.space.of_representers(r, b) if self.n_functionals else self.space.zeros()
        dense = np.vstack([r, np.zeros((len(self.points), K))])
        if atoms:
            rows, more = self.normals(6)
            f += self.space.combine(rows, np.ones(6))
            dense += more.sum(axis=0)
        return f, (dense, b)

    def mixed(self, m):
        """Normals of which some have representers, if there are any, and the same as a dense array."""
        rows, dense = self.normals(m)
        if not self.n_functionals:
            return rows, dense
        parts, denses = [rows], [dense]
        for atoms in (True, False):
            f, (more, _) = self.function(atoms, free=False)
            parts.append(self.space.element(f))
            denses.append(more[None])
        both, order = self.space.stack([*parts, rows]), self.rng.permutation(2 * m + 2)
        return both[order], np.concatenate([*denses, dense])[order]

    def nothing(self):
        return np.zeros((len(self.gram), self.n_outputs)), np.zeros((self.n_free, self.n_outputs))

    def padded(self, dense):
        short = len(self.gram) - dense.shape[-2]
        return np.concatenate([dense, np.zeros((*dense.shape[:-2], short, dense.shape[-1]))], axis=-2)

    def products(self, left, right):
        left, right = self.padded(left), self.padded(right)
        return np.einsum("mpk,pq,nqk->mn", left, self.gram, right, optimize=True)

    def at(self, dense, b):
        """What all functionals and points are."""
        return self.gram @ self.padded(dense) + self.free @ b

    def assert_is(self, f, dense, b=None):
        """That an expansion is what dense numbers say, wherever it may be asked."""
        b = self.nothing()[1] if b is None else b
        wanted, atol = self.at(dense, b), 1e-11 * (1.0 + np.abs(dense).max())
        first, function = self.n_functionals, f.function()
        np.testing.assert_allclose(function(self.points), wanted[first:], atol=atol)
        known = self.space.atoms.known
        there = function(known) if len(known) else np.zeros((0, self.n_outputs))
        np.testing.assert_allclose(f.values(), there, atol=atol)
        if first:
            np.testing.assert_allclose(f.functionals(), wanted[:first], atol=atol)
            np.testing.assert_allclose(f.representers, dense[:first], atol=1e-12)
            np.testing.assert_allclose(f.free, b, atol=1e-12)
            return
        used = f.support()
        fresh = self.kernel.matrix(self.points, self.space.atoms.points(used))
        np.testing.assert_allclose(fresh @ f.coefficients[used], wanted, atol=atol)

    def assert_budget(self):
        table = self.space.atoms.table
        whole = table if table.base is None else table.base
        assert whole.nbytes <= 1e6 * self.space.cache_mb
        assert table.shape[0] <= len(self.space.atoms)


class Line(InvarianceOracle):
    """``x + t direction`` with t between two numbers, known by a grid and by a search around it."""

    def __init__(self, direction, low=-0.5, high=1.0, grid=5):
        self.direction = direction
        self.low = low
        self.high = high
        self.grid = grid

    def ends(self):
        return np.asarray(self.direction, dtype=float), (self.high - self.low) / (self.grid - 1)

    def values(self):
        return np.r_[0.0, np.linspace(self.low, self.high, self.grid)]

    def support(self, X, V, assign, cost=None):
        slope = V[assign] @ self.ends()[0]
        t = np.where(slope > 0, self.high, np.where(slope < 0, self.low, 0.0))
        return Support(X + t[:, None] * self.ends()[0])

    def changes(self, X, y=None):
        return Steps(self, X)

    def dense(self, X, n=4001):
        """Very many members, (n_rows, n, d)."""
        t = np.r_[0.0, np.linspace(self.low, self.high, n)]
        return X[:, None, :] + t[:, None] * self.ends()[0]


class Steps(Changes):
    """Members of a line at equal distances."""

    def __init__(self, line, X):
        super().__init__(X)
        self.line = line

    @property
    def size(self):
        return len(self.line.values())

    def members(self, rows=ALL_ROWS, numbers=None):
        values = self.line.values() if numbers is None else self.line.values()[numbers]
        return self.X[rows][:, None, :] + values[:, None] * self.line.ends()[0]

    def mesh(self, rows=ALL_ROWS):
        direction, spacing = self.line.ends()
        return np.full(self.count(rows), 0.5 * spacing * np.linalg.norm(direction))

    def refine(self, rows, index, score):
        X, (direction, spacing) = self.X[rows], self.line.ends()
        t = self.line.values()[index]
        points = X + t[:, None] * direction
        reached = score(points)
        a, b = np.maximum(t - spacing, self.line.low), np.minimum(t + spacing, self.line.high)
        golden = (np.sqrt(5.0) - 1.0) / 2.0
        for _ in range(25):
            low, high = b - golden * (b - a), a + golden * (b - a)
            below, above = (score(X + s[:, None] * direction) for s in (low, high))
            up = above > below
            a, b = np.where(up, low, a), np.where(up, b, high)
        tried = X + (0.5 * (a + b))[:, None] * direction
        found = score(tried)
        return np.where((found > reached)[:, None], tried, points)


DIRECTION = np.array([0.6, -0.8, 0.0, 0.5, 0.0])


LINE = Line(DIRECTION)
