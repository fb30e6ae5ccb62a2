"""Checks of parameters that all classes share."""

import re
from functools import partial

import numpy as np
import pytest

from structinv.utils.parameters import check_boolean, check_integer, check_number, in_order


# Cyclic orders differ from their inverses.
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("order", ["abc", "acb", "bca", "cab"])
def test_values_of_named_tables_follow_the_known_names(order, axis):
    pandas = pytest.importorskip("pandas")
    value = {"a": [1, 2], "b": [3, 4], "c": [5, 6]}
    table = pandas.DataFrame([value[name] for name in order], index=list(order))
    table = table if axis == 0 else table.T
    before = table.copy()
    found = in_order("table", table, axis, known=list("abc"))
    np.testing.assert_array_equal(found if axis == 0 else found.T, [value[name] for name in "abc"])
    pandas.testing.assert_frame_equal(table, before)
    numbers = pandas.Series([value[name][0] for name in order], index=["abc".index(k) for k in order])
    assert in_order("numbers", numbers).tolist() == [1, 3, 5]


OTHERS = ["1", None, 1j, [1.0], True]


# What is allowed, what is out of range, and what is of another type.
VALIDATED = [
    (check_number, [0, 1e300, np.float32(0.5)], [-1e-300, np.nan, np.inf], OTHERS, "of at least 0"),
    (partial(check_number, strict=True), [1e-300], [0, -1.0, np.nan, np.inf], OTHERS, "above 0"),
    (
        partial(check_number, minimum=-np.inf),
        [-1, 0],
        [np.nan, np.inf, -np.inf],
        OTHERS,
        "a finite number",
    ),
    (partial(check_number, maximum=1), [0, 1], [1.1, np.nan], OTHERS, "of at least 0 and at most 1"),
    (check_integer, [1, np.int64(3)], [0, -1], [1.0, *OTHERS], "an integer of at least 1"),
    (partial(check_integer, optional=True), [None, 1], [0], [1.0, True], "None or an integer"),
    (partial(check_integer, most=3, what="rows"), [1, 3], [0, 4], [], "at most 3, the number of rows"),
    (check_boolean, [True, np.False_], [], [0, 1, "yes", None], "True or False"),
]


@pytest.mark.parametrize(("check", "allowed", "out_of_range", "others", "said"), VALIDATED)
def test_parameters_have_ranges_and_types(check, allowed, out_of_range, others, said):
    for value in allowed:
        check("name", value)
    for error, values in ((ValueError, out_of_range), (TypeError, others)):
        for value in values:
            with pytest.raises(error, match=f"^name must be .*{said}.*, got {re.escape(repr(value))}"):
                check("name", value)
