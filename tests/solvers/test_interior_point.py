"""Common directions of all rows as a convex program: optima, planes, unsupported problems."""

from __future__ import annotations

import warnings

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning

from structinv import InvariantLinearSVC, InvariantLinearSVR, InvariantStructuredSVC
from structinv.losses import Logistic, SquaredHinge
from structinv.oracles import (
    Box,
    Budget,
    Ellipsoid,
    FDrop,
    Identity,
    InvarianceOracle,
    TangentDerivative,
)
from structinv.solvers import FrankWolfe, Gap, InteriorPoint, Iterations, Seconds, Status, solve
from structinv.solvers.interior_point import SpreadTerm, spread_of
from structinv.spaces import ExplicitSpace
from structinv.structures import Binary, Graph, Multilabel, Sequence
from structinv.structures.classes import Multiclass, Regression
from structinv.terms import Objective, WorstCase
from structinv.terms.worst_case import WorstMargin

from ..covering import pairs
from .cases import WORD_LABELS, WORD_ROWS

N, D = 60, 18
RNG = np.random.default_rng(5)
X = RNG.standard_normal((N, D))
SCORES = X @ RNG.standard_normal(D) + RNG.standard_normal(N)
Y = (SCORES > 0).astype(int)
WEIGHTS = np.linspace(0.0, 4.0, N)
RADII = np.where(np.arange(D) % 3 == 0, 0.0, 0.15)
DIRECTIONS, BOUNDS = RNG.standard_normal((4, D)), [0.3, 0.0, 0.1, 0.2]
SETS = {
    "box": (Box(RADII), np.diag(RADII)),
    "directions": (TangentDerivative(DIRECTIONS, BOUNDS), DIRECTIONS * np.array(BOUNDS)[:, None]),
}
COST = np.array([[0.0, 0.5], [2.0, 0.0]])


def term_of(kind, oracle):
    if kind == "regression":
        return WorstCase(X, SCORES, oracle, Regression(0.2), WEIGHTS)
    if kind == "costs":
        return WorstCase(X, Y, oracle, Binary(), WEIGHTS, cost=COST)
    return WorstMargin(X, Y, oracle, {"squared": SquaredHinge(), "logistic": Logistic()}[kind], WEIGHTS)


def problem(kind, name, intercept=True):
    return Objective(ExplicitSpace(D, intercept=intercept), [term_of(kind, SETS[name][0])])


def optimum(kind, name, intercept):
    """The least value, from the definition of the set."""
    w, b = cp.Variable(D), cp.Variable() if intercept else 0.0
    shared = cp.norm1(SETS[name][1] @ w)
    values, signs = X @ w + b, np.where(Y == 1, 1.0, -1.0)
    depths = shared - cp.multiply(signs, values)
    losses = {
        "regression": lambda: cp.pos(cp.abs(values - SCORES) + shared - 0.2),
        "costs": lambda: cp.pos(COST[Y, 1 - Y] + depths),
        "squared": lambda: cp.square(cp.pos(1 + depths)),
        "logistic": lambda: cp.logistic(depths),
    }
    total = 0.5 * cp.sum_squares(w) + 0.5 * cp.square(b) + WEIGHTS @ losses[kind]()
    program = cp.Problem(cp.Minimize(total))
    program.solve(solver="CLARABEL")
    return float(program.value)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("kind", ["regression", "costs", "squared", "logistic"])
def test_a_few_iterations_find_the_optimum(kind, name, intercept):
    solution = solve(
        problem(kind, name, intercept), InteriorPoint(), Gap(1e-6) | Iterations(12), random_state=0
    )
    assert solution.status is Status.CONVERGED
    best = optimum(kind, name, intercept)
    for record in solution.history:
        assert record.dual <= best * (1 + 1e-6)
        assert best <= record.primal * (1 + 1e-6)
    assert solution.primal == pytest.approx(best, rel=2e-6)


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("kind", ["regression", "costs", "squared", "logistic"])
def test_planes_are_lower_bounds_of_losses(kind, name):
    objective = problem(kind, name)
    solver = InteriorPoint()
    state = solver.init(objective, np.random.default_rng(0))
    for _ in range(3):
        solver.step(objective, state)
    planes = state.program.planes(state.planes)
    assert np.all(planes.alphas >= 0)
    assert np.all(np.bincount(planes.blocks, planes.alphas, minlength=N) <= 1 + 1e-9)
    rng = np.random.default_rng(0)
    for scale in (0.1, 1.0, 10.0):
        f = scale * rng.standard_normal(D + 1)
        heights = planes.offsets - objective.space.scores(f, planes.normals)
        losses, _ = objective.terms[0].values(objective.space, f)
        assert np.all(heights <= losses[planes.blocks] + 1e-9 * (1 + scale))


def test_other_solvers_start_from_these_solutions():
    objective = problem("costs", "box")
    first = solve(objective, InteriorPoint(), Gap(1e-6), random_state=0)
    second = solve(objective, FrankWolfe(), Gap(1e-3), warm_start=first, random_state=0)
    again = solve(objective, InteriorPoint(), Gap(1e-6), warm_start=second, random_state=0)
    assert second.status is Status.CONVERGED
    assert again.iterations <= 12
    assert again.status is Status.CONVERGED


