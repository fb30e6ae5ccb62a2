"""Every solver against cvxpy: all oracle cases and outputs, known programs, penalties, third parties."""

from functools import cache
from itertools import product

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

from structinv.losses import REGISTRY as LOSSES
from structinv.oracles import (
    Box,
    Ellipsoid,
    FDrop,
    FScale,
    Identity,
    InvarianceOracle,
    Support,
    TangentDerivative,
    query,
)
from structinv.solvers import (
    REGISTRY,
    FrankWolfe,
    Gap,
    Iterations,
    Pegasos,
    Reference,
    Status,
    SVMStruct,
    solve,
)
from structinv.spaces import ExplicitSpace
from structinv.structures import Binary
from structinv.structures.classes import Multiclass
from structinv.terms import Objective, Penalty, WorstCase

from ..covering import pairs, slow_unless
from ..optima import Variables, chain_optimum, optimum, with_penalty, worst_losses
from ..oracles.cases import CASES, FACTOR, TANGENTS, Case, D
from ..problems import (
    CASE,
    COSTLY,
    EXACT,
    SETTING,
    SETTINGS,
    LinearFunctionals,
    assert_brackets,
    chain_objective,
    minimum,
    objective,
    two_settings,
)

PLANES = [name for name in EXACT if name != "frank_wolfe"]
# Programs of these with three classes take several times as long as most.
DEAR = (
    "compose-linear", "discounted-fdrop", "discounted-fedit", "discounted-member", "discounted-only_for",
    "fadd-some", "shared-or-budget", "trajectory",
)  # fmt: skip


def in_turn(case):
    """The setting of a case in the default run."""
    return SETTINGS[CASES.index(case) % (2 if case.name in DEAR else len(SETTINGS))]


every = slow_unless(
    lambda case, setting: setting is in_turn(case),
    [(case, setting) for case in CASES for setting in SETTINGS],
)
costly = [(CASE[name], COSTLY) for name in ("fscale", "ellipsoid", "discounted-box")]


# The dual states of frank_wolfe look at what oracles, rows and structures are.
@pytest.mark.parametrize(("case", "setting"), every + costly, ids=str)
def test_reaches_the_optimum(case, setting):
    best = optimum(case.name, setting.name)
    for sparse in (False, True)[: 1 + case.sparse]:
        assert_optimal(objective(case.oracle, setting, sparse=sparse), "frank_wolfe", best)
    # Others see planes alone: half of the cases have one of them, in turns, and the others Pegasos.
    at = CASES.index(case) // 4 % (2 * len(PLANES))
    for name in PLANES[at : at + 1]:
        assert_optimal(objective(case.oracle, setting), name, best)
    if at >= len(PLANES):
        assert_pegasos_brackets(case, setting, best)


def assert_pegasos_brackets(case, setting, best):
    """Bounds hold at the end of every pass over nine rows, whose last batch is smaller."""
    problem = objective(case.oracle, setting, sparse=case.sparse)
    solution = solve(problem, Pegasos(batch_size=4), Gap(0) | Iterations(8), random_state=0)
    assert [record.iteration for record in solution.history] == list(range(1, 9))
    assert_brackets(solution, best)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_solver_of_planes_reaches_the_optimum(case):
    for i, name in enumerate(PLANES):
        setting = two_settings(case)[i % 2]
        best = optimum(case.name, setting.name)
        assert_optimal(objective(case.oracle, setting), name, best)
    assert_pegasos_brackets(case, setting, best)


def assert_optimal(problem, name, best):
    solution = solve(problem, REGISTRY[name](), Gap(5e-6), random_state=0)
    assert_brackets(solution, best)
    assert solution.status is Status.CONVERGED
    assert solution.primal <= best * (1 + 1e-5)
    assert solution.dual >= best * (1 - 1e-5)
    assert solution.primal == pytest.approx(problem.value(solution.f).upper, rel=1e-12)


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_reference_reaches_the_optimum(setting):
    best = optimum("box-radii", setting.name)
    problem = objective(Box([0.5, 0.0, 1.0, 0.2, 0.0]), setting)
    solution = solve(problem, Reference(), Gap(1e-7) | Iterations(100), random_state=0)
    assert_brackets(solution, best)
    assert solution.status is Status.CONVERGED


CHAINS = [
    ("identity", "margin"),
    ("identity", "slack"),
    ("box-radii", "margin"),
    ("box-radii", "slack"),
    ("fscale", "margin"),
]


