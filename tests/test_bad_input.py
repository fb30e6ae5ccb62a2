"""Every wrong input is refused by name, before any work, and leaves no half-fitted model."""

import re

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

import structinv.estimators.base
from structinv import (
    InvariantLinearSVC,
    InvariantSVC,
    RepresenterClassifier,
    RepresenterRegressor,
    VirtualSupportVectorSVC,
    VirtualSVC,
)
from structinv.functionals import Gradient
from structinv.oracles import (
    Box,
    Ellipsoid,
    FDrop,
    FScale,
    ImageOracle,
    InvarianceOracle,
    Shifts,
    Support,
)

from .oracle_cases import CASES, rows

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


def learnt(model):
    return [name for name in vars(model) if name.endswith("_") and not name.startswith("__")]


PARAMETERS = {
    "rescaling": (
        {"rescaling": "norm"},
        ValueError,
        "rescaling must be 'margin' or 'slack', got 'norm'",
    ),
    "class_weight-text": ({"class_weight": "even"}, ValueError, "class_weight.*balanced"),
    "class_weight-negative": (
        {"class_weight": {0: 1.0, 1: -1.0, 2: 1.0}},
        ValueError,
        "class_weight must be non-negative",
    ),
    "class_weight-nan": ({"class_weight": {0: np.nan}}, ValueError, "class_weight must be"),
    "cost-shape": (
        {"cost": [[0, 1], [1, 0]]},
        ValueError,
        r"cost must have shape \(3, 3\).*got \(2, 2\)",
    ),
    "cost-vector": ({"cost": [0, 1, 1]}, ValueError, r"cost must have shape \(3, 3\)"),
    "cost-negative": (
        {"cost": [[0, 1, -1], [1, 0, 1], [1, 1, 0]]},
        ValueError,
        "cost must hold finite non-negative numbers",
    ),
    "cost-nan": (
        {"cost": [[0, np.nan, 1], [1, 0, 1], [1, 1, 0]]},
        ValueError,
        "cost must hold finite non-negative numbers",
    ),
    "cost-diagonal": ({"cost": np.ones((3, 3))}, ValueError, "cost must have a zero diagonal"),
    "cost-text": ({"cost": "high"}, (TypeError, ValueError), "cost"),
    "cost-ragged": ({"cost": [[0, 1], [1]]}, (TypeError, ValueError), "cost"),
}

ORACLES = {
    "changes-negative": (FDrop(-1), ValueError, "max_changes must be an integer of at least 0, got -1"),
    "changes-real": (FScale(2.0), TypeError, "max_changes must be an integer of at least 0, got 2.0"),
    "changes-bool": (FScale(True), TypeError, "max_changes must be an integer of at least 0, got True"),
    "changes-text": (FDrop("3"), TypeError, "max_changes must be an integer of at least 0, got '3'"),
    "changes-none": (FDrop(None), TypeError, "max_changes must be an integer"),
    "low-above": (FScale(2, low=1.5), ValueError, r"low must be a factor in \[0, 1\], got 1.5"),
    "low-below": (FScale(2, low=-0.5), ValueError, r"low must be a factor in \[0, 1\], got -0.5"),
    "low-nan": (FScale(2, low=np.nan), ValueError, r"low must be a factor in \[0, 1\], got nan"),
    "low-text": (FScale(2, low="0.5"), (TypeError, ValueError), r"low must be"),
    "high-below": (FScale(2, high=0.9), ValueError, "high must be a finite factor of at least 1"),
    "high-infinite": (FScale(2, high=np.inf), ValueError, "high must be a finite factor"),
    "high-nan": (FScale(2, high=np.nan), ValueError, "high must be a finite factor of at least 1"),
    "high-none": (FScale(2, high=None), (TypeError, ValueError), "high must be"),
    "radius-negative": (Box(-0.5), ValueError, "radius must be at least 0, got -0.5"),
    "radius-nan": (Box(np.nan), ValueError, "radius must be finite, got nan"),
    "radius-infinite": (Box(np.inf), ValueError, "radius must be finite"),
    "radius-text": (Box("wide"), TypeError, "radius must be a number or an array of real numbers"),
    "radius-shape": (Box(np.ones(D + 1)), ValueError, r"radius must be .* shape \(4,\).*\(5,\)"),
    "radii-table": (Box(np.ones((2, D))), ValueError, r"radius must be .* shape \(4,\)"),
    "factor-shape": (
        Ellipsoid(np.ones((D + 1, 2))),
        ValueError,
        r"factor must have shape \(4, r\), got shape \(5, 2\)",
    ),
    "factor-vector": (Ellipsoid(np.ones(D)), ValueError, r"factor must have shape \(4, r\)"),
    "factor-nan": (Ellipsoid(np.full((D, 1), np.nan)), ValueError, "factor must be finite"),
    "factor-rows": (Ellipsoid(lambda X: X), ValueError, r"factor\(X\) must have shape \(9, 4, r\)"),
    "ball-radius": (Ellipsoid(np.eye(D), -1.0), ValueError, "radius must be at least 0"),
    "in-union": (Box(0.1) | FDrop(-1), ValueError, "max_changes must be an integer of at least 0"),
    "union-part": (FDrop(1) | "fscale", TypeError, "right must be an InvarianceOracle"),
    "in-compose": (Box(-1.0) @ FDrop(1), ValueError, "radius must be at least 0"),
    "no-labels": (FDrop(1).only_for([]), ValueError, "labels must be"),
    "rho": (FDrop(1).discounted(1.5), ValueError, r"rho must be .* in \[0, 1\]"),
}

