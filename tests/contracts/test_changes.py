"""Lists of perturbations for averages: all registered oracles, combinations, errors."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from scipy.spatial.transform import Rotation

from structinv.kernels import Gaussian, OrbitMean
from structinv.oracles import (
    Box,
    FDrop,
    FiniteOracle,
    Flip,
    FScale,
    Identity,
    InvarianceOracle,
    Offset,
    Permutations,
    Rotations,
    Segment,
    Shared,
    Support,
    Trajectory,
    Weighted,
    changes,
    check_oracle,
    combined_changes,
)
from structinv.oracles.changes import LinearChanges
from structinv.oracles.listed_changes import DrawnChanges, averaged
from structinv.oracles.third_party import bind
from structinv.utils.matrices import ALL_ROWS

from ..oracles.cases import CASES, ORDERS, D, Reorderings, Shrinkings, rows

DRAWS = 6
LAWS = [
    pytest.param(case.oracle, size, id=f"{case}-{'listed' if size is None else 'drawn'}")
    for case in CASES
    if not case.oracle.depends_on_label
    for size in ((None, DRAWS) if case.oracle.finite else (DRAWS,))
]
every_law = pytest.mark.parametrize(("oracle", "size"), LAWS)
reorderings, shrinkings = Reorderings(ORDERS), Shrinkings()


def close(found, wanted, rtol=1e-12):
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=rtol * (1.0 + np.abs(wanted).max()))


@every_law
def test_members_do_not_depend_on_the_type_of_rows(oracle, size):
    X, _ = rows()
    law = averaged(oracle, D, size, 3)
    assert size is None or law.size == size
    wanted = law.on(X).members()
    single = X.astype(np.float32)
    close(law.on(single).members(), law.on(single.astype(np.float64)).members(), rtol=1e-5)
    assert law.on(X[:0]).members().shape == (0, law.size, D)
    if oracle.supports_sparse:
        close(law.on(sp.csr_matrix(X)).members(), wanted)


@every_law
def test_isometric_lists_perturb_one_side_only(oracle, size):
    X, _ = rows()
    law = averaged(oracle, D, size)
    differences = law.differences()
    if differences is None:
        return
    members, others = law.on(X).members(), differences.on(X).members()
    pairs = np.einsum("g,h,ngd,mhd->nm", law.weights, law.weights, members, members)
    close(np.einsum("h,nd,mhd->nm", differences.weights, X, others), pairs)
    near = np.exp(-cdist(members.reshape(-1, D), members.reshape(-1, D), "sqeuclidean"))
    near = near.reshape(len(X), law.size, len(X), law.size)
    wanted = np.einsum("g,h,ngmh->nm", law.weights, law.weights, near)
    near = np.exp(-cdist(X, others.reshape(-1, D), "sqeuclidean")).reshape(len(X), len(X), -1)
    close(near @ differences.weights, wanted)


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


def test_isometric_lists_have_differences():
    known = {c.name for c in CASES if not c.oracle.depends_on_label and c.oracle.finite}
    known = {
        c.name for c in CASES if c.name in known and averaged(c.oracle, D).differences() is not None
    }
    assert known == {
        "identity", "finite", "flip", "permutations", "shared", "weighted", "discounted-finite",
    }  # fmt: skip


@pytest.mark.parametrize(
    "oracle",
    [
        *(
            pytest.param(case.oracle, marks=pytest.mark.slow if case.name.startswith("compose") else ())
            for case in CASES
            if case.oracle.finite and case.name != "permutations"
        ),
        Permutations((D, 1), noise=np.inf),
        Weighted(reorderings | shrinkings, [1, 0, 2, 0, 5]),
        reorderings | shrinkings,
        Rotations([180, 40], shape=(1, D), spread=60.0),
    ],
    ids=lambda oracle: type(oracle).__name__,
)
def test_many_draws_have_the_probabilities_of_the_list(oracle):
    X, _ = rows()
    size = 20000
    listed, drawn = averaged(oracle, D), averaged(oracle, D, size, 5)
    places = np.random.default_rng(0).standard_normal((3, D))
    for row in X[:3]:
        means = []
        for law in (listed, drawn):
            members = law.on(row[None]).members()[0]
            values = np.c_[np.exp(-0.1 * cdist(members, places, "sqeuclidean")), np.cos(members)]
            means.append(law.weights @ values)
        # Values have a standard deviation of at most 1.
        np.testing.assert_allclose(*means, atol=6.0 / np.sqrt(size))


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
        size, x = 4000, np.arange(1.0, 10.0)[None]
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


@pytest.mark.parametrize(
    ("oracle", "size"),
    [
        *LAWS,
        pytest.param(reorderings | shrinkings | Flip(shape=(1, D)), None, id="mixed"),
        pytest.param(reorderings | FDrop(2), 12, id="mixed-drawn"),
        pytest.param(reorderings @ Flip(shape=(1, D)), None, id="composed"),
        pytest.param(FScale(2) @ (reorderings @ Box(0.1)), 7, id="composed-drawn"),
    ],
)
def test_take_selects_changes_in_order(oracle, size):
    X, _ = rows()
    V = np.random.default_rng(0).standard_normal((2, D))
    law = averaged(oracle, D, size)
    numbers = [law.size - 1, 0, law.size // 2, law.size - 1, 0]
    weights = np.array([1.0, 2.0, 3.0, 1.0, 0.5])
    members, pulled = law.on(X).members(), law.adjoint(V)
    for part, wanted in (
        (law.take(numbers), law.weights[numbers]),
        (law.take(np.array(numbers), weights), weights),
        (law.take(range(law.size)).take(numbers, weights), weights),
    ):
        close(part.on(X).members(), members[:, numbers])
        close(part.weights, wanted / np.sum(wanted))
        assert (part.adjoint(V) is None) == (pulled is None)
        if pulled is not None:
            close(part.adjoint(V), pulled[numbers])
        if part.linear() is not None:
            close(part.linear().on(X).members(), members[:, numbers])
            close(part.linear().weights, wanted / np.sum(wanted))


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


def along(axis):
    return lambda X: np.broadcast_to(np.eye(D)[[axis]], (len(X), 1, D))


def test_scores_of_one_member_follow_the_rows():
    X, _ = rows()
    others, V = rows(1)[0], np.random.default_rng(0).standard_normal((2, D))
    part = averaged(reorderings, D).take([1])
    for Z in (X, others, X):
        # Lists keep their last scores, also when they move to other rows.
        part = part.on(Z)
        close(part.scores(ALL_ROWS, V), (Z[:, ORDERS[1]] @ V.T)[:, None])


class TestRefused:
    @pytest.mark.parametrize("size", [True, 1.5, "3", [2]])
    def test_n_draws_that_are_not_integers_raise(self, size):
        with pytest.raises(TypeError, match="n_draws must be None or an integer"):
            averaged(Box(1.0), D, size)

    @pytest.mark.parametrize(
        "seed", [None, np.random.RandomState(0), np.random.default_rng(0), True, 1.0]
    )
    def test_seeds_that_are_not_integers_raise(self, seed):
        with pytest.raises(TypeError, match="random_state must be an integer of at least 0, got"):
            averaged(Box(1.0), D, 2, seed)

    @pytest.mark.parametrize("case", [case for case in CASES if case.oracle.depends_on_label], ids=str)
    def test_label_dependent_oracles_raise(self, case):
        with pytest.raises(ValueError, match="must not depend on labels.*only_for"):
            averaged(case.oracle, D, 3)

    def test_draws_of_a_wrong_shape_raise(self):
        class Once(InvarianceOracle):
            def support(self, X, V, assign, cost=None):
                return Support(X)

            def sample(self, X, size, rng):
                return X[:, None]

        with pytest.raises(ValueError, match=r"Once\.sample must return members of shape \(1, 3, 5\)"):
            DrawnChanges(Once(), rows()[0], 3, 0).members()


def test_third_party_draws_cannot_modify_the_samples():
    class InPlace(InvarianceOracle):
        def support(self, X, V, assign, cost=None):
            return Support(X)

        def sample(self, X, size, rng):
            X *= 2.0
            return np.repeat(X[:, None], size, axis=1)

    with pytest.raises(ValueError, match=r"InPlace\.sample must not change its inputs"):
        averaged(InPlace(), D, 3).on(rows()[0]).members()


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


PLACES = np.random.default_rng(0).standard_normal((3, 9))
MIRRORED = Flip() | Rotations((90,))


def overriding(oracle, **methods):
    """An instance of a subclass with these methods."""
    return type("Mine", (type(oracle),), methods)(**oracle.get_params(deep=False))


def halved(self, X):
    return np.stack([X, 0.5 * X], axis=1)


@pytest.mark.parametrize(
    "oracle",
    [Flip(), Permutations((3, 3)), MIRRORED, Flip() @ Rotations((90,)), Flip().discounted(0.5),
     Shared(Flip()), Weighted(Flip(), [1, 2])],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_an_overridden_list_replaces_that_of_the_base_class(oracle):
    mine = overriding(oracle, orbit=halved)
    weighted = [] if mine.whole_example else [averaged(Weighted(mine, [1, 1]), 9)]
    for law in (averaged(mine, 9), *weighted):
        np.testing.assert_array_equal(law.on(PLACES).members(), halved(None, PLACES))
        # The maps of the family are not those of its members.
        assert law.adjoint(PLACES) is None
        assert law.linear() is None
    wanted = averaged(oracle, 9).on(PLACES).members()
    np.testing.assert_array_equal(averaged(overriding(oracle), 9).on(PLACES).members(), wanted)

    def extended(self, X):
        return np.concatenate([type(oracle).orbit(self, X), -X[:, None]], axis=1)

    if type(oracle) in (Flip, Permutations, type(MIRRORED)):
        more = overriding(oracle, orbit=extended)
        wanted = np.concatenate([oracle.changes(PLACES).members(), -PLACES[:, None]], axis=1)
        np.testing.assert_array_equal(more.changes(PLACES).members(), wanted)
        assert more.changes(PLACES).adjoint(PLACES) is None


@pytest.mark.parametrize(
    "oracle",
    [Rotations(interval=(-9, 9)), Permutations((9, 1), noise=np.inf), Box(0.5) | FDrop(2),
     Box(0.5) @ FDrop(2), Box(0.5).discounted(0.5)],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_overridden_draws_replace_those_of_the_base_class(oracle):
    def sample(self, X, size, rng):
        return X[:, None] * rng.uniform(size=size)[:, None]

    law = averaged(overriding(oracle, sample=sample), 9, 4)
    close(law.on(PLACES).members(), sample(None, PLACES, 4, np.random.default_rng(0)))
    assert law.adjoint(PLACES) is None
    assert law.differences() is None


def test_only_equally_likely_members_are_a_group():
    parts = Permutations((4, 1)), Weighted(Permutations((4, 1)), np.ones(24))
    assert [averaged(part, 4).group for part in parts] == [True, True]
    uneven = Weighted(Permutations((4, 1)), range(24)).changes(np.zeros((1, 4)))
    assert not uneven.group


class Fivefold(FiniteOracle):
    """A list whose first member is not the sample."""

    def orbit(self, X):
        return np.stack([X, -X], axis=1)

    def changes(self, X, y=None):
        keep = sp.identity(X.shape[1], format="csr")
        return LinearChanges(X, [self.factor * keep, 6.0 * keep])


@pytest.mark.parametrize("factor", [5.0, np.nan])
def test_a_third_party_list_begins_with_the_rows(factor):
    oracle = Fivefold()
    oracle.factor = factor
    with pytest.raises(ValueError, match=r"Fivefold\.changes"):
        bind(oracle, np.ones((3, 2))).changes()


def test_probabilities_of_pairs_apply_to_both_sides():
    X = np.random.default_rng(0).standard_normal((3, 16))
    pairs = Rotations((90, 180, 270)) @ Rotations([20, 45])
    size = pairs.changes(X).size
    weights = np.random.default_rng(1).random(size)
    members = pairs.changes(X).members()
    kernel = Gaussian(0.3)
    table = kernel.matrix(members.reshape(-1, 16), members.reshape(-1, 16))
    shares = weights / weights.sum()
    wanted = np.einsum("s,isjt,t->ij", shares, table.reshape(3, size, 3, size), shares)
    close(OrbitMean(Weighted(pairs, weights), kernel).matrix(X, X), wanted)


@pytest.mark.parametrize(
    "oracle", [Rotations(interval=(-5, 5)), Permutations((4, 4)), Permutations((4, 4), noise=np.inf)]
)
def test_no_draw_has_the_name_identity(oracle):
    assert averaged(oracle, 16, 3).names == ["draw 1", "draw 2", "draw 3"]
