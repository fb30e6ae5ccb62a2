"""The regressors: scikit-learn's rules, equal optima, and bounds of predictions by brute force."""

from __future__ import annotations

from copy import copy
from functools import cache
from itertools import product

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVR

from structinv import InvariantLinearSVR, InvariantSVR
from structinv.functionals import SecondDerivative
from structinv.oracles import Box, FDrop, Flip, Identity, Rotations
from structinv.solvers import REGISTRY, InteriorPoint
from structinv.spaces import ExplicitSpace
from structinv.structures.classes import Regression
from structinv.terms import Objective, WorstCase
from structinv.utils.exceptions import UninformativeFitWarning

from ..covering import pairs
from ..kernel_problems import over_members
from ..oracles.orbit_cases import ORBIT_CASE
from ..problems import minimum

D = 5
KERNELS = [{"kernel": "rbf"}, {"kernel": "poly", "degree": 2}, {"kernel": "linear"}]


def numbers(n=24, d=D, seed=0, offset=3.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.8)
    return X, X @ rng.standard_normal(d) + 0.2 * rng.standard_normal(n) + offset


def value(model, X, y, epsilon, weights=1.0):
    """The objective without changes, of the model's own weights."""
    off = np.abs(y - X @ model.coef_.ravel() - model.intercept_)
    constant = model.intercept_ - getattr(model, "target_mean_", 0.0)
    half = 0.5 * np.sum(model.coef_**2) + 0.5 * np.sum(constant**2)
    return half + model.C * np.sum(weights * np.maximum(0.0, off - epsilon))


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_without_an_oracle_and_an_intercept_it_is_linear_svr(form):
    X, y = numbers(offset=0.5)
    weights = np.linspace(0.2, 1.0, len(y))
    shared = {"C": 0.7, "epsilon": 0.2, "fit_intercept": False, "random_state": 0}
    model = InvariantLinearSVR(tol=1e-7, **shared).fit(form(X), y, sample_weight=weights)
    theirs = LinearSVR(loss="epsilon_insensitive", dual=True, tol=1e-10, max_iter=10**6, **shared)
    theirs.fit(form(X), y, sample_weight=weights)
    assert model.target_mean_ == 0.0
    assert model.solution_.primal == pytest.approx(value(model, X, y, 0.2, weights), rel=1e-10)
    assert model.solution_.primal == pytest.approx(value(theirs, X, y, 0.2, weights), rel=1e-5)
    np.testing.assert_allclose(model.coef_[0], theirs.coef_, atol=1e-2)


@pytest.mark.parametrize("solver", sorted(set(REGISTRY) - {"pegasos"}))
def test_targets_are_centered_by_their_weighted_mean(solver):
    X, y = numbers(offset=100.0)
    weights = np.linspace(0.2, 1.0, len(y))
    model = InvariantLinearSVR(C=0.7, tol=1e-6, solver=solver, random_state=0)
    model.fit(X, y, sample_weight=weights)
    mean = weights @ y / weights.sum()
    w, b = cp.Variable(D), cp.Variable()
    losses = 0.7 * weights @ cp.pos(cp.abs(X @ w + b - (y - mean)) - 0.1)
    best = minimum(0.5 * cp.sum_squares(w) + 0.5 * cp.square(b) + losses)
    assert model.target_mean_ == pytest.approx(mean)
    assert model.solution_.dual <= best * (1 + 1e-8)
    assert best <= model.solution_.primal * (1 + 1e-8)
    assert model.solution_.primal == pytest.approx(value(model, X, y, 0.1, weights), rel=1e-9)
    assert model.score(X, y, weights) > 0.9


def test_a_kernel_machine_reaches_the_optimum_of_centered_targets():
    X, y = numbers()
    case = ORBIT_CASE["permutations"]
    model = InvariantSVR(case.oracle, gamma=0.2, C=2.0, tol=1e-7, random_state=0).fit(X, y)
    targets = y - y.mean()

    def loss(i, mine):
        return 2.0 * cp.pos(cp.max(cp.abs(mine - targets[i])) - 0.1)

    best, _ = over_members(model.kernel_, case.members(X, y), 1, loss)
    assert model.solution_.primal == pytest.approx(best, rel=1e-6)
    assert model.intercept_.tolist() == [model.target_mean_] == [np.mean(y)]
    assert model.n_support_.tolist() == [len(model.support_)]