DATA = {
    "sparse-inf": ((spoilt(-np.inf, sp.csc_matrix), Y), {}, ValueError, "X contains infinity"),
    "sparse-complex": ((spoilt(1j, sp.csr_matrix), Y), {}, ValueError, "Complex data"),
    "one-class": ((X, np.ones(9)), {}, ValueError, "y must hold at least two classes, got one"),
    "y-none": ((X, None), {}, ValueError, "requires y"),
    "y-nan": ((X, np.where(Y == 1, np.nan, Y)), {}, ValueError, "y contains NaN"),
    "y-real": ((X, X[:, 0]), {}, ValueError, "label type.*continuous"),
    "y-table": ((X, X[:, :2] > 0), {}, ValueError, "y should be a 1d array"),
    "y-short": ((X, Y[:8]), {}, ValueError, r"numbers of samples: \[9, 8\]"),
    "weight-negative": ((X, Y), weights(-1.0), ValueError, "Negative values .*sample_weight"),
    "weight-nan": ((X, Y), weights(np.nan), ValueError, "sample_weight contains NaN"),
    "weight-infinite": ((X, Y), weights(np.inf), ValueError, "sample_weight contains infinity"),
    "weight-short": ((X, Y), np.ones(8), ValueError, r"sample_weight.shape == \(8,\)"),
    "weight-table": (
        (X, Y),
        np.ones((9, 1)),
        ValueError,
        "Sample weights must be 1D",
    ),
    "weight-zero": ((X, Y), np.zeros(9), ValueError, "[Ss]ample.weights? must"),
}


@pytest.fixture
def no_work(monkeypatch):
    """A solver that is not to be reached."""

    def refuse(*args, **kwargs):
        pytest.fail("work has begun")

    monkeypatch.setattr(structinv.estimators.base, "solve", refuse)


def check_refused(model, error, message, *data, **weight):
    with pytest.raises(error, match=re.compile(message, re.DOTALL)):
        model.fit(*data, **weight)
    assert learnt(model) == []
    with pytest.raises(NotFittedError):
        model.predict(X)


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters(name):
    params, error, message = PARAMETERS[name]
    check_refused(InvariantLinearSVC(**params), error, message, X, Y)


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize("name", ORACLES)
def test_oracles(name):
    oracle, error, message = ORACLES[name]
    check_refused(InvariantLinearSVC(oracle), error, message, X, Y)


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize("name", DATA)
def test_data(name):
    data, weight, error, message = DATA[name]
    weight = {"sample_weight": weight} if isinstance(weight, np.ndarray) else weight
    check_refused(InvariantLinearSVC(FDrop(1)), error, message, *data, **weight)


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize(
    ("oracle", "name"),
    [(Box(0.1), "Box"), (Ellipsoid(np.eye(D)), "Ellipsoid"), (FDrop(1) | Box(0.1), "Union")],
    ids=str,
)
def test_oracles_of_dense_rows_refuse_sparse_ones_by_name(oracle, name):
    message = f"{name} does not take sparse rows; pass X as a dense array"
    check_refused(InvariantLinearSVC(oracle), TypeError, message, sp.csr_matrix(X), Y)


