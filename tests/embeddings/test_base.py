"""Features of orbits: blocks, threads, sparse rows, refused parameters, and scikit-learn's rules."""

from contextlib import suppress
from unittest import SkipTest

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.utils.estimator_checks import estimator_checks_generator

from structinv.embeddings import GroupCDF, OrbitFourier, OrbitNystroem
from structinv.kernels import Gaussian, Laplacian, Linear
from structinv.oracles.changes import LinearChanges
from structinv.oracles.listed_changes import averaged

from ..oracles.cases import ORDERS, D, Reorderings, Shrinkings
from .cases import Erased, rows

ALL = [OrbitFourier(), OrbitNystroem(n_components=5), GroupCDF(n_components=12, n_bins=4)]


@pytest.mark.parametrize(
    "estimator",
    [OrbitFourier(layers=2), OrbitNystroem(n_components=5), GroupCDF()],
    ids=lambda each: type(each).__name__,
)
def test_transformers_pass_the_checks_of_scikit_learn(estimator, array_api):
    for each, check in estimator_checks_generator(estimator):
        with suppress(SkipTest):
            check(each)


class Counting(LinearChanges):
    """Counts the vectors that move."""

    moved = 0

    def members(self, rows=None, numbers=None):
        raise AssertionError("rows moved")

    def adjoint(self, V):
        self.moved += len(V) * self.size
        return super().adjoint(V)


def test_templates_are_transformed_once_instead_of_rows(monkeypatch):
    counted = []

    def counting(*arguments):
        counted.append(Counting(np.zeros((0, D)), averaged(*arguments).linear().maps))
        return counted[-1]

    monkeypatch.setattr("structinv.embeddings.base.averaged", counting)
    features = OrbitFourier(Erased(), Gaussian(), 10).fit(rows(30))
    (law,) = counted
    # One more to see whether they can.
    assert law.moved == law.size * (5 + 1)
    features.transform(rows(3000, seed=1))
    features.transform(rows(3000, seed=2))
    assert law.moved == law.size * (5 + 1)
    # Where they are too many to keep, they move again for each block of rows, not for each row.
    monkeypatch.setattr("structinv.embeddings.responses.KEPT", 0)
    features._kept = type(features._kept)()
    counted.clear()
    # Of blocks of 256 rows here, of many megabytes there.
    features.transform(rows(3000, seed=1))
    assert counted[0].moved == law.size * (12 * 5 + 1)


@pytest.mark.parametrize("estimator", ALL, ids=lambda each: type(each).__name__)
def test_features_do_not_depend_on_blocks_and_threads(estimator, monkeypatch):
    X = rows(700)
    estimator = clone(estimator).set_params(oracle=Reorderings(ORDERS))
    whole = estimator.fit(X).transform(X)
    monkeypatch.setattr("structinv.embeddings.responses.PRODUCTS", 100)
    monkeypatch.setattr("structinv.embeddings.responses.COLUMNS", 2 * len(ORDERS))
    monkeypatch.setattr("structinv.embeddings.responses.VALUES", 10 * D)
    monkeypatch.setattr("structinv.embeddings.nystroem.ROWS_AT_ONCE", 13)
    monkeypatch.setattr("structinv.embeddings.nystroem.VALUES", 1)
    monkeypatch.setattr("structinv.utils.matrices.VALUES_A_THREAD", 1)
    np.testing.assert_allclose(estimator.fit(X).transform(X), whole, atol=1e-12)


@pytest.mark.parametrize(
    ("estimator", "dtype"), [(ALL[0], np.float64), (ALL[0], np.float32), (ALL[2], np.float64)], ids=repr
)
def test_sparse_rows_have_the_features_of_dense_rows(estimator, dtype):
    X = np.where(rows(40) > 0.5, rows(40), 0.0).astype(dtype)
    features = clone(estimator).set_params(oracle=Reorderings(ORDERS)).fit(sp.csr_matrix(X))
    found = features.transform(sp.csr_matrix(X))
    assert found.dtype == dtype
    np.testing.assert_allclose(found, features.transform(X), atol=1e-6)


@pytest.mark.parametrize("estimator", [ALL[0], ALL[2]], ids=lambda each: type(each).__name__)
def test_sparse_rows_that_are_transformed_are_errors(estimator):
    estimator = clone(estimator).set_params(oracle=Shrinkings())
    with pytest.raises(TypeError, match="X must be dense.*Shrinkings"):
        estimator.fit(sp.csr_matrix(rows()))
    estimator.fit(rows())
    with pytest.raises(TypeError, match="X must be dense.*Shrinkings"):
        estimator.transform(sp.csr_matrix(rows()))


@pytest.mark.parametrize(
    ("estimator", "error", "message"),
    [
        (OrbitFourier(n_components=0), ValueError, "n_components must be an integer of at least .* 0"),
            (OrbitFourier(layers=3), ValueError, "layers must be 1 or 2, got 3"),
        (OrbitFourier(tau=0.0), ValueError, "tau must be a number above 0"),
        (OrbitFourier(n_draws=2**40), ValueError, "n_draws must be .* at most 1048576"),
        (OrbitFourier(templates="fast"), ValueError, "templates must be one of .* got 'fast'"),
        (OrbitFourier(oracle="shifts"), TypeError, "oracle must be an InvarianceOracle or None"),
        (OrbitFourier(kernel="rbf"), TypeError, "kernel must be a Kernel or None, got 'rbf'"),
        (OrbitFourier(kernel=Linear()), TypeError, r"kernel must be a function of x - y.*Linear\(\)"),
        (OrbitFourier(kernel=Gaussian() + Gaussian()), TypeError, "kernel must be .*Sum"),
        (OrbitFourier(kernel=Laplacian()), ValueError, "templates='orthogonal' requires a"),
        (OrbitNystroem(), ValueError, "n_components must be at most the number of samples.*=100.*=12"),
        (OrbitNystroem(n_components=2, landmarks="best"), ValueError, "landmarks must be .* got 'best'"),
        (OrbitNystroem(kernel=3, n_components=2), TypeError, "kernel must be a Kernel or None"),
        (GroupCDF(n_bins=0), ValueError, "n_bins must be an integer of at least 1"),
        (GroupCDF(templates="sobol"), ValueError, "templates must be one of"),
        (GroupCDF(oracle=3), TypeError, "oracle must be"),
    ],
    ids=str,
)  # fmt: skip
def test_invalid_parameters_are_errors_by_name(estimator, error, message):
    with pytest.raises(error, match=message):
        estimator.fit(rows())
    assert not [name for name in vars(estimator) if name.endswith("_") or name == "_kept"]
