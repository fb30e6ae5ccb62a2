"""The loop of solvers: why a run ends, and with which bounds."""

import warnings
from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from structinv import (
    InvariantLinearSVC,
)
from structinv.losses import Squared
from structinv.oracles import Box, Ellipsoid, FDrop, Identity
from structinv.solvers import (
    BMRM,
    REGISTRY,
    FrankWolfe,
    Gap,
    Iterations,
    OracleCalls,
    Pegasos,
    Seconds,
    Status,
    SVMStruct,
    solve,
)
from structinv.spaces import ExplicitSpace
from structinv.structures import Binary
from structinv.terms import Objective, Penalty, WorstCase

from ..covering import each_once
from ..optima import optimum, with_penalty
from ..oracles.cases import D
from ..problems import CASE, SETTING, LinearFunctionals, assert_brackets, objective, two_classes
from .cases import WORD_LABELS, WORD_ROWS, data, every_solver, tolerance_of

# --- the contract


def penalized(factor=1.0):
    family = LinearFunctionals(PENALIZED)
    return objective(
        CASE["box"].oracle, factor=factor, penalties=[Penalty(family, Squared(), 2.0 * factor)]
    )


PENALIZED = np.array([[1.0, -1.0, 0.0, 0.0, 0.0], [0.0, 2.0, 1.0, 1.0, 0.0]])
PROBLEMS = {
    "two classes": (lambda factor=1.0: objective(FDrop(2), factor=factor), ("fdrop", "binary")),
    "several classes": (
        lambda factor=1.0: objective(CASE["ellipsoid"].oracle, SETTING["multiclass"], factor=factor),
        ("ellipsoid", "multiclass"),
    ),
    "penalty": (
        penalized,
        ("box", "binary", "twice squared", lambda w: 2.0 * cp.sum_squares(PENALIZED @ w)),
    ),
}


def numbers(solution):
    """All numbers of a solution."""
    return [solution.f.copy()] + [
        array.copy() for arrays in solution.dual_variables for array in arrays.values()
    ]


@every_solver
@pytest.mark.parametrize("kind", PROBLEMS)
def test_solutions_are_proven_repeatable_and_left_as_they_are(kind, name):
    make, asked = PROBLEMS[kind]
    solver, tolerance = REGISTRY[name](), tolerance_of(name)
    best = optimum(*asked) if len(asked) == 2 else with_penalty(*asked)

    def run(solver, gap=tolerance, factor=1.0, **start):
        return solve(make(factor), solver, Gap(gap) | Iterations(5000), random_state=0, **start)

    solution = run(solver)
    assert_brackets(solution, best)
    assert solution.status is Status.CONVERGED
    assert solution.primal <= best * (1 + tolerance)
    before = numbers(solution)
    again = run(solver, 1.01 * tolerance, warm_start=solution)
    assert_brackets(again, best)
    assert again.status is Status.CONVERGED
    assert again.history[0].primal <= solution.primal * (1 + 1e-9)
    if name == "frank_wolfe" and kind != "several classes":
        assert again.iterations == 0
    run(solver, 1e-2, factor=2.0, warm_start=solution)
    for old, new in zip(before, numbers(solution), strict=True):
        np.testing.assert_array_equal(old, new)
    # The solver that has run, or its clone.
    same = run(solver if kind == "penalty" else clone(solver))
    np.testing.assert_array_equal(same.f, solution.f)
    assert same.dual == solution.dual


class NeverImproves(SVMStruct):
    def step(self, objective, state):
        return None


class NotFinite(FrankWolfe):
    def bounds(self, objective, state):
        return replace(super().bounds(objective, state), f=np.full(objective.space.size, np.nan))


# --- why a run ends


@every_solver
def test_limits_end_a_run_with_bounds(name):
    best = optimum("fdrop", "binary")
    for stop, status in [
        (Iterations(3), Status.ITERATION_LIMIT),
        (OracleCalls(40), Status.ORACLE_CALL_LIMIT),
        (OracleCalls(0), Status.ORACLE_CALL_LIMIT),
        (Iterations(0), Status.ITERATION_LIMIT),
        (Seconds(0.0), Status.TIME_LIMIT),
        (Gap(0) | Iterations(3), Status.ITERATION_LIMIT),
    ]:
        problem = objective(FDrop(2))
        solution = solve(problem, REGISTRY[name](), stop, random_state=0)
        assert solution.status is status
        assert_brackets(solution, best)
        assert solution.gap == solution.primal - solution.dual
        assert solution.oracle_calls == problem.oracle_calls
        if status is Status.ITERATION_LIMIT:
            assert solution.iterations == (3 if stop != Iterations(0) else 1)
        if stop == OracleCalls(40):
            assert 40 <= solution.history[-1].oracle_calls < 40 + 5 * 9


