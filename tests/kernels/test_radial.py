"""Closed forms of kernels against differences and quadrature, and kernels made of kernels."""

import pickle
import re
from functools import partial

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.base import clone

from structinv.kernels import Gaussian, Kernel, Laplacian, Linear, Matern, Polynomial
from structinv.kernels.combinations import Product, Scaled, Sum
from structinv.kernels.kernel_names import CallableKernel, PrecomputedKernel
from structinv.kernels.kernel_values import kernel_partials

STATIONARY = [
    Gaussian(),
    Gaussian(0.7),
    Matern(),
    Matern(1.7, 1.5),
    Matern(0.8, 2.5),
    Matern(1.5, np.inf),
]
PRODUCTS = [Linear(), *(Polynomial(degree, 0.5, 0.4) for degree in (1, 2, 3, 4, 7))]
COMBINATIONS = [
    Gaussian(0.8) + Linear(),
    Gaussian(1.5) * Polynomial(3, 0.5, 0.3),
    Matern(1.5, 2.5) * Gaussian(2.0),
    Matern(1.2, 1.5) * Linear(),
    Matern(1.2, 1.5) + Polynomial(2, 1.0, 0.5),
    Matern(1.2, 1.5) * (2.0 * Matern(2.0, 2.5)),
    0.5 * Gaussian() + Gaussian(2.0) * 3.0,
    (Gaussian() + Linear()) * Polynomial(2, 0.3, 0.6),
    0.0 * Gaussian() + Linear(),
    2 * Matern(2.0, 2.5),
]
KERNELS = STATIONARY + PRODUCTS + COMBINATIONS


def linear_products(X, Y):
    return X @ Y.T


ROUGH = [
    Laplacian() + Gaussian(),
    Laplacian() * (0.3 * Matern(nu=0.5)),
    (0.0 * Laplacian()) * Gaussian(),
    CallableKernel(linear_products) * Gaussian(),
]


def name_of(kernel):
    # Functions show their addresses, which differ between processes.
    return re.sub(r" at 0x[0-9a-f]+", "", repr(kernel))


every_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=name_of)


def rows(n, d=4, seed=0, dtype=np.float64):
    return np.random.default_rng(seed).normal(size=(n, d)).astype(dtype)


def highest(kernel):
    return int(min(4, 2 * kernel.smoothness))


def read(kernel, distances, products, order):
    """The partials, told only what the kernel says it reads, zeros where absent."""
    arguments = distances if kernel.uses_distances else None, products if kernel.uses_products else None
    found = kernel_partials(kernel, *arguments, order)
    assert all(i >= 0 and j >= 0 and i + j <= order for i, j in found)
    zero = np.zeros_like(products)
    return {(i, j): found.get((i, j), zero) for i in range(order + 1) for j in range(order + 1 - i)}


@every_kernel
def test_each_partial_is_the_derivative_of_the_previous_one(kernel):
    s, t = (grid.ravel() for grid in np.meshgrid(np.geomspace(0.05, 9, 12), np.linspace(-2, 2, 9)))
    step = 1e-5
    order = highest(kernel)
    found = read(kernel, s, t, order)
    for axis in (0, 1):
        up, down = ((s + h, t) if axis == 0 else (s, t + h) for h in (step, -step))
        above, below = read(kernel, *up, order), read(kernel, *down, order)
        for i, j in found:
            if (before := (i - (axis == 0), j - (axis == 1))) in found:
                slope = (above[before] - below[before]) / (2 * step)
                scale = 1 + np.max(np.abs(found[i, j]))
                np.testing.assert_allclose(found[i, j], slope, rtol=1e-5, atol=1e-7 * scale)


@every_kernel
def test_the_partial_of_order_0_is_the_kernel(kernel):
    X, Y = rows(30), rows(20, seed=1)
    Y[:3] = X[:3]
    found = read(kernel, cdist(X, Y, "sqeuclidean"), X @ Y.T, 0)
    np.testing.assert_allclose(found[0, 0], kernel.matrix(X, Y), rtol=1e-10, atol=1e-13)


@every_kernel
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_shapes_and_precision_are_the_inputs(kernel, dtype):
    s = np.linspace(0, 5, 12).reshape(3, 4)
    t = np.linspace(-1, 2, 12).reshape(3, 4)
    exact = read(kernel, s, t, highest(kernel))
    given = s.astype(dtype), t.astype(dtype)
    found = kernel.partials(*given, highest(kernel))
    for which, values in found.items():
        assert values.shape == (3, 4)
        assert values.dtype == dtype
        scale = np.max(np.abs(exact[which]))
        np.testing.assert_allclose(values, exact[which], rtol=1e-4, atol=2e-6 * scale)
        values[:] = np.nan
    assert np.array_equal(given[0], s.astype(dtype))
    assert np.array_equal(given[1], t.astype(dtype))
    # No two of the answers share memory either.
    again = kernel.partials(*given, highest(kernel))
    again[0, 0][:] = np.nan
    assert all(np.all(np.isfinite(values)) for which, values in again.items() if which != (0, 0))


