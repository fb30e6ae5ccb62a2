"""Common directions of all rows as a convex program: optima, planes, unsupported problems."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

from structinv import InvariantLinearSVC, InvariantLinearSVR
from structinv.losses import Logistic, SquaredHinge
from structinv.oracles import Box, Ellipsoid, FDrop, InvarianceOracle, TangentDerivative
from structinv.solvers import FrankWolfe, Gap, InteriorPoint, Iterations, Status, solve
from structinv.solvers.interior_point import SpreadTerm, spread_of
from structinv.spaces import ExplicitSpace
from structinv.structures import Binary
from structinv.structures.classes import Multiclass, Regression
from structinv.terms import Objective, WorstCase
from structinv.terms.worst_case import WorstMargin

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
