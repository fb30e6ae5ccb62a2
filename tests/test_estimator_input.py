"""What all estimators say of parameters and labels, whichever of them is asked."""

from functools import partial
from inspect import signature

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier
from sklearn.exceptions import DataConversionWarning
from sklearn.linear_model import LogisticRegression
from sklearn.utils import get_tags

from structinv import InvariantLinearSVC, InvariantTextClassifier, certify
from structinv.estimators import REGISTRY
from structinv.inspection import explain_edit
from structinv.oracles import Box, FDrop, Shifts

X = np.random.default_rng(0).standard_normal((12, 4))
Y = np.arange(12) % 2
TEXTS = [("free money", "see you")[label] for label in Y]

# Those of rows; examples of several rows are asked for a structure first.
OF_ROWS = [kind for kind in REGISTRY.values() if "structure" not in signature(kind).parameters]
BOOLEANS = [
    (kind, name)
    for kind in OF_ROWS
    for name, default in kind().get_params(deep=False).items()
    if isinstance(default, bool)
]


def inputs(kind):
    """What the estimators of a class take."""
    return TEXTS if get_tags(kind()).input_tags.string else X


@pytest.mark.parametrize("kind", OF_ROWS)
def test_weights_without_numbers_are_refused_by_name(kind):
    if "sample_weight" not in signature(kind.fit).parameters:
        return
    for weights in ("balanced", ["heavy"] * len(Y)):
        with pytest.raises(ValueError, match="sample_weight must contain numbers: could not convert"):
            kind().fit(inputs(kind), Y, sample_weight=weights)


@pytest.mark.parametrize("kind", [kind for kind in OF_ROWS if inputs(kind) is X])
@pytest.mark.parametrize(
    "container", [list, tuple, np.array, partial(np.array, dtype=object), pd.Series]
)
def test_texts_are_for_the_classifier_of_texts(kind, container):
    with pytest.raises(ValueError, match="got 12 texts: pass them to InvariantTextClassifier"):
        kind().fit(container(TEXTS), Y)


def test_texts_are_refused_after_the_fit():
    model = InvariantLinearSVC(Box(0.1), random_state=0).fit(X, Y)
    for method in (model.predict, model.certify, model.worst_case):
        with pytest.raises(ValueError, match="X must contain numbers, got 12 texts"):
            method(TEXTS)


def test_parameters_of_an_absent_oracle_are_refused():
    with pytest.raises(ValueError, match="oracle__radius requires an oracle, got oracle=None"):
        InvariantLinearSVC().set_params(oracle__radius=1.0)
    with pytest.raises(ValueError, match="vectorizer__min_df requires a vectorizer, got"):
        InvariantTextClassifier().set_params(vectorizer__min_df=2)
    model = InvariantLinearSVC().set_params(oracle=Box(0.1), oracle__radius=1.0)
    assert model.oracle.radius == 1.0


@pytest.mark.parametrize("rho", ["x", [1, "x"], [1, [2]], None, float("nan")], ids=str)
def test_grades_without_numbers_are_refused_by_name(rho):
    for oracle in (Box(0.1), FDrop(1), Shifts(1, shape=(2, 2))):
        with pytest.raises(ValueError, match="rho must be a number or a sequence of numbers in"):
            InvariantLinearSVC(oracle.discounted(rho)).fit(X, Y)


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [(*BOOLEANS[0], value) for value in ("no", 1, 0.0)] + [(*each, None) for each in BOOLEANS],
)
def test_a_switch_is_true_or_false(kind, name, value):
    with pytest.raises(TypeError, match=f"{name} must be True or False, got {value!r}"):
        kind(**{name: value}).fit(inputs(kind), Y)


def labels(kinds):
    """As an array of objects and as a list."""
    y = (list(kinds) * 12)[:12]
    return [np.array(y, dtype=object), y]


