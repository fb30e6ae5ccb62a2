"""Machines told of functionals refuse what is wrong by name, before any work, and stay as they were."""

import re

import numpy as np
import pytest
from sklearn.base import clone

from structinv import LapSVC, RepresenterClassifier, RepresenterRegressor
from structinv.functionals import (
    Difference,
    DirectionalDerivative,
    Evaluation,
    Gradient,
    GraphLaplacian,
    LocalAverage,
    PartialDerivative,
    SecondDerivative,
    Tangents,
    TransformDifference,
)
from structinv.functionals.base import Scaled
from structinv.functionals.fast_products import JetGram
from structinv.functionals.representers import Representers
from structinv.kernels import Gaussian, Matern, Polynomial
from structinv.oracles import FDrop, Rotations, Shifts
from structinv.solvers import FrankWolfe, Representer

D = 4
X = np.random.default_rng(0).standard_normal((12, D))
Y = np.where(np.arange(12) < 8, np.arange(12) % 2, -1)
THREE = np.arange(12) % 3
TARGETS = X[:, 0]
OTHERS = np.random.default_rng(1).standard_normal((5, D - 1))
SHIFTS = Shifts(1, shape=(2, 2))
GRADIENTS = {"invariances": [Gradient()]}


@pytest.fixture
def no_work(monkeypatch):
    """Any value of a kernel, or step of a solver, fails the test."""

    def work(*args, **kwargs):
        pytest.fail("work has begun")

    for name in ("apply", "gram", "table", "diagonal", "values"):
        monkeypatch.setattr(Representers, name, work)
    monkeypatch.setattr(JetGram, "__init__", work)
    monkeypatch.setattr("structinv.solvers.loop._Run.__init__", work)


def learnt(model):
    return {name: value for name, value in vars(model).items() if name.endswith("_")}


def check_refused(model, error, message, *data, **fit):
    """`fit` raises what it should; whether it had a model before or none, it is left so."""
    with pytest.raises(error, match=message):
        model.fit(*data, **fit)
    assert learnt(model) == {}
    marks = {"alpha_": object(), "n_features_in_": 99, "classes_": object()}
    vars(model).update(marks)
    with pytest.raises(error, match=message):
        model.fit(*data, **fit)
    assert learnt(model) == marks


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize("solver", ["newton-cg", "dual-interior", "lbfgs", "dual-cd", "cvxpy", "bmrm"])
def test_a_fit_that_is_not_refused_begins_to_work(solver):
    with pytest.raises(pytest.fail.Exception, match="work has begun"):
        RepresenterClassifier(solver=solver, loss="hinge", **GRADIENTS).fit(X, Y)


