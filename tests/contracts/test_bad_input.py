"""Invalid input raises an error with the argument, before any work and without a half-fitted model."""

import re
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

import structinv.estimators.base
from structinv import (
    InvariantLinearSVC,
    InvariantSVC,
    RepresenterClassifier,
    RepresenterRegressor,
    VirtualSupportVectorSVC,
    VirtualSVC,
    certify,
)
from structinv.embeddings import OrbitFourier
from structinv.functionals import Gradient, Tangents
from structinv.inspection import security_curve
from structinv.kernels import Gaussian, OrbitMean, SetKernel
from structinv.metrics import set_distance
from structinv.model_selection import select_widths
from structinv.oracles import Box, Ellipsoid, FDrop, InvarianceOracle, Shifts, Support, check_oracle
from structinv.solvers import FrankWolfe
from structinv.utils.parameters import check_boolean, check_integer, check_number

from ..oracles.cases import CASES, rows

D = 4
X = np.random.default_rng(0).standard_normal((9, D))
Y = np.arange(9) % 3
TWO = np.arange(9) % 2


def spoilt(value, form=np.array):
    rows = X.astype(type(value)) if isinstance(value, complex) else X.copy()
    rows[4, 2] = value
    return form(rows)


def weights(value):
    array = np.ones(9)
    array[3] = value
    return array


def learned(model):
    return [name for name in vars(model) if name.endswith("_") and not name.startswith("__")]


COST = [[0, 1, -1], [1, 0, 1], [1, 1, 0]]
REFUSED = [
    ({"rescaling": "norm"}, ValueError, "rescaling"),
    ({"class_weight": "even"}, ValueError, "class_weight.*balanced"),
    ({"class_weight": {0: 1.0, 1: -1.0, 2: 1.0}}, ValueError, "class_weight must be non-negative"),
    ({"class_weight": {0: np.nan}}, ValueError, "class_weight"),
    ({"cost": [[0, 1], [1, 0]]}, ValueError, r"cost must have shape \(3, 3\)"),
    ({"cost": COST}, ValueError, "cost must contain finite non-negative"),
    ({"cost": np.where(np.eye(3), 0, np.nan)}, ValueError, "cost must contain finite non-negative"),
    ({"cost": np.ones((3, 3))}, ValueError, "cost must have a zero diagonal"),
    ({"cost": "high"}, (TypeError, ValueError), "cost"),
    ({"cost": [[0, 1], [1]]}, (TypeError, ValueError), "cost"),
]
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


@pytest.fixture
def no_work(monkeypatch):
    """A solver that must not be called."""

    def refuse(*args, **kwargs):
        pytest.fail("work has begun")

    monkeypatch.setattr(structinv.estimators.base, "solve", refuse)


def check_refused(model, error, message, *data):
    with pytest.raises(error, match=re.compile(message, re.DOTALL)):
        model.fit(*data)
    assert learned(model) == []
    with pytest.raises(NotFittedError):
        model.predict(X)


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize(("params", "error", "message"), REFUSED, ids=range(len(REFUSED)))
def test_parameters_out_of_range_raise_with_their_name(params, error, message):
    check_refused(InvariantLinearSVC(**params), error, message, X, Y)


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize(("data", "message"), DATA)
def test_invalid_data_raises(data, message):
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


class Broken(InvarianceOracle):
    """An oracle with a planted bug."""

    def __init__(self, answer):
        self.answer = answer

    def support(self, X, V, assign, cost=None):
        return self.answer(X)


BUGS = [
    (lambda X: Support(X[:, :-1]), r"points of shape \(9, 4\), got \(9, 3\)"),
    (lambda X: Support(X[:-1]), r"points of shape \(9, 4\), got \(8, 4\)"),
    (lambda X: Support(X[0]), r"points of shape \(9, 4\), got \(4,\)"),
    (lambda X: Support(np.where(X > 0, np.nan, X)), "points that are not finite"),
    (lambda X: Support(X * np.inf), "points that are not finite"),
    (lambda X: Support(X, np.full(len(X), np.nan)), "returned upper that are NaN"),
    (lambda X: Support(X, np.full(len(X) - 1, np.inf)), r"upper of shape \(9,\), got \(8,\)"),
    (lambda X: Support(X, rho=np.ones(len(X) + 1)), r"grades of shape \(9,\), got \(10,\)"),
    (lambda X: X, "must return a Support, got ndarray"),
    (lambda X: None, "must return a Support, got NoneType"),
]


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("solver", ["frank_wolfe", "bmrm"])
@pytest.mark.parametrize(("answer", "said"), BUGS)
def test_invalid_answers_of_oracles_raise(answer, said, solver):
    model = InvariantLinearSVC(Broken(answer), solver=solver)
    check_refused(model, ValueError, f"Broken.support.*{said}", X, TWO)
    model.set_params(oracle=None).fit(X, TWO).set_params(oracle=Broken(answer))
    for method in (model.certify, model.worst_case):
        with pytest.raises(ValueError, match=f"Broken.support.*{said}"):
            method(X, TWO)


