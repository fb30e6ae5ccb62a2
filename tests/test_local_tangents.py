"""`LocalTangents`: neighbors against brute force, trained models, errors."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structinv import InvariantLinearSVC
from structinv.oracles import LocalTangents
from structinv.oracles.local_tangents import _find_nearest

RNG = np.random.default_rng(0)
REFERENCE = RNG.standard_normal((40, 3)) @ RNG.standard_normal((3, 6))


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**16),
    n=st.integers(1, 5),
    m=st.integers(2, 30),
    d=st.integers(1, 130),
    offset=st.sampled_from([0.0, 1e3, 1e8]),
)
def test_neighbors_match_brute_force(seed, n, m, d, offset):
    rng = np.random.default_rng(seed)
    # Whole numbers, so that there are equal distances, without rounding.
    rows, reference = (offset + rng.integers(0, 3, (count, d)) for count in (n, m))
    size = int(rng.integers(1, m + 1))
    found = np.empty((n, size), dtype=np.intp)
    _find_nearest(rows, reference, found)
    distances = ((rows[:, None] - reference[None]) ** 2).sum(axis=2)
    np.testing.assert_array_equal(found, np.argsort(distances, axis=1, kind="stable")[:, :size])


def test_tangents_are_principal_directions_times_standard_deviations():
    X = RNG.standard_normal((5, 6))
    oracle = LocalTangents(REFERENCE, n_directions=3, n_neighbors=8, radius=9.0)
    for x, tangents in zip(X, oracle.tangents(X), strict=True):
        near = REFERENCE[np.argsort(((REFERENCE - x) ** 2).sum(axis=1))[:8]]
        values, vectors = np.linalg.eigh(np.cov(near.T))
        np.testing.assert_allclose(
            tangents.T @ tangents, (vectors[:, 3:] * values[3:]) @ vectors[:, 3:].T, atol=1e-12
        )


def test_ties_of_distances_go_to_the_first_samples():
    X = RNG.standard_normal((60, 6))
    oracle = LocalTangents(REFERENCE, n_directions=2, n_neighbors=6)
    # Twins of reference rows, as resampling makes them.
    twice = LocalTangents(np.vstack([REFERENCE, REFERENCE]), n_directions=2, n_neighbors=12)
    np.testing.assert_allclose(
        np.linalg.norm(twice.tangents(X), axis=2) * np.sqrt(11 / 10),
        np.linalg.norm(oracle.tangents(X), axis=2),
    )


def rings(n=80, seed=0):
    """Two arcs of different radius in many dimensions, with noise across."""
    rng = np.random.default_rng(seed)
    y, angles = np.arange(n) % 2, rng.uniform(0.0, np.pi, n)
    X = 0.02 * rng.standard_normal((n, 4))
    X[:, 0] += (1.0 + 0.4 * y) * np.cos(angles)
    X[:, 1] += (1.0 + 0.4 * y) * np.sin(angles)
    return X, y


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_models_train_with_local_tangents_and_certify(dtype):
    X, y = rings()
    X = X.astype(dtype)
    oracle = LocalTangents(X, n_directions=1, n_neighbors=6, radius=0.5)
    model = InvariantLinearSVC(oracle, C=1.0, random_state=0).fit(X, y)
    assert model.solution_.relative_gap <= model.tol
    certificate = model.certify(X, y)
    assert np.all(certificate.exact)
    attacked = model.score(model.worst_case(X, y), y)
    assert certificate.accuracy <= attacked < model.score(X, y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(model.predict(X), again.predict(X))


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"n_directions": 0}, ValueError, "n_directions must be at least 1 and at most 6"),
        ({"n_neighbors": 4, "n_directions": 4}, ValueError, "n_directions must be .* at most 3"),
        ({"n_directions": True}, TypeError, "n_directions must be an integer"),
        ({"n_neighbors": 1}, ValueError, "n_neighbors must be at least 2 and at most 40"),
        ({"n_neighbors": 41}, ValueError, "at most 40, the number of reference rows"),
        ({"n_neighbors": 4.0}, TypeError, "n_neighbors must be an integer"),
        ({"radius": -1.0}, ValueError, "radius must be at least 0"),
        ({"radius": [1.0, 2.0]}, ValueError, "radius must be one number"),
        ({"reference": REFERENCE[:, :5]}, ValueError, r"reference must have shape \(n_reference, 6\)"),
        ({"reference": np.full((40, 6), np.nan)}, ValueError, "reference must be finite"),
        ({"reference": "rows"}, TypeError, "reference must be"),
    ],
)
def test_invalid_arguments_raise_with_their_name(parameters, error, message):
    oracle = LocalTangents(REFERENCE).set_params(**parameters)
    X, V = REFERENCE[:4], np.ones((1, 6))
    for ask in (
        lambda: oracle.validate(6),
        lambda: oracle.support(X, V, np.zeros(4, int)),
        lambda: oracle.tangents(X),
        lambda: InvariantLinearSVC(oracle).fit(X, [0, 1, 0, 1]),
    ):
        with pytest.raises(error, match=message):
            ask()
