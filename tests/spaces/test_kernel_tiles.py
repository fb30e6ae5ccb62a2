"""Kernel matrices in tiles, sums over them, and a bound of their rounding."""

from functools import partial

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from structinv.kernels import Gaussian, Kernel, Laplacian
from structinv.spaces.kernel_space import KernelSpace
from structinv.spaces.kernel_tiles import (
    COLUMNS,
    COLUMNS_ADDED,
    ROWS,
    ROWS_ADDED,
    add_rows,
    expand,
    in_kernel_tiles,
    kernel_rounding,
    output_rounding,
)
from structinv.spaces.point_sums import PointSums
from structinv.structures import Binary
from structinv.structures.classes import Multiclass


class Counted(Kernel):
    """Gaussian kernel that is not declared thread-safe."""

    def __init__(self):
        self.asked = 0

    def matrix(self, X, Y, norms=None):
        self.asked += 1
        return Gaussian().matrix(X, Y, norms)

    def diagonal(self, X):
        return np.ones(len(X))


def put(into, rows, columns, values):
    into[rows, columns] = values


def points(n, m):
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, 3)), rng.standard_normal((m, 3))


@pytest.mark.parametrize("kernel", [Gaussian(), Laplacian(), Counted()], ids=["rbf", "laplacian", "own"])
def test_tiles_form_the_kernel_matrix(kernel):
    for n, m in ((0, 5), (5, 0), (1, 1), (70, 5000), (2 * ROWS + 3, COLUMNS + 1)):
        X, Y = points(n, m)
        found, seen = np.full((n, m), np.nan), np.zeros((n, m), dtype=int)

        def use(rows, columns, values, found=found, seen=seen):
            found[rows, columns] = values
            seen[rows, columns] += 1

        in_kernel_tiles(kernel, X, Y, use)
        assert np.all(seen == 1)
        np.testing.assert_allclose(found, kernel.matrix(X, Y), rtol=1e-12)


@pytest.mark.parametrize("n", [40, 90])
def test_values_and_sums_of_rows_do_not_depend_on_threads(monkeypatch, n):
    rng = np.random.default_rng(2)
    X, Y = (rng.standard_normal((m, 300)).astype(np.float32) for m in (n, 2100))
    table = rng.standard_normal((400, 6300)).astype(np.float32)
    coefficients, rows = rng.standard_normal((400, 10)), rng.permutation(400)
    found = []
    for threads in (1, 2):
        monkeypatch.setenv("OMP_NUM_THREADS", str(threads))
        values, sums = np.empty((n, 2100), dtype=np.float32), np.zeros((10, 6300), dtype=np.float32)
        with threadpool_limits(threads, user_api="blas"):
            in_kernel_tiles(Gaussian(20.0), X, Y, partial(put, values))
            add_rows(sums, table, rows, coefficients, slice(0, 6300))
        found.append((values, sums))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_array_equal(found[0][1], found[1][1])


class FromProducts(Kernel):
    """A Gaussian kernel of distances from norms and inner products, which cancel."""

    def matrix(self, X, Y, norms=None):
        squares = np.sum(X**2, axis=1)[:, None] + np.sum(Y**2, axis=1) - 2.0 * X @ Y.T
        return np.exp(-0.5 * squares)

    def diagonal(self, X):
        return np.ones(len(X), dtype=X.dtype)

    def lipschitz(self, n_features=None):
        return 1.0


def test_rounding_bound_includes_distances_that_cancel():
    rng = np.random.default_rng(0)
    centers, points = (100.0 + rng.standard_normal((n, 5)).astype(np.float32) for n in (30, 20))
    space = KernelSpace(FromProducts(), 5, cache_mb=0.0)
    keys = space.atoms.add_points(centers, np.zeros((30, 2), dtype=int))
    terms = PointSums(keys, rng.standard_normal((30, 1)), np.array([0, 30]))
    f = space.combine(terms, np.ones(1))
    exact = Gaussian().matrix(points.astype(float), centers.astype(float)) @ terms.coefficients
    errors = np.abs(space.values(f, points) - exact)
    assert errors.max() > 1e-3
    assert np.all(errors <= output_rounding(space.kernel, f, points[:, None]))


@pytest.mark.parametrize(
    ("structure", "sizes"), [(Binary(), [1.0]), (Multiclass(), [1e5, 1.0, 1.0])], ids=["two", "three"]
)
def test_rounding_bound_of_a_difference_includes_both_scores(structure, sizes):
    rng = np.random.default_rng(0)
    centers, points = (100.0 + rng.standard_normal((n, 5)).astype(np.float32) for n in (30, 20))
    space = KernelSpace(FromProducts(), 5, len(sizes), cache_mb=0.0)
    keys = space.atoms.add_points(centers, np.zeros((30, 2), dtype=int))
    terms = PointSums(keys, sizes * rng.standard_normal((30, len(sizes))), np.array([0, 30]))
    f = space.combine(terms, np.ones(1))
    exact = Gaussian().matrix(points.astype(float), centers.astype(float)) @ terms.coefficients
    errors = space.values(f, points) - exact
    if len(sizes) == 1:
        # The second label has the score f, the first has none.
        errors = np.hstack([0.0 * errors, errors])
    y = np.arange(20) % errors.shape[1]
    competitors = structure.bind(y).competitors(np.arange(20))
    differences = np.abs(errors - errors[np.arange(20), y][:, None])
    for label in range(errors.shape[1]):
        assert differences[y == label].max() > 1e-3
    assert np.all(differences <= kernel_rounding(space.kernel, f, points[:, None], competitors))


def test_kernel_that_is_not_thread_safe_gets_whole_rows():
    kernel = Counted()
    expand(kernel, *points(600, 3000), np.ones((3000, 1)))
    assert kernel.asked == 1


@pytest.mark.parametrize("n_rows", [0, 1, 3, 4, ROWS_ADDED + 6])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_of_rows_are_products(n_rows, dtype):
    rng = np.random.default_rng(0)
    table = rng.standard_normal((100, COLUMNS_ADDED + 20)).astype(dtype)
    values = rng.standard_normal((3, COLUMNS_ADDED + 15)).astype(dtype)
    rows = rng.permutation(100)[:n_rows]
    coefficients = rng.standard_normal((n_rows, 3)) * (rng.random((n_rows, 3)) < 0.6)
    wanted = values.astype(float)
    wanted[:, :-5] += coefficients.T @ table[rows, 7:-3]
    add_rows(values, table, rows, coefficients, slice(7, COLUMNS_ADDED + 17))
    np.testing.assert_allclose(values, wanted, atol=1e-5 if dtype == np.float32 else 1e-12)
