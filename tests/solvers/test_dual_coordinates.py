"""Coordinates of functionals whose Gram matrix does not fit."""

import numpy as np
import pytest
from sklearn.datasets import make_moons

from structinv.functionals import Evaluation, Gradient
from structinv.functionals.representers import Representers
from structinv.losses import EpsilonInsensitive, Hinge
from structinv.losses.combined import Affine
from structinv.solvers import Status
from structinv.spaces import RepresenterSpace
from structinv.terms import Objective, Penalty
from structinv.terms.penalty import FamilyFunctionals

from .cases import KERNEL, solved
from .cases import representer_problem as problem


@pytest.mark.parametrize("method", ["dual-cd", "newton-cg"])
def test_a_gram_matrix_that_does_not_fit(method):
    """Room for 58 of 122 functionals' Gram matrix: coordinates are taken up greedily."""
    points, codes = make_moons(60, noise=0.1, random_state=1)
    labeled = np.array([np.argmax(codes == 0), np.argmax(codes == 1)])
    found = {}
    for cache_mb in (0.054, 100.0):
        families = [Evaluation(labeled), Gradient()]
        parts = [family.bind(points).parts(KERNEL) for family in families]
        representers = Representers(KERNEL, parts, cache_mb)
        terms = [
            Penalty(FamilyFunctionals(representers, 0), Affine(Hinge(), np.array([-1.0, 1.0])), 1.0),
            Penalty(FamilyFunctionals(representers, 1), EpsilonInsensitive(0.5), 0.5),
        ]
        objective = Objective(RepresenterSpace(representers, 2), terms)
        assert representers.fits == (cache_mb > 1)
        found[cache_mb] = solved(objective, method, 1e-7, 3000)
        assert found[cache_mb].status is Status.CONVERGED
    assert found[0.054].primal == pytest.approx(found[100.0].primal, rel=2e-7)


def test_a_working_set_without_memory_raises():
    tight = problem("squared", "squared", cache_mb=16e-6 * 10**2)
    with pytest.raises(MemoryError, match="increase cache_mb"):
        solved(tight, "dual-cd")