NUMBER = "must be a number of at least 0"
SHARED = {
    "cache-negative": ({"cache_mb": -1}, ValueError, f"cache_mb {NUMBER}, got -1"),
    "bias-number": ({"bias": 1}, TypeError, "bias must be True or False, got 1"),
    "bias-text": ({"bias": "yes"}, TypeError, "bias must be True or False, got 'yes'"),
    "bias-none": ({"bias": None}, TypeError, "bias must be True or False, got None"),
    "loss-list": ({"loss": ["squared"]}, ValueError, r"loss must be one of \[.*'squared'.* got \["),
    "loss-none": ({"loss": None}, ValueError, "loss must be one of .*, got None"),
    "solver-unknown": (
        {"solver": "newton"},
        ValueError,
        r"solver must be one of \['auto', 'bmrm', 'cvxpy', 'dual-cd', .* or a Solver, got 'newton'",
    ),
    "solver-method": (
        {"solver": Representer("newton")},
        ValueError,
        r"method must be one of \['auto', 'lbfgs', 'newton-cg', 'dual-interior', 'dual-cd', 'cvxpy'\], "
        "got 'newton'",
    ),
    "solver-selection": (
        {"solver": Representer("dual-cd", selection="first")},
        ValueError,
        r"selection must be one of \['random', 'steepest'\], got 'first'",
    ),
    "solver-selection-of-no-coordinates": (
        {"solver": Representer("newton-cg", selection="steepest")},
        ValueError,
        "selection='steepest' needs method 'dual-cd', got 'newton-cg'",
    ),
    "kernel-unknown": (
        {"kernel": "gauss"},
        ValueError,
        r"kernel must be one of \['laplacian', 'linear', 'poly', 'rbf'\], a Kernel or a callable, got",
    ),
    "kernel-precomputed": (
        {"kernel": "precomputed"},
        ValueError,
        r"kernel must be one of \['laplacian', 'linear', 'poly', 'rbf'\], .*, got 'precomputed'",
    ),
    "kernel-number": ({"kernel": 3}, ValueError, "kernel must be one of .*, got 3"),
    "kernel-class": ({"kernel": None}, ValueError, "kernel must be one of .*, got None"),
    "sigma-zero": ({"kernel": Gaussian(0)}, ValueError, "sigma must be a number above 0, got 0"),
    "sigma-text": ({"kernel": Gaussian("1")}, TypeError, "sigma must be a number above 0, got '1'"),
    "degree": ({"kernel": "poly", "degree": -1}, ValueError, "degree must be .*, got -1"),
    "gamma-zero": ({"gamma": 0}, ValueError, "gamma must be 'scale', 'auto' or a number above 0, got 0"),
    "gamma-text": ({"gamma": "wide"}, ValueError, "gamma must be 'scale', .*, got 'wide'"),
}
FAMILIES = {
    "one": (Gradient(), TypeError, r"invariances must be a list of families.*, got Gradient\(\)"),
    "bound": (Gradient().bind(X), TypeError, "invariances must be a list of families .*, got Gradient"),
    "none": (None, TypeError, "invariances must be a list of families of functionals, got None"),
    "number": (3, TypeError, "invariances must be a list of families of functionals, got 3"),
    "class": ([Gradient], TypeError, "invariances must hold Functional or bound ones, got <class"),
    "text": (["gradient"], TypeError, "invariances must hold Functional or bound ones, got 'gradient'"),
    "oracle": ([SHIFTS], TypeError, "invariances must hold Functional or bound ones, got Shifts"),
    "array": (X[:2], TypeError, "invariances must hold Functional or bound ones, got array"),
    "narrow": (
        [Gradient(), LocalAverage(1.0).bind(OTHERS)],
        ValueError,
        "invariances hold a family bound to rows of 3 features; X has 4",
    ),
    "width-negative": ([LocalAverage(-0.5)], ValueError, "width must be a number above 0, got -0.5"),
    "width-zero": ([LocalAverage(0)], ValueError, "width must be a number above 0, got 0"),
    "width-text": ([LocalAverage("1")], TypeError, "width must be a number above 0, got '1'"),
    "nodes": ([LocalAverage(1.0, 0)], ValueError, "n_nodes must be an integer of at least 1, got 0"),
    "graph-width": ([GraphLaplacian(2, 0.0)], ValueError, "width must be a number above 0, got 0.0"),
    "graph-many": (
        [GraphLaplacian(12)],
        ValueError,
        "n_neighbors must be an integer from 1 to 11, .*, got 12",
    ),
    "feature": (
        [PartialDerivative([4])],
        ValueError,
        "features must hold numbers of features, from 0 to 3, got 4",
    ),
    "features": ([PartialDerivative([])], ValueError, "features must name a feature"),
    "second": ([SecondDerivative(0, 9)], ValueError, "j must hold integers from 0 to 3, got"),
    "rows": ([Evaluation([12])], ValueError, r"rows must hold integers from 0 to 11, got \[12\]"),
    "pairs": ([Difference([[0, 12]])], ValueError, "pairs must hold integers from 0 to 11"),
    "pairs-flat": ([Difference([0, 1])], ValueError, r"pairs must have shape \(m, 2\), got \(2,\)"),
    "directions": ([DirectionalDerivative([1.0, 2.0])], ValueError, "directions"),
    "factor": ([np.nan * Gradient()], ValueError, "factor must be a finite number, got nan"),
    "factor-text": ([Scaled(Gradient(), "2")], TypeError, "factor must be a finite number, got '2'"),
    "scaled-inner": ([2.0 * LocalAverage(-1)], ValueError, "width must be a number above 0, got -1"),
    "sizes": (
        [Gradient() + Evaluation()],
        ValueError,
        "left and right must have the same number of functionals, got 48 of Gradient and 12 of Eval",
    ),
    "shape": (
        [Tangents(Rotations(5, shape=(3, 3)))],
        ValueError,
        "shape .* has 9 values, but the rows have 4",
    ),
    "orbit": (
        [TransformDifference(Shifts(1, shape=(3, 3)))],
        ValueError,
        "shape .* has 9 values, but the rows have 4",
    ),
}
WEIGHTS = {
    "nu-negative": ({"nu": -1}, ValueError, f"nu {NUMBER}, got -1"),
    "nu-one-negative": ({"nu": [1, -0.5]}, ValueError, f"nu {NUMBER}, got -0.5"),
    "nu-nan": ({"nu": np.nan}, ValueError, f"nu {NUMBER}, got nan"),
    "nu-infinite": ({"nu": np.inf}, ValueError, f"nu {NUMBER}, got inf"),
    "nu-text": ({"nu": "1"}, TypeError, f"nu {NUMBER}, got '1'"),
    "nu-none": ({"nu": None}, TypeError, f"nu {NUMBER}, got None"),
    "nu-dict": ({"nu": {1.0: 2, 2.0: 3}}, TypeError, f"nu {NUMBER}, got {{"),
    "nu-long": ({"nu": [1, 2, 3]}, ValueError, "nu must be one value or 2, one for each family, got 3"),
    "nu-empty": ({"nu": []}, ValueError, "nu must be one value or 2, one for each family, got 0"),
    "loss-unknown": (
        {"invariance_loss": "hinge"},
        ValueError,
        "invariance_loss must be one of "
        + re.escape("['squared', 'absolute', 'epsilon_insensitive', 'huber'], got 'hinge'"),
    ),
    "loss-none": ({"invariance_loss": None}, ValueError, "invariance_loss must be one of .*, got None"),
    "loss-in-list": (
        {"invariance_loss": ["squared", "cubic"]},
        ValueError,
        "invariance_loss must be one of .*, got 'cubic'",
    ),
    "loss-short": (
        {"invariance_loss": ["squared"]},
        ValueError,
        "invariance_loss must be one value or 2, one for each family, got 1",
    ),
    "params-unknown": (
        {"invariance_loss_params": {"epsilon": 1.0}},
        ValueError,
        r"invariance_loss_params has \['epsilon'\], which invariance_loss='squared' does not take",
    ),
    "params-value": (
        {"invariance_loss": "huber", "invariance_loss_params": {"width": -1.0}},
        ValueError,
        "width must be a number above 0, got -1.0",
    ),
    "params-type": (
        {"invariance_loss_params": 0.1},
        TypeError,
        "invariance_loss_params must be a dict or a list of them, got 0.1",
    ),
    "params-short": (
        {"invariance_loss_params": [{}]},
        ValueError,
        "invariance_loss_params must be one value or 2, one for each family, got 1",
    ),
}
OF_CLASSIFIER = {
    "loss-unknown": (
        {"loss": "huber"},
        ValueError,
        "loss must be one of "
        + re.escape(
            "['logistic', 'hinge', 'squared_hinge', 'squared', 'epsilon_insensitive'], got 'hub"
        ),
    ),
    "params-unknown": (
        {"loss_params": {"epsilon": 1.0}},
        ValueError,
        r"loss_params has \['epsilon'\], which loss='logistic' does not take",
    ),
    "params-value": (
        {"loss": "epsilon_insensitive", "loss_params": {"epsilon": -1.0}},
        ValueError,
        "epsilon must be a number of at least 0, got -1.0",
    ),
    "params-type": ({"loss_params": 3}, TypeError, "loss_params must be a dict or None, got 3"),
    "weight-unknown": (
        {"class_weight": "even"},
        ValueError,
        "class_weight must be a dict, 'balanced', 'per_class' or None, got 'even'",
    ),
    "weight-number": ({"class_weight": 3}, ValueError, "class_weight must be a dict, .*, got 3"),
    "weight-negative": (
        {"class_weight": {0: -1.0}},
        ValueError,
        r"class_weight must be non-negative, got \{0: -1.0\}",
    ),
    "oracle-loss": (
        {"oracle": SHIFTS},
        ValueError,
        "loss must be 'hinge' with an oracle, .*, got 'logistic'",
    ),
    "oracle-squared": (
        {"oracle": SHIFTS, "loss": "squared_hinge"},
        ValueError,
        "loss must be 'hinge' with an oracle, .*, got 'squared_hinge'",
    ),
    "oracle-shape": (
        {"oracle": Shifts(1, shape=(3, 3)), "loss": "hinge"},
        ValueError,
        "shape .* has 9 values, but the rows have 4",
    ),
    "oracle-endless": (
        {"oracle": FDrop(1), "loss": "hinge"},
        TypeError,
        "RepresenterClassifier needs an oracle with an orbit or a cover; FDrop has none",
    ),
    "unlabeled": ({"unlabeled": [-1, 1]}, TypeError, r"unlabeled must be a label, .*, got \[-1, 1\]"),
}


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize("kind", [RepresenterClassifier, RepresenterRegressor])
@pytest.mark.parametrize("name", SHARED)
def test_parameters(name, kind):
    params, error, message = SHARED[name]
    y = Y if kind is RepresenterClassifier else TARGETS
    check_refused(kind(invariances=[LocalAverage(0.5)]).set_params(**params), error, message, X, y)


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize("name", OF_CLASSIFIER)
def test_parameters_of_the_classifier(name):
    params, error, message = OF_CLASSIFIER[name]
    check_refused(RepresenterClassifier(**GRADIENTS, **params), error, message, X, Y)


