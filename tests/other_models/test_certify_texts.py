"""Certificates of text pipelines of scikit-learn against edits of tokens, by enumeration."""

import itertools
from functools import cache

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import (
    CountVectorizer,
    HashingVectorizer,
    TfidfTransformer,
    TfidfVectorizer,
)
from sklearn.feature_selection import SelectKBest, chi2
from sklearn.linear_model import LogisticRegression, Perceptron, RidgeClassifier, SGDClassifier
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.naive_bayes import BernoulliNB, ComplementNB, MultinomialNB
from sklearn.pipeline import FeatureUnion, make_pipeline, make_union
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    StandardScaler,
)
from sklearn.svm import LinearSVC

from structinv import InvariantLinearSVC, certify, worst_texts
from structinv.oracles import FDrop, TokenEdits
from structinv.oracles.text.text_tokens import Words

from ..margins import margins
from .cases import UNSEEN, WORDS, edited, texts_and_labels

SVM = LinearSVC(random_state=0)
PIPELINES = {
    "tfidf": make_pipeline(TfidfVectorizer(), SVM),
    "binary": make_pipeline(TfidfVectorizer(binary=True), LogisticRegression(C=10.0)),
    "sublinear": make_pipeline(TfidfVectorizer(sublinear_tf=True), SVM),
    "l1": make_pipeline(TfidfVectorizer(norm="l1"), SGDClassifier(random_state=0)),
    "no norm": make_pipeline(TfidfVectorizer(norm=None), RidgeClassifier()),
    "no idf": make_pipeline(TfidfVectorizer(use_idf=False), Perceptron(random_state=0)),
    "counts": make_pipeline(CountVectorizer(), MultinomialNB()),
    "rough idf": make_pipeline(TfidfVectorizer(smooth_idf=False, min_df=2, stop_words=["at"]), SVM),
    "two steps": make_pipeline(
        CountVectorizer(binary=True), TfidfTransformer(sublinear_tf=True), ComplementNB()
    ),
    "normalizer": make_pipeline(
        CountVectorizer(), SelectKBest(chi2, k=7), Normalizer(), LogisticRegression()
    ),
    "selected twice": make_pipeline(
        CountVectorizer(),
        SelectKBest(chi2, k=8),
        TfidfTransformer(norm=None),
        SelectKBest(chi2, k=5),
        Normalizer(),
        SVM,
    ),
    "selection": make_pipeline(TfidfVectorizer(), SelectKBest(chi2, k=6), MaxAbsScaler(), SVM),
    "centered": make_pipeline(
        TfidfVectorizer(),
        TruncatedSVD(4, random_state=0),
        StandardScaler(),
        LinearSVC(C=0.1, intercept_scaling=3.0, random_state=0),
    ),
    "shifted": make_pipeline(
        CountVectorizer(), TruncatedSVD(4, random_state=0), MinMaxScaler(), LogisticRegression()
    ),
    "four labels": make_pipeline(TfidfVectorizer(), LogisticRegression(C=10.0)),
    "bernoulli": make_pipeline(TfidfVectorizer(), BernoulliNB()),
    "hashing": make_pipeline(HashingVectorizer(n_features=8), SVM),
    "hashing without signs": make_pipeline(
        HashingVectorizer(n_features=8, alternate_sign=False, stop_words=["at"]), SVM
    ),
    "hashing binary": make_pipeline(HashingVectorizer(n_features=8, binary=True, norm="l1"), SVM),
    "threshold": FixedThresholdClassifier(
        make_pipeline(TfidfVectorizer(), LogisticRegression()), threshold=0.4, pos_label="spam"
    ),
    "tokenizer": make_pipeline(TfidfVectorizer(tokenizer=str.split, token_pattern=None), SVM),
    "analyzer": make_pipeline(TfidfVectorizer(analyzer=str.split), SVM),
    "invariant": make_pipeline(
        TfidfVectorizer(), InvariantLinearSVC(FDrop(1), tol=1e-6, random_state=0)
    ),
}
BOUNDED = {
    "bigrams": make_pipeline(TfidfVectorizer(ngram_range=(1, 2)), SVM),
    "binary bigrams": make_pipeline(
        CountVectorizer(ngram_range=(1, 2), binary=True, stop_words=["at"]), LogisticRegression()
    ),
    "trigrams": make_pipeline(TfidfVectorizer(ngram_range=(1, 3), sublinear_tf=True), SVM),
    "only bigrams": make_pipeline(
        TfidfVectorizer(ngram_range=(2, 2), norm="l1"), LogisticRegression(C=100.0)
    ),
    "characters in words": make_pipeline(TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 3)), SVM),
    "characters": make_pipeline(
        TfidfVectorizer(analyzer="char", ngram_range=(1, 3)), LinearSVC(C=10.0, random_state=0)
    ),
    "words and characters": make_pipeline(
        make_union(
            TfidfVectorizer(),
            make_pipeline(CountVectorizer(analyzer="char_wb", ngram_range=(3, 3)), TfidfTransformer()),
        ),
        SVM,
    ),
    "words and bigrams": make_pipeline(
        FeatureUnion(
            [("words", TfidfVectorizer()), ("pairs", CountVectorizer(ngram_range=(2, 2), binary=True))],
            transformer_weights={"pairs": 0.2},
        ),
        LogisticRegression(),
    ),
}
EDITS = [("drop", 1), ("drop", 2), ("add", 1), ("edit", 1), ("replace", 1)]


