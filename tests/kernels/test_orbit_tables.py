"""Tables of means over changes: threads, memory, and diagonals that are kept."""

import threading

import numpy as np
import pytest
from sklearn.base import clone

from structinv.kernels import (
    CallableKernel,
    Gaussian,
    Laplacian,
    Matern,
    OrbitDistance,
    OrbitMean,
    Polynomial,
    orbit_tables,
    orbits,
)
from structinv.oracles import Permutations, Rotations
from structinv.oracles.images.image_base import MovedImages
from structinv.utils import matrices
from structinv.utils.resources import controller

from ..covering import slow_unless

TURNS = Rotations((-30, 20, 50))
QUARTERS = Rotations((90, 180, 270))


class Wider(Gaussian):
    """Other values than its parent's, and no word on threads."""

    def matrix(self, X, Y, norms=None):
        return super().matrix(0.5 * X, 0.5 * Y)


class Inner(Gaussian):
    """Another class with the values of its parent."""


KERNELS = {
    "gaussian": Gaussian(2.0),
    "laplacian": Laplacian(0.1),
    "rough": Matern(2.0, 0.5),
    "sum": 2.0 * Matern(nu=2.5) + Polynomial(2),
    "product": Laplacian(0.1) * Gaussian(),
    "inner": Inner(),
    "wider": Wider(),
    "own": Gaussian() + CallableKernel(lambda X, Y: X @ Y.T),
}
SHARED = {"gaussian", "laplacian", "rough", "sum", "product", "inner"}


@pytest.fixture
def rows():
    return np.random.default_rng(0).standard_normal((90, 64))


@pytest.fixture
def threads(monkeypatch):
    """Work for so many threads, however little there is."""

    def allow(number):
        monkeypatch.setattr(matrices, "allowed_threads", lambda: number)
        monkeypatch.setattr(matrices, "VALUES_A_THREAD", 1)

    monkeypatch.setattr(orbit_tables, "LEFT", 60)
    monkeypatch.setattr(orbit_tables, "RIGHT", 40)
    return allow


