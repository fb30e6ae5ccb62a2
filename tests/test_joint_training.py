"""Worst cases jointly over labelings and changes of whole examples: training reaches the optimum."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from structinv.kernels import Linear
from structinv.solvers import BMRM, FrankWolfe, Gap, Pegasos, Status, SVMStruct, solve
from structinv.spaces.kernel_space import KernelSpace
from structinv.structures import Sequence
from structinv.terms import Objective

from .covering import each_once, slow_unless
from .joint_cases import CASE, FEATURES, JOINT, LABELS, objective, optimum
from .problems import assert_brackets

FRANK_WOLFE, PLANES = FrankWolfe(), [SVMStruct(), BMRM()]
N_PAIRWISE = Sequence().n_pairwise(LABELS)


@cache
def best(name: str) -> float:
    return optimum(CASE[name])


# Solvers other than FrankWolfe see planes alone: each case has one of them in turns.
@pytest.mark.parametrize(
    ("case", "solver"),
    slow_unless(
        lambda case, solver: solver in (FRANK_WOLFE, PLANES[JOINT.index(case) % 2]),
        [(case, solver) for case in JOINT for solver in (FRANK_WOLFE, *PLANES)],
    ),
    ids=str,
)
def test_training_reaches_the_optimum_over_labelings_and_changes(case, solver):
    found = solve(objective(case), solver, Gap(1e-7), random_state=0)
    assert found.status is Status.CONVERGED
    assert found.primal == pytest.approx(best(case.name), rel=1e-6)
    assert found.dual == pytest.approx(best(case.name), rel=1e-6)
    assert_brackets(found, best(case.name))


@pytest.mark.parametrize("case", JOINT, ids=str)
def test_a_stream_of_examples_brackets_the_optimum(case):
    found = solve(objective(case), Pegasos(), Gap(0.2), random_state=0)
    assert_brackets(found, best(case.name))
    assert np.isfinite(found.gap)


@pytest.mark.parametrize(
    ("case", "cache_mb"),
    each_once([case for case in JOINT if case.oracle.finite], [100.0, 0.0]),
    ids=str,
)
def test_a_linear_kernel_reaches_the_optimum_of_the_linear_machine(case, cache_mb):
    terms = objective(case).terms
    space = KernelSpace(Linear(), FEATURES, LABELS, cache_mb=cache_mb, n_pairwise=N_PAIRWISE)
    found = solve(Objective(space, terms), FrankWolfe(), Gap(1e-6), random_state=0)
    assert found.primal == pytest.approx(best(case.name), rel=1e-5)
    assert_brackets(found, best(case.name))


@pytest.mark.parametrize("cache_mb", [100.0, 0.0])
def test_all_members_of_a_shared_change_are_one_list(cache_mb):
    term = objective(CASE["shared"]).terms[0]
    space = KernelSpace(Linear(), FEATURES, LABELS, cache_mb=cache_mb, n_pairwise=N_PAIRWISE)
    solution = solve(Objective(space, [term]), FrankWolfe(), Gap(1e-2), random_state=0)
    assert len(space.atoms.pools) == 1
    _, members = space.atoms.origins[solution.f.support()].T
    assert set(members) == {0, 1, 2}


@pytest.mark.parametrize("name", ["union-outside", "budget-graded"])
def test_a_fit_goes_on_where_another_ended(name):
    problem = objective(CASE[name])
    first = solve(problem, FrankWolfe(), Gap(1e-2), random_state=0)
    again = solve(problem, FrankWolfe(), Gap(1e-6), warm_start=first, random_state=0)
    assert again.history[0].dual >= first.dual - 1e-9
    assert again.primal == pytest.approx(best(name), rel=1e-5)
