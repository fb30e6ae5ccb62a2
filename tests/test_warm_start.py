"""Warm starts: faster fits, always with valid bounds."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from structinv import InvariantLinearSVC, InvariantSVC, RepresenterClassifier, RepresenterRegressor
from structinv.estimators.earlier_fit import digest
from structinv.functionals import Gradient
from structinv.oracles import Box, FDrop, FiniteOracle, FScale, Shifts
from structinv.solvers import Status, warm_start
from structinv.spaces import ExplicitSpace
from structinv.terms.planes import PlaneSet

from .covering import each_once, pairs, slow_unless
from .problems import counts

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
    if not change:
        assert warm.iterations == 0 < cold.iterations
    elif change == {"C": 0.15}:
        assert warm.iterations < cold.iterations


@pytest.mark.parametrize(
    "sources", [("frank_wolfe", "svmstruct"), ("svmstruct", "bmrm"), ("bmrm", "frank_wolfe")], ids=str
)
def test_another_solver_continues(sources):
    X, y = counts()
    model = linear(FScale(2), sources[0]).fit(X, y)
    model.set_params(solver=sources[1]).fit(X, y)
    check_sound(model, X, y)


def test_other_rows_or_labels_start_from_zero():
    X, y = counts()
    other = X.copy()
    other[0, 0] += 1.0
    swapped = y.copy()
    swapped[:2] = swapped[1::-1]
    for rows, labels in (
        (other, y),
        (X, swapped),
        (X[:-1], y[:-1]),
        (X[:, :-1], y),
        (X, np.char.upper(y)),
    ):
        model = linear(FDrop(1), tol=1e-5).fit(X, y).fit(rows, labels)
        cold = linear(FDrop(1), tol=1e-5).fit(rows, labels)
        np.testing.assert_array_equal(model.coef_, cold.coef_)
        assert model.n_iter_ == cold.n_iter_
    for change in ({"fit_intercept": False}, {"cost": [[0, 2], [1, 0]]}, {"rescaling": "slack"}):
        model = linear(FDrop(1), tol=1e-5).fit(X, y).set_params(**change).fit(X, y)
        assert model.n_iter_ == clone(model).fit(X, y).n_iter_ > 0


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


def test_a_hidden_change_of_the_oracle_is_detected(monkeypatch):
    X, y = counts()
    monkeypatch.setattr(Moody, "factor", -1.0)
    model = linear(Moody(), "svmstruct", tol=1e-5).fit(X, y)
    monkeypatch.setattr(Moody, "factor", 1.0)
    model.fit(X, y)
    check_sound(model, X, y)


def test_the_same_name_with_other_code_is_another_oracle():
    def oracle(factor):
        class Same(FiniteOracle):
            def orbit(self, X):
                return np.stack([X, X * (2 if factor else 3)], axis=1)

        return Same

    def another():
        class Same(FiniteOracle):
            def orbit(self, X):
                return np.stack([X, X * 5], axis=1)

        Same.__qualname__ = oracle(1).__qualname__
        return Same

    assert digest(oracle(1)()) == digest(oracle(1)())
    assert digest(another()()) != digest(oracle(1)())


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
    if not change:
        assert warm.iterations == 0 < cold.iterations
    elif change == {"C": 0.15}:
        assert warm.iterations < cold.iterations


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


def test_a_solver_without_warm_starts_refuses_by_name():
    X, y = counts()
    model = RepresenterRegressor(solver="cvxpy", warm_start=True)
    with pytest.raises(ValueError, match="warm_start requires a solver that can continue an earlier"):
        model.fit(X, X[:, 0])


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@settings(max_examples=50, deadline=None)
@given(values, values)
def test_digests_are_equal_for_equal_values_only(left, right):
    assert (digest(left) == digest(right)) == (
        repr(left) == repr(right) or _sorted(left) == _sorted(right)
    )


def _sorted(value):
    if isinstance(value, dict):
        return repr(sorted((repr(key), _sorted(each)) for key, each in value.items()))
    return repr([_sorted(each) for each in value]) if isinstance(value, list) else repr(value)


def test_digests_tell_arrays_apart():
    X = np.arange(6.0)
    different = [X, X.reshape(2, 3), X.astype(np.float32), X.astype(int), sp.csr_matrix(X), X[::-1]]
    different += [np.array(["a", "b"]), np.array(["a", "b"], dtype=object), np.array(["ab", ""])]
    assert len({digest(each) for each in different}) == len(different)
    assert digest(X[::-1]) == digest(X[::-1].copy())


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


@pytest.mark.parametrize("summed", [None, np.ones(3)])
def test_the_scale_of_a_start_does_not_depend_on_portions(monkeypatch, summed):
    rng = np.random.default_rng(0)
    blocks = np.arange(3) if summed is None else np.full(3, -1)
    normals, offsets = 3.0 * rng.normal(size=(3, 4)), np.array([0.1, 0.2, 0.3])
    planes = PlaneSet(normals, offsets, blocks, np.array([0.5, 0.2, 0.3]), summed)
    objective = SimpleNamespace(
        space=ExplicitSpace(4, intercept=False), weights=np.ones(3), lower_bounds=np.full(3, -0.1)
    )
    whole = warm_start._shrunk(objective, planes)
    assert np.all(whole.alphas < planes.alphas)
    monkeypatch.setattr(warm_start, "ROWS_AT_ONCE", 1)
    np.testing.assert_allclose(warm_start._shrunk(objective, planes).alphas, whole.alphas, rtol=1e-12)
