"""Fits with changes that leave next to nothing to learn say so, and no others do."""

import warnings

import numpy as np
import pytest

from structinv import (
    InvariantLinearSVC,
    InvariantStructuredSVC,
    InvariantSVC,
    RepresenterClassifier,
    UninformativeFitWarning,
)
from structinv.datasets import make_mail_like
from structinv.oracles import Box, FDrop, FScale, Identity, Shifts
from structinv.structures import Sequence


def short_mails(n=80, d=20, n_classes=2, seed=0):
    """A few words a mail, each of which leans to a class."""
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % n_classes
    own = (np.arange(d) % n_classes) == codes[:, None]
    return (rng.random((n, d)) < np.where(own, 0.3, 0.05)).astype(float), np.array(["a", "b", "c"])[
        codes
    ]


def strokes():
    """Images of one dot, left or right: a shift makes each of the other."""
    X = np.zeros((8, 16))
    X[np.arange(8), [0, 4, 8, 12, 2, 6, 10, 14]] = 1.0
    return X, np.repeat(["left", "right"], 4)


def warned(model, X, y):
    """The warnings of a fit that are looked at here."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    return [each for each in caught if issubclass(each.category, UninformativeFitWarning)]


SHIFTS = Shifts(2, shape=(4, 4), fill="wrap")
NOTHING_LEFT = {
    "words": (InvariantLinearSVC(FDrop(10), random_state=0), short_mails()),
    "three classes": (InvariantLinearSVC(FDrop(20), random_state=0), short_mails(n_classes=3)),
    "factors": (InvariantLinearSVC(FScale(20, 0.0, 9.0), random_state=0), short_mails()),
    "kernel": (InvariantSVC(SHIFTS, gamma=1.0, random_state=0), strokes()),
    "representers": (
        RepresenterClassifier(gamma=1.0, oracle=SHIFTS, loss="hinge", random_state=0),
        strokes(),
    ),
}


@pytest.mark.parametrize("name", NOTHING_LEFT)
def test_a_constant_classifier_says_so(name):
    model, (X, y) = NOTHING_LEFT[name]
    (found,) = warned(model, X, y)
    assert len(set(model.predict(X))) == 1
    message = str(found.message)
    assert message.startswith(f"{type(model).__name__}: the perturbations of ")
    assert f"all {len(X)} training rows are predicted {model.predict(X)[0]}" in message
    assert "select_changes" in message
    assert found.filename == __file__


def test_a_tagger_whose_tokens_may_lose_all_they_have_says_so():
    # Every labeling of one or two tokens is as frequent as any other.
    y = [[0], [1], [0, 0], [0, 1], [1, 0], [1, 1]] * 4
    X = [np.eye(2)[labels] for labels in y]
    model = InvariantStructuredSVC(Sequence(), oracle=FDrop(1), random_state=0)
    (found,) = warned(model, X, y)
    assert str(found.message).startswith(
        "InvariantStructuredSVC: the perturbations of FDrop(max_changes=1) "
    )
    assert found.filename == __file__
    assert not warned(model.set_params(oracle=None), X, y)
    assert not warned(model.set_params(oracle=Box(0.1)), X, y)
    assert model.score(X, y) == 1.0


def test_a_function_that_wins_next_to_nothing():
    X = np.array([[1.0], [-1.0]] * 5)
    y = np.array([1, 0] * 5)
    model = InvariantLinearSVC(Box(0.95), C=0.1, fit_intercept=False, tol=1e-6)
    (found,) = warned(model, X, y)
    # It is right, and its slope is a twentieth of what it is without changes.
    assert model.score(X, y) == 1.0
    assert "improves by less than 1% on that of scores 0" in str(found.message)
    assert not warned(model.set_params(oracle=Box(0.5)), X, y)


def rare(share):
    """A class so rare that a plain machine with little C predicts the other for all rows."""
    rng = np.random.default_rng(0)
    y = (np.arange(200) < 200 * share).astype(int)
    return 0.3 * rng.standard_normal((200, 3)) + 0.1 * y[:, None], y


QUIET = {
    "mild changes": (InvariantLinearSVC(FDrop(1)), short_mails()),
    "nothing may change": (InvariantLinearSVC(C=1e-9), short_mails()),
    "nothing may change, by name": (InvariantLinearSVC(Identity(), C=1e-9), short_mails()),
    "no oracle": (RepresenterClassifier(gamma=1.0, C=1e-9), strokes()),
}


@pytest.mark.parametrize("name", QUIET)
def test_no_false_alarms(name):
    model, (X, y) = QUIET[name]
    assert not warned(model.set_params(random_state=0), X, y)


def test_a_rare_class_may_be_hidden():
    X, y = rare(0.1)
    X[y == 1] += 1.0
    assert not warned(InvariantLinearSVC(Box(0.1), random_state=0), X, y)
    (found,) = warned(InvariantLinearSVC(Box(1.0), random_state=0), X, y)
    assert "all 200 training rows are predicted 0 (90% correct)" in str(found.message)


def test_rows_count_by_their_weight():
    X, y = rare(0.1)
    X[y == 1] += 1.0
    model = InvariantLinearSVC(Box(1.0), class_weight="balanced", random_state=0)
    (found,) = warned(model, X, y)
    assert "(50% correct, by weight)" in str(found.message)


def test_a_warning_made_an_error_leaves_no_half_of_a_model():
    X, y = short_mails()
    model = InvariantLinearSVC(FDrop(10), random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UninformativeFitWarning)
        with pytest.raises(UninformativeFitWarning):
            model.fit(X, y)
    assert not [name for name in vars(model) if name.endswith("_")]


def test_a_constant_model_is_told_of_however_small_the_weight():
    X, y = make_mail_like(random_state=0)
    with pytest.warns(UninformativeFitWarning):
        InvariantLinearSVC(FDrop(10), C=1e-6, random_state=0).fit(X, y)


def test_epsilon_is_named_where_it_may_be_what_leaves_nothing():
    X, y = np.eye(16)[[2, 10]], np.array(["first", "last"])
    near = Shifts(1, shape=(1, 16), fill="wrap")
    (found,) = warned(InvariantSVC(near, gamma=1.0, plane_tol=1.5, random_state=0), X, y)
    assert "with this plane_tol, leave almost nothing" in str(found.message)
    assert "a smaller plane_tol" in str(found.message)
    assert not warned(InvariantSVC(near, gamma=1.0, random_state=0), X, y)
