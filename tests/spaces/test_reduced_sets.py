"""Compressed kernel SVMs: errors, supported methods and invalid arguments."""

import pickle
import signal
from contextlib import nullcontext
from functools import cache

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics.pairwise import rbf_kernel

import structinv
from structinv import InvariantStructuredSVC, InvariantSVC, InvariantSVR
from structinv.dual.base import never
from structinv.dual.member_state import MemberState
from structinv.estimators import support_vectors
from structinv.functionals import Gradient
from structinv.kernels import Gaussian, Linear, Matern, Polynomial, psd_corrected
from structinv.oracles import Identity, Shifts
from structinv.solvers import Status
from structinv.spaces.kernel_space import KernelSpace
from structinv.spaces.reduced_sets import (
    TargetExpansion,
    best_coefficients,
    chosen_atoms,
    moved_points,
    score_error,
)
from structinv.structures import Sequence
from structinv.structures.classes import Multiclass
from structinv.terms import Objective, WorstCase
from structinv.utils.exceptions import IndefiniteKernelWarning

from ..margins import lowest_margins, margins
from ..problems import strokes

SHIFTS = Shifts(1, shape=(3, 3), fill="wrap")
KERNELS = {
    "rbf": {"kernel": "rbf", "gamma": 0.1},
    "poly": {"kernel": "poly", "degree": 2, "coef0": 0.5, "gamma": 0.1},
    "laplacian": {"kernel": "laplacian", "gamma": 0.1},
    "matern": {"kernel": Matern(3.0, nu=1.5)},
    "sum": {"kernel": Gaussian(3.0) + 0.1 * Linear()},
}
every_kernel = pytest.mark.parametrize("kernel", KERNELS)


@cache
def fitted(kernel="rbf", n_classes=3, dtype=np.float64, **parameters):
    """Return a model fitted to shifted images."""
    X, y = strokes(n_classes, 30, dtype=dtype)
    model = InvariantSVC(SHIFTS, **KERNELS[kernel], C=5.0, random_state=0, **parameters)
    return model.fit(X, y)


@cache
def regressor():
    X, _ = strokes(3, 30)
    return InvariantSVR(SHIFTS, gamma=0.1, C=5.0, random_state=0).fit(X, X.sum(axis=1))


def norm_between(model, other):
    """Return the norm of the difference of two models, by the kernel matrix of all points."""
    points = np.concatenate([model.support_vectors_, other.support_vectors_]).astype(float)
    both = np.concatenate([model.dual_coef_.T, -other.dual_coef_.T]).astype(float)
    return np.sqrt(max(np.sum(both * (model.kernel_.matrix(points, points) @ both)), 0.0))


def norm(model):
    points = model.support_vectors_.astype(float)
    table = model.kernel_.matrix(points, points)
    return np.sqrt(np.sum(model.dual_coef_.T * (table @ model.dual_coef_.T)))


def scores(model, X):
    return model.decision_function(X).reshape(len(X), -1)


@every_kernel
def test_the_error_is_the_largest_change_of_a_score_at_the_support_vectors(kernel):
    model = fitted(kernel)
    Z = model.support_vectors_
    for asked in ({"tol": 0.2}, {"n_support": 12}, {"n_support": 12, "points": "chosen"}):
        small = model.compress(**asked)
        assert len(small.support_) < len(model.support_)
        changes = np.abs(scores(small, Z) - scores(model, Z))
        assert changes.max() > 1e-4
        assert small.compression_error_ == pytest.approx(changes.max(), rel=1e-9)


