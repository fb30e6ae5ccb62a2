"""InvariantSVC against cvxpy on enumerated orbits, linear machines, and its own promises."""

import re
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel
from sklearn.model_selection import cross_val_score

from structinv import InvariantLinearSVC, InvariantSVC
from structinv.functionals import Gradient
from structinv.kernels import Gaussian, Polynomial
from structinv.kernels.kernel_names import PrecomputedKernel
from structinv.oracles import Box, Ellipsoid, FDrop, Identity, Permutations, Shifts
from structinv.oracles.combinators import OnlyFor
from structinv.oracles.union import Union
from structinv.solvers import FrankWolfe, Pegasos, Status
from structinv.spaces.kernel_space import KernelSpace

from ..margins import lowest_margins, margins
from ..problems import Nudges, strokes
from .cases import SHAPE
from .cases import WRAPPED as SHIFTS
from .cases import orbit_optimum as optimum

SLIDES = Shifts(interval=(0.0, 1.0), shape=SHAPE, fill="wrap", resolution=4)
KERNELS = {
    "gaussian": ({"kernel": "rbf", "gamma": 0.2}, lambda X, Y: rbf_kernel(X, Y, gamma=0.2)),
    "polynomial": (
        {"kernel": "poly", "degree": 2, "coef0": 0.5, "gamma": 0.1},
        lambda X, Y: polynomial_kernel(X, Y, degree=2, coef0=0.5, gamma=0.1),
    ),
}


def scores(model, Z):
    """The decision function as (n, n_outputs)."""
    return model.decision_function(Z).reshape(len(Z), -1)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_linear_kernel_is_the_linear_machine(n_classes):
    X, y = strokes(n_classes)
    shared = {"C": 0.5, "tol": 1e-9, "random_state": 0}
    model = InvariantSVC(SHIFTS, kernel="linear", **shared).fit(X, y)
    theirs = InvariantLinearSVC(SHIFTS, fit_intercept=False, **shared).fit(X, y)
    assert model.solution_.primal == pytest.approx(theirs.solution_.primal, rel=1e-6)
    Z = np.random.default_rng(1).standard_normal((30, 9))
    np.testing.assert_allclose(model.decision_function(Z), theirs.decision_function(Z), atol=1e-4)
    assert np.array_equal(model.predict(Z), theirs.predict(Z))
    ours, linear = model.certify(X, y), theirs.certify(X, y)
    np.testing.assert_allclose(ours.margins, linear.margins, atol=1e-4)
    # The worst members are the same, or equally bad.
    reached = margins(theirs, model.worst_case(X, y), y)
    np.testing.assert_allclose(reached, linear.attacked, atol=1e-4)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_support_vectors_are_members_of_orbits(n_classes):
    X, y = strokes(n_classes)
    model = InvariantSVC(SHIFTS, gamma=0.2, random_state=0).fit(X, y)
    m = len(model.support_)
    orbit, names = SHIFTS.orbit(X), SHIFTS.changes(X).names
    assert np.array_equal(model.support_vectors_, orbit[model.support_, model.support_members_])
    assert model.support_transforms_.tolist() == [names[k] for k in model.support_members_]
    assert set(model.support_members_) == set(range(5))
    pairs = list(zip(model.support_, model.support_members_, strict=True))
    assert pairs == sorted(set(pairs))
    assert model.dual_coef_.shape == (1 if n_classes == 2 else 3, m)
    assert np.all(np.any(model.dual_coef_ != 0, axis=0))
    by_class = [int(np.sum(y[model.support_] == label)) for label in model.classes_]
    assert model.n_support_.tolist() == by_class
    assert isinstance(model.kernel_, Gaussian)
    Z = np.random.default_rng(1).standard_normal((7, 9))
    expected = rbf_kernel(Z, model.support_vectors_, gamma=0.2) @ model.dual_coef_.T
    np.testing.assert_allclose(scores(model, Z), expected, atol=1e-12)
    shape = (7,) if n_classes == 2 else (7, 3)
    assert model.decision_function(Z).shape == shape
    codes = (expected[:, 0] > 0).astype(int) if n_classes == 2 else np.argmax(expected, axis=1)
    assert np.array_equal(model.predict(Z), model.classes_[codes])
    assert 0 <= model.solution_.relative_gap <= model.tol
    assert model.n_iter_ == model.solution_.iterations >= 1


