"""Newton's method on functionals: equations, extreme weights, singular and indefinite matrices."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from structinv import RepresenterClassifier, RepresenterRegressor
from structinv.functionals import Gradient, TransformDifference
from structinv.kernels import CallableKernel, Gaussian
from structinv.losses import EpsilonInsensitive
from structinv.oracles import Shifts
from structinv.solvers import coefficients
from structinv.solvers.coefficients import coefficient_problem
from structinv.solvers.newton_cg import _solve_equations

from ..covering import pairs
from .cases import representer_optimum as optimum
from .cases import representer_problem as problem
from .cases import solved

RNG = np.random.default_rng(0)
X = RNG.standard_normal((30, 2))
Y = np.where(X[:, 0] + 0.3 * RNG.standard_normal(30) > 0, 1, 0)
TARGETS = X[:, 0] ** 2


@pytest.mark.parametrize("condition", [1e0, 1e8, 1e14])
@pytest.mark.parametrize("n_free", [0, 1, 2])
def test_equations_against_a_dense_solve(condition, n_free):
    rng = np.random.default_rng(1)
    n = 40
    vectors, _ = np.linalg.qr(rng.standard_normal((n, n)))
    gram = (vectors * np.geomspace(1.0, 1.0 / condition, n)) @ vectors.T
    gram = 0.5 * (gram + gram.T)
    weights = np.where(rng.random(n) < 0.2, 0.0, np.exp(rng.uniform(-5, 8, n)))
    basis = rng.standard_normal((n, n_free))
    problem = SimpleNamespace(size=n, basis=basis, by_output=[(np.arange(n), gram)])
    right, forces = rng.standard_normal(n), rng.standard_normal(n)
    moved = _solve_equations(problem, weights, right, forces)
    on = np.flatnonzero(weights)
    inverse = 1.0 / weights[on]
    matrix = np.block([
        [gram[np.ix_(on, on)] + np.diag(inverse), -basis[on]],
        [basis[on].T, np.zeros((n_free, n_free))],
    ])  # fmt: skip
    known = np.concatenate([-inverse * right[on], -basis.T @ forces])
    best = np.linalg.solve(matrix, known)
    scale = np.abs(best).max()
    np.testing.assert_allclose(moved[on], best[: len(on)], atol=2e-3 * scale)
    assert np.all(moved[weights == 0] == 0)


@pytest.mark.parametrize(("C", "nu", "epsilon"), pairs([1e-6, 1.0, 1e3, 1e6], [1e-4, 1e2], [0.0, 0.01]))
def test_extreme_weights(C, nu, epsilon):
    options = {
        "kernel": Gaussian(0.5), "invariances": [Gradient()], "loss": "hinge", "C": C, "nu": nu,
        "invariance_loss": EpsilonInsensitive(epsilon),
        "tol": 1e-6, "random_state": 0,
    }  # fmt: skip
    ours = RepresenterClassifier(**options).fit(X, Y)
    theirs = RepresenterClassifier(**options, solver="cvxpy").fit(X, Y)
    assert ours.solution_.status.value == "converged"
    assert ours.solution_.primal >= theirs.solution_.dual * (1 - 1e-9)
    assert ours.solution_.dual <= theirs.solution_.primal * (1 + 1e-9)


@pytest.mark.parametrize("precision", [np.float32, np.float64])
def test_rows_that_come_twice_make_a_singular_gram_matrix(precision):
    twice, labels = np.concatenate([X, X]).astype(precision), np.concatenate([Y, Y])
    options = {"invariances": [Gradient()], "loss": "hinge", "invariance_loss": "absolute", "tol": 1e-5}
    model = RepresenterClassifier(Gaussian(1.0), **options).fit(twice, labels)
    assert model.solution_.status.value == "converged"


@pytest.mark.parametrize("bias", [False, True])
def test_targets_inside_the_tube_have_zero_loss(bias):
    near = 3.0 * bias + 0.01 * np.random.default_rng(2).standard_normal(30)
    model = RepresenterRegressor(
        Gaussian(1.0), invariances=[Gradient()], loss=EpsilonInsensitive(0.1), bias=bias,
        invariance_loss="absolute",
    ).fit(X, near)  # fmt: skip
    assert model.solution_.status.value == "converged"
    assert 0 <= model.solution_.primal < 1e-12


def test_an_indefinite_kernel_ends_as_inconsistent():
    labels = np.where(np.arange(30) < 10, Y, -1)
    kernel = CallableKernel(lambda left, right: np.tanh(2.0 * left @ right.T - 1.0))
    changes = [TransformDifference(Shifts(1, shape=(1, 2)))]
    model = RepresenterClassifier(kernel, invariances=changes, invariance_loss="absolute", loss="hinge")
    with pytest.warns(UserWarning, match="not positive semi-definite"):
        model.fit(X, labels)
    assert model.solution_.status.value == "inconsistent"


def test_a_gram_matrix_without_memory_is_refused_or_not_stored():
    options = {"invariances": [Gradient()], "loss": "absolute", "cache_mb": 0.01, "tol": 1e-3}
    model = RepresenterRegressor(Gaussian(1.0), **options).fit(X, TARGETS)
    assert model.solution_.status.value == "converged"
    with pytest.raises(ValueError, match="requires more than cache_mb.* use method='newton-cg'"):
        RepresenterRegressor(Gaussian(1.0), **options, solver="cvxpy").fit(X, TARGETS)


@pytest.mark.parametrize("nu", [1e8, pytest.param(1e10, marks=pytest.mark.slow), 1e12])
def test_forces_that_almost_cancel_give_a_valid_bound(nu):
    # Rows with each label, so that the constant -1 costs 48 and no function costs less than 47.9.
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((40, 2))
    labels = (np.sin(2 * rows[:, 0]) > 0).astype(int)
    rows, labels = np.r_[rows, rows[:10]], np.r_[labels, labels[:5], 1 - labels[5:10]]
    model = RepresenterClassifier(
        Gaussian(1.0), invariances=[Gradient()], invariance_loss="absolute", loss="hinge", nu=nu,
        bias=True,
    )  # fmt: skip
    with pytest.warns(ConvergenceWarning, match="stalled"):
        solution = model.fit(rows, labels).solution_
    assert solution.dual <= 2 * np.count_nonzero(labels) + 1e-9
    assert solution.primal >= solution.dual


def test_rounding_of_many_functionals_is_estimated_from_a_few(monkeypatch):
    def bound(most):
        monkeypatch.setattr(coefficients, "MAX_CHECKED", most)
        model = RepresenterRegressor(Gaussian(1.0), invariances=[Gradient()], nu=0.1)
        return model.fit(X, TARGETS).solution_.dual

    assert bound(2) == pytest.approx(bound(3000), rel=1e-10)


SMOOTH = {"logistic", "squared hinge", "squared"}


def test_a_free_linear_function():
    found = [
        solved(problem("logistic", "squared", free=1), each, 1e-7, 2000).primal
        for each in ("newton-cg", "cvxpy")
    ]
    assert found[0] == pytest.approx(found[1], rel=1e-6)
    assert found[0] < optimum("logistic", "squared", free=0)


@pytest.mark.parametrize("free", [None, 0])
@pytest.mark.parametrize("loss", sorted(SMOOTH))
def test_the_gradient_in_function_space_is_zero(loss, free):
    objective = problem(loss, "huber", free=free)
    solution = solved(objective, gap=1e-14, most=100)
    f = solution.f
    space = objective.space
    gradient = f.copy()
    for term in objective.terms:
        own = term.coordinates()
        u = term.functionals.apply(space, space.uncached(f))
        gradient += term.functionals.combine(space, own.weights * own.loss.derivative(u))
    assert space.dot(gradient, gradient) <= 1e-12 * space.dot(f, f)
    # Half its squared norm is the gap.
    assert solution.gap == pytest.approx(0.5 * space.dot(gradient, gradient), abs=1e-12)


@pytest.mark.parametrize("free", [0, 1])
def test_slopes_that_violate_the_equations_of_the_free_part_are_no_bound(free):
    """A constant has near slopes that satisfy its equation; a linear function leaves none."""
    this = coefficient_problem(problem("logistic", "squared", free=free), "")
    rng = np.random.default_rng(0)
    slopes = rng.uniform(-0.5, 0.5, this.size)
    equations = this.weights[:, None] * this.basis
    valid = slopes - equations @ np.linalg.lstsq(equations, slopes, rcond=None)[0]
    np.testing.assert_allclose(this.feasible(valid), valid, atol=1e-12)
    for share in (1e-6, 1.0):
        found = this.feasible((1 - share) * valid + share * slopes)
        if free == 1:
            assert np.all(np.isnan(found))
        else:
            np.testing.assert_allclose(equations.T @ found, 0.0, atol=1e-12)


def test_newton_with_and_without_factors_agree(monkeypatch):
    found = []
    for most in (0, 3000):
        monkeypatch.setattr("structinv.solvers.newton_cg.MAX_DIRECT", most)
        found.append(solved(problem("hinge", "absolute"), gap=1e-9).primal)
    assert found[0] == pytest.approx(found[1], rel=1e-8)
