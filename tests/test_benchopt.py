"""The suites for benchopt run, and their objectives, computed by themselves, agree with the solvers."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("benchopt")

SUITES = Path(__file__).resolve().parents[1] / "benchmarks" / "benchopt"
# Objectives, and solvers whose packages are certain to be there, of each suite.
EXPECTED = {"words": (3, 7), "images": (1, 6), "chains": (2, 4)}


@pytest.fixture(scope="module", params=sorted(EXPECTED))
def suite(request, tmp_path_factory):
    import pandas as pd

    path = tmp_path_factory.mktemp("benchopt") / f"{request.param}.parquet"
    options = ["-d", "simulated[n_samples=10]", "-n", "1", "-r", "1", "--no-cache"]
    options += ["--no-plot", "--no-display", "--output"]
    command = [sys.executable, "-m", "benchopt", "run", str(SUITES / request.param), *options, str(path)]
    paths = os.pathsep.join([str(SUITES.parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "error" not in done.stdout, done.stdout + done.stderr
    return request.param, pd.read_parquet(path)


def test_all_solvers_run_on_all_objectives(suite):
    name, runs = suite
    objectives, solvers = EXPECTED[name]
    assert runs.objective_name.nunique() == objectives
    assert np.all(runs.groupby("objective_name").solver_name.nunique() >= solvers)


def test_values_are_those_of_the_solvers(suite):
    _, runs = suite
    ours = runs[runs.solver_name.str.contains("structinv.*frank_wolfe")]
    assert len(ours)
    assert np.all(ours.objective_gap <= np.minimum(ours.stop_val, 1.0) * (1 + 1e-9))


def test_lower_bounds_are_below_all_values(suite):
    _, runs = suite
    for _, some in runs[runs.objective_solved == 1.0].groupby("objective_name"):
        assert some.objective_dual.max() <= some.objective_value.min() * (1 + 1e-6)
