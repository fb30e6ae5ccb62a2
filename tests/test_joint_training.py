"""Worst cases jointly over labellings and changes of whole examples: training reaches the optimum."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from structinv.solvers import BMRM, FrankWolfe, Gap, Pegasos, Status, SVMStruct, solve

from .joint_cases import CASE, JOINT, objective, optimum
from .problems import assert_brackets


@cache
def best(name: str) -> float:
    return optimum(CASE[name])


@pytest.mark.parametrize("solver", [FrankWolfe(), SVMStruct(), BMRM()], ids=repr)
@pytest.mark.parametrize("case", JOINT, ids=str)
def test_training_reaches_the_optimum_over_labellings_and_changes(case, solver):
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
