"""The attacked margin is that of the model at the point of `worst_case`, for every oracle."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.feature_extraction.text import CountVectorizer

from structinv import InvariantLinearSVC, InvariantStructuredSVC, InvariantSVC, InvariantTextClassifier
from structinv.oracles import Identity, Protected, Rotations, Scalings, Shears, Shifts
from structinv.oracles.third_party import bind
from structinv.structures import Multilabel, Sequence

from ..covering import one_in
from ..margins import margins
from ..oracles.cases import CASES, D

# Covers so coarse that the search between their points changes the label with the largest score.
COARSE = {
    "rotations": Rotations(interval=(-30, 30), resolution=3, order=3),
    "rotations, nearest": Rotations(interval=(-30, 30), resolution=3, order=0),
    "scalings": Scalings(interval=(0.6, 1.5), resolution=2, order=3),
    "shears": Shears(interval=(-0.6, 0.6), resolution=2, order=3),
    "composed": Rotations(interval=(-30, 30), resolution=3, order=3) @ Shifts(1),
    "protected": Protected(Rotations(interval=(-30, 30), resolution=3, order=3), [10, 20, 21]),
    "union": Scalings(interval=(0.6, 1.5), resolution=2) | Shears(interval=(-0.6, 0.6), resolution=2),
}


def fitted(kind, X, y):
    if kind == "kernel":
        return InvariantSVC(gamma=0.1, C=10.0, tol=0.5, random_state=0).fit(X, y)
    return InvariantLinearSVC(tol=0.5, random_state=0).fit(X, y)


def distance(model, oracle, X, y):
    """The largest difference of attacked and reached margins, in units of the rounding bound."""
    certificate, points = model.certify(X, y, oracle=oracle), model.worst_case(X, y, oracle=oracle)
    labels = model._bound_labels(X, y)
    rounding = model._worst_change(X, labels, oracle, points=False).rounding
    reached = margins(model, points, y)
    assert np.all(certificate.margins <= reached)
    return np.max(np.abs(reached - certificate.attacked) / rounding)


def listed(oracle, X, y):
    try:
        changes = bind(oracle, X, y).changes()
        return changes is not None and changes.grades() is not False
    except NotImplementedError:
        return False


@pytest.mark.parametrize("kind", ["linear", "kernel"])
@pytest.mark.parametrize("case", one_in(3, CASES), ids=str)
def test_the_attacked_margin_is_reached_at_the_worst_case_of_every_oracle(case, kind):
    for n_classes in (2, 3, 4):
        rng, y = np.random.default_rng(n_classes), np.arange(12) % n_classes
        X = rng.standard_normal((12, D)) * (rng.random((12, D)) < 0.8)
        if case.name == "only_for" and n_classes == 2:
            continue
        if kind == "kernel" and not listed(case.oracle, X, y):
            pytest.skip("the oracle has no list, or a cover with grades")
        model = fitted(kind, X, y)
        assert distance(model, case.oracle, X, y) <= 1.0


@pytest.mark.parametrize("kind", ["linear", "kernel"])
@pytest.mark.parametrize("name", COARSE)
def test_the_attacked_margin_is_reached_between_the_points_of_a_coarse_cover(kind, name):
    X, digits = load_digits(return_X_y=True)
    for classes in ([3, 8, 9], [1, 4, 7, 9]):
        rows = np.flatnonzero(np.isin(digits, classes))
        model = fitted(kind, X[rows[:60]] / 16, digits[rows[:60]])
        if kind == "linear":
            model.coef_ = np.random.default_rng(0).standard_normal(model.coef_.shape)
        assert distance(model, COARSE[name], X[rows[60:120]] / 16, digits[rows[60:120]]) <= 1.0


def digits_in_pairs(first, last):
    X, digits = load_digits(return_X_y=True)
    cuts = range(first, last, 2)
    return [X[i : i + 2] / 16 for i in cuts], [digits[i : i + 2] % 4 for i in cuts]


def digits_with_labels(first, last, n_labels):
    X, digits = load_digits(return_X_y=True)
    known = [np.isin(np.arange(10), group) for group in ([1, 4, 7], [3, 8, 9], [5, 6, 7, 8, 9])]
    more = np.random.default_rng(0).random((n_labels - 3, 10)) < 0.5
    return X[first:last] / 16, np.stack([*known, *more], axis=1)[digits[first:last]].astype(int)


@pytest.mark.parametrize(
    ("structure", "kernel", "data"),
    [
        (Sequence(), "linear", digits_in_pairs),
        (Sequence(), "rbf", digits_in_pairs),
        (Multilabel(), "linear", lambda first, last: digits_with_labels(first, last, 3)),
        (Multilabel(), "linear", lambda first, last: digits_with_labels(first, min(last, 72), 13)),
    ],
    ids=["sequence", "sequence, kernel", "3 labels", "13 labels"],
)
def test_the_attacked_margin_of_labelings_is_that_at_the_worst_case(structure, kernel, data):
    model = InvariantStructuredSVC(structure, kernel=kernel, gamma=0.1, tol=0.5, random_state=0)
    model.fit(*data(0, 60))
    if kernel == "linear":
        model.coef_ = np.random.default_rng(0).standard_normal(model.coef_.shape)
    X, y = data(64, 92)
    for name in ("rotations, nearest", "composed"):
        certificate = model.certify(X, y, oracle=COARSE[name])
        at = model.certify(model.worst_case(X, y, oracle=COARSE[name])[0], y, oracle=Identity())
        np.testing.assert_allclose(certificate.attacked, at.attacked, rtol=1e-12, atol=1e-11)
        assert np.all(certificate.margins <= at.attacked)


def test_a_cover_with_a_kernel_and_several_labels_per_row_raises_an_error():
    X, y = digits_with_labels(0, 40, 3)
    model = InvariantStructuredSVC(Multilabel(), kernel="rbf", tol=0.5, random_state=0).fit(X, y)
    for method in (model.certify, model.worst_case):
        with pytest.raises(ValueError, match="oracle must be finite if functions are not linear in x"):
            method(X, y, oracle=COARSE["rotations"])


@pytest.mark.parametrize("edit", ["drop", "add", "replace", "edit"])
@pytest.mark.parametrize("ngram_range", [(1, 1), (1, 2), (2, 2)])
@pytest.mark.filterwarnings("ignore::structinv.utils.exceptions.UninformativeFitWarning")
def test_the_attacked_margin_of_a_text_is_that_of_the_edited_text(edit, ngram_range):
    for seed, n_classes in [(0, 2), (0, 3), (1, 4), (2, 3), (3, 3), (4, 4)]:
        rng, y = np.random.default_rng([seed, n_classes]), np.arange(16) % n_classes
        texts = [" ".join(rng.choice([f"w{i}" for i in range(12)], rng.integers(2, 7))) for _ in y]
        vectorizer = CountVectorizer(ngram_range=ngram_range)
        model = InvariantTextClassifier(edit, 2, vectorizer, tol=0.5, random_state=0)
        model.fit(texts, y)
        model.coef_ = rng.standard_normal(model.coef_.shape)
        certificate = model.certify(texts, y)
        reached = margins(model, model.worst_case(texts, y), y)
        np.testing.assert_allclose(certificate.attacked, reached, rtol=1e-12, atol=1e-12)
        assert np.all(certificate.margins <= reached)
