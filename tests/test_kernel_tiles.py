"""Kernels in tiles against one matrix, for any number of threads."""

import numpy as np
import pytest

from structinv.kernels import Gaussian, Kernel, Laplacian
from structinv.spaces.kernel_tiles import COLUMNS, ROWS, expand, in_kernel_tiles, wide_product


class Counted(Kernel):
    """A Gaussian kernel that nobody says threads may share."""

    def __init__(self):
        self.asked = 0

    def matrix(self, X, Y, norms=None):
        self.asked += 1
        return Gaussian().matrix(X, Y, norms)

    def diagonal(self, X):
        return np.ones(len(X))


def points(n, m):
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, 3)), rng.standard_normal((m, 3))


@pytest.mark.parametrize(("n", "m"), [(0, 5), (5, 0), (1, 1), (70, 5000), (2 * ROWS + 3, COLUMNS + 1)])
@pytest.mark.parametrize("kernel", [Gaussian(), Laplacian(), Counted()], ids=["rbf", "laplacian", "own"])
def test_tiles_make_the_matrix(kernel, n, m):
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


def test_a_kernel_that_is_not_thread_safe_is_asked_for_whole_rows():
    kernel = Counted()
    expand(kernel, *points(600, 3000), np.ones((3000, 1)))
    assert kernel.asked == 1


def test_wide_products():
    rng = np.random.default_rng(0)
    left, table, out = rng.random((3, 200)), rng.random((200, 9000)), np.empty((3, 9000))
    wide_product(left, table, out)
    np.testing.assert_allclose(out, left @ table, rtol=1e-12)
