"""Bounds of edited texts against the rows of all edited texts, for directions that no fit has chosen."""

from itertools import product

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

from structinv import InvariantTextClassifier
from structinv.oracles import TokenEdits
from structinv.oracles.text.text_chunks import Chunks
from structinv.oracles.text.text_edits import STEPS, ReadTexts
from structinv.oracles.text.text_grams import TokenTexts
from structinv.oracles.text.text_phrases import Phrases
from structinv.oracles.text.text_tokens import Words
from structinv.oracles.text.vectorizers import normalization_of

from ...other_models.cases import edited
from ..cases import NOISE

TOKENS = ["aa", "bb", "cc"]
# The reader of the tokens, and the parameters of the vectorizer.
READERS = {
    "words": (Words, {}),
    "stop words": (Words, {"stop_words": ["aa"], "vocabulary": TOKENS}),
    "bigrams": (Phrases, {"ngram_range": (1, 2)}),
    "only bigrams": (Phrases, {"ngram_range": (2, 2)}),
    "trigrams": (Phrases, {"ngram_range": (1, 3)}),
    "only trigrams": (Phrases, {"ngram_range": (2, 3)}),
    "characters in words": (Chunks, {"analyzer": "char_wb", "ngram_range": (1, 3)}),
    "characters": (Chunks, {"analyzer": "char", "ngram_range": (1, 4)}),
    "bigrams between blanks": (Chunks, {"ngram_range": (2, 3)}),
}
TERMS = {"counts": {}, "binary": {"binary": True}, "sublinear": {"sublinear_tf": True}}
EDITS = [("drop", 2), ("add", 2), ("edit", 2), ("replace", 2)]


def directions(rng, d):
    """Directions of several means, some with ties or zeros."""
    V = rng.standard_normal((6, d)) + np.array([0.0, -0.5, -1.0, -2.0, 1.0, -1.0])[:, None]
    V[3] = np.round(V[3])
    V[5] *= rng.random(d) < 0.5
    return V


def versions(reader, text, edits):
    """All edited texts."""
    inserted = edits.allowed or [*TOKENS, "zz"]
    texts = {" ".join(words) for words in edited(text.split(), edits.edit, edits.max_changes, inserted)}
    if isinstance(reader, Chunks) and edits.edit == "drop":
        # Chunks keep the blank after a token.
        texts |= {"".join(part) for part in edited(reader.tokens(text), "drop", edits.max_changes, ())}
    return sorted(texts)


@pytest.mark.parametrize("name", READERS)
def test_no_edited_text_exceeds_the_bound_of_any_direction(name):
    kind, options = READERS[name]
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(TOKENS, length)) for length in (1, 3, 4, 5)]
    reader = kind(TfidfVectorizer(**options).fit(texts))
    for turn, (edit, most) in enumerate(EDITS):
        if kind is Chunks and edit != "drop" and reader.crosses:
            continue
        edits = TokenEdits(edit, most, TOKENS[:2] if kind is Chunks and edit != "drop" else None)
        each = [versions(reader, text, edits) for text in texts]
        settings = list(product([None, "l1", "l2"], TERMS))
        if kind is Phrases:
            # Their searches take longer: settings have the edits of each reader in turns.
            settings = settings[(turn + list(READERS).index(name)) % 2 :: 2]
        for norm, terms in settings:
            vectorizer = TfidfVectorizer(norm=norm, **options, **TERMS[terms]).fit(texts)
            check_bounds(kind, vectorizer, edits, texts, each)


def check_bounds(kind, vectorizer, edits, texts, each):
    """Compare bounds of the texts with all edited ones."""
    reader, norm, rng = kind(vectorizer), vectorizer.norm, np.random.default_rng(1)
    # Six directions of each text; all texts are searched at once.
    V = np.vstack([directions(rng, len(vectorizer.vocabulary_)) for _ in texts])
    tokens = TokenTexts.of(reader.tokens(text) for text in texts for _ in range(6))
    read = ReadTexts(reader, normalization_of(vectorizer), tokens)
    found = read.search(edits)(V, np.arange(len(V)))
    reached = np.sum(read.normalization.rows(found.counts()).toarray() * V, axis=1)
    scores = vectorizer.transform(sum(each, [])) @ V.T
    parts = np.split(scores, np.cumsum(list(map(len, each)))[:-1])
    wanted = np.concatenate([part.max(axis=0)[6 * at : 6 * at + 6] for at, part in enumerate(parts)])
    assert np.all(found.upper >= wanted - 1e-10), (edits, vectorizer)
    assert np.all(found.values <= wanted + 1e-10), (edits, vectorizer)
    np.testing.assert_allclose(reached, found.values, atol=1e-10)
    if kind is Words and norm != "l2":
        np.testing.assert_allclose(found.values, wanted, atol=1e-9)
        np.testing.assert_allclose(found.upper, wanted, atol=1e-9)


@pytest.mark.parametrize("norm", [None, "l1", "l2"])
def test_rounding_is_at_least_the_error_of_products(norm):
    for dtype in (np.float32, np.float64):
        words = [f"w{number}" for number in range(100)]
        vectorizer = TfidfVectorizer(norm=norm, dtype=dtype).fit([" ".join(words)])
        for text in (" ".join(words), "w7"):
            x = vectorizer.transform([text])
            V, first = x.toarray().astype(float), np.zeros(1, dtype=int)
            oracle = ReadTexts.of(vectorizer, [text]).oracle(TokenEdits("drop", 0))
            bound = oracle.support(x, V, first).rounding(V, V, first, np.zeros(1))
            assert bound >= (x.nnz + STEPS) * np.finfo(dtype).eps * np.sum(V * V)


@pytest.mark.parametrize("kind", ["drop", "replace", "add"])
@pytest.mark.parametrize("ngram_range", [(1, 1), (1, 2)])
def test_the_first_of_equal_tokens_is_edited(kind, ngram_range):
    for binary in (False, True):
        words = ["a", "b", "c", "d", "e", "f", "g", "h", "i"]
        vectorizer = CountVectorizer(ngram_range=ngram_range, binary=binary, token_pattern=r"\w")
        model = InvariantTextClassifier(kind, 2, vectorizer).fit(
            [" ".join(words), "j k l", "k l j"], [1, 0, 0]
        )
        for noise in NOISE:
            gains = np.zeros(model.coef_.shape)
            for word in words:
                gains[0, model.vectorizer_.vocabulary_[word]] = 1.0 + noise[words.index(word)]
            for word in "jkl":
                gains[0, model.vectorizer_.vocabulary_[word]] = -1.0 - noise["jkl".index(word)]
            model.coef_ = gains
            (parts,) = model._worst_case_parts([" ".join(words)], [1])
            deleted = [text for part, text in parts if part == "deleted"]
            inserted = [text.strip() for part, text in parts if part == "inserted"]
            assert deleted == ([] if kind == "add" else ["a", "b"]), parts
            assert set(inserted) <= set("jk"), parts
