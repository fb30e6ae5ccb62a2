"""Fourier features of orbits: what their inner products come to."""

import numpy as np
import pytest
from sklearn.base import clone

from structinv.embeddings import OrbitFourier, OrbitNystroem
from structinv.embeddings.responses import TEMPLATES
from structinv.kernels import Gaussian, OrbitDistance, OrbitMean
from structinv.oracles import FiniteOracle

from ..covering import slow_unless
from ..oracles.cases import ORDERS, D, Reorderings
from .cases import KERNELS, ORACLES, RADIAL, Erased, exact, rows


class Noise(FiniteOracle):
    """Draws members that depend on the row in no linear way."""

    finite = False

    def orbit(self, X):
        raise NotImplementedError

    def sample(self, X, size, rng):
        return np.tanh(X[:, None] * rng.uniform(0.5, 2.0, size)[:, None])


kinds = [(kind, name) for kind in TEMPLATES for name in (KERNELS if kind == "gaussian" else RADIAL)]


# One oracle for every kind of templates and kernel, in turns.
@pytest.mark.parametrize(
    ("kind", "name", "oracle"),
    slow_unless(
        lambda kind, name, oracle: oracle == list(ORACLES)[kinds.index((kind, name)) % len(ORACLES)],
        [(kind, name, oracle) for kind, name in kinds for oracle in ORACLES],
    ),
)
def test_inner_products_average_to_the_kernel(kind, name, oracle):
    X, oracle, kernel = rows(), ORACLES[oracle], KERNELS[name]
    found = []
    for seed in range(24):
        features = OrbitFourier(oracle, kernel, 2 * D * 8, templates=kind, random_state=seed)
        F = features.fit_transform(X)
        found.append(F @ F.T)
    spread = np.std(found, axis=0) / np.sqrt(len(found))
    off = np.abs(np.mean(found, axis=0) - exact(oracle, kernel, X))
    # So many standard errors; of pairs that have no spread, none but rounding.
    assert np.max(off - 5.0 * spread) < 1e-9


def test_templates_are_transformed_by_maps_that_are_not_isometries():
    X = rows(20)
    F = OrbitFourier(Erased(), Gaussian(1.5), 60_000).fit_transform(X)
    np.testing.assert_allclose(F @ F.T, exact(Erased(), Gaussian(1.5), X), atol=2e-2)


def test_two_layers_are_a_gaussian_of_distances_of_embeddings():
    X, oracle = rows(15), Reorderings(ORDERS)
    kernel = OrbitDistance(oracle, Gaussian(1.5), tau=0.7)
    truth = kernel.matrix(X, X)
    fourier = OrbitFourier(oracle, Gaussian(1.5), 4001, layers=2, tau=0.7, templates="gaussian")
    F = fourier.fit_transform(X)
    assert F.shape == (15, 4001)
    np.testing.assert_allclose(F @ F.T, truth, atol=0.12)
    assert fourier.kernel_error_.frobenius < 0.1
    N = OrbitNystroem(oracle, Gaussian(1.5), 15, layers=2, tau=0.7).fit_transform(X)
    np.testing.assert_allclose(N @ N.T, truth, atol=1e-7)


def test_last_columns_of_layers_have_their_own_phases():
    def waves(values, phase):
        columns = np.stack([np.cos(values), np.sin(values)], axis=2).reshape(len(values), -1)[:, :5]
        columns[:, 4] = np.cos(values[:, 2] + phase)
        return np.sqrt(0.4) * columns

    X = rows()
    features = OrbitFourier(None, Gaussian(1.5), 5, layers=2, tau=0.7).fit(X)
    first, second = features.phases_
    hidden = waves(X @ features.templates_.T, first)
    wanted = waves(hidden @ features.second_templates_.T, second)
    np.testing.assert_allclose(features.transform(X), wanted, atol=1e-12)


def test_rows_of_another_precision_have_their_own_features():
    X, oracle = rows(), Reorderings(ORDERS)
    for estimator in (OrbitFourier(oracle, n_components=9), OrbitFourier(oracle, None, 9, layers=2)):
        wanted, single = clone(estimator).fit(X).transform(X), X.astype(np.float32)
        features = estimator.fit(single)
        assert features.transform(single).dtype == np.float32
        np.testing.assert_allclose(features.transform(X), wanted, atol=1e-12)


def test_drawn_members_are_those_of_the_kernel():
    X = rows(10)
    features = OrbitFourier(Noise(), Gaussian(2.0), 20_000, n_draws=6, random_state=3).fit(X)
    assert features.seed_ == 3
    F = features.transform(X)
    kernel = OrbitMean(Noise(), Gaussian(2.0), n_draws=6, random_state=3)
    np.testing.assert_allclose(F @ F.T, kernel.matrix(X, X), atol=0.03)
    # A row has the same members whatever block it is in.
    np.testing.assert_allclose(features.transform(X[4:5]), F[4:5], atol=1e-12)


@pytest.mark.parametrize("kind", TEMPLATES)
def test_the_error_falls_like_the_root_of_the_number_of_columns(kind):
    X, oracle = rows(20), Reorderings(ORDERS)
    errors = []
    for n_components in (32, 128, 512, 2048):
        found = [
            OrbitFourier(oracle, Gaussian(1.5), n_components, templates=kind, random_state=seed)
            .fit(X)
            .kernel_error_.frobenius
            for seed in range(8)
        ]
        errors.append(np.sqrt(np.mean(np.square(found))))
    slope = np.polyfit(np.log([32, 128, 512, 2048]), np.log(errors), 1)[0]
    # Theorem 3.1 has -1/2; sequences that fill space evenly fall faster.
    assert slope < -0.42
