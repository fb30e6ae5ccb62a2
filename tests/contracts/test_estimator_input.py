"""What all estimators say of parameters, of labels, and of labels that parameters name."""

from functools import partial
from inspect import signature

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import StackingClassifier, VotingClassifier
from sklearn.exceptions import DataConversionWarning
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.utils import get_tags

from structinv import InvariantLinearSVC, InvariantStructuredSVC, InvariantTextClassifier, certify
from structinv.estimators import REGISTRY
from structinv.inspection import explain_edit
from structinv.oracles import Box, Budget, FDrop, Shifts
from structinv.structures import Multilabel

from ..estimators.cases import CASE, PREDICTORS

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
def test_texts_are_for_the_classifier_of_texts(kind):
    for container in (list, tuple, np.array, partial(np.array, dtype=object), pd.Series):
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


def test_grades_without_numbers_are_refused_by_name():
    for rho in ("x", [1, "x"], [1, [2]], None, float("nan")):
        for oracle in (Box(0.1), FDrop(1), Shifts(1, shape=(2, 2))):
            with pytest.raises(ValueError, match="rho must be a number or a sequence of numbers in"):
                InvariantLinearSVC(oracle.discounted(rho)).fit(X, Y)


def test_a_switch_is_true_or_false():
    for kind, name in BOOLEANS:
        with pytest.raises(TypeError, match=f"{name} must be True or False, got None"):
            kind(**{name: None}).fit(inputs(kind), Y)


def labels(kinds):
    """As an array of objects and as a list."""
    y = (list(kinds) * 12)[:12]
    return [np.array(y, dtype=object), y]


CLASSIFIERS = [kind for kind in OF_ROWS if is_classifier(kind())]
FULL = [kind for kind in CLASSIFIERS if "unlabeled" not in kind().get_params()]
PARTIAL = [kind for kind in CLASSIFIERS if kind not in FULL]
ASKED = ["fit", "estimate_memory"]
OF_SEVERAL_KINDS = [
    (("a", "b", None), "None and strings; remove rows without a label"),
    ((None, 1, 0), "None and numbers; remove rows without a label"),
    (("a", "b", 1), "numbers and strings"),
    ((b"a", "b"), "bytes and strings"),
    ((None,), "None; remove rows"),
]


@pytest.mark.parametrize("kind", FULL)
def test_labels_of_several_kinds_are_refused_by_name(kind):
    """All of them by one class, and one by every class: they share the check."""
    for kinds, named in OF_SEVERAL_KINDS if kind is FULL[0] else OF_SEVERAL_KINDS[:1]:
        for y in labels(kinds):
            for asked in ASKED:
                with pytest.raises(TypeError, match=f"y must contain labels of one kind, got {named}"):
                    getattr(kind(), asked)(inputs(kind), y)


@pytest.mark.parametrize("kind", PARTIAL)
def test_none_is_no_mark_for_rows_without_a_label(kind):
    for mark, said in (
        ("auto", "use the number -1 for rows without a label, not None"),
        ("?", r"use '\?' \(unlabeled='\?'\) for rows without a label, not None"),
        (None, "with unlabeled=None every row requires a label"),
    ):
        for y in labels(("a", "b", None)):
            for asked in ASKED:
                with pytest.raises(TypeError, match=f"y must .* got None and strings; {said}"):
                    getattr(kind(unlabeled=mark), asked)(X, y)
    for y in labels(("a", "b", -1)):
        for asked in ASKED:
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


# Labels that parameters name must be classes of the training labels, also if they are encoded.

NAMING = [
    (case.name, parameter)
    for case in PREDICTORS
    for parameter in ("oracle", "only_for", "class_weight")
    if (case.name == "tagger" or is_classifier(case.estimator))
    and parameter in case.estimator.get_params()
]
ENCODED = "probably encoded y as 0, 1, .*ensemble=True"


def rows():
    """Rows whose second feature has another spread in the second class."""
    rng = np.random.default_rng(0)
    codes = np.arange(40) % 2
    return rng.standard_normal((40, 3)) + 2.0 * codes[:, None], codes


def linear(labels, **parameters):
    return InvariantLinearSVC(Box(0.5).only_for(labels), random_state=0, **parameters)


def classes_of(case):
    flat = [each for part in case.y for each in (part if isinstance(part, list) else [part])]
    return sorted(set(np.asarray(flat).tolist()) - {-1})


