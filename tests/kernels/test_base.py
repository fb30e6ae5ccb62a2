"""Kernels of users' own: what they say of themselves is looked at."""

import numpy as np
import pytest

from structinv.functionals import Evaluation, Gradient
from structinv.kernels import Gaussian, OrbitMean
from structinv.kernels.kernel_values import kernel_partials
from structinv.oracles import Flip

from .cases import FEW


class Stretched(Gaussian):
    """A Gaussian of features of other sizes: what its parent says of its values is false."""

    def matrix(self, X, Y, norms=None):
        return super().matrix(X * [1.0, 3.0], Y * [1.0, 3.0])


class Narrower(Stretched):
    """Inherits `matrix`, and says what is true of it."""

    symmetry = "nothing"

    def lipschitz(self, n_features=None):
        return 3.0 / self.sigma


class Told(Stretched):
    """Defines no `matrix` of its own: a word that is false, but this class's own."""

    symmetry = "permutations"


class Renamed(Gaussian):
    """Changes nothing of its parent's values."""

    def __repr__(self):
        return "Renamed()"


def test_overriding_matrix_resets_the_declarations_of_the_parent():
    for kernel in (Stretched(), 2.0 * Stretched(), Stretched() + Gaussian(), Gaussian() * Stretched()):
        assert kernel.symmetry == "nothing"
        assert kernel.lipschitz() == np.inf
        assert kernel.smoothness == 0.0
        assert kernel.spectral_law() is None
        assert kernel.noise_averaged(0.1, 2) is None
        with pytest.raises(NotImplementedError, match="has no derivatives"):
            kernel_partials(kernel, np.ones(3), np.ones(3), 1)
    for kernel in (Stretched(), 2.0 * Stretched()):
        assert not kernel.uses_distances
        assert not kernel.uses_products
    assert Stretched().noise_averaged(0.0, 2).sigma == 1.0
    assert Narrower().lipschitz() == 3.0
    assert (Told() + Gaussian()).symmetry == "permutations"
    assert Renamed().symmetry == "isometries"
    assert Renamed(0.5).lipschitz() == 2.0
    assert Renamed().spectral_law() is not None
    assert Renamed().smoothness == np.inf
    assert Renamed().uses_distances


class Bent(Gaussian):
    """No function of distances, as its parent is."""

    def matrix(self, X, Y, norms=None):
        return super().matrix(np.tanh(X), np.tanh(Y))


def test_functionals_of_kernels_that_override_matrix_are_not_folded():
    at, mirrored = Evaluation().bind(FEW + 1.0), OrbitMean(Flip(shape=(1, 2)), Bent())
    for kernel in (
        Bent(),
        2.0 * Bent(),
        Bent() + Gaussian(),
        Gaussian() * Bent(),
        Gaussian() + mirrored,
    ):
        np.testing.assert_allclose(at.gram(kernel), kernel.matrix(FEW + 1.0, FEW + 1.0), rtol=1e-12)
        with pytest.raises(
            (ValueError, NotImplementedError), match="has (no derivatives|them up to order 0)"
        ):
            Gradient().bind(FEW).gram(kernel)
