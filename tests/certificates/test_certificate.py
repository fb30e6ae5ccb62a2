"""Certificates and worst cases of models with given weights."""

from functools import cache
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from structinv import InvariantLinearSVC, InvariantSVC, certify
from structinv.certificates.certificate import worst_change
from structinv.kernels import CallableKernel
from structinv.oracles import Box, FDrop, FScale, Identity, InvarianceOracle, Support
from structinv.solvers import REGISTRY, Status
from structinv.structures.classes import Multiclass

from ..covering import slow_unless
from ..estimators.cases import mails
from ..oracles.cases import NOISE, Spots
from .cases import made, margins_of

D = 4


# Quarters, so that sums and products by powers of two are exact and ties are common.
quarters = st.integers(-12, 12).map(lambda k: k / 4)


anything = st.floats(-1e3, 1e3, width=32) | quarters


word_oracles = st.builds(FDrop, st.integers(0, 3)) | st.builds(
    FScale, st.integers(0, 3), st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from([1.0, 2.0, 8.0])
)


either = word_oracles | st.builds(lambda left, right: left | right, word_oracles, word_oracles)


many = settings(max_examples=50)


@st.composite
def problems(draw, numbers, oracles=word_oracles, dtype=np.float64, n=3):
    """Return a model of two to four classes, rows and labels."""
    n_outputs = draw(st.sampled_from([1, 3, 4]))
    coef = draw(arrays(dtype, (n_outputs, D), elements=numbers))
    intercept = draw(arrays(dtype, n_outputs, elements=numbers))
    X = draw(arrays(dtype, (n, D), elements=numbers))
    y = draw(arrays(np.int64, n, elements=st.integers(0, max(n_outputs, 2) - 1)))
    return made(coef, intercept, draw(oracles), dtype), X, y


@cache
def choices(most):
    """For each word 0 or, for at most so many of them, 1 or 2."""
    every = np.array(list(product(range(3), repeat=D)))
    return every[np.count_nonzero(every, axis=1) <= most]


def edits(oracle, x):
    """Return all candidates for the worst case in S(x): edited words at extreme factors."""
    if isinstance(oracle, (FDrop, FScale)):
        return x * np.array([1.0, *oracle.factors], x.dtype)[choices(oracle.max_changes)]
    return np.concatenate([edits(oracle.left, x), edits(oracle.right, x)])


def lowest(model, X, y):
    return np.array(
        [margins_of(model, edits(model.oracle, x), label).min() for x, label in zip(X, y, strict=True)]
    )


@many
@given(problems(quarters, either))
def test_certified_is_robust_to_the_bit(problem):
    model, X, y = problem
    worst = lowest(model, X, y)
    certificate = model.certify(X, y)
    # A union's parts see the same ends, so that enumeration is exact for it, too.
    np.testing.assert_array_equal(certificate.attacked, worst)
    np.testing.assert_allclose(certificate.margins, worst, rtol=0, atol=1e-11)
    assert np.all(certificate.margins <= worst)
    assert np.all(certificate.exact)
    assert np.array_equal(certificate.correct, worst > 0)
    assert certificate.accuracy == np.mean(worst > 0) == certificate.attacked_accuracy
    assert certificate.accuracy <= model.score(X, y)


@many
@given(problems(anything, either))
def test_no_edit_beats_the_certificate(problem):
    model, X, y = problem
    certificate = model.certify(X, y)
    worst = lowest(model, X, y)
    assert np.all(certificate.margins <= worst)
    size = 1 + np.abs(X).max() * np.abs(model.coef_).max() + np.abs(model.intercept_).max()
    np.testing.assert_allclose(certificate.margins, worst, rtol=0, atol=1e-12 * 8 * D * size)
    sparse = model.certify(sp.csr_matrix(X), y)
    np.testing.assert_allclose(sparse.margins, worst, rtol=0, atol=1e-12 * 8 * D * size)
    assert np.all(sparse.margins <= worst)
    for x, label, correct in zip(X, y, certificate.correct, strict=True):
        if correct:
            assert np.all(model.predict(edits(model.oracle, x)) == label)


@many
@given(problems(st.floats(-100, 100, width=32), word_oracles, np.float32))
def test_single_precision_is_not_optimistic(problem):
    model, X, y = problem
    certificate = model.certify(X, y)
    for x, label, bound in zip(X, y, certificate.margins, strict=True):
        Z = edits(model.oracle, x)
        assert Z.dtype == np.float32
        assert np.all(margins_of(model, Z, label) >= bound)
        if bound > 0:
            assert np.all(model.predict(Z) == label)


