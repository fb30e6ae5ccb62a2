"""Curves around a row."""

import numpy as np
import pytest

from structinv import InvariantLinearSVC
from structinv.oracles import Ellipsoid, Sampled, TangentDerivative, Trajectory, check_oracle
from structinv.utils.exceptions import CheckError

from .cases import D, bends, row_powers, rows

ENDS = [(-1.0, 1.0), (0.0, 2.0), (-0.3, 0.5)]


def along(X, t, powers):
    return X[:, None] + np.einsum("sk,nkd->nsd", t[:, None] ** np.arange(1, powers.shape[1] + 1), powers)


@pytest.mark.parametrize("ends", [(-1.0, 1.0), (0.0, 2.0), (-0.7, 0.0), (0.0, 0.0)])
def test_support_is_at_least_the_maximum_on_a_dense_grid(ends):
    X, y = rows(3)
    oracle = Trajectory(bends, 5, ends)
    check_oracle(oracle, X, y)
    V, assign = np.random.default_rng(0).standard_normal((3, D)), np.arange(len(X)) % 3
    reached = np.sum(oracle.support(X, V, assign).points * V[assign], axis=1)
    grid = along(X, np.linspace(*ends, 20001), bends(X))
    best = np.einsum("nsd,nd->ns", grid, V[assign]).max(axis=1)
    assert np.all(reached >= best - 1e-12)
    np.testing.assert_allclose(reached, best, rtol=0, atol=1e-5)


def test_the_function_is_called_once_for_all_rows():
    calls = []

    def counted(X):
        calls.append(len(X))
        return row_powers(X)

    X, y = rows()
    bound = Trajectory(counted, 2).bind(X, y)
    none = np.zeros(3, dtype=int)
    for part in (slice(0, 3), np.array([1, 4, 7])):
        bound.support(part, np.ones((1, D)), none)
        bound.changes().points(part, none + 1)
        bound.changes().refine(part, none, lambda z: z[:, 0])
        bound.changes().members(part)
        bound.changes().mesh(part)
        bound.sample(part, 2, np.random.default_rng(0))
    # The last row once more by itself, to see that it is answered alike.
    assert calls == [len(X), 1]


def test_member_names_have_the_parameter_values():
    X, _ = rows()
    oracle = Trajectory(row_powers, 2, (-0.5, 1.0), resolution=4)
    assert oracle.bind(X).changes().names == ["identity", "t = -0.5", "t = 0.5", "t = 1"]
    wanted = X + 0.5 * row_powers(X)[:, 0] + 0.25 * row_powers(X)[:, 1]
    np.testing.assert_allclose(oracle.changes(X).members()[:, 2], wanted, rtol=1e-15)
    np.testing.assert_array_equal(oracle.tangents(X), row_powers(X)[:, :1])


def test_functions_that_are_not_pure_per_sample_raise():
    X, y = rows()
    rng = np.random.default_rng(0)

    def centered(X):
        return (X - X.mean(axis=0))[:, None]

    def drawn(X):
        return rng.standard_normal((len(X), 1, X.shape[1]))

    def spoil(X):
        X *= 2.0
        return X[:, None]

    before = X.copy()
    for make in (
        Sampled,
        lambda f: Trajectory(f, 1),
        lambda f: TangentDerivative(f, 0.1),
        lambda f: Ellipsoid(lambda X: f(X).swapaxes(1, 2), 0.1),
    ):
        for function in (centered, drawn):
            with pytest.raises((CheckError, ValueError)):
                check_oracle(make(function), X, y)
            with pytest.raises(ValueError, match="the same .* for a row in every call"):
                InvariantLinearSVC(make(function)).fit(X, y)
        with pytest.raises(ValueError, match="must not change its inputs"):
            InvariantLinearSVC(make(spoil)).fit(X, y)
        np.testing.assert_array_equal(X, before)