@cache
def every_text(text, edit, most, insertable, in_order):
    """All texts within `most` edits; without an order of tokens, one for all orders."""
    found = edited(text.split(), edit, most, insertable)
    different = dict.fromkeys(found if in_order else map(tuple, map(sorted, found)))
    return [" ".join(words) for words in different]


def check_by_enumeration(model, oracle, texts, y, insertable, exact=False, in_order=True):
    """Certificates of texts agree with the predictions of all edited texts."""
    every = [
        every_text(text, oracle.edit, oracle.max_changes, tuple(insertable), in_order) for text in texts
    ]
    joined, starts = sum(every, []), np.cumsum([0, *map(len, every)])[:-1]
    truth = np.repeat(y, list(map(len, every)))
    stays = np.logical_and.reduceat(model.predict(joined) == truth, starts)
    certificate = certify(model, oracle, texts, y)
    assert np.all(stays[certificate.correct]), oracle
    if hasattr(model, "decision_function") and not isinstance(model, FixedThresholdClassifier):
        lowest = np.minimum.reduceat(margins(model, joined, truth), starts)
        assert np.all(certificate.margins <= lowest + 1e-9), oracle
        tight = certificate.exact & exact
        np.testing.assert_allclose(certificate.margins[tight], lowest[tight], atol=1e-9)
    clear = (np.abs(certificate.margins) > 1e-9) & (np.abs(certificate.attacked) > 1e-9)
    # An attack that is found turns the prediction, and a tight margin decides.
    assert not np.any(stays[clear & (certificate.attacked < 0)]), oracle
    if exact:
        np.testing.assert_array_equal(certificate.correct[clear], stays[clear], str(oracle))
    return certificate


@pytest.mark.parametrize("name", sorted(PIPELINES))
def test_certificates_of_single_words_agree_with_enumeration(name):
    texts, y = texts_and_labels(60, n_labels=4) if name == "four labels" else texts_and_labels()
    model = clone(PIPELINES[name]).fit(texts, y)
    hashed = name.startswith("hashing")
    # Of the hashed tokens, a few stand for all columns.
    insertable = [*WORDS, *([f"w{number}" for number in range(12)] if hashed else [UNSEEN])]
    # One or two insertions, and two or one of all edits, in turns.
    more = [("add", 1), ("edit", 2)] if sorted(PIPELINES).index(name) % 2 else [("add", 2), ("edit", 1)]
    for edit, most in [("drop", 1), ("drop", 2), ("replace", 1), *more]:
        if hashed and edit == "replace":
            continue
        oracle = TokenEdits(edit, most)
        check_by_enumeration(model, oracle, texts[:8], y[:8], insertable, not hashed, in_order=False)


@pytest.mark.parametrize("name", sorted(BOUNDED))
def test_bounds_of_several_words_agree_with_enumeration(name):
    texts, y = texts_and_labels()
    model = clone(BOUNDED[name]).fit(texts, y)
    n_certified = 0
    for edit, most in EDITS:
        crosses = name in ("characters", "words and bigrams")
        chunks = name.startswith(("characters", "words"))
        if (crosses and edit != "drop") or (name == "binary bigrams" and edit == "replace"):
            continue
        if name == "words and bigrams":
            chunks = False
        allowed = ["free", "lunch"] if chunks and edit != "drop" else None
        oracle = TokenEdits(edit, most, allowed)
        insertable = allowed or [*WORDS, UNSEEN]
        n_certified += check_by_enumeration(model, oracle, texts[:10], y[:10], insertable).correct.sum()
    assert n_certified > 0


