"""Vectorizers that are fitted while texts are read, against those that scikit-learn fits alone."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer

from structinv.oracles.text.text_edits import ReadTexts

TEXTS = [
    *[
        "Free money for you the",
        "money now, free MONEY",
        "see you at the lunch \u03a3",
        "",
        "at one the",
    ],
    *["x y z word", "money at one", "lunch"],
]
WHOLE = [
    *[
        CountVectorizer(),
        CountVectorizer(stop_words="english"),
        CountVectorizer(stop_words=["The", "at"]),
    ],
    *[TfidfVectorizer(), TfidfVectorizer(binary=True), TfidfVectorizer(smooth_idf=False, norm=None)],
    *[TfidfVectorizer(dtype=np.float32, sublinear_tf=True), TfidfVectorizer(use_idf=False)],
    *[TfidfVectorizer(dtype=np.int64), CountVectorizer(analyzer=str.split)],
    CountVectorizer(tokenizer=str.split),
]
PARTS = [
    *[TfidfVectorizer(min_df=2), TfidfVectorizer(max_df=1), TfidfVectorizer(max_df=0.4)],
    *[CountVectorizer(max_features=3, binary=True), CountVectorizer(vocabulary=["you", "free"])],
    *[CountVectorizer(ngram_range=(1, 2)), CountVectorizer(analyzer="char_wb"), HashingVectorizer()],
]


def with_warnings(call):
    """The result, and the messages of warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = call()
    return result, [str(each.message) for each in caught]


def learned(vectorizer):
    """Attributes, with those of the transformer of counts."""
    found = dict(vars(vectorizer))
    if "vocabulary_" in found:
        found["vocabulary_"] = [(word, type(at), at) for word, at in found["vocabulary_"].items()]
    weights = dict(vars(found.pop("_tfidf"))) if "_tfidf" in found else {}
    idf = weights.pop("idf_", None)
    return found | weights, idf


@pytest.mark.parametrize("vectorizer", WHOLE + PARTS, ids=str)
def test_vectorizers_are_fitted_as_by_scikit_learn(vectorizer):
    alone, expected = with_warnings(lambda: clone(vectorizer).fit(TEXTS))
    given = clone(vectorizer)
    # Both have the same list of stop words.
    given.stop_words = alone.stop_words
    read, messages = with_warnings(lambda: ReadTexts.fitted(given, TEXTS))
    assert messages == expected
    (found, idf), (wanted, wanted_idf) = learned(given), learned(alone)
    assert found == wanted
    np.testing.assert_array_equal(idf, wanted_idf, strict=idf is not None)
    again = ReadTexts.of(alone, TEXTS)
    assert list(read.tokens) == list(again.tokens)
    np.testing.assert_array_equal(read.rows.toarray(), again.rows.toarray())


@pytest.mark.parametrize("vectorizer", [CountVectorizer, TfidfVectorizer])
def test_a_fit_reads_each_text_once(vectorizer):
    seen = []

    def split(text):
        seen.append(text)
        return text.split()

    ReadTexts.fitted(vectorizer(tokenizer=split, token_pattern=None, lowercase=False), TEXTS)
    assert seen == TEXTS


def test_errors_of_a_fit_are_those_of_scikit_learn():
    for vectorizer, texts in ((CountVectorizer(), ["a", "b"]), (TfidfVectorizer(norm="l3"), TEXTS)):
        errors = []
        for fit in (vectorizer.fit, lambda texts, step=vectorizer: ReadTexts.fitted(step, texts)):
            with pytest.raises(ValueError, match=r".") as error:
                fit(texts)
            errors.append(str(error.value))
        assert errors[0] == errors[1]
        assert "build_analyzer" not in vars(vectorizer)
