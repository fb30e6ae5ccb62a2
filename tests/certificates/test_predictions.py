"""Attacked margins are those of the model at its worst cases."""

from functools import cache, partial

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.feature_extraction.text import CountVectorizer

from structinv import InvariantLinearSVR, InvariantStructuredSVC, InvariantTextClassifier
from structinv.oracles import FDrop, Identity, Protected, Rotations, Scalings, Shears, Shifts
from structinv.structures import Multilabel, Sequence

from ..covering import pairs
from ..margins import margins
from .cases import distance, fitted

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


@cache
def all_digits():
    return load_digits(return_X_y=True)


@cache
def fitted_to(kind, classes):
    """A model of these digits, which no test changes, and twenty rows that it has not seen."""
    X, digits = all_digits()
    rows = np.flatnonzero(np.isin(digits, classes))
    model = fitted(kind, X[rows[:60]] / 16, digits[rows[:60]])
    if kind == "linear":
        model.coef_ = np.random.default_rng(0).standard_normal(model.coef_.shape)
    return model, X[rows[60:80]] / 16, digits[rows[60:80]]


@pytest.mark.parametrize(
    ("kind", "name", "classes"), pairs(["linear", "kernel"], list(COARSE), [(3, 8, 9), (1, 4, 7, 9)])
)
def test_the_attacked_margin_is_reached_between_the_points_of_a_coarse_cover(kind, name, classes):
    model, X, y = fitted_to(kind, classes)
    assert distance(model, COARSE[name], X, y) <= 1.0


def test_the_worst_case_of_a_regression_is_the_member_furthest_from_the_target():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((24, 5))
    # Targets on both sides of the predictions, and far from zero.
    y = X @ np.array([2.0, -1.0, 0.5, 0.0, 1.0]) + rng.standard_normal(24) + 4.0
    model = InvariantLinearSVR(FDrop(1), random_state=0).fit(X, y)
    members = np.stack([X, *(X * (np.arange(5) != j) for j in range(5))], axis=1)
    values = members @ model.coef_[0] + model.intercept_
    for targets in (y, y + 10.0, y - 10.0):
        reached = model.predict(model.worst_case(X, targets))
        furthest = np.abs(values - targets[:, None]).max(axis=1)
        np.testing.assert_allclose(np.abs(reached - targets), furthest, atol=1e-9)
    found = model.certify(X)
    np.testing.assert_allclose(found.lowest, values.min(axis=1), atol=1e-9)
    np.testing.assert_allclose(found.highest, values.max(axis=1), atol=1e-9)


def digits_in_pairs(first, last):
    X, digits = all_digits()
    cuts = range(first, last, 2)
    return [X[i : i + 2] / 16 for i in cuts], [digits[i : i + 2] % 4 for i in cuts]


def digits_with_labels(n_labels, first, last):
    X, digits = all_digits()
    known = [np.isin(np.arange(10), group) for group in ([1, 4, 7], [3, 8, 9], [5, 6, 7, 8, 9])]
    more = np.random.default_rng(0).random((n_labels - 3, 10)) < 0.5
    return X[first:last] / 16, np.stack([*known, *more], axis=1)[digits[first:last]].astype(int)


@pytest.mark.parametrize(
    ("structure", "kernel", "data", "last", "names"),
    [
        (Sequence(), "linear", digits_in_pairs, 72, ("rotations, nearest", "composed")),
        (Sequence(), "rbf", digits_in_pairs, 72, ("rotations, nearest",)),
        (Multilabel(), "linear", partial(digits_with_labels, 3), 72, ("composed",)),
        (Multilabel(), "linear", partial(digits_with_labels, 13), 68, ("rotations, nearest",)),
    ],
    ids=["sequence", "sequence, kernel", "3 labels", "13 labels"],
)
def test_the_attacked_margin_of_labelings_is_that_at_the_worst_case(
    structure, kernel, data, last, names
):
    model = InvariantStructuredSVC(structure, kernel=kernel, gamma=0.1, tol=0.5, random_state=0)
    model.fit(*data(0, 60))
    if kernel == "linear":
        model.coef_ = np.random.default_rng(0).standard_normal(model.coef_.shape)
    X, y = data(64, last)
    for name in names:
        certificate = model.certify(X, y, oracle=COARSE[name])
        at = model.certify(model.worst_case(X, y, oracle=COARSE[name])[0], y, oracle=Identity())
        np.testing.assert_allclose(certificate.attacked, at.attacked, rtol=1e-12, atol=1e-11)
        assert np.all(certificate.margins <= at.attacked)


def test_a_cover_with_a_kernel_and_several_labels_per_row_raises_an_error():
    X, y = digits_with_labels(3, 0, 40)
    model = InvariantStructuredSVC(Multilabel(), kernel="rbf", tol=0.5, random_state=0).fit(X, y)
    for method in (model.certify, model.worst_case):
        with pytest.raises(ValueError, match="oracle must be finite if functions are not linear in x"):
            method(X, y, oracle=COARSE["rotations"])


@pytest.mark.parametrize("edit", ["drop", "add", "replace", "edit"])
@pytest.mark.parametrize("ngram_range", [(1, 1), (1, 2), (2, 2)])
@pytest.mark.filterwarnings("ignore::structinv.utils.exceptions.UninformativeFitWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_attacked_margin_of_a_text_is_that_of_the_edited_text(edit, ngram_range):
    for seed, n_classes in [(0, 2), (1, 4), (2, 3)]:
        rng, y = np.random.default_rng([seed, n_classes]), np.arange(16) % n_classes
        texts = [" ".join(rng.choice([f"w{i}" for i in range(12)], rng.integers(2, 7))) for _ in y]
        vectorizer = CountVectorizer(ngram_range=ngram_range)
        # Whatever the weights are: they are drawn.
        model = InvariantTextClassifier(edit, 2, vectorizer, C=1e-3, tol=0.5, random_state=0)
        model.fit(texts, y)
        model.coef_ = rng.standard_normal(model.coef_.shape)
        certificate = model.certify(texts, y)
        reached = margins(model, model.worst_case(texts, y), y)
        np.testing.assert_allclose(certificate.attacked, reached, rtol=1e-12, atol=1e-12)
        assert np.all(certificate.margins <= reached)
