"""Losses of the worst-case margin: terms, dual state and estimators."""

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize_scalar
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from structinv import InvariantLinearSVC, InvariantSVC
from structinv.dual import TABLE as STATES
from structinv.dual import dual_state, refusals
from structinv.dual.margin_state import MarginState
from structinv.dual.margin_steps import KINDS, best_alpha, conjugate, loss_value, slope_ascent
from structinv.dual.plane_cache import PlaneCache
from structinv.losses import EpsilonInsensitive, Logistic, Squared, SquaredHinge
from structinv.oracles import Box, FDrop, Identity
from structinv.solvers import REGISTRY, FrankWolfe, Gap, Iterations, Start, Status, solve
from structinv.spaces import ExplicitSpace
from structinv.spaces.kernel_space import KernelSpace
from structinv.structures import Binary
from structinv.terms import Objective, Penalty, WorstCase
from structinv.terms.worst_case import WorstMargin

from ..covering import each_once, pairs, slow_unless
from ..kernel_problems import KERNELS
from ..optima import kernel_margin_optimum as kernel_optimum
from ..optima import margin_optimum as optimum
from ..oracles.cases import CASES, D
from ..oracles.orbit_cases import ORBIT_CASE
from ..problems import CASE, SETTINGS, LinearFunctionals, N, assert_brackets, two_classes
from .cases import MARGIN_LOSSES as LOSSES
from .cases import margin_problem as problem

SETTING = SETTINGS[0]
SMOOTH = ["squared_hinge", "logistic"]
UNGRADED = [case for case in CASES if not case.graded]
FIRST = list({type(case.oracle): case for case in reversed(UNGRADED)}.values())[::-1]
EXACT = sorted(set(REGISTRY) - {"pegasos", "representer"})
PLANES = [name for name in EXACT if name != "frank_wolfe"]
MACHINES = ["frank_wolfe", "svmstruct", "bmrm"]
ORBITS = sorted(name for name, case in ORBIT_CASE.items() if not case.oracle.graded)


def two_losses(case):
    """Two of the losses, of which one is smooth: cases have them in turns."""
    at = UNGRADED.index(case)
    return [list(LOSSES)[at % 3], SMOOTH[at % 2] if at % 3 == 0 else list(LOSSES)[(at + 1) % 3]]