AFTERWARD = [
    ((X[:, :-1],), "X has 3 features, but .* is expecting 4 features"),
    ((spoilt(np.nan),), "X contains NaN"),
    ((spoilt(np.inf, sp.csr_matrix),), "X contains infinity"),
    ((spoilt(1j),), "Complex data not supported"),
    ((X[0],), "Expected 2D array"),
    ((X, Y[:-1]), r"y must have shape \(9,\), one label per row, got \(8,\)"),
    ((X, Y + 1), r"y contains labels that are not among the classes: \[3\]"),
    ((X, np.array(["a", "b", "c"])[Y]), "y contains labels that are not among"),
    ((X, np.where(Y == 1, np.nan, Y)), "not among the classes"),
]


@pytest.mark.parametrize("method", ["certify", "worst_case"])
@pytest.mark.parametrize(("data", "message"), AFTERWARD)
def test_invalid_samples_and_labels_after_a_fit_raise(data, message, method):
    model = InvariantLinearSVC(FDrop(1)).fit(X, Y)
    with pytest.raises(ValueError, match=message):
        getattr(model, method)(*data)


VALUES = "assign must contain rows of V"
BAD_QUESTIONS = {
    "X a list": (TypeError, "X must be an array", lambda X, V, a: (X.tolist(), V, a)),
    "X one row": (ValueError, "X must have shape", lambda X, V, a: (X[0], V, a)),
    "V one direction": (ValueError, "V must have shape", lambda X, V, a: (X, V[0], a)),
    "V too wide": (ValueError, "V must have shape", lambda X, V, a: (X, np.c_[V, V], a)),
    "assign too short": (ValueError, "assign must have shape", lambda X, V, a: (X, V, a[1:])),
    "assign too large": (ValueError, VALUES, lambda X, V, a: (X, V, a + 1)),
    "assign negative": (ValueError, VALUES, lambda X, V, a: (X, V, a - 1)),
    "assign floats": (TypeError, "assign must contain integers", lambda X, V, a: (X, V, a / 1)),
}


# Those that need labels are asked through `bind`.
UNBOUND = [case for case in CASES if not case.oracle.depends_on_label]


@pytest.mark.parametrize(
    ("case", "bad"),
    [(UNBOUND[0], bad) for bad in BAD_QUESTIONS] + [(each, "V too wide") for each in UNBOUND[1:]],
)
def test_invalid_directions_raise_before_any_work(case, bad):
    """Every wrong question to one oracle, and one to every oracle: they share the check."""
    inputs = rows()[0][:4]
    directions = np.random.default_rng(0).standard_normal((2, inputs.shape[1]))
    error, message, spoil = BAD_QUESTIONS[bad]
    asked, V, assign = spoil(inputs, directions, np.array([0, 1, 1, 0]))
    if bad.startswith("X"):
        with pytest.raises(error, match=message):
            case.oracle.bind(asked)
    with pytest.raises(error, match=message):
        case.oracle.support(asked, V, assign)


CHANGES = Shifts(1, directions=4, shape=(2, 2))
WITH_ORACLE = [
    InvariantLinearSVC,
    InvariantSVC,
    RepresenterClassifier,
    VirtualSVC,
    VirtualSupportVectorSVC,
]
WITH_FUNCTIONALS = [InvariantSVC, RepresenterClassifier, RepresenterRegressor]


@pytest.mark.parametrize("kind", WITH_FUNCTIONALS)
@pytest.mark.parametrize("given", [CHANGES, [Gradient(), CHANGES]], ids=["alone", "listed"])
def test_an_oracle_among_functionals_raises_with_advice(kind, given):
    with pytest.raises(TypeError, match=r"invariances must .*Tangents\(Shifts\(.*or pass .*oracle="):
        kind(invariances=given).fit(X, TWO)


@pytest.mark.parametrize("kind", WITH_ORACLE)
@pytest.mark.parametrize("given", [Gradient(), Gradient().bind(X)], ids=["free", "bound"])
def test_a_functional_as_oracle_raises_with_advice(kind, given):
    with pytest.raises(TypeError, match=r"oracle must be an InvarianceOracle.*invariances=\[\.\.\.\]"):
        kind(oracle=given).fit(X, TWO)