@every_kernel
def test_projection_on_atoms_satisfies_tol(kernel):
    model = fitted(kernel)
    Z = model.support_vectors_
    values, vectors = np.linalg.eigh(model.kernel_.matrix(Z, Z))
    coordinates = vectors * np.sqrt(np.maximum(values, 0.0))
    aimed = coordinates.T @ model.dual_coef_.T
    for tol in (0.5, 0.1, 0.01):
        small = model.compress(tol)
        assert norm_between(model, small) <= tol * norm(model) * (1 + 1e-6)
        places = [np.flatnonzero((z == Z).all(axis=1))[0] for z in small.support_vectors_]
        np.testing.assert_array_equal(model.support_[places], small.support_)
        np.testing.assert_array_equal(model.support_members_[places], small.support_members_)
        np.testing.assert_array_equal(model.support_transforms_[places], small.support_transforms_)
        # The same by least squares in coordinates of the kernel's space.
        best = np.linalg.lstsq(coordinates[places].T, aimed, rcond=None)[0]
        np.testing.assert_allclose(small.dual_coef_.T, best, atol=1e-5 * np.abs(best).max())


def test_scores_at_the_old_atoms_are_those_of_ridge_regression():
    model = fitted()
    small = model.compress(n_support=15, points="chosen")
    Z, S = model.support_vectors_, small.support_vectors_
    K = model.kernel_.matrix
    target = K(Z, Z) @ model.dual_coef_.T
    weight = np.sqrt(0.1 * np.mean(model.kernel_.diagonal(Z)))
    values, vectors = np.linalg.eigh(K(Z, Z))
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    places = [np.flatnonzero((s == Z).all(axis=1))[0] for s in S]
    rows = np.concatenate([K(Z, S), weight * root[places].T])
    aimed = np.concatenate([target, weight * root.T @ model.dual_coef_.T])
    best = np.linalg.lstsq(rows, aimed, rcond=None)[0]
    np.testing.assert_allclose(small.dual_coef_.T, best, atol=1e-6 * np.abs(best).max())


def test_each_step_selects_the_best_atom():
    rng = np.random.default_rng(0)
    kernel, points = Gaussian(1.0), rng.standard_normal((40, 2))
    f = TargetExpansion.of(kernel, points, rng.standard_normal((40, 3)))
    atoms, left = chosen_atoms(f, 20)
    K = kernel.matrix(points, points)

    def distance(chosen):
        beta = np.linalg.solve(K[np.ix_(chosen, chosen)], K[chosen] @ f.coefficients)
        return f.squared_norm - np.sum(beta * (K[chosen] @ f.coefficients))

    # All 40 atoms are seen by every block, so that the steps are those of the plain method.
    for step in range(1, 8):
        rest = [j for j in range(40) if j not in atoms[: step - 1]]
        reached = [distance([*atoms[: step - 1], j]) for j in rest]
        assert distance(atoms[:step]) == pytest.approx(min(reached), rel=1e-9)
    assert left == pytest.approx(distance(atoms), rel=1e-6)
    assert len(set(atoms.tolist())) == 20


def test_blocks_of_candidates_select_about_as_well():
    rng = np.random.default_rng(1)
    f = TargetExpansion.of(Gaussian(1.0), rng.standard_normal((400, 4)), rng.standard_normal((400, 2)))
    random = rng.permutation(400)[:100]
    atoms, left = chosen_atoms(f, 100)
    kept, beta = best_coefficients(f, f.points[atoms], by_scores=False)
    exact = f.squared_norm - np.sum(
        beta * (f.kernel.matrix(f.points[atoms[kept]], f.points) @ f.coefficients)
    )
    assert left == pytest.approx(exact, rel=1e-6)
    kept, beta = best_coefficients(f, f.points[random], by_scores=False)
    table = f.kernel.matrix(f.points[random[kept]], f.points)
    assert left < 0.7 * (f.squared_norm - np.sum(beta * (table @ f.coefficients)))


def test_tol_zero_removes_dependent_atoms():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    y = X[:, 0] + 0.5 * rng.standard_normal(60) > 0
    model = InvariantSVC(kernel="linear", random_state=0).fit(X, y)
    small = model.compress(0.0)
    assert len(model.support_) > 10
    assert len(small.support_) == 3
    assert small.compression_error_ < 1e-5 * norm(model)
    np.testing.assert_allclose(small.decision_function(X), model.decision_function(X), atol=1e-9)


