"""The loop of solvers: stopping rules, callbacks, interruption, warm starts."""

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
from sklearn.base import clone

from structinv.losses import Absolute, Squared
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
    Start,
    Status,
    SVMStruct,
    solve,
)
from structinv.solvers.base import Record
from structinv.solvers.stopping import AnyOf, Progress, has_stalled
from structinv.spaces import ExplicitSpace
from structinv.structures import Binary
from structinv.terms import Objective, Penalty, WorstCase

from ..oracles.cases import D
from ..problems import (
    CASE,
    SETTING,
    LinearFunctionals,
    assert_brackets,
    objective,
    optimum,
    two_classes,
    with_penalty,
)

# Solvers whose starts have the bound of their dual variables.
WITH_VARIABLES = {"frank_wolfe", "representer"}
every_solver = pytest.mark.parametrize("name", sorted(REGISTRY))


def tolerance_of(name):
    return 1e-2 if name == "pegasos" else 1e-5


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


@pytest.mark.parametrize("rule", [Gap, Seconds, OracleCalls, Iterations])
@pytest.mark.parametrize("value", [-1, -1e-9, float("nan"), "1", None])
def test_a_stop_rule_names_what_it_takes(rule, value):
    error = ValueError if isinstance(value, float | int) else TypeError
    with pytest.raises(error, match=rf"{rule.__name__} must be a number of at least 0"):
        rule(value)


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


def press_ctrl_c(progress):
    if progress.iteration == 3:
        raise KeyboardInterrupt


@every_solver
@pytest.mark.parametrize("callback", [watch, press_ctrl_c])
def test_a_callback_or_ctrl_c_ends_a_run_with_the_best_function(name, callback):
    seen = []
    callbacks = (seen.append, callback)
    solution = solve(objective(FDrop(2)), REGISTRY[name](), Gap(0), callbacks=callbacks, random_state=0)
    assert solution.status is Status.INTERRUPTED
    assert [progress.iteration for progress in seen] == [1, 2, 3]
    assert np.all(np.isfinite(solution.f))
    assert_brackets(solution, optimum("fdrop", "binary"))


@every_solver
@pytest.mark.parametrize("oracle", [FDrop(2), Box(0.3), Ellipsoid(np.eye(D))], ids=repr)
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


def gaps_of(gaps, primal=10.0):
    """Records of checks, from numbers of iterations to gaps."""
    return [Record(iteration, 0, 0.0, primal, 10.0 - gap) for iteration, gap in gaps.items()]


@pytest.mark.parametrize(
    ("gaps", "stalled"),
    [
        # The gap is compared with that of the last check in the first half.
        ({90: 1.0, 200: 0.999}, False),
        ({90: 1.0, 200: 1.0}, True),
        ({90: 1.0, 150: 1.0, 170: 1.0, 200: 0.5}, False),
        ({90: 1.0, 100: 0.5, 200: 0.5}, True),
        ({90: 1.0, 101: 0.5, 200: 0.5}, False),
        ({150: 1.0, 200: 1.0}, False),
        ({40: 1.0, 99: 1.0}, False),
        ({240: 1.0, 500: 0.95}, True),
        ({240: 1.0, 499: 0.95}, False),
        ({240: 1.0, 500: 0.85}, False),
    ],
    ids=str,
)
def test_a_run_has_stalled_if_its_gap_stays_while_the_iterations_double(gaps, stalled):
    assert (SVMStruct.still_iterations, SVMStruct.min_iterations) == (100, 500)
    assert has_stalled(gaps_of(gaps), SVMStruct()) is stalled


@pytest.mark.parametrize(
    ("gaps", "stalled"),
    [
        ({100: 5.0, 200: 5.0}, False),
        ({240: 5.0, 500: 4.96}, True),
        ({240: 5.0, 500: 4.9}, False),
    ],
    ids=str,
)
def test_without_an_upper_bound_a_late_run_has_stalled_if_its_dual_value_stays(gaps, stalled):
    assert has_stalled(gaps_of(gaps, np.inf), SVMStruct()) is stalled


# --- warm starts


@every_solver
def test_a_solution_starts_another_c(name):
    best = optimum("fdrop", "binary", 1.5)
    stop = Gap(0.5 * tolerance_of(name))
    start = solve(objective(FDrop(2)), REGISTRY[name](), stop, random_state=0)
    problem = objective(FDrop(2), factor=1.5)
    warm = solve(problem, REGISTRY[name](), stop, warm_start=start, random_state=0)
    cold = solve(problem, REGISTRY[name](), Iterations(1), random_state=0)
    assert warm.status is Status.CONVERGED
    assert_brackets(warm, best)
    assert warm.primal <= best * (1 + tolerance_of(name))
    assert warm.history[0].primal < cold.history[0].primal
    if name in WITH_VARIABLES:
        gaps = [run.history[0].primal - run.history[0].dual for run in (warm, cold)]
        assert gaps[0] < 0.5 * gaps[1]


@pytest.mark.parametrize("setting", ["binary", "binary-slack", "multiclass-slack"])
@every_solver
def test_a_solution_starts_a_larger_set(name, setting):
    where, stop = SETTING[setting], Gap(0.5 * tolerance_of(name))
    start = solve(objective(FDrop(1), where), REGISTRY[name](), stop, random_state=0)
    problem = objective(FDrop(2), where)
    warm = solve(problem, REGISTRY[name](), stop, warm_start=start, random_state=0)
    assert warm.status is Status.CONVERGED
    assert_brackets(warm, optimum("fdrop", setting))
    if name in WITH_VARIABLES and setting != "multiclass-slack":
        # Variables of the smaller set are feasible for the larger one: nothing is lost on the way.
        assert warm.history[0].dual == pytest.approx(start.dual, rel=1e-9)


