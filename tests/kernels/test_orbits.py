"""Means of kernels over changes, against sums over all pairs of members."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import pairwise_kernels

from structinv.kernels import (
    Gaussian,
    Laplacian,
    Matern,
    OrbitDistance,
    OrbitMean,
    Polynomial,
    orbit_tables,
    orbits,
)
from structinv.oracles import Box, FDrop, FiniteOracle, Flip, Identity, Rotations, Shifts
from structinv.oracles.changes import Changes, LinearChanges
from structinv.oracles.listed_changes import averaged

ORACLES = {
    "mirror": (Flip(), None),
    "wrapped shifts": (Shifts(1, fill="wrap"), None),
    "cut shifts": (Shifts(1), None),
    "quarter turns": (Rotations((90, 180, 270)), None),
    "weighted turns": (Rotations([-20, 20], spread=15), None),
    "drawn turns": (Rotations(interval=(-30, 30)), 5),
    "union": (Shifts(1) | Rotations((90, 180, 270)), None),
    "turns of turns": (Rotations((90, 180, 270)) @ Rotations([30, 60]), None),
    "square": (Flip() @ Rotations((90, 180, 270)), None),
    "words": (FDrop(2), 3),
    "nothing": (Identity(), None),
}
ONE_SIDED = {"mirror", "wrapped shifts", "quarter turns", "square", "nothing"}
KERNELS = {
    "gaussian": Gaussian(2.0),
    "laplacian": Laplacian(0.1),
    "sum": 2.0 * Matern() + Polynomial(2),
    "product": Laplacian(0.1) * Gaussian(),
}


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    return rng.standard_normal((9, 16)), rng.standard_normal((7, 16))


@pytest.fixture
def small_blocks(monkeypatch):
    """Several blocks on both sides."""
    for name, size in (
        ("MEMBERS", 800),
        ("LEFT", 20),
        ("RIGHT", 12),
        ("LEFT_ALONE", 20),
        ("WITHIN", 50),
    ):
        monkeypatch.setattr(orbit_tables, name, size)


def over_pairs(oracle, kernel, size, X, Y):
    law = averaged(oracle, X.shape[1], size)
    left, right = law.on(X).members(), law.on(Y).members()
    return np.array([[law.weights @ kernel.matrix(a, b) @ law.weights for b in right] for a in left])


# Each oracle with two of the kernels, in turns.
@pytest.mark.parametrize(
    ("name", "kernel"),
    [(name, list(KERNELS)[(2 * i + j) % 4]) for i, name in enumerate(ORACLES) for j in (0, 1)],
)
def test_orbit_mean_is_the_average_over_all_pairs(name, kernel, rows, small_blocks):
    (X, Y), kernel = rows, KERNELS[kernel]
    oracle, size = ORACLES[name]
    mean = OrbitMean(oracle, kernel, size)
    mean.validate(16)
    wanted, square = (over_pairs(oracle, kernel, size, X, Z) for Z in (Y, X))
    scale = np.abs(square).max()
    np.testing.assert_allclose(mean.matrix(X, Y), wanted, rtol=1e-10, atol=1e-12 * scale)
    np.testing.assert_allclose(mean.matrix(Y, X), wanted.T, rtol=1e-10, atol=1e-12 * scale)
    np.testing.assert_allclose(mean.matrix(X, X), square, rtol=1e-10, atol=1e-12 * scale)
    np.testing.assert_allclose(mean.matrix(X, X.copy()), square, rtol=1e-10, atol=1e-12 * scale)
    np.testing.assert_allclose(mean.diagonal(X), np.diag(square), rtol=1e-10, atol=1e-12 * scale)
    single = mean.matrix(X.astype(np.float32), Y.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, wanted, atol=1e-5 * scale)
    left, right = mean.sides(16)
    assert (left is None) == (name in ONE_SIDED)
    if name == "turns of turns":
        assert (left.size, right.size) == (3, 12)


def test_groups_give_invariant_kernels(rows):
    X, Y = rows
    mean = OrbitMean(Flip() @ Rotations((90, 180, 270)), Gaussian(2.0))
    turned = np.stack([np.rot90(x.reshape(4, 4)).ravel() for x in X])
    np.testing.assert_allclose(mean.matrix(turned, Y), mean.matrix(X, Y), rtol=1e-12)


class Turns(FiniteOracle):
    """Turns of the plane by eighths of a whole one: isometries, most of which reorder nothing."""

    def maps(self):
        angles = np.pi / 4 * np.arange(8)
        return np.moveaxis(
            np.array([[np.cos(angles), -np.sin(angles)], [np.sin(angles), np.cos(angles)]]), 2, 0
        )

    def orbit(self, X):
        return np.einsum("sij,nj->nsi", self.maps(), X)

    def changes(self, X, y=None):
        return LinearChanges(X, [sp.csr_matrix(each) for each in self.maps()])


@pytest.mark.parametrize(
    ("kernel", "one_sided"), [(Gaussian(), True), (Laplacian(), False)], ids=["gaussian", "laplacian"]
)
def test_isometries_transform_one_side_of_symmetric_kernels(kernel, one_sided, rows):
    X, Y = (part[:, :2] for part in rows)
    mean = OrbitMean(Turns(), kernel)
    assert (mean.sides(2)[0] is None) == one_sided
    np.testing.assert_allclose(mean.matrix(X, Y), over_pairs(Turns(), kernel, None, X, Y), rtol=1e-10)


@pytest.mark.parametrize(
    "changes",
    [
        {"oracle__left__interval": (-5, 5)},
        {"oracle__left": Rotations(interval=(-90, 5))},
        {"oracle__right__pixels": 2},
        {"oracle": Rotations(interval=(-5, 5))},
        {"n_draws": 5},
        {"random_state": 1},
        {"kernel": Laplacian(0.1)},
        {"kernel__sigma": 3.0},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_parameters_that_change_in_place_count(changes, rows):
    X, Y = rows

    def made():
        return OrbitMean(Rotations(interval=(-30, 30)) @ Shifts(1), Gaussian(2.0), n_draws=4)

    mean = made()
    before = mean.matrix(X, Y)
    mean.set_params(**changes)
    wanted = made().set_params(**changes).matrix(X, Y)
    np.testing.assert_array_equal(mean.matrix(X, Y), wanted)
    assert not np.allclose(wanted, before)


class Moved(FiniteOracle):
    """The row, and the row plus steps, an array or list of numbers or functions."""

    def __init__(self, steps):
        self.steps = steps

    def orbit(self, X):
        steps = [step(X) if callable(step) else step for step in self.steps]
        return np.stack([X] + [X + step for step in steps], axis=1)


def test_nested_parameters_that_change_in_place_count(rows):
    X, Y = rows
    for make in (list, np.array):
        steps = make([1.0, 2.0])
        oracle = Moved(steps) | Flip()
        mean = OrbitDistance(oracle, Gaussian(2.0))
        mean.matrix(X, Y)
        steps[1] = -0.5
        fresh = OrbitDistance(Moved([1.0, -0.5]) | Flip(), Gaussian(2.0))
        np.testing.assert_array_equal(mean.matrix(X, Y), fresh.matrix(X, Y))
        mean.set_params(oracle=Moved((lambda x: x, np.sin)))
        fresh.set_params(oracle=Moved([np.copy, np.sin]))
        np.testing.assert_array_equal(mean.matrix(X, Y), fresh.matrix(X, Y))


def test_transformations_are_cached_between_calls(rows, monkeypatch):
    made = []

    def counted(*arguments):
        made.append(arguments)
        return averaged(*arguments)

    monkeypatch.setattr(orbits, "averaged", counted)
    X, Y = rows
    # More numbers than are looked through.
    steps = np.random.default_rng(0).standard_normal((100, 16))
    mean = OrbitMean(Moved(steps) | Rotations((90,), order=0), Gaussian(2.0))
    for _ in range(3):
        mean.matrix(X, Y)
    mean.diagonal(X)
    assert len(made) == 1
    mean.set_params(oracle=Moved(steps.copy()))
    mean.matrix(X, Y)
    assert len(made) == 2


@pytest.mark.parametrize("first", [Gaussian(2.0), Laplacian(0.1), Matern() * Laplacian()])
def test_transformed_sides_depend_on_the_kernel(first, rows):
    X, Y = rows
    oracle = Rotations((90, 180, 270)) | Shifts(1, fill="wrap")
    group = Mirror()
    for changes in (oracle, group):
        mean = OrbitMean(changes, first)
        mean.matrix(X, Y)
        for second in (Laplacian(0.3), Gaussian(), Skewed(), Laplacian(0.3), Skewed(), Gaussian()):
            mean.kernel = second
            wanted = over_pairs(changes, second, None, X, Y)
            np.testing.assert_allclose(mean.matrix(X, Y), wanted, rtol=1e-10)


class Mirror(FiniteOracle):
    """Reflects the first two features: keeps inner products, and reorders nothing."""

    def orbit(self, X):
        return self.changes(X).members()

    def changes(self, X, y=None):
        mirror = np.eye(X.shape[1])
        mirror[:2, :2] = [[0.6, 0.8], [0.8, -0.6]]
        return LinearChanges(X, [sp.identity(X.shape[1], format="csr"), sp.csr_matrix(mirror)])


class Skewed(Gaussian):
    """A Gaussian of features of other sizes: its values are not its parent's."""

    def matrix(self, X, Y, norms=None):
        sizes = np.arange(1.0, X.shape[1] + 1.0) / X.shape[1]
        return super().matrix(X * sizes, Y * sizes)


