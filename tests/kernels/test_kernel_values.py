"""Exponentials, diagonals and derivatives of kernels as they are asked for."""

from functools import partial

import numpy as np
import pytest

from structinv.kernels import Gaussian, Laplacian, Linear, Matern, Polynomial
from structinv.kernels.kernel_names import CallableKernel, PrecomputedKernel
from structinv.kernels.kernel_values import exponentials, kernel_diagonal, kernel_partials

from .cases import FEW


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


class Below(Gaussian):
    def diagonal(self, X):
        return np.full(len(X), -1.0)


def test_a_diagonal_below_0_is_refused_by_name():
    np.testing.assert_array_equal(kernel_diagonal(Gaussian(), FEW), 1.0)
    with pytest.raises(ValueError, match=r"Below\.diagonal must return values of at least 0, got -1"):
        kernel_diagonal(Below(), FEW)


EPS = float(np.finfo(np.float32).eps)


@pytest.mark.parametrize("low", [-1e-6, -1.0, -20.0, -87.2])
def test_exponentials_are_accurate_to_the_last_digit(low):
    x = np.linspace(low, 0.0, 200_001, dtype=np.float32)
    wanted = np.exp(x.astype(np.float64))
    found = exponentials(x.copy())
    assert found.dtype == np.float32
    assert np.abs(found / wanted - 1).max() < EPS
    # Each piece follows the one before: no step where the power of 2 changes.
    assert np.diff(found.astype(np.float64)).min() > -EPS


def test_exponentials_at_the_ends():
    x = np.array([0.0, -0.0, -87.29, -87.31, -200.0, -1e30, -np.inf], dtype=np.float32)
    found = exponentials(x)
    assert found is x
    np.testing.assert_array_equal(found[:2], 1.0)
    assert found[2] == pytest.approx(np.exp(-87.29), rel=1e-5)
    np.testing.assert_array_equal(found[3:], 0.0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_exponentials_of_any_layout_change_in_place(dtype):
    rng = np.random.default_rng(0)
    for x in (-rng.random((4, 5)), -rng.random((8, 10))[::2, ::2], -rng.random((5, 4)).T):
        values = x.astype(dtype, order="K")
        part = np.zeros((8, 10), dtype=dtype)[: x.shape[0], : x.shape[1]]
        part[:] = x
        np.testing.assert_allclose(exponentials(values), np.exp(x), rtol=3e-7)
        np.testing.assert_allclose(exponentials(part), np.exp(x), rtol=3e-7)
    assert exponentials(np.zeros((0, 3), dtype=dtype)).shape == (0, 3)