@pytest.mark.parametrize(("nu", "finite", "order"), [(1.5, 1, 2), (2.5, 2, 4)])
def test_infinite_derivatives_are_0_at_distance_0(nu, finite, order):
    s = np.array([0.0, 1e-16, 1e-8, 1e-4])
    found = Matern(0.8, nu).partials(s, None, order)
    for i in range(finite + 1):
        np.testing.assert_allclose(found[i, 0], found[i, 0][0], rtol=0.2)
        assert found[i, 0][0] != 0
    for i in range(finite + 1, order + 1):
        assert found[i, 0][0] == 0
        assert abs(found[i, 0][1]) > 1e6
        # With the powers of s that they meet they go to 0 as its root.
        ratios = np.abs(found[i, 0][1:]) * s[1:] ** (i - finite) / np.sqrt(s[1:])
        np.testing.assert_allclose(ratios, ratios[0], rtol=0.05)


def test_smoothness_by_hand():
    for smooth in (Gaussian(), Linear(), Polynomial(), Matern(nu=np.inf)):
        assert smooth.smoothness == np.inf
    assert [Matern(nu=nu).smoothness for nu in (0.5, 1.5, 2.5)] == [0, 1, 2]
    for rough in (Laplacian(), CallableKernel(np.dot), PrecomputedKernel(np.eye(2))):
        assert rough.smoothness == 0
    assert (Gaussian() + Matern(nu=2.5)).smoothness == 2
    assert (Linear() * (3 * Matern(nu=1.5))).smoothness == 1


def test_declared_inputs_are_those_that_partials_read():
    for kernel, distances, products in (
        (Gaussian(), True, False),
        (Polynomial(), False, True),
        (Laplacian(), False, False),
        (Gaussian() + Linear(), True, True),
        (2 * Linear(), False, True),
        (Gaussian() * Matern(), True, False),
    ):
        assert (kernel.uses_distances, kernel.uses_products) == (distances, products)
    with pytest.raises(ValueError, match=r"distances must be an array for Gaussian\(sigma=1.0\), got"):
        kernel_partials(Gaussian(), None, np.ones(1), 0)
    with pytest.raises(ValueError, match=r"products must be an array for Linear\(\), got None"):
        kernel_partials(Gaussian() + Linear(), np.ones(1), None, 0)


@pytest.mark.parametrize(
    ("kernel", "order", "message"),
    [
        (
            Matern(),
            3,
            r"Matern\(length_scale=1.0, nu=1.5\) has derivatives up to first order in each argument, "
            "but derivatives up to second order are required",
        ),
        (Matern(nu=2.5), 5, r"nu=2.5\) has derivatives up to second order .* third order are required"),
        (
            Matern(nu=0.5),
            1,
            r"nu=0.5\) has no derivatives, but derivatives up to first order are required",
        ),
        (Gaussian() * (2 * Matern()), 4, r"^Matern\(.*first order .* second order"),
        (Gaussian(), -1, "order must be an integer of at least 0, got -1"),
    ],
)
def test_orders_out_of_range_are_errors_by_name(kernel, order, message):
    with pytest.raises(ValueError, match=message):
        kernel_partials(kernel, np.ones(2), np.ones(2), order)


@pytest.mark.parametrize("rough", [Laplacian(), CallableKernel(np.dot), PrecomputedKernel(np.eye(2))])
def test_kernels_without_derivatives_raise_an_error(rough):
    for kernel in (rough, Gaussian() + rough, rough * Linear(), 2 * rough):
        for call in (kernel.partials, partial(kernel_partials, kernel)):
            for order in (0, 2):
                with pytest.raises(
                    NotImplementedError, match=rf"^{type(rough).__name__}\([\s\S]* has no derivatives"
                ):
                    call(np.ones(2), np.ones(2), order)


@pytest.mark.parametrize("n_features", [1, 2])
@pytest.mark.parametrize("variance", [0.1, 1.0, 4.0])
@pytest.mark.parametrize(
    "kernel",
    [
        Gaussian(),
        Gaussian(0.6),
        Matern(0.9, np.inf),
        Linear(),
        Polynomial(1, 0.5, 2.0),
        0.3 * Gaussian(2.0) + Linear(),
    ],
    ids=repr,
)
def test_blurred_kernels_are_averages(kernel, variance, n_features):
    nodes, weights = np.polynomial.hermite_e.hermegauss(120)
    grid = np.stack([g.ravel() for g in np.meshgrid(*[nodes] * n_features)], axis=1)
    share = np.prod([g.ravel() for g in np.meshgrid(*[weights] * n_features)], axis=0)
    share /= np.sum(share)
    X, Y = rows(4, n_features), rows(5, n_features, seed=1)
    # A function of x - y and one that is linear in x: noise on x alone has the same mean.
    moved = (X[:, None] + np.sqrt(variance) * grid).reshape(-1, n_features)
    expected = np.einsum("ink,n->ik", kernel.matrix(moved, Y).reshape(4, -1, 5), share)
    found = kernel.noise_averaged(variance, n_features)
    found.validate(n_features)
    np.testing.assert_allclose(found.matrix(X, Y), expected, rtol=1e-8, atol=1e-10)


def test_kernels_without_a_closed_form_are_not_blurred():
    for kernel in (
        Matern(),
        Laplacian(),
        Polynomial(2),
        Gaussian() + Matern(),
        Matern() + Gaussian(),
        2 * Matern(),
        Gaussian() * Linear(),
    ):
        assert kernel.noise_averaged(0.5, 3) is None
        assert kernel.noise_averaged(0, 3) is kernel
    with pytest.raises(ValueError, match="variance must be a number of at least 0, got -1"):
        Gaussian().noise_averaged(-1, 3)


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
