"""Dual states of sequences, and the Viterbi algorithm against enumeration."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp

from structinv.dual import chain_state, refusals
from structinv.dual.base import never
from structinv.dual.chain_state import ChainState
from structinv.dual.flow_state import FlowState
from structinv.oracles import Box, FDrop, FScale, Identity
from structinv.solvers import FrankWolfe, Gap, Status, SVMStruct, solve
from structinv.spaces import ExplicitSpace
from structinv.structures import Layout, Sequence
from structinv.terms import Objective, WorstCase

from ..covering import each_once
from ..problems import assert_brackets
from .cases import LENGTHS, state_of
from .cases import N_FEATURES as FEATURES
from .cases import N_LABELS as LABELS
from .cases import sequence_objective as objective
from .cases import sequence_optimum as optimum
from .cases import sequence_rows as rows

COST = np.array([[0.0, 1.0, 2.0], [0.5, 0.0, 1.0], [1.0, 1.5, 0.0]])
ALLOWED = {(0, 0), (0, 1), (1, 0), (1, 1), (1, 2), (2, 0), (2, 1)}
SETTINGS = {
    "plain": {},
    "intercept": {"intercept": True},
    "cost": {"cost": COST, "position_weight": np.linspace(0.0, 2.0, sum(LENGTHS))},
    "allowed": {"allowed": ALLOWED, "intercept": True},
    "some weigh nothing": {"weights": np.array([0.5, 0.0, 0.4, 0.0]), "cost": COST},
    "an unseen label": {"unseen": True},
    "one dropped": {"oracle": FDrop(1)},
    "two dropped": {"oracle": FDrop(2), "cost": COST, "allowed": ALLOWED},
    "all dropped": {"oracle": FDrop(6)},
    "two scaled": {"oracle": FScale(2, low=0.5, high=1.5)},
}
ORACLES = [Identity(), FDrop(1), FScale(2)]


class Mine(Sequence):
    """Sequences that answer for themselves, as third-party classes do."""

    def decode(self, potentials, pairwise, layout):
        return super().decode(potentials, pairwise, layout)


@pytest.mark.parametrize(
    ("name", "form"),
    [
        pytest.param(
            name,
            form,
            id=f"{name}-{kind}",
            # What "allowed" has as well needs no optimum of its own.
            marks=() if i % 2 == j and name != "intercept" else pytest.mark.slow,
        )
        for j, (kind, form) in enumerate([("dense", np.asarray), ("sparse", sp.csr_matrix)])
        for i, name in enumerate(SETTINGS)
    ],
)
def test_the_optimum_is_that_over_all_labelings(name, form):
    setting = SETTINGS[name]
    best, problem = optimum(**setting), objective(form=form, **setting)
    assert type(state_of(problem)) is (ChainState if "oracle" in setting else FlowState)
    found = solve(problem, FrankWolfe(), Gap(1e-8), random_state=0, check_always=True)
    assert found.status is Status.CONVERGED
    assert found.primal == pytest.approx(best, rel=1e-6)
    assert found.dual == pytest.approx(best, rel=1e-6)
    assert_brackets(found, best)


def long_ones(form=sp.csr_matrix, dtype=np.float64, oracle=None):
    """Sequences of up to 40 rows of which many are wrong at the optimum."""
    oracle = Identity() if oracle is None else oracle
    rng = np.random.default_rng(1)
    lengths = rng.integers(1, 40, size=30)
    y = rng.integers(LABELS, size=lengths.sum())
    X = np.eye(LABELS, FEATURES)[y] + 0.8 * rng.standard_normal((len(y), FEATURES))
    if not isinstance(oracle, Identity):
        # What one word says, others say as well.
        X = np.hstack([X, np.tile(np.eye(LABELS)[y], 3)])
    term = WorstCase(
        form(X.astype(dtype)), y, oracle, Sequence(), 0.2, layout=Layout.of_lengths(lengths)
    )
    still = isinstance(oracle, Identity)
    space = ExplicitSpace(X.shape[1], LABELS, intercept=still, n_pairwise=Sequence().n_pairwise(LABELS))
    return Objective(space, [term])


def test_sequences_with_many_labelings_take_few_sweeps():
    rng = np.random.default_rng(2)
    said = rng.integers(LABELS, size=600)
    y = np.where(rng.random(600) < 0.25, rng.integers(LABELS, size=600), said)
    X = np.hstack([np.eye(LABELS)[said], np.eye(100)[rng.integers(100, size=600)]])
    term = WorstCase(X, y, Identity(), Sequence(), 0.3, layout=Layout.of_lengths([20] * 30))
    space = ExplicitSpace(X.shape[1], LABELS, n_pairwise=Sequence().n_pairwise(LABELS))
    found = solve(Objective(space, [term]), FrankWolfe(), Gap(1e-3), random_state=0)
    assert found.status is Status.CONVERGED
    assert found.iterations <= 45
    assert found.dual_variables[0]["labelings.counts"].mean() > 10


def test_a_step_between_two_labels_of_a_single_row_leaves_no_gap():
    X, y = rows(unseen=True)
    layout = Layout.of_lengths(np.ones(len(y), dtype=int))
    term = WorstCase(X, y, Identity(), Sequence(), 5.0, [0, 1], layout=layout)
    space = ExplicitSpace(FEATURES, 2, n_pairwise=Sequence().n_pairwise(2))
    state, f = state_of(Objective(space, [term])), space.zeros()
    assert type(state) is FlowState
    state.sweep(f)
    moved = False
    for _ in range(3):
        for row in range(len(y)):
            for _ in range(2):
                state.visit(f, np.array([row]), never, again=True)
                moved = moved or state.gaps[row] > 1e-3
            assert state.gaps[row] <= 1e-9
    assert moved


def started(problem, solution):
    """A state that starts from a solution, and its part of f."""
    state = state_of(problem)
    state.start(solution.dual_variables[0], solution.f)
    return state, state.combination()


@pytest.mark.parametrize(
    ("kept", "oracle"),
    [*(("here", oracle) for oracle in ORACLES), ("pickled", FDrop(1))],
    ids=str,
)
def test_a_solution_starts_its_own_problem(kept, oracle):
    problem = long_ones(oracle=oracle)
    earlier = start = solve(problem, FrankWolfe(), Gap(1e-5), random_state=0)
    if kept == "pickled":
        start = pickle.loads(pickle.dumps(start))
    state, g = started(problem, start)
    assert state.offset - 0.5 * problem.space.dot(g, g) >= earlier.dual - 1e-10
    assert np.linalg.norm(g) > 0.1
    again = solve(long_ones(oracle=oracle), FrankWolfe(), Gap(1e-5), warm_start=start, random_state=0)
    assert again.iterations == 0


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize("solver", [SVMStruct(), FrankWolfe()], ids=repr)
def test_other_states_start_with_valid_bounds(solver, form):
    here, there = objective(form=form), objective(form=form, kind=Mine)
    best = optimum()
    later = solve(here, FrankWolfe(), Gap(1e-4), random_state=0)
    for this in (here, there):
        again = solve(this, solver, Gap(1e-7), warm_start=later, random_state=0)
        assert again.primal == pytest.approx(best, rel=1e-6)
        assert_brackets(again, best)


@pytest.mark.parametrize(
    ("there", "here"),
    each_once([FDrop(1), FDrop(3), Box(0.1)], [*ORACLES, FScale(3, low=0.7)]),
    ids=repr,
)
def test_labelings_of_other_perturbations_are_a_warm_start(here, there):
    best = optimum(oracle=None if isinstance(here, Identity) else here)
    earlier = solve(objective(oracle=there), FrankWolfe(), Gap(1e-4), random_state=0)
    problem = objective(oracle=here)
    state, f = started(problem, earlier)
    assert state.offset - 0.5 * problem.space.dot(f, f) <= best * (1 + 1e-7)
    found = solve(problem, FrankWolfe(), Gap(1e-7), warm_start=earlier, random_state=0)
    assert found.primal == pytest.approx(best, rel=1e-6)
    assert_brackets(found, best)


def test_edits_of_shorter_rows_and_repeated_edits_are_left_out():
    problem = long_ones(oracle=FDrop(2))
    arrays = solve(problem, FrankWolfe(), Gap(1e-3), random_state=0).dual_variables[0]
    edits, f = arrays["positions.edits"], problem.space.zeros()
    found = []
    for numbers in ([2 * problem.terms[0].X.shape[1] + 1, -1], [0, 0], [1, 2], [0, 1], [1, 0]):
        edits[:] = numbers
        state = state_of(problem)
        state.start(arrays, f)
        found.append(state.combination())
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[2], found[4])
    assert np.any(found[2] != found[1])


def test_forbidden_labelings_are_left_out():
    setting = SETTINGS["allowed"]
    earlier = solve(objective(intercept=True), FrankWolfe(), Gap(1e-6), random_state=0)
    problem = objective(**setting)
    bound, arrays = problem.terms[0].bound_structure, earlier.dual_variables[0]
    blocks = np.repeat(np.arange(len(LENGTHS)), arrays["labelings.counts"])
    layout = bound.layout.take(blocks)
    assert not np.all(bound.structure.allows(arrays["positions.labels"], layout, LABELS))
    found = solve(problem, FrankWolfe(), Gap(1e-7), warm_start=earlier, random_state=0)
    best = optimum(**setting)
    assert found.primal == pytest.approx(best, rel=1e-6)
    assert_brackets(found, best)


def test_true_labelings_have_no_dual_variable():
    problem = objective()
    state, codes = state_of(problem), problem.terms[0].bound_structure.codes
    arrays = {
        **state.arrays(),
        "labelings.counts": np.array([1, 0, 0, 0]),
        "labelings.alphas": np.ones(1),
        "positions.counts": np.array([LENGTHS[0], 0, 0, 0]),
        "positions.labels": codes[: LENGTHS[0]],
        "positions.edits": np.zeros((LENGTHS[0], 0), dtype=int),
    }
    state.start(arrays, problem.space.zeros())
    assert state.offset == 0
    assert not np.any(state.combination())


def test_unsupported_problems_have_a_reason(monkeypatch):
    def reason(problem, plane_tol=0.0):
        return refusals(problem.terms[0], problem.space, plane_tol)["chains"]

    assert reason(objective(kind=Mine)) == "the structure is not a sequence of labels"
    assert reason(objective(oracle=Box(0.1))) == "Box does not only multiply features by factors"
    with monkeypatch.context() as fewer:
        fewer.setattr(chain_state, "MOST_EDITS", 1)
        assert reason(objective(oracle=FDrop(2))) == "more than 1 features of a row may be edited"
    assert "constant" in reason(objective(oracle=FDrop(1), intercept=True))
    assert "plane_tol" in reason(objective(), plane_tol=0.1)
    assert "chains" not in refusals(objective().terms[0], objective().space)
