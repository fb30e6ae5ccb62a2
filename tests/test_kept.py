"""Comparison of parameters for the caches of oracles."""

import numpy as np
import pytest

from structinv.oracles import Flip, Rotations, Weighted
from structinv.oracles.cache import MOST_VALUES, parameters_of

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
