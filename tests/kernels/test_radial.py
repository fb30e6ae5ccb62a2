"""Kernels of distances against quadrature and differences, near and far out."""

from itertools import product

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import rbf_kernel

from structinv.kernels import Gaussian, Laplacian, Linear, Matern, OrbitDistance, OrbitMean, Polynomial
from structinv.kernels.kernel_names import CallableKernel, PrecomputedKernel
from structinv.oracles import Flip

from .cases import SIX_ROWS, rows, warnings_are_errors


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
def test_blurred_kernels_are_averages(kernel):
    nodes, weights = np.polynomial.hermite_e.hermegauss(120)
    for n_features, variance in product((1, 2), (0.1, 1.0, 4.0)):
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


LAWS = [Gaussian(0.8), Laplacian(1.3), *(Matern(0.8, nu) for nu in (0.5, 1.5, 2.5, np.inf))]


@pytest.mark.parametrize("kernel", LAWS, ids=repr)
def test_kernels_are_means_of_cosines_over_their_frequencies(kernel):
    law = kernel.spectral_law()
    X = np.array([[0.0, 0.0], [0.5, 0.0], [0.0, 1.0], [0.7, -0.9], [1.0, 1.5]])
    uniforms = np.random.default_rng(0).random((30_000, law.n_uniforms(2)))
    waves = law.frequencies(uniforms, 2)
    found = np.mean(np.cos(waves @ X.T), axis=0)
    np.testing.assert_allclose(found, kernel.matrix(X, X[:1])[:, 0], atol=0.015)


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


def test_single_precision_errors_are_as_stated():
    X = rows(200, 784, dtype=np.float32)
    X *= 10 / np.linalg.norm(X, axis=1)[:, None]
    near = X + rows(200, 784, seed=1, dtype=np.float32) * np.float32(0.02)
    distances = cdist(X.astype(np.float64), near.astype(np.float64), "sqeuclidean")
    for sigma, error in ((1.0, 1e-4), (5.0, 4e-6)):
        kernel = Gaussian(sigma)
        exact = np.exp(-distances / (2 * sigma**2))
        assert np.max(np.abs(kernel.matrix(X, near) - exact)) < error
        assert np.max(np.abs(np.diagonal(kernel.matrix(X, X)) - 1)) < error
        assert np.max(kernel.matrix(X, X)) <= 1


DISTANCES = {
    "Gaussian": (Gaussian(2.0), lambda r: np.exp(-(r**2) / 8)),
    "Matern 1.5": (Matern(2.0, nu=1.5), lambda r: (1 + 3**0.5 * r / 2) * np.exp(-(3**0.5) * r / 2)),
}


@pytest.mark.parametrize("name", DISTANCES)
def test_rows_far_from_the_origin_lose_no_digits(name):
    kernel, value = DISTANCES[name]
    for offset, dtype in product((30.0, 1000.0, 1e5), (np.float64, np.float32)):
        X = (rows(40, 60) / 8 + offset).astype(dtype)
        Y = np.vstack([X[:5], (rows(20, 60, seed=1) / 8 + offset).astype(dtype)])
        exact = value(cdist(X.astype(np.float64), Y.astype(np.float64)))
        assert np.ptp(exact) > 0.2
        found = kernel.matrix(X, Y)
        np.testing.assert_allclose(found, exact, rtol=0, atol=1000 * np.finfo(dtype).eps)
        np.testing.assert_array_equal(kernel.matrix(Y, X), found.T)
        np.testing.assert_array_equal(np.diagonal(found)[:5], 1)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_exponential_kernel_is_accurate_for_close_inputs(dtype):
    X = 10 * rows(50, 20, dtype=dtype)
    near = X + dtype(1e-3) * rows(50, 20, seed=1, dtype=dtype)
    kernel = Matern(1.0, nu=0.5)
    exact = np.exp(-cdist(X.astype(np.float64), near.astype(np.float64)))
    np.testing.assert_allclose(kernel.matrix(X, near), exact, atol=8 * np.finfo(dtype).eps, rtol=1e-5)
    assert np.all(np.diagonal(kernel.matrix(X, X)) == 1)


def test_lipschitz_constants_by_hand():
    assert Linear().lipschitz() == 1
    assert Gaussian(4.0).lipschitz() == 0.25
    assert Matern(2.0, nu=1.5).lipschitz() == pytest.approx(np.sqrt(3) / 2)
    assert Matern(2.0, nu=2.5).lipschitz() == pytest.approx(np.sqrt(5 / 3) / 2)
    assert Matern(2.0, nu=np.inf).lipschitz() == 0.5
    assert Polynomial(1, 7.0, 4.0).lipschitz() == 2
    for rough in (Matern(nu=0.5), Laplacian(), Polynomial(2), CallableKernel(rbf_kernel)):
        assert rough.lipschitz() == np.inf


def by_differences(kernel, X, Y):
    """Kernels of single precision and of far-out widths, from SciPy's differences of rows."""
    X, Y = X.astype(np.float64), Y.astype(np.float64)
    if isinstance(kernel, Laplacian):
        return np.exp(-kernel.gamma * cdist(X, Y, "cityblock"))
    width = kernel.sigma if isinstance(kernel, Gaussian) else kernel.length_scale
    r = cdist(X / width, Y / width)
    if isinstance(kernel, Gaussian):
        return np.exp(-0.5 * r**2)
    a = np.minimum(np.sqrt(2 * kernel.nu) * r, 1e4)
    return (1.0 + (a if kernel.nu > 1 else 0.0) + (a**2 / 3 if kernel.nu > 2 else 0.0)) * np.exp(-a)


FAMILIES = [
    Gaussian,
    lambda width: Laplacian(1.0 / width),
    lambda width: Matern(width, 0.5),
    lambda width: Matern(width, 1.5),
    lambda width: Matern(width, 2.5),
]


@warnings_are_errors
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("family", FAMILIES)
def test_values_are_correct_for_all_length_scales(family, dtype):
    tolerance = 1e-2 if dtype == np.float32 else 1e-6
    for width in (1e-100, 1e-30, 1e-9, 1e-3, 1.0, 1e9, 1e30, 1e100):
        kernel, rows = family(width), SIX_ROWS.astype(dtype)
        # Neighbors, too: half a width apart, where the precision has such numbers.
        rows = np.vstack([rows, rows[:1] + dtype(0.25 * min(width, 1e9))])
        found = kernel.matrix(rows, rows)
        assert found.dtype == dtype
        np.testing.assert_allclose(found, by_differences(kernel, rows, rows), atol=tolerance)
        np.testing.assert_allclose(np.diag(found), kernel.diagonal(rows), atol=tolerance)


@warnings_are_errors
@pytest.mark.parametrize("size", [1e160, 1e300])
@pytest.mark.parametrize("base", [Gaussian(), Matern()], ids=str)
def test_overflow_of_squared_norms_is_an_error(base, size):
    said = r"{} must have rows with finite squared norms, got entries up to .*: rescale"
    for kernel in (base, OrbitMean(Flip(shape=(2, 2)), base), OrbitDistance(Flip(shape=(2, 2)), base)):
        with pytest.raises(ValueError, match=said.format("X")):
            kernel.matrix(size * SIX_ROWS, size * SIX_ROWS)
    with pytest.raises(ValueError, match=said.format("Y")):
        base.matrix(SIX_ROWS, size * SIX_ROWS)
