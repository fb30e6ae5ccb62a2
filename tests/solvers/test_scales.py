"""Large C, unscaled rows and huge numbers: fits close the gap, or end early and name the cause."""

from __future__ import annotations

import warnings
from dataclasses import replace
from types import SimpleNamespace

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning

from structinv import (
    InvariantLinearSVC,
    InvariantStructuredSVC,
    InvariantSVC,
    InvariantSVR,
    RepresenterClassifier,
)
from structinv.estimators.advice import nothing_learned, scale_of_columns
from structinv.oracles import Box, Budget, Ellipsoid, FDrop, Identity
from structinv.rows import SlicedRows
from structinv.solvers import (
    REGISTRY,
    FrankWolfe,
    Gap,
    InteriorPoint,
    Iterations,
    Status,
    solve,
)
from structinv.solvers.base import Record
from structinv.solvers.stopping import has_stalled
from structinv.spaces import ExplicitSpace
from structinv.structures import Binary, Graph, Multilabel, Sequence
from structinv.structures.classes import Multiclass
from structinv.terms import Objective, WorstCase

from ..covering import pairs


def sequences(n=40, width=6, n_labels=3):
    """Rows whose labels are a noisy function of them, and of the label before."""
    rng = np.random.default_rng(0)
    weights, after = rng.normal(size=(width, n_labels)), rng.normal(size=(n_labels, n_labels))
    X, y = [], []
    for length in rng.integers(2, 6, size=n):
        rows = rng.normal(size=(length, width))
        scores, labels = rows @ weights + 2.0 * rng.normal(size=(length, n_labels)), [0]
        for each in scores:
            labels.append(int(np.argmax(each + after[labels[-1]])))
        X.append(rows)
        y.append(labels[1:])
    return X, y


def graphs():
    X, y = sequences()
    return [
        (rows, np.column_stack([np.arange(len(rows) - 1), np.arange(1, len(rows))])) for rows in X
    ], y


def sets():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 5))
    return X, (X[:, :3] + rng.normal(size=(40, 3)) > 0).astype(int)


CASES = {
    "sequences": (InvariantStructuredSVC(Sequence()), sequences),
    "sequences-words": (InvariantStructuredSVC(Sequence(), oracle=FDrop(1)), sequences),
    "sequences-budget": (InvariantStructuredSVC(Sequence(), oracle=Budget(FDrop(1))), sequences),
    "graphs": (InvariantStructuredSVC(Graph()), graphs),
    "sets": (InvariantStructuredSVC(Multilabel("tree")), sets),
}


