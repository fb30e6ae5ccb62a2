"""Dual states of unperturbed rows: one dual variable per row."""

import numpy as np
import pytest
import scipy.sparse as sp

from structinv.oracles import Box, Identity
from structinv.solvers import FrankWolfe, Gap, solve
from structinv.spaces import ExplicitSpace
from structinv.structures import Binary
from structinv.terms import Objective, WorstCase


@pytest.mark.parametrize(
    ("form", "oracle"),
    [(np.asarray, Identity()), (sp.csr_matrix, Identity()), (np.asarray, Box(0.0))],
    ids=["dense", "sparse", "box"],
)
def test_weights_and_costs_with_slack_rescaling_are_factors_of_the_loss(form, oracle):
    """Each row has its own feature, so that each weight is a minimum in one variable."""
    n = 12
    y, weights = np.arange(n) % 2, np.linspace(0.0, 1.2, n)
    cost = np.array([[0.0, 0.4], [2.5, 0.0]])
    term = WorstCase(form(np.eye(n)), y, oracle, Binary(), weights, cost=cost, rescaling="slack")
    found = solve(Objective(ExplicitSpace(n), [term]), FrankWolfe(), Gap(1e-9), random_state=0)
    factors = weights * cost[y, 1 - y]
    size = np.minimum(factors, 1.0)
    best = 0.5 * size @ size + factors @ (1.0 - size)
    np.testing.assert_allclose(found.f, (2 * y - 1) * size, atol=1e-9)
    assert (found.dual, found.primal) == pytest.approx((best, best), rel=1e-9)
