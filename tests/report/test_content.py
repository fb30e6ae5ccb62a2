"""Intervals of fractions, and names in pictures."""

import re
from copy import deepcopy

import numpy as np
import pytest

from structinv.report.content import features_with_effect, interval, without_equal_columns
from structinv.utils.summaries import Table

from .cases import linear_images, written

# Small data have little to learn under an attack.
pytestmark = pytest.mark.filterwarnings("ignore::structinv.UninformativeFitWarning")


@pytest.mark.filterwarnings("error")
def test_names_in_pictures_may_have_any_letters(tmp_path):
    model, X, y = deepcopy(linear_images())
    model.classes_ = np.array(["$a_", "x\u202e<b>", "\u65e5\u672c"])
    text = written(tmp_path, model, X, model.classes_[y]).texts["decisive"]
    assert all(name in text for name in ("\u65e5\u672c", "$a_", "x\\u202e<b>"))


def test_intervals_contain_the_fraction():
    for which in (np.array([True]), np.array([False] * 3), np.array([True, False] * 40)):
        low, high = (float(each) for each in re.findall(r"[\d.]+(?= %)", interval(which)))
        assert 0 <= low <= 100 * which.mean() <= high <= 100


@pytest.mark.parametrize(
    ("effects", "start"),
    [
        ([[5.0, 0.05, -0.04, 0.0]], "2 of 4 features have"),
        # The largest effect of all classes decides.
        ([[1.0, 0.0, 0.0], [0.0, -1.0, 0.0], [0.0, 0.0, 0.001]], "2 of 3 features have"),
        ([[0.0, 0.0]], "0 of 2 features have"),
        ([[-2.0, 0.0]], "1 of 2 features has"),
    ],
)
def test_small_effects_are_not_counted(effects, start):
    assert features_with_effect(np.array(effects)).startswith(start)


def test_a_column_of_attacked_accuracies_is_left_out_only_if_all_rows_are_equal():
    columns = ["edits", "attacked", "certified", "tight margins"]
    equal, other = ("0", "9 %", "9 %", "2 of 2"), ("1", "8 %", "7 %", "1 of 2")
    table, note = without_equal_columns(Table("", columns, [equal]), "accuracies")
    assert list(table.columns) == ["edits", "certified", "tight margins"]
    assert list(map(list, table.rows)) == [["0", "9 %", "2 of 2"]]
    assert note == "The attacked accuracies equal the certified ones."
    whole = Table("", columns, [equal, other])
    assert without_equal_columns(whole, "accuracies") == [whole]
