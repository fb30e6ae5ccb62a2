"""Members by a function of the rows."""

import numpy as np

from structinv.oracles import Sampled
from structinv.utils.matrices import ALL_ROWS

from .cases import D, rows


def test_stored_members_are_compared_with_their_grades():
    X, rho = rows()[0], [1.0, 0.2, 0.7]
    oracle = Sampled(lambda X: np.stack([2.0 * X, X**2], axis=1))
    V, assign = np.random.default_rng(0).standard_normal((2, D)), np.arange(len(X)) % 2
    cost = np.linspace(0.0, 3.0, len(X))
    found = oracle.bind(X).support(ALL_ROWS, V, assign, cost, rho)
    values = np.einsum("isj,ij->is", oracle.orbit(X), V[assign]) + cost[:, None] * rho
    reached = np.einsum("ij,ij->i", found.points, V[assign]) + cost * found.rho
    np.testing.assert_allclose(reached, values.max(axis=1))


def test_members_of_other_rows_are_listed_anew():
    X, others = rows()[0], rows(1)[0]
    oracle = Sampled(lambda X: np.stack([2.0 * X, X**2], axis=1))
    listed = oracle.bind(X).changes()
    np.testing.assert_array_equal(listed.members(), oracle.orbit(X))
    np.testing.assert_array_equal(listed.on(others).members(), oracle.orbit(others))
    np.testing.assert_array_equal(listed.on(others[:2]).members(), oracle.orbit(others[:2]))
