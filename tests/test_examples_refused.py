"""What looks like labels or numbers of examples and is none: refused, and by name."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

from structinv import (
    CustomStructuredSVC,
    InvariantLinearSVC,
    InvariantStructuredSVC,
    InvariantSVC,
    VirtualSVC,
    certify,
)
from structinv.oracles import FDrop, Shifts
from structinv.structures import Custom, Graph, Multilabel, Sequence, check_custom

RNG = np.random.default_rng(0)
X = [RNG.normal(size=(length, 3)) for length in (3, 3)]
Y = [[0, 1, 1], [1, 0, 0]]
EDGES = [(0, 1), (1, 2)]
TABLE = RNG.normal(size=(6, 3))
SETS = (TABLE[:, :2] > 0).astype(int)


def masked(values):
    values = np.asarray(values)
    return np.ma.array(values, mask=values == values.ravel()[0])


def refuses(error, message, structure, X, y, **more):
    model = InvariantStructuredSVC(structure)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(error, match=message):
            model.fit(X, y, **more)
    assert not [name for name in vars(model) if name.endswith("_")]


MASKED = {
    "rows": (Sequence(), [X[0], masked(X[1])], Y, {}, r"X\[1\] must be an array without a mask"),
    "nodes": (
        Graph(),
        [(masked(each), EDGES) for each in X],
        Y,
        {},
        r"X\[0\] must be an array without a mask",
    ),
    "examples": (Sequence(), masked(X), Y, {}, "X must be an array without a mask"),
    "matrix": (Multilabel(), masked(TABLE), SETS, {}, "X must be an array without a mask"),
    "labels": (
        Sequence(),
        X,
        [Y[0], masked(Y[1])],
        {},
        r"y\[1\] must be an array without a mask.*position_we",
    ),
    "all labels": (Sequence(), X, masked(Y), {}, "y must be an array without a mask.*position_weight"),
    "sets": (Multilabel(), TABLE, masked(SETS), {}, "y must be an array without a mask"),
    "weights": (
        Sequence(),
        X,
        Y,
        {"position_weight": [np.ones(3), masked(np.ones(3))]},
        r"position_weight\[1\] must be an array without a mask",
    ),
    "sample weights": (
        Sequence(),
        X,
        Y,
        {"sample_weight": masked(np.ones(2))},
        "sample_weight must be an array without a mask",
    ),
}


@pytest.mark.parametrize("case", MASKED)
def test_masks_are_not_dropped_silently(case):
    structure, given, labels, more, message = MASKED[case]
    refuses(TypeError, message, structure, given, labels, **more)


def test_predictions_and_certificates_refuse_masks_too():
    model = InvariantStructuredSVC(Sequence(), tol=0.5).fit(X, Y)
    for ask in (model.predict, model.decision_function, model.certify):
        with pytest.raises(TypeError, match=r"X\[0\] must be an array without a mask"):
            ask([masked(X[0])])
    for ask in (model.score, model.certify):
        with pytest.raises(TypeError, match=r"y\[0\] must be an array without a mask"):
            ask(X, [masked(Y[0]), Y[1]])


FRAMES = {
    "column": ([pd.DataFrame({"y": each}) for each in Y], r"y\[0\] must have one dim.*shape \(3, 1\)"),
    "square": ([pd.DataFrame(np.eye(3), columns=list("abc"))] * 2, r"y\[0\] must have one dimension"),
    "row": ([np.array([Y[0]]), Y[1]], r"y\[0\] must have one dimension, got shape \(1, 3\)"),
}


@pytest.mark.parametrize("case", FRAMES)
def test_labels_of_an_example_have_one_dimension(case):
    labels, message = FRAMES[case]
    refuses(ValueError, message, Sequence(), X, labels)


def test_a_frame_of_all_labels_is_refused():
    refuses(TypeError, "y must be a list with labels.* got a DataFrame", Sequence(), X, pd.DataFrame(Y))


MISSING = {
    "numbers": (pd.array([None, 1, 2], dtype="Int64"), "<NA>"),
    "truths": (pd.Series([None, True, False], dtype="boolean"), "<NA>"),
    "objects": ([pd.NA, "a", "b"], "<NA>"),
    "None": ([None, "a", "b"], "None"),
    "None among numbers": (np.array([None, 1, 2]), "None"),
}


@pytest.mark.parametrize("case", MISSING)
def test_what_is_missing_is_no_label(case):
    labels, written = MISSING[case]
    known = [labels[1], labels[2], labels[2]]
    message = rf"y\[1\] must contain labels, got {written}: fill in .* position_weight .* to 0"
    refuses(ValueError, message, Sequence(), X, [known, labels])


@pytest.mark.parametrize("structure", [Sequence(), Multilabel()], ids=repr)
def test_infinities_of_both_signs_are_refused_without_a_warning(structure):
    rows = np.array(X if isinstance(structure, Sequence) else TABLE)
    rows[0][0], rows[-1][-1] = np.inf, -np.inf
    refuses(ValueError, "infinity", structure, rows, SETS if rows.ndim == 2 else Y)


OF_CLASSES = {
    "typo": ("balance", "class_weight must be None, 'balanced' or a dict of labels, got 'balance'"),
    "number": (3, "class_weight must be None, 'balanced' or a dict of labels, got 3"),
    "zeros": ({0: 0.0, 1: 0}, "class_weight must be above 0 for at least one class, got only zeros"),
}


@pytest.mark.parametrize("case", OF_CLASSES)
@pytest.mark.parametrize(
    "estimator",
    [
        InvariantStructuredSVC(Sequence()),
        InvariantStructuredSVC(Multilabel()),
        InvariantLinearSVC(),
        InvariantSVC(),
        VirtualSVC(Shifts(1, shape=(1, 3))),
    ],
    ids=lambda each: type(each).__name__,
)
def test_weights_of_classes_are_refused_by_what_is_allowed(estimator, case):
    class_weight, message = OF_CLASSES[case]
    rows = (TABLE, SETS[:, 0])
    if isinstance(estimator, InvariantStructuredSVC):
        rows = (X, Y) if isinstance(estimator.structure, Sequence) else (TABLE, SETS)
    with pytest.raises(ValueError, match=message):
        clone(estimator).set_params(class_weight=class_weight).fit(*rows)


def test_certify_of_any_classifier_names_that_of_whole_labelings():
    model = InvariantStructuredSVC(Sequence(), tol=0.5).fit(X, Y)
    pipe = Pipeline([("same", FunctionTransformer(validate=False)), ("model", model)])
    for given, message in (
        (pipe, r"pipe\[-1\]\.certify\(pipe\[:-1\]\.transform\(X\), y, oracle="),
        (model, r"model\.certify\(X, y, oracle="),
    ):
        with pytest.raises(TypeError, match=message):
            certify(given, FDrop(1), X, Y)
    assert len(pipe[-1].certify(pipe[:-1].transform(X), Y, oracle=FDrop(1)).margins) == len(X)


def joint_feature(x, y):
    return x[y]


def cost(y, y2):
    return float(y != y2)


def nothing(x, w, y=None):
    """Lacks its return."""
    max(range(len(x)), key=lambda k: x[k] @ w + (y is not None and k != y))


def first(x, w, y=None):
    """Looks at one item only, by the first weight."""
    return 0 if w[0] > -0.1 else 1


def test_an_argmax_that_returns_nothing_is_named():
    custom = Custom(joint_feature, cost, nothing)
    with pytest.raises(TypeError, match="argmax must return a labeling, got None"):
        CustomStructuredSVC(custom).fit(X, [0, 1])
    with pytest.raises(TypeError, match="argmax must return a labeling, got None"):
        check_custom(custom, X, [0, 1], lambda x: range(len(x)))


def test_a_wrong_argmax_is_advised_on_by_its_name():
    rows = [np.array([[1.0], [0.0]])] * 2
    model = CustomStructuredSVC(Custom(joint_feature, cost, first), C=0.2, random_state=0)
    with pytest.warns(ConvergenceWarning, match="'inconsistent'.*argmax.*check_custom") as told:
        model.fit(rows, [1, 1])
    assert not any("oracle" in str(each.message) for each in told)