def test_the_solution_lives_in_the_space_of_its_points():
    X, y = strokes(3)
    model = InvariantSVC(SHIFTS, gamma=0.2, tol=1e-6, random_state=0).fit(X, y)
    f = model.solution_.f
    norm = np.sum(model.dual_coef_.T * scores(model, model.support_vectors_))
    Z = np.random.default_rng(1).standard_normal((7, 9))
    np.testing.assert_allclose(f.function()(Z), scores(model, Z), atol=1e-12)
    space = KernelSpace(model.kernel_, 9, 3)
    space.atoms = f.atoms
    assert space.dot(f, f) == pytest.approx(norm, rel=1e-10)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_certificates_are_exact_on_orbits(n_classes, kernel):
    X, y = strokes(n_classes)
    Z, labels = strokes(n_classes, n=21, seed=1)
    model = InvariantSVC(SHIFTS, **KERNELS[kernel][0], random_state=0).fit(X, y)
    certificate = model.certify(Z, labels)
    worst = lowest_margins(model, SHIFTS.orbit(Z), labels)
    np.testing.assert_allclose(certificate.attacked, worst, atol=1e-12)
    np.testing.assert_allclose(certificate.margins, worst, atol=1e-11)
    assert np.all(certificate.margins < worst)
    assert np.all(certificate.exact)
    assert 0 < certificate.accuracy < 1
    assert certificate.accuracy == np.mean(worst > 0) <= model.score(Z, labels)
    moved = model.worst_case(Z, labels)
    assert np.all(np.any(np.all(SHIFTS.orbit(Z) == moved[:, None], axis=2), axis=1))
    reached = margins(model, moved, labels)
    np.testing.assert_allclose(reached, certificate.attacked, atol=1e-12)


def test_many_rows_are_certified_in_blocks(monkeypatch):
    X, y = strokes(3)
    model = InvariantSVC(SHIFTS, gamma=0.2, random_state=0).fit(X, y)
    whole, moved = model.certify(X, y), model.worst_case(X, y)
    monkeypatch.setattr("structinv.spaces.kernel_space.NUMBERS_AT_ONCE", 200)
    parts = model.certify(X, y)
    np.testing.assert_allclose(parts.margins, whole.margins, atol=1e-12)
    assert np.array_equal(model.worst_case(X, y), moved)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_single_precision_is_kept_and_not_optimistic(n_classes):
    X, y = strokes(n_classes, dtype=np.float32)
    model = InvariantSVC(SHIFTS, gamma=0.2, random_state=0).fit(X, y)
    single = (model.support_vectors_, model.dual_coef_, model.decision_function(X))
    assert {array.dtype for array in single} == {np.dtype(np.float32)}
    assert model.solution_.f.atoms.known.dtype == np.float32
    Z, labels = strokes(n_classes, n=60, seed=1, dtype=np.float32)
    certificate = model.certify(Z, labels)
    orbit = SHIFTS.orbit(Z)
    assert np.all(certificate.margins <= lowest_margins(model, orbit, labels))
    exact = rbf_kernel(
        orbit.reshape(-1, 9).astype(np.float64), model.support_vectors_.astype(np.float64), gamma=0.2
    ) @ model.dual_coef_.T.astype(np.float64)
    seen = scores(model, orbit.reshape(-1, 9))
    assert 0 < np.abs(exact - seen).max() < np.max(certificate.attacked - certificate.margins)
    double = InvariantSVC(SHIFTS, gamma=0.2, random_state=0).fit(X.astype(np.float64), y)
    np.testing.assert_allclose(seen, scores(double, orbit.reshape(-1, 9)), atol=0.05)
    assert model.decision_function(X.astype(np.float64)).dtype == np.float64