@pytest.mark.parametrize("name", sorted({**PIPELINES, **BOUNDED}))
def test_worst_texts_have_the_attacked_margins(name):
    texts, y = texts_and_labels(n_labels=2)
    model = clone({**PIPELINES, **BOUNDED}[name]).fit(texts, y)
    texts, y = texts[:10], y[:10]
    edits = ["drop"] if name in ("characters", "words and bigrams") else ["drop", "edit"]
    for edit in edits:
        chunks = name in ("characters in words", "words and characters")
        oracle = TokenEdits(edit, 2, ["free", "see"] if chunks and edit != "drop" else None)
        certificate = certify(model, oracle, texts, y)
        turned = model.predict(worst_texts(model, oracle, texts, y)) != y
        clear = np.abs(certificate.attacked) > 1e-9
        assert np.array_equal(turned[clear], (certificate.attacked < 0)[clear])


def test_made_up_tokens_are_found_for_rare_columns_and_match_patterns_of_letters():
    step = HashingVectorizer(token_pattern="[a-z]+", norm=None)
    words = Words(step)
    # None of the first four million tokens zz0, zz1, ... has this column and sign.
    name = words.name_of(19857)
    assert step.build_analyzer()(name) == [name]
    assert words.codes_of([name]) == [19857]


@pytest.mark.parametrize("edit", ["add", "edit", "replace"])
def test_tokens_are_inserted_after_leading_blanks(edit):
    texts, y = texts_and_labels()
    model = clone(BOUNDED["characters in words"]).fit(texts, y)
    texts = [f"\n  {text}" for text in texts] + ["  "]
    y = [*y, "ham"]
    oracle = TokenEdits(edit, 2, ["free", "see"])
    certificate = certify(model, oracle, texts, y)
    turned = model.predict(worst_texts(model, oracle, texts, y)) != y
    assert np.array_equal(turned, certificate.attacked < 0)
    assert turned.sum() > 0


def test_characters_count_the_blank_before_deleted_last_tokens():
    texts, y = ["you now", "you"], ["spam", "ham"]
    counts = CountVectorizer(analyzer="char", ngram_range=(1, 2), vocabulary=["u ", "w"])
    model = make_pipeline(counts, clone(SVM)).fit(texts, y)
    svc = model[-1]
    svc.coef_, svc.intercept_ = np.array([[1.0, 1.0]]), np.array([-0.5])
    assert model.predict(texts).tolist() == y
    certificate = certify(model, TokenEdits("drop", 1), ["you now"], ["spam"])
    assert not certificate.correct[0]


def test_deleted_last_tokens_may_remove_blanks_of_all_orders():
    counts = CountVectorizer(analyzer="char", ngram_range=(1, 3), vocabulary=["a", " ", "a ", "aa "])
    model = make_pipeline(counts, clone(SVM)).fit(["aa bb", "aa"], ["ham", "spam"])
    svc = model[-1]
    svc.coef_, svc.intercept_ = np.array([[10.0, -1.0, -1.0, -1.0]]), np.array([-18.5])
    assert model.predict(["aa bb", "aa"]).tolist() == ["ham", "spam"]
    assert not certify(model, TokenEdits("drop", 1), ["aa bb"], ["ham"]).correct[0]


def test_a_deleted_token_may_create_several_n_grams_of_one_order():
    counts = CountVectorizer(analyzer="char", ngram_range=(4, 4), vocabulary=["aa a", "a aa", "a xx"])
    model = make_pipeline(counts, clone(SVM)).fit(["aaaa xx aaaa", "aaaa aaaa"], ["ham", "spam"])
    svc = model[-1]
    svc.coef_, svc.intercept_ = np.array([[1.0, 1.0, 0.0]]), np.array([-1.5])
    assert model.predict(["aaaa xx aaaa", "aaaa aaaa"]).tolist() == ["ham", "spam"]
    assert not certify(model, TokenEdits("drop", 1), ["aaaa xx aaaa"], ["ham"]).correct[0]


def test_texts_with_all_the_best_binary_features_gain_from_the_next_one():
    words = CountVectorizer(
        ngram_range=(1, 2), binary=True, vocabulary=["aa", "bb", "cc", "dd", "aa bb"]
    )
    model = make_pipeline(words, clone(SVM)).fit(["aa bb cc", "dd"], ["ham", "spam"])
    svc = model[-1]
    svc.coef_, svc.intercept_ = np.array([[4.0, 3.0, 2.0, 1.0, 0.0]]), np.array([-9.5])
    assert model.predict(["aa bb cc", "aa bb cc dd"]).tolist() == ["ham", "spam"]
    for edit in ("add", "edit"):
        assert not certify(model, TokenEdits(edit, 1), ["aa bb cc"], ["ham"]).correct[0]