@pytest.mark.usefixtures("no_work")
def test_parameters_of_the_regressor():
    for params, error, message in (
        ({"loss": "hinge"}, ValueError, r"loss must be one of \['squared', .*, got 'hinge'"),
        ({"unlabeled": "?"}, TypeError, "unlabeled must be a number or None, got '\\?'"),
        ({"unlabeled": -np.inf}, ValueError, "unlabeled must be finite or NaN, got -inf"),
        (
            {"loss_params": {"width": 1}},
            ValueError,
            r"loss_params has \['width'\], which loss='squared'",
        ),
    ):
        check_refused(RepresenterRegressor(**GRADIENTS, **params), error, message, X, TARGETS)


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize("name", FAMILIES)
def test_families(name):
    families, error, message = FAMILIES[name]
    check_refused(RepresenterClassifier(invariances=families), error, message, X, Y)


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize("name", WEIGHTS)
def test_weights_and_losses_of_families(name):
    params, error, message = WEIGHTS[name]
    families = [Gradient(), LocalAverage(0.5)]
    check_refused(RepresenterClassifier(invariances=families, **params), error, message, X, Y)
    if "or 2" not in message and not isinstance(next(iter(params.values())), list):
        check_refused(RepresenterClassifier(**params), error, message, X, Y)


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize(
    ("kernel", "family", "message"),
    [
        ("laplacian", Gradient(), r"Laplacian\(.*derivatives up to order 0 .* needs order 1"),
        (np.inner, Gradient(), "CallableKernel.*derivatives up to order 0 .* needs order 1"),
        (Matern(nu=1.5), SecondDerivative(0, 1), "Matern.*derivatives up to order 1 .* needs order 2"),
        (Matern(nu=0.5), PartialDerivative([0]), "Matern.*derivatives up to order 0 .* needs order 1"),
        (Matern(), LocalAverage(1.0, 9), "no closed form for Matern.* n_nodes=9 in 4 features"),
    ],
    ids=["laplacian", "callable", "second", "rough", "quadrature"],
)
def test_kernels_without_what_a_family_needs(kernel, family, message):
    check_refused(RepresenterClassifier(kernel, invariances=[family]), ValueError, message, X, Y)


