"""Vectorizers of tokens against those of scikit-learn, and tokens told from numbers."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.feature_extraction import DictVectorizer, FeatureHasher
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from structinv import InvariantStructuredSVC
from structinv.datasets import conll_features, make_tagged_text
from structinv.estimators.tokens import TokenVectorizer, are_tokens
from structinv.structures import Sequence


@pytest.fixture(scope="module")
def text():
    return make_tagged_text(30, random_state=0)[0]


def as_dicts(features):
    return [[dict.fromkeys(token, 1) for token in sentence] for sentence in features]


def same(rows, others):
    return rows.shape == others.shape and (rows != others).nnz == 0


def test_strings_are_rows_as_of_a_dict_vectorizer(text):
    features = conll_features(text)
    reference = DictVectorizer(sort=False)
    reference.fit([token for sentence in as_dicts(features) for token in sentence])
    for X in (features, as_dicts(features)):
        vectorizer = TokenVectorizer()
        rows, lengths = vectorizer.fit_rows(X)
        assert vectorizer.get_feature_names_out().tolist() == reference.feature_names_
        assert lengths.tolist() == [len(sentence) for sentence in text]
        flat = [token for sentence in as_dicts(features) for token in sentence]
        assert rows.has_sorted_indices
        assert same(rows, reference.transform(flat))
        split = clone(vectorizer).fit_transform(X)
        assert [len(sentence) for sentence in text] == [part.shape[0] for part in split]
        assert all(map(same, split, vectorizer.transform(X)))


def test_features_of_sets_are_met_in_the_order_of_their_names():
    vectorizer = TokenVectorizer().fit([[{"z", "b"}, frozenset({"y", "a", "c"}), ["d", "b"]]])
    assert vectorizer.get_feature_names_out().tolist() == ["b", "z", "a", "c", "y", "d"]


def test_features_that_training_lacked_are_dropped():
    vectorizer = TokenVectorizer().fit([[["a", "b"]]])
    (rows,) = vectorizer.transform([[["c", "b"], [], ("a", "c", "a"), {"b"}]])
    assert rows.toarray().tolist() == [[0, 1], [0, 0], [2, 0], [0, 1]]
    (rows,) = (
        TokenVectorizer().fit([[{"a": "x", "b": 2}]]).transform([[{"a": "y", "b": 0.5}, {"a": "x"}]])
    )
    assert rows.toarray().tolist() == [[0, 0.5], [1, 0]]


CRFSUITE = [
    {"word": "the", "length": 3, "title": True, "digits": False, "weight": 0.5},
    {"word": {"prefix": "th", "suffix": ["e", "he"]}, "kinds": {"short", "lower"}},
    {"next": {"word": "cat", "kinds": {"short"}, "more": {"deep": {"er": 2.0}}}, "none": {}, "no": []},
    {
        "": "x",
        "a=b": "c:d",
        "n": np.float64(2.0),
        "i": np.int64(3),
        "b": np.bool_(True),
        "s": np.str_("q"),
    },
    {"twice": ["x", "x"], "word": ""},
]


def values_of(vectorizer, rows):
    names = vectorizer.get_feature_names_out()
    return [{names[k]: row[k] for k in np.flatnonzero(row)} for row in rows.toarray()]


@pytest.mark.parametrize("token", CRFSUITE)
def test_dicts_have_the_features_of_python_crfsuite(token):
    items = pytest.importorskip("pycrfsuite").ItemSequence([token]).items()
    vectorizer = TokenVectorizer()
    (rows,) = vectorizer.fit_transform([[token, {"another": 1}]])
    assert set(vectorizer.get_feature_names_out()) == {*items[0], "another"}
    assert values_of(vectorizer, rows[:1]) == [{k: v for k, v in items[0].items() if v}]


def test_features_of_dicts_are_flattened():
    vectorizer = TokenVectorizer()
    (rows,) = vectorizer.fit_transform([CRFSUITE[:4]])
    assert rows[3].nnz == 6
    assert values_of(vectorizer, rows) == [
        {"word:the": 1.0, "length": 3.0, "title": 1.0, "weight": 0.5},
        {
            "word:prefix:th": 1,
            "word:suffix:e": 1,
            "word:suffix:he": 1,
            "kinds:lower": 1,
            "kinds:short": 1,
        },
        {"next:word:cat": 1.0, "next:kinds:short": 1.0, "next:more:deep:er": 2.0},
        {":x": 1.0, "a=b:c:d": 1.0, "n": 2.0, "i": 3.0, "b": 1.0, "s:q": 1.0},
    ]
    (again,) = vectorizer.transform(
        [[{"kinds": ("lower", "new"), "word": {"suffix": "e", "length": 3}}]]
    )
    assert values_of(vectorizer, again) == [{"kinds:lower": 1.0, "word:suffix:e": 1.0}]


def test_nested_features_train_taggers():
    rng = np.random.default_rng(0)
    X = [
        [{"word": {"suffix": ["ing", "ed"][k]}, "kinds": {"x"}} for k in rng.integers(2, size=4)]
        for _ in "abcd"
    ]
    y = [["VBG" if token["word"]["suffix"] == "ing" else "VBD" for token in sentence] for sentence in X]
    model = InvariantStructuredSVC(Sequence(), random_state=0).fit(X, y)
    assert [labels.tolist() for labels in model.predict(X)] == y


@pytest.mark.parametrize("form", [lambda features: features, as_dicts])
def test_features_can_be_hashed(text, form):
    X = form(conll_features(text))
    rows, _ = TokenVectorizer(n_hashed=64).fit_rows(X)
    hasher = FeatureHasher(64, input_type="string")
    expected = hasher.transform(token for sentence in conll_features(text) for token in sentence)
    assert same(rows, expected)
    names = [[{"w": name, "n": 2.0, "k": {"of": {name}}} for name in sentence[0]] for sentence in X]
    flat = [[{f"w:{n}": 1, "n": 2.0, f"k:of:{n}": 1} for n in sentence[0]] for sentence in X]
    found, wanted = (TokenVectorizer(64).fit_rows(each)[0] for each in (names, flat))
    assert same(found, wanted)
    vectorizer = TokenVectorizer(n_hashed=64).fit(X)
    assert vectorizer.vocabulary_ is None
    assert vectorizer.get_feature_names_out()[63] == "hashed63"


def test_empty_sequences_can_be_transformed_and_not_learned():
    vectorizer = TokenVectorizer().fit([[["a"]]])
    assert [rows.shape for rows in vectorizer.transform([[], [["a"]], []])] == [(0, 1), (1, 1), (0, 1)]
    assert [rows.shape for rows in vectorizer.transform([[]])] == [(0, 1)]
    with pytest.raises(ValueError, match=r"X\[1\] must have at least one token"):
        vectorizer.fit([[["a"]], []])


def test_invalid_tokens_are_errors_before_the_fit():
    for X, error, said in [
        ([], ValueError, "at least one sequence"),
        ("the cat", TypeError, "X must be a list of sequences"),
        ([["the"], ["cat"]], TypeError, r"X\[0\], position 0: .* got the word 'the'.*conll_features"),
        ([[["a"]], "cat"], TypeError, r"X\[1\] must be a list of tokens"),
        ([[["a"]], {"a": 1}], TypeError, r"X\[1\] must be a list of tokens.*: pass one sentence as \[x"),
        ([[["a"], {"a": 1}]], TypeError, r"X\[0\], position 1: tokens must be all dicts or all lists"),
        ([[{"a": 1}], [["a"]]], TypeError, r"X\[1\], position 0: tokens must be all dicts or all lists"),
        (
            [[["a"]], [np.ones(3)]],
            TypeError,
            r"X\[1\], position 0: tokens must be all dicts or all lists",
        ),
        ([[["a"], ["a", 3]]], TypeError, r"X\[0\], position 1: features must be strings, got 3 .*dicts"),
        ([[{"a": 1}, {"b": {"c": None}}]], TypeError, r"position 1: the value of 'c' .* None"),
        ([[{"a": ["x", 3]}]], TypeError, r"X\[0\], position 0: the value of 'a' .* \['x', 3\]"),
        ([[{"a": {"b": {3: 1}}}]], TypeError, r"position 0: names of features .* got 3"),
        ([[{"a": 1}], [{"a": 1}, {"a": np.nan}]], ValueError, r"X\[1\], position 1: .* finite, got nan"),
        ([[[], []]], ValueError, "X must have features"),
    ]:
        vectorizer = TokenVectorizer().fit([[["a"]]])
        before = dict(vars(vectorizer))
        with pytest.raises(error, match=said):
            vectorizer.fit(X)
        assert vars(vectorizer) == before
        assert not isinstance(X, list) or not X or are_tokens(X) or X == [[[], []]]


def test_tokens_are_distinguished_from_numbers():
    for X, expected in [
        ([[], [{"a": 1}]], True),
        ([[[], ["a"]]], True),
        ([[("a",)]], True),
        ([["the"]], True),
        (["the"], True),
        ([[[1.0, 2.0], [3.0, 4.0]]], False),
        ([np.ones((2, 3))], False),
        (np.ones((2, 3)), False),
        ([], False),
        ([[]], False),
        (3, False),
    ]:
        assert are_tokens(X) is expected


def test_a_vectorizer_in_a_pipeline_is_one_in_the_estimator():
    sentences, y = make_tagged_text(20, random_state=0)
    X = conll_features(sentences)
    tagger = InvariantStructuredSVC(Sequence(), C=0.1, tol=0.1, random_state=0)
    pipeline = make_pipeline(TokenVectorizer(), clone(tagger))
    search = GridSearchCV(pipeline, {"tokenvectorizer__n_hashed": [None, 4]}, cv=2, error_score="raise")
    search.fit(X[:10] * 2, y[:10] * 2)
    assert search.best_params_ == {"tokenvectorizer__n_hashed": None}
    predicted = pipeline.fit(X, y).predict(X)
    for labels, others in zip(predicted, tagger.fit(X, y).predict(X), strict=True):
        assert labels.tolist() == others.tolist()
