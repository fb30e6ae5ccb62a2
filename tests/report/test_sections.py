"""Sections that all models have."""

import re
from copy import deepcopy

import numpy as np
import pytest

from structinv.oracles import FDrop

from .cases import ATTACK, mail, written

# Small data have little to learn under an attack.
pytestmark = pytest.mark.filterwarnings("ignore::structinv.UninformativeFitWarning")


def test_accuracies_are_those_of_the_certificate(tmp_path):
    model, X, y = mail()
    page = written(tmp_path, model, X, y, n_changes=[0, 1, 3])
    text = page.texts["accuracy"]
    # The number of the model is among them.
    for number in (0, 1, 2, 3):
        certificate = model.certify(X, y, oracle=FDrop(number))
        accuracies = certificate.attacked_accuracy, certificate.accuracy
        cells = "|".join([str(number), *(f"{100 * each:.1f} %" for each in accuracies)])
        assert f"|{cells}|" in text
    assert f"{100 * model.score(X, y):.1f} %" in page.texts[""]


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
    assert [cells[k] for k in (0, 2, 3, 4)] == [f"{100 * each:.1f} %" for each in numbers]


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
