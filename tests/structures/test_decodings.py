"""Layouts of examples."""

from __future__ import annotations

import numpy as np
import pytest

from structinv.structures import Layout


def test_subclass_of_layout_must_override_join():
    class Nested(Layout):
        pass

    with pytest.raises(TypeError, match="Nested must override join"):
        Nested.join([Nested(np.array([0, 1]))])


LENGTH = "lengths must be integers of at least 1"


@pytest.mark.parametrize("lengths", [[3, 0], [1.5], [[1, 2]], []], ids=str)
def test_wrong_lengths_are_refused_by_name(lengths):
    with pytest.raises(ValueError, match=LENGTH):
        Layout.of_lengths(lengths)
