"""Lists of linear changes: differences, selections, scores."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from scipy.spatial.transform import Rotation

from structinv.oracles import (
    FiniteOracle,
    Flip,
    Permutations,
    Rotations,
    Trajectory,
    Weighted,
    changes,
    check_oracle,
    combined_changes,
)
from structinv.oracles.changes import LinearChanges
from structinv.oracles.listed_changes import averaged
from structinv.utils.matrices import ALL_ROWS

from .cases import ORDERS, D, Reorderings, Shrinkings, close, rows

reorderings, shrinkings = Reorderings(ORDERS), Shrinkings()


class Turns(FiniteOracle):
    """Rotations of space around an axis by multiples of 120 degrees."""

    turn = Rotation.from_rotvec(2 * np.pi / 3 * np.array([2.0, 3.0, 6.0]) / 7).as_matrix()

    def orbit(self, X):
        return np.stack([X, X @ self.turn, X @ self.turn @ self.turn], axis=1)

    def changes(self, X, y=None):
        maps = [np.eye(3), self.turn.T, self.turn.T @ self.turn.T]
        return LinearChanges(X, [sp.csr_matrix(each) for each in maps])


def test_equal_differences_are_merged_at_full_precision():
    X = np.random.default_rng(0).standard_normal((4, 3))
    check_oracle(Turns(), X)
    law = averaged(Turns(), 3)
    differences, members = law.differences(), law.on(X).members()
    assert differences.size == 3
    found = differences.on(X).members()
    pairs = np.einsum("ngd,mhd->nm", members, members) / 9
    np.testing.assert_allclose(np.einsum("nd,mhd->nm", X, found) / 3, pairs, rtol=0, atol=1e-13)


def along(axis):
    return lambda X: np.broadcast_to(np.eye(D)[[axis]], (len(X), 1, D))


def test_a_selection_of_a_cover_has_no_smaller_gaps_than_it_tells():
    X, _ = rows()
    line, other = (Trajectory(function, 1, (-1.0, 1.0), 5) for function in (along(0), along(1)))
    cover = line.changes(X)
    chosen = cover.take([0, 2]), cover.take(range(cover.size)[::-1]), (line | other).changes(X)
    t = np.linspace(-1.0, 1.0, 201)[:, None]
    for listed, axes in zip((cover, *chosen), ([0], [0], [0], [0, 1]), strict=True):
        members, mesh = listed.members(), listed.mesh()
        for x, own, most in zip(X, members, mesh, strict=True):
            dense = np.concatenate([x + t * np.eye(D)[axis] for axis in axes])
            assert cdist(dense, own).min(axis=1).max() <= most + 1e-12
        assert np.all(np.isfinite(mesh)) == (listed is not chosen[0])
    # A selection of a complete list is complete.
    assert not np.any(shrinkings.changes(X).take([0, 2]).mesh())


def test_scores_of_one_member_follow_the_rows():
    X, _ = rows()
    others, V = rows(1)[0], np.random.default_rng(0).standard_normal((2, D))
    part = averaged(reorderings, D).take([1])
    for Z in (X, others, X):
        # Lists keep their last scores, also when they move to other rows.
        part = part.on(Z)
        close(part.scores(ALL_ROWS, V), (Z[:, ORDERS[1]] @ V.T)[:, None])


@pytest.mark.parametrize("oracle", [reorderings, reorderings @ reorderings])
def test_scores_follow_directions_that_are_changed_in_place(oracle):
    X, _ = rows()
    V, part = np.random.default_rng(0).standard_normal((2, D)), oracle.changes(X)
    members = part.members()
    for factor in (1.0, -1.0, np.arange(D)):
        # Solvers may write the weights of all iterations to one array.
        V *= factor
        close(part.scores(ALL_ROWS, V), members @ V.T)


class TestDifferences:
    def test_mostly_distinct_differences_are_not_used(self):
        drawn = averaged(Permutations((6, 1), noise=np.inf), 6, n_draws=8)
        assert drawn.differences().size > 32
        assert drawn.differences(32) is None
        assert drawn.differences(64).size == drawn.differences().size
        assert drawn.sides() == (drawn, drawn)
        whole = averaged(Permutations((3, 1)), 3)
        left, right = whole.sides()
        assert left is None
        assert right.size == whole.size

    @pytest.mark.parametrize("oracle", [Permutations((9, 1), noise=np.inf), Rotations(interval=(0, 9))])
    def test_differences_stop_at_the_maximum_number(self, oracle, monkeypatch):
        asked = []

        class Counted(LinearChanges):
            isometric = True

            def _keys(self, left):
                asked.append(left)
                return super()._keys(left)

        linear = averaged(oracle, 9, n_draws=10).linear()
        counted = Counted(linear.X, linear.maps, weights=linear.weights)
        assert counted.differences(35) is None
        # Each has at most ten of its own.
        assert asked == [0, 1, 2, 3]

    def test_too_many_pairs_of_compositions_have_no_matrices(self, monkeypatch):
        law = averaged(Flip() @ Rotations((90, 180, 270)), 9)
        assert law.linear().size == law.size == 8
        # Pairs of four turns, not those of eight compositions.
        for module in (changes, combined_changes):
            monkeypatch.setattr(module, "MOST_PAIRS", 16)
        assert law.linear() is None
        assert law.right.linear().differences().size == 4
        left, right = law.sides()
        assert (left.size, right.size) == (4, 8)


def test_only_equally_likely_members_are_a_group():
    parts = Permutations((4, 1)), Weighted(Permutations((4, 1)), np.ones(24))
    assert [averaged(part, 4).group for part in parts] == [True, True]
    uneven = Weighted(Permutations((4, 1)), range(24)).changes(np.zeros((1, 4)))
    assert not uneven.group