def test_small_model_is_copied_unchanged():
    model = fitted("rbf")
    for copy in (model.compress(0.0), model.compress(n_support=len(model.support_))):
        assert copy is not model
        assert copy.compression_error_ == 0.0
        assert copy.solution_ is model.solution_
        np.testing.assert_array_equal(copy.dual_coef_, model.dual_coef_)
        assert not np.shares_memory(copy.dual_coef_, model.dual_coef_)


@pytest.mark.parametrize("kernel", ["rbf", "poly", "matern", "sum"])
def test_moved_points_reduce_the_error(kernel):
    model = fitted(kernel)
    Z = model.support_vectors_
    off = {}
    for points in ("chosen", "moved"):
        small = model.compress(n_support=10, points=points)
        assert len(small.support_) <= 10
        off[points] = np.sum((scores(small, Z) - scores(model, Z)) ** 2)
    assert off["moved"] < 0.8 * off["chosen"]
    np.testing.assert_array_equal(model.compress(n_support=10).support_vectors_, small.support_vectors_)


@pytest.mark.parametrize(
    "kernel", [Gaussian(1.5), Polynomial(3, 1.0, 0.3), Gaussian(2.0) * Polynomial(2, 1.0, 0.2)]
)
def test_gradients_equal_finite_differences(kernel):
    rng = np.random.default_rng(0)
    f = TargetExpansion.of(kernel, rng.standard_normal((20, 2)), rng.standard_normal((20, 3)))
    points, way = rng.standard_normal((4, 2)), rng.standard_normal((4, 2))

    def exact(places):
        """Return the error in double precision."""
        kept, beta = best_coefficients(f, places, by_scores=True)
        off = kernel.matrix(f.points, places[kept]) @ beta - f.values
        both, joined = np.concatenate([f.points, places[kept]]), np.concatenate([f.coefficients, -beta])
        return np.sum(off**2) + f.share_of_norm * np.sum(joined * (kernel.matrix(both, both) @ joined))

    height, gradient = score_error(f, points, f.squared_norm, f.share_of_norm)
    assert height == pytest.approx(exact(points), rel=1e-3)
    slope = (exact(points + 1e-5 * way) - exact(points - 1e-5 * way)) / 2e-5
    assert np.sum(gradient * way) == pytest.approx(slope, rel=2e-2)
    assert exact(moved_points(f, points, 20)) < exact(points)


@pytest.mark.parametrize(("n_classes", "dtype"), [(2, np.float32), (3, np.float64)])
def test_compressed_model_supports_all_methods(n_classes, dtype, tmp_path):
    model = fitted("rbf", n_classes, dtype)
    X, y = strokes(n_classes, 30, dtype=dtype)
    before = {
        name: np.array(getattr(model, name)) for name in ("support_", "dual_coef_", "support_vectors_")
    }
    small = model.compress(n_support=20)
    assert small.support_vectors_.dtype == small.dual_coef_.dtype == dtype
    assert small.dual_coef_.shape == (1 if n_classes == 2 else 3, 20)
    # Three classes of random images are almost tied, so that labels say little.
    scores = model.decision_function(X)
    assert np.linalg.norm(small.decision_function(X) - scores) < 0.4 * np.linalg.norm(scores)
    assert small.n_support_.sum() == 20
    codes = np.searchsorted(model.classes_, y[small.support_])
    np.testing.assert_array_equal(small.n_support_, np.bincount(codes, minlength=n_classes))
    assert len(small.support_transforms_) == len(small.support_members_) == 20
    assert np.isfinite(small.estimate_memory(X, y))
    structinv.save(small, tmp_path / "small")
    for again in (pickle.loads(pickle.dumps(small)), structinv.load(tmp_path / "small")):
        np.testing.assert_array_equal(again.decision_function(X), small.decision_function(X))
        assert again.compression_error_ == small.compression_error_
        assert again.solution_.status is Status.COMPRESSED
        assert again.compress(n_support=5).compression_error_ > 0
    assert not hasattr(clone(small), "dual_coef_")
    for name, value in before.items():
        np.testing.assert_array_equal(getattr(model, name), value)
        assert not np.shares_memory(getattr(model, name), getattr(small, name))
    assert model.compression_error_ == 0.0
    solution = small.solution_
    assert solution.primal == solution.gap == solution.relative_gap == np.inf
    assert solution.dual == model.solution_.dual
    assert solution.dual_variables == []
    rounding = 1e-12 if dtype == np.float64 else 1e-6
    np.testing.assert_allclose(
        solution.f.function()(X)[:, -1],
        small.decision_function(X).reshape(len(X), -1)[:, -1],
        atol=rounding,
    )


