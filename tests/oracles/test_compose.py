"""Compositions: supports and bounds."""

import numpy as np
import pytest

from structinv.oracles import (
    Box,
    Ellipsoid,
    FDrop,
    FScale,
    Identity,
    InvarianceOracle,
    Sampled,
    Support,
    Trajectory,
)
from structinv.utils.matrices import ALL_ROWS

from .cases import D, Loose, Reorderings, row_lags, row_powers, rows


@pytest.mark.parametrize("left", [Sampled(row_lags), Trajectory(row_powers, 2)], ids=["list", "curve"])
def test_lists_after_other_members_are_those_of_each_member(left):
    X, _ = rows()
    right = Reorderings([[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [1, 0, 2, 4, 3]])
    V = np.random.default_rng(0).standard_normal((3, D))
    for number, v in enumerate(V):
        assign = np.full(len(X), number)
        points = np.moveaxis(right.orbit(X), 1, 0)
        best = np.max([left.support(z, V, assign).points @ v for z in points], axis=0)
        found = (left @ right).bind(X).support(ALL_ROWS, V, assign).points @ v
        np.testing.assert_allclose(found, best)


class Unfound(InvarianceOracle):
    """Rows moved along the first feature, which are bounded but never found."""

    def support(self, X, V, assign, cost=None):
        return Support(X, np.einsum("ij,ij->i", X, V[assign]) + 3.0 * np.abs(V[assign, 0]))


class GradesUnasked(InvarianceOracle):
    """Answers with grades that nobody asked for."""

    def support(self, X, V, assign, cost=None):
        return Support(X, rho=np.zeros(len(X)))


class TestCompose:
    def test_pairs_without_a_support_are_errors(self):
        X, _ = rows(4)
        oracle = FScale(2, 0.2, 4.0) @ Ellipsoid(np.eye(D))
        with pytest.raises(NotImplementedError, match="support of FScale @ Ellipsoid: the left oracle"):
            oracle.support(X, np.ones((1, D)), np.zeros(len(X), dtype=int))

    def test_compositions_combine_the_bounds_of_the_parts(self):
        X, _ = rows(4)
        loose, V = Loose(0.5), np.ones((1, D))
        assign = np.zeros(len(X), dtype=int)
        turns = Reorderings([[0, 1, 2, 3, 4], [4, 3, 2, 1, 0]])
        for oracle in (Box(0.1) @ loose, loose @ Box(0.1), turns @ loose, loose @ turns):
            answer = oracle.support(X, V, assign)
            reached = answer.points @ V[0]
            np.testing.assert_allclose(answer.upper, reached + 1.0)
        answer = (loose | Identity()).support(X, V, assign)
        np.testing.assert_allclose(answer.upper, X.sum(axis=1) + 0.5 * D + 1.0)

    def test_the_bound_of_maps_is_that_of_any_map(self):
        X, _ = rows(4)
        oracle = Reorderings([[0, 1, 2, 3, 4], [4, 3, 2, 1, 0]]) @ Unfound()
        V, hidden = np.eye(D), 3.0 * np.eye(D)[:1]
        members = np.stack([X, X + hidden, X - hidden], axis=1)
        for number, v in enumerate(V):
            answer = oracle.support(X, V, np.full(len(X), number))
            best = [(members[:, :, order] @ v).max(axis=1) for order in (np.s_[:], np.s_[::-1])]
            assert np.all(answer.upper >= np.max(best, axis=0) - 1e-12)

    def test_draws_have_the_label_of_their_row(self):
        X, y = rows()
        for part in (ALL_ROWS, np.array([2, 0, 4])):
            bound = (Box(1.0).only_for(1) @ Reorderings([range(D)])).bind(X, y)
            draws = bound.sample(part, 3, np.random.default_rng(0))
            unmoved = np.all(draws == X[part, None], axis=2)
            np.testing.assert_array_equal(unmoved, np.tile(y[part, None] != 1, 3))

    def test_compositions_of_graded_parts_raise(self):
        X, _ = rows()
        graded = FDrop(1).discounted(0.5)
        for oracle in (
            graded @ Box(1.0),
            Box(1.0) @ (graded | Identity()),
            graded.only_for(0) @ FDrop(10),
        ):
            with pytest.raises(NotImplementedError, match="Compose does not support grades"):
                oracle.bind(X, np.zeros(len(X)))

        with pytest.raises(NotImplementedError, match="GradesUnasked has grades"):
            (Box(1.0) @ GradesUnasked()).support(X, np.ones((1, D)), np.zeros(len(X), dtype=int))

    def test_contains_is_not_defined(self):
        with pytest.raises(NotImplementedError, match="does not define contains"):
            (Box(1.0) @ FScale(1)).contains(np.ones(D), np.ones(D))
