"""Kernels with functionals folded in."""

import numpy as np

from structinv.functionals import Evaluation, Folded
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