CLASSIFIERS = [kind for kind in OF_ROWS if is_classifier(kind())]
FULL = [kind for kind in CLASSIFIERS if "unlabeled" not in kind().get_params()]
PARTIAL = [kind for kind in CLASSIFIERS if kind not in FULL]
ASKED = ["fit", "estimate_memory"]


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize(
    ("kinds", "named"),
    [
        (("a", "b", None), "None and strings; remove rows without a label"),
        ((None, 1, 0), "None and numbers; remove rows without a label"),
        (("a", "b", 1), "numbers and strings"),
        ((b"a", "b"), "bytes and strings"),
        ((None,), "None; remove rows"),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", FULL)
def test_labels_of_several_kinds_are_refused_by_name(kind, kinds, named, asked):
    for y in labels(kinds):
        with pytest.raises(TypeError, match=f"y must contain labels of one kind, got {named}"):
            getattr(kind(), asked)(inputs(kind), y)


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("kind", PARTIAL)
def test_none_is_no_mark_for_rows_without_a_label(kind, asked):
    for mark, said in (
        ("auto", "use the number -1 for rows without a label, not None"),
        ("?", r"use '\?' \(unlabeled='\?'\) for rows without a label, not None"),
        (None, "with unlabeled=None every row requires a label"),
    ):
        for y in labels(("a", "b", None)):
            with pytest.raises(TypeError, match=f"y must .* got None and strings; {said}"):
                getattr(kind(unlabeled=mark), asked)(X, y)
    for y in labels(("a", "b", -1)):
        getattr(kind(), asked)(X, y)


def test_labels_of_several_kinds_elsewhere():
    model = InvariantLinearSVC(Box(0.1), solver="pegasos", random_state=0)
    for y in labels(("a", "b", None)):
        with pytest.raises(TypeError, match="y must contain labels of one kind"):
            model.partial_fit(X, y)
    model.fit(X, labels("ab")[0])
    for y in labels(("a", "b", None)):
        for ask in (model.certify, model.worst_case):
            with pytest.raises(TypeError, match="y must contain labels of one kind"):
                ask(X, y)


def column_warns(ask, y):
    with pytest.warns(DataConversionWarning, match="A column-vector y was passed"):
        return ask(y)


def test_a_column_of_labels_is_taken_everywhere_as_in_fit():
    column = Y[:, None]
    model = InvariantLinearSVC(Box(0.1), solver="pegasos", random_state=0)
    fitted = column_warns(lambda y: clone(model).fit(X, y), column)
    np.testing.assert_array_equal(fitted.predict(X), clone(model).fit(X, Y).predict(X))
    batch = column_warns(lambda y: clone(model).partial_fit(X, y), column)
    np.testing.assert_array_equal(batch.coef_, clone(model).partial_fit(X, Y).coef_)
    for ask in (
        lambda y: fitted.certify(X, y).margins,
        lambda y: fitted.worst_case(X, y),
        lambda y: certify(fitted, None, X, y).margins,
        lambda y: certify(LogisticRegression().fit(X, Y), Box(0.1), X, y).margins,
        lambda y: fitted.estimate_memory(X, y),
    ):
        np.testing.assert_array_equal(column_warns(ask, column), ask(Y))
    assert fitted.score(X, column) == fitted.score(X, Y)
    explained = column_warns(lambda y: explain_edit(fitted, X[:1], y), column[:1])
    np.testing.assert_array_equal(explained.changes, explain_edit(fitted, X[:1], Y[:1]).changes)
    for wrong in (np.stack([Y, Y], axis=1), Y[None], column[:-1]):
        with pytest.raises(ValueError, match=r"y must have shape \(12,\), one label per row"):
            fitted.certify(X, wrong)


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_a_column_of_labels_warns_in_every_fit(kind):
    rows = inputs(kind)
    if hasattr(kind, "certify"):
        model = column_warns(lambda y: kind(random_state=0).fit(rows, y), Y[:, None])
        found = column_warns(lambda y: model.certify(rows, y), Y[:, None])
        np.testing.assert_array_equal(found.margins, model.certify(rows, Y).margins)
    column_warns(lambda y: kind().fit(rows, y), Y[:, None])