def corners(radius, x):
    return x + radius * np.array(list(product([-1.0, 1.0], repeat=len(x))))


def drops(K, x):
    masks = np.array(list(product([0.0, 1.0], repeat=len(x))))
    return x * masks[masks.sum(axis=1) >= len(x) - K]


def listed(name):
    case = ORBIT_CASE[name]
    return lambda x: case.members(x[None], np.zeros(1))[0]


SETS = [
    (Box(0.3), lambda x: corners(0.3, x)),
    (FDrop(2), lambda x: drops(2, x)),
    (ORBIT_CASE["permutations"].oracle, listed("permutations")),
    (ORBIT_CASE["union"].oracle, listed("union")),
    (None, lambda x: x[None]),
]
LISTED = [pair for pair in SETS if pair[0] is None or pair[0].finite]


def assert_bounds_are_brute_force(model, X, members):
    found = model.certify(X)
    values = [model.predict(members(x)) for x in X]
    room = 1e-9 * (1.0 + np.max(np.abs(values)))
    lowest, highest = (np.array([end(each) for each in values]) for end in (np.min, np.max))
    assert np.all(found.lowest <= lowest)
    assert np.all(found.highest >= highest)
    np.testing.assert_allclose(found.lowest, lowest, atol=room)
    np.testing.assert_allclose(found.highest, highest, atol=room)
    assert np.all(found.exact)


def assert_worst_cases_are_brute_force(model, X, y, members):
    moved = model.worst_case(X, y)
    for x, target, z in zip(X, y, moved, strict=True):
        everything = members(x)
        assert np.min(np.abs(everything - z).max(axis=1)) < 1e-12
        worst = np.max(np.abs(model.predict(everything) - target))
        assert abs(model.predict(z[None])[0] - target) == pytest.approx(worst, abs=1e-9)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize(("oracle", "members"), SETS, ids=[str(oracle) for oracle, _ in SETS])
def test_linear_bounds_are_those_of_all_members(oracle, members, intercept):
    X, y = numbers()
    model = InvariantLinearSVR(oracle, fit_intercept=intercept, C=5.0, random_state=0).fit(X, y)
    assert_bounds_are_brute_force(model, X, members)
    assert_worst_cases_are_brute_force(model, X, y, members)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize(("oracle", "members"), LISTED, ids=[str(oracle) for oracle, _ in LISTED])
def test_kernel_bounds_are_those_of_all_members(oracle, members, kernel):
    X, y = numbers()
    model = InvariantSVR(oracle, C=5.0, random_state=0, **kernel).fit(X, y)
    assert_bounds_are_brute_force(model, X, members)
    assert_worst_cases_are_brute_force(model, X, y, members)


def test_sparse_rows_have_the_bounds_of_dense_ones():
    X, y = numbers()
    model = InvariantLinearSVR(FDrop(2), C=5.0, random_state=0).fit(sp.csr_matrix(X), y)
    dense, sparse = model.certify(X), model.certify(sp.csr_matrix(X))
    np.testing.assert_allclose(dense.lowest, sparse.lowest, atol=1e-12)
    np.testing.assert_allclose(dense.highest, sparse.highest, atol=1e-12)
    moved = model.worst_case(sp.csr_matrix(X), y)
    assert sp.issparse(moved)
    np.testing.assert_array_equal(moved.toarray(), model.worst_case(X, y))


@cache
def fitted_in(dtype):
    """A model of this precision, which no test changes."""
    return InvariantLinearSVR(FDrop(2), tol=1.0).fit(np.eye(D, dtype=dtype), np.zeros(D))