MODEL = InvariantLinearSVC().fit(X, TWO)
GIVEN = {
    "rows": (X, r"rows of shape \(9, 4\): pass the oracle before the rows"),
    "class": (FDrop, r"the class FDrop; pass an instance: FDrop\(max_changes=...\)"),
    "builtin": (dict, "the class dict$"),
    "text": ("fdrop", "'fdrop'$"),
}
TAKING = {
    "fit": lambda oracle: InvariantLinearSVC(oracle).fit(X, TWO),
    "certify": lambda oracle: certify(MODEL, oracle, X, TWO),
    "check": lambda oracle: check_oracle(oracle, X),
    "union": lambda oracle: InvariantLinearSVC(FDrop(1) | oracle).fit(X, TWO),
    "distances": lambda oracle: set_distance(oracle, X),
    "kernel": lambda oracle: OrbitMean(oracle, Gaussian()).validate(4),
    "set kernel": lambda oracle: SetKernel(oracle, Gaussian()).validate(4),
    "embedding": lambda oracle: OrbitFourier(oracle=oracle).fit(X),
    "functional": lambda oracle: InvariantSVC(invariances=[Tangents(oracle)]).fit(X, TWO),
    "curve": lambda oracle: security_curve({"a": MODEL}, X, TWO, oracle=oracle, n_changes=[1], label=1),
    "widths": lambda oracle: select_widths({"changes": oracle}, X, Y),
}


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("taking", TAKING)
def test_invalid_oracles_raise_the_same_message(taking, given):
    oracle, written = GIVEN[given]
    with pytest.raises(TypeError, match=r"must be an InvarianceOracle( or None)?, got .*" + written):
        TAKING[taking](oracle)


ABOVE, AT_LEAST = "must be a number above 0", "must be a number of at least 0"
REFUSED_RUNS = {
    "C-zero": ({"C": 0}, ValueError, f"C {ABOVE}, got 0"),
    "tol-negative": ({"tol": -1e-3}, ValueError, f"tol {AT_LEAST}, got -0.001"),
    "solver-unknown": (
        {"solver": "newton"},
        ValueError,
        r"solver must be one of \['auto', 'bmrm', .* or a Solver, got 'newton'",
    ),
    "solver-none": ({"solver": None}, ValueError, "solver must be one of .* or a Solver, got None"),
    "solver-class": ({"solver": FrankWolfe}, ValueError, "solver must be one of .* or a Solver, got <"),
    "oracle-text": ({"oracle": "x"}, TypeError, "oracle must be an InvarianceOracle or None, got 'x'"),
    "oracle-class": ({"oracle": FDrop}, TypeError, "oracle must be an InvarianceOracle or None"),
    "verbose": ({"verbose": -1}, ValueError, "verbose must be an integer of at least 0, got -1"),
    "seed": ({"random_state": -1}, ValueError, "random_state must be None, an integer"),
    "interrupt": ({"on_interrupt": "ignore"}, ValueError, r"on_interrupt must be one of .*'ignore'"),
    "warm": ({"warm_start": "yes"}, TypeError, "warm_start must be True or False, got 'yes'"),
    "checkpoint": ({"checkpoint": 3}, TypeError, "checkpoint must be a path or None, got 3"),
}


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize("name", REFUSED_RUNS)
def test_parameters_of_runs_are_refused_before_any_work(name):
    """By one estimator: they share the check; for numbers see `test_parameters.py`."""
    check_refused(InvariantLinearSVC(**REFUSED_RUNS[name][0]), *REFUSED_RUNS[name][1:], X, Y)


OTHERS = ["1", None, 1j, [1.0], True]
# What is allowed, what is out of range, and what is of another type.
VALIDATED = [
    (check_number, [0, 1e300, np.float32(0.5)], [-1e-300, np.nan, np.inf], OTHERS, "of at least 0"),
    (partial(check_number, strict=True), [1e-300], [0, -1.0, np.nan, np.inf], OTHERS, "above 0"),
    (
        partial(check_number, minimum=-np.inf),
        [-1, 0],
        [np.nan, np.inf, -np.inf],
        OTHERS,
        "a finite number",
    ),
    (partial(check_number, maximum=1), [0, 1], [1.1, np.nan], OTHERS, "of at least 0 and at most 1"),
    (check_integer, [1, np.int64(3)], [0, -1], [1.0, *OTHERS], "an integer of at least 1"),
    (partial(check_integer, optional=True), [None, 1], [0], [1.0, True], "None or an integer"),
    (partial(check_integer, most=3, what="rows"), [1, 3], [0, 4], [], "at most 3, the number of rows"),
    (check_boolean, [True, np.False_], [], [0, 1, "yes", None], "True or False"),
]


@pytest.mark.parametrize(("check", "allowed", "out_of_range", "others", "said"), VALIDATED)
def test_parameters_have_ranges_and_types(check, allowed, out_of_range, others, said):
    for value in allowed:
        check("name", value)
    for error, values in ((ValueError, out_of_range), (TypeError, others)):
        for value in values:
            with pytest.raises(error, match=f"^name must be .*{said}.*, got {re.escape(repr(value))}"):
                check("name", value)