@pytest.mark.parametrize(("dtype", "tiny"), [(np.float32, 1e-41), (np.float64, 1e-310)])
def test_products_that_become_zero_are_not_certified(dtype, tiny):
    X = np.full((2, D), 1e-6, dtype)
    for coef in (np.full((1, D), tiny), np.outer([0.0, 1.0, -1.0], np.full(D, tiny))):
        model = made(coef, np.zeros(len(coef)), FDrop(0), dtype)
        correct = model.certify(X, [1, 1]).correct
        assert np.all(model.predict(X)[correct] == 1)


@pytest.mark.parametrize(("dtype", "shared"), [(np.float32, 1e4), (np.float64, 1e12)])
def test_cancelled_terms_count_as_rounding_errors(dtype, shared):
    rng = np.random.default_rng(0)
    X = np.abs(rng.standard_normal((20_000, D))).astype(dtype)
    small = 0.1 * rng.standard_normal((3, D))
    by_weights = made(small + shared, np.zeros(3), FDrop(0), dtype)
    by_intercepts = made(small, np.full(3, shared), FDrop(0), dtype)
    for model in (by_weights, by_intercepts):
        predicted = model.predict(X)
        for label in range(3):
            correct = model.certify(X, np.full(len(X), label)).correct
            assert np.all(predicted[correct] == label)
            assert np.any(correct) == np.any(predicted == label)


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_a_margin_of_zero_is_not_correct(n_outputs):
    model = made(np.zeros((n_outputs, D)), np.zeros(n_outputs), FDrop(1))
    X, y = np.ones((4, D)), np.zeros(4, dtype=int)
    certificate = model.certify(X, y)
    assert model.score(X, y) == 1.0
    assert certificate.margins.tolist() == [0.0] * 4
    assert certificate.accuracy == certificate.attacked_accuracy == 0.0
    assert np.all(certificate.exact)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_without_labels_the_prediction_is_certified(n_classes):
    X, y = mails(n_classes=n_classes)
    y[:6] = y[1:7]
    model = InvariantLinearSVC(FDrop(1), random_state=0).fit(X, y)
    predicted = model.predict(X)
    assert np.any(predicted != y)
    certificate, wanted = model.certify(X), model.certify(X, predicted)
    assert np.array_equal(certificate.margins, wanted.margins)
    assert certificate.accuracy > model.certify(X, y).accuracy
    assert np.array_equal(model.worst_case(X), model.worst_case(X, predicted))


class Inexact(InvarianceOracle):
    """`FDrop` that finds only a part of the worst case, or has only a loose bound."""

    supports_sparse = True

    def __init__(self, kind, max_changes=1):
        self.kind = kind
        self.max_changes = max_changes

    def support(self, X, V, assign, cost=None):
        exact = FDrop(self.max_changes).support(X, V, assign)
        best = np.einsum("nd,nd->n", exact.points, V[assign])
        if self.kind == "infinite":
            return Support(exact.points, np.full(len(assign), np.inf))
        if self.kind == "loose":
            return Support(exact.points, best + 0.5)
        return Support(X, best)  # knows the bound, finds nothing


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("kind", ["infinite", "loose", "blind"])
def test_inexact_oracles_are_never_exact(kind, n_classes):
    X, y = mails(n_classes=n_classes)
    model = InvariantLinearSVC(FDrop(1), C=0.05, random_state=0).fit(X, y)
    exact = model.certify(X, y)
    certificate = model.set_params(oracle=Inexact(kind)).certify(X, y)
    # The same margins, summed up in another order.
    assert np.all(certificate.margins <= exact.margins + 1e-12)
    assert np.all(certificate.attacked >= exact.attacked - 1e-12)
    if kind == "infinite":
        assert np.all(certificate.margins == -np.inf)
        assert certificate.accuracy == 0.0
        assert not np.any(certificate.exact)
        np.testing.assert_allclose(certificate.attacked, exact.attacked, rtol=0, atol=1e-12)
    elif kind == "loose":
        np.testing.assert_allclose(certificate.margins, exact.margins - 0.5, rtol=0, atol=1e-12)
        assert not np.any(certificate.exact)
        assert 0 < certificate.accuracy < exact.accuracy
    else:
        np.testing.assert_allclose(certificate.margins, exact.margins, rtol=0, atol=1e-12)
        assert np.mean(certificate.exact) < 0.5


@cache
def best_of_mails():
    """The optimum with the exact oracle."""
    X, y = mails()
    return InvariantLinearSVC(FDrop(1), C=0.05, random_state=0).fit(X, y).solution_


