"""Lower case of texts: the letters of a token never depend on its neighbors."""

import sys

import numpy as np
import pytest

from structinv import InvariantTextClassifier
from structinv.estimators.text_vectorizer import TOKENS, fold

# Letters whose lower case has another length, depends on neighbors or has a third form, and a mark.
ODD = [
    "\u03a3",
    "\u03c2",
    "\u0130",
    "\u0131",
    "\u1e9e",
    "\u00df",
    "\u01c5",
    "\u0345",
    "e\u0301",
    "\U00010400",
]
EDITS = "drop", "add", "replace"


def texts_of_odd_letters(n, seed):
    """Texts of two classes, with odd letters in their words, and marks that may join words."""
    rng = np.random.default_rng(seed)
    words = ["".join(rng.choice(["A", "b", "\u0391", *ODD], rng.integers(2, 5))) for _ in range(40)]
    words = [word + "\u03a3" * bool(rng.random() < 0.5) for word in words]
    marks = [" ", ".", "'", "\u00b7", ". \u03a3 ", "\u0301", "-", "\u00ad"]
    own = words[:15], words[15:30]
    return [
        "".join(
            str(rng.choice(own[i % 2] if rng.random() < 0.7 else words))
            + str(rng.choice(marks) if rng.random() < 0.5 else " ."[i % 2])
            for _ in range(rng.integers(1, 10))
        )
        for i in range(n)
    ]


def test_folding_maps_each_character_alone_to_one_character():
    every = [chr(code) for code in range(sys.maxunicode + 1)]
    folded = [fold(each) for each in every]
    assert all(len(each) == 1 and fold(each) == each for each in folded)
    # A character of a token remains one, so patterns of words match at the same places.
    assert [each.isalnum() for each in every] == [each.isalnum() for each in folded]
    for before, after in (("", ""), ("\u0391", ""), ("\u0391.", "'\u0391"), ("\u03a3", "\u03a3")):
        text = "".join(before + each + after for each in every)
        ends = fold(before), fold(after)
        assert fold(text) == "".join(ends[0] + each + ends[1] for each in folded)


def test_folding_agrees_with_lower_case_for_other_letters():
    for code in range(sys.maxunicode + 1):
        if chr(code) not in "\u0130\u03a3\u03c2":
            assert fold(chr(code)) == chr(code).lower()


@pytest.mark.parametrize("weights", ["counts", "binary"])
@pytest.mark.parametrize("edit", EDITS)
def test_edits_next_to_odd_letters_stay_within_certificates(edit, weights):
    texts = texts_of_odd_letters(60, seed=0)
    y = np.arange(60) % 2
    model = InvariantTextClassifier(edit, 1, C=10.0, weights=weights, random_state=0).fit(texts, y)
    certificate, predicted = model.certify(texts), model.predict(texts)
    assert certificate.accuracy > 0
    scores = model.decision_function(model.worst_case(texts))
    reached = np.where(predicted == 1, scores, -scores)
    np.testing.assert_allclose(reached, certificate.attacked, atol=1e-9)
    # Every edit of one token, at every position.
    pattern = model.vectorizer_._pattern
    new = [""] if edit == "drop" else ["\u03a3\u0391\u03a3", *model.vectorizer_.grams.names[::9]]
    for text, label, margin in zip(texts, predicted, certificate.margins, strict=True):
        edited = []
        for token in pattern.finditer(text):
            start, stop = (token.start(), token.start()) if edit == "add" else token.span()
            blank = " " if edit == "add" else ""
            edited += [text[:start] + each + blank + text[stop:] for each in new]
        if edited:
            scores = model.decision_function(edited)
            assert np.all((scores if label == 1 else -scores) >= margin)


def test_tokens_of_a_text_and_of_its_lower_case_are_at_the_same_places():
    vectorizer = InvariantTextClassifier().fit(["aa bb", "cc"], [0, 1]).vectorizer_
    assert vectorizer.token_pattern == TOKENS
    for text in texts_of_odd_letters(50, seed=1):
        raw = vectorizer._pattern.findall(text)
        assert list(map(fold, raw)) == vectorizer.tokens(text)


def test_capital_and_small_greek_words_are_one_feature():
    model = InvariantTextClassifier().fit(["\u039f\u0394\u039f\u03a3", "lunch"], [0, 1])
    rows = model.rows_of(
        ["\u03bf\u03b4\u03cc\u03c2 \u03bf\u03b4\u03bf\u03c2", "\u039f\u0394\u039f\u03a3.\u03b1"]
    )
    assert rows.sum(axis=1).ravel().tolist() == [[1.0, 1.0]]
