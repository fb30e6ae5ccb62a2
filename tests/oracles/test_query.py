"""Worst answers to queries."""

import numpy as np
import pytest

from structinv.oracles.query import best_members
from structinv.structures.competitors import Competitors, LabelFunctions


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_rows_with_scores_that_are_not_finite_have_no_gains(wrong):
    scores = np.random.default_rng(0).standard_normal((3, 4, 2))
    costs = np.ones((3, 2)) - np.eye(2)[[0, 1, 0]]
    competitors = Competitors(LabelFunctions.one_each(2), np.array([0, 1, 0]), costs, slack=False)
    gains, _, members = best_members(scores, competitors, None)
    spoilt = scores.copy()
    spoilt[1, 2, 0] = wrong
    found, _, others = best_members(spoilt, competitors, None)
    assert np.all(np.isnan(found[1]))
    np.testing.assert_array_equal(found[::2], gains[::2])
    np.testing.assert_array_equal(others[::2], members[::2])
