"""Word oracles and Protected beyond the contract: every edit tried, threads, draws, refusals."""

from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from structinv import InvariantLinearSVC
from structinv.oracles import (
    Box,
    Budget,
    Ellipsoid,
    FAdd,
    FDrop,
    FEdit,
    FScale,
    Protected,
    Shared,
)
from structinv.utils import matrices
from structinv.utils.matrices import ALL_ROWS, row_dots

VALUES = np.array([0.5, 2.0, 1.0, 0.25, 3.0, 1.0])
ALL = {
    "fadd": (FAdd(2), 1.0, 1.0, np.ones(6), False),
    "values": (FAdd(3, VALUES), 1.0, 1.0, VALUES, False),
    "numbers": (FAdd(2, allowed=[0, 3, 5]), 1.0, 1.0, np.array([1.0, 0, 0, 1, 0, 1]), False),
    "mask": (FAdd(2, 2.0, np.arange(6) > 2, True), 1.0, 1.0, 2.0 * (np.arange(6) > 2), True),
    "fedit": (FEdit(2, add=VALUES), 0.0, 1.0, VALUES, False),
    "scale": (FEdit(3, drop=False, add=0.5, scale=(0.5, 2.0)), 0.5, 2.0, np.full(6, 0.5), False),
    "plain": (FEdit(2), 0.0, 1.0, np.zeros(6), False),
    "none": (FAdd(0), 1.0, 1.0, np.ones(6), False),
    "fdrop": (FDrop(1), 0.0, 1.0, np.zeros(6), False),
    "more than there are": (FDrop(70), 0.0, 1.0, np.zeros(6), False),
    "fscale": (FScale(3, 0.2, 3.0), 0.2, 3.0, np.zeros(6), False),
    "only more": (FScale(2, 1.0, 4.0), 1.0, 4.0, np.zeros(6), False),
}
every_oracle = pytest.mark.parametrize("name", ALL)


def best_of_all(name, x, v, cost=0.0, grades=None):
    """The largest ``<v, z> + cost rho`` over every choice of words and of edits of each."""
    oracle, low, high, value, present = ALL[name]
    ways = [
        [low * each, high * each, each + a * (each == 0 or present)]
        for each, a in zip(x, value, strict=True)
    ]
    best = -np.inf
    for number in range(oracle.max_changes + 1):
        rho = 1.0 if grades is None else grades[number]
        for words in combinations(range(len(x)), number):
            z = v @ x + sum(max(v[j] * way - v[j] * x[j] for way in ways[j]) for j in words)
            best = max(best, z + cost * rho)
    return best


@every_oracle
@settings(max_examples=15)
@given(seed=st.integers(0, 10_000))
def test_support_is_the_best_of_all_edits(name, seed):
    rng = np.random.default_rng(seed)
    X = np.round(rng.standard_normal((3, 6)), 1) * (rng.random((3, 6)) < rng.random())
    V, assign = np.round(rng.standard_normal((2, 6)), 1), np.array([0, 1, 0])
    oracle = ALL[name][0]
    best = [best_of_all(name, x, v) for x, v in zip(X, V[assign], strict=True)]
    for rows in (X, sp.csr_matrix(X)):
        bound = oracle.bind(rows)
        points = bound.support(ALL_ROWS, V, assign).points
        np.testing.assert_allclose(row_dots(points, V, assign), best, atol=1e-12)
        values, sizes = bound.support(ALL_ROWS, V, assign).maxima()
        np.testing.assert_allclose(values, best, atol=1e-12)
        assert np.all(sizes >= row_dots(abs(points), np.abs(V), assign) - 1e-12)
        few, _ = bound.support(np.array([2, 0]), V, assign[[2, 0]]).maxima()
        np.testing.assert_array_equal(few, values[[2, 0]])
        dense = points if isinstance(points, np.ndarray) else points.toarray()
        assert all(bound.contains(row, z) for row, z in enumerate(dense))
    K = oracle.max_changes
    grades = np.r_[1.0, np.sort(rng.random(K))[::-1]]
    cost = np.array([0.0, 1.0, 3.0])
    answer = oracle.graded_support(X, V, assign, cost, grades)
    reached = row_dots(answer.points, V, assign) + cost * answer.rho
    best = [best_of_all(name, x, v, c, grades) for x, v, c in zip(X, V[assign], cost, strict=True)]
    np.testing.assert_allclose(reached, best, atol=1e-12)


@every_oracle
def test_random_draws_cover_all_edits_and_only_these(name):
    oracle, low, high, value, present = ALL[name]
    x = np.array([0.0, 1.0, 2.0, 0.0, -1.0, 0.0])
    moved = oracle.sample(x[None], 2000, np.random.default_rng(0))[0] != x
    can = ((x != 0) & (low < high)) | ((value > 0) & ((x == 0) | present))
    np.testing.assert_array_equal(moved.any(axis=0), can & (oracle.max_changes > 0))
    assert np.count_nonzero(moved, axis=1).max() == min(oracle.max_changes, np.count_nonzero(can))


def test_stored_zeros_and_duplicate_entries_are_summed():
    X = sp.csr_matrix((np.array([0.0, 1.0, 2.0, -2.0]), np.array([1, 0, 2, 2]), [0, 4]), (1, 3))
    v = np.array([[1.0, 2.0, 3.0]])
    points = FAdd(2).support(X, v, np.array([0])).points
    np.testing.assert_array_equal(points.toarray(), [[1.0, 1.0, 1.0]])
    assert points.has_canonical_format
    assert X.nnz == 4


