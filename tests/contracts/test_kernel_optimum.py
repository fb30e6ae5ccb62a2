"""Every solver in a kernel's space against cvxpy on enumerated orbits."""

from functools import cache

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from threadpoolctl import threadpool_info, threadpool_limits

from structinv.kernels import Gaussian, Linear
from structinv.oracles import Identity
from structinv.solvers import (
    BMRM,
    REGISTRY,
    FrankWolfe,
    Gap,
    Iterations,
    Pegasos,
    Status,
    SVMStruct,
    solve,
)
from structinv.solvers.dual_coordinates import DualCoordinates
from structinv.spaces import ExplicitSpace
from structinv.spaces.kernel_space import KernelSpace
from structinv.structures import Binary
from structinv.structures.classes import Multiclass
from structinv.terms import Objective, WorstCase

from ..covering import each_once, pairs, slow_unless
from ..kernel_problems import CACHES, KERNELS, features, over_members, problem, values_at_members
from ..optima import kernel_optimum as optimum
from ..oracles.cases import D, Shrinkings
from ..oracles.orbit_cases import ORBIT_CASE
from ..problems import COSTLY, EXACT, SETTING, SETTINGS, N, assert_brackets, minimum

PLANES = [name for name in EXACT if name != "frank_wolfe"]
cases = [("shrinkings", setting, kernel) for setting in [*SETTINGS, COSTLY] for kernel in KERNELS]
cases += [("discounted-member", COSTLY, "polynomial"), ("compose", SETTING["multiclass"], "polynomial")]
cases += [
    (name, SETTING[setting], "gaussian")
    for name in (
        "identity",
        "union",
        "compose",
        "compose-linear",
        "only_for-union",
        "only_for-compose",
        "discounted",
        "discounted-only_for",
        "discounted-member",
    )
    for setting in ("binary-cost", "multiclass-slack")
]


def in_turn(at, solver):
    """Whether a solver has its turn at this number: those of planes are at one of eight.

    Oracles have one of their two settings in turns.
    """
    name, setting, kernel = cases[at]
    if (name, setting.name, kernel) == ("shrinkings", "multiclass-slack", "polynomial"):
        # It takes ten times as long as the others.
        return False
    if at >= len(cases) - 18 and (at - len(cases)) % 4 in (1, 2):
        return False
    return solver == "frank_wolfe" or (at + PLANES.index(solver)) % 8 == 0


# Solvers other than frank_wolfe see planes alone.
@pytest.mark.parametrize(
    ("name", "setting", "kernel", "solver"),
    slow_unless(
        lambda *case: in_turn(cases.index(case[:3]), case[3]),
        [(*case, solver) for case in cases for solver in EXACT],
    ),
    ids=str,
)
def test_reaches_the_optimum(name, setting, kernel, solver):
    best, values = optimum(name, setting.name, kernel)
    this = problem(ORBIT_CASE[name].oracle, setting, KERNELS[kernel])
    solution = solve(this, REGISTRY[solver](), Gap(1e-8), random_state=0)
    assert_brackets(solution, best)
    assert solution.status is Status.CONVERGED
    assert solution.primal == pytest.approx(best, rel=1e-7)
    found = values_at_members(solution, ORBIT_CASE[name], setting)
    np.testing.assert_allclose(found, values, atol=1e-4 * max(1.0, np.abs(values).max()))
    assert solution.primal == pytest.approx(this.value(solution.f).upper, rel=1e-12)


@pytest.mark.parametrize(
    ("cache_mb", "setting", "solver"), pairs(CACHES, ["binary", "multiclass"], sorted(REGISTRY))
)
def test_solutions_do_not_depend_on_the_cache(cache_mb, setting, solver):
    best, values = optimum("union", setting, "gaussian")
    case = ORBIT_CASE["union"]
    this = problem(case.oracle, SETTING[setting], KERNELS["gaussian"], cache_mb=cache_mb)
    tolerance = 1e-2 if solver == "pegasos" else 1e-8
    solution = solve(this, REGISTRY[solver](), Gap(tolerance), random_state=0)
    assert_brackets(solution, best)
    assert solution.primal <= best * (1.0 + tolerance) + 1e-9
    if solver != "pegasos":
        found = values_at_members(solution, case, SETTING[setting])
        np.testing.assert_allclose(found, values, atol=1e-4)


