"""Regression at worst changes: the structure, its optima, and what every solver makes of it."""

from __future__ import annotations

from functools import cache

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

from structinv.dual import dual_state, refusals
from structinv.dual.case import Case
from structinv.dual.linear_member_state import LinearMemberState
from structinv.dual.member_state import MemberState
from structinv.dual.plane_cache import PlaneCache
from structinv.dual.row_state import TubeState
from structinv.oracles import Box, FDrop, Identity
from structinv.solvers import REGISTRY, FrankWolfe, Gap, Status, SVMStruct, solve
from structinv.spaces import ExplicitSpace
from structinv.spaces.kernel_space import KernelSpace
from structinv.structures import Binary, Layout
from structinv.structures.classes import Regression
from structinv.terms import Objective, WorstCase

from ..covering import pairs, slow_unless
from ..kernel_problems import KERNELS, over_members
from ..oracles.cases import CASES, D
from ..oracles.orbit_cases import ORBIT_CASE, ORBIT_CASES
from ..problems import EXACT, assert_brackets, minimum

N = 12
EPSILON = 0.15
CASE = {case.name: case for case in CASES}


@cache
def rows():
    rng = np.random.default_rng(11)
    X = rng.standard_normal((N, D))
    X[rng.random((N, D)) < 0.1] = 0.0
    y = 1.5 * X @ rng.standard_normal(D) + 0.3 * rng.standard_normal(N) + 0.4
    weights = np.linspace(0.1, 1.2, N)
    weights[3] = 0.0
    return X, y, weights


def takes_targets(case):
    """Whether the answers have no grades and do not depend on labels."""
    if case.oracle.graded:
        return False
    try:
        case.oracle.bind(rows()[0])
    except ValueError:
        return False
    return True


USABLE = [case for case in CASES if takes_targets(case)]
LISTS = [case for case in ORBIT_CASES if takes_targets(case)]


def objective(oracle, *, sparse=False, intercept=True, epsilon=EPSILON):
    X, y, weights = rows()
    term = WorstCase(sp.csr_matrix(X) if sparse else X, y, oracle, Regression(epsilon), weights)
    return Objective(ExplicitSpace(D, intercept=intercept), [term])


@cache
def optimum(name, intercept=True):
    """The optimum in cvxpy, from the case's own expression of its support."""
    X, y, weights = rows()
    w, b = cp.Variable(D), cp.Variable() if intercept else 0.0
    total = 0.5 * cp.sum_squares(w) + (0.5 * cp.square(b) if intercept else 0.0)
    for x, target, weight in zip(X, y, weights, strict=True):
        above = CASE[name].support_expression(x, 0, w) + b - target - EPSILON
        below = CASE[name].support_expression(x, 0, -w) - b + target - EPSILON
        total = total + weight * cp.maximum(0.0, above, below)
    return minimum(total)


# Dense and sparse rows in turns; the box takes dense ones only.
@pytest.mark.parametrize(
    ("kind", "solver", "sparse"),
    [
        (kind, solver, kind is not Box and (a + b) % 2 == 0)
        for a, kind in enumerate((Identity, FDrop, Box))
        for b, solver in enumerate(sorted(REGISTRY))
    ],
)
def test_every_solver_brackets_the_optimum(kind, solver, sparse):
    case = next(case for case in USABLE if type(case.oracle) is kind)
    problem = objective(case.oracle, sparse=sparse, intercept=not sparse)
    tol = 1e-6 if solver in EXACT else 2e-2
    solution = solve(problem, REGISTRY[solver](), Gap(tol), random_state=0)
    assert solution.status is Status.CONVERGED
    assert_brackets(solution, optimum(case.name, not sparse))


@cache
def kernel_optimum(name, kernel):
    """The optimum over all listed members."""
    X, y, weights = rows()

    def loss(i, mine):
        return weights[i] * cp.pos(cp.max(cp.abs(mine - y[i])) - EPSILON)

    return over_members(KERNELS[kernel], ORBIT_CASE[name].members(X, y), 1, loss)[0]


@pytest.mark.parametrize(
    ("case", "kernel"),
    slow_unless(
        lambda case, kernel: (
            # Polynomials of compositions take long.
            kernel == ("gaussian" if "compose" in case.name else "polynomial")
            and LISTS.index(case) % 2 == 0
        ),
        [(case, kernel) for case in LISTS for kernel in KERNELS],
    ),
    ids=str,
)
def test_kernels_reach_the_optimum_over_all_members(case, kernel):
    X, y, weights = rows()
    space = KernelSpace(KERNELS[kernel], D)
    term = WorstCase(X, y, case.oracle, Regression(EPSILON), weights)
    solution = solve(Objective(space, [term]), FrankWolfe(), Gap(1e-6), random_state=0)
    assert solution.primal == pytest.approx(kernel_optimum(case.name, kernel), rel=2e-6)
    assert_brackets(solution, kernel_optimum(case.name, kernel))


@pytest.mark.parametrize(
    ("solver", "cache_mb"),
    [(solver, (100.0, 0.0005)[number % 2]) for number, solver in enumerate(sorted(REGISTRY))],
)
def test_every_solver_brackets_a_kernels_optimum(solver, cache_mb):
    X, y, weights = rows()
    space = KernelSpace(KERNELS["gaussian"], D, cache_mb=cache_mb)
    term = WorstCase(X, y, ORBIT_CASE["permutations"].oracle, Regression(EPSILON), weights)
    tol = 1e-6 if solver in EXACT else 2e-2
    solution = solve(Objective(space, [term]), REGISTRY[solver](), Gap(tol), random_state=0)
    assert solution.status is Status.CONVERGED
    assert_brackets(solution, kernel_optimum("permutations", "gaussian"))


