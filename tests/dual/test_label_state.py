"""Dual states of joint losses of several labels, on rows that stay or whose words change."""

import numpy as np
import pytest
import scipy.sparse as sp

from structinv.dual import dual_state, label_state
from structinv.dual.base import never
from structinv.dual.label_state import LabelState, WordLabelState
from structinv.dual.word_state import WordState
from structinv.oracles import FDrop, FScale, Identity
from structinv.oracles.query import Violations
from structinv.oracles.third_party import bind
from structinv.oracles.words.bound_edits import RowEdits
from structinv.solvers import BMRM, FrankWolfe, Gap, Status, solve
from structinv.spaces import ExplicitSpace
from structinv.spaces.explicit_space import TensorRows
from structinv.structures.classes import Multiclass
from structinv.terms import Objective, WorstCase
from structinv.utils.matrices import csr

from ..problems import SETTING, objective
from .cases import state_of, swept

CASES = {
    "identity": Identity(),
    "fdrop": FDrop(2),
    "fscale": FScale(2, 0.5, 1.5),
    "fscale-up": FScale(1, 1.0, 3.0),
    "only_for": FScale(2, 0.5, 1.5).only_for([0, 3]),
}


def problem(oracle, *, n=40, d=30, n_labels=6, C=1.0, intercept=True, dense=False, seed=0):
    """Rows of words with negative entries, zeros stored and empty rows, and costs that differ."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_labels
    X = (rng.standard_normal((n_labels, d))[y] + rng.standard_normal((n, d))) * (
        rng.random((n, d)) < 0.4
    )
    X[3] = 0.0
    cost = rng.uniform(0.3, 2.0, size=(n_labels, n_labels))
    np.fill_diagonal(cost, 0.0)
    weights = C * rng.uniform(0.2, 1.0, size=n)
    weights[5] = 0.0
    rows = X if dense else sp.csr_matrix(X)
    term = WorstCase(rows, y, oracle, Multiclass(), weights, cost=cost)
    return Objective(ExplicitSpace(d, n_labels, intercept=intercept), [term])


@pytest.mark.parametrize("name", CASES)
def test_gaps_are_the_loss_less_the_averaged_plane(name):
    this = problem(CASES[name])
    state, f = swept(this)
    g = f.copy()
    # Rows one by one, each at the weights before it has moved.
    gaps = np.zeros(len(state.gaps))
    for row in range(len(gaps)):
        fresh, _ = swept(this)
        fresh.visit(g.copy(), np.array([row]), never, again=False)
        gaps[row] = fresh.gaps[row]
    dual = state.offset - 0.5 * this.space.dot(f, f)
    assert gaps.sum() == pytest.approx(this.value(f).upper - dual, rel=1e-8, abs=1e-10)


@pytest.mark.parametrize("every_label", [True, False])
def test_a_step_on_an_unperturbed_row_leaves_no_gap(every_label):
    # Few enough labels that all may join the active set in one update.
    this = problem(CASES["identity"])
    state, f = swept(this, 1)
    for row in range(40):
        before = state.offset - 0.5 * this.space.dot(f, f)
        for _ in range(2):
            state.visit(f, np.array([row]), never, again=not every_label)
        after = state.offset - 0.5 * this.space.dot(f, f)
        assert state.gaps[row] <= 1e-9
        assert after >= before - 1e-12 * (1.0 + abs(before))


@pytest.mark.parametrize("name", CASES)
def test_sparse_rows_take_the_steps_of_dense_ones(name):
    (state, f), (other, g) = swept(problem(CASES[name])), swept(problem(CASES[name], dense=True))
    np.testing.assert_array_equal(f, g)
    np.testing.assert_array_equal(state.gaps, other.gaps)


@pytest.mark.parametrize("name", CASES)
def test_rows_of_many_labels_find_room_and_few_labels_are_left_out_rightly(name):
    this = problem(CASES[name], n=150, d=20, n_labels=40, C=0.02)
    found = solve(this, FrankWolfe(), Gap(1e-3), random_state=0)
    assert found.status is Status.CONVERGED
    upper, attained = this.terms[0].total(this.space, found.f)
    half = 0.5 * this.space.dot(found.f, found.f)
    assert (found.primal, found.primal) == pytest.approx((half + upper, half + attained), rel=1e-9)
    planes = solve(this, BMRM(), Gap(1e-2), random_state=0)
    assert planes.dual <= found.primal * (1 + 1e-9)
    assert found.dual <= planes.primal * (1 + 1e-9)


@pytest.mark.parametrize("name", ["fdrop", "fscale", "fscale-up"])
def test_pools_that_grow_keep_all_variables(name, monkeypatch):
    monkeypatch.setattr(label_state, "PAIRS_OF_A_ROW", 0)
    monkeypatch.setattr(label_state, "WORDS_OF_A_PAIR", 1)
    this = problem(CASES[name], n=600, d=20, n_labels=20)
    state, f = swept(this)
    assert state.deviations.words.size > state_of(this).deviations.words.size
    np.testing.assert_allclose(state.combination(), f, atol=1e-11)
    again = state_of(this)
    again.start(state.arrays(), f)
    np.testing.assert_allclose(again.combination(), f, atol=1e-11)
    assert again.offset == pytest.approx(state.offset, rel=1e-12)


def test_two_classes_and_slack_rescaling_have_their_own_states():
    assert not isinstance(state_of(objective(FDrop(1), SETTING["multiclass-slack"])), LabelState)
    assert isinstance(state_of(objective(FDrop(1), SETTING["binary"])), WordState)


class Wild(FDrop):
    """A set of its own."""

    def support(self, X, V, assign, cost=None):
        return super().support(X, V, assign, cost)


def test_a_subclass_with_its_own_answer_has_no_state_of_another_set():
    assert not isinstance(state_of(problem(Wild(1))), LabelState)
    assert not isinstance(state_of(problem(FDrop(1).discounted([1.0, 0.5]))), LabelState)


class Careless(FDrop):
    """Binds to rows as its parent does."""

    def bind(self, X, y=None):
        return FDrop(self.max_changes).bind(X, y)


def test_described_sets_are_those_of_classes_of_this_package():
    X = sp.csr_matrix(np.eye(3))
    assert isinstance(bind(FDrop(1), X).edits(), RowEdits)
    assert bind(Careless(1), X).edits() is None


def test_words_of_rows_with_little_of_the_gap_wait_and_their_gaps_are_known():
    this, row = problem(CASES["fdrop"]), np.array([0])

    def visit(gaps, every_label):
        state, f = swept(this, 1)
        before = f.copy()
        state.gaps[:] = gaps
        state.visit(f, row, never, again=not every_label)
        return state.gaps[0], not np.array_equal(f, before)

    gap, moved = visit(np.zeros(40), True)
    assert gap > 0
    assert moved
    assert visit(np.full(40, 20.0 * gap), True) == (gap, False)
    assert visit(np.full(40, 20.0 * gap), False)[1]


def test_memory_grows_with_pairs_that_have_a_level_and_not_with_labels():
    rng = np.random.default_rng(0)
    n, d, n_labels = 400, 500, 200
    y = rng.integers(n_labels, size=n)
    X = sp.random(n, d, density=0.05, random_state=0, format="csr")
    for oracle in (Identity(), FDrop(3)):
        space = ExplicitSpace(d, n_labels)
        term = WorstCase(X, y, oracle, Multiclass(), 1.0, np.arange(n_labels))
        state, f = dual_state(term, space, rng), space.zeros()
        for _ in range(5):
            state.sweep(f)
        kept = sum(part.size for part in state.pairs)
        if isinstance(state, WordLabelState):
            kept += sum(part.size for part in state.deviations)
        arrays = state.arrays()
        n_pairs = len(arrays["pairs.taus"])
        assert kept <= 8 * (n_pairs * X.nnz / n + n_pairs + 3 * n) + 40_000


def test_rows_with_sparse_coefficients_are_those_with_dense_ones():
    rng = np.random.default_rng(0)
    points = sp.random(7, 5, density=0.5, random_state=1, format="csr")
    coefficients = rng.standard_normal((7, 4)) * (rng.random((7, 4)) < 0.5)
    start, pairwise = np.array([0, 2, 3, 7]), rng.standard_normal((3, 2))
    for kind in (points, points.toarray()):
        dense = TensorRows(kind, coefficients, start, pairwise)
        sparse = TensorRows(kind, sp.csr_matrix(coefficients), start, pairwise)
        f, weights = rng.standard_normal(dense.shape[1]), rng.standard_normal(3)
        assert sparse.shape == dense.shape
        np.testing.assert_allclose(sparse.toarray(), dense.toarray())
        np.testing.assert_allclose(sparse.products(f), dense.products(f))
        np.testing.assert_allclose(sparse.combination(weights), dense.combination(weights))
        np.testing.assert_allclose(sparse.gram(dense), dense.gram(dense))
        np.testing.assert_allclose(sparse.gram(sparse), dense.gram(dense))
        np.testing.assert_allclose(sparse[[2, 0]].toarray(), dense.toarray()[[2, 0]])
        np.testing.assert_allclose(sparse.mix(weights).toarray(), dense.mix(weights).toarray())
        joined = TensorRows.join([sparse, dense])
        np.testing.assert_allclose(joined.toarray(), np.tile(dense.toarray(), (2, 1)))


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_dense_rows_as_sparse_ones(dtype):
    X = (5 * np.random.default_rng(0).standard_normal((6, 4))).astype(dtype)
    X[X < 0] = 0
    X[2] = 0
    for given in (X, np.asfortranarray(X), X[:, ::2], X[:0]):
        rows = csr(given)
        assert rows.has_canonical_format
        assert rows.dtype == (np.float64 if dtype == np.int64 else dtype)
        np.testing.assert_array_equal(rows.toarray(), given)


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_losses_of_all_labels_at_once_are_those_label_by_label(name, dense):
    this = problem(CASES[name], dense=dense)
    term, space = this.terms[0], this.space
    f = np.random.default_rng(2).standard_normal(space.size)
    upper = np.concatenate([term.planes(space, f, np.array([row])).upper for row in range(40)])
    np.testing.assert_allclose(term.values(space, f)[0], upper, rtol=1e-11)


class Hopeful(FDrop):
    """Says that no label comes near the true one."""

    def bind(self, X, y=None):
        bound = super().bind(X, y)
        bound.worst = lambda rows, question: Violations(
            *-np.ones((3, *question.competitors.costs.shape))
        )
        return bound


def test_classes_of_others_are_asked_for_their_support_alone():
    f = np.random.default_rng(0).standard_normal(problem(FDrop(1)).space.size)
    found, own = (problem(oracle).value(f) for oracle in (Hopeful(1), FDrop(1)))
    assert found.upper == pytest.approx(own.upper, rel=1e-12)
