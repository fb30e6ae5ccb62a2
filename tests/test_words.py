"""Word oracles beyond the contract: many words, threads, values without points, subclasses."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats

from structinv import InvariantLinearSVC, matrices
from structinv.matrices import ALL_ROWS, row_dots, row_sizes
from structinv.oracles import FDrop, FScale, check_oracle, law_of
from structinv.oracles.base import BoundOracle, Support

ORACLES = [FScale(3), FScale(100, 0.2, 3.0), FDrop(1), FDrop(70), FScale(2, 1.0, 4.0), FScale(0)]


def problem(n=40, d=300, dtype=np.float64, seed=0):
    """Sparse rows of many lengths, one of them empty, small counts so that gains tie."""
    rng = np.random.default_rng(seed)
    X = rng.poisson(1.0, (n, d)) * (rng.random((n, d)) < rng.random((n, 1)))
    X[3] = 0
    V = np.round(rng.standard_normal((2, d)), 1)
    return sp.csr_matrix(X.astype(dtype)), V, rng.integers(2, size=n)


def best_by_sorting(oracle, X, V, assign):
    """The largest <v, z>: sort the gains of every row."""
    low, high = oracle.factors
    values = []
    for x, v in zip(X.toarray(), V[assign], strict=True):
        gains = np.sort(np.maximum((low - 1) * v * x, (high - 1) * v * x))[::-1]
        values.append(v @ x + np.sum(np.maximum(gains[: oracle.max_changes], 0.0)))
    return np.array(values)


@pytest.mark.parametrize("oracle", ORACLES, ids=str)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_values_without_points_are_those_of_the_points(oracle, dtype):
    X, V, assign = problem(dtype=dtype)
    bound = oracle.bind(X)
    points = bound.support(ALL_ROWS, V, assign).points
    values, sizes = bound.support(ALL_ROWS, V, assign).maxima()
    tolerance = 1e-10 if dtype == np.float64 else 1e-4
    np.testing.assert_allclose(values, best_by_sorting(oracle, X, V, assign), atol=tolerance)
    np.testing.assert_allclose(values, row_dots(points, V, assign), atol=tolerance)
    assert np.all(sizes >= row_sizes(points, np.abs(V), assign) - tolerance)
    some = np.array([5, 3, 11])
    few, _ = bound.support(some, V, assign[some]).maxima()
    np.testing.assert_allclose(few, values[some], atol=tolerance)


@pytest.mark.parametrize("oracle", ORACLES, ids=str)
def test_threads_change_nothing(oracle, monkeypatch):
    X, V, assign = problem()
    bound = oracle.bind(X)
    alone = bound.support(ALL_ROWS, V, assign).points, bound.support(ALL_ROWS, V, assign).maxima()
    monkeypatch.setattr(matrices, "VALUES_A_THREAD", 1)
    monkeypatch.setattr(matrices, "allowed_threads", lambda: 3)
    together = bound.support(ALL_ROWS, V, assign).points, bound.support(ALL_ROWS, V, assign).maxima()
    np.testing.assert_array_equal(alone[0].data, together[0].data)
    np.testing.assert_array_equal(alone[1], together[1])


class OnlyRarely(FDrop):
    """A set of its own: only rows with an even sum may lose words."""

    def support(self, X, V, assign, cost=None):
        """Leave rows with an odd sum alone."""
        answer = super().support(X, V, assign)
        even = np.asarray(X.sum(axis=1)).ravel() % 2 == 0
        return type(answer)(matrices.interleave(even, answer.points[even], X[~even]))


def test_a_subclass_with_its_own_answer_has_no_hull_of_another_set():
    X, V, assign = problem(n=30, d=40)
    oracle = OnlyRarely(2)
    bound = oracle.bind(X)
    assert type(bound) is BoundOracle
    assert bound.hull(np.ones(30), np.ones(30), False) is None
    assert type(bound.support(ALL_ROWS, V, assign)) is Support
    y = np.arange(30) % 2
    found = InvariantLinearSVC(oracle, C=0.1, tol=1e-6, random_state=0).fit(X, y).solution_
    other = InvariantLinearSVC(oracle, C=0.1, tol=1e-6, solver="bmrm").fit(X, y).solution_
    assert found.primal == pytest.approx(other.primal, rel=1e-5)


class TestDistributionsOfFactors:
    def test_lognormal_factors_are_cut_off_at_both_ends(self):
        oracle = FScale(4000, 0.5, 4.0, distribution="lognormal", spread=0.8)
        members = oracle.sample(np.ones((1, 4000)), 40, np.random.default_rng(0))[0]
        most_edited = members[np.argmax(np.count_nonzero(members != 1.0, axis=1))]
        logs = np.log(most_edited[most_edited != 1.0])
        ends = np.log(0.5) / 0.8, np.log(4.0) / 0.8
        assert len(logs) > 3000
        assert stats.kstest(logs, stats.truncnorm(*ends, scale=0.8).cdf).pvalue > 1e-3

    def test_the_set_does_not_depend_on_it(self):
        X, V, assign = problem()
        oracle = FScale(3, 0.2, 3.0, distribution="lognormal", spread=0.1)
        check_oracle(oracle, X)
        points = oracle.support(X, V, assign).points
        wanted = FScale(3, 0.2, 3.0).support(X, V, assign).points
        np.testing.assert_array_equal(points.toarray(), wanted.toarray())

    def test_uniform_draws_are_what_they_were(self):
        X, _, _ = problem()
        draws = [
            oracle.sample(X, 5, np.random.default_rng(1)) for oracle in (FScale(3, 0.0, 1.0), FDrop(3))
        ]
        np.testing.assert_array_equal(*draws)

    @pytest.mark.parametrize(("low", "high"), [(1.0, 1.0), (0.5, 1.0), (1.0, 2.0)])
    def test_ends_at_no_change(self, low, high):
        oracle = FScale(5, low, high, distribution="lognormal", spread=0.3)
        members = oracle.sample(np.ones((1, 9)), 50, np.random.default_rng(0))
        assert np.all((members >= low) & (members <= high))

    def test_whole_counts_are_changed_by_fractions(self):
        counts = np.full((2, 6), 3)
        for oracle in (FScale(6), FDrop(6)):
            members = oracle.sample(counts, 4, np.random.default_rng(0))
            wanted = oracle.sample(counts.astype(float), 4, np.random.default_rng(0))
            np.testing.assert_array_equal(members, wanted)

    @pytest.mark.parametrize(
        ("oracle", "error", "message"),
        [
            (FScale(1, 0.0, distribution="lognormal", spread=1.0), ValueError, "low must be above 0"),
            (FScale(1, distribution="lognormal"), ValueError, "spread must be a number above 0"),
            (FScale(1, distribution="lognormal", spread=0.0), ValueError, "spread must be above 0"),
            (FScale(1, distribution="lognormal", spread=-1.0), ValueError, "spread must be above 0"),
            (FScale(1, distribution="lognormal", spread=np.nan), ValueError, "spread must be finite"),
            (FScale(1, distribution="lognormal", spread="1"), TypeError, "spread must be a real number"),
            (FScale(1, distribution="normal", spread=1.0), ValueError, "distribution of FScale"),
        ],
    )
    def test_what_is_no_distribution_is_refused_by_name(self, oracle, error, message):
        for ask in (lambda: oracle.bind(np.ones((1, 3))), lambda: law_of(oracle, 3, 2)):
            with pytest.raises(error, match=message):
                ask()