@pytest.mark.parametrize("most", [1, 4, 6])
def test_deletions_may_create_the_same_n_gram_several_times(most):
    # Each deletion of "xx" creates another "aa bb". The square of its count makes the row longer.
    names = ["aa bb", *(f"p{number} q{number}" for number in range(20))]
    text = " ".join(["aa xx bb"] * most + names[1:])
    union = make_union(
        TfidfVectorizer(use_idf=False, ngram_range=(2, 2), vocabulary=names),
        CountVectorizer(analyzer="char_wb", vocabulary=["!"]),
    )
    model = make_pipeline(union, clone(SVM)).fit([text, "aa bb"], ["ham", "spam"])
    svc = model[-1]
    svc.coef_, svc.intercept_ = np.append(0.0, -np.ones(21))[None], np.zeros(1)
    certificate = certify(model, TokenEdits("drop", most), [text], ["ham"])
    (reached,) = -model.decision_function([text.replace("xx ", "")])
    assert certificate.margins[0] <= reached < -model.decision_function([text])[0]


def test_bounds_of_one_deleted_token_are_tight_without_a_norm():
    texts, y = texts_and_labels()
    words = CountVectorizer(analyzer="char_wb", ngram_range=(2, 3))
    model = make_pipeline(words, LogisticRegression(C=0.1)).fit(texts, y)
    certificate = certify(model, TokenEdits("drop", 1), texts, y)
    assert np.all(certificate.exact)


@pytest.mark.parametrize(
    "options",
    [{"lowercase": False}, {"strip_accents": "unicode"}, {"token_pattern": r"(?u)\b\w+\b"}],
    ids=lambda options: next(iter(options)),
)
def test_vectorizers_may_read_letters_differently(options):
    texts, y = ["Free a lunch", "free money", "see you", "a f\xfcr home"], ["ham", "spam", "ham", "spam"]
    union = make_union(CountVectorizer(), CountVectorizer(**options))
    model = make_pipeline(union, clone(SVM)).fit(texts, y)
    for oracle in (TokenEdits("drop", 1), TokenEdits("edit", 1, ["Free", "f\xfcr"])):
        certificate = check_by_enumeration(model, oracle, texts, y, ["Free", "f\xfcr"])
        stays = model.predict(worst_texts(model, oracle, texts, y)) == y
        np.testing.assert_array_equal(stays, certificate.attacked > 0)


def pairs(text):
    words = text.split()
    return list(map("_".join, itertools.pairwise(words)))


@pytest.mark.parametrize(
    "options",
    [
        {"tokenizer": pairs},
        {"token_pattern": r"(?u)\w+ \w+"},
        {"token_pattern": r"(?u)\w+\s\w+"},
        {"token_pattern": r"(?=(\w+ \w+))"},
        {"token_pattern": r"(?<=free )\w+"},
        {"token_pattern": r"\w+[^a-z]\w+"},
        {"token_pattern": r"\w+.\w+"},
        {"token_pattern": r"\w+$"},
        {"strip_accents": lambda text: text.replace(" ", "_")},
    ],
)
def test_words_that_may_cross_blanks_are_refused_beside_characters(options):
    texts, y = texts_and_labels()
    union = make_union(
        CountVectorizer(**options), TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 3))
    )
    model = make_pipeline(union, clone(SVM)).fit(texts, y)
    with pytest.raises(TypeError, match=f"must have no own {next(iter(options))}"):
        certify(model, TokenEdits("drop", 1), texts, y)


@pytest.mark.parametrize(
    "pattern",
    [r"(?u)\b\w\w+\b", r"(?u)\b\w+\b", r"\S+", r"[a-zA-Z']{2,}", r"([^\W\d]+)", r"\b(?:[a-z]+|\d+)\b"],
)
def test_words_between_blanks_are_certified_beside_characters(pattern):
    texts, y = texts_and_labels()
    union = make_union(
        CountVectorizer(token_pattern=pattern), TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 3))
    )
    model = make_pipeline(union, clone(SVM)).fit(texts, y)
    assert len(certify(model, TokenEdits("drop", 1), texts, y).margins) == len(texts)


def test_labels_lost_beside_the_weight_of_an_added_token_are_not_certified():
    texts, y = ["low high win", "win low", "high low", "low"] * 3, ["a", "b", "c", "b"] * 3
    model = make_pipeline(CountVectorizer(), LogisticRegression()).fit(texts, y)
    place = model[0].vocabulary_["high"]
    model[-1].coef_[:] = np.where(np.arange(3) == place, 1e9, 0.0)
    model[-1].intercept_[:] = [0.0, 1e-8, 0.0]
    assert model.predict(["low", "low high"]).tolist() == ["b", "a"]
    certificate = certify(model, TokenEdits("add", 1), ["low"], ["b"])
    assert certificate.attacked[0] > 0
    assert not certificate.correct[0]


