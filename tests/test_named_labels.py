"""Labels that parameters name must be classes of the training labels, also if they are encoded."""

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import StackingClassifier, VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import cross_val_predict

from structinv import InvariantLinearSVC, InvariantStructuredSVC, InvariantTextClassifier, certify
from structinv.oracles import Box, Budget, FDrop, Shifts
from structinv.structures import Multilabel
from tests.estimator_cases import CASE, PREDICTORS

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
    own = cross_val_predict(linear(1), X, codes, method="decision_function", cv=2)
    halves = [np.arange(40) < 20, np.arange(40) >= 20]
    direct = np.zeros(40)
    for test in halves:
        direct[test] = linear("spam").fit(X[~test], names[~test]).decision_function(X[test])
    np.testing.assert_allclose(own, direct, atol=1e-9)
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
