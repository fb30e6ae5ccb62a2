"""Kernels of rows with tangents: formulas pair by pair, the machines that take them, refused input."""

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
    TangentDerivative,
)


def tangents(X):
    """Five a row: one depends on another, and one is zero where the first feature is below 0."""
    first, second = np.cos(X), X[:, ::-1].copy()
    some = X * np.where(X[:, :1] < 0, 0.0, 1.0)
    return np.stack([first, 3.0 * second, -2.0 * first, some, first + second], axis=1)


ORACLE = TangentDerivative(tangents, 1.0)


def directions(x):
    """The tangents of a row that are not zero."""
    found = tangents(x[None])[0]
    return found[np.any(found != 0, axis=1)]


def by_pairs(value):
    """The table of a function of two rows."""
    return lambda X, Y: np.array([[value(x, y) for y in Y] for x in X]).reshape(len(X), len(Y))


def parts(D, line):
    """Squares of the parts of D along and across a line."""
    along = (D @ line) ** 2 / (line @ line)
    return along, D @ D - along


def tangent_vector(x, y, sigma, gamma_w, eta):
    """The mean of both one-sided densities."""
    D, sides = x - y, []
    for side in (x, y):
        lines = directions(side)
        total = sum(np.exp(-parts(D, line)[1] / (2 * gamma_w**2)) for line in lines)
        plain = np.exp(-D @ D / (2 * sigma**2))
        sides.append(plain * (1 + eta * total) / (1 + eta * len(lines)))
    return (sides[0] + sides[1]) / 2


def tangent_overlap(x, y, s, g, eta):
    """Both sides' overlaps of terms, each side divided by what it is at no distance."""
    D, sides = x - y, []
    for side in (x, y):
        total = 0.0
        for line in directions(side):
            along, across = parts(D, line)
            rate = (s**2 + g**2) / (2 * s**2 * (2 * g**2 + s**2))
            total += np.exp(-along / (4 * s**2) - across * rate)
        plain = np.exp(-D @ D / (4 * s**2))
        sides.append((plain + 2 * eta * total) / (1 + 2 * eta * len(directions(side))))
    return (sides[0] + sides[1]) / 2


def precision_of(x, sigma, gamma_w):
    """The precision of the law around a row."""
    lines = directions(x)
    found = (1 / sigma**2 + len(lines) / gamma_w**2) * np.eye(len(x))
    for line in lines:
        found -= np.outer(line, line) / (gamma_w**2 * (line @ line))
    return found


def tangent_distribution(x, y, sigma, gamma_w, rho):
    """K_B as it is written, with determinants and inverses."""
    P, Q = precision_of(x, sigma, gamma_w), precision_of(y, sigma, gamma_w)
    L, M = np.linalg.inv(P), np.linalg.inv(Q)
    D, det = x - y, np.linalg.det
    level = (2 * np.pi) ** ((1 - 2 * rho) * len(x) / 2) * det(rho * (P + Q)) ** -0.5
    level *= (det(L) * det(M)) ** (-rho / 2)
    return level * np.exp(-rho / 2 * D @ np.linalg.solve(L + M, D))


def normalized_distribution(x, y, *parameters):
    """K_B divided by what both rows have with themselves."""
    own = tangent_distribution(x, x, *parameters) * tangent_distribution(y, y, *parameters)
    return tangent_distribution(x, y, *parameters) / np.sqrt(own)


def spread_of(x, spread, noise):
    """The covariance of a vicinal law."""
    steps = tangents(x[None])[0] * np.broadcast_to(spread, 5)[:, None]
    return noise**2 * np.eye(len(x)) + steps.T @ steps


def vicinal(x, y, sigma, spread, noise, sides=2):
    """The average of the Gaussian kernel over both laws, or that of the second row."""
    C, D = sigma**2 * np.eye(len(x)) + spread_of(y, spread, noise), x - y
    if sides == 2:
        C = C + spread_of(x, spread, noise)
    return np.linalg.det(C / sigma**2) ** -0.5 * np.exp(-0.5 * D @ np.linalg.solve(C, D))


SPREAD = (0.3, 0.0, 0.1, 0.2, 0.15)