@pytest.mark.parametrize(
    ("case", "rescaling", "name"),
    slow_unless(
        lambda case, rescaling, name: (
            sorted(REGISTRY).index(name) % 5 == CHAINS.index((case, rescaling))
            or (case, name) == ("fscale", "frank_wolfe")
        ),
        [(*chain, name) for chain in CHAINS for name in sorted(REGISTRY)],
    ),
)
def test_a_structured_output_of_the_tests_reaches_the_optimum(case, rescaling, name):
    best = chain_optimum(case, rescaling)
    tolerance = 1e-2 if name == "pegasos" else 1e-5
    problem = chain_objective(CASE[case].oracle, rescaling)
    solution = solve(problem, REGISTRY[name](), Gap(0.5 * tolerance), random_state=0)
    assert_brackets(solution, best)
    assert solution.status is Status.CONVERGED
    assert solution.primal <= best * (1 + tolerance)


every_solver = pytest.mark.parametrize("name", sorted(REGISTRY))


def assert_solved(problem, name, best):
    """A solver reaches an optimum: Pegasos to one per cent, the others to 1e-5."""
    tolerance = 1e-2 if name == "pegasos" else 1e-5
    solution = solve(problem, REGISTRY[name](), Gap(0.5 * tolerance), random_state=0)
    assert_brackets(solution, best)
    assert solution.status is Status.CONVERGED
    assert solution.primal <= best * (1 + tolerance)
    return solution


def counts(n=12, d=6, seed=3):
    """Rows of word counts whose classes use different words, and signs."""
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 2, 1, -1)
    rates = np.where(y[:, None] * np.resize([1, -1], d) > 0, 3.0, 0.7)
    return rng.poisson(rates).astype(float), y


@every_solver
def test_fdrop_is_the_globerson_roweis_program(name):
    X, y = counts()
    (n, d), K, C = X.shape, 1, 0.3
    w, slack = cp.Variable(d), cp.Variable(n, nonneg=True)
    # t_i bounds the sum of the K largest y_i x_ij w_j by the dual of that sum; z_i >= 0 lets fewer
    # than K words be dropped.
    t, z, v = cp.Variable(n), cp.Variable(n, nonneg=True), cp.Variable((n, d), nonneg=True)
    ones = np.ones((1, d))
    best = minimum(
        0.5 * cp.sum_squares(w) + C * cp.sum(slack),
        [
            cp.multiply(y, X @ w) - t >= 1 - slack,
            t >= K * z + cp.sum(v, axis=1),
            z[:, None] @ ones + v >= cp.multiply(y[:, None] * X, np.ones((n, 1)) @ w[None, :]),
        ],
    )
    assert best < 0.9 * C * n
    term = WorstCase(X, y, FDrop(K), Binary(), C)
    assert_solved(Objective(ExplicitSpace(d), [term]), name, best)


@pytest.mark.parametrize(
    "oracle",
    [
        FScale(0),
        FDrop(0),
        FScale(3, 1.0, 1.0),
        Box(0.0),
        Ellipsoid(FACTOR, 0.0),
        TangentDerivative(TANGENTS, 0.0),
        FScale(0) | Box(0.0),
        Box(0.0) @ FScale(0),
        FDrop(3).only_for([7]),
    ],
    ids=repr,
)
def test_no_change_at_all_is_identity(oracle):
    for setting, solver in product(["binary", "multiclass-slack"], [SVMStruct(), FrankWolfe()]):
        plain = plain_solution(setting, type(solver))
        same = solve(objective(oracle, SETTING[setting]), solver, Gap(1e-9), random_state=0)
        assert same.primal == pytest.approx(optimum("identity", setting), rel=1e-7)
        # F grows like 1/2 |f - optimum|^2 at least.
        np.testing.assert_allclose(same.f, plain.f, atol=2 * np.sqrt(2e-9 * plain.primal))


@cache
def plain_solution(setting, kind):
    return solve(objective(Identity(), SETTING[setting]), kind(), Gap(1e-9), random_state=0)


PENALTIES = {
    "squared": cp.square,
    "absolute": cp.abs,
    "epsilon_insensitive": lambda u: cp.pos(cp.abs(u) - 0.1),
    "huber": lambda u: cp.huber(u, 1.0),
    "logistic": lambda u: cp.logistic(-u),
    "hinge": lambda u: cp.pos(1 - u),
    "squared_hinge": lambda u: cp.square(cp.pos(1 - u)),
}


def test_every_loss_meets_every_solver():
    assert set(PENALTIES) == set(LOSSES)


@pytest.mark.parametrize(
    ("case", "setting", "loss", "name"),
    slow_unless(
        lambda case, setting, loss, name: sorted(LOSSES).index(loss) % 2 == (case == "box"),
        [
            (case, setting, loss, name)
            for case, setting in (("box", "binary"), ("fscale", "multiclass"))
            for loss in sorted(LOSSES)
            for name in sorted(REGISTRY)
        ],
    ),
)
def test_a_penalty_on_functionals(case, setting, loss, name):
    where = SETTING[setting]
    rng = np.random.default_rng(8)
    A = rng.standard_normal((4, where.n_outputs * D))
    A[3] = A[0] + A[1]
    nu = np.array([0.3, 0.0, 0.6, 0.1])
    penalty = Penalty(LinearFunctionals(A), LOSSES[loss](), nu)
    best = with_penalty(case, setting, loss, lambda W: nu @ PENALTIES[loss](A @ W))
    assert best > optimum(case, setting) * 1.001
    problem = objective(CASE[case].oracle, where, penalties=[penalty])
    assert_solved(problem, name, best)


