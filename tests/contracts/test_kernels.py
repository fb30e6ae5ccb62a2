"""Every kernel of the registry against its definition, its derivatives, and `check_kernel`."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.spatial.distance import cdist

from structinv.kernels import (
    REGISTRY,
    Gaussian,
    Laplacian,
    Linear,
    Matern,
    OrbitMean,
    Polynomial,
    SetKernel,
    check_kernel,
)
from structinv.kernels.kernel_names import CallableKernel, PrecomputedKernel
from structinv.kernels.kernel_values import kernel_partials
from structinv.oracles import Box, Flip

from ..kernels.cases import CASES, COMBINATIONS, EVERY_CASE, ROWS, rows

STATIONARY = [
    Gaussian(),
    Gaussian(0.7),
    Matern(),
    Matern(1.7, 1.5),
    Matern(0.8, 2.5),
    Matern(1.5, np.inf),
]
PRODUCTS = [Linear(), *(Polynomial(degree, 0.5, 0.4) for degree in (1, 2, 3, 4, 7))]
SMOOTH = STATIONARY + PRODUCTS + COMBINATIONS


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


every_smooth_kernel = pytest.mark.parametrize("kernel", SMOOTH, ids=name_of)


def highest(kernel):
    return int(min(4, 2 * kernel.smoothness))


def read(kernel, distances, products, order):
    """The partials, told only what the kernel says it reads, zeros where absent."""
    arguments = distances if kernel.uses_distances else None, products if kernel.uses_products else None
    found = kernel_partials(kernel, *arguments, order)
    assert all(i >= 0 and j >= 0 and i + j <= order for i, j in found)
    zero = np.zeros_like(products)
    return {(i, j): found.get((i, j), zero) for i in range(order + 1) for j in range(order + 1 - i)}


@every_smooth_kernel
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


@every_smooth_kernel
def test_the_partial_of_order_0_is_the_kernel(kernel):
    X, Y = rows(30), rows(20, seed=1)
    Y[:3] = X[:3]
    found = read(kernel, cdist(X, Y, "sqeuclidean"), X @ Y.T, 0)
    np.testing.assert_allclose(found[0, 0], kernel.matrix(X, Y), rtol=1e-10, atol=1e-13)


@every_smooth_kernel
def test_shapes_and_precision_are_the_inputs(kernel):
    s = np.linspace(0, 5, 12).reshape(3, 4)
    t = np.linspace(-1, 2, 12).reshape(3, 4)
    exact = read(kernel, s, t, highest(kernel))
    for dtype in (np.float64, np.float32):
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


@pytest.mark.parametrize("kind", REGISTRY.values())
def test_combinations_have_the_symmetry_of_their_parts(kind):
    kernel = kind()
    for one in (kernel + kernel, kernel * kernel, 2.0 * kernel):
        assert one.symmetry == kernel.symmetry != "nothing"


KERNELS = [kernel for kernel, _ in CASES]

NAMES = [f"{type(kernel).__name__}-{number}" for number, (kernel, _) in enumerate(EVERY_CASE)]
every_kernel_at_all = pytest.mark.parametrize("kernel", [k for k, _ in EVERY_CASE], ids=NAMES)
points = arrays(np.float64, (2, 3), elements=st.floats(-5, 5))


def test_every_registered_kernel_is_tested():
    assert {type(kernel) for kernel in KERNELS} == set(REGISTRY.values())


@pytest.mark.parametrize(("kernel", "theirs"), EVERY_CASE, ids=NAMES)
def test_kernels_equal_scikit_learn_or_the_formula(kernel, theirs):
    # Formulas of tangents are loops over pairs.
    n, m = (40, 70) if kernel in KERNELS else (9, 14)
    X, Y = rows(n), rows(m, seed=1)
    Y[:3] = X[:3]
    found = kernel.matrix(X, Y)
    assert found.shape == (n, m)
    np.testing.assert_allclose(found, theirs(X, Y), rtol=1e-12, atol=1e-13)


@every_kernel_at_all
def test_diagonal_is_that_of_the_matrix(kernel):
    for dtype, tolerance in ((np.float64, 1e-12), (np.float32, 1e-5)):
        X = rows(30, dtype=dtype)
        diagonal = kernel.diagonal(X)
        assert diagonal.shape == (30,)
        assert diagonal.dtype == dtype
        np.testing.assert_allclose(np.diagonal(kernel.matrix(X, X)), diagonal, rtol=tolerance)


@every_kernel_at_all
def test_values_have_the_common_precision_of_inputs(kernel):
    X, Y = rows(30), rows(20, seed=1)
    single, other = X.astype(np.float32), Y.astype(np.float32)
    exact = kernel.matrix(single.astype(np.float64), other.astype(np.float64))
    found = kernel.matrix(single, other)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, exact, rtol=1e-4, atol=2e-5)
    assert kernel.matrix(single, Y).dtype == kernel.matrix(X, other).dtype == np.float64
    assert (
        kernel.matrix(np.arange(6).reshape(2, 3), np.ones((1, 3), dtype=np.float32)).dtype == np.float64
    )


@every_kernel_at_all
def test_blocks_equal_the_kernel_matrix(kernel, monkeypatch):
    X, Y = rows(150), rows(90, seed=1)
    whole = kernel.matrix(X, Y)
    blocks = [
        [kernel.matrix(X[i : i + 40], Y[j : j + 33]) for j in (0, 33, 66)] for i in range(0, 150, 40)
    ]
    np.testing.assert_allclose(np.block(blocks), whole, rtol=1e-12, atol=1e-14)
    # Small tiles, in threads.
    monkeypatch.setattr("structinv.kernels.kernel_values.TILE", 200)
    monkeypatch.setattr("structinv.utils.matrices.VALUES_A_THREAD", 100)
    monkeypatch.setattr("structinv.utils.matrices.allowed_threads", lambda: 3)
    assert np.array_equal(kernel.matrix(X, Y), whole)


@every_kernel_at_all
def test_inputs_stay_untouched_in_any_layout(kernel):
    X, Y = rows(30, 8), rows(20, 8, seed=1)
    before = X.copy(), Y.copy()
    expected = kernel.matrix(X, Y)
    assert np.array_equal(X, before[0])
    assert np.array_equal(Y, before[1])
    for turn in (np.asfortranarray, lambda Z: np.repeat(Z, 2, axis=1)[:, ::2]):
        np.testing.assert_allclose(kernel.matrix(turn(X), turn(Y)), expected, rtol=1e-12, atol=1e-14)


with_slopes = pytest.mark.parametrize("kernel", [*KERNELS, *COMBINATIONS, *ROUGH], ids=type)


@pytest.mark.slow
@with_slopes
@given(pair=points, scale=st.sampled_from([1.0, 1e-1, 1e-2]))
def test_lipschitz_constant_bounds_any_pair(kernel, pair, scale):
    check_slopes(kernel, pair[:1], pair[:1] + scale * pair[1:])


@with_slopes
def test_lipschitz_constant_is_an_upper_bound(kernel):
    rng = np.random.default_rng(0)
    X = np.vstack([rng.uniform(-5, 5, (57, 3)), np.zeros((3, 3))])
    X[rng.random(X.shape) < 0.2] = 0.0
    for scale in (1.0, 1e-1, 1e-2):
        check_slopes(kernel, X, X + scale * rng.uniform(-5, 5, X.shape) * (rng.random(X.shape) < 0.8))


def check_slopes(kernel, X, Y):
    values = kernel.diagonal(X) + kernel.diagonal(Y) - 2 * np.diagonal(kernel.matrix(X, Y))
    # Squares, with the error of a difference of numbers near 1 or of their own size.
    rounding = 1e-13 * (1 + kernel.diagonal(X) + kernel.diagonal(Y))
    with np.errstate(invalid="ignore"):
        bound = kernel.lipschitz() ** 2 * np.sum((X - Y) ** 2, axis=1)
    assert np.all(values <= np.nan_to_num(bound, nan=np.inf, posinf=np.inf) + rounding)


@pytest.mark.parametrize(
    ("kernel", "error", "message"),
    [
        (Gaussian(0.0), ValueError, "sigma must be a number above 0, got 0.0"),
        (Laplacian(-1), ValueError, "gamma"),
        (Matern(0), ValueError, "length_scale"),
        (Matern(nu=1.0), ValueError, "nu must be 0.5, 1.5, 2.5 or inf, got 1.0"),
        (Polynomial(0), ValueError, "degree must be an integer of at least 1, got 0"),
        (Polynomial(coef0=-0.5), ValueError, "coef0 must be a number of at least 0, got -0.5"),
        (Polynomial(gamma=0), ValueError, "gamma"),
        (CallableKernel(3), TypeError, "function must be callable"),
        (PrecomputedKernel(np.ones(3)), ValueError, "gram"),
    ],
)
def test_parameters_are_checked_by_name(kernel, error, message):
    with pytest.raises(error, match=message):
        kernel.validate()


CORRECT = [
    *(kernel for kernel, _ in EVERY_CASE),
    Gaussian() + Linear(),
    Gaussian() * Linear(),
    3.0 * Matern(2.0, nu=1.5),
    OrbitMean(Flip(shape=(1, 5)), Gaussian()),
    SetKernel(Box(0.1), Gaussian()),
]


@pytest.mark.parametrize("kernel", CORRECT, ids=[*NAMES, "sum", "product", "scaled", "orbit", "set"])
def test_correct_kernels_pass(kernel):
    for scale in (0.01, 1.0, 100.0):
        check_kernel(kernel, scale * ROWS)