@given(
    st.lists(st.floats(-1e3, 1e3, width=32), min_size=2 * D, max_size=2 * D),
    st.floats(-1e6, 1e6, width=32),
    st.sampled_from([np.float32, np.float64]),
)
@settings(max_examples=60, deadline=None)
def test_rounding_never_leaves_the_bounds(entries, constant, dtype):
    """Predictions of all corners, in the precision of the model, lie between the bounds."""
    x, coef = np.array(entries, dtype=dtype).reshape(2, D)
    model = copy(fitted_in(dtype))
    model.coef_, model.intercept_ = coef[None], np.array([constant], dtype=dtype)
    found = model.certify(x[None])
    predicted = model.predict(drops(2, x).astype(dtype)).astype(np.float64)
    assert found.lowest[0] <= predicted.min()
    assert predicted.max() <= found.highest[0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rounding_never_leaves_a_kernels_bounds(dtype):
    X, y = numbers(offset=1e4)
    X = X.astype(dtype)
    case = ORBIT_CASE["permutations"]
    model = InvariantSVR(case.oracle, random_state=0).fit(X, y)
    assert model.predict(X).dtype == dtype
    found = model.certify(X)
    predicted = np.array([model.predict(case.members(x[None], [0])[0]) for x in X], dtype=np.float64)
    assert np.all(found.lowest <= predicted.min(axis=1))
    assert np.all(predicted.max(axis=1) <= found.highest)


def test_covers_bound_what_lies_between_their_members():
    X = np.random.default_rng(0).random((10, 16))
    y = X[:, :4].sum(axis=1)
    coarse, fine = (Rotations(interval=(-20, 20), resolution=grid, shape=(4, 4)) for grid in (3, 81))
    model = InvariantSVR(coarse, C=10.0, random_state=0)
    with pytest.warns(ConvergenceWarning, match="oracle too coarse"):
        model.fit(X, y)
    found = model.certify(X)
    assert not np.any(found.exact)
    between = fine.bind(X).changes().members(slice(None))
    values = model.predict(between.reshape(-1, 16)).reshape(10, -1)
    assert np.all(found.lowest <= values.min(axis=1))
    assert np.all(values.max(axis=1) <= found.highest)
    assert np.all(model.certify(X, oracle=fine).width <= found.width)


def test_other_changes_may_be_asked_about():
    X, y = numbers()
    model = InvariantLinearSVR(Box(0.1), random_state=0).fit(X, y)
    none, some, more = (model.certify(X, oracle=Box(radius)) for radius in (0.0, 0.1, 0.5))
    assert "Bounds of 24 predictions" in str(some)
    np.testing.assert_allclose(none.lowest, model.predict(X), atol=1e-12)
    np.testing.assert_array_equal(some.lowest, model.certify(X).lowest)
    assert np.all(more.lowest < some.lowest)
    assert np.all(more.highest > some.highest)
    np.testing.assert_allclose(more.width, 2 * 0.5 * np.abs(model.coef_).sum(), rtol=1e-9)
    with pytest.raises(ValueError, match="only_for requires one"):
        model.certify(X, oracle=Box(0.1).only_for(1))


def test_without_targets_the_prediction_stands_in():
    X, y = numbers()
    model = InvariantLinearSVR(Box(0.3), random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.worst_case(X), model.worst_case(X, model.predict(X)))
    far = model.worst_case(X, model.predict(X) - 1.0)
    np.testing.assert_allclose(model.predict(far), model.certify(X).highest, atol=1e-9)


BAD_TARGETS = [
    (["a"] * 24, "y must contain numbers, got"),
    (np.array(["1"] * 24), "y must contain numbers, got"),
    (np.r_[np.ones(23), np.nan], "NaN"),
    (np.r_[np.ones(23), np.inf], "infinity"),
    (np.ones((24, 2)), "1d array|shape"),
    (np.ones(23), "inconsistent|shape"),
    ([None] * 24, "y must contain"),
]


@pytest.mark.parametrize(("y", "message"), BAD_TARGETS)
@pytest.mark.parametrize("kind", [InvariantLinearSVR, InvariantSVR])
def test_wrong_targets_are_refused_and_leave_the_model(kind, y, message):
    X, good = numbers()
    model = kind(random_state=0).fit(X, good)
    before = model.predict(X)
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)
    np.testing.assert_array_equal(model.predict(X), before)
    with pytest.raises(TypeError, match="y must be None, got .*do not depend on targets. Call certify"):
        model.certify(X, good)
    for ask in (model.worst_case, model.estimate_memory):
        with pytest.raises(ValueError, match=message):
            ask(X, y)


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"epsilon": -0.1}, ValueError, "epsilon must be a number of at least 0, got -0.1"),
        ({"oracle": Flip(shape=(1, D)).only_for(1)}, ValueError, "only_for requires one class label"),
        ({"oracle": Flip(shape=(1, D)).discounted(0.5)}, ValueError, "must not be discounted"),
    ],
)
@pytest.mark.parametrize("kind", [InvariantLinearSVR, InvariantSVR])
def test_wrong_parameters_are_refused_by_name(kind, parameters, error, message):
    X, y = numbers()
    model = kind(**parameters)
    with pytest.raises(error, match=message):
        model.fit(X, y)
    assert not hasattr(model, "n_features_in_")


