"""Faults that were found once, each by the smallest example that shows it."""

import numpy as np
import pytest

from structinv import InvariantLinearSVC
from structinv.objective import Objective, WorstCase
from structinv.oracles import (
    Box,
    Ellipsoid,
    FDrop,
    FScale,
    Identity,
    Support,
    TangentDerivative,
)
from structinv.outputs import Binary
from structinv.solvers import FrankWolfe, Gap, Seconds, Status, SVMStruct, solve
from structinv.spaces import ExplicitSpace


def data(n=40, d=20, seed=0):
    rng = np.random.default_rng(seed)
    X = np.abs(rng.standard_normal((n, d)))
    return X, np.where(np.arange(n) % 2, 1, -1)


class NonNegativeBox(Box):
    """A box that ends at zero."""

    def support(self, X, V, assign, reward=None):
        """Clip the parent's answer."""
        return Support(np.maximum(super().support(X, V, assign).points, 0.0))


class StillEllipsoid(Ellipsoid):
    """An ellipsoid that does not move after all."""

    def support(self, X, V, assign, reward=None):
        """Nothing changes."""
        return Support(X)


class Doubled(Identity):
    """The row or its double."""

    def support(self, X, V, assign, reward=None):
        """The better of the two."""
        return Support(np.where(np.sum(X * V[assign], axis=1)[:, None] > 0, 2 * X, X))


class LargerBall(Ellipsoid):
    """Twice the radius, by way of the parent's answer."""

    def support(self, X, V, assign, reward=None):
        """Twice the parent's change."""
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


def test_bounds_that_contradict_each_other_are_not_called_converged():
    X, y = data()
    earlier = solve(objective(Identity(), X[:20], y[:20]), SVMStruct(), Gap(1e-6))
    other_rows = objective(Identity(), X[::-1].copy(), y[::-1].copy())
    later = solve(other_rows, SVMStruct(), Gap(1e-6), warm_start=earlier)
    assert later.gap < 0
    assert later.status is Status.INCONSISTENT
    assert "warm start" in later.status.advice


@pytest.mark.parametrize("solver", ["frank_wolfe", "bmrm", "svmstruct"])
def test_two_classes_one_of_whose_errors_costs_nothing(solver):
    X, y = data()
    model = InvariantLinearSVC(FDrop(2), cost=[[0, 3], [0, 0]], rescaling="slack", solver=solver, C=0.1)
    assert model.fit(X, y).solution_.status is Status.CONVERGED


def test_a_run_without_bounds_comes_to_an_end():
    X, y = data()
    X[y > 0, :10] += 1.0
    X[y < 0, 10:] += 1.0
    oracle = FDrop(1) @ FScale(1, 0.8, 1.2)
    stop = Gap(1e-6) | Seconds(60)
    found = solve(objective(oracle, X, y), SVMStruct(epsilon=0.3), stop, random_state=0)
    assert found.primal == np.inf
    assert found.status is Status.ORACLE_TOO_COARSE


@pytest.mark.parametrize("labels", [[-1, 1], ["absent"]])
def test_only_for_all_rows_or_none_asks_no_oracle_about_nothing(labels):
    X, y = data()
    tangents = TangentDerivative(lambda rows: np.stack([row[None, :] for row in rows]), 0.1)
    found = solve(objective(tangents.only_for(labels), X, y), FrankWolfe(), Gap(1e-4))
    assert found.status is Status.CONVERGED


def test_balanced_classes_one_of_which_has_no_sample_that_counts():
    X, y = data()
    model = InvariantLinearSVC(class_weight="balanced")
    assert model.fit(X, y, sample_weight=(y > 0) * 1.0).predict(X).tolist() == [1] * 40
