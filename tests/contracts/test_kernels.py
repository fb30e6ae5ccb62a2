"""Kernels against their definitions, for every kernel of the registry."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.spatial.distance import cdist
from sklearn.gaussian_process.kernels import Matern as TheirMatern
from sklearn.metrics.pairwise import laplacian_kernel, polynomial_kernel, rbf_kernel
from sklearn.svm import SVC

from structinv import IndefiniteKernelWarning, InvariantSVC
from structinv.kernels import (
    REGISTRY,
    Gaussian,
    Kernel,
    Laplacian,
    Linear,
    Matern,
    OrbitDistance,
    OrbitMean,
    Polynomial,
)
from structinv.kernels.kernel_names import CallableKernel, PrecomputedKernel, as_kernel, resolve_gamma
from structinv.kernels.kernel_values import exponentials
from structinv.oracles import Flip

from ..kernels.test_normal_overlaps import CASES as TANGENT_CASES
from ..kernels.test_normal_overlaps import rows
from ..kernels.test_radial import COMBINATIONS, ROUGH

# Kernels and what they ought to be.
CASES = [
    (Gaussian(), lambda X, Y: rbf_kernel(X, Y, gamma=0.5)),
    (Gaussian(3.0), lambda X, Y: rbf_kernel(X, Y, gamma=1 / 18)),
    (Polynomial(), lambda X, Y: polynomial_kernel(X, Y, degree=3, gamma=1.0, coef0=1.0)),
    (Polynomial(1, 0.0, 2.0), lambda X, Y: polynomial_kernel(X, Y, degree=1, gamma=2.0, coef0=0.0)),
    (Polynomial(2, 0.5, 0.1), lambda X, Y: polynomial_kernel(X, Y, degree=2, gamma=0.1, coef0=0.5)),
    (Polynomial(9, 1.0, 0.1), lambda X, Y: polynomial_kernel(X, Y, degree=9, gamma=0.1, coef0=1.0)),
    (Linear(), lambda X, Y: X @ Y.T),
    (Laplacian(), lambda X, Y: laplacian_kernel(X, Y, gamma=1.0)),
    (Laplacian(0.2), lambda X, Y: laplacian_kernel(X, Y, gamma=0.2)),
    (Matern(), lambda X, Y: TheirMatern(1.0, nu=1.5)(X, Y)),
    (Matern(2.0, nu=0.5), lambda X, Y: TheirMatern(2.0, nu=0.5)(X, Y)),
    (Matern(2.0, nu=2.5), lambda X, Y: TheirMatern(2.0, nu=2.5)(X, Y)),
    (Matern(2.0, nu=np.inf), lambda X, Y: TheirMatern(2.0, nu=np.inf)(X, Y)),
]
KERNELS = [kernel for kernel, _ in CASES]
# Those of rows with tangents, too, which have no derivatives and no Lipschitz constant.
EVERY_CASE = [*CASES, *TANGENT_CASES]
NAMES = [f"{type(kernel).__name__}-{number}" for number, (kernel, _) in enumerate(EVERY_CASE)]
every_kernel_at_all = pytest.mark.parametrize("kernel", [k for k, _ in EVERY_CASE], ids=NAMES)
points = arrays(np.float64, (2, 3), elements=st.floats(-5, 5))


def test_every_registered_kernel_is_tested():
    assert {type(kernel) for kernel in KERNELS} == set(REGISTRY.values())


@pytest.mark.parametrize(("kernel", "theirs"), EVERY_CASE, ids=NAMES)
def test_kernels_equal_scikit_learn_or_the_formula(kernel, theirs):
    X, Y = rows(40), rows(70, seed=1)
    Y[:3] = X[:3]
    found = kernel.matrix(X, Y)
    assert found.shape == (40, 70)
    np.testing.assert_allclose(found, theirs(X, Y), rtol=1e-12, atol=1e-13)


@every_kernel_at_all
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_diagonal_is_that_of_the_matrix(kernel, dtype):
    X = rows(30, dtype=dtype)
    diagonal = kernel.diagonal(X)
    assert diagonal.shape == (30,)
    assert diagonal.dtype == dtype
    tolerance = 1e-12 if dtype == np.float64 else 1e-5
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
@pytest.mark.parametrize("offset", [30.0, 1000.0, 1e5])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_far_from_the_origin_lose_no_digits(name, offset, dtype):
    kernel, value = DISTANCES[name]
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


@pytest.mark.parametrize("kernel", [*KERNELS, *COMBINATIONS, *ROUGH], ids=type)
@given(pair=points, scale=st.sampled_from([1.0, 1e-1, 1e-2]))
def test_lipschitz_constant_is_an_upper_bound(kernel, pair, scale):
    x, y = pair[:1], pair[:1] + scale * pair[1:]
    values = kernel.diagonal(x) + kernel.diagonal(y) - 2 * kernel.matrix(x, y)[0]
    # Squares, with the error of a difference of numbers near 1 or of their own size.
    rounding = 1e-13 * (1 + kernel.diagonal(x) + kernel.diagonal(y))
    with np.errstate(invalid="ignore"):
        bound = np.nan_to_num(kernel.lipschitz() ** 2 * np.sum((x - y) ** 2), nan=np.inf, posinf=np.inf)
    assert values[0] <= bound + rounding[0]


def test_lipschitz_constants_by_hand():
    assert Linear().lipschitz() == 1
    assert Gaussian(4.0).lipschitz() == 0.25
    assert Matern(2.0, nu=1.5).lipschitz() == pytest.approx(np.sqrt(3) / 2)
    assert Matern(2.0, nu=2.5).lipschitz() == pytest.approx(np.sqrt(5 / 3) / 2)
    assert Matern(2.0, nu=np.inf).lipschitz() == 0.5
    assert Polynomial(1, 7.0, 4.0).lipschitz() == 2
    for rough in (Matern(nu=0.5), Laplacian(), Polynomial(2), CallableKernel(rbf_kernel)):
        assert rough.lipschitz() == np.inf


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


def test_a_function_is_a_kernel():
    X, Y = rows(70), rows(9, seed=1)
    kernel = CallableKernel(rbf_kernel)
    assert np.array_equal(kernel.matrix(X, Y), rbf_kernel(X, Y))
    np.testing.assert_allclose(kernel.diagonal(X), np.ones(70))
    products = CallableKernel(lambda X, Y: X @ Y.T)
    np.testing.assert_allclose(products.diagonal(X), np.sum(X**2, axis=1))
    single = X.astype(np.float32)
    assert products.matrix(single, single).dtype == np.float32


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda X, Y: np.ones(len(X)), r"must return an array of shape \(3, 2\), got \(3,\)"),
        (lambda X, Y: np.ones((len(Y), len(X))), r"shape \(3, 2\), got \(2, 3\)"),
        (lambda X, Y: np.full((len(X), len(Y)), np.nan), "finite"),
    ],
)
def test_values_of_callable_kernels_are_checked(function, message):
    with pytest.raises(ValueError, match=f"kernel .*lambda.*{message}"):
        CallableKernel(function).matrix(rows(3), rows(2))


def test_precomputed_kernel_reads_row_numbers():
    gram = rows(4, 6)
    kernel = PrecomputedKernel(gram)
    X, Y = np.array([[3.0], [0.0]]), np.array([[5.0], [1.0], [1.0]])
    assert np.array_equal(kernel.matrix(X, Y), gram[[3, 0]][:, [5, 1, 1]])
    assert np.array_equal(kernel.diagonal(X), gram[[3, 0], [3, 0]])
    assert as_kernel("precomputed", gamma="scale", degree=3, coef0=0.0, X=gram).gram is gram


@pytest.mark.parametrize("gamma", ["scale", "auto", 0.3])
@pytest.mark.parametrize("sparse", [False, True])
def test_gamma_is_resolved_as_in_svc(gamma, sparse):
    X, y = 3 * rows(40) + 1, np.arange(40) % 2
    X[X < 0] = 0
    X = sp.csr_matrix(X) if sparse else X
    theirs = SVC(gamma=gamma).fit(X, y)._gamma
    assert resolve_gamma(gamma, X) == pytest.approx(theirs, rel=1e-14)
    constant = np.ones((4, 3))
    assert resolve_gamma("scale", constant) == 1.0


def test_kernel_names_are_those_of_scikit_learn():
    X = 2 * rows(30)
    settings = {"gamma": 0.3, "degree": 4, "coef0": 0.5, "X": X}

    def found(kernel, **changes):
        return as_kernel(kernel, **(settings | changes))

    np.testing.assert_allclose(found("rbf").matrix(X, X), rbf_kernel(X, gamma=0.3))
    np.testing.assert_allclose(
        found("rbf", gamma="scale").matrix(X, X), rbf_kernel(X, gamma=1 / (5 * np.var(X)))
    )
    np.testing.assert_allclose(found("poly").matrix(X, X), polynomial_kernel(X, None, 4, 0.3, 0.5))
    np.testing.assert_allclose(found("laplacian").matrix(X, X), laplacian_kernel(X, gamma=0.3))
    np.testing.assert_allclose(found("linear").matrix(X, X), X @ X.T)
    assert isinstance(found(rbf_kernel), CallableKernel)
    own = Gaussian(3.0)
    copy = found(own)
    assert copy is not own
    assert copy.sigma == 3.0
    assert isinstance(copy, Kernel)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        (
            {"kernel": "sigmoid"},
            ValueError,
            r"kernel must be one of \['laplacian', .*'rbf'\].*'sigmoid'",
        ),
        ({"kernel": Gaussian(-1)}, ValueError, "sigma"),
        ({"gamma": 0}, ValueError, "gamma must be 'scale', 'auto' or a number above 0, got 0"),
        ({"gamma": "large"}, ValueError, "gamma .* got 'large'"),
        ({"kernel": "poly", "degree": 0}, ValueError, "degree"),
        ({"kernel": "poly", "coef0": -1}, ValueError, "coef0"),
    ],
)
def test_wrong_choices_are_errors_by_name(changes, error, message):
    settings = {"kernel": "rbf", "gamma": "scale", "degree": 3, "coef0": 0.0, "X": rows(5)}
    with pytest.raises(error, match=message):
        as_kernel(**(settings | changes))


# -- rows and widths far out -------------------------------------------------------------------------

FEW = rows(6, 4)
warnings_are_errors = pytest.mark.filterwarnings("error")


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
@pytest.mark.parametrize("width", [1e-100, 1e-30, 1e-9, 1e-3, 1.0, 1e9, 1e30, 1e100])
@pytest.mark.parametrize("family", FAMILIES)
def test_values_are_correct_for_all_length_scales(family, width, dtype):
    kernel, rows = family(width), FEW.astype(dtype)
    # Neighbors, too: half a width apart, where the precision has such numbers.
    rows = np.vstack([rows, rows[:1] + dtype(0.25 * min(width, 1e9))])
    found = kernel.matrix(rows, rows)
    assert found.dtype == dtype
    tolerance = 1e-2 if dtype == np.float32 else 1e-6
    np.testing.assert_allclose(found, by_differences(kernel, rows, rows), atol=tolerance)
    np.testing.assert_allclose(np.diag(found), kernel.diagonal(rows), atol=tolerance)


@warnings_are_errors
@pytest.mark.parametrize("size", [1e160, 1e300])
@pytest.mark.parametrize("base", [Gaussian(), Matern()], ids=str)
def test_overflow_of_squared_norms_is_an_error(base, size):
    said = r"{} must have rows with finite squared norms, got entries up to .*: rescale"
    for kernel in (base, OrbitMean(Flip(shape=(2, 2)), base), OrbitDistance(Flip(shape=(2, 2)), base)):
        with pytest.raises(ValueError, match=said.format("X")):
            kernel.matrix(size * FEW, size * FEW)
    with pytest.raises(ValueError, match=said.format("Y")):
        base.matrix(FEW, size * FEW)


@warnings_are_errors
@pytest.mark.parametrize("kernel", [Linear(), Polynomial(), Polynomial(gamma=1e300)], ids=str)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_products_that_overflow_are_refused_without_a_warning(kernel, dtype):
    rows = (FEW * (1e160 if dtype == np.float64 else 1e30)).astype(dtype)
    with pytest.raises(ValueError, match=r"\.matrix returned values that are not finite"):
        kernel(rows)


# -- exponentials in float32 --------------------------------------------------------------------------

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


@pytest.mark.parametrize("kind", ["callable", "table"])
def test_asymmetric_kernels_raise_a_warning(kind):
    X, y = np.random.default_rng(0).standard_normal((20, 3)), np.arange(20) % 2

    def skew(A, B):
        return A @ B.T + B[:, 0]

    model = InvariantSVC(kernel=skew if kind == "callable" else "precomputed")
    with pytest.warns(IndefiniteKernelWarning, match="is not symmetric: .* for the same rows"):
        model.fit(X if kind == "callable" else skew(X, X), y)
