"""Samples of a report: which are shown, and how they are counted."""

import re

import numpy as np
import pytest

from .cases import linear_images, mail, sentences, texts, written

# Small data have little to learn under an attack.
pytestmark = [
    pytest.mark.filterwarnings("ignore::structinv.UninformativeFitWarning"),
    pytest.mark.usefixtures("unpainted"),
]


@pytest.mark.parametrize("case", [linear_images, pytest.param(texts, marks=pytest.mark.slow), sentences])
def test_no_examples(tmp_path, case):
    page = written(tmp_path, *case(), n_examples=0)
    assert not {"h3", "del"} & set(page.names)
    assert "or none was requested" in page.texts["examples"]


def test_no_sample_that_is_correct(tmp_path):
    model, X, y = mail()
    wrong = np.where(model.predict(X) == "spam", "ham", "spam")
    page = written(tmp_path, model, X[:20], wrong[:20])
    assert "0.0 %" in page.texts[""]
    assert "h3" not in page.names


@pytest.mark.parametrize("case", [mail, texts, sentences])
def test_misclassified_samples_are_counted_beside_the_examples(tmp_path, case):
    model, X, y = case()
    if case is not sentences:
        y = [next(label for label in model.classes_ if label != y[0]), *y[1:]]
    correct = [np.array_equal(*each) for each in zip(model.predict(X), y, strict=True)]
    n_correct, n_wrong = sum(correct), len(correct) - sum(correct)
    assert n_wrong > 0
    noun = {mail: "row", texts: "text", sentences: "sentence"}[case]
    text = written(tmp_path, model, X, y, n_examples=2).texts["examples"]
    several = f"{n_correct} {noun}s with correct labels"
    assert f"Shown are 2 {noun}s with the smallest margins under attack, of {several}." in text
    wrong = f"{n_wrong} {noun}" if n_wrong == 1 else f"{n_wrong} {noun}s"
    assert f"Misclassified without perturbations: {wrong}." in text


@pytest.mark.parametrize(
    ("case", "noun"),
    [(mail, "row"), pytest.param(texts, "text", marks=pytest.mark.slow), (sentences, "sentence")],
)
def test_one_sample_is_singular(tmp_path, case, noun):
    model, X, y = case()
    page = written(tmp_path, model, X[-1:], y[-1:])
    assert "not classes" not in page.texts["data"]
    assert f"The test data have 1 {noun}" in page.texts["data"]
    assert not re.findall(rf"\b1 (?:test )?{noun}s", "".join(page.texts.values()))
    assert f"The accuracies are those of 1 test {noun}." in page.texts["limits"]
