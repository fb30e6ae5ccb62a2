"""Lower case of texts: letters that depend on their neighbors have a warning."""

import warnings

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from structinv import InvariantTextClassifier, TextEditsWarning, certify
from structinv.oracles import TokenEdits

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
EDITS = "drop", "add", "replace", "edit"


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


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("edit", EDITS)
def test_edits_next_to_odd_letters_stay_within_certificates(edit, binary):
    texts = texts_of_odd_letters(60, seed=0)
    y = np.arange(60) % 2
    vectorizer = CountVectorizer(preprocessor=str.casefold, binary=binary)
    model = InvariantTextClassifier(edit, 1, vectorizer, C=10.0, random_state=0).fit(texts, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", TextEditsWarning)
        certificate, predicted = model.certify(texts), model.predict(texts)
    assert certificate.accuracy > 0
    scores = model.decision_function(model.worst_case(texts))
    reached = np.where(predicted == 1, scores, -scores)
    np.testing.assert_allclose(reached, certificate.attacked, atol=1e-9)
    # Every edit of one word, at every position.
    names = [*model.vectorizer_.vocabulary_][::9]
    for text, label, margin in zip(texts, predicted, certificate.margins, strict=True):
        words = text.split()
        if any(len(model.vectorizer_.build_analyzer()(word)) != 1 for word in words):
            continue
        edited = []
        for at in range(len(words)):
            before, after = words[:at], words[at + 1 :]
            if edit in ("drop", "edit"):
                edited.append(" ".join(before + after))
            if edit in ("add", "edit"):
                edited += [" ".join([*before, new, *words[at:]]) for new in names]
            if edit == "replace":
                edited += [" ".join([*before, new, *after]) for new in names]
        if edited:
            scores = model.decision_function(edited)
            assert np.all((scores if label == 1 else -scores) >= margin)


def test_letters_whose_lower_case_depends_on_neighbors_are_named():
    texts, y = ["free money", "see you", "\u0391\u03a3.\u03b1\u03b1"], ["spam", "ham", "ham"]
    classifier = InvariantTextClassifier("drop", 1, CountVectorizer(), random_state=0)
    pipeline = make_pipeline(CountVectorizer(), LinearSVC())
    for model in (classifier, pipeline):
        with pytest.warns(TextEditsWarning, match="pass preprocessor=str.casefold") as caught:
            certify(model.fit(texts, y), TokenEdits("drop", 1), texts)
        assert [each.filename for each in caught] == [__file__]
