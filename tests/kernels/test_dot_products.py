"""Kernels of inner products."""

import numpy as np
import pytest

from structinv.kernels import Linear, Polynomial

from .cases import SIX_ROWS, warnings_are_errors


@warnings_are_errors
@pytest.mark.parametrize("kernel", [Linear(), Polynomial(), Polynomial(gamma=1e300)], ids=str)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_products_that_overflow_are_refused_without_a_warning(kernel, dtype):
    rows = (SIX_ROWS * (1e160 if dtype == np.float64 else 1e30)).astype(dtype)
    with pytest.raises(ValueError, match=r"\.matrix returned values that are not finite"):
        kernel(rows)