@pytest.mark.parametrize("case", CASES)
def test_a_large_c_converges(case):
    model, draw = CASES[case]
    X, y = draw()
    model.set_params(C=1e4, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model.fit(X, y)
    assert model.solution_.status is Status.CONVERGED


def taken(X, y, **parameters):
    """The class of the solver that a fit of a given gap took."""
    model = InvariantStructuredSVC(Sequence(), tol=0.9, random_state=0, **parameters)
    return model.fit(X, y).solution_.solver


def test_auto_uses_interior_point_for_large_c_and_few_weights():
    X, y = sequences()
    wide = [np.tile(rows, 100) for rows in X]
    assert taken(X, y, C=100.0) == "InteriorPoint"
    for rows, options in (
        (X, {"C": 0.1}),
        (wide, {"C": 10.0}),
        (X, {"C": 1e3, "plane_tol": 0.5}),
        (X, {"C": 1e3, "kernel": "rbf"}),
    ):
        assert taken(rows, y, **options) == "FrankWolfe"


@pytest.mark.parametrize("C", [1.0, 100.0])
def test_the_choice_does_not_depend_on_units(C):
    X, y = sequences()
    plain = taken(X, y, C=C)
    assert taken([100.0 * rows for rows in X], y, C=1e-4 * C) == plain
    assert taken([sp.csr_matrix(rows) for rows in X], y, C=C) == plain
    # Costs of a tenth at a tenth of the weights make the same problem.
    assert taken(X, y, C=0.1 * C, cost=0.1 * (1.0 - np.eye(3))) == plain


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_advice_names_solvers_other_than_the_one_that_stalled():
    X, y = sequences(12)
    model = InvariantStructuredSVC(Sequence(), C=1e4, solver="frank_wolfe", random_state=0)
    with pytest.warns(ConvergenceWarning, match="'interior_point'") as told:
        model.fit(X, y)
    assert model.solution_.status is Status.STALLED
    assert "frank_wolfe" not in str(told[0].message)
    assert "frank_wolfe" not in model.solution_.advice
    better = model.set_params(solver="interior_point").fit(X, y).solution_
    assert better.status is Status.CONVERGED


X = np.random.default_rng(0).poisson(1.0, (60, 12)).astype(float)
Y = (X[:, 0] > X[:, 1]).astype(int)
LINEAR_SOLVERS = ["auto", *(name for name in REGISTRY if name != "representer")]


# Of several classes compiled steps of "frank_wolfe" see no overflow: it stalls, and says that.
SOLVERS = [(name, 2) for name in LINEAR_SOLVERS]
SOLVERS += [(name, 3) for name in LINEAR_SOLVERS if name != "frank_wolfe"]


@pytest.mark.parametrize("oracle", [FDrop(2), Box(1.0)], ids=str)
@pytest.mark.parametrize(("solver", "n_classes"), SOLVERS)
def test_rows_whose_squares_overflow_end_with_one_warning_that_says_so(solver, oracle, n_classes):
    y = Y if n_classes == 2 else np.arange(60) % 3
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = InvariantLinearSVC(oracle, solver=solver, random_state=0).fit(1e200 * X, y)
    assert [each.category for each in caught] == [ConvergenceWarning]
    assert "'not finite'" in str(caught[0].message)
    assert model.solution_.status is Status.NOT_FINITE


def test_warnings_of_others_come_back_after_a_fit():
    before = np.geterr()
    with pytest.warns(ConvergenceWarning):
        InvariantLinearSVC(random_state=0).fit(1e200 * X, Y)
    assert np.geterr() == before


@pytest.mark.parametrize("C", [1e15, pytest.param(1e30, marks=pytest.mark.slow)])
def test_where_rounding_has_the_last_word_a_fit_gives_up_soon(C):
    with pytest.warns(ConvergenceWarning, match="'stalled'"):
        model = InvariantLinearSVC(FDrop(2), C=C, solver="interior_point", random_state=0).fit(X, Y)
    assert model.n_iter_ <= 2 * InteriorPoint.min_iterations < 500


ENOUGH = 60


def rows_of(name):
    return {"iris": load_iris, "wine": load_wine, "breast_cancer": load_breast_cancer}[name](
        return_X_y=True
    )


def worst_case(X, y, oracle, intercept=True, weights=1.0):
    term = WorstCase(X, y, oracle, Binary() if len(np.unique(y)) == 2 else Multiclass(), weights)
    return Objective(
        ExplicitSpace(X.shape[1], term.bound_structure.n_outputs, intercept=intercept), [term]
    )


def assert_solved(problem, gap=1e-3, iterations=ENOUGH):
    solution = solve(problem, InteriorPoint(), Gap(gap) | Iterations(iterations), random_state=0)
    assert solution.status is Status.CONVERGED
    assert solution.primal == pytest.approx(problem.value(solution.f).upper, rel=1e-9)
    return solution


@pytest.mark.parametrize(
    ("name", "changes", "intercept"),
    pairs(["iris", "wine", "breast_cancer"], ["none", "box", "ball"], [True, False]),
)
def test_data_as_they_come_converge_in_few_iterations(name, changes, intercept):
    X, y = rows_of(name)
    oracle = {"none": None, "box": Box(0.1), "ball": Ellipsoid(np.eye(X.shape[1]), radius=0.1)}[changes]
    model = InvariantLinearSVC(oracle, fit_intercept=intercept, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model.fit(X, y)
    assert model.solution_.relative_gap <= 1e-3
    assert model.n_iter_ <= ENOUGH
    majority = np.bincount(y).max() / len(y)
    assert model.score(X, y) > majority + 0.25


@pytest.mark.parametrize("radius", [0.0, 0.1])
@pytest.mark.parametrize("intercept", [True, False])
def test_brackets_the_optimum_of_cvxpy_at_every_step(radius, intercept):
    X, y = load_breast_cancer(return_X_y=True)
    X, y = X[:80], y[:80]
    w, b = cp.Variable(X.shape[1]), cp.Variable() if intercept else 0.0
    # In units in which cvxpy's solver is accurate: w = units * u.
    units = 1.0 / np.abs(X).max(axis=0)
    signs = np.where(y == 1, 1.0, -1.0)
    margins = cp.multiply(signs, (X * units) @ w + b) - radius * cp.norm1(cp.multiply(units, w))
    norm = cp.sum_squares(cp.multiply(units, w)) + (cp.square(b) if intercept else 0.0)
    best = cp.Problem(cp.Minimize(0.5 * norm + cp.sum(cp.pos(1 - margins)))).solve(solver="CLARABEL")
    solution = assert_solved(worst_case(X, y, Box(radius), intercept), gap=1e-5)
    for record in solution.history:
        assert record.dual <= best * (1 + 1e-6)
        assert record.primal >= best * (1 - 1e-6)


@pytest.mark.parametrize("C", [1e-8, 1.0])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_features_of_a_million_and_a_millionth(n_classes, C):
    rng = np.random.default_rng(n_classes)
    y = np.arange(30) % n_classes
    X = rng.standard_normal((30, 6)) + rng.standard_normal((n_classes, 6))[y]
    X *= [1e6, 1e-6, 1.0, 0.0, 1e3, 1e-3]
    problem = worst_case(X, y, Box(1e-3), weights=C * (np.arange(30) % 5 > 0))
    solution = assert_solved(problem)
    assert np.all(np.isfinite(solution.f))


def test_a_change_of_unit_changes_neither_problem_nor_solver():
    X, y = load_wine(return_X_y=True)
    first = InvariantLinearSVC(Box(0.1), random_state=0).fit(X, y)
    second = InvariantLinearSVC(Box(0.1 / 256), C=256.0**2, random_state=0)
    second.fit(X / 256, y)
    space = ExplicitSpace(X.shape[1], 3, intercept=True)
    for model, rows, C in ((first, X, 1.0), (second, X / 256, 256.0**2)):
        term = WorstCase(rows, y, Box(0.1), Multiclass(), C)
        assert isinstance(model._best_solver(Objective(space, [term]))[0], InteriorPoint)


@pytest.mark.parametrize("rows", ["short", "sparse", "wide"])
def test_other_rows_keep_their_solver(rows):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 30)) if rows != "wide" else 1e3 * rng.standard_normal((20, 2000))
    X = sp.csr_matrix(1e3 * np.tile(X, 4)) if rows == "sparse" else X
    problem = worst_case(X, np.arange(20) % 2, Identity() if rows == "sparse" else Box(0.1))
    assert isinstance(InvariantLinearSVC()._best_solver(problem)[0], FrankWolfe)


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
