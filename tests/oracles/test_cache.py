"""Caches of image oracles: one computation per bind, and comparison of parameters."""

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest
from sklearn.base import clone

from structinv import InvariantLinearSVC, InvariantSVC
from structinv.oracles import Box, Flip, Rotations, Shifts, Weighted
from structinv.oracles.cache import MOST_VALUES, parameters_of
from structinv.oracles.images import image_base
from structinv.oracles.third_party import bind

RNG = np.random.default_rng(0)
X = RNG.random((6, 16))
V = RNG.standard_normal((2, 16))
Y = np.array([0, 1, 0, 1, 0, 1])
ANGLES = (-30.0, 10.0, 45.0)
ORACLES = {
    "alone": (Rotations(ANGLES), 1),
    "discounted": (Rotations(ANGLES).discounted(0.5), 1),
    "for a label": (Rotations(ANGLES).only_for(1), 1),
    "union": (Rotations(ANGLES) | Shifts(1), 2),
    "union of three": (Rotations(ANGLES) | Shifts(1) | Rotations((5.0,), fill="wrap"), 3),
    "after each other": (Rotations(ANGLES) @ Shifts(1), 2),
    "with a box": (Rotations(ANGLES) @ Box(0.1), 1),
    "between": (Rotations(interval=(-20, 20)), 1),
}
FITS = {
    "linear": lambda oracle: InvariantLinearSVC(oracle, random_state=0),
    "kernel": lambda oracle: InvariantSVC(oracle, random_state=0),
    "kernel without room": lambda oracle: InvariantSVC(oracle, random_state=0, cache_mb=1e-3),
}


@pytest.fixture
def made(monkeypatch):
    """List of the computed maps."""
    maps = []

    def image_maps(*args):
        maps.append(weakref.ref(found := original(*args)))
        return found

    original = image_base.image_maps
    monkeypatch.setattr(image_base, "image_maps", image_maps)
    return maps


@pytest.mark.parametrize("name", ORACLES)
def test_maps_are_computed_once_per_bind(name, made):
    oracle, n_parts = ORACLES[name]
    bound, assign = bind(oracle, X, Y), np.arange(len(X)) % 2
    some, last = slice(0, 1), np.array([1])
    rng = np.random.default_rng(1)
    for _ in range(3):
        V = rng.standard_normal((2, 16))
        bound.support(slice(None), V, assign, np.zeros(len(X)) if oracle.graded else None)
        if name != "with a box":
            bound.changes().members(some)
            bound.changes().points(some, last)
            bound.changes().scores(some, V)
            bound.changes().mesh()
            bound.changes().refine(some, last, lambda z: z.sum(axis=1))
    assert len(made) == n_parts


@pytest.fixture
def few_objects():
    """What was there before the test is not looked at by the garbage collection, which is fast then."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("few_objects")
@pytest.mark.parametrize("name", FITS)
def test_a_fit_computes_maps_once_and_the_model_frees_them(name, made, monkeypatch):
    looks = []
    original = image_base.listed
    monkeypatch.setattr(image_base, "listed", lambda *args: looks.append(1) or original(*args))
    oracle = Rotations(ANGLES)
    model = FITS[name](oracle).fit(X, Y)
    assert model.n_iter_ > 2
    assert len(made) == 1
    # Before the fit, for its border, when it is bound, for the list and its table: however many
    # questions there are.
    assert len(looks) <= 6
    assert vars(oracle) == vars(Rotations(ANGLES))
    # Planes of a linear model know the members that they are of, and make them when they are wanted.
    del model
    gc.collect()
    assert made[0]() is None


def test_parameters_set_after_a_bind_apply_to_later_binds():
    oracle = Rotations(ANGLES)
    bound = bind(oracle, X)
    before = bound.changes().members(slice(None))
    oracle.set_params(degrees=(90.0,))
    np.testing.assert_array_equal(bound.changes().members(slice(None)), before)
    np.testing.assert_array_equal(
        bind(oracle, X).changes().members(slice(None)), Rotations(90.0).orbit(X)
    )


@pytest.mark.parametrize("another", [clone, copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))])
def test_copies_of_a_prepared_oracle_have_an_empty_cache(another, made):
    prepared = Rotations(ANGLES)._prepared()
    assert prepared._prepared() is prepared
    orbit = prepared.orbit(X)
    new = another(prepared)
    np.testing.assert_array_equal(new.orbit(X), orbit)
    assert len(made) == 2
    assert len(pickle.dumps(prepared)) < len(pickle.dumps(Rotations(ANGLES))) + 200


# Each of them is equal to none of the others, though some hold the same bytes, or compare equal.
DIFFERENT = [
    lambda: np.zeros(2),
    lambda: np.zeros(2, dtype=np.int64),
    lambda: np.zeros((1, 2)),
    lambda: np.zeros((2, 1)),
    lambda: np.array([0.0, 0.0], dtype=object),
    lambda: [0.0, 0.0],
    lambda: (0.0, 0.0),
    lambda: (0, 0),
    lambda: (False, False),
    lambda: {0.0: 0.0},
    lambda: {0.0},
    lambda: frozenset({0.0}),
    lambda: "00",
    lambda: b"00",
    lambda: None,
    lambda: [Flip],
]


def test_values_are_compared_with_their_type_and_shape():
    for number, make in enumerate(DIFFERENT):
        for other, another in enumerate(DIFFERENT):
            assert (parameters_of(make()) == parameters_of(another())) == (number == other)


@pytest.mark.parametrize("changes", [{"oracle__degrees": (90, 270)}, {"weights": [1, 3]}])
def test_parameters_are_compared_recursively(changes):
    oracle = Weighted(Rotations([90, 180]), np.array([1, 2, 3]))
    before = parameters_of(oracle)
    oracle.weights[2] = 3
    assert parameters_of(oracle) == before
    assert parameters_of(oracle.set_params(**changes)) != before
    oracle = Weighted(Flip(), np.array([1, 2]))
    before = parameters_of(oracle)
    oracle.weights[1] = 3
    assert parameters_of(oracle) != before


def test_long_arrays_are_compared_by_identity():
    long = np.zeros(MOST_VALUES + 1)
    assert parameters_of(long) == parameters_of(long)
    assert parameters_of(long) != parameters_of(long.copy())
    assert parameters_of(long[:-1]) == parameters_of(long[:-1].copy())
