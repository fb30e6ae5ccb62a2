"""Kernels of rows and widths far out: a right answer, or an error that says which number is too far."""

import warnings

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from structinv.kernels import (
    Gaussian,
    Laplacian,
    Linear,
    Matern,
    OrbitDistance,
    OrbitMean,
    Polynomial,
    RationalQuadratic,
)
from structinv.oracles import Flip

X = np.random.default_rng(0).standard_normal((6, 4))
SHAPE = (2, 2)


@pytest.fixture(autouse=True)
def warnings_are_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def by_differences(kernel, X, Y):
    """Kernels of single precision and of far-out widths, from SciPy's differences of rows."""
    X, Y = X.astype(np.float64), Y.astype(np.float64)
    if isinstance(kernel, Laplacian):
        return np.exp(-kernel.gamma * cdist(X, Y, "cityblock"))
    width = kernel.sigma if isinstance(kernel, Gaussian) else kernel.length_scale
    r = cdist(X / width, Y / width)
    if isinstance(kernel, Gaussian):
        return np.exp(-0.5 * r**2)
    if isinstance(kernel, RationalQuadratic):
        return np.exp(-kernel.alpha * np.log1p(0.5 * r**2 / kernel.alpha))
    a = np.minimum(np.sqrt(2 * kernel.nu) * r, 1e4)
    return (1.0 + (a if kernel.nu > 1 else 0.0) + (a**2 / 3 if kernel.nu > 2 else 0.0)) * np.exp(-a)


FAMILIES = [
    Gaussian,
    lambda width: Laplacian(1.0 / width),
    lambda width: Matern(width, 0.5),
    lambda width: Matern(width, 1.5),
    lambda width: Matern(width, 2.5),
    RationalQuadratic,
]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("width", [1e-100, 1e-30, 1e-9, 1e-3, 1.0, 1e9, 1e30, 1e100])
@pytest.mark.parametrize("family", FAMILIES)
def test_values_are_right_for_all_widths(family, width, dtype):
    kernel, rows = family(width), X.astype(dtype)
    # Neighbours, too: half a width apart, where the precision has such numbers.
    rows = np.vstack([rows, rows[:1] + dtype(0.25 * min(width, 1e9))])
    found = kernel.matrix(rows, rows)
    assert found.dtype == dtype
    tolerance = 1e-2 if dtype == np.float32 else 1e-6
    np.testing.assert_allclose(found, by_differences(kernel, rows, rows), atol=tolerance)
    np.testing.assert_allclose(np.diag(found), kernel.diagonal(rows), atol=tolerance)


@pytest.mark.parametrize("size", [1e160, 1e300])
@pytest.mark.parametrize("base", [Gaussian(), Matern(), RationalQuadratic()], ids=str)
def test_rows_whose_squares_are_no_numbers_are_refused_by_name(base, size):
    said = r"{} must have rows whose squared norms are numbers, got entries up to .*: scale"
    for kernel in (base, OrbitMean(Flip(shape=SHAPE), base), OrbitDistance(Flip(shape=SHAPE), base)):
        with pytest.raises(ValueError, match=said.format("X")):
            kernel.matrix(size * X, size * X)
    with pytest.raises(ValueError, match=said.format("Y")):
        base.matrix(X, size * X)


@pytest.mark.parametrize("kernel", [Linear(), Polynomial(), Polynomial(gamma=1e300)], ids=str)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_products_that_overflow_are_refused_without_a_warning(kernel, dtype):
    rows = (X * (1e160 if dtype == np.float64 else 1e30)).astype(dtype)
    with pytest.raises(ValueError, match=r"\.matrix returned values that are not finite"):
        kernel(rows)