@every_solver
def test_history_counts_up_and_bounds_close_in(name):
    solution = solve(objective(FDrop(2)), REGISTRY[name](), Gap(1e-2), random_state=0)
    for earlier, later in zip(solution.history, solution.history[1:], strict=False):
        assert later.iteration > earlier.iteration
        assert later.oracle_calls > earlier.oracle_calls
        assert later.seconds >= earlier.seconds
        assert later.primal <= earlier.primal
        assert later.dual >= earlier.dual
    assert all(type(record.dual) is float for record in solution.history)


def test_every_status_has_advice():
    assert all(len(status.advice) > 20 for status in Status)


@pytest.mark.parametrize(
    ("solver", "message"),
    [
        (SVMStruct(plane_tol=-1.0), "plane_tol must be a number of at least 0"),
        (SVMStruct(plane_tol=np.nan), "plane_tol must be a number of at least 0"),
        (SVMStruct(max_idle=0), "max_idle must be an integer of at least 1"),
        (SVMStruct(max_idle=2.5), "max_idle must be an integer of at least 1"),
        (BMRM(max_idle=0), "max_idle must be an integer of at least 1"),
        (Pegasos(batch_size=0), "batch_size must be an integer of at least 1"),
        (Pegasos(batch_size=1.5), "batch_size must be an integer of at least 1"),
    ],
    ids=repr,
)
def test_parameters_are_checked_before_any_work(solver, message):
    problem = objective(FDrop(2))
    with pytest.raises((TypeError, ValueError), match=message):
        solve(problem, solver, random_state=0)
    assert problem.oracle_calls == 0


def watch(progress):
    return progress.iteration == 3


def interrupt_third(progress):
    if progress.iteration == 3:
        raise KeyboardInterrupt


@every_solver
@pytest.mark.parametrize("callback", [watch, interrupt_third])
def test_a_callback_or_ctrl_c_ends_a_run_with_the_best_function(name, callback):
    seen = []
    callbacks = (seen.append, callback)
    solution = solve(objective(FDrop(2)), REGISTRY[name](), Gap(0), callbacks=callbacks, random_state=0)
    assert solution.status is Status.INTERRUPTED
    assert [progress.iteration for progress in seen] == [1, 2, 3]
    assert np.all(np.isfinite(solution.f))
    assert_brackets(solution, optimum("fdrop", "binary"))


