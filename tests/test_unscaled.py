"""Rows that nobody has scaled: the same objective, solved all the same."""

import warnings
from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning

from structinv import InvariantLinearSVC
from structinv.estimators.uninformative_fits import nothing_learned
from structinv.oracles import Box, Ellipsoid, Identity, Shifts
from structinv.solvers import FrankWolfe, Gap, InteriorPoint, Iterations, Status, solve
from structinv.spaces import ExplicitSpace
from structinv.structures import Binary
from structinv.structures.classes import Multiclass
from structinv.terms import Objective, WorstCase

from .covering import pairs

ENOUGH = 60


def rows_of(name):
    return {"iris": load_iris, "wine": load_wine, "breast_cancer": load_breast_cancer}[name](
        return_X_y=True
    )


def worst_case(X, y, oracle, intercept=True, weights=1.0):
    term = WorstCase(X, y, oracle, Binary() if len(np.unique(y)) == 2 else Multiclass(), weights)
    return Objective(ExplicitSpace(X.shape[1], term.labels.n_outputs, intercept=intercept), [term])


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


def test_a_fit_that_learned_nothing_says_so():
    X, y = load_wine(return_X_y=True)
    model = InvariantLinearSVC(Box(0.1), solver="frank_wolfe", max_seconds=1e-6, random_state=0)
    with pytest.warns(ConvergenceWarning, match="if all scores are 0, so the .* are meaningless"):
        model.fit(X, y)


def test_a_fit_that_learned_something_does_not():
    X, y = load_iris(return_X_y=True)
    X = X - X.mean(axis=0)
    term = WorstCase(X, y, Identity(), Multiclass())
    objective = Objective(ExplicitSpace(4, 3), [term])
    solution = solve(objective, FrankWolfe(), Gap(0.0) | Iterations(3), random_state=0)
    assert solution.status is Status.ITERATION_LIMIT
    assert nothing_learned(objective, solution) == ""
    nothing = replace(solution, f=objective.space.zeros())
    assert "if all scores are 0" in nothing_learned(objective, nothing)


def test_images_of_bytes_with_shifts_are_no_zero_model():
    rng = np.random.default_rng(0)
    X, y = rng.integers(256, size=(60, 64)).astype(float), rng.integers(2, size=60)
    model = InvariantLinearSVC(Shifts(1), random_state=0).fit(X, y)
    assert model.solution_.status is Status.CONVERGED
    assert model.n_iter_ <= ENOUGH
    assert np.any(model.coef_)
    assert model.solution_.primal < 60 * (1 - 1e-3)