def spoilt(value):
    rows = X.copy()
    rows[4, 2] = value
    return rows


def weights(value):
    array = np.ones(12)
    array[3] = value
    return array


DATA = {
    "short": ((X, Y[:-1]), {}, ValueError, "inconsistent numbers of samples"),
    "real": ((X, TARGETS), {}, ValueError, "Unknown label type"),
    "y-nan": ((X, weights(np.nan)), {}, ValueError, "y contains NaN"),
    "one-class": ((X, np.ones(12)), {}, ValueError, "y must hold at least two classes, got one class"),
    "only-minus-one": ((X, -np.ones(12)), {}, ValueError, "y must hold a labelled row, got none"),
    "weight-nan": ((X, Y), {"sample_weight": weights(np.nan)}, ValueError, "sample_weight.*NaN"),
    "weight-negative": ((X, Y), {"sample_weight": weights(-1)}, ValueError, "Negative .*sample_weight"),
    "weight-short": ((X, Y), {"sample_weight": np.ones(11)}, ValueError, "sample_weight.shape"),
    "weight-unlabelled": (
        (X, Y),
        {"sample_weight": (Y == -1).astype(float)},
        ValueError,
        "sample_weight must leave a labelled sample with a weight above 0",
    ),
}


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize("name", DATA)
def test_rows_and_labels(name):
    data, fit, error, message = DATA[name]
    check_refused(RepresenterClassifier(**GRADIENTS), error, message, *data, **fit)


