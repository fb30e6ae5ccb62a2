"""Warm starts: faster fits, always with valid bounds."""

import numpy as np
import pytest
from sklearn.base import clone

from structinv import InvariantLinearSVC, InvariantSVC, RepresenterClassifier
from structinv.functionals import Gradient
from structinv.oracles import Box, FAdd, FDrop, FiniteOracle, FScale, Shifts
from structinv.solvers import Status

from ..covering import each_once, pairs, slow_unless
from ..problems import counts

SOLVERS = ["frank_wolfe", "svmstruct", "bmrm", "pegasos"]
TOLERANCE = {"pegasos": 3e-2}


def linear(oracle, solver="frank_wolfe", **parameters):
    tol = TOLERANCE.get(solver, 1e-3)
    shared = {"C": 0.1, "tol": tol, "random_state": 0, "max_seconds": 60, "warm_start": True}
    return InvariantLinearSVC(oracle, solver=solver, **{**shared, **parameters})


def check_sound(model, X, y):
    """Both runs bound the same optimum."""
    warm, cold = model.solution_, clone(model).fit(X, y).solution_
    assert warm.status is cold.status is Status.CONVERGED
    assert warm.dual <= cold.primal * (1 + 1e-9)
    assert cold.dual <= warm.primal * (1 + 1e-9)
    return warm, cold


class Reversal(FiniteOracle):
    def orbit(self, X):
        return np.stack([X, X[:, ::-1]], axis=1)


CHANGES = [
    (FDrop(1), {}),
    (FDrop(1), {"C": 0.2}),
    (FDrop(1), {"class_weight": {"a": 2.0}}),
    (FDrop(1), {"oracle": FDrop(2)}),
    (FDrop(2), {"oracle": FDrop(1)}),
    (FDrop(2), {"oracle": FDrop(2).discounted(0.5)}),
    (FDrop(3), {"oracle": FDrop(1)}),
    (Box(0.2), {"oracle": Box(0.1)}),
    (Box(0.2), {"oracle": FDrop(1)}),
    (Shifts(1, shape=(3, 4)), {"C": 0.15}),
    (Shifts(1, shape=(3, 4)), {"oracle": Shifts(2, shape=(3, 4))}),
    (Shifts(2, shape=(3, 4)), {"oracle": Shifts(1, shape=(3, 4))}),
    (Shifts(1, shape=(3, 4)), {"oracle": Box(0.1)}),
]


