"""Nyström features of orbits: landmarks, and the error that is left."""

import numpy as np
import pytest
import scipy.sparse as sp

from structinv.embeddings import OrbitNystroem
from structinv.kernels import Gaussian, Linear, OrbitMean

from ..oracles.cases import ORDERS, D, Reorderings
from .cases import KERNELS, ORACLES, exact, rows


@pytest.mark.parametrize("oracle", ORACLES)
def test_nystroem_is_exact_where_all_rows_are_landmarks(oracle):
    X, oracle = rows(), ORACLES[oracle]
    for kernel in (*KERNELS.values(), Linear()):
        features = OrbitNystroem(oracle, kernel, len(X)).fit(X)
        F = features.transform(X)
        np.testing.assert_allclose(F @ F.T, exact(oracle, kernel, X), atol=1e-7)
        assert features.kernel_error_.spectral < 1e-7
        linear = isinstance(kernel, Linear)
        assert features.rank_ == (np.linalg.matrix_rank(F) if linear else len(X))
        assert F.shape == (len(X), len(X))


def test_nystroem_projects_onto_the_span_of_the_landmarks():
    X, kernel = rows(30), OrbitMean(Reorderings(ORDERS), Gaussian(1.5))
    features = OrbitNystroem(Reorderings(ORDERS), Gaussian(1.5), 8).fit(X)
    Z = X[features.landmark_indices_]
    np.testing.assert_array_equal(Z, features.landmarks_)
    between = kernel.matrix(X, Z)
    expected = between @ np.linalg.solve(kernel.matrix(Z, Z), between.T)
    F = features.transform(X)
    np.testing.assert_allclose(F @ F.T, expected, atol=1e-9)


def test_equal_landmarks_do_not_change_the_number_of_columns():
    X = np.repeat(rows(4), 3, axis=0)
    features = OrbitNystroem(None, Gaussian(1.5), 12).fit(X)
    F = features.transform(X)
    assert features.rank_ == 4
    assert F.shape == (12, 12)
    np.testing.assert_allclose(F @ F.T, Gaussian(1.5).matrix(X, X), atol=1e-7)


def test_kmeans_landmarks_are_cluster_centers():
    centers = 10.0 * np.eye(3, D)
    X = np.repeat(centers, 20, axis=0) + 0.01 * rows(60)
    features = OrbitNystroem(None, Gaussian(3.0), 3, landmarks="kmeans").fit(X)
    nearest = np.argmin(np.linalg.norm(features.landmarks_[:, None] - centers, axis=2), axis=1)
    assert sorted(nearest.tolist()) == [0, 1, 2]
    assert len(features.landmark_indices_) == 0


def test_kernel_error_is_that_of_rows_that_are_not_landmarks():
    X = rows(40)
    features = OrbitNystroem(Reorderings(ORDERS), Gaussian(1.0), 30).fit(X)
    others = np.setdiff1d(np.arange(40), features.landmark_indices_)
    assert len(others) == 10
    F = features.transform(X[others])
    K = exact(Reorderings(ORDERS), Gaussian(1.0), X[others])
    off = F @ F.T - K
    error = features.kernel_error_
    assert error.frobenius == pytest.approx(np.linalg.norm(off) / np.linalg.norm(K))
    assert error.spectral == pytest.approx(np.linalg.norm(off, 2) / np.linalg.norm(K, 2))
    assert error == features.kernel_error(X[others])


def test_nystroem_requires_dense_rows():
    with pytest.raises(TypeError, match="[Ss]parse"):
        OrbitNystroem(n_components=3).fit(sp.csr_matrix(rows()))
