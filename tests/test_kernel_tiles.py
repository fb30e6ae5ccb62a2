"""Kernel matrices in tiles against one matrix, for any number of threads."""

from functools import partial

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from structinv.kernels import Gaussian, Kernel, Laplacian
from structinv.spaces.kernel_tiles import COLUMNS, ROWS, expand, in_kernel_tiles, wide_product


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


@pytest.mark.parametrize(("n", "m"), [(0, 5), (5, 0), (1, 1), (70, 5000), (2 * ROWS + 3, COLUMNS + 1)])
@pytest.mark.parametrize("kernel", [Gaussian(), Laplacian(), Counted()], ids=["rbf", "laplacian", "own"])
def test_tiles_form_the_kernel_matrix(kernel, n, m):
    X, Y = points(n, m)
    found, seen = np.full((n, m), np.nan), np.zeros((n, m), dtype=int)

    def use(rows, columns, values):
        found[rows, columns] = values
        seen[rows, columns] += 1

    in_kernel_tiles(kernel, X, Y, use)
    assert np.all(seen == 1)
    np.testing.assert_allclose(found, kernel.matrix(X, Y), rtol=1e-12)


def test_sums_do_not_depend_on_threads(monkeypatch):
    X, Y = points(1500, 2500)
    weights = np.random.default_rng(1).standard_normal((2500, 4))
    sums = []
    for threads in ("1", "2"):
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        sums.append(expand(Gaussian(), X, Y, weights))
    np.testing.assert_array_equal(*sums)
    np.testing.assert_allclose(sums[0], Gaussian().matrix(X, Y) @ weights, atol=1e-10)


@pytest.mark.parametrize("n", [40, 90])
def test_values_and_wide_products_do_not_depend_on_threads(monkeypatch, n):
    rng = np.random.default_rng(2)
    X, Y = (rng.standard_normal((m, 300)).astype(np.float32) for m in (n, 2100))
    table = rng.standard_normal((400, 6300)).astype(np.float32)
    left = rng.standard_normal((10, 400)).astype(np.float32)
    found = []
    for threads in (1, 2):
        monkeypatch.setenv("OMP_NUM_THREADS", str(threads))
        values, product = np.empty((n, 2100), dtype=np.float32), np.empty((10, 6300), dtype=np.float32)
        with threadpool_limits(threads, user_api="blas"):
            in_kernel_tiles(Gaussian(20.0), X, Y, partial(put, values))
            wide_product(left, table, product)
        found.append((values, product))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_array_equal(found[0][1], found[1][1])


def test_kernel_that_is_not_thread_safe_gets_whole_rows():
    kernel = Counted()
    expand(kernel, *points(600, 3000), np.ones((3000, 1)))
    assert kernel.asked == 1


def test_wide_products():
    rng = np.random.default_rng(0)
    left, table, out = rng.random((3, 200)), rng.random((200, 9000)), np.empty((3, 9000))
    wide_product(left, table, out)
    np.testing.assert_allclose(out, left @ table, rtol=1e-12)