def test_rounding_is_allowed_for_in_the_unit_of_the_inputs():
    X, y = strokes(3)
    shared = {"kernel": "linear", "tol": 1e-8, "random_state": 0}
    model = InvariantSVC(SHIFTS, **shared).fit(X, y)
    large = InvariantSVC(SHIFTS, C=1e-8, **shared).fit(1e4 * X, y)
    first, second = model.certify(X, y), large.certify(1e4 * X, y)
    allowed = first.attacked - first.margins
    assert np.all((allowed > 0) & (allowed < 1e-12))
    np.testing.assert_allclose(second.attacked - second.margins, allowed, rtol=0.3)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_no_change_of_a_continuum_beats_the_certificate(n_classes):
    X, y = strokes(n_classes)
    model = InvariantSVC(SHIFTS, gamma=0.2, C=5.0, random_state=0).fit(X, y)
    slides = Shifts(interval=(0.0, 1.0), shape=SHAPE, fill="wrap", resolution=65)
    certificate = model.certify(X, y, oracle=slides)
    lengths = np.unique(np.r_[np.linspace(0.01, 1.0, 100), 0.5])
    dense = Shifts(tuple(lengths), shape=SHAPE, fill="wrap").orbit(X)
    worst = lowest_margins(model, dense, y)
    assert np.all(certificate.margins <= worst)
    assert np.all(certificate.attacked <= worst + 1e-6)
    assert np.all(certificate.attacked >= certificate.margins)
    assert not np.any(certificate.exact)
    assert 0 < certificate.accuracy <= certificate.attacked_accuracy
    moved = model.worst_case(X, y, oracle=slides)
    reached = margins(model, moved, y)
    np.testing.assert_allclose(reached, certificate.attacked, atol=1e-12)
    on_the_grid = np.any(np.all(np.isclose(slides.changes(X).members(), moved[:, None]), axis=2), axis=1)
    assert not np.all(on_the_grid)


def test_kernels_of_unbounded_slope_certify_no_continuum():
    X, y = strokes(3)
    model = InvariantSVC(SHIFTS, kernel="poly", degree=2, random_state=0).fit(X, y)
    certificate = model.certify(X, y, oracle=SLIDES)
    assert np.all(certificate.margins == -np.inf)
    assert np.all(np.isfinite(certificate.attacked))
    assert not np.any(certificate.exact)


def test_continuous_sets_are_trained_on():
    X, y = strokes(n=10)
    model = InvariantSVC(SLIDES, kernel="poly", degree=2, random_state=0)
    with pytest.warns(ConvergenceWarning, match="too coarse"):
        model.fit(X, y)
    oracle, names = model.oracle, set(model.support_transforms_)
    assert 1 < len(names) == len(names & set(oracle.changes(X).names))
    nearest = oracle.changes(X).members()[model.support_, model.support_members_]
    assert 0 < np.max(np.abs(nearest - model.support_vectors_)) < 1


def test_certificates_without_labels_and_for_other_oracles():
    X, y = strokes(3)
    model = InvariantSVC(SHIFTS, gamma=0.2, random_state=0).fit(X, y)
    predicted = model.predict(X)
    np.testing.assert_array_equal(model.certify(X).margins, model.certify(X, predicted).margins)
    nothing = model.certify(X, y, oracle=Identity())
    clean = margins(model, X, y)
    np.testing.assert_allclose(nothing.attacked, clean, atol=1e-12)
    assert np.array_equal(model.worst_case(X, y, oracle=Identity()), X)
    only = model.certify(X, y, oracle=SHIFTS.only_for("bar"))
    full = model.certify(X, y)
    np.testing.assert_allclose(only.attacked[y == "bar"], full.attacked[y == "bar"], atol=1e-12)
    np.testing.assert_allclose(only.attacked[y != "bar"], clean[y != "bar"], atol=1e-12)
    np.testing.assert_allclose(
        model.certify(X, y, oracle=SHIFTS.discounted(0.3)).attacked, full.attacked, atol=1e-12
    )
    with pytest.raises(TypeError, match="InvariantSVC requires an oracle with an orbit or a cover"):
        model.certify(X, y, oracle=FDrop(1))
    with pytest.raises(ValueError, match=r"y must have shape \(14,\)"):
        model.worst_case(X, y[:3])