@pytest.mark.parametrize(("name", "parameter"), NAMING)
def test_a_named_label_that_y_lacks_raises_an_error_at_fit(name, parameter):
    case, model = CASE[name], clone(CASE[name].estimator)
    known = classes_of(case)
    other = "sapm" if isinstance(known[0], str) else 7
    subject = "class_weight" if parameter == "class_weight" else "only_for"
    if parameter == "class_weight":
        model.set_params(class_weight={**dict.fromkeys(known, 1.0), other: 2.0})
    elif name == "text":
        model.set_params(only_for=[known[0], other])
    elif name == "tagger":
        model.set_params(oracle=Budget(FDrop(1).only_for([known[0], other])))
    else:
        oracle = Shifts(1, shape=(6, 6)) if np.shape(case.X)[1] == 36 else Box(0.1)
        model.set_params(oracle=oracle.only_for([known[0], other]))
    if name == "representers":
        model.set_params(loss="hinge")
    message = f"{subject}: labels must be among the classes .*, got {other!r}"
    with pytest.raises(ValueError, match=message):
        model.fit(case.X, case.y)
    assert not hasattr(model, "classes_")


def test_several_labels_per_row_and_batches_of_a_stream_are_checked():
    X, codes = rows()
    several = InvariantStructuredSVC(Multilabel(), class_weight={0: 1.0, 7: 2.0})
    with pytest.raises(ValueError, match="class_weight: labels must be among the classes"):
        several.fit(X, np.c_[codes, 1 - codes])
    model = linear([0, 7], solver="pegasos")
    with pytest.raises(ValueError, match="only_for: labels must be among the classes"):
        model.partial_fit(X, codes, classes=[0, 1])
    model.set_params(oracle=Box(0.5).only_for(2)).partial_fit(X, codes, classes=[0, 1, 2])
    assert model.classes_.tolist() == [0, 1, 2]


@pytest.mark.parametrize("named", ["spam", ["ham", "spam"]])
@pytest.mark.parametrize(
    "fit",
    [
        lambda model, X, y: cross_val_predict(model, X, y, method="decision_function"),
        lambda model, X, y: CalibratedClassifierCV(model, ensemble=False).fit(X, y),
        lambda model, X, y: VotingClassifier([("model", model)]).fit(X, y),
        lambda model, X, y: StackingClassifier([("model", model)]).fit(X, y),
    ],
    ids=["cross_val_predict", "calibrated", "vote", "stack"],
)
def test_encoded_string_labels_are_named_as_the_cause(fit, named):
    X, codes = rows()
    with pytest.raises(ValueError, match=ENCODED):
        fit(linear(named), X, np.array(["ham", "spam"])[codes])


@pytest.mark.parametrize(
    "model",
    [linear(2), InvariantLinearSVC(class_weight={2: 3.0}), InvariantTextClassifier(only_for="spam")],
    ids=str,
)
def test_other_encoded_labels_are_recognized_by_a_missing_label(model):
    texts = isinstance(model, InvariantTextClassifier)
    X, y = (CASE["text"].X, CASE["text"].y) if texts else (rows()[0], rows()[1] + 1)
    with pytest.raises(ValueError, match=ENCODED):
        cross_val_predict(model, X, y, method="decision_function", cv=2)


def test_a_label_of_another_type_is_named():
    X, y = np.eye(4), [0, 0, 1, 1]
    for model in (
        InvariantLinearSVC(Box(0.1).only_for("1")),
        InvariantLinearSVC(class_weight={"1": 2.0}),
    ):
        with pytest.raises(ValueError, match=r"got '1': pass 1, which has the type of y$"):
            model.fit(X, y)


def test_another_unknown_label_is_not_explained_by_encoding():
    X, codes = rows()
    with pytest.raises(ValueError, match="only_for") as raised:
        linear("sapm").fit(X, np.array(["ham", "spam"])[codes])
    assert "encoded" not in str(raised.value)


def test_the_ways_in_the_message_work():
    X, codes = rows()
    names = np.array(["ham", "spam"])[codes]
    cross_val_predict(linear(1), X, codes, method="decision_function", cv=2)
    calibrated = CalibratedClassifierCV(linear("spam"), ensemble=True, cv=2).fit(X, names)
    assert calibrated.score(X, names) > 0.8
    model = linear("spam").fit(X[:20], names[:20])
    frozen = CalibratedClassifierCV(FrozenEstimator(model), ensemble=False).fit(X[20:], names[20:])
    assert frozen.score(X, names) > 0.8


def test_a_part_of_the_rows_may_lack_a_class():
    X, codes = rows()
    model = linear([0, 1]).fit(X, codes)
    only = X[codes == 0][:5]
    assert model.certify(only, np.zeros(5, dtype=int)).correct.shape == (5,)
    assert certify(model, Box(0.5).only_for(1), only, np.zeros(5, dtype=int)).correct.shape == (5,)
    with pytest.raises(ValueError, match="only_for: labels must be among the classes"):
        model.certify(only, oracle=Box(0.5).only_for([0, 7]))