@pytest.mark.parametrize("kernel", ["rbf", "poly"])
def test_certificates_hold_for_the_compressed_model(kernel):
    model = fitted(kernel)
    X, y = strokes(3, 30, seed=1)
    small = model.compress(n_support=15)
    certificate = small.certify(X, y)
    least = lowest_margins(small, SHIFTS.orbit(X), y)
    np.testing.assert_allclose(certificate.margins, least, atol=1e-8)
    np.testing.assert_array_equal(certificate.correct, least > 1e-8)
    assert np.abs(model.certify(X, y).margins - certificate.margins).max() > 1e-3
    np.testing.assert_allclose(margins(small, small.worst_case(X, y), y), least, atol=1e-8)


def test_the_error_of_a_copy_of_a_copy_is_that_of_the_last_compression():
    first = fitted().compress(n_support=30)
    second = first.compress(n_support=12)
    Z = first.support_vectors_
    change = np.abs(scores(second, Z) - scores(first, Z)).max()
    assert second.compression_error_ == pytest.approx(change, rel=1e-9)
    assert second.compress(n_support=12).compression_error_ == second.compression_error_


def test_later_fits_ignore_the_compression():
    X, y = strokes(3, 30)
    model = InvariantSVC(SHIFTS, gamma=0.1, C=5.0, warm_start=True, random_state=0).fit(X, y)
    small = model.compress(n_support=10)
    again = small.fit(X, y)
    fresh = clone(model).fit(X, y)
    assert again.compression_error_ == 0.0
    assert again.solution_.primal == pytest.approx(fresh.solution_.primal, rel=2 * model.tol)
    # The model that was compressed still has the variables that it starts from.
    assert model.fit(X, y).n_iter_ < fresh.n_iter_


def test_a_budget_is_a_fit_that_is_compressed_and_knows_its_gap():
    X, y = strokes(3, 30)
    model = fitted()
    small = fitted(max_support_vectors=15)
    by_hand = model.compress(n_support=15)
    assert len(small.support_) == 15
    np.testing.assert_array_equal(small.dual_coef_, by_hand.dual_coef_)
    assert small.compression_error_ == by_hand.compression_error_
    term = WorstCase(X, y, SHIFTS, Multiclass(), 5.0)
    objective = Objective(KernelSpace(small.kernel_, 9, 3), [term])
    value = objective.value(small._in(objective.space)).upper
    assert small.solution_.primal == pytest.approx(value, rel=1e-9)
    assert small.solution_.dual == model.solution_.dual
    assert small.solution_.gap == small.solution_.primal - small.solution_.dual
    assert small.solution_.relative_gap == small.solution_.gap / small.solution_.primal
    assert small.solution_.relative_gap > model.solution_.relative_gap
    assert small.solution_.status is Status.COMPRESSED
    # A second fit of the same estimator is whole again without one.
    whole = clone(small).set_params(max_support_vectors=None).fit(X, y)
    np.testing.assert_array_equal(whole.dual_coef_, model.dual_coef_)


def press(*_):
    signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("on_interrupt", ["raise", "return"])
