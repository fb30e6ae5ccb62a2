"""Features of orbits: what their inner products come to, what moves, and scikit-learn's rules."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import norm
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from structinv.embeddings import GroupCDF, OrbitFourier, OrbitNystroem
from structinv.embeddings.responses import (
    TEMPLATES,
    Responses,
    mean_waves,
    unit_templates,
)
from structinv.kernels import Gaussian, Laplacian, Linear, Matern, OrbitDistance, OrbitMean
from structinv.kernels.radial import normals
from structinv.oracles import FiniteOracle, Identity, Shifts, Weighted
from structinv.oracles.changes import LinearChanges
from structinv.oracles.listed_changes import averaged

from ..covering import slow_unless
from ..oracles.cases import ORDERS, D, Reorderings, Shrinkings

RADIAL = {
    "gaussian": Gaussian(1.7),
    "matern-1/2": Matern(2.0, 0.5),
    "matern-3/2": Matern(2.0, 1.5),
    "matern-inf": Matern(2.0, np.inf),
}
KERNELS = RADIAL | {"laplacian": Laplacian(0.2)}
# Members that templates make by moving, and members that are made of rows.
ORACLES = {
    "identity": Identity(),
    "permutations": Reorderings(ORDERS),
    "shrinkings": Shrinkings(),
    "shears": Shifts(1, shape=(1, D)),
}
ALL = [OrbitFourier(), OrbitNystroem(n_components=5), GroupCDF(n_components=12, n_bins=4)]


def rows(n=12, d=D, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


class Erased(FiniteOracle):
    """Without the first or the last feature: linear maps that keep no inner products."""

    def orbit(self, X):
        found = np.repeat(X[:, None], 3, axis=1)
        found[:, 1, 0] = found[:, 2, -1] = 0
        return found

    def changes(self, X, y=None):
        maps = self.orbit(np.eye(X.shape[1])).swapaxes(0, 1)
        return LinearChanges(X, [sp.csr_matrix(each) for each in maps])


class Noise(FiniteOracle):
    """Draws members that depend on the row in no linear way."""

    finite = False

    def orbit(self, X):
        raise NotImplementedError

    def sample(self, X, size, rng):
        return np.tanh(X[:, None] * rng.uniform(0.5, 2.0, size)[:, None])


@parametrize_with_checks([OrbitFourier(layers=2), OrbitNystroem(n_components=5), GroupCDF()])
def test_transformers_pass_the_checks_of_scikit_learn(estimator, check, array_api):
    check(estimator)


def exact(oracle, kernel, X):
    """The mean kernel by the members, one pair at a time."""
    law = averaged(oracle, X.shape[1])
    members = law.on(X).members()
    found = np.zeros((len(X), len(X)))
    for g, of_g in enumerate(law.weights):
        for h, of_h in enumerate(law.weights):
            found += of_g * of_h * kernel.matrix(members[:, g], members[:, h])
    return found


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


@pytest.mark.parametrize("size", [1.0, 1e3, 1e5, 1e6, 1e8, 1e15])
def test_cosines_and_sines_equal_numpy(size):
    law = averaged(Reorderings(ORDERS), D)
    templates = size * rows(4, seed=1)
    X = np.random.default_rng(2).standard_normal((50, D))
    found = mean_waves(Responses(law, templates, Identity()), X, 8, 0.0) * 2.0
    # Products by another order of sums differ in their last bits, which large ones feel.
    angles = (X @ law.adjoint(templates).reshape(-1, D).T).reshape(50, -1, 4)
    waves = np.stack([np.cos(angles), np.sin(angles)], axis=3)
    truth = np.einsum("k,nkpc->npc", law.weights, waves).reshape(50, 8)
    np.testing.assert_allclose(found, truth, atol=1e-14 + 1e-15 * size * D)


@pytest.mark.parametrize("d", [1, 2, 5, 8])
def test_directions_are_orthogonal_in_blocks(d):
    found = unit_templates("orthogonal", 2 * d, d, np.random.default_rng(0))
    np.testing.assert_allclose(found[:d] @ found[:d].T, np.eye(d), atol=1e-12)
    np.testing.assert_allclose(found[d:] @ found[d:].T, np.eye(d), atol=1e-12)


@pytest.mark.parametrize("kind", TEMPLATES)
@pytest.mark.parametrize("d", [1, 3, 8])
def test_templates_of_a_gaussian_have_normal_coordinates(kind, d):
    parts = [TEMPLATES[kind](normals(2.0), 8, d, np.random.default_rng(seed)) for seed in range(500)]
    drawn = 2.0 * np.concatenate(parts)
    grid = np.linspace(-2, 2, 9)
    shares = np.mean(drawn[:, :, None] <= grid, axis=(0, 1))
    np.testing.assert_allclose(shares, norm.cdf(grid), atol=0.03)


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


def test_templates_are_transformed_by_maps_that_are_not_isometries():
    X = rows(20)
    F = OrbitFourier(Erased(), Gaussian(1.5), 60_000).fit_transform(X)
    np.testing.assert_allclose(F @ F.T, exact(Erased(), Gaussian(1.5), X), atol=2e-2)


@pytest.mark.parametrize("name", [*KERNELS, "linear"])
@pytest.mark.parametrize("oracle", ORACLES)
def test_nystroem_is_exact_where_all_rows_are_landmarks(oracle, name):
    X, kernel, oracle = rows(), (KERNELS | {"linear": Linear()})[name], ORACLES[oracle]
    features = OrbitNystroem(oracle, kernel, len(X)).fit(X)
    F = features.transform(X)
    np.testing.assert_allclose(F @ F.T, exact(oracle, kernel, X), atol=1e-7)
    assert features.kernel_error_.spectral < 1e-7
    assert features.rank_ == (len(X) if name != "linear" else np.linalg.matrix_rank(F))
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


def test_drawn_members_are_those_of_the_kernel():
    X = rows(10)
    features = OrbitFourier(Noise(), Gaussian(2.0), 20_000, n_draws=6, random_state=3).fit(X)
    assert features.seed_ == 3
    F = features.transform(X)
    kernel = OrbitMean(Noise(), Gaussian(2.0), n_draws=6, random_state=3)
    np.testing.assert_allclose(F @ F.T, kernel.matrix(X, X), atol=0.03)
    # A row has the same members whatever block it is in.
    np.testing.assert_allclose(features.transform(X[4:5]), F[4:5], atol=1e-12)


def test_distribution_features_are_fractions_below_thresholds():
    X, oracle = rows(30), Reorderings(ORDERS)
    features = GroupCDF(oracle, 14, n_bins=4).fit(X)
    assert features.thresholds_.shape == (4, 4)
    F, law = features.transform(X), averaged(oracle, D)
    answers = law.on(X).members() @ features.templates_.T
    below = answers[:, :, :, None] <= features.thresholds_
    expected = np.einsum("k,nkpb->npb", law.weights, below).reshape(30, -1)[:, :14]
    np.testing.assert_allclose(F, expected, atol=1e-12)
    shares = np.mean(F[:, :12].reshape(30, 3, 4), axis=0)
    np.testing.assert_allclose(shares, np.tile([0.2, 0.4, 0.6, 0.8], (3, 1)), atol=0.05)


def test_thresholds_are_quantiles_by_weight():
    X = rows(300)
    features = GroupCDF(Weighted(Shrinkings(), [8.0, 1.0, 1.0]), 12, n_bins=4).fit(X)
    shares = features.transform(X).mean(axis=0).reshape(3, 4)
    np.testing.assert_allclose(shares, np.tile([0.2, 0.4, 0.6, 0.8], (3, 1)), atol=0.01)


def test_distribution_features_are_invariant_for_groups():
    orders = [np.roll(np.arange(D), k) for k in range(D)]
    X = rows(20)
    features = GroupCDF(Reorderings(orders), 60, n_bins=6).fit(X)
    np.testing.assert_allclose(
        features.transform(np.roll(X, 2, axis=1)), features.transform(X), atol=1e-9
    )


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


@pytest.mark.parametrize("estimator", [ALL[0], ALL[2]], ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
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


def test_nystroem_requires_dense_rows():
    with pytest.raises(TypeError, match="[Ss]parse"):
        OrbitNystroem(n_components=3).fit(sp.csr_matrix(rows()))


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