@pytest.mark.parametrize(
    ("kind", "solver", "change"),
    pairs(
        [InvariantLinearSVR, InvariantSVR],
        ["frank_wolfe", "svmstruct", "bmrm"],
        [{"C": 3.0}, {"epsilon": 0.5}, {"epsilon": 0.0}, {"weights": True}],
    ),
)
def test_warm_starts_are_sound(kind, solver, change):
    """What planes do not bound any more, a mean or a tube that has changed, is not taken over."""
    X, y = numbers(16)
    shared = {"solver": solver, "tol": 1e-5, "random_state": 0}
    weights = np.linspace(0.0, 2.0, len(y)) if "weights" in change else None
    parameters = {name: number for name, number in change.items() if name != "weights"}
    warm = kind(Flip(shape=(1, D)), warm_start=True, **shared).fit(X, y)
    warm.set_params(**parameters).fit(X, y, sample_weight=weights)
    cold = kind(Flip(shape=(1, D)), **shared, **parameters).fit(X, y, sample_weight=weights)
    for record in warm.solution_.history:
        assert record.dual <= cold.solution_.primal * (1 + 1e-9)
    assert warm.solution_.primal == pytest.approx(cold.solution_.primal, rel=2e-5)


def test_with_functionals_beside_the_worst_case():
    X, y = numbers()
    bent = InvariantSVR(Flip(shape=(1, D)), C=10.0, random_state=0).fit(X, y)
    straight = clone(bent).set_params(invariances=[SecondDerivative(0, 0)], nu=100.0).fit(X, y)
    steps = X[:1] + np.linspace(-0.1, 0.1, 3)[:, None] * np.eye(D)[0]

    def bend(model):
        return abs(np.diff(model.predict(steps), 2)[0])

    assert bend(straight) < bend(bent)
    assert np.all(straight.certify(X).exact)


def test_tables_of_kernel_values_are_taken():
    X, y = numbers()
    table = InvariantSVR(kernel="precomputed", tol=1e-6, random_state=0).fit(X @ X.T, y)
    rows = InvariantSVR(kernel="linear", tol=1e-6, random_state=0).fit(X, y)
    np.testing.assert_allclose(table.predict(X @ X.T), rows.predict(X), atol=1e-2)
    with pytest.raises(ValueError, match="certify and worst_case require features"):
        table.certify(X @ X.T)


@pytest.mark.parametrize(("rows", "targets"), [(1e3, 1.0), (1.0, 1e-4)])
def test_rows_and_targets_that_nobody_scaled_have_newtons_method(rows, targets):
    """Small targets are what large weights of the losses are."""
    X, y = numbers(d=40)
    X, y = rows * X, targets * y
    model = InvariantLinearSVR(C=1.0, epsilon=0.1 * targets, random_state=0).fit(X, y)
    assert model.solution_.relative_gap <= 1e-3
    term = WorstCase(X, y, Identity(), Regression(0.1 * targets))
    objective = Objective(ExplicitSpace(40), [term])
    assert isinstance(model._best_solver(objective)[0], InteriorPoint)


@pytest.mark.parametrize("size", [1.0, 1e155, 1e300])
def test_very_large_targets_get_the_warning_of_uninformative_fits(size):
    X, y = numbers()
    model = InvariantLinearSVR(Flip(shape=(1, D)), C=1e-3 / size, epsilon=0.0, random_state=0)
    with pytest.warns(UninformativeFitWarning, match="targets in other units") as caught:
        model.fit(X, size * y)
    assert [each.category for each in caught] == [UninformativeFitWarning]
