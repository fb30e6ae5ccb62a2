"""Unions."""

import numpy as np

from structinv.oracles import Box, FDrop, FScale, Identity
from structinv.utils.matrices import ALL_ROWS

from .cases import D, rows


def test_a_union_contains_the_members_of_each_of_its_parts():
    X, _ = rows()
    parts = [FScale(1, 1.0, 3.0), Box(0.1), FDrop(D)]
    bound = (parts[0] | parts[1] | parts[2]).bind(X)
    V, assign = -np.ones((1, D)), np.zeros(len(X), dtype=int)
    for part in parts:
        points = part.support(X, V, assign).points
        alone = part.bind(X)
        for row, z in enumerate(points):
            assert alone.contains(row, z)
            assert bound.contains(row, z)
            assert not bound.contains(row, z + 10.0)


def test_random_parts_of_a_union_are_independent_between_rows():
    n_draws = 2000
    bound = (Identity() | Box(1.0)).bind(np.zeros((2, D)))
    first = np.all(bound.sample(ALL_ROWS, n_draws, np.random.default_rng(0)) == 0, axis=2)
    noise = 4.0 * np.sqrt(0.25 / n_draws)
    np.testing.assert_allclose(first.mean(axis=1), 0.5, atol=noise)
    np.testing.assert_allclose(np.mean(first[0] & first[1]), 0.25, atol=noise)
