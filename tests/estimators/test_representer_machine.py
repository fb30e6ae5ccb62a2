"""Machines told of functionals refuse what is wrong by name, before any work, and stay as they were."""

import numpy as np
import pytest
from sklearn.base import clone

from structinv import LapSVC, RepresenterClassifier, RepresenterRegressor
from structinv.functionals import Gradient, GraphLaplacian, LocalAverage, SecondDerivative, Tangents
from structinv.functionals.fast_products import JetGram
from structinv.functionals.representers import Representers
from structinv.kernels import Matern
from structinv.losses import EpsilonInsensitive, Huber
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


def learned(model):
    return {name: value for name, value in vars(model).items() if name.endswith("_")}


def check_refused(model, error, message, *data, **fit):
    """`fit` raises what it should; whether it had a model before or none, it is left so."""
    with pytest.raises(error, match=message):
        model.fit(*data, **fit)
    assert learned(model) == {}
    marks = {"alpha_": object(), "n_features_in_": 99, "classes_": object()}
    vars(model).update(marks)
    with pytest.raises(error, match=message):
        model.fit(*data, **fit)
    assert learned(model) == marks


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize("solver", ["newton-cg", "dual-cd", "cvxpy", "bmrm"])
def test_a_fit_that_is_not_refused_begins_to_work(solver):
    with pytest.raises(pytest.fail.Exception, match="work has begun"):
        RepresenterClassifier(solver=solver, loss="hinge", **GRADIENTS).fit(X, Y)


def classifier(**params):
    return RepresenterClassifier(**{"invariances": [Gradient()], **params})


def of_two(**params):
    """With two families, for what there is one of each."""
    return classifier(invariances=[Gradient(), LocalAverage(0.5)], **params)


def family(functional, kernel="rbf"):
    return RepresenterClassifier(kernel, invariances=[functional])


def shifts_of(**params):
    return classifier(**{"oracle": SHIFTS, "loss": "hinge", **params})


SHARED = [
    ({"loss": ["squared"]}, ValueError, "loss"),
    ({"solver": "newton"}, ValueError, "solver .*'newton'"),
    ({"solver": Representer("newton")}, ValueError, "method .*'newton'"),
    ({"kernel": "gauss"}, ValueError, "kernel"),
    ({"kernel": "precomputed"}, ValueError, "kernel .*'precomputed'"),
]
REFUSED = [
    (classifier(invariances=Gradient()), TypeError, "invariances must be a list"),
    (classifier(invariances=Gradient().bind(X)), TypeError, "invariances must be a list"),
    (classifier(invariances=None), TypeError, "invariances must be a list"),
    (family("gradient"), TypeError, "invariances must contain"),
    (family(SHIFTS), TypeError, "invariances must contain .*Shifts"),
    (classifier(invariances=X[:2]), TypeError, "invariances must contain"),
    (family(LocalAverage(1.0).bind(OTHERS)), ValueError, "features of X, got one bound to 3 features"),
    (family(GraphLaplacian(12)), ValueError, "n_neighbors must be at least 1 and at most 11"),
    (family(Tangents(Rotations(5, shape=(3, 3)))), ValueError, "shape .* 9 values"),
    (family(Gradient(), "laplacian"), ValueError, "requires .* order 1 .*Laplacian.*order 0"),
    (family(SecondDerivative(0, 1), Matern(nu=1.5)), ValueError, "requires .* order 2 .*order 1"),
    (family(LocalAverage(1.0, 9), Matern()), ValueError, "no closed form for Matern.* n_nodes=9"),
    (of_two(nu=[1, -0.5]), ValueError, "nu .* got -0.5"),
    (of_two(nu=[1, 2, 3]), ValueError, "nu must be one value or 2"),
    (of_two(invariance_loss="hinge"), ValueError, "invariance_loss"),
    (of_two(invariance_loss=["squared", "cubic"]), ValueError, "invariance_loss .*'cubic'"),
    (of_two(invariance_loss=["squared"]), ValueError, "invariance_loss must be one value or 2"),
    (of_two(invariance_loss=Huber(-1.0)), ValueError, "width"),
    (classifier(loss="huber"), ValueError, "loss"),
    (classifier(loss=EpsilonInsensitive(-1.0)), ValueError, "epsilon"),
    (classifier(class_weight="even"), ValueError, "class_weight"),
    (classifier(unlabeled=[-1, 1]), TypeError, "unlabeled"),
    (shifts_of(loss="logistic"), ValueError, "loss must be 'hinge' with an oracle"),
    (shifts_of(oracle=Shifts(1, shape=(3, 3))), ValueError, "shape .* 9 values"),
    (shifts_of(oracle=FDrop(1)), TypeError, "requires an oracle with an orbit .*, got FDrop"),
    *((shifts_of(solver=s), ValueError, f"'{s}'.* requires terms that are sums of losses")
      for s in ("newton-cg", "cvxpy")),
    (shifts_of(bias=True), ValueError, "does not support an unpenalized constant with a WorstCase"),
    (classifier(bias=True, solver="dual-cd"), ValueError, "unpenalized constant only for losses"),
    *((classifier(bias=True, solver=s), ValueError, "does not support functions with an unpenal")
      for s in ("pegasos", "frank_wolfe", "bmrm", "svmstruct", FrankWolfe())),
    (LapSVC(n_neighbors=12), ValueError, "n_neighbors"),
    (LapSVC(nu=[1.0, 2.0]), ValueError, "nu must be one value or 1"),
]  # fmt: skip


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize("kind", [RepresenterClassifier, RepresenterRegressor])
@pytest.mark.parametrize(("params", "error", "message"), SHARED, ids=str)
def test_parameters(params, error, message, kind):
    y = Y if kind is RepresenterClassifier else TARGETS
    check_refused(kind(invariances=[LocalAverage(0.5)]).set_params(**params), error, message, X, y)


