"""Warnings of certificates for features that are no words of the text."""

import warnings

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import (
    CountVectorizer,
    HashingVectorizer,
    TfidfTransformer,
    TfidfVectorizer,
)
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler, Normalizer
from sklearn.svm import LinearSVC

from structinv import InvariantLinearSVC, TextEditsWarning, certify, report, select_changes
from structinv.inspection import security_curve
from structinv.model_selection import certified_accuracy_scorer
from structinv.oracles import Box, FAdd, FDrop, FEdit, Protected

from .cases import texts_and_labels

TEXTS, Y = map(
    list, zip(*[pair for pair in zip(*texts_and_labels(60), strict=True) if " " in pair[0]], strict=True)
)
HASHED = HashingVectorizer(n_features=64, norm=None, alternate_sign=False)
OTHERS = [
    ([CountVectorizer(ngram_range=(1, 2))], r"CountVectorizer\(ngram_range=\(1, 2\)\) counts groups of"),
    ([TfidfVectorizer(ngram_range=(2, 2), norm=None)], r"TfidfVectorizer\(ngram_range=\(2, 2\)\)"),
    ([CountVectorizer(analyzer="char")], r"CountVectorizer\(analyzer='char'\) counts parts of words"),
    ([CountVectorizer(analyzer="char_wb", ngram_range=(2, 3))], r"analyzer='char_wb'\) counts parts"),
    ([HashingVectorizer(n_features=64, norm=None)], "HashingVectorizer subtracts words that share"),
    (
        [HashingVectorizer(n_features=64, norm="l1", alternate_sign=False)],
        r"HashingVectorizer\(norm='l1'\) scales",
    ),
    ([TfidfVectorizer(norm="l1")], r"TfidfVectorizer\(norm='l1'\) scales each row"),
    ([CountVectorizer(), TfidfTransformer(norm="l1")], r"TfidfTransformer\(norm='l1'\) scales each row"),
    ([CountVectorizer(), Normalizer("max")], r"Normalizer\(norm='max'\) scales each row"),
    ([TfidfVectorizer(), MaxAbsScaler()], r"TfidfVectorizer\(norm='l2'\) scales each row"),
    ([CountVectorizer(), TruncatedSVD(3)], "TruncatedSVD mixes all words in each feature"),
    (
        [FeatureUnion([("one", CountVectorizer()), ("two", CountVectorizer(ngram_range=(2, 2)))])],
        r"ngram_range=\(2, 2\)\) counts groups",
    ),
    ([make_pipeline(CountVectorizer(ngram_range=(1, 2)))], r"ngram_range=\(1, 2\)\) counts groups"),
]
WORDS = [
    [CountVectorizer()],
    [CountVectorizer(binary=True, min_df=2)],
    [TfidfVectorizer(norm=None, sublinear_tf=True), MaxAbsScaler()],
    [CountVectorizer(analyzer=str.split, ngram_range=(1, 2))],
    [HASHED],
    [CountVectorizer(), FunctionTransformer(np.log1p, accept_sparse=True)],
]
bigrams = CountVectorizer(ngram_range=(1, 2))
warns = pytest.warns(TextEditsWarning, match="ngram_range=.1, 2.. counts groups of words, but F")


def dense(X):
    return X.toarray() if hasattr(X, "toarray") else X


@pytest.mark.parametrize(
    ("steps", "message", "machine"),
    [(*OTHERS[0], InvariantLinearSVC(random_state=0)), *((*each, LinearSVC()) for each in OTHERS)],
)
def test_steps_that_make_other_features_than_words_are_named(steps, message, machine):
    oracle = Protected(FDrop(1), [0])
    model = make_pipeline(*steps, machine).fit(TEXTS, Y)
    with pytest.warns(TextEditsWarning, match=message) as caught:
        certify(model, oracle, TEXTS, Y)
    text = str(caught[0].message)
    assert "but Protected edits single features. These certificates do not hold for edits of" in text
    assert text.endswith("or certify edits of tokens with certify(estimator, TokenEdits('drop', 1), X)")
    assert [each.filename for each in caught] == [__file__]


@pytest.mark.parametrize("steps", WORDS)
def test_words_pass_without_a_warning(steps):
    model = make_pipeline(*steps, LinearSVC()).fit(TEXTS, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", TextEditsWarning)
        certify(model, FDrop(1), TEXTS, Y)
        certify(model, FAdd(1, present=True), TEXTS, Y)


def test_other_oracles_pass_without_a_warning():
    model = make_pipeline(bigrams, FunctionTransformer(dense), LinearSVC()).fit(TEXTS, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", TextEditsWarning)
        certify(model, Box(0.1), TEXTS, Y)


@pytest.mark.parametrize("oracle", [FAdd(1), FEdit(1, add=1.0)])
def test_additions_to_shared_columns_are_named(oracle):
    model = make_pipeline(HASHED, LinearSVC()).fit(TEXTS, Y)
    with pytest.warns(TextEditsWarning, match="HashingVectorizer adds words that share a feature"):
        certify(model, oracle, TEXTS, Y)


class TestEveryEntryWarns:
    @pytest.fixture
    def model(self):
        return make_pipeline(bigrams, InvariantLinearSVC(FDrop(1), random_state=0)).fit(TEXTS, Y)

    def test_searches_thresholds_and_frozen_models(self, model):
        search = GridSearchCV(model, {"invariantlinearsvc__C": [0.1, 1.0]}, cv=2).fit(TEXTS, Y)
        outside = FixedThresholdClassifier(FrozenEstimator(model), threshold=0.1, pos_label="spam")
        inside = FixedThresholdClassifier(model[-1], threshold=0.1, pos_label="spam")
        for each in (search, FrozenEstimator(model), outside.fit(TEXTS, Y)):
            with warns:
                certify(each, None, TEXTS, Y)
        with warns:
            certify(make_pipeline(bigrams, inside).fit(TEXTS, Y), None, TEXTS, Y)

    def test_columns_of_a_table(self):
        pandas = pytest.importorskip("pandas")
        frame = pandas.DataFrame({"text": TEXTS})
        columns = ColumnTransformer([("words", CountVectorizer(ngram_range=(1, 2)), "text")])
        model = make_pipeline(columns, LinearSVC()).fit(frame, Y)
        with warns:
            certify(model, FDrop(1), frame, Y)

    def test_curves_scorers_and_selections(self, model):
        with warns:
            security_curve({"m": model}, TEXTS, Y, oracle=FDrop(1), n_changes=[1], label="spam")
        with warns:
            certified_accuracy_scorer(FDrop(1))(model, TEXTS, Y)
        with warns:
            select_changes(model, TEXTS, Y, {"invariantlinearsvc__C": [0.1]}, cv=2)

    def test_reports(self, model, tmp_path):
        pytest.importorskip("jinja2")
        with warns as caught:
            report.write(tmp_path / "report.html", model, TEXTS, Y, n_examples=1)
        assert [each.filename for each in caught] == [__file__]
        assert (
            "not to its own input. CountVectorizer(ngram_range=(1, 2)) counts groups of words. One"
            in ((tmp_path / "report.html").read_text())
        )