class Broken(InvarianceOracle):
    """An oracle of a user's own with a planted bug."""

    def __init__(self, bug):
        self.bug = bug

    def support(self, X, V, assign, cost=None):
        wrong = {
            "narrow": Support(X[:, :-1]),
            "short": Support(X[:-1]),
            "one-row": Support(X[0]),
            "nan": Support(np.where(X > 0, np.nan, X)),
            "infinite": Support(X * np.inf),
            "upper-nan": Support(X, np.full(len(X), np.nan)),
            "upper-short": Support(X, np.full(len(X) - 1, np.inf)),
            "rho-short": Support(X, rho=np.ones(len(X) + 1)),
            "array": X,
            "none": None,
        }
        return wrong[self.bug]


BUGS = {
    "narrow": r"points of shape \(9, 4\), got \(9, 3\)",
    "short": r"points of shape \(9, 4\), got \(8, 4\)",
    "one-row": r"points of shape \(9, 4\), got \(4,\)",
    "nan": "points that are not finite",
    "infinite": "points that are not finite",
    "upper-nan": "returned upper that are NaN",
    "upper-short": r"upper of shape \(9,\), got \(8,\)",
    "rho-short": r"grades of shape \(9,\), got \(10,\)",
    "array": "must return a Support, got ndarray",
    "none": "must return a Support, got NoneType",
}


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("solver", ["frank_wolfe", "bmrm"])
@pytest.mark.parametrize("y", [TWO, np.r_[0, 1, np.full(7, 1)]], ids=["even", "uneven"])
@pytest.mark.parametrize("bug", BUGS)
def test_answers_of_broken_oracles(bug, y, solver):
    model = InvariantLinearSVC(Broken(bug), solver=solver)
    check_refused(model, ValueError, f"Broken.support.*{BUGS[bug]}", X, y)
    model.set_params(oracle=None).fit(X, y).set_params(oracle=Broken(bug))
    for method in (model.certify, model.worst_case):
        with pytest.raises(ValueError, match=f"Broken.support.*{BUGS[bug]}"):
            method(X, y)


def test_nothing_works_before_a_fit():
    for method in (InvariantLinearSVC().certify, InvariantLinearSVC().worst_case):
        with pytest.raises(NotFittedError, match="InvariantLinearSVC"):
            method(X)


AFTERWARDS = {
    "narrow": ((X[:, :-1],), ValueError, "X has 3 features, but .* is expecting 4 features"),
    "nan": ((spoilt(np.nan),), ValueError, "X contains NaN"),
    "sparse-inf": ((spoilt(np.inf, sp.csr_matrix),), ValueError, "X contains infinity"),
    "complex": ((spoilt(1j),), ValueError, "Complex data not supported"),
    "vector": ((X[0],), ValueError, "Expected 2D array"),
}
LABELS = {
    "y-short": ((X, Y[:-1]), ValueError, r"y must have shape \(9,\), one label a row, got \(8,\)"),
    "y-table": ((X, np.c_[Y, Y]), ValueError, r"y must have shape \(9,\).*got \(9, 2\)"),
    "y-number": ((X, 1), ValueError, r"y must have shape \(9,\).*got \(\)"),
    "y-unknown": ((X, Y + 1), ValueError, r"y holds labels that are not among the classes: \[3\]"),
    "y-below": ((X, Y - 1), ValueError, r"not among the classes: \[-1\]"),
    "y-between": ((X, Y + 0.5), ValueError, r"not among the classes: \[0.5, 1.5, 2.5\]"),
    "y-text": ((X, np.array(["a", "b", "c"])[Y]), ValueError, "y holds labels that are not among"),
    "y-nan": ((X, np.where(Y == 1, np.nan, Y)), ValueError, "not among the classes"),
}


@pytest.mark.parametrize("method", ["certify", "worst_case"])
@pytest.mark.parametrize("name", AFTERWARDS)
def test_rows_after_a_fit(name, method):
    model = InvariantLinearSVC(FDrop(1)).fit(X, Y)
    data, error, message = AFTERWARDS[name]
    with pytest.raises(error, match=message):
        getattr(model, method)(*data)


@pytest.mark.parametrize("method", ["certify", "worst_case"])
@pytest.mark.parametrize("name", LABELS)
def test_labels_after_a_fit(name, method):
    model = InvariantLinearSVC(FDrop(1)).fit(X, Y)
    data, error, message = LABELS[name]
    with pytest.raises(error, match=message):
        getattr(model, method)(*data)


