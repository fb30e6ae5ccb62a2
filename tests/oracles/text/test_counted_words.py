"""Counted words of texts, against the counts of scikit-learn."""

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer

from structinv.oracles.text.text_grams import TokenTexts
from structinv.oracles.text.text_tokens import Words


def texts_of(n, seed=0):
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice([f"w{k}" for k in range(30)], rng.integers(0, 40))) for _ in range(n)]


def test_texts_of_tokens_are_lists_of_their_tokens():
    lists = [text.split() for text in texts_of(20)]
    texts = TokenTexts.of(lists)
    assert list(texts) == lists
    assert list(texts.take(np.array([3, 0, 3]))) == [lists[3], lists[0], lists[3]]
    assert TokenTexts.of(texts) is texts
    assert texts.numbers.dtype == np.int32


def test_counts_are_those_of_the_vectorizer():
    texts = texts_of(50)
    for step in (
        CountVectorizer(max_features=12, stop_words=["w3", "w4"]).fit(texts),
        HashingVectorizer(n_features=8, norm=None),
        HashingVectorizer(n_features=8, norm=None, alternate_sign=False),
    ):
        reader = Words(step)
        tokens = TokenTexts.of(map(reader.tokens, texts))
        np.testing.assert_array_equal(reader.counts(tokens).toarray(), step.transform(texts).toarray())
        words = reader._counted(tokens)
        n_tokens = words.n_unknown + np.add.reduceat(
            np.append(words.plus + words.minus, 0), words.indptr[:-1]
        ) * (np.diff(words.indptr) > 0)
        np.testing.assert_array_equal(n_tokens, np.diff(tokens.starts))
        # Texts of which nothing is left, and no texts.
        assert reader.counts(TokenTexts.of([[], ["unknown"][:0]])).shape == (2, reader.n_features)
