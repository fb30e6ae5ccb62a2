"""Kernels of users' own that keep what they return: nobody else may write into it."""

import numpy as np
import pytest

from structinv.functionals import Evaluation, Folded
from structinv.kernels import Gaussian, Kernel, Linear

X = np.random.default_rng(0).standard_normal((6, 2))


class Keeping(Kernel):
    """A Gaussian kernel that hands out the same arrays again and again."""

    smoothness = 1.0
    uses_distances = True

    def __init__(self):
        self.gram = Gaussian().matrix(X, X)
        self.table = Gaussian().partials(self.distances(), None, 1)

    @staticmethod
    def distances():
        return np.sum((X[:, None] - X[None]) ** 2, axis=2)

    def matrix(self, X, Y, norms=None):
        return self.gram

    def diagonal(self, X):
        return np.diagonal(self.gram)

    def _partials(self, distances, products, order):
        return self.table


class KeepingAll(Keeping):
    """One that hands out the same dictionary, too."""

    def partials(self, distances, products, order):
        return self.table


COMBINATIONS = [
    lambda kernel: kernel + Linear(),
    lambda kernel: kernel + Gaussian(2.0) + kernel,
    lambda kernel: Linear() + kernel,
    lambda kernel: kernel * Gaussian(2.0),
    lambda kernel: 3.0 * kernel,
    lambda kernel: 2.0 * (kernel * kernel) + 0.5 * kernel,
]


@pytest.mark.parametrize("combine", COMBINATIONS)
def test_values_that_a_kernel_keeps_are_left_alone(combine):
    kept, wanted = Keeping(), combine(Gaussian()).matrix(X, X)
    for _ in range(2):
        np.testing.assert_allclose(combine(kept).matrix(X, X), wanted, rtol=1e-12)
    np.testing.assert_array_equal(kept.gram, Gaussian().matrix(X, X))


@pytest.mark.parametrize("kind", [Keeping, KeepingAll])
@pytest.mark.parametrize("combine", COMBINATIONS)
def test_derivatives_that_a_kernel_keeps_are_left_alone(combine, kind):
    kept = kind()
    asked = kept.distances(), X @ X.T, 1
    wanted = combine(Gaussian()).partials(*asked)
    for _ in range(2):
        found = combine(kept).partials(*asked)
        assert found.keys() == wanted.keys()
        for which, values in wanted.items():
            np.testing.assert_allclose(found[which], values, rtol=1e-12)


@pytest.mark.parametrize("free_constant", [False, True])
def test_folding_leaves_what_a_kernel_keeps_alone(free_constant):
    kept = Keeping()
    options = {"nu": 0.7, "free_constant": free_constant}
    folded = Folded(kept, [Evaluation().bind(X)], **options)
    wanted = Folded(Gaussian(), [Evaluation().bind(X)], **options).matrix(X, X)
    for _ in range(2):
        np.testing.assert_allclose(folded.matrix(X, X), wanted, rtol=1e-9)
    np.testing.assert_array_equal(kept.gram, Gaussian().matrix(X, X))