@pytest.mark.parametrize(
    ("name", "oracle"), each_once(sorted(REGISTRY), [FDrop(2), Box(0.3), Ellipsoid(np.eye(D))]), ids=str
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_overflow_leaves_a_finite_function(oracle, name):
    where = SETTING["binary"]
    term = WorstCase(1e200 * where.X, where.y, oracle, Binary())
    problem = Objective(ExplicitSpace(D), [term])
    solution = solve(problem, REGISTRY[name](), Gap(1e-3) | Iterations(20), random_state=0)
    assert solution.status is not Status.CONVERGED
    assert np.all(np.isfinite(solution.f))
    assert solution.dual <= solution.primal <= 9.0


def interrupt(progress):
    raise KeyboardInterrupt


def test_ctrl_c_is_the_reason_even_if_the_gap_is_small():
    solution = solve(objective(FDrop(2)), FrankWolfe(), Gap(0.9), callbacks=(interrupt,), random_state=0)
    assert solution.relative_gap <= 0.9
    assert solution.status is Status.INTERRUPTED


def test_nan_ends_a_run():
    solution = solve(objective(FDrop(2)), NotFinite(), random_state=0)
    assert solution.status is Status.NOT_FINITE
    assert np.all(np.isfinite(solution.f))
    assert solution.primal == pytest.approx(2.925)


def test_a_run_without_progress_stalls():
    solution = solve(objective(FDrop(2)), NeverImproves(), Gap(1e-3), random_state=0)
    assert solution.status is Status.STALLED
    assert solution.iterations <= NeverImproves.min_iterations


def test_a_curve_has_a_record_for_every_step():
    found = solve(objective(FDrop(2)), FrankWolfe(), Gap(1e-6), random_state=0, check_always=True)
    assert [record.iteration for record in found.history] == list(range(1, found.iterations + 1))
    usual = solve(objective(FDrop(2)), FrankWolfe(), Gap(1e-6), random_state=0)
    assert len(usual.history) < len(found.history)
    assert usual.iterations == pytest.approx(found.iterations, abs=10)


class OneStep(FrankWolfe):
    """Does nothing after its first step, so that the gap over what oracles find stays open."""

    min_iterations = 8

    def step(self, objective, state):
        first = state.parts[0].offset == 0
        return super().step(objective, state) if first else None


class WithoutBounds(FDrop):
    def support(self, X, V, assign, cost=None):
        answer = super().support(X, V, assign, cost)
        return replace(answer, upper=np.full(len(assign), np.inf))


def test_a_stalled_run_without_upper_bounds_is_oracle_too_coarse():
    problem = objective(WithoutBounds(1))
    solution = solve(problem, OneStep(), Gap(1e-6), random_state=0)
    assert solution.primal == np.inf
    assert solution.history[-1].dual < problem.value(solution.f).attained
    assert solution.status is Status.ORACLE_TOO_COARSE
    assert "exact oracle" in solution.status.advice
    bounded = solve(objective(FDrop(1)), OneStep(), Gap(1e-6), random_state=0)
    assert bounded.status is Status.STALLED


def test_convergence_at_once_is_converged():
    X, y = two_classes()
    problem = Objective(ExplicitSpace(12), [WorstCase(X, y, Identity(), Binary(), 30.0)])
    solution = solve(problem, FrankWolfe(plane_tol=1e-9), Gap(1e-6), random_state=0)
    assert solution.status is Status.CONVERGED


LINEAR_SOLVERS = ["auto", *(name for name in REGISTRY if name != "representer")]
# Of several classes compiled steps of "frank_wolfe" see no overflow: it stalls, and says that.
SOLVERS = [(name, 2) for name in LINEAR_SOLVERS]
SOLVERS += [(name, 3) for name in LINEAR_SOLVERS if name != "frank_wolfe"]


@pytest.mark.parametrize(
    ("solver", "n_classes", "oracle"),
    [(*each, (FDrop(2), Box(1.0))[i % 2]) for i, each in enumerate(SOLVERS)],
    ids=str,
)
def test_rows_whose_squares_overflow_end_with_one_warning_that_says_so(solver, oracle, n_classes):
    y = WORD_LABELS if n_classes == 2 else np.arange(60) % 3
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = InvariantLinearSVC(oracle, solver=solver, random_state=0).fit(1e200 * WORD_ROWS, y)
    assert [each.category for each in caught] == [ConvergenceWarning]
    assert "'not finite'" in str(caught[0].message)
    assert model.solution_.status is Status.NOT_FINITE


def test_warnings_of_others_come_back_after_a_fit():
    before = np.geterr()
    with pytest.warns(ConvergenceWarning):
        InvariantLinearSVC(random_state=0).fit(1e200 * WORD_ROWS, WORD_LABELS)
    assert np.geterr() == before


def rows_objective(oracle, X, y):
    return Objective(ExplicitSpace(X.shape[1]), [WorstCase(X, y, oracle, Binary(), 1.0)])


class Overstates(SVMStruct):
    def bounds(self, rows_objective, state):
        found = super().bounds(rows_objective, state)
        return replace(found, dual=found.dual + 1e4)


def test_bounds_that_contradict_each_other_are_not_called_converged():
    found = solve(rows_objective(Identity(), *data()), Overstates(), Gap(1e-6), random_state=0)
    assert found.gap < 0
    assert found.status is Status.INCONSISTENT
    assert "check_oracle" in found.status.advice


class Pessimistic(FrankWolfe):
    """Estimates three times the gap after each step."""

    def step(self, objective, state):
        super().step(objective, state)
        bounds = self.bounds(objective, state)
        upper = objective.value(bounds.f).upper
        self.gaps_ = [*getattr(self, "gaps_", []), (upper - bounds.dual) / upper]
        return 3.0 * (upper - bounds.dual)


def test_a_small_gap_is_noticed_although_estimates_are_larger():
    this, solver = objective(FDrop(2)), Pessimistic()
    solve(this, solver, Gap(1e-7), random_state=0)
    gap = solver.gaps_[3]
    assert gap < min(solver.gaps_[:3])
    found = solve(this, Pessimistic(), Gap(1.1 * gap), random_state=0)
    assert found.iterations == 4
