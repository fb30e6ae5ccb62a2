"""Smooth losses of unperturbed rows: coordinate steps, and Newton's method."""

import numpy as np
import pytest

from structinv.dual.row_state import SlopeState
from structinv.losses import Logistic, Squared, SquaredHinge
from structinv.oracles import Box, FDrop, Identity, InvarianceOracle, Support
from structinv.rows.sources import MatrixRows
from structinv.solvers import FrankWolfe, Gap, Status, solve
from structinv.spaces import ExplicitSpace
from structinv.structures import Binary
from structinv.terms import Objective, Penalty, WorstCase
from structinv.terms.blockwise_term import BlockSizes, BlockwiseTerm
from structinv.terms.worst_case import WorstMargin

from ..problems import LinearFunctionals
from .cases import SLOPE_D as D
from .cases import SLOPE_WEIGHTS as WEIGHTS
from .cases import SLOPE_X as X
from .cases import SLOPE_Y as Y
from .cases import slope_optimum as optimum
from .cases import slope_problem as problem

LOSSES = {"squared_hinge": SquaredHinge(), "logistic": Logistic()}
# Rows whose steps undo each other, and others whose steps do not.
FACTORS = {"short": 0.02, "long": 300.0}


def assert_brackets(solution, best):
    slack = 1e-9 * (1.0 + best)
    for record in solution.history:
        assert record.dual <= best + slack
        assert record.primal >= best - slack


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("length", FACTORS)
@pytest.mark.parametrize(("sparse", "intercept"), [(False, True), (True, False)])
def test_it_reaches_the_optimum(length, loss, sparse, intercept):
    factor = FACTORS[length]
    this = problem(loss, factor, sparse=sparse, intercept=intercept)
    solution = solve(this, FrankWolfe(), Gap(1e-8), random_state=0, check_always=True)
    assert solution.status is Status.CONVERGED
    assert_brackets(solution, optimum(loss, factor, intercept))
    again = FrankWolfe().init(this, np.random.default_rng(1), solution)
    assert FrankWolfe().bounds(this, again).dual == pytest.approx(solution.dual, rel=1e-7)
    assert solution.iterations < 15


@pytest.mark.parametrize("loss", LOSSES)
def test_newton_steps_follow_slow_passes(loss):
    taken = {}
    for length, factor in FACTORS.items():
        this, rng = problem(loss, factor), np.random.default_rng(0)
        state = FrankWolfe().init(this, rng)
        (own,) = state.parts
        assert isinstance(own, SlopeState)
        duals = []
        for _ in range(8):
            FrankWolfe().step(this, state)
            duals.append(FrankWolfe().bounds(this, state).dual)
        assert np.all(np.diff(duals) >= -1e-9 * abs(duals[-1]))
        np.testing.assert_allclose(own.combination(), state.f, rtol=1e-7, atol=1e-9)
        taken[length] = own.primal is not None
    assert taken == {"short": False, "long": True}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("factor", FACTORS.values())
def test_the_optimum_with_a_penalty_is_reached(loss, factor):
    family = LinearFunctionals((np.eye(D)[0] - np.eye(D)[1])[None])
    this = problem(loss, factor, penalties=[Penalty(family, Squared(), 3.0)])
    solution = solve(this, FrankWolfe(), Gap(1e-6), random_state=0)
    assert solution.status is Status.CONVERGED
    assert_brackets(solution, optimum(loss, factor, True, penalty=3.0))


def test_the_primal_of_one_of_several_terms_is_used_only_if_better():
    halves = [
        WorstMargin(X[part], Y[part], Identity(), Logistic(), 300.0, np.array([0, 1]))
        for part in (np.s_[::2], np.s_[1::2])
    ]
    this = Objective(ExplicitSpace(D), halves)
    solver = FrankWolfe()
    state = solver.init(this, np.random.default_rng(0))
    best = []
    for _ in range(10):
        solver.step(this, state)
        bounds = solver.bounds(this, state)
        points = [state.f, *(part.primal for part in state.parts if part.primal is not None)]
        values = [this.value(f).upper for f in points]
        assert bounds.upper == pytest.approx(min(values), rel=1e-12)
        best.append(int(np.argmin(values)))
    # Each point is the best at times.
    assert set(best) == {0, 1, 2}


class Loose(InvarianceOracle):
    """A box whose bounds are too high, the more so for long directions."""

    def support(self, X, V, assign, cost=None):
        points = X + 0.3 * np.sign(V)[assign]
        upper = np.einsum("ij,ij->i", points, V[assign]) + 3.0 * np.linalg.norm(V, axis=1)[assign]
        return Support(points, upper)


def test_loose_bounds_do_not_decide_which_point_is_the_best():
    rng = np.random.default_rng(3)
    long = rng.standard_normal((40, 5)) * [1.0, 1.0, 1.0, 10.0, 30.0]
    signs = np.sign(long[:, 0] + 0.3 * rng.standard_normal(40)).astype(int)
    plain = WorstMargin(long, signs, Identity(), SquaredHinge(), 300.0)
    short = rng.standard_normal((20, 5))
    signs = np.sign(short[:, 1] + 0.3 * rng.standard_normal(20)).astype(int)
    this = Objective(ExplicitSpace(5), [plain, WorstCase(short, signs, Loose(), Binary())])
    solver, differ = FrankWolfe(), False
    state = solver.init(this, np.random.default_rng(0))
    for _ in range(25):
        solver.step(this, state)
        bounds = solver.bounds(this, state)
        points = [state.f, *(part.primal for part in state.parts if part.primal is not None)]
        values = [this.value(f) for f in points]
        best = min(values, key=lambda value: value.attained)
        assert bounds.attained == pytest.approx(best.attained, rel=1e-12)
        assert bounds.upper == pytest.approx(best.upper, rel=1e-12)
        differ |= best.upper > min(value.upper for value in values) * (1 + 1e-9)
    assert differ


@pytest.mark.parametrize("oracle", [Box(0.3), FDrop(2)], ids=str)
def test_levels_of_perturbed_rows_start_plain_rows(oracle):
    changed = solve(problem("logistic", oracle=oracle), FrankWolfe(), Gap(1e-4), random_state=0)
    this = problem("logistic")
    state = FrankWolfe().init(this, np.random.default_rng(0), changed)
    assert FrankWolfe().bounds(this, state).dual <= optimum("logistic", 1.0, True) + 1e-9


def test_rows_of_zeros_have_the_slope_at_zero():
    rows = X.copy()
    rows[:5] = 0.0
    term = WorstMargin(rows, Y, Identity(), Logistic())
    this = Objective(ExplicitSpace(D), [term])
    solution = solve(this, FrankWolfe(), Gap(1e-9), random_state=0)
    assert solution.status is Status.CONVERGED


@pytest.mark.parametrize("loss", LOSSES)
def test_rows_in_blocks_reach_the_same_value(loss):
    whole = problem(loss, FACTORS["short"])
    best = optimum(loss, FACTORS["short"], True)
    weights = FACTORS["short"] * WEIGHTS

    def part(rows, some):
        return WorstMargin(rows, Y[some], Identity(), LOSSES[loss], weights[some], np.array([0, 1]))

    labels = Binary().bind(Y, np.array([0, 1]))
    term = BlockwiseTerm(MatrixRows(X), part, labels, weights, BlockSizes(20 * D))
    assert len(term.cuts) > 2
    solution = solve(Objective(whole.space, [term]), FrankWolfe(), Gap(1e-6), random_state=0)
    assert solution.status is Status.CONVERGED
    assert_brackets(solution, best)