@pytest.mark.usefixtures("no_work")
def test_labels_that_are_all_missing():
    nothing = "y must hold a labelled row, got none"
    y = np.full(12, "?")
    check_refused(RepresenterClassifier(unlabeled="?", **GRADIENTS), ValueError, nothing, X, y)
    y[3] = "a"
    one = "y must hold at least two classes, got one class: a"
    check_refused(RepresenterClassifier(unlabeled="?", **GRADIENTS), ValueError, one, X, y)
    alone = np.where(Y == 0, 0, -1)
    one = "y must hold at least two classes, got one class: .*0"
    check_refused(RepresenterClassifier(unlabeled=-1), ValueError, one, X, alone)
    check_refused(LapSVC(n_neighbors=2, unlabeled=-1), ValueError, one, X, alone)
    for estimator in (RepresenterClassifier(), LapSVC(n_neighbors=2)):
        for mark in (alone, np.where(Y == 0, 2, -1), np.where(Y == 0, "a", alone.astype(object))):
            label = repr(mark[Y == 0].tolist()[0])
            message = f"two classes, got one, {label}, beside -1 for no label; .* unlabeled=None"
            check_refused(clone(estimator), ValueError, message, X, mark)
        check_refused(clone(estimator), ValueError, nothing, X, np.full(12, -1))
        written = np.where(Y == 0, "a", np.where(np.arange(12) % 2, "-1", "b"))
        message = "strings that holds '-1': .* dtype=object"
        check_refused(clone(estimator), ValueError, message, X, written)
    message = "y must hold a target, got none"
    check_refused(RepresenterRegressor(unlabeled=2.0), ValueError, message, X, np.full(12, 2.0))


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"n_neighbors": 12}, ValueError, "n_neighbors must be an integer from 1 to 11, .* got 12"),
        ({"n_neighbors": 2.0}, ValueError, "n_neighbors must be an integer from 1 to 11, .* got 2.0"),
        ({"width": -1.0}, ValueError, "width must be a number above 0, got -1.0"),
        ({"nu": -1.0}, ValueError, f"nu {NUMBER}, got -1.0"),
        ({"nu": [1.0, 2.0]}, ValueError, "nu must be one value or 1, one for each family, got 2"),
        ({"loss": "huber"}, ValueError, "loss must be one of .*, got 'huber'"),
    ],
    ids=["many", "real", "width", "nu", "list", "loss"],
)
def test_parameters_of_lap_svc(params, error, message):
    check_refused(LapSVC(**params), error, message, X, Y)


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"solver": "pegasos"}, "Pegasos does not take a free part"),
        ({"solver": "frank_wolfe"}, "FrankWolfe does not take a free part"),
        ({"solver": "bmrm"}, "BMRM does not take a free part"),
        ({"solver": "svmstruct"}, "SVMStruct does not take a free part"),
        ({"solver": FrankWolfe()}, "FrankWolfe does not take a free part"),
        (
            {"solver": "dual-cd"},
            r"Representer\(method='dual-cd'\) takes a free constant only with losses",
        ),
        (
            {"oracle": SHIFTS, "loss": "hinge"},
            r"Representer\(method='dual-cd'\) takes no free constant beside a WorstCase",
        ),
    ],
    ids=["pegasos", "frank_wolfe", "bmrm", "svmstruct", "instance", "dual-cd", "oracle"],
)
def test_solvers_that_take_no_bias(params, message):
    check_refused(RepresenterClassifier(bias=True, **GRADIENTS, **params), ValueError, message, X, Y)