@pytest.mark.parametrize("place", ["law", "sides"])
def test_threads_share_a_kernel_for_rows_of_two_lengths(place, monkeypatch):
    """While one thread makes its changes, another asks about rows of another width."""
    rng = np.random.default_rng(0)
    tables = [rng.standard_normal((5, d)) for d in (64, 144)]
    mean = OrbitMean(Rotations((90, 180, 270)), Gaussian(5.0))
    wanted = [clone(mean).matrix(X, X) for X in tables]
    held, go_on, sides = Event(), Event(), Changes.sides

    def hold_the_first():
        if not held.is_set():
            held.set()
            assert go_on.wait(timeout=20)

    def held_law(*arguments):
        found = averaged(*arguments)
        hold_the_first()
        return found

    def held_sides(law, **options):
        found = sides(law, **options)
        hold_the_first()
        return found

    if place == "law":
        monkeypatch.setattr(orbits, "averaged", held_law)
    else:
        monkeypatch.setattr(Changes, "sides", held_sides)
    with ThreadPoolExecutor(1) as thread:
        first = thread.submit(mean.matrix, tables[0], tables[0])
        assert held.wait(timeout=20)
        second = mean.matrix(tables[1], tables[1])
        go_on.set()
        np.testing.assert_array_equal(first.result(), wanted[0])
    np.testing.assert_array_equal(second, wanted[1])
    for X, ours in zip(tables, wanted, strict=True):
        np.testing.assert_array_equal(mean.matrix(X, X), ours)


