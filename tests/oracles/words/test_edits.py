"""Word oracles and Protected beyond the contract: every edit tried, the largest gains against a sort."""

from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

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
from structinv.oracles.query import Query, worst_at, worst_by_support
from structinv.oracles.third_party import bind
from structinv.structures import Binary, Multiclass
from structinv.structures.competitors import Competitors, LabelFunctions
from structinv.utils import matrices
from structinv.utils.matrices import ALL_ROWS, dense, row_dots

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
@settings(max_examples=8)
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
    answer = oracle.support(X, V, assign, cost, grades)
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


@every_oracle
def test_stored_zeros_are_absent_words(name):
    rng = np.random.default_rng(0)
    X = np.round(rng.standard_normal((8, 6)), 1) * (rng.random((8, 6)) < 0.5)
    stored = sp.csr_matrix((X.ravel(), np.tile(np.arange(6), 8), np.arange(0, 49, 6)), X.shape)
    V, assign = rng.standard_normal((8, 6)), np.arange(8)
    best = [best_of_all(name, x, v) for x, v in zip(X, V, strict=True)]
    answer = ALL[name][0].bind(stored).support(ALL_ROWS, V, assign)
    np.testing.assert_allclose(answer.maxima()[0], best, atol=1e-12)
    np.testing.assert_allclose(row_dots(answer.points, V, assign), best, atol=1e-12)


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


def test_the_maximum_of_a_row_does_not_depend_on_other_rows():
    rng = np.random.default_rng(0)
    X, V = sp.random(100, 60, 0.5, format="csr", random_state=0), rng.standard_normal((1, 60))
    bound, facing = FDrop(5).bind(X), np.zeros(100, dtype=int)
    together, _ = bound.support(slice(None), V, facing).maxima()
    alone = [bound.support([i], V, facing[:1]).maxima()[0][0] for i in range(100)]
    np.testing.assert_array_equal(together, alone)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_maxima_without_points_equal_those_of_a_sort(dtype, kind):
    for changes in (0, 1, 10, 16, 17, 70, 400):
        rng = np.random.default_rng(changes)
        X = sp.random(40, 200, density=0.4, format="csr", random_state=1, data_rvs=rng.standard_normal)
        X = sp.csr_matrix(X.multiply((np.arange(40) % 5 != 0)[:, None])).astype(dtype)
        X.eliminate_zeros()
        X.sort_indices()
        X.indices, X.indptr = X.indices.astype(kind), X.indptr.astype(kind)
        V, assign = rng.standard_normal((2, 200)), rng.integers(0, 2, 40)
        for oracle in (FScale(changes, 0.5, 3.0), FDrop(changes)):
            low, high = oracle.factors
            terms = V[assign] * X.toarray().astype(np.float64)
            gains = np.maximum(0.0, np.maximum((low - 1) * terms, (high - 1) * terms))
            expected = terms.sum(axis=1) + np.sort(gains, axis=1)[:, ::-1][:, :changes].sum(axis=1)
            found, _ = bind(oracle, X).support(slice(None), V, assign).maxima()
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("n_labels", [2, 4])
@pytest.mark.parametrize("changes", [0, 2, 16, 17])
@pytest.mark.parametrize("kind", [FDrop, FScale, FAdd], ids=lambda each: each.__name__)
def test_gains_and_rounding_without_points_are_those_of_the_support(kind, changes, n_labels):
    rng = np.random.default_rng(changes)
    X, _, _ = counts()
    structure = Binary() if n_labels == 2 else Multiclass()
    competitors = structure.bind(np.arange(40) % n_labels).competitors()
    n_outputs = competitors.functions.n_outputs
    weights, constants = rng.standard_normal((n_outputs, 300)), rng.standard_normal(n_outputs)
    query = Query(weights, constants, competitors, points=False, rounding=True)
    bound = kind(changes).bind(X)
    found, expected = bound.worst(ALL_ROWS, query), worst_by_support(bound, ALL_ROWS, query)
    for name in ("gains", "upper", "costs"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=0, atol=1e-12)
    # Edited rows may be shorter than these rows.
    assert np.all(found.rounding >= expected.rounding)
    assert np.all(found.rounding >= worst_at(X, query).rounding)


@pytest.mark.parametrize("oracle", [FDrop(2), FScale(2), FEdit(2)], ids=lambda each: type(each).__name__)
def test_gains_that_overflow_are_graded_by_the_number_of_edits(oracle):
    X, V = np.full((1, 6), 1e200), np.full((1, 6), -1e200)
    found = oracle.support(X, V, np.array([0]), np.ones(1), [1.0, 0.5, 0.25])
    assert found.rho[0] in (1.0, 0.5, 0.25)
    assert np.count_nonzero(found.points != X) <= 2


@settings(max_examples=40)
@given(
    st.lists(st.integers(-4, 4), min_size=1, max_size=6),
    st.integers(0, 7),
    st.sampled_from([(0.0, 1.0), (0.5, 2.0), (1.0, 1.5)]),
    st.integers(0, 100),
)
def test_worst_points_attain_the_gains(row, changes, factors, seed):
    X = sp.csr_matrix(np.array([row, row, row], dtype=float))
    table = np.random.default_rng(seed).integers(-2, 3, size=(len(row), 3)).astype(float)
    oracle = FScale(changes, *factors)
    bound, codes, labels = oracle.bind(X), np.zeros(3, dtype=np.int64), np.arange(3)
    competitors = Competitors(LabelFunctions.one_each(3), codes, np.zeros((3, 3)), slack=False)
    worst = bound.worst(slice(None), Query(table.T, np.zeros(3), competitors))
    found = worst.points(labels)
    points = dense(found.points)
    reached = np.einsum("ij,ij->i", points, (table - table[:, :1]).T)
    np.testing.assert_allclose(worst.gains[np.arange(3), labels], reached, atol=1e-12)
    np.testing.assert_array_equal(found.gains, worst.gains[np.arange(3), labels])
    assert all(oracle.contains(np.array(row, dtype=float), point) for point in points)


@pytest.mark.parametrize("most", [None, np.inf, 1.5])
def test_a_number_of_edits_that_is_no_integer_is_named(most):
    with pytest.raises(TypeError, match="max_changes must be an integer"):
        FDrop(most).counted()
