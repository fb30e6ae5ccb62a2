"""Stochastic subgradients: bounds at every end of a pass, projection and rate."""

import numpy as np
import pytest

from structinv import InvariantLinearSVC
from structinv.oracles import Box, FDrop, Identity
from structinv.solvers import FrankWolfe, Gap, Iterations, Pegasos, Status, solve
from structinv.spaces import ExplicitSpace
from structinv.structures import Binary
from structinv.terms import Objective, WorstCase

from ..covering import each_once, slow_unless
from ..optima import optimum
from ..problems import CASE, SETTING, SETTINGS, assert_brackets, objective
from .cases import data


class Confined(Pegasos):
    """Projects on a ball far too small, which must not cost it its bounds."""

    def init(self, objective, rng, planes=None):
        state = super().init(objective, rng, planes)
        state.radius *= 0.6
        return state


@pytest.mark.parametrize(("setting", "batch_size"), each_once(SETTINGS, [1, 4, 9]), ids=str)
def test_pegasos_brackets_the_optimum_where_it_projects_often(setting, batch_size):
    problem, solver = objective(CASE["box"].oracle, setting), Confined(batch_size=batch_size)
    best = optimum("box", setting.name)
    solution = solve(problem, solver, Gap(0) | Iterations(40), random_state=1)
    assert_brackets(solution, best)
    assert solution.dual > 0.2 * best


@pytest.mark.parametrize("factor", [0.01, 0.1])
def test_the_first_bound_of_pegasos_in_closed_form(factor):
    # At the zero function all rows have a loss of 1, so one batch adds c_i y_i (x_i, 1) for each.
    this, where = objective(Identity(), factor=factor), SETTING["binary"]
    c, signs = factor * np.array(where.weights), 2.0 * where.y - 1.0
    f = (c * signs) @ np.column_stack([where.X, np.ones(len(c))])
    assert c.sum() > 0.5 * f @ f
    solver = Pegasos(batch_size=99, projection=False, average=False)
    solution = solve(this, solver, Iterations(1), random_state=0)
    assert solution.dual == pytest.approx(c.sum() - 0.5 * f @ f, rel=1e-12)


def test_pegasos_reaches_an_optimum_at_the_end_of_its_ball():
    # Equal signed rows with a total weight of 1: f(x) = 1 has no loss, and |f|^2 = F(0) = 1.
    X, y = np.array([[1.0], [-1.0]] * 4), np.array([1, 0] * 4)
    this = Objective(ExplicitSpace(1), [WorstCase(X, y, Identity(), Binary(), 0.125)])
    solution = solve(this, Pegasos(batch_size=3), Gap(1e-2), random_state=0)
    assert_brackets(solution, 0.5)
    assert solution.status is Status.CONVERGED


@pytest.mark.parametrize(
    ("setting", "options"),
    slow_unless(
        lambda setting, options: len(options) > 1,
        [
            ("binary", {"batch_size": 1}),
            ("binary", {"batch_size": 4, "average": False}),
            ("binary", {"batch_size": 99}),
            ("binary", {"batch_size": 4, "projection": False}),
            ("multiclass", {"batch_size": 4}),
        ],
    ),
    ids=str,
)
def test_pegasos_has_its_rate(setting, options):
    best = optimum("box-radii", setting)
    problem = objective(Box([0.5, 0.0, 1.0, 0.2, 0.0]), SETTING[setting])
    solution = solve(problem, Pegasos(**options), Gap(0) | Iterations(400), random_state=0)
    assert_brackets(solution, best)
    gap = {record.iteration: record.primal - record.dual for record in solution.history}
    passes = np.array([25, 50, 100, 200, 400])
    slope, _ = np.polyfit(np.log(passes), np.log([gap[n] for n in passes]), 1)
    assert slope <= -0.7


@pytest.mark.parametrize("solver", [Pegasos(batch_size=1), FrankWolfe(plane_tol=1e-3)])
def test_rows_none_of_whose_errors_costs_anything(solver):
    X, y = data()
    cost = [[0, 3], [0, 0]]
    # To 1e-2, as Pegasos at one row a step needs.
    parameters = {"cost": cost, "rescaling": "slack", "solver": solver, "C": 0.02, "tol": 1e-2}
    model = InvariantLinearSVC(FDrop(2), **parameters, random_state=0)
    # Next to no rows of the class that counts, so that batches hold none.
    found = model.fit(X, y, sample_weight=np.where(y < 0, np.arange(40) < 4, 1.0)).solution_
    assert found.dual <= found.primal
    assert found.status is Status.CONVERGED


def test_balanced_classes_one_of_which_has_no_sample_that_counts():
    X, y = data()
    model = InvariantLinearSVC(class_weight="balanced")
    assert model.fit(X, y, sample_weight=(y > 0) * 1.0).predict(X).tolist() == [1] * 40
