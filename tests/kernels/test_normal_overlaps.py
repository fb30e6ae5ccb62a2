"""Overlaps of normal laws around rows: formulas, vicinal training, refused input."""

import numpy as np
import pytest

from structinv import RepresenterClassifier
from structinv.functionals import Evaluation, VicinalAverages
from structinv.kernels import Gaussian, TangentDistributionKernel, TangentVectorKernel, VicinalKernel
from structinv.oracles import Ellipsoid, Identity, Offset, TangentDerivative

from .cases import ORACLE, SPREAD, by_pairs, rows, vicinal

LAWS = [TangentDistributionKernel, VicinalKernel]


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
