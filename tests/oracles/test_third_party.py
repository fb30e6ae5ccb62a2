"""Oracles of other classes."""

import numpy as np
import pytest

from structinv.oracles import Box, FScale, InvarianceOracle

from .cases import D, rows


class WithGrades(InvarianceOracle):
    """A box of another class, which takes grades."""

    def support(self, X, V, assign, cost=None, rho=None):
        return Box(1.0).support(X, V, assign, cost, rho)


class WithoutGrades(InvarianceOracle):
    def support(self, X, V, assign, cost=None):
        return Box(1.0).support(X, V, assign)


def test_third_party_oracles_take_grades_by_the_argument_rho():
    X, _ = rows()
    V, assign, cost = np.ones((1, D)), np.zeros(len(X), dtype=int), np.full(len(X), 2.0)
    answer = WithGrades().discounted(0.5).support(X, V, assign, cost)
    wanted = Box(1.0).discounted(0.5).support(X, V, assign, cost)
    np.testing.assert_array_equal(answer.points, wanted.points)
    np.testing.assert_array_equal(answer.rho, wanted.rho)
    with pytest.raises(NotImplementedError, match="WithoutGrades does not support grades"):
        WithoutGrades().discounted(0.5).support(X, V, assign, cost)


@pytest.mark.parametrize("view", ["orbit", "tangents"])
def test_unsupported_methods_raise_with_their_name(view):
    with pytest.raises(NotImplementedError, match=f"FScale does not define {view}"):
        getattr(FScale(1), view)(np.ones((1, D)))
