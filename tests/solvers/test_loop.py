"""The loop of solvers: why a run ends, and with which bounds; Ctrl-C."""

import signal
import threading
import warnings
from dataclasses import replace
from functools import cache

import cvxpy as cp
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.utils.validation import check_is_fitted

from structinv import (
    InvariantLinearSVC,
    InvariantSVC,
    LapSVC,
    RepresenterClassifier,
    RepresenterRegressor,
    VirtualSupportVectorSVC,
    VirtualSVC,
)
from structinv.losses import Squared
from structinv.oracles import Box, Ellipsoid, FDrop, FiniteOracle, Identity, Support
from structinv.oracles.base import InvarianceOracle
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
from structinv.solvers.loop import interrupts
from structinv.spaces import ExplicitSpace
from structinv.structures import Binary
from structinv.terms import Objective, Penalty, WorstCase

from ..covering import each_once, pairs
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
    run(solver, factor=2.0, warm_start=solution)
    for old, new in zip(before, numbers(solution), strict=True):
        np.testing.assert_array_equal(old, new)
    for each in (solver, clone(solver)):
        same = run(each)
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


# --- Ctrl-C


def rows(n=60, d=8, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    return rng.standard_normal((n, d)) + 0.5 * y[:, None], y


def press_ctrl_c():
    signal.raise_signal(signal.SIGINT)


class Pressing(InvarianceOracle):
    """`Box` with a user who presses Ctrl-C when it is asked for the n-th time, and each time after."""

    asked = 0

    def __init__(self, radius=0.1, turn=0, times=1):
        self.radius = radius
        self.turn = turn
        self.times = times

    def support(self, X, V, assign, cost=None):
        Pressing.asked += 1
        if self.turn and self.turn <= Pressing.asked < self.turn + self.times:
            press_ctrl_c()
        return Support(X + self.radius * np.sign(V)[assign])


class PressingTwins(FiniteOracle):
    """Two members a row, and Ctrl-C when they are listed for the n-th time."""

    asked = 0

    def __init__(self, turn=0):
        self.turn = turn

    def orbit(self, X):
        PressingTwins.asked += 1
        if PressingTwins.asked == self.turn:
            press_ctrl_c()
        return np.stack([X, 1.01 * X], axis=1)


@pytest.fixture(autouse=True)
def nobody_asked_yet():
    Pressing.asked = PressingTwins.asked = 0


def is_fitted(model):
    try:
        check_is_fitted(model)
    except NotFittedError:
        return False
    return True


SHARED = {"C": 10.0, "tol": 1e-9, "random_state": 0}


@cache
def unbroken():
    """A run that nobody breaks off."""
    return InvariantLinearSVC(Box(0.1), **{**SHARED, "tol": 1e-5}).fit(*rows()).solution_


@pytest.mark.parametrize(("solver", "turn", "times"), pairs(sorted(REGISTRY), [1, 2, 3, 5, 8], [1, 50]))
def test_an_interrupted_fit_stores_the_model_and_raises(solver, turn, times):
    X, y = rows()
    model = InvariantLinearSVC(Pressing(0.1, turn, times), solver=solver, **SHARED)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_fitted(model):
        assert model.solution_.status is Status.INTERRUPTED
        assert model.predict(X).shape == y.shape
        assert model.solution_.dual <= unbroken().primal
        assert unbroken().dual <= model.solution_.primal
    else:
        assert turn <= 2
        assert not [name for name in vars(model) if name.endswith("_")]


def test_an_early_ctrl_c_leaves_the_earlier_model():
    X, y = rows()
    model = InvariantLinearSVC(Box(0.1), random_state=0).fit(X, y)
    before = dict(vars(model))

    class Hasty(Box):
        def bind(self, X, y=None):
            press_ctrl_c()
            return super().bind(X, y)

    model.set_params(oracle=Hasty(0.1), on_interrupt="return")
    with pytest.raises(KeyboardInterrupt):
        model.fit(2 * X, y)
    assert {name: value for name, value in vars(model).items() if name.endswith("_")} == {
        name: value for name, value in before.items() if name.endswith("_")
    }


def test_ctrl_c_during_storage_leaves_a_complete_model(monkeypatch):
    X, y = rows()
    keep = InvariantLinearSVC._keep

    def pressed(self, *args):
        press_ctrl_c()
        keep(self, *args)

    monkeypatch.setattr(InvariantLinearSVC, "_keep", pressed)
    model = InvariantLinearSVC(Box(0.1), random_state=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert model.solution_.status is Status.CONVERGED
    assert model.predict(X).shape == y.shape
    assert clone(model).set_params(on_interrupt="return").fit(X, y).score(X, y) > 0.5


@pytest.mark.parametrize("times", [1, 3])
def test_interrupted_fits_may_return_with_a_warning(times):
    X, y = rows()
    model = InvariantLinearSVC(Pressing(0.1, 6, times), **SHARED, on_interrupt="return")
    with pytest.warns(ConvergenceWarning, match="'interrupted'.*to continue, if both fits have warm"):
        assert model.fit(X, y) is model
    assert model.solution_.status is Status.INTERRUPTED


def test_a_search_stops():
    X, y = rows()
    model = InvariantLinearSVC(Pressing(0.1, 40), tol=1e-9, random_state=0)
    search = GridSearchCV(model, {"C": [1.0, 2.0, 3.0]}, cv=3, error_score="raise")
    with pytest.raises(KeyboardInterrupt):
        search.fit(X, y)
    # Not a single row was asked about after it, but those of the fit's own certificate.
    assert Pressing.asked <= 42
    assert not hasattr(search, "best_params_")


def interrupting_after(n):
    """Acts like a user who presses Ctrl-C after the n-th check of a run."""
    count = [0]

    def bounds(self, objective, state, original):
        count[0] += 1
        if count[0] == n:
            press_ctrl_c()
        return original(self, objective, state)

    return bounds


@pytest.mark.parametrize(
    "model",
    [
        InvariantSVC(tol=1e-12, C=100.0, random_state=0),
        RepresenterClassifier(solver="frank_wolfe", loss="hinge", tol=1e-12, C=100.0, random_state=0),
        RepresenterRegressor(bias=False, solver="frank_wolfe", tol=1e-12, C=100.0, random_state=0),
        LapSVC(solver="frank_wolfe", tol=1e-12, C=100.0, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_all_estimators_store_the_model_so_far(model, monkeypatch):
    X, y = rows()
    original, pressed = FrankWolfe.bounds, interrupting_after(2)
    monkeypatch.setattr(FrankWolfe, "bounds", lambda *args: pressed(*args, original))
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert model.solution_.status is Status.INTERRUPTED
    assert model.predict(X).shape == y.shape


@pytest.mark.parametrize("kind", [VirtualSVC, VirtualSupportVectorSVC])
def test_an_interrupted_virtual_fit_leaves_the_earlier_model(kind):
    X, y = rows()
    model = kind(PressingTwins(), on_interrupt="return").fit(X, y)
    before = model.svc_
    PressingTwins.asked = 0
    with pytest.raises(KeyboardInterrupt):
        model.set_params(oracle=PressingTwins(turn=1)).fit(X, y)
    assert model.svc_ is before


def box_problem(oracle):
    X, y = rows()
    return Objective(ExplicitSpace(X.shape[1]), [WorstCase(X, y, oracle, Binary(), 10.0)])


def test_ctrl_c_in_the_final_check_keeps_the_bounds_of_the_check_before():
    def run(oracle, passes):
        stop = Iterations(passes)
        return solve(box_problem(oracle), FrankWolfe(), stop, random_state=0, check_always=True)

    before = run(Pressing(), 2)
    Pressing.asked = 0
    run(Pressing(), 3)
    last = Pressing.asked
    Pressing.asked = 0
    # The first ends the check, the second the certificate that follows.
    solution = run(Pressing(0.1, last, times=2), 3)
    assert Pressing.asked == last + 1
    assert solution.status is Status.INTERRUPTED
    assert solution.primal == before.primal
    assert solution.dual >= before.dual
    np.testing.assert_array_equal(solution.f, before.f)


def test_a_deferred_ctrl_c_is_recorded_and_the_handler_restored():
    with interrupts() as outer:
        with interrupts() as inner:
            assert inner is outer
        with pytest.raises(KeyboardInterrupt):
            press_ctrl_c()
        press_ctrl_c()
        assert outer.pressed
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_custom_handler_is_unchanged():
    heard = []
    before = signal.signal(signal.SIGINT, lambda *_: heard.append(1))
    try:
        X, y = rows()
        InvariantLinearSVC(Pressing(0.1, 5), random_state=0).fit(X, y)
    finally:
        signal.signal(signal.SIGINT, before)
    assert heard == [1]


def test_a_fit_in_another_thread_installs_nothing():
    X, y = rows()
    seen = []

    class Looking(Box):
        def bind(self, X, y=None):
            seen.append(signal.getsignal(signal.SIGINT))
            return super().bind(X, y)

    thread = threading.Thread(target=lambda: InvariantLinearSVC(Looking(0.1)).fit(X, y))
    thread.start()
    thread.join()
    assert seen == [signal.default_int_handler]


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