# Each solver with one of the caches in turns.
@pytest.mark.parametrize(
    ("solver", "cache_mb"),
    slow_unless(
        lambda solver, cache_mb: cache_mb == CACHES[(3, 2, 1, 0, 1)[EXACT.index(solver)]],
        [(solver, cache_mb) for solver in EXACT for cache_mb in CACHES],
    ),
)
def test_two_terms_on_one_space_reach_their_optimum(cache_mb, solver):
    setting, kernel = SETTING["multiclass"], Gaussian(2.0)
    first, second = ORBIT_CASE["shrinkings"], ORBIT_CASE["only_for"]
    Z = setting.X[::-1] + 0.5
    space = KernelSpace(kernel, D, 3, cache_mb=cache_mb)
    output = Multiclass()
    this = Objective(
        space,
        [
            WorstCase(setting.X, setting.y, first.oracle, output, 0.3),
            WorstCase(Z, setting.y, second.oracle, output, 0.2),
        ],
    )
    best = two_terms_optimum()
    solution = solve(this, REGISTRY[solver](), Gap(5e-7), random_state=0)
    assert_brackets(solution, best)
    assert solution.status is Status.CONVERGED
    assert solution.primal == pytest.approx(best, rel=1e-6)


@cache
def two_terms_optimum():
    setting = SETTING["multiclass"]
    first, second = ORBIT_CASE["shrinkings"], ORBIT_CASE["only_for"]
    members = [first.members(setting.X, setting.y), second.members(setting.X[::-1] + 0.5, setting.y)]

    def loss(i, mine):
        label = setting.y[i % N]
        parts = [cp.max(mine[:, k] - mine[:, label]) + 1.0 for k in range(3) if k != label]
        return (0.3 if i < N else 0.2) * cp.maximum(0.0, *parts)

    return over_members(Gaussian(2.0), np.concatenate(members), 3, loss)[0]


@pytest.mark.parametrize("seed", range(3))
def test_separable_rows_at_a_large_weight(seed):
    # Iterates without any loss give planes without a point.
    rng = np.random.default_rng(seed)
    X, y = 3.0 * rng.standard_normal((4, 2)), np.array([0, 1, 0, 1])
    sign = np.where(y == 1, 1.0, -1.0)
    beta = cp.Variable(4, nonneg=True)
    phi = features(Gaussian(0.3), X) * sign[:, None]
    best = -minimum(0.5 * cp.sum_squares(phi.T @ beta) - cp.sum(beta), [beta <= 100.0])
    for solver in sorted(REGISTRY):
        space = KernelSpace(Gaussian(0.3), 2)
        this = Objective(space, [WorstCase(X, y, Identity(), Binary(), 100.0)])
        tolerance = 1e-2 if solver == "pegasos" else 1e-6
        solution = solve(this, REGISTRY[solver](), Gap(tolerance), random_state=0)
        assert_brackets(solution, best)
        assert solution.status is Status.CONVERGED, solver


@pytest.mark.parametrize(("solver", "cache_mb"), each_once(sorted(REGISTRY), [100.0, 0.001]))
def test_other_weights_start_from_a_solution(solver, cache_mb):
    case, setting = ORBIT_CASE["union"], SETTING["multiclass"]
    space = KernelSpace(KERNELS["gaussian"], D, 3, cache_mb=cache_mb)
    tolerance = 1e-2 if solver == "pegasos" else 1e-7
    first = problem(case.oracle, setting, None, space=space)
    earlier = solve(first, REGISTRY[solver](), Gap(tolerance), random_state=0)
    for factor in (1.0, 3.0, 0.2):
        best, _ = optimum("union", "multiclass", "gaussian", factor)
        weights = factor * np.array(setting.weights)
        rows = setting.X, setting.y, case.oracle, setting.structure
        this = Objective(space, [WorstCase(*rows, weights, **setting.losses)])
        cold = solve(this, REGISTRY[solver](), Gap(tolerance), random_state=0)
        warm = solve(this, REGISTRY[solver](), Gap(tolerance), warm_start=earlier, random_state=0)
        for solution in (cold, warm):
            assert_brackets(solution, best)
            assert solution.status is Status.CONVERGED
            assert solution.primal <= best * (1.0 + tolerance) + 1e-9
        assert warm.history[0].iteration == 0
        if solver == "frank_wolfe" and cache_mb == 100.0:
            assert warm.history[0].dual > 0.3 * best
            assert factor != 1.0 or warm.iterations == 0


def test_warm_start_of_another_problem_is_refused():
    case, setting = ORBIT_CASE["shrinkings"], SETTING["binary"]
    one, other = (problem(case.oracle, setting, Gaussian(2.0)) for _ in range(2))
    space = ExplicitSpace(D)
    explicit = problem(case.oracle, setting, None, space=space)
    for solver in (FrankWolfe(), SVMStruct(), BMRM(), Pegasos()):
        solutions = [solve(each, solver, Gap(0.1), random_state=0) for each in (one, explicit)]
        # Another space of the same kernel on the same rows is no elsewhere.
        solve(other, solver, Gap(0.1), warm_start=solutions[0], random_state=0)
        for this, start in ((one, solutions[1]), (explicit, solutions[0])):
            with pytest.raises(ValueError, match="warm_start must"):
                solve(this, solver, warm_start=start, random_state=0)