@pytest.mark.parametrize("source", sorted(REGISTRY))
@pytest.mark.parametrize("setting", ["binary", "binary-slack", "multiclass-slack"])
@every_solver
def test_a_solution_of_one_solver_starts_another(name, setting, source):
    where, best = SETTING[setting], optimum("fdrop", setting)
    tolerance = max(tolerance_of(name), tolerance_of(source))
    start = solve(objective(FDrop(2), where), REGISTRY[source](), Gap(tolerance), random_state=0)
    problem = objective(FDrop(2), where)
    again = solve(problem, REGISTRY[name](), Gap(2 * tolerance), warm_start=start, random_state=0)
    assert again.status is Status.CONVERGED
    assert_brackets(again, best)
    assert again.history[0].primal <= start.primal * (1 + 1e-9)
    if {name, source} <= WITH_VARIABLES and setting != "multiclass-slack":
        assert again.iterations == 0


@pytest.mark.parametrize("name", ["frank_wolfe", "interior_point", "svmstruct"])
@pytest.mark.parametrize("setting", ["binary", "binary-slack"])
def test_a_start_has_the_dual_value_of_its_variables(setting, name):
    # With small weights all rows have a loss, so that the worst label of each is unique.
    this, solver = objective(Identity(), SETTING[setting], factor=0.01), REGISTRY[name]()
    solution = solve(this, solver, Gap(1e-6), random_state=0)
    state = solver.init(this, np.random.default_rng(1), Start(solution.f, solution.dual_variables))
    assert solver.bounds(this, state).dual == pytest.approx(solution.dual, rel=1e-6)


@pytest.mark.parametrize("oracle", [Identity(), FDrop(2), Ellipsoid(np.eye(D))], ids=repr)
@pytest.mark.parametrize("taus", [5.0, -5.0])
@pytest.mark.parametrize("name", ["interior_point", "svmstruct"])
def test_variables_of_a_start_are_clipped_to_feasible_ones(name, taus, oracle):
    this, solver = objective(oracle), REGISTRY[name]()
    best = solve(this, FrankWolfe(), Gap(1e-6), random_state=0)
    start = Start(best.f, [{"taus": np.where(np.arange(9) < 4, taus, 0.5)}])
    state = solver.init(this, np.random.default_rng(0), start)
    assert solver.bounds(this, state).dual <= best.primal
    (found,) = solver.dual_variables(this, state)
    assert np.all((found["taus"] >= 0) & (found["taus"] <= 1))
    assert_brackets(solve(this, solver, Iterations(3), warm_start=start, random_state=0), best.primal)


@pytest.mark.parametrize("loss", [Squared(), Absolute()], ids=repr)
@every_solver
def test_a_solution_starts_another_weight_of_a_penalty(name, loss):
    family = LinearFunctionals(np.random.default_rng(2).standard_normal((3, D)))
    stop = Gap(tolerance_of(name))
    runs = {}
    for nu in (0.5, 0.1):
        problem = objective(Box(0.3), penalties=[Penalty(family, loss, nu)])
        runs[nu] = problem, solve(problem, REGISTRY[name](), stop, random_state=0)
    again = solve(runs[0.5][0], REGISTRY[name](), stop, warm_start=runs[0.5][1], random_state=0)
    assert again.status is Status.CONVERGED
    if name == "frank_wolfe":
        assert again.iterations == 0
    problem, cold = runs[0.1]
    warm = solve(problem, REGISTRY[name](), stop, warm_start=runs[0.5][1], random_state=0)
    assert warm.status is Status.CONVERGED
    # The middle of the cold run's bounds need not be near enough to the optimum.
    tight = solve(problem, REGISTRY["interior_point"](), Gap(1e-9), random_state=0)
    assert_brackets(warm, tight.primal)
    assert warm.primal == pytest.approx(cold.primal, rel=max(2e-5, 2 * tolerance_of(name)))


@every_solver
def test_warm_starts_of_other_problems_have_valid_bounds(name):
    start = solve(objective(FDrop(2)), REGISTRY[name](), Gap(1e-2), random_state=0)
    weights = SETTING["binary"].weights[::-1]
    reweighted = objective(FDrop(2), replace(SETTING["binary"], weights=weights))
    tight = solve(reweighted, REGISTRY["frank_wolfe"](), Gap(1e-8), random_state=0)
    for solver in REGISTRY:
        if solver == "representer":
            continue
        found = solve(reweighted, REGISTRY[solver](), Gap(5e-2), warm_start=start, random_state=0)
        assert_brackets(found, tight.primal)
        with pytest.raises(ValueError, match="warm_start must be a solution of an objective with as"):
            solve(
                objective(FDrop(2), SETTING["multiclass"]),
                REGISTRY[solver](),
                warm_start=start,
                random_state=0,
            )


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


def test_a_subclass_of_joined_rules_keeps_its_reason():
    class Both(AnyOf):
        def reason(self, progress):
            found = [rule.reason(progress) for rule in self.rules]
            return found[0] if all(found) else None

    both = Both((Iterations(5), Seconds(60)))
    assert (both | Gap(0.1)).rules == (both, Gap(0.1))
    assert len((Iterations(5) | Seconds(60) | Gap(0.1)).rules) == 3


@pytest.mark.parametrize(
    ("gap", "attained", "status"),
    [
        (0.2, 0.05, Status.ORACLE_TOO_COARSE),
        (0.12, 0.09, None),
        (0.12, 0.11, None),
        (0.09, 0.01, Status.CONVERGED),
    ],
)
def test_a_run_goes_on_if_bounds_are_nearly_tight(gap, attained, status):
    progress = Progress(1, 10, 0.0, gap, attained, [], True, lambda: None)
    assert Gap(0.1).reason(progress) is status
