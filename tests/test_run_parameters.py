"""Parameters that all estimators with a solver share, and which they refuse before any work."""

import numpy as np
import pytest
from sklearn.base import clone

from structinv.estimators.base import InvariantEstimator
from structinv.oracles import FDrop
from structinv.solvers import FrankWolfe

from .estimator_cases import PREDICTORS

CASES = [case for case in PREDICTORS if isinstance(case.estimator, InvariantEstimator)]
ABOVE, AT_LEAST = "must be a number above 0", "must be a number of at least 0"
REFUSED = {
    "C-zero": ({"C": 0}, ValueError, f"C {ABOVE}, got 0"),
    "C-negative": ({"C": -1.0}, ValueError, f"C {ABOVE}"),
    "C-nan": ({"C": np.nan}, ValueError, f"C {ABOVE}"),
    "C-infinite": ({"C": np.inf}, ValueError, f"C {ABOVE}"),
    "C-text": ({"C": "1"}, TypeError, f"C {ABOVE}, got '1'"),
    "C-none": ({"C": None}, TypeError, f"C {ABOVE}"),
    "C-bool": ({"C": True}, TypeError, f"C {ABOVE}"),
    "tol-negative": ({"tol": -1e-3}, ValueError, f"tol {AT_LEAST}, got -0.001"),
    "tol-nan": ({"tol": np.nan}, ValueError, f"tol {AT_LEAST}"),
    "tol-text": ({"tol": "small"}, TypeError, f"tol {AT_LEAST}, got 'small'"),
    "tol-none": ({"tol": None}, TypeError, f"tol {AT_LEAST}, got None"),
    "seconds-zero": ({"max_seconds": 0}, ValueError, f"max_seconds {ABOVE}, got 0"),
    "seconds-negative": ({"max_seconds": -1.0}, ValueError, f"max_seconds {ABOVE}"),
    "seconds-nan": ({"max_seconds": np.nan}, ValueError, f"max_seconds {ABOVE}"),
    "seconds-text": ({"max_seconds": "1"}, TypeError, f"max_seconds {ABOVE}"),
    "solver-unknown": (
        {"solver": "newton"},
        ValueError,
        r"solver must be one of \['auto', 'bmrm', .* or a Solver, got 'newton'",
    ),
    "solver-none": ({"solver": None}, ValueError, "solver must be one of .* or a Solver, got None"),
    "solver-class": ({"solver": FrankWolfe}, ValueError, "solver must be one of .* or a Solver, got <"),
    "solver-list": ({"solver": ["bmrm"]}, ValueError, "solver must be one of .* or a Solver"),
    "oracle-text": ({"oracle": "x"}, TypeError, "oracle must be an InvarianceOracle or None, got 'x'"),
    "oracle-class": ({"oracle": FDrop}, TypeError, "oracle must be an InvarianceOracle or None"),
    "oracle-number": ({"oracle": 3}, TypeError, "oracle must be an InvarianceOracle or None"),
    "verbose": ({"verbose": -1}, ValueError, "verbose must be an integer of at least 0, got -1"),
    "verbose-text": ({"verbose": "yes"}, ValueError, "verbose must be an integer of at least 0"),
    "seed": ({"random_state": -1}, ValueError, "random_state must be None, an integer"),
    "seed-text": ({"random_state": "0"}, ValueError, "random_state must be None, an integer"),
    "interrupt": ({"on_interrupt": "ignore"}, ValueError, r"on_interrupt must be one of .*'ignore'"),
    "warm": ({"warm_start": "yes"}, TypeError, "warm_start must be True or False, got 'yes'"),
    "checkpoint": ({"checkpoint": 3}, TypeError, "checkpoint must be a path or None, got 3"),
    "pause": ({"checkpoint_seconds": 0}, ValueError, f"checkpoint_seconds {ABOVE}, got 0"),
}


@pytest.mark.parametrize(
    ("case", "name"),
    [(CASES[0], name) for name in REFUSED] + [(case, "tol-negative") for case in CASES[1:]],
)
def test_they_are_refused_before_any_work(case, name, monkeypatch):
    """Every value by one estimator, and one value by every estimator: they share the check."""
    parameters, error, message = REFUSED[name]
    monkeypatch.setattr("structinv.estimators.base.solve", None)
    model = clone(case.estimator).set_params(**parameters)
    with pytest.raises(error, match=message):
        model.fit(case.X, case.y)
    assert not [name for name in vars(model) if name.endswith("_")]
