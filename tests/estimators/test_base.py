"""All that iterative estimators share: solvers, seeds, and input that is refused before any work."""

import numpy as np
import pytest
import scipy.sparse as sp

from structinv import InvariantLinearSVC
from structinv.oracles import Box, Ellipsoid, FDrop, FScale
from structinv.solvers import FrankWolfe, Pegasos

from .cases import check_refused, mails


def test_solver_instances_are_parameters_and_stay_untouched():
    X, y = mails()
    model = InvariantLinearSVC(solver=Pegasos(), tol=0.5, C=0.02)
    model.set_params(solver__average=True)
    before = model.solver.get_params()
    model.fit(X, y)
    assert model.solver.get_params() == before
    assert vars(model.solver) == before
    wide = np.hstack([X, X])
    for rows, name, same in (
        (X, "bmrm", "auto"),
        (wide, "frank_wolfe", "auto"),
        (X, "frank_wolfe", FrankWolfe()),
    ):
        expected = InvariantLinearSVC(solver=name, random_state=0).fit(rows, y)
        found = InvariantLinearSVC(solver=same, random_state=0).fit(rows, y)
        assert np.array_equal(found.coef_, expected.coef_)


@pytest.mark.parametrize("oracle", [None, FScale(2)], ids=str)
def test_the_seed_decides_every_bit(oracle):
    X, y = mails()
    X = sp.csr_matrix(X)

    def coef(seed):
        model = InvariantLinearSVC(
            oracle, C=0.1, solver="frank_wolfe", fit_intercept=False, tol=1e-5, random_state=seed
        )
        return model.fit(X, y).coef_

    assert coef(3).tobytes() == coef(3).tobytes()
    assert coef(np.random.RandomState(3)).tobytes() == coef(3).tobytes()
    assert coef(4).tobytes() != coef(3).tobytes()


D = 4
X = np.random.default_rng(0).standard_normal((9, D))
Y = np.arange(9) % 3


def spoilt(value, form=np.array):
    rows = X.astype(type(value)) if isinstance(value, complex) else X.copy()
    rows[4, 2] = value
    return form(rows)


def weights(value):
    array = np.ones(9)
    array[3] = value
    return array


DATA = [
    ((spoilt(-np.inf, sp.csc_matrix), Y), "X contains infinity"),
    ((spoilt(1j, sp.csr_matrix), Y), "Complex data"),
    ((X, np.ones(9)), "y must contain at least two classes, got one"),
    ((X, None), "requires y"),
    ((X, np.where(Y == 1, np.nan, Y)), "y contains NaN"),
    ((X, X[:, 0]), "label type.*continuous"),
    ((X, X[:, :2] > 0), "y should be a 1d array"),
    ((X, Y[:8]), r"numbers of samples: \[9, 8\]"),
    ((X, Y, weights(-1.0)), "Negative values .*sample_weight"),
    ((X, Y, weights(np.nan)), "sample_weight contains NaN"),
    ((X, Y, weights(np.inf)), "sample_weight contains infinity"),
    ((X, Y, np.ones(8)), r"sample_weight.shape == \(8,\)"),
    ((X, Y, np.ones((9, 1))), "Sample weights must be 1D"),
    ((X, Y, np.zeros(9)), "[Ss]ample.weights? must"),
]


@pytest.mark.usefixtures("no_work")
def test_invalid_data_raises():
    for data, message in DATA:
        check_refused(InvariantLinearSVC(FDrop(1)), ValueError, message, *data)


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize(
    ("oracle", "name"),
    [
        (Box(0.1), "Box"),
        (Ellipsoid(np.eye(D)), "Ellipsoid"),
        (FDrop(1) | Box(0.1), "Box, a part of Union,"),
    ],
    ids=str,
)
def test_dense_oracles_raise_for_sparse_samples(oracle, name):
    message = f"{name} does not support sparse rows: pass X as a dense array"
    check_refused(InvariantLinearSVC(oracle), TypeError, message, sp.csr_matrix(X), Y)


ABOVE, AT_LEAST = "must be a number above 0", "must be a number of at least 0"
REFUSED_RUNS = [
    ({"C": 0}, ValueError, f"C {ABOVE}, got 0"),
    ({"tol": -1e-3}, ValueError, f"tol {AT_LEAST}, got -0.001"),
    (
        {"solver": "newton"},
        ValueError,
        r"solver must be one of \['auto', 'bmrm', .* or a Solver, got 'newton'",
    ),
    ({"solver": None}, ValueError, "solver must be one of .* or a Solver, got None"),
    ({"solver": FrankWolfe}, ValueError, "solver must be one of .* or a Solver, got <"),
    ({"oracle": "x"}, TypeError, "oracle must be an InvarianceOracle or None, got 'x'"),
    ({"oracle": FDrop}, TypeError, "oracle must be an InvarianceOracle or None"),
    ({"verbose": -1}, ValueError, "verbose must be an integer of at least 0, got -1"),
    ({"random_state": -1}, ValueError, "random_state must be None, an integer"),
    ({"on_interrupt": "ignore"}, ValueError, r"on_interrupt must be one of .*'ignore'"),
    ({"warm_start": "yes"}, TypeError, "warm_start must be True or False, got 'yes'"),
    ({"checkpoint": 3}, TypeError, "checkpoint must be a path or None, got 3"),
]


@pytest.mark.usefixtures("no_work")
def test_parameters_of_runs_are_refused_before_any_work():
    """By one estimator: they share the check; for numbers see `contracts/test_bad_input.py`."""
    for parameters, error, message in REFUSED_RUNS:
        check_refused(InvariantLinearSVC(**parameters), error, message, X, Y)
