"""Sums, products and multiples of kernels: values, constants, and what they keep of their parts."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone

from structinv.kernels import (
    CallableKernel,
    Gaussian,
    Kernel,
    Laplacian,
    Linear,
    Matern,
    OrbitMean,
    Polynomial,
)
from structinv.kernels.combinations import Product, Scaled, Sum
from structinv.kernels.kernel_names import PrecomputedKernel
from structinv.kernels.kernel_values import kernel_partials
from structinv.oracles import Flip

from .cases import COMBINATIONS, FEW, WIDE, Keeping, rows


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_combinations_by_their_definitions(dtype):
    X, Y = rows(30, dtype=dtype), rows(20, seed=1, dtype=dtype)
    a, b = Matern(2.0), Polynomial(2)
    for left in (a, Laplacian()):
        A, B = left.matrix(X, Y), b.matrix(X, Y)
        for kernel, expected in ((left + b, A + B), (left * b, A * B), (2.5 * left, dtype(2.5) * A)):
            found = kernel.matrix(X, Y)
            assert found.dtype == dtype
            assert np.array_equal(found, expected)
            assert kernel.diagonal(X).dtype == dtype
    table = PrecomputedKernel(np.array([[2, 1], [1, 3]]))
    number = np.array([[0.0], [1.0]])
    expected = [[2.5 * 2 * 2, 1], [1, 2.5 * 3 * 3]]
    np.testing.assert_allclose(
        (2.5 * table * table + 0.0 * Gaussian()).matrix(number, number) * [[1, 0.4], [0.4, 1]], expected
    )


def test_lipschitz_constants_by_hand():
    assert (Gaussian(0.25) + 9.0 * Linear()).lipschitz() == 5
    assert (4.0 * Gaussian(0.5)).lipschitz() == 4
    assert ((4.0 * Gaussian(0.25)) * (9.0 * Gaussian(0.5))).lipschitz() == pytest.approx(
        np.sqrt(9 * 4 * 16 + 4 * 9 * 4)
    )
    assert (Gaussian() * (Gaussian() + Matern(nu=2.5))).lipschitz() < np.inf
    assert (Gaussian() * Gaussian()).lipschitz() == pytest.approx(Gaussian(np.sqrt(0.5)).lipschitz())
    for rough in (Gaussian() * Linear(), Gaussian() + Laplacian(), Gaussian() * Laplacian()):
        assert rough.lipschitz() == np.inf
    assert (0.0 * Laplacian()).lipschitz() == ((0.0 * Laplacian()) * Laplacian()).lipschitz() == 0


def test_combinations_clone_pickle_and_have_parameters():
    X = rows(10)
    for kernel in COMBINATIONS:
        for copy in (clone(kernel), pickle.loads(pickle.dumps(kernel))):
            assert copy is not kernel
            assert repr(copy) == repr(kernel)
            assert np.array_equal(copy.matrix(X, X), kernel.matrix(X, X))
    kernel = 2.0 * Gaussian() + Linear()
    assert kernel.get_params()["left__kernel__sigma"] == 1.0
    kernel.set_params(left__kernel__sigma=3.0, left__factor=0.5)
    assert np.array_equal(kernel.matrix(X, X), (0.5 * Gaussian(3.0) + Linear()).matrix(X, X))


@pytest.mark.parametrize(
    ("kernel", "error", "message"),
    [
        (Gaussian(0.0) + Linear(), ValueError, "sigma must be a number above 0, got 0.0"),
        (Linear() * Gaussian(0.0), ValueError, "sigma must be"),
        (2.0 * (2.0 * Gaussian(0.0)), ValueError, "sigma must be"),
        (Sum(Gaussian(), 3), TypeError, "right must be a Kernel, got 3"),
        (Product("rbf", Gaussian()), TypeError, "left must be a Kernel, got 'rbf'"),
        (Scaled(None), TypeError, "kernel must be a Kernel, got None"),
        (Scaled(Gaussian(), -1.0), ValueError, "factor must be a number of at least 0, got -1.0"),
    ],
)
def test_parameters_are_checked_by_name(kernel, error, message):
    assert isinstance(kernel, Kernel)
    with pytest.raises(error, match=message):
        kernel.validate()


def test_operators_require_kernels():
    for other in (3, "rbf", None, np.ones(2)):
        with pytest.raises(TypeError, match="operand.*'Gaussian'"):
            Gaussian() + other
    for other in (None, True, np.ones(2), 1j):
        with pytest.raises(TypeError, match="operand.*'Gaussian'"):
            Gaussian() * other
        with pytest.raises(TypeError, match="operand.*'Gaussian'"):
            other * Gaussian()
    for factor in (-1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="factor must be a number of at least 0"):
            factor * Gaussian()


COMBINE = [
    lambda kernel: kernel + Linear(),
    lambda kernel: kernel + Gaussian(2.0) + kernel,
    lambda kernel: Linear() + kernel,
    lambda kernel: kernel * Gaussian(2.0),
    lambda kernel: 3.0 * kernel,
    lambda kernel: 2.0 * (kernel * kernel) + 0.5 * kernel,
]


@pytest.mark.parametrize("combine", COMBINE)
def test_stored_values_of_a_kernel_are_not_modified(combine):
    kept, wanted = Keeping(), combine(Gaussian()).matrix(FEW, FEW)
    for _ in range(2):
        np.testing.assert_allclose(combine(kept).matrix(FEW, FEW), wanted, rtol=1e-12)
    np.testing.assert_array_equal(kept.gram, Gaussian().matrix(FEW, FEW))


@pytest.mark.parametrize("combine", COMBINE)
def test_stored_derivatives_of_a_kernel_are_not_modified(combine):
    kept = Keeping()
    asked = kept.distances(), FEW @ FEW.T, 1
    wanted = combine(Gaussian()).partials(*asked)
    for _ in range(2):
        found = combine(kept).partials(*asked)
        assert found.keys() == wanted.keys()
        for which, values in wanted.items():
            np.testing.assert_allclose(found[which], values, rtol=1e-12)


@pytest.mark.parametrize("kind", [Sum, Product, Scaled])
def test_combinations_that_override_matrix_have_no_derivatives(kind):
    class Own(kind):
        def matrix(self, X, Y, norms=None):
            return 3.0 * super().matrix(X, Y)

    kernel = Own(Gaussian()) if kind is Scaled else Own(Gaussian(), Gaussian(2.0))
    with pytest.raises(NotImplementedError, match="has no derivatives"):
        kernel_partials(kernel, np.ones(3), np.ones(3), 1)
    assert (2.0 * Gaussian()).partials(np.ones(3), None, 1)


class Mixed(Gaussian):
    """A kernel whose first derivative alone is in double precision."""

    def partials(self, distances, products, order):
        found = super().partials(distances, products, order)
        return {key: values.astype("f8" if key == (1, 0) else "f4") for key, values in found.items()}


def test_products_of_entries_of_several_precisions_are_in_the_higher_one():
    # The first of the three terms of the second derivative is in single precision.
    found = kernel_partials(Mixed() * Mixed(), np.linspace(0, 2, 5, dtype=np.float32), None, 2)[2, 0]
    assert found.dtype == np.float64


class Fourfold(Gaussian):
    """Four times its parent, whose values are 1 at equal inputs."""

    def lipschitz(self, n_features=None):
        return 2.0

    def matrix(self, X, Y, norms=None):
        return 4.0 * super().matrix(X, Y)

    def diagonal(self, X):
        return 4.0 * super().diagonal(X)


def test_products_have_no_lipschitz_constant_from_an_overridden_diagonal():
    assert Fourfold().lipschitz() == 2.0
    assert (4.0 * Gaussian() * Gaussian()).lipschitz() == pytest.approx(np.sqrt(8.0))
    for product in (Fourfold() * Gaussian(), Gaussian() * (2.0 * Fourfold()), Gaussian() * Fourfold()):
        assert product.lipschitz() == np.inf


def test_combined_kernels_are_definite_if_all_parts_are():
    assert (Gaussian() * Linear() + 2.0 * Laplacian()).definite
    assert not (Gaussian() + WIDE).definite
    assert not (3.0 * WIDE).definite
    assert not (OrbitMean(Flip(shape=(1, 2)), WIDE)).definite
    assert not (CallableKernel(lambda a, b: a @ b.T)).definite