@pytest.mark.usefixtures("no_work")
def test_parameters_and_families_of_classifiers():
    for model, error, message in REFUSED:
        check_refused(clone(model), error, message, X, Y)


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"loss": "hinge"}, ValueError, "loss"),
        ({"unlabeled": "?"}, TypeError, "unlabeled"),
        ({"unlabeled": -np.inf}, ValueError, "unlabeled"),
    ],
)
def test_parameters_of_the_regressor(params, error, message):
    check_refused(RepresenterRegressor(**GRADIENTS, **params), error, message, X, TARGETS)


DATA = {
    "real": ((X, TARGETS), {}, ValueError, "Unknown label type"),
    "only-minus-one": ((X, -np.ones(12)), {}, ValueError, "one label, got only unlabeled rows"),
    "weight-unlabeled": ((X, Y), {"sample_weight": 1.0 * (Y == -1)}, ValueError, "one labeled sample"),
}


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize("name", DATA)
def test_rows_and_labels(name):
    data, fit, error, message = DATA[name]
    check_refused(RepresenterClassifier(**GRADIENTS), error, message, *data, **fit)


@pytest.mark.usefixtures("no_work")
def test_labels_that_are_all_missing():
    nothing = "y must contain at least one label, got only unlabeled rows"
    y = np.full(12, "?")
    check_refused(RepresenterClassifier(unlabeled="?", **GRADIENTS), ValueError, nothing, X, y)
    y[3] = "a"
    one = "y must contain at least two classes, got one class: a"
    check_refused(RepresenterClassifier(unlabeled="?", **GRADIENTS), ValueError, one, X, y)
    alone = np.where(Y == 0, 0, -1)
    one = "y must contain at least two classes, got one class: .*0"
    check_refused(RepresenterClassifier(unlabeled=-1), ValueError, one, X, alone)
    check_refused(LapSVC(n_neighbors=2, unlabeled=-1), ValueError, one, X, alone)
    for estimator in (RepresenterClassifier(), LapSVC(n_neighbors=2)):
        for mark in (alone, np.where(Y == 0, 2, -1), np.where(Y == 0, "a", alone.astype(object))):
            label = repr(mark[Y == 0].tolist()[0])
            message = (
                f"two classes, got only {label} and -1, which marks unlabeled rows; .* unlabeled=None"
            )
            check_refused(clone(estimator), ValueError, message, X, mark)
        check_refused(clone(estimator), ValueError, nothing, X, np.full(12, -1))
        written = np.where(Y == 0, "a", np.where(np.arange(12) % 2, "-1", "b"))
        message = "strings with '-1' if unlabeled='auto': .*dtype=object"
        check_refused(clone(estimator), ValueError, message, X, written)
    message = "y must contain at least one target, got only unlabeled rows"
    check_refused(RepresenterRegressor(unlabeled=2.0), ValueError, message, X, np.full(12, 2.0))


@pytest.mark.usefixtures("no_work")
def test_coordinates_take_a_free_constant_of_one_output():
    model = classifier(loss="hinge", bias=True, solver="dual-cd")
    check_refused(model, ValueError, "unpenalized constant of one output only, .*n_outputs=3", X, THREE)


def test_nan_targets_raise_unless_nan_means_unlabeled():
    targets = np.where(np.arange(12) % 3 == 0, np.nan, X[:, 0])
    message = "y contains NaN. Pass unlabeled=np.nan if samples without a target"
    for marker in (None, -1.0):
        check_refused(RepresenterRegressor(unlabeled=marker), ValueError, message, X, targets)
    model = RepresenterRegressor(unlabeled=np.nan)
    message = "y must contain at least one target, got only unlabeled rows"
    check_refused(clone(model), ValueError, message, X, np.full(12, np.nan))
    infinite = np.where(targets > 0, np.inf, targets)
    check_refused(clone(model), ValueError, "y contains infinity", X, infinite)
    check_refused(clone(model), ValueError, "inconsistent numbers of samples", X, targets[:5])
    check_refused(clone(model), ValueError, "y", X, None)
