"""Tangents of near rows."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from structinv.oracles import LocalTangents, local_tangents
from structinv.oracles.local_tangents import _nearest

RNG = np.random.default_rng(0)
REFERENCE = RNG.standard_normal((40, 3)) @ RNG.standard_normal((3, 6))


@settings(max_examples=40)
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
    found = _nearest(rows, reference, size)
    distances = ((rows[:, None] - reference[None]) ** 2).sum(axis=2)
    np.testing.assert_array_equal(found, np.argsort(distances, axis=1, kind="stable")[:, :size])


def test_rounding_excludes_no_neighbor_at_an_equal_distance():
    for seed in range(50):
        rng = np.random.default_rng(seed)
        # In few dimensions, many distances of whole numbers are equal.
        X, reference = (rng.integers(0, 3, (count, 3)).astype(float) for count in (5, 25))
        squares = ((X[:, None] - reference[None]) ** 2).sum(axis=2)
        wanted = np.argsort(squares, axis=1, kind="stable")[:, :6]
        np.testing.assert_array_equal(_nearest(X, reference, 6), wanted)


def test_directions_do_not_depend_on_the_blocks_of_rows(monkeypatch):
    X = np.random.default_rng(1).standard_normal((30, REFERENCE.shape[1]))
    oracle = LocalTangents(REFERENCE, n_directions=2, n_neighbors=6)
    single = np.concatenate([oracle.tangents(x[None]) for x in X])
    monkeypatch.setattr(local_tangents, "_ROWS_AT_ONCE", 7)
    # Some rows at a time, then some pairs at a time.
    for size in (4 * len(REFERENCE), 5 * REFERENCE.shape[1]):
        monkeypatch.setattr(local_tangents, "_DISTANCES", size)
        directions = oracle.tangents(X)
        # The signs of tangents are arbitrary.
        for found, wanted in zip(directions, single, strict=True):
            np.testing.assert_allclose(found.T @ found, wanted.T @ wanted, atol=1e-10)


def test_ties_of_distances_go_to_the_first_samples():
    X = np.random.default_rng(1).standard_normal((60, 6))
    oracle = LocalTangents(REFERENCE, n_directions=2, n_neighbors=6)
    # Twins of reference rows, as resampling makes them.
    twice = LocalTangents(np.vstack([REFERENCE, REFERENCE]), n_directions=2, n_neighbors=12)
    np.testing.assert_allclose(
        np.linalg.norm(twice.tangents(X), axis=2) * np.sqrt(11 / 10),
        np.linalg.norm(oracle.tangents(X), axis=2),
    )
