"""Machines told of functionals against cvxpy, scikit-learn, closed forms, and their own promises."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.base import clone

from structinv import InvariantSVC, LapSVC, RepresenterClassifier, RepresenterRegressor
from structinv.functionals import Evaluation, Gradient, GraphLaplacian, LocalAverage, Tangents
from structinv.functionals.representers import Representers
from structinv.kernels import Gaussian
from structinv.losses import Huber
from structinv.oracles import Rotations, Shifts

from ..problems import strokes
from .cases import converged, data, gram
from .cases import representer_optimum as optimum

GAMMA = 0.4
KERNEL = Gaussian(np.sqrt(0.5 / GAMMA))
LOSSES = ["logistic", "hinge", "squared_hinge", "squared", "epsilon_insensitive"]
INVARIANCE_LOSSES = ["squared", "absolute", "epsilon_insensitive", "huber"]


# Losses, as expressions of cvxpy apart from the package.


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    ("loss", "invariance_loss"),
    list(zip(LOSSES, [*INVARIANCE_LOSSES, "squared"], strict=True)),
)
def test_the_value_is_cvxpys(loss, invariance_loss, bias):
    X, y = data(14, n_unlabeled=4)
    labeled, families = np.flatnonzero(y >= 0), [Gradient(), LocalAverage(0.7)]
    losses, nu = [invariance_loss, "squared"], [0.3, 2.0]
    signs = 2.0 * y[labeled] - 1.0
    value, f = optimum(*gram(KERNEL, X, labeled, families), signs, loss, losses, 0.8, nu, bias)
    model = RepresenterClassifier(
        KERNEL, invariances=families, loss=loss, invariance_loss=losses, C=0.8, nu=nu, bias=bias,
        tol=1e-9, random_state=0,
    )  # fmt: skip
    converged(model.fit(X, y))
    assert model.solution_.primal == pytest.approx(value, rel=1e-6)
    assert model.solution_.dual <= value * (1 + 1e-8)
    # No constant but that of the value: a hinge may leave an interval of them.
    shift = np.mean(f - model.decision_function(X[labeled])) if bias else 0.0
    np.testing.assert_allclose(model.decision_function(X[labeled]) + shift, f, atol=1e-3)


@pytest.mark.parametrize("bias", [False, True])
def test_scores_are_those_of_the_representers(bias):
    X, y = data(n_classes=3)
    Z, _ = data(9, seed=3)
    families = [Gradient(), LocalAverage(0.5)]
    model = RepresenterClassifier(KERNEL, invariances=families, nu=0.2, bias=bias).fit(X, y)
    bound = [Evaluation(np.flatnonzero(y >= 0)).bind(X), *(family.bind(X) for family in families)]
    columns = np.hstack([each.representers(KERNEL, Z) for each in bound])
    assert model.alpha_.shape == (3, columns.shape[1])
    expected = columns @ model.alpha_.T + model.intercept_
    np.testing.assert_allclose(model.decision_function(Z), expected, atol=1e-12)
    assert np.array_equal(model.predict(Z), np.argmax(expected, axis=1))
    assert np.any(model.intercept_) == bias
    assert model.intercept_.shape == (3,)
    assert model.support_vectors_.shape == (0, 2)
    assert model.dual_coef_.shape == (3, 0)
    assert model.n_iter_ == model.solution_.iterations >= 1
    assert model.n_features_in_ == 2


def test_lap_svc_is_the_classifier_with_a_graph():
    X, y = data(30, n_classes=3, n_unlabeled=12)
    model = LapSVC(gamma=GAMMA, n_neighbors=4, width=1.1, nu=0.4, random_state=0).fit(X, y)
    general = RepresenterClassifier(
        gamma=GAMMA, invariances=[GraphLaplacian(4, 1.1)], loss="hinge", nu=0.4, random_state=0
    ).fit(X, y)
    assert np.array_equal(model.decision_function(X), general.decision_function(X))
    assert "invariances" not in model.get_params()
    assert not hasattr(model, "predict_proba")
    chances = model.set_params(loss="logistic").fit(X, y).predict_proba(X)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0, atol=1e-12)


SHAPE = (3, 3)
SHIFTS = Shifts(1, shape=SHAPE, fill="wrap")
TURNS = Tangents(Rotations(degrees=[-20, 20], shape=SHAPE))
# A weight of 2 for tangents by the angle in radians.
NU = 2.0 * (180 / np.pi) ** 2


def test_worst_changes_and_tangents_may_be_mixed():
    X, y = strokes()
    y = np.where(np.arange(14) < 10, y, "")
    model = RepresenterClassifier(
        oracle=SHIFTS, loss="hinge", invariances=[TURNS], gamma=0.2, C=0.5, nu=NU, unlabeled="",
        tol=1e-6, random_state=0,
    ).fit(X, y)  # fmt: skip
    converged(model)
    assert len(model.support_vectors_) > 0
    assert np.any(model.alpha_ != 0)
    loose = converged(clone(model).set_params(nu=0).fit(X, y))
    theirs = InvariantSVC(SHIFTS, kernel=loose.kernel_, C=0.5, tol=1e-7, random_state=0)
    theirs.fit(X[:10], y[:10])
    assert loose.solution_.primal == pytest.approx(theirs.solution_.primal, rel=2e-6)
    np.testing.assert_allclose(loose.decision_function(X), theirs.decision_function(X), atol=2e-3)
    # Along the turns it is flatter, and the objective is what it says.
    slopes = [slopes_along(each, X) for each in (model, loose)]
    assert np.sum(slopes[0] ** 2) < 0.5 * np.sum(slopes[1] ** 2)
    signs = np.where(y == "bar", 1.0, -1.0)[:10]
    worst = [
        np.min(s * model.decision_function(z)) for s, z in zip(signs, SHIFTS.orbit(X), strict=False)
    ]
    losses = 0.5 * np.sum(np.maximum(0.0, 1.0 - np.array(worst))) + NU * np.sum(slopes[0] ** 2)
    f = model.solution_.f
    assert model.solution_.primal == pytest.approx(0.5 * f.space.dot(f, f) + losses, rel=1e-9)


def slopes_along(model, X, step=1e-5):
    """Derivatives of the decision function along tangents, by differences."""
    tangents = TURNS.oracle.tangents(X)
    moved = [
        (model.decision_function(X + step * v) - model.decision_function(X - step * v)) / (2 * step)
        for v in np.moveaxis(tangents, 1, 0)
    ]
    return np.concatenate(moved)


# -- labels, weights, and other promises -----------------------------------------------------------


def scores_of(X, y, sample_weight=None, **params):
    """Scores at fixed points after a sharp fit with the gradients of all rows."""
    shared = {"invariances": [Gradient()], "nu": 0.2, "tol": 1e-12}
    model = RepresenterClassifier(KERNEL, **{**shared, **params})
    converged(model.fit(X, y, sample_weight))
    return model.decision_function(data(9, seed=3)[0])


LABELS = {
    "two others": ([3, 7, -1], {}, [3, 7]),
    "three others": ([0, 1, 2, -1], {}, [0, 1, 2]),
    "minus one and one": ([-1, 1], {}, [-1, 1]),
    "strings beside a number": (["ham", -1, "spam"], {}, ["ham", "spam"]),
    "no convention": ([-1, 0, 1], {"unlabeled": None}, [-1, 0, 1]),
    "another number": ([-1, 0, 5], {"unlabeled": 5}, [-1, 0]),
    "strings": (["a", "b", "?"], {"unlabeled": "?"}, ["a", "b"]),
    "a mark as a string": (["-1", "a", "b"], {"unlabeled": "-1"}, ["a", "b"]),
    "truth": ([False, True], {}, [False, True]),
}


@pytest.mark.parametrize("name", LABELS)
def test_which_rows_have_no_label(name):
    labels, params, classes = LABELS[name]
    X, _ = data(24)
    # As data frames have strings.
    y = np.array(labels, dtype=object if name == "strings beside a number" else None)[
        np.arange(24) % len(labels)
    ]
    model = RepresenterClassifier(KERNEL, invariances=[Gradient()], nu=0.2, **params).fit(X, y)
    assert model.classes_.tolist() == classes
    labeled = np.isin(y, classes)
    assert model.alpha_.shape == (1 if len(classes) == 2 else len(classes), labeled.sum() + 48)
    assert set(model.predict(X)) <= set(classes)
    # The families act around all rows, the loss is of those with labels.
    known = RepresenterClassifier(KERNEL, invariances=[Gradient().bind(X)], nu=0.2, unlabeled=None)
    known.fit(X[labeled], y[labeled])
    np.testing.assert_allclose(model.decision_function(X), known.decision_function(X), atol=1e-10)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("loss", ["logistic", "squared_hinge", "epsilon_insensitive"])
def test_three_classes_are_each_against_all_others(loss, bias):
    X, y = data(n_classes=3)
    shared = {"loss": loss, "bias": bias, "tol": 1e-9, "unlabeled": -1}
    joint = scores_of(X, y, **shared)
    for label in range(3):
        own = scores_of(X, np.where(y < 0, -1, np.where(y == label, 1, 0)), **shared)
        np.testing.assert_allclose(joint[:, label], own, atol=1e-3)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_probabilities_are_of_the_logistic_loss_alone(n_classes):
    X, y = data(n_classes=n_classes)
    model = RepresenterClassifier(KERNEL, invariances=[Gradient()], nu=0.1).fit(X, y)
    chances, scores = model.predict_proba(X), model.decision_function(X)
    assert chances.shape == (24, n_classes)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0, atol=1e-12)
    if n_classes == 2:
        np.testing.assert_allclose(chances[:, 1], expit(scores), rtol=1e-12)
    else:
        own = expit(scores)
        np.testing.assert_allclose(chances, own / own.sum(axis=1, keepdims=True), rtol=1e-10)
    assert np.array_equal(model.classes_[np.argmax(chances, axis=1)], model.predict(X))
    for loss in LOSSES[1:]:
        assert not hasattr(RepresenterClassifier(loss=loss), "predict_proba")
    with pytest.raises(AttributeError, match="predict_proba"):
        model.set_params(loss="hinge").predict_proba(X)


def test_probabilities_far_from_all_classes_sum_to_one():
    X, y = data(n_classes=3)
    model = RepresenterClassifier("linear", C=1e4, gamma=1.0).fit(X, y)
    chances = model.predict_proba(np.array([[1e6, -1e6], [-1e6, 1e6], [1e6, 1e6], [-1e6, -1e6]]))
    np.testing.assert_allclose(chances.sum(axis=1), 1.0, atol=1e-12)


def test_class_weights_are_sample_weights():
    X, y = data(n_unlabeled=8)
    y[[0, 2, 4]] = -1
    counts = {label: int(np.sum(y == label)) for label in (0, 1)}
    assert counts == {0: 5, 1: 8}
    weighted = scores_of(X, y, np.where(y == 0, 3.0, np.where(y == 1, 0.5, 77.0)))
    by_class = scores_of(X, y, class_weight={0: 3.0, 1: 0.5})
    np.testing.assert_allclose(by_class, weighted, atol=1e-6)
    halves = {label: 13 / (2 * count) for label, count in counts.items()}
    balanced = scores_of(X, y, class_weight="balanced")
    np.testing.assert_allclose(balanced, scores_of(X, y, class_weight=halves), atol=1e-6)
    shares = {label: 1 / count for label, count in counts.items()}
    per_class = scores_of(X, y, class_weight="per_class")
    np.testing.assert_allclose(per_class, scores_of(X, y, class_weight=shares), atol=1e-6)
    assert np.max(np.abs(per_class - balanced)) > 1e-2
    # The balance is one of weighted rows, as in InvariantSVC.
    own = np.random.default_rng(1).integers(0, 3, len(y)).astype(float)
    sums = {label: own[y == label].sum() for label in (0, 1)}
    shares = {label: sum(sums.values()) / (2 * sums[label]) for label in (0, 1)}
    balanced = scores_of(X, y, own, class_weight="balanced")
    np.testing.assert_allclose(balanced, scores_of(X, y, own, class_weight=shares), atol=1e-6)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_single_precision_gives_about_the_same(n_classes):
    X, y = data(n_classes=n_classes)
    Z, _ = data(9, seed=3)
    model = RepresenterClassifier(KERNEL, invariances=[Gradient(), LocalAverage(0.5)], nu=0.2, tol=1e-5)
    double = clone(model).fit(X, y).decision_function(Z)
    single = converged(model.fit(X.astype(np.float32), y))
    for rows in (Z, Z.astype(np.float32)):
        np.testing.assert_allclose(single.decision_function(rows), double, atol=5e-3)
    regressor = RepresenterRegressor(KERNEL, loss="huber", bias=True, tol=1e-5)
    y = np.sin(X[:, 0])
    double = clone(regressor).fit(X, y).predict(Z)
    single = converged(regressor.fit(X.astype(np.float32), y.astype(np.float32)))
    np.testing.assert_allclose(single.predict(Z.astype(np.float32)), double, atol=5e-3)


def test_families_may_have_rows_of_their_own():
    X, y = data()
    others = np.random.default_rng(4).standard_normal((11, 2))
    model = RepresenterClassifier(
        KERNEL, invariances=[Gradient().bind(others), Gradient()], nu=[1.0, 0.0], tol=1e-9
    )
    model.fit(X, y)
    assert model.alpha_.shape == (1, 18 + 22 + 48)
    assert np.all(model.alpha_[0, 40:] == 0)
    labeled = np.flatnonzero(y >= 0)
    bound = [Evaluation().bind(X[labeled]), Gradient().bind(others)]
    representers = Representers(KERNEL, [each.parts(KERNEL) for each in bound])
    signs = 2.0 * y[labeled] - 1.0
    value, _ = optimum(
        representers.gram(), [18, 22], signs, "logistic", ["squared"], 1.0, [1.0], bias=False
    )
    assert model.solution_.primal == pytest.approx(value, rel=1e-6)


def test_one_weight_and_loss_is_that_of_every_family():
    X, y = data()
    model = RepresenterClassifier(KERNEL, invariances=[Gradient(), LocalAverage(0.5)], random_state=0)
    one = {"nu": 0.5, "invariance_loss": Huber(0.01)}
    each = {name: [value, value] for name, value in one.items()}
    found = [clone(model).set_params(**params).fit(X, y).alpha_ for params in (one, each)]
    assert np.array_equal(*found)
    other = {**each, "invariance_loss": [Huber(0.01), Huber(1.0)]}
    assert not np.allclose(clone(model).set_params(**other).fit(X, y).alpha_, found[0])


def test_the_memory_of_invariances_is_counted():
    rows = np.random.default_rng(0).standard_normal((30, 16))
    shifts = Shifts(1, shape=(4, 4))
    plain = InvariantSVC(shifts).estimate_memory(rows)
    flat = InvariantSVC(shifts, invariances=[Gradient()]).estimate_memory(rows)
    assert flat - plain >= 8 * (30 * 16) ** 2