@pytest.mark.parametrize("oracle", [FDrop(1), FScale(70, 0.5, 2.0), FEdit(5, add=0.3)], ids=str)
def test_results_do_not_depend_on_threads(oracle, monkeypatch):
    X, V, assign = counts()
    bound = oracle.bind(X)
    alone = bound.support(ALL_ROWS, V, assign).points, *bound.support(ALL_ROWS, V, assign).maxima()
    monkeypatch.setattr(matrices, "VALUES_A_THREAD", 1)
    monkeypatch.setattr(matrices, "allowed_threads", lambda: 3)
    together = bound.support(ALL_ROWS, V, assign).points, *bound.support(ALL_ROWS, V, assign).maxima()
    np.testing.assert_array_equal(alone[0].toarray(), together[0].toarray())
    np.testing.assert_array_equal(alone[1:], together[1:])


def counts(n=40, d=300):
    """Sparse rows of many lengths, one of them empty, small counts so that gains tie."""
    rng = np.random.default_rng(0)
    X = rng.poisson(1.0, (n, d)) * (rng.random((n, d)) < rng.random((n, 1)))
    X[3] = 0
    return (
        sp.csr_matrix(X.astype(float)),
        np.round(rng.standard_normal((2, d)), 1),
        rng.integers(2, size=n),
    )


@pytest.mark.parametrize(
    ("oracle", "error", "words"),
    [
        (FAdd(-1), ValueError, "max_changes must be an integer of at least 0, got -1"),
        (FAdd(1.5), TypeError, "max_changes"),
        (FAdd(7), ValueError, "max_changes must be at least 0 and at most 6"),
        (FAdd(3, allowed=[1, 2]), ValueError, "at most 2, the number of features that may be added"),
        (FAdd(1, 0.0), ValueError, "value must be a number above 0"),
        (FAdd(1, -1), ValueError, "value must be a number above 0"),
        (FAdd(1, np.ones(5)), ValueError, "(6 features), got 5 numbers"),
        (FAdd(1, np.array([1, 1, 0, 1, 1, 1.0])), ValueError, "for feature 2: use the argument allowed"),
        (FAdd(1, np.ones((6, 1))), TypeError, "shape"),
        (FAdd(1, allowed=[0, 6]), ValueError, "allowed must contain column numbers, from 0 to 5"),
        (FAdd(1, allowed=[]), ValueError, "allowed must select at least one feature"),
        (FAdd(1, allowed=np.ones(5, bool)), ValueError, "one entry for each of the 6 features"),
        (FAdd(1, allowed="all"), TypeError, "allowed must be an array of booleans"),
        (FAdd(1, allowed=[0, 0, 0, 1, 1, 1]), ValueError, "got 0 3 times; a mask must contain booleans"),
        (FAdd(1, allowed=np.eye(6, dtype=int)[0]), ValueError, "np.asarray(allowed, dtype=bool)"),
        (FAdd(1, allowed=["x", "y"]), ValueError, "because X has no column names"),
        (FAdd(1, present=1), TypeError, "present must be True or False"),
        (FEdit(1, drop="no"), TypeError, "drop must be True or False"),
        (FEdit(1, allowed=[1]), ValueError, "allowed must be None without add"),
        (FEdit(1, drop=False), ValueError, "must allow an edit"),
        (FEdit(1, scale=2.0), TypeError, "scale must be a pair"),
        (FEdit(1, scale=(2.0, 3.0)), ValueError, "scale must be (low, high) with low in"),
        (Protected(FAdd(1), [9]), ValueError, "features must contain column numbers"),
        (Protected(FAdd(1), None), TypeError, "features must be an array"),
        (Protected(FAdd, [1]), TypeError, "oracle must be an InvarianceOracle"),
        (Protected(Budget(FDrop(1)), [1]), ValueError, "write Shared"),
        (Protected(FAdd(1).only_for([5]), [1]), ValueError, "among the classes [0, 1], got 5"),
    ],
    ids=str,
)
def test_invalid_parameters_raise_before_the_fit(oracle, error, words):
    X, y = np.eye(6), np.arange(6) % 2
    with pytest.raises(error) as caught:
        InvariantLinearSVC(oracle).fit(X, y)
    assert words in str(caught.value)


class TestProtected:
    def test_upper_bounds_include_protected_features(self):
        class Wide(Ellipsoid):
            """Answers with a bound of its own."""

            def support(self, X, V, assign, cost=None):
                """See `Ellipsoid.support`."""
                answer = super().support(X, V, assign, cost)
                upper = row_dots(answer.points, V, assign) + 1.0
                return type(answer)(answer.points, upper)

        X, V = np.arange(4.0)[None], np.ones((1, 4))
        kept = Protected(Wide(np.eye(4), 1.0), [1, 2])
        answer = kept.support(X, V, np.array([0]))
        assert answer.upper[0] == pytest.approx(1.0 + 6.0 + np.sqrt(2.0))
        np.testing.assert_array_equal(answer.points[0, 1:3], X[0, 1:3])

    def test_protected_is_part_of_a_budget(self):
        X = np.arange(12.0).reshape(4, 3)
        bound = Budget(Protected(FDrop(2), [0])).bind(X)
        assert len(bound.scenarios()[0]) == 3
        with pytest.raises(ValueError, match="oracle must be finite"):
            Shared(Protected(Box(1.0), [0])).bind(X)
