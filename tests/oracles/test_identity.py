"""`Identity`."""

import numpy as np
import pytest

from structinv.oracles import Identity
from structinv.utils.matrices import ALL_ROWS

from .cases import ORDERS, Reorderings, rows


@pytest.mark.parametrize("rho", [0.5, [1.0, 0.5, 0.0]], ids=str)
def test_the_identity_takes_any_profile_of_grades(rho):
    oracle = (Reorderings(ORDERS) | Identity()).discounted(rho)
    wanted = np.r_[1.0, np.broadcast_to(0.5, 2) if rho == 0.5 else rho[1:]]
    grades = oracle.bind(*rows()).changes().grades(ALL_ROWS)
    np.testing.assert_array_equal(grades, np.tile(wanted, (8, 1)))


def test_directions_that_change_in_place_are_asked_anew():
    """What `adjoint` returns may be a view of its argument, as that of no change at all is."""
    X, V = np.eye(3), np.array([[1.0, 2.0, 3.0]])
    bound = Identity().bind(X)
    before = V.copy()
    bound.changes().scores(slice(None), V)
    V *= 10.0
    np.testing.assert_array_equal(bound.changes().scores(slice(None), before)[:, 0, 0], [1.0, 2.0, 3.0])
