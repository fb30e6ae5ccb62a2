"""Directions of labels that occur."""

from __future__ import annotations

import numpy as np

from structinv.structures.classes import Multiclass, Regression


def test_labels_that_nobody_has_are_no_directions():
    """Of three labels only one is ever true, so one direction is asked about and not three."""
    competitors = Regression().bind(np.zeros(5)).competitors()
    own, other, assign = competitors.pairs(np.full(5, 2))
    assert (own.tolist(), other.tolist(), assign.tolist()) == ([0], [2], [0] * 5)
    few = Multiclass().bind(np.array([2, 0, 2, 0]), np.arange(4)).competitors()
    own, other, assign = few.pairs((few.codes + 1) % 4)
    assert (own.tolist(), other.tolist(), assign.tolist()) == ([0, 2], [1, 3], [1, 0, 1, 0])
