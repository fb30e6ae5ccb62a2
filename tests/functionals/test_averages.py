"""Local averages: the formula, and quadrature."""

import numpy as np
import pytest

from structinv.functionals import LocalAverage
from structinv.kernels import Gaussian, Matern

from .cases import rows


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize(("sigma", "width"), [(1.0, 0.3), (0.8, 0.8), (2.0, 1.0)])
def test_local_averages_are_the_corrected_formula(d, sigma, width):
    X, family = rows(4, d), LocalAverage(width)
    squares = np.sum((X[:, None] - X[None]) ** 2, axis=2)

    def kappa(s):
        return np.exp(-squares / (2 * s**2))

    c1, c2 = ((1 + m * width**2 / sigma**2) ** (-d / 2) for m in (1, 2))
    once, twice = np.sqrt(sigma**2 + width**2), np.sqrt(sigma**2 + 2 * width**2)
    gram = family.bind(X).gram(Gaussian(sigma))
    np.testing.assert_allclose(gram, kappa(sigma) + c2 * kappa(twice) - 2 * c1 * kappa(once), atol=1e-13)


def test_quadrature_in_many_features_is_an_error():
    bound = LocalAverage(0.5).bind(rows(4, 10))
    with pytest.raises(ValueError, match=r"LocalAverage has no closed form for Matern.*n_nodes=7 in 10"):
        bound.gram(Matern())
    assert bound.gram(Gaussian(3.0)).shape == (4, 4)
    # 8 nodes in 64 features are 2^192, which is 0 in 64 bits.
    wide = LocalAverage(0.5, n_nodes=np.int64(8)).bind(rows(2, 64))
    with pytest.raises(ValueError, match="LocalAverage has no closed form"):
        wide.gram(Matern())
