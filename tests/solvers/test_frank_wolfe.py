"""Dual states that a term may have: sets that answer for themselves, and rows of one label."""

import numpy as np
import pytest

from structinv import InvariantLinearSVC, InvariantSVC
from structinv.oracles import Box, Ellipsoid, Identity, Shifts, Support, TangentDerivative
from structinv.solvers import FrankWolfe, Gap, Status, solve
from structinv.spaces import ExplicitSpace
from structinv.structures import Binary
from structinv.terms import Objective, WorstCase

from .cases import data


class NonNegativeBox(Box):
    """A box that ends at zero."""

    def support(self, X, V, assign, cost=None):
        return Support(np.maximum(super().support(X, V, assign).points, 0.0))


class StillEllipsoid(Ellipsoid):
    """An ellipsoid that does not move after all."""

    def support(self, X, V, assign, cost=None):
        return Support(X)


class Doubled(Identity):
    """The row or its double."""

    def support(self, X, V, assign, cost=None):
        return Support(np.where(np.sum(X * V[assign], axis=1)[:, None] > 0, 2 * X, X))


class LargerBall(Ellipsoid):
    """Twice the radius, by way of the parent's answer."""

    def support(self, X, V, assign, cost=None):
        return Support(2 * super().support(X, V, assign).points - X)


@pytest.mark.parametrize(
    "oracle",
    [NonNegativeBox(0.1), StillEllipsoid(np.eye(20), 0.5), Doubled(), LargerBall(np.eye(20), 0.1)],
    ids=lambda oracle: type(oracle).__name__,
)
def test_a_subclass_that_answers_for_itself_is_asked(oracle):
    X, y = data()
    found = [
        InvariantLinearSVC(oracle, C=0.5, tol=1e-4, solver=solver, random_state=0).fit(X, y)
        for solver in ("frank_wolfe", "bmrm")
    ]
    first, second = (model.solution_ for model in found)
    assert min(first.gap, second.gap) >= 0
    assert first.primal == pytest.approx(second.primal, rel=3e-4)
    V, codes = found[0].coef_ * np.array([[1.0], [-1.0]]), (y > 0).astype(int)
    points = oracle.support(X, V, codes).points
    reached = y * (points @ found[0].coef_[0] + found[0].intercept_)
    np.testing.assert_allclose(found[0].certify(X, y).margins, reached, atol=1e-10)


def objective(oracle, X, y):
    return Objective(ExplicitSpace(X.shape[1]), [WorstCase(X, y, oracle, Binary(), 1.0)])


@pytest.mark.parametrize("labels", [[-1, 1], [5]])
def test_only_for_all_rows_or_none_asks_no_oracle_about_nothing(labels):
    X, y = data()
    tangents = TangentDerivative(lambda rows: np.stack([row[None, :] for row in rows]), 0.1)
    found = solve(objective(tangents.only_for(labels), X, y), FrankWolfe(), Gap(1e-4), random_state=0)
    assert found.status is Status.CONVERGED


@pytest.mark.parametrize("seed", [0, 2, 3, 16, 17, 28])
def test_bounds_of_float32_rows_that_meet_are_not_inconsistent(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(5, 25))
    X = np.round(rng.standard_normal((n, 16)) * 10).astype(np.float32)
    shifts = Shifts((0.5, 1, 2), directions=8, shape=(4, 4))
    model = InvariantSVC(shifts, kernel="linear", C=0.06, random_state=0)
    assert model.fit(X, np.arange(n) % 5).solution_.status is Status.CONVERGED
