"""Kernels with functionals folded in."""

import numpy as np
import pytest

from structinv.functionals import Evaluation, Folded, Gradient
from structinv.kernels import Gaussian

from ..kernels.cases import FEW, Keeping


def test_folding_does_not_modify_stored_values_of_a_kernel():
    kept = Keeping()
    options = {"nu": 0.7}
    folded = Folded(kept, [Evaluation().bind(FEW)], **options)
    wanted = Folded(Gaussian(), [Evaluation().bind(FEW)], **options).matrix(FEW, FEW)
    for _ in range(2):
        np.testing.assert_allclose(folded.matrix(FEW, FEW), wanted, rtol=1e-9)
    np.testing.assert_array_equal(kept.gram, Gaussian().matrix(FEW, FEW))


SETTINGS = [
    {"nu": 0.2},
    {"nu": [0.7, 0.0]},
    {"kernel": Gaussian(2.0)},
    {"kernel__sigma": 2.0},
    {"families": [Evaluation().bind(FEW)]},
]


@pytest.mark.parametrize("changes", SETTINGS, ids=lambda changes: next(iter(changes)))
def test_a_changed_setting_counts_after_the_first_use(changes):
    def folded():
        return Folded(Gaussian(), [Evaluation().bind(FEW), Gradient().bind(FEW[:2])], nu=0.7)

    wanted = folded().set_params(**changes).matrix(FEW, FEW)
    used = folded()
    assert np.max(np.abs(used.matrix(FEW, FEW) - wanted)) > 1e-3
    np.testing.assert_allclose(used.set_params(**changes).matrix(FEW, FEW), wanted, rtol=1e-12)
