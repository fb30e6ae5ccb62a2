"""Sections that all models have."""

import re
from copy import deepcopy

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from structinv.oracles import FDrop, Rotations

from .cases import ATTACK, images, mail, written

# Small data have little to learn under an attack.
pytestmark = pytest.mark.filterwarnings("ignore::structinv.UninformativeFitWarning")


def test_accuracies_are_those_of_the_certificate(tmp_path):
    model, X, y = mail()
    page = written(tmp_path, model, X, y, n_changes=[0, 1, 3])
    text = page.texts["accuracy"]
    # The number of the model is among them.
    for number in (0, 1, 2, 3):
        certificate = model.certify(X, y, oracle=FDrop(number))
        assert certificate.attacked_accuracy == certificate.accuracy
        assert f"|{number}|{100 * certificate.accuracy:.1f} %|100 of 100|" in text
    assert f"{100 * model.score(X, y):.1f} %" in page.texts[""]


def test_equal_accuracies_have_one_column(pages):
    for name in ("accuracy", "classes"):
        text = pages["mail"].texts[name]
        assert "|attacked|" not in text
        assert "|certified|" in text
    assert "The attacked accuracies equal the certified ones." in pages["mail"].texts["accuracy"]
    assert "The attacked rates equal the certified ones." in pages["mail"].texts["classes"]
    assert "Attacked accuracy" not in pages["mail"].texts[""]


@pytest.mark.usefixtures("unpainted")
def test_bounds_have_two_columns(tmp_path):
    with pytest.warns(ConvergenceWarning):
        model, X, y = images(Rotations(interval=(-5, 5)), tol=0.5)
    certificate = model.certify(X, y)
    assert certificate.attacked_accuracy > certificate.accuracy
    page = written(tmp_path, model, X, y, n_examples=0)
    assert "|attacked|certified|tight margins|" in page.texts["accuracy"]
    assert f"Attacked accuracy{100 * certificate.attacked_accuracy:.1f} %" in page.texts[""]


def test_rates_of_classes(pages):
    model, X, y = mail()
    text = pages["mail"].texts["classes"]
    certified, predicted = model.certify(X, y).correct, model.predict(X)
    spam, ham = y == "spam", y == "ham"
    numbers = [
        np.mean(predicted[spam] == "spam"), np.mean(certified[spam]),
        np.mean(predicted[ham] == "spam"), np.mean(~certified[ham]),
    ]  # fmt: skip
    row = text[text.index(f"|spam|{spam.sum()}|") :]
    cells = re.findall(r"\d+\.\d %", row)
    assert cells[:4] == [f"{100 * each:.1f} %" for each in numbers]


def test_any_number_of_edits_has_a_curve(tmp_path):
    model, X, y = deepcopy(mail())
    page = written(tmp_path, model, X, y, n_changes=[10**20])
    assert str(10**20) in page.texts["accuracy"]
    model.set_params(oracle=FDrop(10**20))
    assert str(10**20) in written(tmp_path, model, X, y, n_changes=[10**20]).texts["accuracy"]


def test_words_of_the_sections(pages):
    assert f"{ATTACK}0" in pages["frame"].texts["decisive"]
    assert "Its 95 % interval (Wilson) is" in pages["mail"].texts["accuracy"]
    assert "Detection rates of spam" in pages["mail"].texts["classes"]
    assert "edits allowed per token|" in pages["sentences"].texts["accuracy"]
    for name in ("mail", "texts"):
        assert "edits allowed|" in pages[name].texts["accuracy"]