@every_solver
def test_penalties_of_weight_zero_count_nothing(name):
    family = LinearFunctionals(np.ones((2, D)))
    nothing = [Penalty(family, loss(), 0.0) for loss in LOSSES.values()]
    problem = objective(Box(0.3), penalties=nothing)
    assert_solved(problem, name, optimum("box", "binary"))


class Mirror(InvarianceOracle):
    """A user's own: the sign of the last two features together carries no information."""

    def support(self, X, V, assign, cost=None):
        turned = np.einsum("ij,ij->i", X[:, 3:], V[assign, 3:]) < 0
        return Support(np.where(turned[:, None], X * [1, 1, 1, -1, -1], X))


def mirrored(x, label, v, cost):
    return x[:3] @ v[:3] + cp.abs(x[3:] @ v[3:])


MIRROR = Case("mirror", Mirror(), mirrored)
HALF = Case(
    "half",
    Mirror().only_for(1) | Box(0.3),
    lambda x, label, v, cost: cp.maximum(
        mirrored(x, label, v, cost) if label == 1 else x @ v, x @ v + 0.3 * cp.norm1(v)
    ),
)


@pytest.mark.parametrize(
    ("case", "setting", "name"),
    pairs([MIRROR, HALF], ["binary", "multiclass-slack"], sorted(REGISTRY)),
    ids=str,
)
def test_an_oracle_of_a_users_own(case, setting, name):
    assert_solved(objective(case.oracle, SETTING[setting]), name, own_optimum(case.name, setting))


@cache
def own_optimum(case, setting):
    variables = Variables.of(SETTING[setting])
    losses = worst_losses({"mirror": MIRROR, "half": HALF}[case], SETTING[setting], variables)
    return minimum(variables.norm + losses)


class Coarse(InvarianceOracle):
    """A box whose bounds are too high."""

    def __init__(self, excess):
        self.excess = excess

    def support(self, X, V, assign, cost=None):
        points = X + 0.3 * np.sign(V)[assign]
        upper = np.einsum("ij,ij->i", points, V[assign]) + self.excess
        return Support(points, upper)


@pytest.mark.parametrize(
    ("excess", "setting", "name"), pairs([0.1, np.inf], ["binary", "multiclass"], sorted(REGISTRY))
)
def test_an_oracle_without_a_tight_bound_never_converges(excess, setting, name):
    best = optimum("box", setting)
    solver = REGISTRY[name]()
    tolerance = 1e-2 if name == "pegasos" else 1e-5
    problem = objective(Coarse(excess), SETTING[setting])
    solution = solve(problem, solver, Gap(tolerance), random_state=0)
    assert solution.status is Status.ORACLE_TOO_COARSE
    assert_brackets(solution, best)
    assert solution.primal > best * 1.01
    assert solution.relative_gap > tolerance
    # What the oracle finds is all there is, so the function is right though nothing proves it.
    exact = objective(Box(0.3), SETTING[setting]).value(solution.f).upper
    assert exact == pytest.approx(best, rel=0.1 if excess == 0.1 else tolerance)
    tight = solve(objective(Coarse(0.0), SETTING[setting]), solver, Gap(tolerance), random_state=0)
    assert tight.status is Status.CONVERGED


@pytest.mark.parametrize("oracle", [FDrop(2), FScale(2)])
def test_values_of_all_rows_ask_once_for_each_alternative(oracle, monkeypatch):
    """Making directions of all weights is dear where features are many."""
    X = sp.csr_matrix(counts(n=12)[0])
    term = WorstCase(X, np.arange(12) % 3, oracle, Multiclass(), rescaling="slack")
    space = ExplicitSpace(X.shape[1], 3, intercept=True)
    f = np.random.default_rng(0).standard_normal(space.size)
    asked, ask = [], query._answer_for_labels
    monkeypatch.setattr(query, "_answer_for_labels", lambda *given: asked.append(1) or ask(*given))
    upper, attained = term.values(space, f)
    monkeypatch.setattr("structinv.terms.worst_case.ROWS_AT_ONCE", 5)
    del asked[:]
    np.testing.assert_array_equal(term.values(space, f), [upper, attained])
    assert len(asked) == term.bound_structure.n_labels - 1
    planes = term.planes(space, f)
    np.testing.assert_allclose(upper, planes.upper, rtol=1e-12)
