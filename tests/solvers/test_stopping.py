"""Rules that end a run, stalled runs, and what is advised after one."""

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
)
from structinv.estimators.advice import nothing_learned, scale_of_columns
from structinv.oracles import Box, FDrop, Identity
from structinv.rows import SlicedRows
from structinv.solvers import (
    FrankWolfe,
    Gap,
    Iterations,
    OracleCalls,
    Seconds,
    Status,
    SVMStruct,
    solve,
)
from structinv.solvers.base import Record
from structinv.solvers.stopping import AnyOf, Progress, has_stalled
from structinv.spaces import ExplicitSpace
from structinv.structures.classes import Multiclass
from structinv.terms import Objective, WorstCase

from ..problems import objective


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
        pytest.param(
            InvariantLinearSVC(FDrop(1), solver="bmrm", random_state=0), marks=pytest.mark.slow
        ),
        pytest.param(
            InvariantLinearSVC(Box(1e3), solver="bmrm", random_state=0), marks=pytest.mark.slow
        ),
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