def test_classifiers_and_regressors_support_the_solver():
    models = (
        InvariantLinearSVC(Box(0.1), loss="squared_hinge", C=10.0, random_state=0).fit(X, Y),
        InvariantLinearSVC(Box(0.1), C=10.0, random_state=0).fit(X, Y),
        InvariantLinearSVR(Box(0.1), C=10.0, random_state=0).fit(X, SCORES),
        InvariantLinearSVR(FDrop(1), C=10.0, random_state=0).fit(X, SCORES),
    )
    for model in models:
        assert model.solution_.solver == "InteriorPoint"
        assert model.solution_.relative_gap <= 1e-3
        assert model.n_iter_ <= 10


class Mine(Box):
    """Somebody else's box, which may be another set."""

    def support(self, X, V, assign, cost=None):
        return super().support(X, V, assign, cost)


Mine.__module__ = "theirs"


@pytest.mark.parametrize(
    "objective",
    [
        Objective(ExplicitSpace(D), [WorstCase(X, Y, Ellipsoid(0.1), Binary())]),
        Objective(ExplicitSpace(D), [WorstCase(X, Y, Box(0.0), Binary())]),
        Objective(ExplicitSpace(D), [WorstCase(X, Y, Box(0.1).only_for([1]), Binary())]),
        Objective(ExplicitSpace(D), [WorstCase(X, Y, Box(0.1).discounted(0.5), Binary())]),
        Objective(ExplicitSpace(D), [WorstCase(X, Y, Mine(0.1), Binary())]),
        Objective(ExplicitSpace(D, 3), [WorstCase(X, np.arange(N) % 3, Box(0.1), Multiclass())]),
        Objective(ExplicitSpace(D), [WorstCase(X, Y, Box(0.1), Binary(), cost=COST, rescaling="slack")]),
        Objective(ExplicitSpace(D), 2 * [WorstCase(X, Y, Box(0.1), Binary())]),
    ],
    ids=["ball", "nothing", "one label", "grades", "third party", "several labels", "slack", "terms"],
)
def test_other_problems_use_planes(objective):
    assert spread_of(objective) is None
    assert isinstance(objective.terms[0].oracle, InvarianceOracle)


def test_parts_are_convex_blocks():
    space = ExplicitSpace(3)
    normals = np.array([[-1.0, 0.0, 1.0], [1.0, 0.0, 1.0]])
    term = SpreadTerm(normals, 2.0)
    planes = term.planes(space, np.array([-3.0, 7.0, 1.0]))
    assert planes.plane_values.tolist() == planes.upper.tolist() == [2.0]
    assert planes.normals.tolist() == [[1.0, 0.0, 1.0]]
    assert term.total(space, np.array([0.5, 7.0, 1.0])) == (0.0, 0.0)
    with pytest.raises(ValueError, match="normals must belong to the space"):
        Objective(ExplicitSpace(4), [term])


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


STRUCTURED = {
    "sequences": (InvariantStructuredSVC(Sequence()), sequences),
    "sequences-words": (InvariantStructuredSVC(Sequence(), oracle=FDrop(1)), sequences),
    "sequences-budget": (InvariantStructuredSVC(Sequence(), oracle=Budget(FDrop(1))), sequences),
    "graphs": (InvariantStructuredSVC(Graph()), graphs),
    "sets": (InvariantStructuredSVC(Multilabel("tree")), sets),
}


@pytest.mark.parametrize("case", STRUCTURED)
def test_a_large_c_converges(case):
    model, draw = STRUCTURED[case]
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
    # As long as before.
    wide = [0.1 * np.tile(rows, 100) for rows in X]
    assert taken(X, y, C=30.0) == "InteriorPoint"
    for rows, options in (
        (X, {"C": 0.1}),
        (wide, {"C": 30.0}),
        (X, {"C": 30.0, "plane_tol": 0.5}),
        (X, {"C": 30.0, "kernel": "rbf"}),
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


@pytest.mark.parametrize("C", [1e15, pytest.param(1e30, marks=pytest.mark.slow)])
def test_where_rounding_has_the_last_word_a_fit_gives_up_soon(C):
    with pytest.warns(ConvergenceWarning, match="'stalled'"):
        model = InvariantLinearSVC(FDrop(2), C=C, solver="interior_point", random_state=0).fit(
            WORD_ROWS, WORD_LABELS
        )
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


def test_the_interior_point_stops_between_its_steps():
    rng = np.random.default_rng(0)
    X, y = 100 * rng.random((80, 10)), np.arange(80) % 2
    problem = Objective(ExplicitSpace(10), [WorstCase(X, y, Box(0.1), Binary(), 1.0)])
    asked = []

    class OutOfTime(InteriorPoint):
        def step(self, objective, state):
            # From now on time is up.
            objective.out_of_time = lambda: asked.append(True) or True
            return super().step(objective, state)

    solution = solve(problem, OutOfTime(), Gap(0) | Seconds(1e-3), random_state=0)
    assert asked
    assert solution.status is Status.TIME_LIMIT
    assert solution.dual <= solution.primal