@pytest.mark.parametrize(
    ("solver", "cache_mb", "used"), pairs(sorted(REGISTRY), [100.0, 0.002, 0.0], [False, True])
)
def test_what_a_solver_carries_along_is_its_function(solver, cache_mb, used):
    case, setting = ORBIT_CASE["union"], SETTING["multiclass"]
    this = problem(case.oracle, setting, Gaussian(2.0), cache_mb=cache_mb)
    if used:
        # The space has atoms then, of which the next run knows nothing.
        solve(this, REGISTRY[solver](), Gap(1e-3), random_state=0)
    method = REGISTRY[solver]()
    state = method.init(this, np.random.default_rng(0))
    own = state.state if isinstance(state, DualCoordinates) else state
    for _ in range(4):
        method.step(this, state)
        known = this.space.atoms.known
        np.testing.assert_allclose(own.f.values(), own.f.function()(known), atol=1e-12)
    assert np.abs(own.f.values()).max() > 0.01


def record(solution):
    history = [(r.iteration, r.oracle_calls, r.primal, r.dual) for r in solution.history]
    return history, solution.f.coefficients, solution.f.atoms.keys


@pytest.mark.parametrize(("solver", "cache_mb"), each_once(sorted(REGISTRY), [100.0, 0.002]))
def test_the_same_seed_has_the_same_bits(solver, cache_mb):
    case, setting = ORBIT_CASE["union"], SETTING["multiclass"]
    runs = [
        solve(
            problem(case.oracle, setting, Gaussian(2.0), cache_mb=cache_mb),
            REGISTRY[solver](),
            Gap(1e-4) | Iterations(30),
            random_state=3,
        )
        for _ in range(2)
    ]
    one, other = map(record, runs)
    assert one[0] == other[0]
    for left, right in zip(one[1:], other[1:], strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("cache_mb", [100.0, 0.0])
def test_sparse_rows_become_dense_members(cache_mb):
    case, setting = ORBIT_CASE["halves"], SETTING["multiclass"]
    answers = []
    for X in (setting.X, sp.csr_matrix(setting.X)):
        space = KernelSpace(Gaussian(2.0), D, 3, cache_mb=cache_mb)
        this = Objective(
            space,
            [WorstCase(X, setting.y, case.oracle, setting.structure, setting.weights, **setting.losses)],
        )
        answers.append(solve(this, SVMStruct(), Gap(1e-8), random_state=0).primal)
    assert answers[0] == pytest.approx(answers[1], rel=1e-9)


@pytest.mark.parametrize(
    ("name", "setting", "solver"),
    each_once(["union", "discounted-member"], ["binary-slack", "multiclass"], EXACT),
)
def test_a_linear_kernel_is_explicit_features(name, setting, solver):
    case, setting = ORBIT_CASE[name], SETTING[setting]
    kernel = problem(case.oracle, setting, Linear())
    explicit = problem(case.oracle, setting, None, space=ExplicitSpace(D, setting.n_outputs))
    one, other = (
        solve(this, REGISTRY[solver](), Gap(1e-9), random_state=0) for this in (kernel, explicit)
    )
    assert one.primal == pytest.approx(other.primal, rel=1e-8)
    weights = explicit.space.weights(other.f)
    members = case.members(setting.X, setting.y).reshape(-1, D)
    np.testing.assert_allclose(one.f.function()(members), members @ weights.T, atol=1e-4)
    used = one.f.support()
    same = (kernel.space.atoms.points(used).T @ one.f.coefficients[used]).ravel()
    assert explicit.value(same).upper == pytest.approx(kernel.value(one.f).upper, rel=1e-11)
    planes, plain = kernel.planes(one.f), explicit.planes(same)
    np.testing.assert_allclose(planes.upper, plain.upper, atol=1e-11)


def test_threads_move_only_the_rounding():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 20))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    solutions = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            blas = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
            if threads not in blas:
                pytest.skip("BLAS does not let its threads be counted")
            space = KernelSpace(Gaussian(4.0), 20)
            this = Objective(space, [WorstCase(X, y, Shrinkings(), Binary(), 0.1)])
            solutions.append(solve(this, FrankWolfe(), Gap(1e-6), random_state=0))
    one, other = solutions
    assert one.primal == pytest.approx(other.primal, rel=1e-5)
    np.testing.assert_allclose(one.f.function()(X), other.f.function()(X), atol=1e-2)
    assert {one.status, other.status} == {Status.CONVERGED}


@pytest.mark.parametrize("solver", sorted(REGISTRY))
def test_contradictory_rows_have_the_zero_function(solver):
    X, y = np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([0, 1])
    this = Objective(KernelSpace(Gaussian(), 2), [WorstCase(X, y, Identity(), Binary(), 1.0)])
    solution = solve(this, REGISTRY[solver](), Gap(1e-6) | Iterations(500), random_state=0)
    assert solution.primal == pytest.approx(2.0)
    np.testing.assert_allclose(solution.f.function()(X), 0.0, atol=1e-5)