@pytest.mark.parametrize("n_classes", [2, 3])
def test_labels_may_decide_what_changes(n_classes):
    X, y = strokes(n_classes)
    orbit = SHIFTS.orbit(X)
    orbit[y != "bar"] = X[y != "bar", None]
    value, _ = optimum(KERNELS["gaussian"][1], y, orbit, 0.5)
    model = InvariantSVC(SHIFTS.only_for(["bar"]), gamma=0.2, C=0.5, tol=1e-7, random_state=0).fit(X, y)
    assert model.solution_.primal == pytest.approx(value, rel=1e-6)
    assert np.array_equal(model.support_vectors_, orbit[model.support_, model.support_members_])
    assert np.all(model.support_members_[y[model.support_] != "bar"] == 0)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_tables_of_kernel_values_serve_as_well(n_classes):
    X, y = strokes(n_classes, n=30)
    Z, _ = strokes(n_classes, n=11, seed=1)
    shared = {"C": 0.5, "tol": 1e-9, "random_state": 0}
    model = InvariantSVC(gamma=0.2, **shared).fit(X, y)
    table = InvariantSVC(kernel="precomputed", **shared).fit(rbf_kernel(X, gamma=0.2), y)
    assert table.solution_.primal == pytest.approx(model.solution_.primal, rel=1e-8)
    got = table.decision_function(rbf_kernel(Z, X, gamma=0.2))
    np.testing.assert_allclose(got, model.decision_function(Z), atol=1e-4)
    assert table.support_vectors_.size == 0
    assert len(table.support_) < 30
    assert isinstance(table.kernel_, PrecomputedKernel)
    assert len(table.kernel_.gram) < 30
    norm = np.sum(table.dual_coef_ * scores(table, rbf_kernel(X, gamma=0.2))[table.support_].T)
    inner = table.solution_.f.values()[table.solution_.f.support()]
    again = np.sum(table.solution_.f.coefficients[table.solution_.f.support()] * inner)
    assert norm == pytest.approx(again, rel=1e-10)
    for method in (table.certify, table.worst_case):
        with pytest.raises(ValueError, match="precomputed"):
            method(rbf_kernel(X, gamma=0.2), y)


def test_tables_are_cut_by_cross_validation():
    X, y = strokes(n=30)
    gram = rbf_kernel(X, gamma=0.2)
    table = cross_val_score(InvariantSVC(kernel="precomputed", random_state=0), gram, y, cv=3)
    assert np.array_equal(table, cross_val_score(InvariantSVC(gamma=0.2, random_state=0), X, y, cv=3))


@pytest.mark.parametrize("solver", ["auto", "representer", "frank_wolfe", "svmstruct"])
@pytest.mark.parametrize("invariance_loss", ["squared", "absolute"])
def test_fits_with_penalties_end_within_plane_tol(solver, invariance_loss):
    X, y = strokes(n=30)
    penalties = {"invariances": [Gradient()], "nu": 0.01, "invariance_loss": invariance_loss}
    model = InvariantSVC(SHIFTS, gamma=0.2, solver=solver, **penalties, max_seconds=30, random_state=0)
    model.set_params(plane_tol=0.3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X, y)
    assert model.solution_.status is Status.WITHIN_PLANE_TOL
    # The gap is that of the tolerance, except for a small part.
    assert model.solution_.gap <= 1.1 * 0.3 * len(X)


def test_epsilon_trades_support_vectors_for_a_gap():
    X, y = strokes(3, n=45)
    model = InvariantSVC(SHIFTS, gamma=0.2, tol=1e-6, random_state=0).fit(X, y)
    sparse = clone(model).set_params(plane_tol=0.3)
    by_instance = clone(model).set_params(solver=FrankWolfe(plane_tol=0.3))
    with warnings.catch_warnings():
        # What epsilon leaves out is no failure.
        warnings.simplefilter("error")
        sparse.fit(X, y)
        by_instance.fit(X, y)
    assert sparse.solution_.status is Status.WITHIN_PLANE_TOL
    assert len(sparse.support_) < 0.9 * len(model.support_)
    assert sparse.solution_.relative_gap > 1e-6
    # No row's loss lies more than epsilon above its planes, over which the master is all but solved.
    assert sparse.solution_.gap <= 45 * 0.3 + 0.1 * model.solution_.primal
    assert sparse.solution_.dual <= model.solution_.primal
    assert np.array_equal(by_instance.dual_coef_, sparse.dual_coef_)
    assert by_instance.solver.plane_tol == 0.3


def test_memory_that_cannot_be_told_is_refused():
    X, _ = strokes()
    with pytest.raises(ValueError, match="labels"):
        InvariantSVC(SHIFTS.only_for("bar")).estimate_memory(X)
    with pytest.raises(TypeError, match="a cover, got Box"):
        InvariantSVC(Box(1.0)).estimate_memory(X)


