"""Products with Gram matrices that are not formed."""

import numpy as np
import pytest

from structinv.functionals import Gradient
from structinv.functionals.representers import Representers
from structinv.kernels import Gaussian, Polynomial

from .cases import rows


@pytest.mark.parametrize("kernel", [Gaussian(4.0), Polynomial(2, gamma=0.1)], ids=repr)
def test_products_need_no_matrix(kernel):
    X = rows(300, 20)
    c = np.random.default_rng(5).standard_normal(6000)
    found = Gradient().bind(X).product(kernel, c)
    system = Representers(kernel, [Gradient().bind(X).parts(kernel)])
    some = np.array([0, 19, 20, 777, 3141, 5999])
    wanted = system.gram(some, np.arange(6000)) @ c
    np.testing.assert_allclose(found[some], wanted, rtol=1e-9, atol=1e-9 * np.abs(wanted).max())
    np.testing.assert_allclose(system.gram(some) @ c, wanted, rtol=1e-9)
