"""Time limits: interrupted steps leave a dual-feasible state, and runs end soon after the deadline."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from structinv import (
    RepresenterRegressor,
)
from structinv.dual.penalty_state import PenaltyState
from structinv.dual.row_state import HingeState
from structinv.functionals import SecondDerivative
from structinv.functionals.representers import Representers
from structinv.oracles import FDrop
from structinv.solvers import (
    BMRM,
    REGISTRY,
    FrankWolfe,
    Gap,
    Iterations,
    Pegasos,
    Representer,
    Seconds,
    Start,
    Status,
    SVMStruct,
    solve,
)
from structinv.solvers.dual_coordinates import CoordinateState, DualCoordinates
from structinv.terms import WorstCase
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
    for before, looks in ((0, (0, 1, 3, 30)), (2, (0, 5))):
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