# Pegasos takes its longest time for each kind.
@pytest.mark.parametrize(
    ("kind", "solver"),
    slow_unless(
        lambda kind, solver: solver != "pegasos" or kind == "infinite",
        list(product(["infinite", "loose", "blind"], sorted(REGISTRY))),
    ),
)
def test_inexact_oracles_never_converge(kind, solver):
    X, y = mails()
    model = InvariantLinearSVC(Inexact(kind), C=0.05, solver=solver, random_state=0)
    with pytest.warns(ConvergenceWarning) as told:
        model.fit(X, y)
    assert model.solution_.status in (Status.ORACLE_TOO_COARSE, Status.STALLED)
    assert model.solution_.relative_gap > model.tol
    best = best_of_mails()
    assert model.solution_.dual <= best.primal
    assert model.solution_.primal >= best.dual
    if kind == "infinite":
        assert model.solution_.status is Status.ORACLE_TOO_COARSE
        assert "use an exact oracle" in str(told[0].message)
        # What it finds is the best there is, so that it trains as well as the exact one.
        losses = np.maximum(0.0, 1.0 - model.certify(X, y).attacked)
        norm = np.sum(model.coef_**2) + np.sum(model.intercept_**2)
        assert 0.5 * norm + 0.05 * np.sum(losses) <= (1 + 2e-3) * best.primal


def test_another_oracle_may_be_certified():
    X, y = mails(d=D)
    model = InvariantLinearSVC(FDrop(1), C=0.1, random_state=0).fit(X, y)
    other = FScale(2)
    certificate, worst = model.certify(X, y, oracle=other), model.worst_case(X, y, oracle=other)
    assert model.oracle.max_changes == 1
    model.set_params(oracle=other)
    assert np.array_equal(certificate.margins, model.certify(X, y).margins)
    assert np.array_equal(worst, model.worst_case(X, y))
    assert np.array_equal(model.worst_case(X, y, oracle=Identity()), X)
    for method in (model.certify, model.worst_case):
        with pytest.raises(TypeError, match="oracle must be an InvarianceOracle"):
            method(X, y, oracle="fdrop")
        with pytest.raises(ValueError, match="max_changes must be an integer of at least 0"):
            method(X, y, oracle=FDrop(-1))


def test_rows_in_single_precision_are_rounded_themselves():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((200, 64)), np.arange(200) % 2
    model = InvariantLinearSVC(Box(0.1), C=0.01, random_state=0).fit(X, y)
    few = X[:50].astype(np.float32)
    margins = model.certify(few, y[:50]).margins
    signs = np.where(y[:50] == 1, 1.0, -1.0)
    score = few.astype(np.float64) @ model.coef_[0] + model.intercept_[0]
    worst = signs * score - 0.1 * np.abs(model.coef_[0]).sum()
    assert np.all(margins <= worst)


def test_without_labels_rows_of_every_label_may_change():
    rng = np.random.default_rng(0)
    X, y = rng.poisson(1.0, (40, 6)).astype(float), np.arange(40) % 2
    X[y == 1, :3] += 1.0
    some, every = FDrop(2).only_for(1), FDrop(2)
    for model in (InvariantLinearSVC(some, random_state=0).fit(X, y), LinearSVC().fit(X, y)):
        predicted = model.predict(X)
        for kept in (some, some | FDrop(1)):
            found = certify(model, kept, X).margins
            np.testing.assert_allclose(found, certify(model, every, X, predicted).margins, atol=1e-12)
        assert np.any(found < certify(model, some, X, predicted).margins)


def test_the_first_of_equal_members_attacks_a_kernel_machine():
    ones = np.ones((1, 9))
    for noise in NOISE:
        kernel = CallableKernel(lambda A, B, noise=noise: (A * (1 + noise)) @ B.T)
        model = InvariantSVC(kernel=kernel, C=1.0, tol=1e-6).fit(np.vstack([ones, -ones]), [1, 0])
        assert model.worst_case(-ones, [0], oracle=Spots()).tolist() == (np.eye(9)[:1] - ones).tolist()


def test_the_first_of_equal_labels_is_the_strongest_competitor():
    labels, ones = Multiclass().bind(np.array([1]), np.arange(4)), np.ones((1, 9))
    for noise in NOISE:
        coef = np.zeros((4, 9))
        coef[:, 0] = [2.0, 5.0, 2.0, 2.0] * (1 + noise[:4])
        change = worst_change(coef, np.zeros(4), FDrop(0), labels, ones)
        assert change.labels.tolist() == [1]
        wrong = worst_change(-coef, np.zeros(4), FDrop(0), labels, ones)
        assert wrong.labels.tolist() == [0]