# The first case of each oracle. Solvers other than frank_wolfe see planes alone: most cases have one of
# them in turns, and over the cases each meets all losses.
@pytest.mark.parametrize(
    ("case", "loss", "name"),
    slow_unless(
        lambda case, loss, name: case in FIRST and loss == two_losses(case)[0],
        [(case, loss, "frank_wolfe") for case in UNGRADED for loss in LOSSES],
    )
    + slow_unless(
        lambda case, loss, name: case in FIRST and (FIRST.index(case) + PLANES.index(name)) % 4 == 0,
        [(case, two_losses(case)[0], name) for case in UNGRADED for name in PLANES],
    ),
    ids=str,
)
def test_reaches_the_optimum(case, loss, name):
    best = optimum(case.name, loss)
    this = problem(case.oracle, loss)
    solution = solve(this, REGISTRY[name](), Gap(2e-5), random_state=0)
    assert_brackets(solution, best)
    assert solution.status is Status.CONVERGED
    assert solution.primal == pytest.approx(this.value(solution.f).upper, rel=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
def test_steps_on_the_points_of_a_row_raise_the_dual_until_a_tenth_of_its_gap_is_left(loss):
    kind, rng = KINDS[type(LOSSES[loss])], np.random.default_rng(0)
    for size in [1, 2, 3, 6] * 10:
        normals, weights = rng.standard_normal((size, 4)), rng.uniform(0.1, 3.0, 1)
        gram, slopes = normals @ normals.T, rng.dirichlet(np.ones(size)) * rng.random()
        order, start = np.arange(size), np.array([0, size])

        def dual(slopes, normals=normals, c=weights[0]):
            f = c * slopes @ normals
            return -c * conjugate(kind, slopes.sum()) - 0.5 * f @ f

        gaps, before = [], dual(slopes)
        for _ in range(3):
            gains = -weights[0] * gram @ slopes
            gap = loss_value(kind, gains.max()) + conjugate(kind, slopes.sum()) - slopes @ gains
            gaps.append(
                slope_ascent(gram, gains, order, start, weights, slopes, kind, 0.0, max_passes=1)
            )
            assert gaps[-1] == pytest.approx(weights[0] * gap, abs=1e-9)
            np.testing.assert_allclose(gains, -weights[0] * gram @ slopes, atol=1e-9)
            assert dual(slopes) >= before - 1e-10
            before = dual(slopes)
        assert gaps[1] <= 0.1 * gaps[0] + 1e-10
        assert slopes.min() >= 0.0


@pytest.mark.parametrize(
    ("case", "loss"),
    slow_unless(
        lambda case, loss: case in FIRST and loss == SMOOTH[UNGRADED.index(case) % 2],
        [(case, loss) for case in UNGRADED if case.sparse for loss in SMOOTH],
    ),
    ids=str,
)
def test_sparse_rows_reach_the_optimum(case, loss):
    solution = solve(problem(case.oracle, loss, sparse=True), FrankWolfe(), Gap(1e-6), random_state=0)
    assert_brackets(solution, optimum(case.name, loss))
    assert solution.status is Status.CONVERGED


@pytest.mark.parametrize("loss", SMOOTH)
def test_the_optimum_with_a_penalty_is_reached(loss):
    family = LinearFunctionals(np.array([[1.0, -1.0, 0.0, 0.0, 0.0]]))
    this = problem(CASE["box"].oracle, loss, penalties=[Penalty(family, Squared(), 3.0)])
    solution = solve(this, FrankWolfe(), Gap(1e-6), random_state=0)
    # Squared is u^2.
    share = float(Squared().value(np.ones(1))[0])
    assert_brackets(solution, optimum("box", loss, penalty=3.0 * share))
    assert solution.status is Status.CONVERGED


def raised(loss, level):
    """The loss plus a constant, with the lower bound that it then has."""

    class Raised(type(loss)):
        lower_bound = level

        def value(self, u):
            return super().value(u) + level

        def conjugate(self, p):
            return super().conjugate(p) - level

    return Raised()


@pytest.mark.parametrize("level", [0.7, -0.15])
@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_a_constant_of_losses_is_added_to_all_bounds(name, level):
    weights, tolerance = np.array(SETTING.weights), 1e-2 if name == "pegasos" else 1e-5
    rows = SETTING.X, SETTING.y, CASE["box"].oracle
    term = WorstMargin(*rows, raised(SquaredHinge(), level), weights)
    family = LinearFunctionals(np.array([[1.0, -1.0, 0.0, 0.0, 0.0]]))
    penalty = Penalty(family, raised(Squared(), 0.5 * level), 3.0)
    this = Objective(ExplicitSpace(D, intercept=True), [term, penalty])
    best = optimum("box", "squared_hinge", penalty=3.0) + level * (weights.sum() + 1.5)
    solution = solve(this, REGISTRY[name](), Gap(tolerance), random_state=0)
    again = solve(this, REGISTRY[name](), Iterations(3), warm_start=solution, random_state=1)
    assert solution.status is Status.CONVERGED
    assert solution.primal <= best * (1 + tolerance)
    for each in (solution, again):
        assert_brackets(each, best)


# The planes of a squared hinge have negative offsets where margins are far below -1.
@pytest.mark.parametrize("loss", SMOOTH)
@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_a_start_far_on_the_wrong_side_has_valid_bounds(name, loss):
    this = problem(CASE["box"].oracle, loss)
    right = solve(this, FrankWolfe(), Gap(1e-2), random_state=0)
    start = Start(-20.0 * right.f, right.dual_variables)
    solution = solve(this, REGISTRY[name](), Iterations(4), warm_start=start, random_state=0)
    assert_brackets(solution, optimum("box", loss))


# With one size of the cache each, and one loss and one solver for every other oracle.
@pytest.mark.parametrize(
    ("case_name", "name", "loss", "cache_mb"),
    slow_unless(
        lambda case, name, loss, cache_mb: (
            loss == SMOOTH[(ORBITS.index(case) // 2 + MACHINES.index(name)) % 2]
            and (ORBITS.index(case) + MACHINES.index(name)) % 3 == 0
            and ORBITS.index(case) % 2 == 0
        ),
        [
            (case, name, loss, (100.0, 0.0005)[(i + j + k) % 2])
            for i, case in enumerate(ORBITS)
            for j, name in enumerate(MACHINES)
            for k, loss in enumerate(SMOOTH)
        ],
    ),
)
def test_kernel_machines_reach_the_optimum(case_name, name, loss, cache_mb):
    best = kernel_optimum(case_name, loss)
    case = ORBIT_CASE[case_name]
    term = WorstMargin(SETTING.X, SETTING.y, case.oracle, LOSSES[loss], np.array(SETTING.weights))
    this = Objective(KernelSpace(KERNELS["gaussian"], D, cache_mb=cache_mb), [term])
    solution = solve(this, REGISTRY[name](), Gap(1e-5), random_state=0)
    assert_brackets(solution, best)
    assert solution.status is Status.CONVERGED


class TestSteps:
    @pytest.mark.parametrize("loss", LOSSES)
    def test_values_and_conjugates_are_those_of_the_loss(self, loss):
        kind = KINDS[type(LOSSES[loss])]
        for u in [-50.0, -1.0, -0.3, 0.0, 2.0, 40.0]:
            assert loss_value(kind, u) == pytest.approx(LOSSES[loss].value(np.array(-u)), abs=1e-15)
        for t in [0.0, 1e-9, 0.3, 1.0]:
            assert conjugate(kind, t) == pytest.approx(LOSSES[loss].conjugate(np.array(-t)), abs=1e-15)

    @pytest.mark.parametrize("loss", LOSSES)
    def test_best_alpha_is_optimal(self, loss):
        kind = KINDS[type(LOSSES[loss])]
        for q, v in product([0.0, 1e-3, 1.0, 2e3, 1e9], [-30.0, -1.0, 0.2, 6.2, 500.0]):

            def lost(t, q=q, v=v):
                return conjugate(kind, t) + 0.5 * q * t * t - v * t

            highest = 2.0 * (1.0 + abs(v)) if loss == "squared_hinge" else 1.0
            found = best_alpha(kind, v, q)
            by_search = minimize_scalar(lost, bounds=(0.0, highest), method="bounded").x
            assert 0.0 <= found <= highest + 1e-12, (q, v)
            assert lost(found) <= lost(by_search) + 1e-9 * (1.0 + abs(lost(by_search))), (q, v)


class TestState:
    def test_margin_state_is_only_for_margin_losses(self):
        this, rng = problem(Box(0.1), "logistic"), np.random.default_rng(0)
        assert isinstance(dual_state(this.terms[0], this.space, rng), MarginState)
        assert set(refusals(this.terms[0], this.space)) == set(STATES) - {"margin", "plane_cache"}
        plain = WorstCase(SETTING.X, SETTING.y, Box(0.1), Binary())
        assert refusals(plain, this.space)["margin"] == "the term is WorstCase, not WorstMargin"

    def test_a_loss_without_compiled_steps_uses_planes(self):
        class Doubled(SquaredHinge):
            def value(self, u):
                return 2 * super().value(u)

            def derivative(self, u):
                return 2 * super().derivative(u)

            def conjugate(self, p):
                return 2 * super().conjugate(p / 2)

        weights = np.array(SETTING.weights)
        term = WorstMargin(SETTING.X, SETTING.y, FDrop(1), Doubled(), weights / 2)
        this = Objective(ExplicitSpace(D, intercept=True), [term])
        state = dual_state(term, this.space, np.random.default_rng(0))
        assert isinstance(state, PlaneCache)
        best = solve(problem(FDrop(1), "squared_hinge"), FrankWolfe(), Gap(1e-7), random_state=0)
        solution = solve(this, FrankWolfe(), Gap(1e-3), random_state=0)
        assert_brackets(solution, best.primal)


class TestTerm:
    def test_increasing_losses_are_refused(self):
        with pytest.raises(ValueError, match="loss must be a margin loss"):
            WorstMargin(SETTING.X, SETTING.y, Identity(), EpsilonInsensitive(0.1))

    def test_rows_without_weight_need_no_bound(self):
        known = SETTING.X[:, 0] < 0.5

        class SomeUnbounded(Box):
            def support(self, X, V, assign, cost=None):
                answer = super().support(X, V, assign, cost)
                values = answer.values(V, assign)
                return type(answer)(answer.points, np.where(X[:, 0] < 0.5, values, np.inf))

        space, f = ExplicitSpace(D), np.linspace(-1.0, 1.0, D)
        weights = np.where(known, SETTING.weights, 0.0)
        term = WorstCase(SETTING.X, SETTING.y, SomeUnbounded(0.1), Binary(), weights)
        assert np.array_equal(np.isfinite(term.values(space, f)[0]), known)
        assert 0 < np.count_nonzero(known) < N
        rest = WorstCase(SETTING.X[known], SETTING.y[known], Box(0.1), Binary(), weights[known])
        expected = rest.total(space, f)
        assert term.total(space, f) == pytest.approx(expected, rel=1e-12)
        plane = Objective(space, [term]).plane_of_sum(f)
        found = [float(part[0]) for part in (plane.upper, plane.plane_values)]
        assert found == pytest.approx(list(expected), rel=1e-12)

    def test_an_oracle_without_a_bound_has_no_upper_value(self):
        class Unbounded(Box):
            def support(self, X, V, assign, cost=None):
                answer = super().support(X, V, assign, cost)
                return type(answer)(answer.points, np.full(X.shape[0], np.inf))

            def maximum(self, *arguments):
                return None

        term = WorstMargin(SETTING.X, SETTING.y, Unbounded(0.1), Logistic())
        upper, attained = term.values(ExplicitSpace(D), np.ones(D))
        assert np.all(np.isinf(upper))
        assert np.all(np.isfinite(attained))


X, Y = two_classes()


class TestEstimators:
    @pytest.mark.parametrize(
        ("C", "intercept", "make"),
        pairs([0.01, 1.0, 30.0], [True, False], [np.asarray, sp.csr_matrix]),
    )
    def test_squared_hinge_is_that_of_scikit_learn(self, C, intercept, make):
        noisy = np.where(np.arange(len(Y)) % 7 == 0, 1 - Y, Y)
        model = InvariantLinearSVC(
            loss="squared_hinge", C=C, tol=1e-8, fit_intercept=intercept, random_state=0
        ).fit(make(X), noisy)
        theirs = LinearSVC(C=C, tol=1e-12, max_iter=1_000_000, fit_intercept=intercept).fit(X, noisy)
        np.testing.assert_allclose(model.coef_, theirs.coef_, atol=2e-3)
        values = [
            squared_hinges(each.coef_[0], float(np.sum(each.intercept_)), C, noisy)
            for each in (model, theirs)
        ]
        assert values[0] == pytest.approx(model.solution_.primal, rel=1e-10)
        assert values[0] == pytest.approx(values[1], rel=1e-6)

    @pytest.mark.parametrize(("C", "make"), each_once([0.01, 1.0, 30.0], [np.asarray, sp.csr_matrix]))
    def test_logistic_is_that_of_scikit_learn(self, C, make):
        noisy = np.where(np.arange(len(Y)) % 7 == 0, 1 - Y, Y)
        model = InvariantLinearSVC(
            loss="logistic", C=C, tol=1e-8, fit_intercept=False, random_state=0
        ).fit(make(X), noisy)
        theirs = LogisticRegression(C=C, tol=1e-10, max_iter=10_000, fit_intercept=False).fit(X, noisy)
        margins = (2 * noisy - 1) * (X @ theirs.coef_[0])
        value = 0.5 * np.sum(theirs.coef_**2) + C * np.sum(np.logaddexp(0.0, -margins))
        np.testing.assert_allclose(model.coef_, theirs.coef_, atol=2e-3)
        assert model.solution_.primal == pytest.approx(value, rel=1e-6)

    @pytest.mark.parametrize("loss", SMOOTH)
    @pytest.mark.parametrize("kind", [InvariantLinearSVC, InvariantSVC])
    def test_more_classes_are_refused(self, kind, loss):
        with pytest.raises(ValueError, match=f"loss must be 'hinge' .* loss='{loss}' and 3 classes"):
            kind(loss=loss).fit(X, np.arange(len(X)) % 3)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"cost": [[0, 1], [2, 0]]}, "cost must be None with loss='logistic'.*class_weight"),
            ({"rescaling": "slack"}, "rescaling must be 'margin' with loss='logistic'.*class_weight"),
            ({"oracle": Box(1.0).discounted(0.5)}, "loss must be 'hinge' .*discounted.*loss='logistic'"),
        ],
    )
    def test_costs_and_grades_are_refused(self, options, message):
        model = InvariantLinearSVC(loss="logistic", **options)
        with pytest.raises(ValueError, match=message):
            model.fit(X, Y)
        assert not hasattr(model, "coef_")

    @pytest.mark.parametrize("loss", SMOOTH)
    def test_warm_starts_of_the_same_and_of_another_loss_have_valid_bounds(self, loss):
        model = InvariantLinearSVC(FDrop(1), loss=loss, C=5.0, warm_start=True, random_state=0)
        model.fit(X, Y)
        again = model.set_params(C=6.0, tol=1e-6).fit(X, Y).solution_
        fresh = InvariantLinearSVC(FDrop(1), loss=loss, C=6.0, tol=1e-6, random_state=0).fit(X, Y)
        assert again.primal == pytest.approx(fresh.solution_.primal, rel=2e-6)
        other = model.set_params(loss="hinge", tol=1e-3).fit(X, Y)
        assert other.solution_.dual <= fresh.set_params(loss="hinge").fit(X, Y).solution_.primal

    def test_a_checkpoint_of_another_loss_has_valid_bounds(self, tmp_path):
        path = tmp_path / "checkpoint"
        options = {"checkpoint": path, "tol": 0.0, "max_seconds": 0.2, "random_state": 0}
        with pytest.warns(UserWarning, match="time limit|stalled"):
            InvariantLinearSVC(FDrop(1), loss="logistic", **options).fit(X, Y)
        options |= {"tol": 1e-4, "max_seconds": None}
        found = InvariantLinearSVC(FDrop(1), loss="squared_hinge", **options).fit(X, Y).solution_
        fresh = InvariantLinearSVC(FDrop(1), loss="squared_hinge", tol=1e-4, random_state=0).fit(X, Y)
        assert found.dual <= fresh.solution_.primal
        assert fresh.solution_.dual <= found.primal


def squared_hinges(w, constant, C, labels):
    margins = (2 * labels - 1) * (X @ w + constant)
    return 0.5 * (w @ w + constant**2) + C * np.sum(np.maximum(0.0, 1.0 - margins) ** 2)