def test_pickled_kernels_have_the_same_transformations(rows):
    X, Y = rows
    mean = OrbitMean(Box(0.5), Gaussian(2.0), n_draws=4)
    wanted = mean.matrix(X, Y)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(mean)).matrix(X, Y), wanted)


@pytest.mark.parametrize("name", ORACLES)
def test_distances_are_those_of_the_embeddings(name, rows, small_blocks):
    X, Y = rows
    oracle, size = ORACLES[name]
    tau = 0.7
    squares = (
        np.diag(over_pairs(oracle, Gaussian(2.0), size, X, X))[:, None]
        + np.diag(over_pairs(oracle, Gaussian(2.0), size, Y, Y))
        - 2.0 * over_pairs(oracle, Gaussian(2.0), size, X, Y)
    )
    kernel = OrbitDistance(oracle, Gaussian(2.0), tau, size)
    kernel.validate(16)
    np.testing.assert_allclose(kernel.matrix(X, Y), np.exp(-0.5 * squares / tau**2), rtol=1e-10)
    np.testing.assert_allclose(np.diag(kernel.matrix(X, X)), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(kernel.diagonal(X), 1.0)


class Wordy(Gaussian):
    symmetry = "translations"


@pytest.mark.parametrize(
    ("kernel", "error", "message"),
    [
        (OrbitMean("flip", Gaussian()), TypeError, "oracle must be an InvarianceOracle"),
        (OrbitMean(Flip(), Wordy()), ValueError, "Wordy.symmetry must be one of .*'translations'"),
        (OrbitMean(Flip(), Gaussian(), n_draws=0), ValueError, "n_draws must be at least 1 and at most"),
        (OrbitMean(Flip(), Gaussian(), random_state=None), TypeError, "random_state must be an int"),
        (OrbitMean(Flip(shape=(2, 9)), Gaussian()), ValueError, "16 features"),
        (OrbitDistance(Flip(), Gaussian(), tau=0.0), ValueError, "tau must be"),
        (OrbitDistance(Flip(), "rbf"), TypeError, "kernel must be a Kernel"),
    ],
)
def test_invalid_orbit_kernels_are_errors(kernel, error, message):
    with pytest.raises(error, match=message):
        kernel.validate(16)


@pytest.mark.parametrize("kernel", [Gaussian(2.0), OrbitMean(Flip(), Gaussian(2.0))], ids=str)
def test_kernels_are_functions_as_scikit_learn_calls_them(kernel, rows):
    X, Y = rows
    table = kernel.matrix(X, Y)
    frames = pd.DataFrame(X), pd.DataFrame(Y)
    for left, right in (frames, (X.tolist(), Y.tolist())):
        np.testing.assert_array_equal(kernel(left, right), table)
    np.testing.assert_array_equal(kernel(X), kernel.matrix(X, X))
    assert kernel(X[0], Y[0]) == pytest.approx(table[0, 0])
    np.testing.assert_allclose(pairwise_kernels(X, Y, metric=kernel), table)
    y = X[:, 0]
    ridge = KernelRidge(kernel=kernel, alpha=0.1).fit(X, y)
    wanted = KernelRidge(kernel="precomputed", alpha=0.1).fit(kernel.matrix(X, X), y)
    np.testing.assert_allclose(ridge.predict(Y), wanted.predict(table.T))


@pytest.mark.parametrize(
    ("X", "Y", "error", "message"),
    [
        (np.zeros((2, 16)), np.zeros((2, 9)), ValueError, "Y must have rows like those of X"),
        (np.zeros((2, 16)), np.zeros(16), ValueError, "Y must have rows like those of X"),
        (np.zeros((2, 16), complex), None, TypeError, "X must (hold|contain) real numbers"),
        (sp.csr_matrix((2, 16)), None, TypeError, "X must be dense"),
    ],
)
def test_invalid_rows_of_orbit_kernels_are_errors(X, Y, error, message):
    with pytest.raises(error, match=message):
        OrbitMean(Flip(), Gaussian())(X, Y)


@pytest.mark.parametrize("name", sorted(set(ORACLES) - {"words"}))
def test_lipschitz_constant_is_an_upper_bound(name, rows):
    oracle, size = ORACLES[name]
    X, far = rows[0], rows[0] + rows[0][::-1]
    inner = Gaussian(1.5)
    for kernel in (OrbitMean(oracle, inner, size), OrbitDistance(oracle, inner, 0.7, size)):
        constant = kernel.lipschitz(16)
        for scale in (1e-4, 0.1, 1.0):
            Y = X + scale * far
            both = [kernel.diagonal(Z)[:, None] for Z in (X, Y)]
            squares = np.diagonal(both[0] + both[1].T - 2 * kernel.matrix(X, Y))
            assert np.all(squares <= constant**2 * np.sum((X - Y) ** 2, axis=1) + 1e-13)


def test_lipschitz_constants_of_means_by_hand():
    assert OrbitMean(Flip(), Gaussian(4.0)).lipschitz(16) == pytest.approx(0.25)
    assert OrbitDistance(Flip(), Gaussian(4.0), 0.5).lipschitz(16) == pytest.approx(0.5)
    # Every pixel has three others and itself as images, or a wall: no norm is above 1.
    assert (2.0 * OrbitMean(Shifts(1), Gaussian(4.0))).lipschitz(16) == pytest.approx(2**0.5 / 4)
    assert OrbitMean(Flip(), Gaussian()).lipschitz() == np.inf
    assert OrbitMean(FDrop(2), Gaussian(), 3).lipschitz(16) == np.inf
    assert OrbitMean(Flip(), Laplacian()).lipschitz(16) == np.inf


def test_lipschitz_constants_follow_parameters_that_change_in_place():
    mean = OrbitMean(Flip(), Gaussian(4.0))
    assert mean.lipschitz(16) == pytest.approx(0.25)
    assert mean.set_params(oracle=FDrop(2), n_draws=3).lipschitz(16) == np.inf


@pytest.mark.parametrize("name", ["weighted turns", "drawn turns", "cut shifts"])
def test_norm_bound_is_an_upper_bound(name):
    oracle, size = ORACLES[name]
    law = averaged(oracle, 16, size)
    norms = [np.linalg.norm(T, 2) for T in law.adjoint(np.eye(16))]
    assert law.weights @ norms <= law.norm_bound(16) <= 1.5 * (law.weights @ norms)


@pytest.mark.parametrize("place", [0, 99])
def test_norm_bounds_include_all_rows_of_maps_with_many_features(place):
    total = np.eye(100)
    total[place] = 1.0
    maps = [sp.identity(100, format="csr"), sp.csr_matrix(total), sp.csr_matrix(total.T)]
    law = LinearChanges(np.zeros((0, 100)), maps)
    norms = [np.linalg.norm(T.toarray(), 2) for T in maps]
    assert np.mean(norms) <= law.norm_bound(100) <= 1.5 * np.mean(norms)