def test_ctrl_c_while_a_fit_is_shortened_leaves_it_whole(monkeypatch, on_interrupt):
    X, y = strokes(3, 30)
    monkeypatch.setattr(support_vectors, "moved_points", press)
    model = clone(fitted()).set_params(max_support_vectors=15, on_interrupt=on_interrupt)
    ends = pytest.raises(KeyboardInterrupt) if on_interrupt == "raise" else nullcontext()
    with ends:
        model.fit(X, y)
    np.testing.assert_array_equal(model.decision_function(X), fitted().decision_function(X))
    assert model.solution_.status is Status.CONVERGED


@pytest.mark.parametrize(
    ("asked", "error", "message"),
    [
        ({}, ValueError, "either tol or n_support must be given"),
        ({"tol": 0.1, "n_support": 3}, ValueError, "either tol or n_support must be given"),
        ({"tol": -0.1}, ValueError, "tol must be a number of at least 0, got -0.1"),
        ({"tol": 1.0}, ValueError, "tol must be below 1, since 1 allows the zero function, got 1.0"),
        ({"n_support": 0}, ValueError, "n_support must be an integer of at least 1, got 0"),
        ({"n_support": 3, "max_iter": 0}, ValueError, "max_iter must be an integer .* got 0"),
        ({"n_support": 3, "points": "all"}, ValueError, "points must be one of .*, got 'all'"),
        ({"tol": 0.1, "points": "moved"}, ValueError, "points='moved' requires n_support"),
    ],
)
def test_invalid_arguments_raise(asked, error, message):
    with pytest.raises(error, match=message):
        fitted().compress(**asked)


def test_unsupported_models_raise_before_work(monkeypatch):
    with pytest.raises(NotFittedError):
        InvariantSVC().compress(0.1)
    with pytest.raises(ValueError, match="points='moved' requires a kernel with first derivatives"):
        fitted("laplacian").compress(n_support=3, points="moved")
    X, y = [np.eye(3)[[0, 1]], np.eye(3)[[2, 1]]], [["a", "b"], ["c", "b"]]
    linear = InvariantStructuredSVC(Sequence(), random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="compress requires support vectors, but a model"):
        linear.compress(0.1)
    with pytest.raises(ValueError, match="warm_start must be False with max_support_vectors"):
        InvariantSVC(max_support_vectors=5, warm_start=True).fit(np.eye(2), [0, 1])
    monkeypatch.setattr("structinv.utils.resources.free_memory", lambda: 1000.0)
    with pytest.raises(MemoryError, match="compressing .* support vectors to at most 20"):
        fitted().compress(n_support=20)


def test_compression_requires_a_positive_semi_definite_kernel():
    X, y = strokes(2, 30)

    def bad(A, B):
        return A @ B.T - 0.3 * (A**2) @ (B**2).T

    with pytest.warns(IndefiniteKernelWarning):
        model = InvariantSVC(kernel=bad, C=0.1, tol=0.5, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="compress requires a positive semi-definite kernel, .* go"):
        model.compress(0.1)
    kernel = psd_corrected(structinv.kernels.CallableKernel(bad), X)
    model = InvariantSVC(kernel=kernel, random_state=0).fit(X, y)
    small = model.compress(0.3)
    assert len(small.support_) < len(model.support_)
    assert norm_between(model, small) <= 0.3 * norm(model) * (1 + 1e-6)


def test_tables_of_values_are_compressed_by_rows():
    X, y = strokes(3, 30)
    table = rbf_kernel(X, X, gamma=0.1)
    model = InvariantSVC(kernel="precomputed", C=5.0, tol=1e-10, random_state=0).fit(table, y)
    plain = InvariantSVC(gamma=0.1, C=5.0, tol=1e-10, random_state=0).fit(X, y)
    for asked in ({"tol": 0.3}, {"n_support": 8}):
        small = model.compress(**asked)
        other = plain.compress(**asked, points="chosen")
        np.testing.assert_array_equal(small.support_, other.support_)
        np.testing.assert_allclose(small.dual_coef_, other.dual_coef_, rtol=1e-5, atol=1e-8)
        assert small.compression_error_ == pytest.approx(other.compression_error_, rel=1e-6)
        assert len(small.kernel_.gram) == len(small.support_)
        np.testing.assert_allclose(
            small.decision_function(table), other.decision_function(X), rtol=1e-5, atol=1e-8
        )
    assert len(model.kernel_.gram) > 8