@pytest.mark.usefixtures("no_work")
def test_solvers_that_take_not_these_losses():
    model = RepresenterClassifier(loss="hinge", bias=True, solver="dual-cd", **GRADIENTS)
    message = r"Representer\(method='dual-cd'\) takes a free constant of one output, .*n_outputs=3"
    check_refused(model, ValueError, message, X, THREE)
    for solver in ("newton-cg", "dual-interior", "lbfgs", "cvxpy"):
        model = RepresenterClassifier(oracle=SHIFTS, loss="hinge", solver=solver, **GRADIENTS)
        message = rf"Representer\(method='{solver}'\) needs terms that are sums of losses of functionals"
        check_refused(model, ValueError, message, X, Y)


def test_a_refused_fit_keeps_the_model_before_it():
    model = RepresenterClassifier(Polynomial(2), bias=True, **GRADIENTS).fit(X, Y)
    before, scores = learnt(model), model.decision_function(X)
    for params, data in (
        ({}, (X[:, :2], np.ones(12))),
        ({"nu": -1}, (X[:, :2], Y)),
        ({"solver": "bmrm"}, (X[:, :2], Y)),
        ({"kernel": "laplacian"}, (X[:, :2], Y)),
        ({"invariances": [Gradient().bind(OTHERS)]}, (X[:, :2], Y)),
    ):
        old = model.get_params(deep=False)
        with pytest.raises(ValueError, match="y must|nu must|free|derivatives|bound to rows"):
            model.set_params(**params).fit(*data)
        model.set_params(**{name: old[name] for name in params})
        assert learnt(model) == before
    assert np.array_equal(model.decision_function(X), scores)


def test_targets_that_are_nan_are_refused_unless_they_stand_for_none():
    targets = np.where(np.arange(12) % 3 == 0, np.nan, X[:, 0])
    message = "y contains NaN. For rows without a target pass unlabeled=np.nan"
    for marker in (None, -1.0):
        check_refused(RepresenterRegressor(unlabeled=marker), ValueError, message, X, targets)
    model = RepresenterRegressor(unlabeled=np.nan)
    check_refused(clone(model), ValueError, "y must hold a target, got none", X, np.full(12, np.nan))
    check_refused(
        clone(model), ValueError, "y contains infinity", X, np.where(targets > 0, np.inf, targets)
    )
    check_refused(clone(model), ValueError, "inconsistent numbers of samples", X, targets[:5])
    check_refused(clone(model), ValueError, "y", X, None)
