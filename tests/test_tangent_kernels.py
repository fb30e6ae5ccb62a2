"""Kernels of rows with tangents: quadrature, the machines that take them, refused input."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.svm import SVC

import structinv
from structinv import IndefiniteKernelWarning, InvariantSVC, RepresenterClassifier
from structinv.functionals import Evaluation, VicinalAverages
from structinv.kernels import (
    Gaussian,
    TangentDistributionKernel,
    TangentOverlapKernel,
    TangentVectorKernel,
    VicinalKernel,
)
from structinv.oracles import (
    Ellipsoid,
    FDrop,
    Flip,
    Identity,
    Offset,
    Rotations,
    Segment,
    TangentDerivative,
)

from .object_kernels import ORACLE, spread_of

KINDS = [TangentVectorKernel, TangentOverlapKernel, TangentDistributionKernel, VicinalKernel]
LAWS = [TangentDistributionKernel, VicinalKernel]
every_kind = pytest.mark.parametrize("kind", KINDS)


def rows(n, d=5, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def turns(X):
    """The rotation of points of the plane."""
    return np.stack([X[:, ::-1] * [-1.0, 1.0]], axis=1)


TURN = TangentDerivative(turns, 1.0)


def grid(d, reach=14.0, n=701):
    """Points of a lattice and the volume of a cell: sums over it are integrals of smooth functions."""
    axis = np.linspace(-reach, reach, n)
    points = np.stack(np.meshgrid(*[axis] * d, indexing="ij"), axis=-1).reshape(-1, d)
    return points, (axis[1] - axis[0]) ** d


def density(points, x, sigma, gamma_w, lines):
    """The normal density of the law around x: products of one-dimensional widths, normed by a sum."""
    D = points - x
    exponent = np.sum(D**2, axis=1) / sigma**2
    for line in lines:
        exponent += (np.sum(D**2, axis=1) - (D @ line) ** 2 / (line @ line)) / gamma_w**2
    return np.exp(-0.5 * exponent)


@pytest.mark.parametrize("rho", [0.5, 0.8, 1.0, 1.7])
@pytest.mark.parametrize("d", [1, 2])
def test_tangent_distribution_kernel_is_the_integral(d, rho):
    X = 2.0 * rows(4, d)
    oracle = TURN if d == 2 else Segment(0.5, 2.0)
    points, cell = grid(d)
    densities = []
    for x in X:
        found = density(points, x, 1.3, 0.8, oracle.tangents(x[None])[0])
        densities.append(found / (found.sum() * cell))
    powers = np.array(densities) ** rho
    expected = powers @ powers.T * cell
    own = np.sqrt(np.diagonal(expected))
    found = TangentDistributionKernel(oracle, 1.3, 0.8, rho).matrix(X, X)
    np.testing.assert_allclose(found, expected / own / own[:, None], rtol=1e-10)


def test_tangent_overlap_kernel_is_a_sum_of_integrals():
    X, s, g, eta = 2.0 * rows(4, 2), 1.3, 0.8, 0.7
    points, cell = grid(2)
    plain = [np.exp(-np.sum((points - x) ** 2, axis=1) / (2 * s**2)) for x in X]
    terms = []
    for x, own in zip(X, plain, strict=True):
        line, D = turns(x[None])[0, 0], points - x
        across = np.sum(D**2, axis=1) - (D @ line) ** 2 / (line @ line)
        terms.append(own * np.exp(-across / (2 * g**2)))
    plain, terms = np.array(plain), np.array(terms)
    both, mixed = plain @ plain.T * cell, terms @ plain.T * cell
    # The largest value of either is that of a row with itself.
    both, mixed = both / np.diagonal(both)[:, None], mixed / np.diagonal(mixed)[:, None]
    expected = (both + eta * (mixed + mixed.T)) / (1 + 2 * eta)
    found = TangentOverlapKernel(TURN, s, g, eta).matrix(X, X)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def normal_nodes(mean, covariance, size=24):
    """Gauss-Hermite nodes of a normal law in the plane, and their weights."""
    along, weights = np.polynomial.hermite_e.hermegauss(size)
    values, vectors = np.linalg.eigh(covariance)
    pairs = np.stack(np.meshgrid(along, along, indexing="ij"), axis=-1).reshape(-1, 2)
    shares = np.outer(weights, weights).ravel() / weights.sum() ** 2
    return mean + pairs * np.sqrt(np.maximum(values, 0.0)) @ vectors.T, shares


@pytest.mark.parametrize("noise", [0.0, 0.6])
def test_vicinal_kernels_are_averages_of_gaussians(noise):
    X = rows(5, 2)
    kernel = VicinalKernel(ORACLE, 1.4, 0.2, noise)
    laws = [normal_nodes(x, spread_of(x, 0.2, noise)) for x in X]
    both = [[a @ Gaussian(1.4).matrix(p, q) @ b for q, b in laws] for p, a in laws]
    one = [[(Gaussian(1.4).matrix(x[None], q) @ b)[0] for q, b in laws] for x in X]
    np.testing.assert_allclose(kernel.matrix(X, X), both, rtol=1e-8)
    np.testing.assert_allclose(kernel.one_vicinal(X, X), one, rtol=1e-8)


@pytest.mark.parametrize("noise", [0.0, 0.6])
def test_functionals_of_averages_have_the_vicinal_kernels_as_inner_products(noise):
    X, points = rows(6, 3), rows(4, 3, seed=1)
    oracle = Ellipsoid(np.array([[1.0, 0.5], [0.0, 1.0], [0.3, 0.0]]))
    kernel, family = VicinalKernel(oracle, 1.5, [0.4, 0.3], noise), None
    family = VicinalAverages(oracle, [0.4, 0.3], noise, n_nodes=15).bind(X)
    np.testing.assert_allclose(family.gram(Gaussian(1.5)), kernel.matrix(X, X), rtol=1e-8)
    found = Evaluation().bind(points).gram(Gaussian(1.5), family)
    np.testing.assert_allclose(found, kernel.one_vicinal(points, X), rtol=1e-8)


def test_vicinal_kernel_without_spread_is_the_gaussian():
    X, Y = rows(20), rows(9, seed=1)
    for kernel in (
        VicinalKernel(None, 1.5),
        VicinalKernel(Identity(), 1.5),
        VicinalKernel(ORACLE, 1.5, 0),
    ):
        np.testing.assert_allclose(kernel.matrix(X, Y), Gaussian(1.5).matrix(X, Y), rtol=1e-13)
        np.testing.assert_allclose(kernel.one_vicinal(X, Y), Gaussian(1.5).matrix(X, Y), rtol=1e-13)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("widths", [(1.0, 1.0), (30.0, 0.1), (0.5, 20.0), (1.0, 1e-3)])
def test_overlaps_of_distributions_are_definite(widths, dtype):
    X = np.vstack([rows(60), 1e-3 * rows(20, seed=1), rows(5)]).astype(dtype)
    rounding = 100 * np.finfo(dtype).eps
    for kernel in (
        TangentDistributionKernel(ORACLE, *widths),
        TangentDistributionKernel(ORACLE, *widths, rho=1.0),
        VicinalKernel(ORACLE, widths[0], widths[1]),
    ):
        assert kernel.definite
        values = np.linalg.eigvalsh(kernel.matrix(X, X).astype(np.float64))
        assert values[0] >= -rounding * values[-1]


def test_tangent_vector_kernels_are_not_definite():
    X = rows(60, 2)
    for kind in (TangentVectorKernel, TangentOverlapKernel):
        kernel = kind(TURN, 3.0, 0.3, 10.0)
        assert not kernel.definite
        values = np.linalg.eigvalsh(kernel.matrix(X, X))
        assert values[0] < -1e-3 * values[-1]


@every_kind
def test_tangents_are_cached_until_rows_or_parameters_change(kind):
    asked = []

    def counted(X):
        asked.append(len(X))
        return np.stack([np.cos(X)], axis=1)

    X, Y = rows(20), rows(6, seed=1)
    kernel = kind(TangentDerivative(counted, 1.0))
    first = kernel.matrix(X, X)
    made = len(asked)
    assert np.array_equal(kernel.matrix(X.copy(), X.copy()), kernel.matrix(X, X.copy()))
    assert len(asked) == made
    kernel.matrix(Y, X)
    assert asked[made:].count(6) == 1
    X[0] += 1.0
    assert not np.allclose(kernel.matrix(X, X)[0, 1:], first[0, 1:])
    kernel.set_params(sigma=3.0)
    assert np.array_equal(kernel.matrix(X, X), clone(kernel).matrix(X, X))
    assert "_rows" not in pickle.loads(pickle.dumps(kind(ORACLE).set_params(sigma=2.0))).__dict__


@every_kind
def test_estimators_support_tangent_kernels(kind, recwarn):
    X = rows(80, 4)
    y = (X[:, 2] + 0.3 * X[:, 3] > 0).astype(int)
    kernel = kind(Ellipsoid(np.eye(4)[:, :2]), 1.5)
    model = InvariantSVC(kernel=kernel, tol=1e-5).fit(X, y)
    assert model.score(X, y) > 0.9
    same = InvariantSVC(kernel="precomputed", tol=1e-5).fit(kernel(X), y)
    np.testing.assert_allclose(
        model.decision_function(X[:9]), same.decision_function(kernel(X[:9], X)), atol=0.02
    )
    theirs = SVC(kernel="precomputed").fit(kernel(X), y)
    expected = theirs.decision_function(kernel(X[:9], X))
    found = SVC(kernel=kernel).fit(X, y).decision_function(X[:9])
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert not any(issubclass(each.category, IndefiniteKernelWarning) for each in recwarn)


@every_kind
def test_models_with_tangent_kernels_are_saved(kind, tmp_path):
    X, y = rows(40, 16), np.arange(40) % 2
    kernel = kind(Rotations([-10, 10], shape=(4, 4)), 3.0)
    model = InvariantSVC(kernel=kernel, max_seconds=5).fit(X, y)
    structinv.save(model, tmp_path / "model")
    again = structinv.load(tmp_path / "model")
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))


@every_kind
def test_oracles_without_tangents_are_refused_by_name(kind):
    for oracle in (FDrop(1), Flip(shape=(1, 5))):
        wanted = f"{type(oracle).__name__} does not define tangents, which {kind.__name__} requires"
        with pytest.raises(NotImplementedError, match=wanted):
            kind(oracle).matrix(rows(3), rows(2))
    with pytest.raises(ValueError, match="oracle must not depend on labels"):
        kind(Offset(1.0).only_for(1)).validate()
    with pytest.raises(TypeError, match="oracle must be an InvarianceOracle, got 'offset'"):
        kind("offset").validate()


@pytest.mark.parametrize(
    ("kernel", "error", "message"),
    [
        (TangentVectorKernel(ORACLE, 0.0), ValueError, "sigma must be a number above 0, got 0.0"),
        (TangentOverlapKernel(ORACLE, 1.0, np.nan), ValueError, "gamma_w must be .* got nan"),
        (TangentVectorKernel(ORACLE, eta="1"), TypeError, "eta"),
        (TangentDistributionKernel(ORACLE, gamma_w=0), ValueError, "gamma_w must be a number above 0"),
        (TangentDistributionKernel(ORACLE, rho=0.0), ValueError, "rho must be a number above 0, got"),
        (VicinalKernel(ORACLE, spread=-1.0), ValueError, "spread must be .* at least 0, got -1.0"),
    ],
)
def test_parameters_are_checked_by_name(kernel, error, message):
    with pytest.raises(error, match=message):
        kernel.validate(5)
    with pytest.raises(error, match=message):
        kernel.matrix(rows(2), rows(3))


def test_wrong_spreads_and_overflow_are_errors(monkeypatch):
    X = rows(3)
    with pytest.raises(ValueError, match="spread must have one entry for each of 5 tangents, got 2"):
        VicinalKernel(ORACLE, spread=[1.0, 2.0]).matrix(X, X)
    many = rows(3, 2000)
    with pytest.raises(ValueError, match="less than noise=5.0 and spread=1.0, or a larger sigma"):
        VicinalKernel(noise=5.0).matrix(many, many)
    for kind in LAWS:
        with pytest.raises(ValueError, match=f"{kind.__name__}: squared norms.* rescale the features"):
            kind(Offset(1.0), 1e-10).matrix(1e150 * X, 1e150 * X)
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError, match="X must be finite"):
            VicinalKernel().matrix(np.full((2, 2), bad), np.ones((2, 2)))
    monkeypatch.setattr("structinv.utils.resources.free_memory", lambda: 1e7)
    with pytest.raises(MemoryError, match="the directions of 50 rows would take 14.4 MB, and 10 MB are"):
        TangentVectorKernel(ORACLE).matrix(rows(50, 2000), rows(50, 2000))


@pytest.mark.parametrize("loss", ["squared", "hinge", "logistic"])
def test_vicinal_training_minimizes_losses_of_averages(loss):
    X, y = rows(20), np.arange(20) % 2
    new, signs = rows(7, seed=1), 2.0 * y - 1.0
    oracle, spread = Offset(1.0), 0.4
    averages = VicinalAverages(oracle, spread, noise=0.1, n_nodes=15)
    model = RepresenterClassifier(Gaussian(2.0), loss=loss, C=2.0, tol=1e-9, losses_on=averages)
    model.fit(X, y)
    kernel = VicinalKernel(oracle, sigma=2.0, spread=spread, noise=0.1)
    M, D = kernel(X), kernel.one_vicinal(new, X)
    if loss == "squared":
        a = np.linalg.solve(M + np.eye(20) / (2.0 * 2.0), signs)
    else:
        a = RepresenterClassifier(kernel, loss=loss, C=2.0, tol=1e-9).fit(X, y).alpha_[0]
    np.testing.assert_allclose(model.decision_function(new), D @ a, atol=1e-4)
