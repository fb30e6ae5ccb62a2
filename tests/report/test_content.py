"""Intervals of fractions, and names in pictures."""

import re
from copy import deepcopy

import numpy as np
import pytest

from structinv.report.content import interval

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
