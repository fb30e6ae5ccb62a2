"""Time limits: interrupted steps leave a dual-feasible state."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import ConvergenceWarning

from structinv import (
    InvariantLinearSVC,
    InvariantSVC,
    InvariantSVR,
    RepresenterClassifier,
    RepresenterRegressor,
)
from structinv.dual.penalty_state import PenaltyState
from structinv.dual.row_state import HingeState
from structinv.estimators.advice import nothing_learned, scale_of_columns
from structinv.functionals import SecondDerivative
from structinv.functionals.representers import Representers
from structinv.oracles import Box, FDrop, Identity
from structinv.rows import SlicedRows
from structinv.solvers import (
    BMRM,
    REGISTRY,
    FrankWolfe,
    Gap,
    Iterations,
    OracleCalls,
    Pegasos,
    Representer,
    Seconds,
    Start,
    Status,
    SVMStruct,
    solve,
)
from structinv.solvers.base import Record
from structinv.solvers.dual_coordinates import CoordinateState, DualCoordinates
from structinv.solvers.stopping import AnyOf, Progress, has_stalled
from structinv.spaces import ExplicitSpace
from structinv.structures.classes import Multiclass
from structinv.terms import Objective, WorstCase
from structinv.utils import jit
from structinv.utils.matrices import count

from ..covering import pairs
from ..dual.cases import STATES
from ..optima import optimum
from ..problems import CASE, SETTING, N, assert_brackets, objective
from .cases import every_solver, representer_optimum, representer_problem


class Countdown:
    """Time is up after so many questions."""

    def __init__(self, left):
        self.left = left
        self.asked_late = 0

    def __call__(self):
        self.left -= 1
        self.asked_late += self.left < -1
        return self.left < 0


@pytest.fixture
def small_portions(monkeypatch):
    """A look at the clock after every row, or every other one."""
    for name, value in {
        "dual.base.ENTRIES_AT_ONCE": 1,
        "dual.base.LEAST_ROWS": 2,
        "dual.member_state.ROWS_AT_ONCE": 2,
        "dual.member_state.PRODUCTS_AT_ONCE": 1,
        "dual.sequence_state.PRODUCTS_AT_ONCE": 1,
        "dual.labeling_state.MEMBERS_AT_ONCE": 2,
        "dual.labeling_state.ROUNDS": 1,
        "spaces.kernel_space.KernelSpace.blocks_in_a_set": 2,
        "spaces.ExplicitSpace.blocks_in_a_set": 2,
        "solvers.dual_coordinates.ENTRIES_AT_ONCE": 1.0,
    }.items():
        monkeypatch.setattr(f"structinv.{name}", value)


def explicit(name, setting):
    return lambda: (objective(CASE[name].oracle, SETTING[setting]), optimum(name, setting))


def of_functionals(loss, penalty):
    def make():
        return representer_problem(loss, penalty), representer_optimum(loss, penalty)

    return make


SMOOTH, KINKED = of_functionals("logistic", "squared"), of_functionals("hinge", "absolute")
# Others of the same kinds end their sweeps alike.
CUT = [
    "rows-fdrop", "rows-slack", "labels-fdrop", "additions", "edits", "margins", "slopes-newton",
    "linear members", "members", "labelings", "tube", "flows", "chains", "planes", "planes in a kernel",
]  # fmt: skip
PROBLEMS = {
    **{name: (FrankWolfe(), STATES[name].kind, STATES[name].make) for name in CUT},
    "penalties": (FrankWolfe(), PenaltyState, KINKED),
    "coordinates": (Representer(method="dual-cd"), CoordinateState, KINKED),
    "newton": (Representer(method="newton-cg"), None, SMOOTH),
    "newton-kinks": (Representer(method="newton-cg"), None, KINKED),
    "svmstruct": (SVMStruct(), None, explicit("fdrop", "multiclass")),
    "svmstruct-epsilon": (SVMStruct(plane_tol=0.1), None, explicit("fdrop", "multiclass")),
    "bmrm": (BMRM(), None, explicit("fdrop", "binary")),
    "pegasos": (Pegasos(batch_size=2), None, explicit("fdrop", "multiclass")),
    "pegasos-free": (Pegasos(2, projection=False, average=False), None, explicit("fdrop", "binary")),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_an_interrupted_step_leaves_valid_bounds(name, small_portions):
    solver, state_type, make = PROBLEMS[name]
    problem, best = make()
    slack = 1e-5 * (1.0 + abs(best))
    asked = problem.oracle_calls
    solver.step(problem, solver.init(problem, np.random.default_rng(0)))
    # A sweep that has met every row has its estimate, even if it is cut when it goes over some again.
    whole = problem.oracle_calls - asked
    for before, looks in ((0, (0, 1, 3, 8, 30)), (2, (0, 2, 5, 13))):
        for questions in looks:
            state = solver.init(problem, np.random.default_rng(0))
            own = state.state if isinstance(state, DualCoordinates) else state
            if state_type is not None:
                assert isinstance(own.parts[0], state_type)
            for _ in range(before):
                solver.step(problem, state)
            for _ in range(2):
                problem.out_of_time = Countdown(questions)
                asked = problem.oracle_calls
                estimate = solver.step(problem, state)
                asked = problem.oracle_calls - asked
                ended = problem.out_of_time.left < 0
                problem.out_of_time = lambda: False
                bounds = solver.bounds(problem, state)
                value = problem.value(bounds.f)
                assert bounds.dual <= best + slack
                assert value.upper >= best - slack
                if ended and estimate is not None and not (asked and asked == whole):
                    # Nobody may conclude from a gap that was not measured.
                    assert estimate >= value.upper - best - slack
            start = Start(problem.space.zeros(), solver.dual_variables(problem, state))
            again = solver.init(problem, np.random.default_rng(1), start)
            assert solver.bounds(problem, again).dual <= best + slack


@pytest.mark.parametrize("name", PROBLEMS)
def test_an_interrupted_step_can_be_continued(name, small_portions):
    solver, _, make = PROBLEMS[name]
    problem, best = make()
    state = solver.init(problem, np.random.default_rng(0))
    for questions in (3, 0, 2):
        problem.out_of_time = Countdown(questions)
        solver.step(problem, state)
        solver.bounds(problem, state)
    problem.out_of_time = lambda: False
    tolerance = 0.1 if "pegasos" in name or "epsilon" in name else 1e-3
    for _ in range(400):
        solver.step(problem, state)
        bounds = solver.bounds(problem, state)
        if bounds.dual >= best - 0.5 * tolerance * abs(best):
            break
    assert bounds.dual == pytest.approx(best, rel=tolerance)


@pytest.mark.parametrize("name", [name for name in PROBLEMS if PROBLEMS[name][1] is not None])
def test_a_sweep_ends_soon_after_time_is_up(name, small_portions):
    solver, _, make = PROBLEMS[name]
    problem, _ = make()
    state = solver.init(problem, np.random.default_rng(0))
    for questions in range(12):
        clock = problem.out_of_time = Countdown(questions)
        solver.step(problem, state)
        # Loops within loops ask once each on their way out.
        assert clock.asked_late <= 25


@pytest.mark.parametrize(
    "name", ["rows-slack", "linear members", "members", "labelings", "tube", "planes"]
)
def test_no_oracle_is_called_after_time_is_up(name, small_portions):
    solver, _, make = PROBLEMS[name]
    problem, _ = make()
    asked = []
    for questions in (0, 2):
        state = solver.init(problem, np.random.default_rng(0))
        problem.out_of_time = Countdown(questions)
        before = problem.oracle_calls
        assert solver.step(problem, state) == np.inf
        asked.append(problem.oracle_calls - before)
    assert asked[0] == 0
    assert 0 < asked[1] <= 4 < N


# --- the loop


class Clock:
    """Every look takes a second."""

    def __init__(self):
        self.now = 0.0

    def perf_counter(self):
        self.now += 1.0
        return self.now


@every_solver
def test_the_stopping_rule_has_the_deadline(name, monkeypatch, small_portions):
    for limit in (0.0, 1.0, 4.0, 9.0):
        monkeypatch.setattr(jit, "time", Clock())
        problem = objective(FDrop(2))
        solution = solve(problem, REGISTRY[name](), Gap(0) | Seconds(limit), random_state=0)
        assert solution.status is Status.TIME_LIMIT
        assert_brackets(solution, optimum("fdrop", "binary"))
        assert not problem.out_of_time()


def test_the_deadline_is_that_of_the_first_rule():
    assert Gap(1e-3).deadline == np.inf
    assert (Gap(1e-3) | Seconds(5) | Iterations(3) | Seconds(2)).deadline == 2.0


def test_an_interrupted_run_has_no_deadline_afterward():
    problem = objective(FDrop(2))

    def interrupt(progress):
        raise KeyboardInterrupt

    solution = solve(
        problem, FrankWolfe(), Gap(0) | Seconds(1e-9), callbacks=[interrupt], random_state=0
    )
    assert solution.status is Status.INTERRUPTED
    assert not problem.out_of_time()


@pytest.fixture
def clock(monkeypatch):
    """A clock that moves on when a test says so, and never else."""
    clock = Clock()
    clock.perf_counter = lambda: clock.now
    monkeypatch.setattr(jit, "time", clock)
    return clock


@pytest.fixture
def rows_are_seconds(clock, monkeypatch, small_portions):
    """Every row that is evaluated takes a second."""
    ask, value_of = WorstCase._answers, HingeState.value

    def asked(term, space, f, blocks, points):
        clock.now += count(blocks, term.n_blocks)
        return ask(term, space, f, blocks, points)

    def valued(state, f):
        before, found = clock.now, value_of(state, f)
        clock.now = before + N
        return found

    monkeypatch.setattr(WorstCase, "_answers", asked)
    monkeypatch.setattr(HingeState, "value", valued)


@pytest.fixture
def products_are_seconds(clock, monkeypatch):
    """Every product with a Gram matrix takes a second."""
    multiply = Representers.apply

    def multiplied(system, coefficients):
        # A product for several functions is one for each of them.
        clock.now += 1.0 if coefficients.ndim == 1 else 0.0
        return multiply(system, coefficients)

    monkeypatch.setattr(Representers, "apply", multiplied)


@pytest.mark.parametrize("limit", [1.0, 3.0, 10.0, 60.0, 140.0])
def test_fits_with_second_derivatives_end_soon_after_the_deadline(limit, products_are_seconds):
    X = np.random.default_rng(0).standard_normal((12, 2))
    model = RepresenterRegressor(
        invariances=[SecondDerivative(0, 1)],
        solver="frank_wolfe",
        tol=0.0,
        max_seconds=limit,
        bias=False,
        random_state=0,
    )
    with pytest.warns(ConvergenceWarning, match="time limit"):
        model.fit(X, np.sin(X[:, 0]))
    # One step, the bounds of two terms and the value are products that follow the deadline.
    assert limit <= model.solution_.seconds <= limit + 6


@pytest.mark.parametrize(
    ("passes", "setting", "name"),
    pairs([0.3, 1.2, 2.5, 4.9, 7.1], ["binary", "multiclass"], sorted(REGISTRY)),
)
def test_no_more_than_a_pass_follows_the_deadline(name, setting, passes, rows_are_seconds):
    problem, limit = objective(FDrop(2), SETTING[setting]), passes * N
    solver = Pegasos(batch_size=2) if name == "pegasos" else REGISTRY[name]()
    solution = solve(problem, solver, Gap(0) | Seconds(limit), random_state=0)
    # And a portion of a step; values that a solver gives in a first check are still to be certified.
    late = N if passes > 2 or setting == "multiclass" else 2 * N
    assert solution.seconds <= limit + late + 2
    assert_brackets(solution, optimum("fdrop", setting))
    assert solution.primal == pytest.approx(problem.value(solution.f).upper, rel=1e-12)


def test_a_value_that_the_loop_has_computed_is_not_computed_again(monkeypatch):
    problem = objective(FDrop(2))
    values, asked = [], problem.value
    monkeypatch.setattr(problem, "value", lambda f: values.append(f) or asked(f))
    solution = solve(problem, SVMStruct(), Iterations(5), random_state=0)
    # At zero, and after each iteration.
    assert len(values) == 1 + solution.iterations


@pytest.mark.parametrize(
    ("rule", "value"),
    [*((Gap, value) for value in [-1, -1e-9, float("nan"), "1", None]), (Seconds, -1e-9),
     (OracleCalls, float("nan")), (Iterations, "1")],
)  # fmt: skip
def test_a_stop_rule_names_what_it_takes(rule, value):
    error = ValueError if isinstance(value, float | int) else TypeError
    with pytest.raises(error, match=rf"{rule.__name__} must be a number of at least 0"):
        rule(value)


def gaps_of(gaps, primal=10.0):
    """Records of checks, from numbers of iterations to gaps."""
    return [Record(iteration, 0, 0.0, primal, 10.0 - gap) for iteration, gap in gaps.items()]


STALLED = [
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
]


def test_a_run_has_stalled_if_its_gap_stays_while_the_iterations_double():
    assert (SVMStruct.still_iterations, SVMStruct.min_iterations) == (100, 500)
    for gaps, stalled in STALLED:
        assert has_stalled(gaps_of(gaps), SVMStruct()) is stalled, gaps


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


def test_only_a_fit_that_learned_nothing_says_so():
    X, y = load_iris(return_X_y=True)
    X = X - X.mean(axis=0)
    term = WorstCase(X, y, Identity(), Multiclass())
    objective = Objective(ExplicitSpace(4, 3), [term])
    solution = solve(objective, FrankWolfe(), Gap(0.0) | Iterations(3), random_state=0)
    assert solution.status is Status.ITERATION_LIMIT
    assert nothing_learned(objective, solution) == ""
    nothing = replace(solution, f=objective.space.zeros())
    assert "if all scores are 0" in nothing_learned(objective, nothing)
    model = InvariantLinearSVC(solver="frank_wolfe", max_seconds=1e-6, random_state=0)
    with pytest.warns(ConvergenceWarning, match="if all scores are 0, so the .* are meaningless"):
        model.fit(X, y)


FAR = "The largest absolute value of X is 1e+06, in column {} with a standard deviation of"


def far_rows():
    """Rows whose distances are far below their lengths."""
    rng = np.random.default_rng(0)
    return 1e6 + rng.standard_normal((20, 5)), (rng.random(20) < 0.5).astype(int)


def end_of(gap_at, still_iterations=500):
    """The iteration at which a run stalls, or None."""
    solver, history = FrankWolfe(), []
    solver.still_iterations = still_iterations
    for k in range(10, 2001, 10):
        history.append(Record(k, k, 0.1 * k, 1.0 + gap_at(k), 1.0))
        if has_stalled(history, solver):
            return k
    return None


@pytest.mark.parametrize(
    ("gap_at", "end"),
    [
        (lambda k: 5.0, 100),
        (lambda k: 5.0 - 1e-6 * k, 100),
        (lambda k: max(5.0 - 0.1 * k, 1.0), 100),
        # The gap decreases until iteration 160, and is the same at 320.
        (lambda k: max(5.0 - 0.025 * k, 1.0), 320),
        # Slow runs end at the usual number of iterations.
        (lambda k: k**-0.05, 500),
        (lambda k: 5.0 - 1e-4 * k, 500),
        (lambda k: 1.0 / k, None),
        (lambda k: k**-0.2, None),
    ],
)
def test_a_gap_that_does_not_decrease_ends_a_run_before_a_slow_one(gap_at, end):
    assert end_of(gap_at, still_iterations=100) == end
    assert end_of(gap_at) == (None if end is None else 500)


def test_the_scale_of_rows_in_blocks_is_that_of_the_first_ones():
    X = far_rows()[0]
    text = scale_of_columns(SlicedRows(X), SimpleNamespace(status=Status.STALLED))
    assert "The largest absolute value of the first rows of X is 1e+06, in column" in text


@pytest.mark.parametrize(
    "model",
    [
        InvariantLinearSVC(solver="bmrm", random_state=0),
        InvariantLinearSVC(FDrop(1), solver="bmrm", random_state=0),
        InvariantLinearSVC(Box(1e3), solver="bmrm", random_state=0),
        InvariantSVC(kernel="poly", random_state=0),
        InvariantSVC(kernel="linear", random_state=0),
        InvariantSVR(kernel="poly", random_state=0),
        RepresenterClassifier(kernel="poly", random_state=0),
    ],
    ids=["bmrm", "bmrm, drop", "bmrm, box", "poly", "linear kernel", "regression", "representers"],
)
@pytest.mark.filterwarnings("ignore::structinv.utils.exceptions.UninformativeFitWarning")
def test_fits_far_from_the_origin_end_early_and_name_the_columns(model):
    X, y = far_rows()
    with pytest.warns(ConvergenceWarning) as caught:
        model.fit(X, y)
    assert model.solution_.status is Status.STALLED
    assert model.n_iter_ < 300
    (message,) = [str(each.message) for each in caught if each.category is ConvergenceWarning]
    column = int(np.argmax(X.max(axis=0)))
    assert FAR.format(column) in message
    assert message.endswith("scale the columns, for example by StandardScaler.")


def test_only_very_large_and_very_small_values_are_named():
    X, stalled = far_rows()[0] - 1e6, SimpleNamespace(status=Status.STALLED)
    assert scale_of_columns(X, stalled) == scale_of_columns(200.0 * X, stalled) == ""
    assert "The largest absolute value of X is 2.3e-06, in" in scale_of_columns(1e-6 * X, stalled)
    negative = np.where(np.arange(5) == 3, -1e9, X)
    text = "is 1e+09, in column 3 with a standard deviation of 0: scale the columns"
    assert text in scale_of_columns(negative, stalled)
    assert scale_of_columns(sp.csr_matrix(negative), stalled).endswith("by MaxAbsScaler.")
    assert scale_of_columns(negative, SimpleNamespace(status=Status.ORACLE_TOO_COARSE)) == ""
    assert scale_of_columns([negative], stalled) == ""


def test_kernel_matrices_have_no_columns_to_scale():
    X, y = far_rows()
    with pytest.warns(ConvergenceWarning) as caught:
        InvariantSVC(kernel="precomputed", max_seconds=0.5, random_state=0).fit((X @ X.T) ** 3, y)
    assert "absolute value" not in str(caught[0].message)


def test_a_slow_fit_that_converges_does_not_end_early():
    # After 100 iterations the gap hardly decreases for a while.
    X, y = load_breast_cancer(return_X_y=True)
    X = 30.0 * (X[:200] - X[:200].mean(axis=0)) / X[:200].std(axis=0)
    model = InvariantLinearSVC(solver="frank_wolfe", random_state=0).fit(X, y[:200])
    assert model.solution_.status is Status.CONVERGED
    assert model.n_iter_ > 200