def test_lists_have_states_of_their_own_and_hulls_refuse():
    rng = np.random.default_rng(0)
    X, y, _ = rows()
    flip = ORBIT_CASE["flip"].oracle
    for oracle, kind in ((Identity(), TubeState), (flip, LinearMemberState), (Box(0.1), PlaneCache)):
        problem = objective(oracle)
        (term,), space = problem.terms, problem.space
        assert isinstance(dual_state(term, space, rng), kind)
        assert refusals(term, space)["rows"] == "the structure is not two classes with one function"
    term = WorstCase(X, y, flip, Regression())
    assert isinstance(dual_state(term, KernelSpace(KERNELS["gaussian"], D), rng), MemberState)


@pytest.mark.parametrize(
    ("form", "dtype", "intercept"),
    [
        (np.asarray, np.float64, False),
        (np.asarray, np.float32, True),
        (np.asfortranarray, np.float64, True),
        (sp.csr_matrix, np.float64, False),
        (sp.csr_matrix, np.float64, True),
        pytest.param(sp.csr_matrix, np.float32, True, marks=pytest.mark.slow),
    ],
)
def test_steps_in_closed_form_raise_the_dual_to_the_optimum(form, dtype, intercept):
    X, y, weights = rows()
    X = X.astype(dtype)
    X[5] = 0.0
    space = ExplicitSpace(D, intercept=intercept)
    term = WorstCase(form(X), y, Identity(), Regression(EPSILON), weights)
    state = TubeState(Case(term, space), np.random.default_rng(0))
    f, last = space.zeros(), 0.0
    for _ in range(300):
        gap, _ = state.sweep(f)
        np.testing.assert_allclose(f, state.combination(), atol=1e-9)
        dual = state.offset - 0.5 * f @ f
        assert dual >= last - 1e-12
        last = dual
    primal = 0.5 * f @ f + state.value(f)[0]
    off = np.abs(X.astype(float) @ f[:D] + space.constants(f) - y)
    wanted = weights @ np.maximum(0.0, off - EPSILON)
    assert state.value(f) == pytest.approx((wanted, wanted), rel=1e-12)
    assert primal - dual == pytest.approx(gap, abs=1e-6)
    assert gap <= 1e-6 * primal
    arrays = state.arrays()
    assert np.all(np.abs(arrays["slopes"]) <= 1)
    other = TubeState(Case(term, space), np.random.default_rng(1))
    other.start(arrays, f)
    np.testing.assert_allclose(other.combination(), f, atol=1e-9)
    assert other.offset == pytest.approx(state.offset)


def test_steps_in_closed_form_are_for_rows_that_nothing_changes():
    X, y, _ = rows()
    space = ExplicitSpace(D)
    listed = WorstCase(X, y, ORBIT_CASE["flip"].oracle, Regression())
    classes = WorstCase(X, y > 0, Identity(), Binary())
    plain = WorstCase(X, y, Identity(), Regression())
    for term, where, epsilon, why in (
        (listed, space, 0.0, "S(x) has more than one member"),
        (classes, space, 0.0, "the structure is not regression"),
        (plain, KernelSpace(KERNELS["gaussian"], D), 0.0, "the space is not linear in x"),
        (plain, space, 0.1, "plane_tol is not supported"),
    ):
        assert why in refusals(term, where, epsilon)["tube"]


def test_targets_within_the_tube_need_no_function():
    solution = solve(objective(Identity(), epsilon=100.0), FrankWolfe(), Gap(1e-6), random_state=0)
    assert solution.status is Status.CONVERGED
    assert solution.primal == solution.dual == 0.0


@pytest.mark.parametrize(
    ("name", "earlier", "later"),
    pairs(["identity", "flip", "permutations"], [FrankWolfe, SVMStruct], [FrankWolfe, SVMStruct]),
)
def test_solvers_go_on_from_each_others_functions(name, earlier, later):
    problem = objective(ORBIT_CASE[name].oracle)
    first = solve(problem, earlier(), Gap(1e-7), random_state=0)
    again = solve(problem, later(), Gap(1e-4), first, random_state=0)
    assert again.status is Status.CONVERGED
    assert again.primal <= first.primal * (1 + 1e-9)
    if earlier is later is FrankWolfe:
        assert again.iterations == 0


def test_what_speaks_of_labels_is_refused_by_name():
    X, y, _ = rows()
    for arguments, message in (
        ({"cost": [[0, 1], [1, 0]]}, "cost must be None for Regression"),
        ({"classes": np.arange(3)}, "classes must be None for Regression"),
        ({"layout": Layout.of_lengths([N])}, "layout must be None for Regression"),
        ({"position_weight": np.ones(N)}, "position_weight must be None for Regression"),
        ({"rescaling": "slack"}, "rescaling must be one of"),
    ):
        with pytest.raises(ValueError, match=message):
            Regression().bind(y, **arguments)
    for targets in (np.array(["a", "b"]), np.array([1.0, np.nan]), np.array([1j, 0])):
        with pytest.raises(ValueError, match="y must contain finite numbers"):
            Regression().bind(targets)
    with pytest.raises(ValueError, match="oracle must not be discounted for Regression"):
        WorstCase(X, y, FDrop(1).discounted(0.5), Regression())
    with pytest.raises(ValueError, match="only_for requires one class label per row"):
        WorstCase(X, y, FDrop(1).only_for(1), Regression())
    with pytest.raises(ValueError, match="epsilon must be a number of at least 0, got -1"):
        Regression(-1).bind(y)