@pytest.mark.parametrize("method", ["certify", "worst_case"])
def test_text_labels_after_a_fit(method):
    names = np.array(["b", "d", "f"])
    model = InvariantLinearSVC(FDrop(1)).fit(X, names[Y])
    for wrong in (["a"], ["c"], ["g"], [1], [None]):
        with pytest.raises((TypeError, ValueError), match="y"):
            getattr(model, method)(X, np.array(wrong * 9))


@pytest.mark.parametrize("method", ["certify", "worst_case"])
def test_dense_oracles_refuse_sparse_rows_after_a_fit(method):
    model = InvariantLinearSVC(Box(0.1)).fit(X, Y)
    assert model.predict(sp.csr_matrix(X)).shape == (9,)
    with pytest.raises(TypeError, match="Box does not take sparse rows"):
        getattr(model, method)(sp.csr_matrix(X), Y)


@pytest.mark.parametrize("method", ["certify", "worst_case"])
def test_oracles_changed_after_a_fit_are_checked(method):
    model = InvariantLinearSVC(FDrop(1)).fit(X, Y).set_params(oracle__max_changes=-1)
    with pytest.raises(ValueError, match="max_changes must be an integer of at least 0"):
        getattr(model, method)(X, Y)


def test_a_refused_fit_keeps_the_model_before_it():
    model = InvariantLinearSVC(FDrop(1), random_state=0).fit(X, Y)
    before = {name: getattr(model, name) for name in learnt(model)}
    for data in ((X[:, :2], np.ones(9)), (X[:, :2], Y[:8])):
        with pytest.raises(ValueError, match="y must hold|numbers of samples"):
            model.fit(*data)
    assert {name: getattr(model, name) for name in learnt(model)} == before
    check_is_fitted(model)
    assert model.predict(X).shape == (9,)


BAD_QUESTIONS = {
    "X a list": (TypeError, "X must be an array", lambda X, V, assign: (X.tolist(), V, assign)),
    "X one row": (ValueError, "X must have shape", lambda X, V, assign: (X[0], V, assign)),
    "V one direction": (ValueError, "V must have shape", lambda X, V, assign: (X, V[0], assign)),
    "V too wide": (ValueError, "V must have shape", lambda X, V, assign: (X, np.c_[V, V], assign)),
    "assign too short": (ValueError, "assign must have shape", lambda X, V, assign: (X, V, assign[1:])),
    "assign too large": (
        ValueError,
        "assign must hold numbers",
        lambda X, V, assign: (X, V, assign + 1),
    ),
    "assign negative": (ValueError, "assign must hold numbers", lambda X, V, assign: (X, V, assign - 1)),
    "assign floats": (TypeError, "assign must hold integers", lambda X, V, assign: (X, V, assign / 1)),
}


# Those that need labels are asked through `bind`.
UNBOUND = [case for case in CASES if "only_for" not in case.covers]


@pytest.mark.parametrize("bad", BAD_QUESTIONS)
@pytest.mark.parametrize("case", UNBOUND, ids=str)
def test_a_question_that_makes_no_sense_is_refused_before_work(case, bad):
    inputs = rows()[0][:4]
    directions = np.random.default_rng(0).standard_normal((2, inputs.shape[1]))
    error, message, spoil = BAD_QUESTIONS[bad]
    asked, V, assign = spoil(inputs, directions, np.array([0, 1, 1, 0]))
    if bad.startswith("X"):
        with pytest.raises(error, match=message):
            case.oracle.bind(asked)
    # Images may come as lists.
    if bad != "X a list" or not isinstance(case.oracle, ImageOracle):
        with pytest.raises(error, match=message):
            case.oracle.support(asked, V, assign)


def test_rewards_of_another_length_are_refused():
    inputs, V = np.ones((4, 9)), np.ones((1, 9))
    with pytest.raises(ValueError, match=r"cost must have shape \(4,\)"):
        FDrop(2).graded_support(inputs, V, np.zeros(4, dtype=int), np.ones(3), 0.5)


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
def test_an_oracle_among_functionals_is_told_where_it_belongs(kind, given):
    with pytest.raises(TypeError, match=r"invariances must .*Tangents\(Shifts\(.*or give .*oracle="):
        kind(invariances=given).fit(X, TWO)


@pytest.mark.parametrize("kind", WITH_ORACLE)
@pytest.mark.parametrize("given", [Gradient(), Gradient().bind(X)], ids=["free", "bound"])
def test_a_functional_for_an_oracle_is_told_where_it_belongs(kind, given):
    with pytest.raises(TypeError, match=r"oracle must be an InvarianceOracle.*invariances=\[\.\.\.\]"):
        kind(oracle=given).fit(X, TWO)