# Kernels and what they ought to be.
CASES = [
    (
        TangentVectorKernel(ORACLE, 2.0, 1.5, 0.7),
        by_pairs(lambda x, y: tangent_vector(x, y, 2.0, 1.5, 0.7)),
    ),
    (TangentVectorKernel(ORACLE, eta=0.0), by_pairs(lambda x, y: tangent_vector(x, y, 1.0, 1.0, 0.0))),
    (
        TangentOverlapKernel(ORACLE, 1.5, 1.0, 0.7),
        by_pairs(lambda x, y: tangent_overlap(x, y, 1.5, 1.0, 0.7)),
    ),
    (
        TangentDistributionKernel(ORACLE, 2.0, 1.5),
        by_pairs(lambda x, y: tangent_distribution(x, y, 2.0, 1.5, 0.5)),
    ),
    (
        TangentDistributionKernel(ORACLE, 2.0, 3.0, 1.0),
        by_pairs(lambda x, y: normalized_distribution(x, y, 2.0, 3.0, 1.0)),
    ),
    (VicinalKernel(ORACLE, 1.5, SPREAD, 0.4), by_pairs(lambda x, y: vicinal(x, y, 1.5, SPREAD, 0.4))),
    (VicinalKernel(ORACLE, 1.5, 0.5), by_pairs(lambda x, y: vicinal(x, y, 1.5, 0.5, 0.0))),
    (VicinalKernel(None, 2.0, noise=0.7), by_pairs(lambda x, y: vicinal(x, y, 2.0, 0.0, 0.7))),
]

KINDS = [TangentVectorKernel, TangentOverlapKernel, TangentDistributionKernel, VicinalKernel]
LAWS = [TangentDistributionKernel, VicinalKernel]
every_kind = pytest.mark.parametrize("kind", KINDS)


def rows(n, d=5, seed=0, dtype=np.float64):
    return np.random.default_rng(seed).normal(size=(n, d)).astype(dtype)


def turns(X):
    """The rotation of points of the plane."""
    return np.stack([X[:, ::-1] * [-1.0, 1.0]], axis=1)


TURN = TangentDerivative(turns, 1.0)


@pytest.mark.parametrize("spread", [[0.4, 0.3], [0.0, 0.3]], ids=str)
@pytest.mark.parametrize("noise", [0.0, 0.6])
def test_functionals_of_averages_have_the_vicinal_kernels_as_inner_products(noise, spread):
    X, points = rows(6, 3), rows(4, 3, seed=1)
    oracle = Ellipsoid(np.array([[1.0, 0.5], [0.0, 1.0], [0.3, 0.0]]))
    kernel = VicinalKernel(oracle, 1.5, spread, noise)
    family = VicinalAverages(oracle, spread, noise, n_nodes=15).bind(X)
    np.testing.assert_allclose(family.gram(Gaussian(1.5)), kernel.matrix(X, X), rtol=1e-8)
    found = Evaluation().bind(points).gram(Gaussian(1.5), family)
    np.testing.assert_allclose(found, kernel.one_vicinal(points, X), rtol=1e-8)


def test_averages_over_the_vicinity_of_one_row_are_the_formula():
    X, points = rows(6), rows(4, seed=1)
    expected = by_pairs(lambda x, y: vicinal(x, y, 1.5, SPREAD, 0.4, sides=1))
    found = VicinalKernel(ORACLE, 1.5, SPREAD, 0.4).one_vicinal(points, X)
    np.testing.assert_allclose(found, expected(points, X), rtol=1e-12)


def test_volumes_beyond_the_range_of_floats_have_logarithms():
    kernel, zero = VicinalKernel(TangentDerivative(np.eye(30), 1.0), spread=1e4), np.zeros((1, 30))
    assert kernel.matrix(zero, zero)[0, 0] == pytest.approx((1 + 2e8) ** -15.0, rel=1e-9, abs=0)
    assert kernel.one_vicinal(zero, zero)[0, 0] == pytest.approx((1 + 1e8) ** -15.0, rel=1e-9, abs=0)


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
    assert "_results" not in pickle.loads(pickle.dumps(kind(ORACLE).set_params(sigma=2.0))).__dict__


@every_kind
def test_rows_with_the_same_numbers_in_another_shape_are_not_cached(kind):
    X, kernel = rows(6, 4), kind(Offset(1.0), sigma=2.0)
    kernel.matrix(X, X)
    other = X.reshape(4, 6)
    np.testing.assert_array_equal(kernel.matrix(other, other), clone(kernel).matrix(other, other))


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
