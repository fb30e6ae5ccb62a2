"""Every solver against cvxpy, on every oracle case and output."""

import numpy as np
import pytest

from structinv.oracles import Box
from structinv.solvers import REGISTRY, Gap, Iterations, Pegasos, Reference, Status, solve

from .covering import one_in, slow_unless
from .oracle_cases import CASES
from .problems import (
    CASE,
    COSTLY,
    EXACT,
    SETTING,
    SETTINGS,
    assert_brackets,
    chain_objective,
    chain_optimum,
    objective,
    optimum,
    two_settings,
)

PLANES = [name for name in EXACT if name != "frank_wolfe"]

every = slow_unless(
    lambda case, setting: setting is SETTINGS[CASES.index(case) % len(SETTINGS)],
    [(case, setting) for case in CASES for setting in SETTINGS],
)
costly = [(CASE[name], COSTLY) for name in ("fscale", "ellipsoid", "discounted-box")]
sparse = [case for case in CASES if case.sparse]


# The dual states of frank_wolfe look at what oracles and structures are.
@pytest.mark.parametrize(("case", "setting"), every + costly, ids=str)
def test_reaches_the_optimum(case, setting):
    assert_optimal(objective(case.oracle, setting), "frank_wolfe", optimum(case.name, setting.name))


# Solvers other than frank_wolfe see planes alone: each case has one of them in turns, and over the
# cases each meets all settings.
@pytest.mark.parametrize(
    ("case", "setting", "name"),
    slow_unless(
        lambda case, setting, name: (CASES.index(case) // 2 + PLANES.index(name)) % 6 == 0,
        [
            (case, two_settings(case)[(i // 8 + j // 2) % 2], name)
            for i, case in enumerate(CASES)
            for j, name in enumerate(PLANES)
        ],
    ),
    ids=str,
)
def test_solvers_of_planes_reach_the_optimum(case, setting, name):
    assert_optimal(objective(case.oracle, setting), name, optimum(case.name, setting.name))


# Others see sparse rows through `planes` alone, which are those of dense rows.
@pytest.mark.parametrize(
    ("case", "setting"), [(case, setting) for case in sparse for setting in two_settings(case)], ids=str
)
def test_sparse_rows_reach_the_optimum(case, setting):
    problem = objective(case.oracle, setting, sparse=True)
    assert_optimal(problem, "frank_wolfe", optimum(case.name, setting.name))


def assert_optimal(problem, name, best):
    solution = solve(problem, REGISTRY[name](), Gap(5e-6), random_state=0)
    assert_brackets(solution, best)
    assert solution.status is Status.CONVERGED
    assert solution.primal <= best * (1 + 1e-5)
    assert solution.dual >= best * (1 - 1e-5)
    assert solution.primal == pytest.approx(problem.value(solution.f).upper, rel=1e-12)


@pytest.mark.parametrize(
    ("case", "setting"),
    slow_unless(
        lambda case, setting: setting is two_settings(case)[CASES.index(case) // 2 % 2],
        [(case, setting) for case in CASES for setting in two_settings(case)],
    ),
    ids=str,
)
def test_pegasos_brackets_the_optimum_at_every_pass_end(case, setting):
    # Nine rows in batches of four: the last batch of a pass is smaller.
    best = optimum(case.name, setting.name)
    problem = objective(case.oracle, setting, sparse=case.sparse)
    solution = solve(problem, Pegasos(batch_size=4), Gap(0) | Iterations(12), random_state=0)
    assert [record.iteration for record in solution.history] == list(range(1, 13))
    assert_brackets(solution, best)


class Confined(Pegasos):
    """Projects on a ball far too small, which must not cost it its bounds."""

    def init(self, objective, rng, planes=None):
        state = super().init(objective, rng, planes)
        state.radius *= 0.6
        return state


@pytest.mark.parametrize("batch_size", [1, 4, 9])
@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_pegasos_brackets_the_optimum_where_it_projects_often(setting, batch_size):
    problem, solver = objective(CASE["box"].oracle, setting), Confined(batch_size=batch_size)
    best = optimum("box", setting.name)
    solution = solve(problem, solver, Gap(0) | Iterations(40), random_state=1)
    assert_brackets(solution, best)
    assert solution.dual > 0.2 * best


def test_pegasos_averages_whole_passes_since_the_last_projection():
    problem, solver = objective(CASE["box"].oracle), Confined(batch_size=4)
    asked, planes = [], problem.planes

    def record(f, blocks=None):
        answer = planes(f, blocks)
        mass = problem.weights[blocks]
        asked[-1] += problem.space.combine(answer.normals, mass)
        return answer

    problem.planes = record
    state = solver.init(problem, np.random.default_rng(0))
    widths = []
    for passes in range(1, 30):
        # Confined at first, then free: anchors of the confined passes must not be used later.
        state.radius = 0.3 if passes % 8 == 5 else 10.0
        asked.append(problem.space.zeros())
        solver.step(problem, state)
        f, _, anchored = state.anchor
        later = passes * state.f - anchored * f
        np.testing.assert_allclose(later, np.sum(asked[anchored:], axis=0), atol=1e-9)
        widths.append(passes - anchored)
    assert max(widths) >= 5
    assert min(widths[5:]) == 0


@pytest.mark.parametrize("case", one_in(3, CASES), ids=str)
def test_pegasos_reaches_one_per_cent(case):
    setting = two_settings(case)[0]
    problem = objective(case.oracle, setting)
    solution = solve(problem, Pegasos(batch_size=4), Gap(1e-2), random_state=0)
    assert solution.status is Status.CONVERGED
    assert solution.primal <= 1.01 * optimum(case.name, setting.name)


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
            sorted(REGISTRY).index(name) % 3 == CHAINS.index((case, rescaling)) % 3
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