def in_turn(at, solver, n_classes):
    """One solver in turns for each change, with two classes or three."""
    return (at + SOLVERS.index(solver)) % 4 == 0 and (at // 4 + at) % 2 == n_classes - 2


@pytest.mark.parametrize(
    ("oracle", "change", "solver", "n_classes"),
    slow_unless(
        lambda oracle, change, *turn: in_turn(CHANGES.index((oracle, change)), *turn),
        [(*change, solver, n) for change in CHANGES for solver in SOLVERS for n in (2, 3)],
    ),
    ids=str,
)
def test_linear_warm_starts_have_valid_bounds(solver, oracle, change, n_classes):
    X, y = counts(n_classes)
    model = linear(oracle, solver).fit(X, y)
    model.set_params(**change).fit(X, y)
    warm, cold = check_sound(model, X, y)
    if not change and solver == "frank_wolfe":
        assert warm.iterations == 0 < cold.iterations


@pytest.mark.parametrize(
    "sources", [("frank_wolfe", "svmstruct"), ("svmstruct", "bmrm"), ("bmrm", "frank_wolfe")], ids=str
)
def test_another_solver_continues(sources):
    X, y = counts()
    model = linear(FScale(2), sources[0]).fit(X, y)
    model.set_params(solver=sources[1]).fit(X, y)
    check_sound(model, X, y)


def other_values(X):
    other = X.copy()
    other[0, 0] += 1.0
    return other


# Fits that differ from the first one in their rows, labels or losses.
OTHERS = {
    "rows": lambda X, y: (X[::-1], y, {}),
    "one value": lambda X, y: (other_values(X), y, {}),
    "labels": lambda X, y: (X, y[::-1], {}),
    "names of labels": lambda X, y: (X, np.char.upper(y), {}),
    "fewer rows": lambda X, y: (X[:-3], y[:-3], {}),
    "fewer features": lambda X, y: (X[:, :-1], y, {}),
    "no intercept": lambda X, y: (X, y, {"fit_intercept": False}),
    "costs": lambda X, y: (X, y, {"cost": [[0, 2], [1, 0]]}),
    "slack": lambda X, y: (X, y, {"rescaling": "slack"}),
    "another loss": lambda X, y: (X, y, {"loss": "squared_hinge"}),
    "another smooth loss": lambda X, y: (X, y, {"loss": "logistic", "oracle": None}),
    "added words": lambda X, y: (X, y, {"oracle": FAdd(1)}),
}


@pytest.mark.parametrize(("name", "solver"), each_once(list(OTHERS), SOLVERS))
def test_fits_of_other_problems_have_valid_bounds(name, solver):
    X, y = counts()
    model = linear(FDrop(1), solver).fit(X, y)
    rows, labels, change = OTHERS[name](X, y)
    check_sound(model.set_params(**change).fit(rows, labels), rows, labels)


def test_a_fit_without_warm_start_is_no_start():
    X, y = counts()
    model = linear(FDrop(1), warm_start=False).fit(X, y)
    assert model.fit(X, y).n_iter_ > 0
    assert model.set_params(warm_start=True).fit(X, y).n_iter_ > 0
    assert model.fit(X, y).n_iter_ == 0
    assert model.set_params(warm_start=False).fit(X, y).n_iter_ > 0


class Moody(FiniteOracle):
    """Answers otherwise than before without a parameter that says so."""

    factor = 3.0

    def orbit(self, X):
        return np.stack([X, Moody.factor * X], axis=1)


@pytest.mark.parametrize("solver", ["svmstruct", "frank_wolfe"])
def test_a_hidden_change_of_the_oracle_leads_to_no_wrong_bound(monkeypatch, solver):
    X, y = counts()
    monkeypatch.setattr(Moody, "factor", -1.0)
    model = linear(Moody(), solver, tol=1e-5).fit(X, y)
    monkeypatch.setattr(Moody, "factor", 1.0)
    model.fit(X, y)
    check_sound(model, X, y)


KERNEL_CHANGES = [
    (None, {}),
    (Shifts(1, shape=(3, 4)), {"C": 0.15}),
    (Shifts(1, shape=(3, 4)), {"gamma": 0.02}),
    (Shifts(1, shape=(3, 4)), {"oracle": Shifts(2, shape=(3, 4))}),
    (Shifts(2, shape=(3, 4)), {"oracle": Shifts(1, shape=(3, 4))}),
    (None, {"class_weight": {"a": 2.0}}),
]


@pytest.mark.parametrize(
    ("change", "solver", "cache_mb"), each_once(KERNEL_CHANGES, SOLVERS, [10, 0.02]), ids=str
)
def test_kernel_warm_starts_have_valid_bounds(solver, change, cache_mb):
    oracle, change = change
    X, y = counts(2 if solver == "pegasos" else 3, n=45)
    tol = TOLERANCE.get(solver, 1e-3)
    model = InvariantSVC(oracle, gamma=0.03, C=0.1, solver=solver, tol=tol, cache_mb=cache_mb)
    model.set_params(warm_start=True, random_state=0).fit(X, y)
    model.set_params(**change).fit(X, y)
    warm, cold = check_sound(model, X, y)
    if not change and solver == "frank_wolfe" and cache_mb == 10:
        assert warm.iterations == 0 < cold.iterations


@pytest.mark.parametrize(
    ("solver", "change", "loss"),
    pairs(
        ["newton-cg", "dual-cd", "frank_wolfe"],
        [{}, {"C": 1.2}, {"nu": 0.13}, {"class_weight": {"a": 2.0}}],
        ["hinge", "logistic"],
    ),
    ids=str,
)
def test_representer_fits_continue(solver, change, loss):
    X, y = counts()
    model = RepresenterClassifier(gamma=0.03, invariances=[Gradient()], nu=0.1, solver=solver, loss=loss)
    model.set_params(warm_start=True, random_state=0).fit(X, y).set_params(**change).fit(X, y)
    warm, cold = check_sound(model, X, y)
    assert change or warm.iterations < cold.iterations


def test_images_of_another_shape_are_other_images():
    rng = np.random.default_rng(0)
    X, y = rng.random((40, 36)), np.arange(40) % 2
    model = InvariantSVC(Shifts(1), C=0.3, warm_start=True, solver="bmrm", random_state=0)
    model.fit(X.reshape(40, 4, 9), y).fit(X.reshape(40, 9, 4), y)
    cold = clone(model).fit(X.reshape(40, 9, 4), y)
    assert model.solution_.dual <= cold.solution_.primal


@pytest.mark.parametrize("n_classes", [2, 3])
def test_planes_of_dropped_words_start_lists_of_dense_rows(n_classes):
    rng = np.random.default_rng(0)
    X, y = rng.poisson(1.0, (30, 6)).astype(float), rng.integers(0, n_classes, 30)
    model = linear(FDrop(1)).fit(X, y)
    check_sound(model.set_params(oracle=Reversal()).fit(X, y), X, y)
