"""Structured outputs whose features, costs and argmax are functions of the user."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from structinv import CustomStructuredSVC
from structinv.structures import Custom, check_custom


def joint_feature(x, y):
    return np.array([float(x == y), 1.0])


def cost(y, y2):
    return float(y != y2)


def argmax(x, w, y=None):
    return 0


FUNCTIONS = [
    ({"argmax": lambda x, w: 0}, r"argmax must accept 3 positional arguments.* argmax\(x, w\) and arg"),
    ({"argmax": lambda x, w, y: 0}, "argmax must accept 2 positional arguments"),
    ({"argmax": lambda x, w, *, y=None: 0}, "argmax must accept 3 positional arguments"),
    ({"argmax": lambda x, w, y=None: None}, "argmax must return a labeling, got None"),
    ({"cost": lambda y: 0.0}, r"cost must accept 2 positional arguments.* cost\(y, y2\)"),
    ({"joint_feature": lambda x: x}, r"joint_feature must accept 2 positional arguments.* joint_feat"),
]  # fmt: skip


@pytest.mark.parametrize(("wrong", "message"), FUNCTIONS)
def test_functions_that_do_not_answer_what_they_are_asked_are_refused(wrong, message):
    custom = Custom(**{"joint_feature": joint_feature, "cost": cost, "argmax": argmax} | wrong)
    for call in (
        lambda: CustomStructuredSVC(custom).fit([0, 1], [0, 1]),
        lambda: check_custom(custom, [0], [0], candidates=lambda x: (0, 1)),
    ):
        with pytest.raises(TypeError, match=message):
            call()


def test_scores_of_objects_need_a_labeling_for_each():
    custom = CustomStructuredSVC(Custom(joint_feature, cost, argmax)).fit([0, 1, 2], [0, 1, 0])
    for y in ([0, 1], [0, 1, 0, 0]):
        with pytest.raises(ValueError, match=rf"one labeling per example \(3\), got {len(y)}"):
            custom.score([0, 1, 2], y)


def test_a_wrong_argmax_is_advised_on_by_its_name():
    def first(x, w, y=None):
        """Looks at one item only, by the first weight."""
        return 0 if w[0] > -0.1 else 1

    rows = [np.array([[1.0], [0.0]])] * 2
    model = CustomStructuredSVC(Custom(lambda x, y: x[y], cost, first), C=0.2, random_state=0)
    with pytest.warns(ConvergenceWarning, match="'inconsistent'.*argmax.*check_custom") as told:
        model.fit(rows, [1, 1])
    assert not any("oracle" in str(each.message) for each in told)