def test_kernels_are_copied_and_have_the_width_of_the_rows():
    X, y = strokes(3)
    given = Polynomial(degree=2)
    model = InvariantSVC(SHIFTS, kernel=given).fit(X, y)
    assert model.kernel_ is not given
    assert model.kernel_.get_params() == given.get_params()
    assert InvariantSVC(SHIFTS).fit(X, y).kernel_.sigma == pytest.approx(np.sqrt(4.5 * X.var()))


def test_a_function_that_is_zero_has_no_support():
    X, y = strokes(3)
    model = InvariantSVC(SHIFTS, gamma=0.2, C=10.0, solver="pegasos", tol=0.99, random_state=0).fit(X, y)
    assert len(model.support_) == 0
    assert model.support_vectors_.shape == (0, 9)
    assert model.n_support_.tolist() == [0, 0, 0]
    assert np.array_equal(model.decision_function(X), np.zeros((14, 3)))
    certificate = model.certify(X, y)
    assert np.array_equal(certificate.attacked, np.zeros(14))
    assert certificate.accuracy == 0
    assert model.worst_case(X, y).shape == X.shape


PARAMETERS = [
    ({"plane_tol": 0.1, "solver": "bmrm"}, ValueError, "plane_tol=0.1 with solver='bmrm'"),
    ({"plane_tol": 0.1, "solver": Pegasos()}, ValueError, r"plane_tol=0.1 with solver=Pegasos\(\)"),
    ({"kernel": "precomputed", "oracle": SHIFTS}, ValueError, "oracle must be None"),
    ({"kernel": "precomputed"}, ValueError, r"X must be square .* \(14, 9\)"),
]


@pytest.mark.parametrize(("parameters", "error", "message"), PARAMETERS, ids=str)
def test_wrong_parameters_are_refused_before_any_work(parameters, error, message, monkeypatch):
    monkeypatch.setattr("structinv.estimators.base.solve", None)
    model = InvariantSVC(**parameters)
    with pytest.raises(error, match=message):
        model.fit(*strokes())
    assert not [name for name in vars(model) if name.endswith("_")]


class Graded(Nudges):
    """Says that its answers are graded, and not how its members are."""

    graded = True


@pytest.mark.parametrize(
    "oracle",
    [Box(1.0), FDrop(1), Ellipsoid(np.eye(9)), Box(1.0) | SHIFTS, Box(0.1).only_for("bar")],
    ids=str,
)
def test_oracles_without_an_orbit_are_refused_by_name(oracle):
    name = "Box, a part of Union" if type(oracle) is Union else type(oracle).__name__
    name = "Box, a part of OnlyFor" if type(oracle) is OnlyFor else name
    message = (
        f"InvariantSVC requires an oracle with an orbit or a cover, got {name}; "
        "use a linear model for this oracle: InvariantLinearSVC, InvariantLinearSVR"
    )
    with pytest.raises(TypeError, match=re.escape(message)):
        InvariantSVC(oracle).fit(*strokes())


def test_permutations_of_many_rows_are_refused_with_their_limit():
    message = "Permutations of 7 rows, but the orbit of Permutations has at most 6 rows (720 orders); "
    with pytest.raises(TypeError, match=re.escape(message)):
        InvariantSVC(Permutations((7, 2))).fit(np.eye(4, 14), [0, 1, 0, 1])


def test_grades_that_no_member_has_are_refused_by_name():
    with pytest.raises(NotImplementedError, match="Graded does not define grades of its members"):
        InvariantSVC(Graded()).fit(*strokes())


def test_wrong_rows_are_refused():
    X, y = strokes()
    with pytest.raises(ValueError, match="shape"):
        InvariantSVC(SHIFTS).fit(X[:, :5], y)
    with pytest.raises(ValueError, match="at least two classes, got one class"):
        InvariantSVC().fit(X, np.zeros(len(X)))
    model = InvariantSVC(SHIFTS, gamma=0.2, random_state=0).fit(X, y)
    for method in (model.fit, model.certify, model.worst_case):
        with pytest.raises(TypeError, match="dense data is required"):
            method(sp.csr_matrix(X), y)
    with pytest.raises(ValueError, match="NaN"):
        model.certify(np.full((2, 9), np.nan))