# Pairs of members and members of one side, in turns.
@pytest.mark.parametrize(
    ("name", "oracle"),
    slow_unless(
        lambda name, oracle: (sorted(SHARED).index(name) + (oracle is TURNS)) % 2,
        [(name, oracle) for name in sorted(SHARED) for oracle in (TURNS, QUARTERS)],
    ),
)
def test_the_number_of_threads_does_not_matter(name, oracle, rows, threads):
    X, mean = rows, OrbitMean(oracle, KERNELS[name])
    found = []
    for number in (1, 3):
        threads(number)
        found.append((mean.matrix(X, X), mean.matrix(X, X[:50].copy()), clone(mean).diagonal(X)))
        np.testing.assert_array_equal(found[-1][0], found[-1][0].T)
    for tables in found[1:]:
        for one, other in zip(found[0], tables, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", KERNELS)
def test_only_kernels_that_allow_it_are_asked_by_several_threads(name, rows, threads, monkeypatch):
    askers, kernel = set(), KERNELS[name]
    owner = next(kind for kind in type(kernel).__mro__ if "matrix" in vars(kind))
    matrix, calling = owner.matrix, threading.get_ident()

    def noted(self, *question):
        askers.add(threading.get_ident())
        return matrix(self, *question)

    wanted = OrbitMean(TURNS, kernel).matrix(rows, rows)
    monkeypatch.setattr(owner, "matrix", noted)
    threads(3)
    np.testing.assert_allclose(OrbitMean(TURNS, kernel).matrix(rows, rows), wanted, rtol=1e-10)
    assert (kernel).thread_safe == (name in SHARED)
    # Threads of a pool may take several portions, but the caller has none of them.
    assert (askers == {calling}) == (name not in SHARED)


def test_blas_has_its_threads_back(rows, threads):
    blas = [pool for pool in controller().lib_controllers if pool.user_api == "blas"]
    before = [pool.num_threads for pool in blas]
    with matrices.one_blas_thread():
        with matrices.one_blas_thread():
            assert all(pool.num_threads == 1 for pool in blas)
        assert all(pool.num_threads == 1 for pool in blas)
    assert [pool.num_threads for pool in blas] == before

    # Contexts that overlap, the first of which ends first.
    first, second = matrices.one_blas_thread(), matrices.one_blas_thread()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert all(pool.num_threads == 1 for pool in blas)
    second.__exit__(None, None, None)
    assert [pool.num_threads for pool in blas] == before


@pytest.mark.parametrize("oracle", [TURNS, QUARTERS], ids=["pairs", "one side"])
def test_memory_is_bounded(oracle, rows, monkeypatch):
    """Members of a side, and values of the kernel, are never more than the module says."""
    limits = {"MEMBERS": 2560, "LEFT": 60, "RIGHT": 40, "WITHIN": 100}
    wanted = OrbitMean(oracle, Gaussian(2.0)).matrix(rows, rows[:70])
    for name, size in limits.items():
        monkeypatch.setattr(orbit_tables, name, size)
    asked, matrix = [], Gaussian.matrix

    def counted(self, X, Y, norms=None):
        asked.append((X.base.size if X.base is not None else X.size, len(X), len(Y)))
        return matrix(self, X, Y, norms)

    monkeypatch.setattr(Gaussian, "matrix", counted)
    mean = OrbitMean(oracle, Gaussian(2.0))
    np.testing.assert_allclose(mean.matrix(rows, rows[:70]), wanted, rtol=1e-10)
    members, lefts, rights = map(max, zip(*asked, strict=True))
    assert members <= max(limits["MEMBERS"], rows.size)
    assert lefts <= limits["LEFT"]
    assert rights <= limits["RIGHT"]


def test_members_that_fit_are_made_once(rows, monkeypatch):
    made, members = [], MovedImages.members

    def counted(self, *chosen):
        made.append(len(self.X))
        return members(self, *chosen)

    monkeypatch.setattr(MovedImages, "members", counted)
    for name, size in (("LEFT", 16), ("RIGHT", 12)):
        monkeypatch.setattr(orbit_tables, name, size)
    mean = OrbitMean(TURNS, Gaussian(2.0))
    mean.matrix(rows, rows)
    assert sum(made) == len(rows)
    made.clear()
    mean.matrix(rows, rows[:40].copy())
    assert sum(made) == len(rows) + 40


def test_diagonals_are_kept_and_not_stale(rows, monkeypatch):
    made, diagonal = [], orbits.mean_diagonal

    def counted(kernel, X, *sides):
        made.append(len(X))
        return diagonal(kernel, X, *sides)

    monkeypatch.setattr(orbits, "mean_diagonal", counted)
    kernel, centers = OrbitDistance(TURNS, Gaussian(2.0), tau=0.5), rows[:20].copy()
    for first in range(20, 90, 10):
        kernel.matrix(rows[first : first + 10], centers)
    assert made == [10, 20] + 6 * [10]
    centers[3] += 1.0
    found = kernel.matrix(rows, centers)
    np.testing.assert_array_equal(found, clone(kernel).matrix(rows, centers))
    for name, value in (("kernel__sigma", 1.0), ("oracle__degrees", [10, 20]), ("kernel", Laplacian())):
        kernel.set_params(**{name: value})
        np.testing.assert_array_equal(kernel.matrix(rows, centers), clone(kernel).matrix(rows, centers))
    # The caller's own array: what he does to it has no effect.
    mean = OrbitMean(TURNS, Gaussian(2.0))
    mean.diagonal(rows)[:] = 0
    assert mean.diagonal(rows).min() > 0


class Twice(Laplacian):
    """Other values than its parent's, and no word on features."""

    def matrix(self, X, Y, norms=None):
        return super().matrix(X * np.arange(1, X.shape[1] + 1), Y * np.arange(1, Y.shape[1] + 1))


@pytest.mark.parametrize("other", ["itself", "symmetric", "any"])
def test_equal_features_are_merged(other, monkeypatch):
    """Symmetric matrices have their entries twice, and stay symmetric where both axes are reordered."""
    monkeypatch.setattr(orbit_tables, "MEMBERS", 700)
    rng = np.random.default_rng(0)
    widths = []

    def matrices_of(n, symmetric):
        A = rng.standard_normal((n, 5, 5))
        return ((A + A.transpose(0, 2, 1)) if symmetric else A).reshape(n, 25)

    X = matrices_of(20, True)
    Y = X if other == "itself" else matrices_of(9, other == "symmetric")
    oracle = Permutations((5, 5), axes="both", noise=1.0)
    found = OrbitMean(oracle, Laplacian(0.1), 4).matrix(X, Y)

    def fill(kernel, left, *rest):
        widths.append(left[0].shape[1])
        return fill_before(kernel, left, *rest)

    fill_before = orbit_tables._fill
    monkeypatch.setattr(orbit_tables, "_fill", fill)
    OrbitMean(oracle, Laplacian(0.1), 4).matrix(X, Y)
    assert set(widths) == ({25} if other == "any" else {16})
    members = [OrbitMean(oracle, Laplacian(0.1), 4).changes(25).on(Z).members() for Z in (X, Y)]
    distances = np.abs(members[0][:, None, :, None] - members[1][None, :, None]).sum(axis=4)
    np.testing.assert_allclose(found, np.exp(-0.1 * distances).mean(axis=(2, 3)), rtol=1e-12)


def test_kernels_of_others_do_not_add_features():
    assert Laplacian().adds_features
    assert not Twice().adds_features
    assert not Gaussian().adds_features
