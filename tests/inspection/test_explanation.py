"""Explanations of models with a moved threshold, of Pipelines, and with names of features."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.calibration import CalibratedClassifierCV
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV, TunedThresholdClassifierCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler
from sklearn.svm import LinearSVC

from structinv import (
    InvariantLinearSVC,
    InvariantLinearSVR,
    InvariantStructuredSVC,
    InvariantSVC,
    InvariantTextClassifier,
    certify,
)
from structinv.inspection import explain_edit
from structinv.oracles import Box, FAdd, FDrop, FScale, Identity, TokenEdits
from structinv.structures import Sequence

from ..oracles.cases import NOISE

TEXTS = ["free money for you", "money now, free money", "see you at lunch", "lunch at one"] * 5
LABELS = ["spam", "spam", "ham", "ham"] * 5
BY_SCORE = {"response_method": "decision_function"}


def words():
    return InvariantLinearSVC(FDrop(1), C=10.0, tol=0.05, random_state=0)


def texts():
    return InvariantTextClassifier("drop", 1, C=10.0, tol=0.05, random_state=0)


def fixed(model, threshold=0.2, pos_label="spam"):
    return FixedThresholdClassifier(model, threshold=threshold, pos_label=pos_label, **BY_SCORE)


def tuned(model):
    return TunedThresholdClassifierCV(model, cv=2, random_state=0, **BY_SCORE)


MODELS = {
    "fixed, texts": lambda: fixed(texts()),
    "fixed, other label": lambda: fixed(texts(), 0.2, "ham"),
    "tuned, texts": lambda: tuned(texts()),
    "fixed around a Pipeline": lambda: fixed(make_pipeline(CountVectorizer(), words())),
    "tuned around a Pipeline": lambda: tuned(make_pipeline(CountVectorizer(), words())),
    "fixed in a Pipeline": lambda: make_pipeline(CountVectorizer(), MaxAbsScaler(), fixed(words())),
    "fixed twice": lambda: fixed(fixed(texts())),
    "Pipeline": lambda: make_pipeline(CountVectorizer(), words()),
    "search": lambda: GridSearchCV(make_pipeline(CountVectorizer(), words()), {}, cv=2),
    "calibrated": lambda: CalibratedClassifierCV(texts(), ensemble=False, cv=2),
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if name == "tuned around a Pipeline" else ())
        for name in MODELS
    ],
)
def test_margins_of_an_explanation_are_those_of_the_certificate(name):
    model = MODELS[name]().fit(TEXTS, LABELS)
    oracle = FDrop(2) if "Pipeline" in name or name == "search" else TokenEdits("drop", 2)
    several = ["free money for you", "lunch money"]
    certificate = certify(model, oracle, several)
    for k, text in enumerate(several):
        found = explain_edit(model, [text], oracle=oracle)
        assert found.edited_margin == pytest.approx(certificate.attacked[k], abs=1e-12)
        assert found.certified == certificate.correct[k]
        assert found.margin > found.edited_margin
        assert {"free", "money", "lunch"} & set(found.names)
    label = model.predict([text])[0]
    assert explain_edit(model, [text], [label], oracle=oracle).margin == found.margin
    other = "ham" if label == "spam" else "spam"
    assert explain_edit(model, [text], [other], oracle=oracle).margin == pytest.approx(-found.margin)


def test_a_moved_threshold_moves_the_margin_and_leaves_the_model_unchanged():
    inner = texts().fit(TEXTS, LABELS)
    intercept = inner.intercept_.copy()
    moved = fixed(FrozenEstimator(inner), 0.25).fit(TEXTS, LABELS)
    before, after = (explain_edit(each, ["money for you"], ["spam"]) for each in (inner, moved))
    assert after.margin == pytest.approx(before.margin - 0.25)
    np.testing.assert_array_equal(after.changes, before.changes)
    np.testing.assert_array_equal(inner.intercept_, intercept)


def test_a_threshold_beyond_all_scores_has_no_margin():
    model = fixed(texts(), np.inf).fit(TEXTS, LABELS)
    with pytest.raises(ValueError, match="threshold of FixedThresholdClassifier.*always predicts 'ham'"):
        explain_edit(model, TEXTS[:1])


ROWS, CLASSES = np.array([[2.0, 1.0, 1.0], [0.0, 1.0, 2.0]]), [1, 0]
FRAME = pd.DataFrame(ROWS, columns=["free", "you", "hello"])


@pytest.mark.parametrize("rows", [FRAME, ROWS, pd.DataFrame(ROWS)])
def test_names_of_features_may_be_passed(rows):
    model = make_pipeline(StandardScaler(), InvariantLinearSVC(random_state=0)).fit(rows, CLASSES)
    names = ["gratis", "du", "hallo"]
    found = explain_edit(model, rows[:1], oracle=FDrop(1), feature_names=names)
    assert found.names.tolist() == ["gratis"]
    assert explain_edit(model, rows[:1], oracle=Identity(), feature_names=names).names.tolist() == []
    with pytest.raises(ValueError, match="feature_names must have one name for each of the 3 features"):
        explain_edit(model, rows[:1], feature_names=names[:2])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("steps", [[], [MaxAbsScaler()]], ids=["model", "Pipeline"])
@pytest.mark.parametrize(
    ("rows", "name"),
    [(ROWS, "x0"), (ROWS.tolist(), "x0"), (sp.csr_matrix(ROWS), "x0"), (FRAME, "free")],
    ids=["array", "list", "sparse", "frame"],
)
def test_columns_have_their_names_or_numbers(rows, name, steps):
    model = make_pipeline(*steps, InvariantLinearSVC(random_state=0)).fit(rows, CLASSES)
    model = model if steps else model[0]
    found = explain_edit(model, rows[:1], [1], oracle=FDrop(1))
    assert (found.names.tolist(), found.features.tolist()) == ([name], [0])
    assert (found.before.tolist(), found.after.tolist()) == ([1.0 if steps else 2.0], [0.0])
    assert found.margin == pytest.approx(model.decision_function(rows)[0])
    assert found.margins[-1] == pytest.approx(found.edited_margin)
    with pytest.raises(ValueError, match="X must have one row to explain, got 2"):
        explain_edit(model, rows)


@pytest.mark.parametrize("model", [texts(), make_pipeline(CountVectorizer(), words())], ids=repr)
def test_a_text_is_a_list_of_one_text(model):
    model.fit(TEXTS, LABELS)
    with pytest.raises(TypeError, match=r"got a single str; write \[text\]"):
        explain_edit(model, "free money")


@pytest.mark.parametrize(
    ("model", "advice"),
    [
        (InvariantSVC(), "got InvariantSVC: use WorstCasesDisplay for worst cases of images"),
        (
            InvariantStructuredSVC(Sequence()),
            "got InvariantStructuredSVC: use its methods certify and worst_case",
        ),
        (make_pipeline(StandardScaler(), InvariantSVC()), "got InvariantSVC: use WorstCasesDisplay"),
        (LinearSVC(), "got LinearSVC: use structinv.certify for certificates of other linear"),
        (InvariantLinearSVR(), "got InvariantLinearSVR$"),
    ],
    ids=["kernel", "tagger", "pipeline", "other", "regressor"],
)
def test_other_models_raise_with_advice_for_their_data(model, advice):
    X, y = np.eye(4), np.arange(4) % 2
    structured = isinstance(model, InvariantStructuredSVC)
    model.fit(*([X[:2], X[2:]], [y[:2], y[2:]]) if structured else (X, y))
    with pytest.raises(TypeError, match=f"model must be an InvariantLinearSVC.*{advice}"):
        explain_edit(model, np.ones((1, 4)))


@pytest.mark.parametrize("form", [np.asarray, list, pd.Series])
def test_one_row_has_two_dimensions(form):
    model = InvariantLinearSVC(random_state=0).fit(ROWS, CLASSES)
    message = r"X must have shape \(1, n_features\), got shape \(3,\): pass X\[:1\].*iloc\[:1\]"
    with pytest.raises(ValueError, match=message):
        explain_edit(model, form(ROWS[0]))


def test_warnings_point_to_the_call():
    model = texts().fit(TEXTS, LABELS)
    with pytest.warns(UserWarning, match="1 of 1 texts have no feature") as caught:
        explain_edit(model, ["unknown"])
    assert [warning.filename for warning in caught] == [__file__]


# Changes of a margin within rounding errors are no edits.
TITLE = "Worst edit: no edit was found that lowers the margin 2, "


def model_of(coef, n_classes=2, **options):
    """Return a model with given weights, for rows of ones."""
    n_features = np.shape(coef)[1]
    X = np.random.default_rng(0).random((12, n_features))
    model = InvariantLinearSVC(random_state=0, **options).fit(X, np.arange(12) % n_classes)
    model.coef_, model.intercept_ = np.array(coef), np.zeros(len(coef))
    return model


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix, np.float32])
@pytest.mark.parametrize("oracle", [FDrop(10), FScale(10, 0.5, 2.0), FAdd(3, present=True), Box(0.1)])
def test_weights_of_rounding_errors_are_no_edits(form, oracle):
    tiny = 1e-15 * np.resize([1.0, -1.0], 20)
    if sp.issparse(form([[1.0]])) and not oracle.supports_sparse:
        pytest.skip("the oracle requires dense rows")
    model = model_of([tiny])
    model.intercept_ = np.array([2.0])
    found = explain_edit(model, form(np.ones((1, 20))), [1], oracle=oracle)
    assert found.features.tolist() == []
    assert found.edited_margin == found.margin
    assert str(found) == f"{TITLE}no allowed edit changes the prediction"


@pytest.mark.parametrize("label", [0, 1, 2])
def test_margins_are_those_against_the_best_other_label_after_the_edit(label):
    # The best of the other labels is another one before the edit.
    coef = np.roll([[4.0, 1.0, 1.0], [3.0, 0.0, 0.5], [0.0, 1.0, 1.0]], label, axis=0)
    found = explain_edit(model_of(coef, 3), np.ones((1, 3)), [label], oracle=FDrop(1))
    after = np.ones(3)
    after[found.features] = found.after
    before, scores = coef @ np.ones(3), coef @ after
    others = np.delete(np.arange(3), label)
    assert others[np.argmax(before[others])] != (rival := others[np.argmax(scores[others])])
    assert found.margin == pytest.approx(before[label] - before[rival])
    assert found.edited_margin == pytest.approx(scores[label] - scores[rival])
    assert found.margins[-1] == pytest.approx(found.edited_margin)


def test_changes_above_rounding_errors_of_both_labels_are_edits():
    found = explain_edit(model_of([[2.0, 1e-12, 1e-17]]), np.ones((1, 3)), [1], oracle=FDrop(3))
    assert found.features.tolist() == [0, 1]
    assert found.margins[-1] == pytest.approx(found.edited_margin, abs=1e-15)
    model = model_of([[2.0, 1e-16, 0.0], [0.0, -1e-16, 0.0], [-1.0, 0.0, 0.0]], 3)
    found = explain_edit(model, np.ones((1, 3)), [0], oracle=FDrop(3))
    assert found.features.tolist() == [0]


def test_a_word_without_effect_is_not_marked_as_deleted():
    texts = ["free money now", "free money", "lunch at noon", "lunch now"]
    model = InvariantTextClassifier("drop", 2, random_state=0).fit(texts, [1, 1, 0, 0])
    model.coef_, model.intercept_ = 1e-16 * np.sign(model.coef_), np.array([1.0])
    found = explain_edit(model, ["Free money now"], [1])
    assert found.names.tolist() == []
    assert found.parts == [("kept", "Free money now")]
    assert "no edit was found that lowers the margin 1" in str(found)


def test_equal_edits_are_listed_by_number():
    ones = np.ones((1, 9))
    model = InvariantLinearSVC(FDrop(3), random_state=0).fit(np.vstack([ones, -ones]), [1, 0])
    for noise in NOISE:
        model.coef_ = (1 + noise)[None]
        model.coef_[0, 5] = 2.0
        assert explain_edit(model, ones, [1]).features.tolist() == [5, 0, 1]
