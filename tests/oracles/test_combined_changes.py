"""Lists of unions and compositions."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist

from structinv.oracles import (
    Box,
    FDrop,
    Flip,
    Identity,
    Offset,
    Rotations,
    Segment,
    Shared,
    Trajectory,
    Weighted,
)
from structinv.oracles.changes import LinearChanges
from structinv.oracles.listed_changes import averaged

from .cases import ORDERS, D, Reorderings, Shrinkings, close, rows

reorderings, shrinkings = Reorderings(ORDERS), Shrinkings()


def along(axis):
    return lambda X: np.broadcast_to(np.eye(D)[[axis]], (len(X), 1, D))


class TestCombinations:
    @pytest.mark.parametrize("left", [Box(0.5), reorderings, Flip(shape=(1, D)) | reorderings, FDrop(2)])
    def test_drawn_compositions_pair_independent_draws(self, left):
        X, _ = rows()
        law = averaged(left @ reorderings, D, 5, 7)
        first = law.right.on(X).members()
        wanted = [law.left.on(first[:, k]).members()[:, k] for k in range(5)]
        close(law.on(X).members(), np.stack(wanted, axis=1))

    def test_drawn_compositions_of_unions_are_independent(self):
        turn, mirror = Weighted(Rotations((90,)), [0, 1]), Weighted(Flip(), [0, 1])
        size, x = 600, np.arange(1.0, 10.0)[None]
        either = (turn | Identity()) @ (mirror | Identity())
        parts = [averaged(oracle, 9).on(x).members()[0, 0] for oracle in (turn @ mirror, turn, mirror)]
        for oracle in (either, Shared(either), Identity() @ either, either @ Identity()):
            members = averaged(oracle, 9, size).on(x).members()[0]
            for wanted in (*parts, x[0]):
                share = np.mean(np.all(np.abs(members - wanted) < 1e-9, axis=1))
                # Six standard deviations.
                assert abs(share - 0.25) < 6.0 * np.sqrt(0.1875 / size)

    def test_drawn_compositions_have_product_weights(self):
        class Multiples(Identity):
            def _draws(self, X, size, random_state):
                numbers = np.arange(1.0, size + 1)
                return LinearChanges(X, [sp.csr_matrix([[k]]) for k in numbers], weights=numbers)

        x = np.ones((1, 1))
        for oracle in (Multiples() @ Identity(), Identity() @ Multiples()):
            law = averaged(oracle, 1, 5)
            close(law.weights, law.on(x).members()[0, :, 0] / 15.0)
            part = law.take([3, 1, 1])
            close(part.weights, law.weights[[3, 1, 1]] / np.sum(law.weights[[3, 1, 1]]))

    def test_unions_mix_their_parts_with_equal_probabilities(self):
        X, _ = rows()
        leaves = reorderings, Weighted(shrinkings, [0, 1, 3]), Identity()
        law = averaged(leaves[0] | leaves[1] | leaves[2], D)
        parts = [averaged(leaf, D) for leaf in leaves]
        means = [np.einsum("s,nsd->nd", part.weights, part.on(X).members() ** 2) for part in parts]
        close(np.einsum("s,nsd->nd", law.weights, law.on(X).members() ** 2), np.mean(means, axis=0))

    def test_combinations_of_isometric_parts_are_isometric(self):
        flip, dull = Flip(shape=(1, D)), shrinkings
        for whole in (flip | reorderings, flip @ reorderings, Shared(flip), Weighted(flip, [1, 2])):
            assert averaged(whole, D).differences() is not None
        for whole in (flip | dull, dull @ flip, Shared(dull), Weighted(dull, [1, 2, 3])):
            assert averaged(whole, D).differences() is None


@pytest.mark.parametrize("left", ["offset", "segment"])
@pytest.mark.parametrize("right", ["line", "list"])
def test_covers_of_compositions_have_no_larger_gaps_than_they_tell(left, right):
    X, _ = rows()
    parts = {
        "offset": lambda size: Offset(0.3, size),
        "segment": lambda size: Segment(0.2, 5.0, size),
        "line": lambda size: Trajectory(along(0), 1, (-1.0, 1.0), size),
        "list": lambda size: reorderings,
    }
    cover, dense = ((parts[left](size) @ parts[right](size)).changes(X) for size in (5, 41))
    mesh = cover.mesh()
    for members, own, most in zip(dense.members(), cover.members(), mesh, strict=True):
        assert cdist(members, own).min(axis=1).max() <= most + 1e-12
    # A factor may enlarge the gaps of a cover.
    assert np.all(np.isinf(mesh)) == (left == "segment" and right == "line")


def test_names_of_compositions_tell_what_comes_first():
    names = (Flip(shape=(1, D)) @ Shrinkings()).bind(rows()[0]).changes().names
    flips = Flip(shape=(1, D)).bind(rows()[0]).changes().names
    assert names[1] == flips[1]
    assert names[2:4] == ["change 1", f"change 1, then {flips[1]}"]
