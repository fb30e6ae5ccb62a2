"""The special cases of Teo et al. (2007) have the optima of the programs that came before."""

import importlib
from pathlib import Path

import numpy as np
import pytest

from structinv import InvariantLinearSVC
from structinv.oracles import Trajectory

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def cases(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("special_cases")


NAMES = [
    "trajectory, degree 1",
    "trajectory, degree 2",
    "trajectory, degree 3",
    "trajectory, degree 4",
    "21 values, degree 2",
    "ellipsoids",
    "3 words dropped",
]


@pytest.mark.parametrize("C", [0.1, pytest.param(2.0, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if name.endswith(("degree 1", "degree 3")) else ())
        for name in NAMES
    ],
)
def test_optima_are_those_of_the_programs(cases, name, C):
    X, signs = cases.rows_of(24, (3, 8))
    problem = {each.name: each for each in cases.problems(X, signs, C, (1, 2, 3, 4))}[name]
    line, dual = cases.ours(problem, X, signs, C, 1e-8, 1)
    clarabel = cases.theirs(problem, X, signs, C, "CLARABEL")
    assert line.stated == pytest.approx(clarabel.stated, rel=1e-6)
    assert dual <= clarabel.stated * (1 + 1e-6)
    assert clarabel.objective == pytest.approx(line.objective, rel=1e-6)
    # As accurate as it is asked to be by default.
    scs = cases.theirs(problem, X, signs, C, "SCS", eps_abs=1e-5, eps_rel=1e-5)
    assert scs.stated == pytest.approx(line.stated, rel=1e-4)


def test_a_list_of_values_misses_what_lies_between(cases):
    X, signs = cases.rows_of(24, (3, 8))
    path = Trajectory(cases.Turned(2), 2, cases.ANGLES)
    optima = []
    for size in (3, 21):
        steps = cases.Sampled(cases.Values(path, size))
        optima.append(InvariantLinearSVC(steps, C=1.0, tol=1e-9).fit(X, signs).solution_.primal)
    whole = InvariantLinearSVC(path, C=1.0, tol=1e-9).fit(X, signs).solution_.dual
    assert optima[0] < optima[1] < whole


def test_semidefinite_certificates_are_those_of_polynomials_on_an_interval(cases):
    # One row and no weights to choose: the slack is what the least margin lacks.
    rng = np.random.default_rng(0)
    for degree in (1, 2, 3, 4, 5):
        X, powers = rng.standard_normal((1, 3)), rng.standard_normal((1, degree, 3))
        machine, program = cases.semidefinite(X, np.array([1.0]), 1e4, powers, (-0.7, 1.0))
        program.solve(solver="CLARABEL")
        w, b = machine.weights()
        t = np.linspace(-0.7, 1.0, 10001)[:, None] ** np.arange(degree + 1)
        margins = t @ np.r_[X, powers[0]] @ w + b
        assert machine.slack.value[0] == pytest.approx(max(0.0, 1.0 - margins.min()), abs=1e-5)