def test_rounding_of_vectorizers_in_single_precision_is_subtracted():
    texts, y = texts_and_labels(16)
    model = make_pipeline(TfidfVectorizer(dtype=np.float32), LinearSVC(random_state=0)).fit(texts, y)
    scores = TfidfVectorizer().fit_transform(texts) @ model[-1].coef_[0]
    n_wrong = 0
    for (text, score), margin in itertools.product(zip(texts, scores, strict=True), (-1e-9, 1e-9)):
        model[-1].intercept_ = np.array([margin - score])
        truth = model.classes_[int(margin > 0)]
        if model.predict([text])[0] != truth:
            n_wrong += 1
            assert not certify(model, TokenEdits("drop", 0), [text], [truth]).correct[0]
    assert n_wrong > 4


@pytest.mark.filterwarnings("ignore:.* no feature of the model")
@pytest.mark.parametrize("name", ["four labels", "words and characters"])
def test_texts_are_certified_in_blocks(name, monkeypatch):
    texts, y = texts_and_labels(11, n_labels=4 if name == "four labels" else 2)
    # Later blocks have other labels than the first.
    order = np.argsort(y, kind="stable")
    texts, y = [texts[place] for place in order], y[order]
    model = clone({**PIPELINES, **BOUNDED}[name]).fit(texts, y)
    oracle = TokenEdits("drop", 1).only_for(["spam"])
    alone = [certify(model, oracle, [text], [label]) for text, label in zip(texts, y, strict=True)]
    monkeypatch.setattr("structinv.other_models.certify_texts.TEXTS_AT_ONCE", 5)
    certificate = certify(model, oracle, texts, y)
    for each in ("margins", "attacked"):
        expected = [getattr(part, each)[0] for part in alone]
        np.testing.assert_allclose(getattr(certificate, each), expected, rtol=0, atol=1e-12)
    reached = certify(model, TokenEdits("drop", 0), worst_texts(model, oracle, texts, y), y)
    np.testing.assert_allclose(reached.attacked, certificate.attacked, rtol=0, atol=1e-9)


def test_without_labels_all_texts_are_edited_and_names_of_labels_are_checked():
    texts, y = texts_and_labels()
    model = make_pipeline(TfidfVectorizer(), clone(SVM)).fit(texts, y)
    edits = TokenEdits("drop", 1)
    certificate = certify(model, edits.only_for("spam"), texts)
    assert certificate.perturbations.startswith("TokenEdits(edit='drop', max_changes=1)")
    np.testing.assert_array_equal(certificate.margins, certify(model, edits, texts).margins)
    for ask in (certify, worst_texts):
        with pytest.raises(ValueError, match="labels must be among the classes .*, got 'junk'"):
            ask(model, edits.only_for("junk"), texts)


def test_edits_without_a_certificate_are_refused():
    texts, y = texts_and_labels()
    hashed = make_pipeline(HashingVectorizer(), clone(SVM)).fit(texts, y)
    characters = clone(BOUNDED["characters in words"]).fit(texts, y)
    cleaned = make_pipeline(FunctionTransformer(list), TfidfVectorizer(), clone(SVM)).fit(texts, y)
    scaled = make_pipeline(TfidfVectorizer(), Normalizer("max"), clone(SVM)).fit(texts, y)
    for model, edits, message in [
        (hashed, TokenEdits("replace", 2), "use edit='edit' and max_changes=4"),
        (characters, TokenEdits("add", 1), "pass allowed"),
        (cleaned, TokenEdits("drop", 1), "pass a function of texts as preprocessor"),
        (scaled, TokenEdits("drop", 1), "norm must be 'l2', 'l1' or None"),
    ]:
        with pytest.raises((TypeError, ValueError), match=message):
            certify(model, edits, texts, y)
    with pytest.raises(TypeError, match="oracle must be TokenEdits"):
        worst_texts(hashed, FDrop(1), texts, y)


def test_allowed_tokens_are_read_by_the_vectorizer():
    texts, y = texts_and_labels()
    model = make_pipeline(TfidfVectorizer(), clone(SVM)).fit(texts, y)
    lower, upper = (
        certify(model, TokenEdits("add", 2, [word]), texts, y).margins for word in ("free", "FREE")
    )
    np.testing.assert_array_equal(lower, upper)
    for entry in ("free money", "x", 1):
        with pytest.raises(ValueError, match="allowed must contain single tokens of TfidfVectorizer"):
            certify(model, TokenEdits("add", 2, [entry]), texts, y)