def test_regressors_keep_their_mean_and_their_bounds():
    model = regressor()
    X, _ = strokes(3, 30, seed=2)
    small = model.compress(n_support=25)
    assert small.n_support_.tolist() == [25]
    np.testing.assert_array_equal(small.intercept_, model.intercept_)
    Z = model.support_vectors_
    moved = np.abs(small.predict(Z) - model.predict(Z))
    assert small.compression_error_ == pytest.approx(moved.max(), rel=1e-9)
    bounds = small.certify(X)
    each = small.predict(SHIFTS.orbit(X).reshape(-1, 9)).reshape(len(X), -1)
    np.testing.assert_allclose(bounds.lowest, each.min(axis=1), atol=1e-8)
    np.testing.assert_allclose(bounds.highest, each.max(axis=1), atol=1e-8)


def test_representers_of_invariances_stay():
    X, y = strokes(2, 30)
    model = InvariantSVC(
        SHIFTS, gamma=0.1, C=5.0, tol=0.05, invariances=[Gradient()], nu=0.01, random_state=0
    ).fit(X, y)
    small = model.compress(n_support=10)
    np.testing.assert_array_equal(small.alpha_, model.alpha_)
    Z = model.support_vectors_
    moved = np.abs(small.decision_function(Z) - model.decision_function(Z))
    assert small.compression_error_ == pytest.approx(moved.max(), rel=1e-6)
    norm_of_all = np.sqrt(model.solution_.f.space.dot(model.solution_.f, model.solution_.f))
    assert norm_between(model, model.compress(0.1)) <= 0.1 * norm_of_all * (1 + 1e-6)


def test_machines_of_sequences_keep_their_transitions():
    rng = np.random.default_rng(0)
    X = [rng.standard_normal((5, 4)) for _ in range(12)]
    y = [np.where(each[:, 0] > 0, "up", "down") for each in X]
    model = InvariantStructuredSVC(Sequence(), kernel="rbf", C=5.0, random_state=0).fit(X, y)
    small = model.compress(n_support=12)
    assert len(small.support_) == 12 < len(model.support_)
    np.testing.assert_array_equal(small.transitions_, model.transitions_)
    assert small.score(X, y) > 0.8
    np.testing.assert_array_equal(small.solution_.f.pairwise, model.solution_.f.pairwise)
    assert len(small.certify(X, y, oracle=Identity()).margins) == 12


@pytest.mark.parametrize("on_interrupt", ["raise", "return"])
def test_interrupted_fit_is_not_compressed(monkeypatch, on_interrupt):
    X, y = strokes(3, 30)
    sweep, sweeps, forbidden = MemberState.sweep, [], []

    def sweep_and_press(self, f, out_of_time=never):
        sweeps.append(1)
        if len(sweeps) > 20:
            press()
        return sweep(self, f, out_of_time)

    monkeypatch.setattr(MemberState, "sweep", sweep_and_press)
    monkeypatch.setattr(InvariantSVC, "compress", lambda *_, **__: forbidden.append(1))
    model = InvariantSVC(
        SHIFTS, gamma=0.1, max_support_vectors=2, on_interrupt=on_interrupt, tol=0.0, random_state=0
    )
    if on_interrupt == "raise":
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, y)
    else:
        with pytest.warns(ConvergenceWarning, match="interrupted"):
            model.fit(X, y)
    assert not forbidden
    assert len(model.support_) > 2
