"""Lists made by `orbit`, draws made by `sample`, and what is refused."""

import numpy as np
import pytest
import scipy.sparse as sp

from structinv.oracles import (
    Box,
    FDrop,
    FiniteOracle,
    Flip,
    InvarianceOracle,
    Permutations,
    Rotations,
    Shared,
    Support,
    Weighted,
)
from structinv.oracles.changes import LinearChanges
from structinv.oracles.listed_changes import DrawnChanges, averaged
from structinv.oracles.third_party import bind

from .cases import CASES, D, close, rows


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


@pytest.mark.parametrize(
    "oracle", [Rotations(interval=(-5, 5)), Permutations((4, 4)), Permutations((4, 4), noise=np.inf)]
)
def test_no_draw_has_the_name_identity(oracle):
    assert averaged(oracle, 16, 3).names == ["draw 1", "draw 2", "draw 3"]
