"""Dual states of dense rows in boxes."""

import numpy as np
import pytest

from structinv.oracles import Box
from structinv.solvers import FrankWolfe, Gap, solve
from structinv.spaces import ExplicitSpace
from structinv.structures import Binary
from structinv.terms import Objective, WorstCase

from ..problems import two_classes


@pytest.mark.parametrize(
    ("larger", "smaller"),
    [
        (Box(0.3), Box(0.3).only_for(1)),
        (Box(0.3).only_for(0), Box(0.3).only_for(1)),
        (Box(0.6), Box(np.linspace(0.0, 0.4, 5))),
    ],
    ids=["fewer rows", "other rows", "smaller"],
)
def test_a_start_from_other_boxes_keeps_the_lower_bound(larger, smaller):
    X, y = two_classes(n=30, d=5)
    weights, space = np.linspace(0.2, 1.0, 30), ExplicitSpace(5)

    def solved(oracle, earlier=None):
        this = Objective(space, [WorstCase(X, y, oracle, Binary(), weights)])
        return solve(
            this, FrankWolfe(), Gap(1e-6), warm_start=earlier, check_always=True, random_state=0
        )

    earlier, best = solved(larger), solved(smaller)
    w, part = best.f, getattr(smaller, "oracle", smaller)
    changed = np.isin(y, getattr(smaller, "labels", y))
    margins = (2 * y - 1) * (X @ w) - changed * (np.broadcast_to(part.radius, 5) @ np.abs(w))
    primal = 0.5 * w @ w + weights @ np.maximum(0.0, 1.0 - margins)
    assert best.primal == pytest.approx(primal, rel=1e-9)
    again = solved(smaller, earlier)
    for record in again.history:
        assert record.dual <= primal * (1 + 1e-9)
    assert again.primal == pytest.approx(primal, rel=2e-6)
