"""Kernels of rows with tangents in machines, and what they cache and refuse."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.svm import SVC

import structinv
from structinv import IndefiniteKernelWarning, InvariantSVC
from structinv.kernels import (
    TangentDistributionKernel,
    TangentOverlapKernel,
    TangentVectorKernel,
    VicinalKernel,
)
from structinv.oracles import Ellipsoid, FDrop, Flip, Offset, Rotations, TangentDerivative

from .cases import ORACLE, rows

KINDS = [TangentVectorKernel, TangentOverlapKernel, TangentDistributionKernel, VicinalKernel]
every_kind = pytest.mark.parametrize("kind", KINDS)


def turns(X):
    """The rotation of points of the plane."""
    return np.stack([X[:, ::-1] * [-1.0, 1.0]], axis=1)


TURN = TangentDerivative(turns, 1.0)


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
