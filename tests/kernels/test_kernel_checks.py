"""`check_kernel` names the defect of a kernel."""

import numpy as np
import pytest

from structinv import CheckError
from structinv.kernels import Gaussian, Laplacian, Linear, check_kernel

from .cases import ROWS


def changed(base, **methods):
    """Make a subclass with some methods or attributes replaced."""
    return type("Wrong", (base,), {"__module__": __name__, **methods})()


def test_classes_that_cannot_be_pickled_are_refused():
    with pytest.raises(CheckError, match="clone and pickle must work"):
        check_kernel(changed(Linear), ROWS)


def of_gaussian(function):
    """Make the method `matrix` of a function of the Gaussian kernel matrix."""

    def matrix(self, X, Y, norms=None):
        return function(Gaussian().matrix(X, Y), X, Y)

    return matrix


WRONG_KERNELS = {
    r"matrix\(X, X\) must be symmetric": changed(
        Gaussian, matrix=of_gaussian(lambda K, X, Y: K * (1 + X[:, :1] ** 2))
    ),
    "diagonal": changed(Gaussian, diagonal=lambda self, X: np.full(len(X), 2.0)),
    "definite must be False": changed(
        Gaussian, matrix=lambda self, X, Y, norms=None: np.cos(np.linalg.norm(X[:, None] - Y, axis=2))
    ),
    "values must not depend on the other rows": changed(
        Gaussian,
        matrix=of_gaussian(lambda K, X, Y: K * (1 + 1e-3 * len(X) * len(Y)) / (1 + 24**2 * 1e-3)),
    ),
    "the Lipschitz constant": changed(Gaussian, lipschitz=lambda self, n_features=None: 0.5),
    "the symmetry 'isometries' does not hold": changed(
        Laplacian, matrix=Laplacian.matrix, symmetry="isometries"
    ),
    "adds_features must be False": changed(Gaussian, adds_features=True),
    r"entry \(0, 0\) of partials": changed(
        Gaussian, partials=lambda self, s, t, order: Gaussian(2.0).partials(s, t, order)
    ),
    r"entry \(1, 0\) of partials": changed(
        Gaussian,
        partials=lambda self, s, t, order: {
            key: values * (1 + 0.1 * key[0]) for key, values in Gaussian().partials(s, t, order).items()
        },
    ),
    "smoothness must be 0": changed(Linear, uses_products=False, smoothness=2.0),
}


@pytest.mark.parametrize("message", WRONG_KERNELS)
def test_the_defect_of_a_kernel_is_named(message):
    with pytest.raises(CheckError, match=f"Wrong: .*{message}"):
        check_kernel(WRONG_KERNELS[message], ROWS)


def test_rows_and_kernels_of_a_wrong_type_are_refused():
    with pytest.raises(TypeError, match="kernel must be a Kernel"):
        check_kernel("rbf", ROWS)
    for rows in (ROWS[0], ROWS[:1], np.full((3, 2), np.nan)):
        with pytest.raises(ValueError, match="X must have at least two finite rows"):
            check_kernel(Gaussian(), rows)
