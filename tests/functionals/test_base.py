"""Rows, coefficients and kernels of any kind, for functionals."""

import numpy as np
import pytest
import scipy.sparse as sp

from structinv.functionals import Difference, Evaluation, Gradient, SecondDerivative
from structinv.kernels import Gaussian, Laplacian, Matern
from structinv.kernels.kernel_names import CallableKernel, PrecomputedKernel

from .cases import D, N, rows


@pytest.mark.parametrize(
    "kernel",
    [Laplacian(), Matern(nu=0.5), CallableKernel(np.dot)],
    ids=lambda kernel: type(kernel).__name__,
)
def test_kernels_without_the_derivatives_are_errors(kernel):
    with pytest.raises(
        ValueError, match=f"Gradients requires .* order 1.*{type(kernel).__name__}.*order 0"
    ):
        Gradient().bind(rows()).gram(kernel)
    with pytest.raises(ValueError, match=r"SecondDerivatives requires .* order 2.*Matern.*order 1"):
        SecondDerivative(0, 0).bind(rows()).gram(Matern(nu=1.5))


@pytest.mark.parametrize("X", [np.ones(3), np.ones((2, 2, 2)), 1.0, sp.identity(3)], ids=type)
def test_rows_must_be_a_matrix(X):
    with pytest.raises(ValueError, match=r"X must have shape \(n_samples, n_features\)"):
        Gradient().bind(X)


def test_rows_must_be_finite():
    X = rows()
    X[2, 1] = np.inf
    with pytest.raises(ValueError, match="X must be finite"):
        Gradient().bind(X).gram(Gaussian())


def test_coefficients_of_another_size_are_errors():
    bound = Gradient().bind(rows())
    for c in (np.ones(N), np.ones((N * D, 1))):
        with pytest.raises(ValueError, match=r"coefficients must have shape \(18,\)"):
            bound.product(Gaussian(), c)
    with pytest.raises(ValueError, match=r"coefficients must have shape \(6,\)"):
        bound.product(Gaussian(), np.ones(N * D), Evaluation().bind(rows()))


def test_values_of_precomputed_kernels_are_functionals():
    table = np.cov(rows(5, 9))
    numbers = np.arange(5.0)[:, None]
    for family in (Evaluation(), Difference([[0, 1], [4, 2]])):
        bound = family.bind(numbers)
        mix = bound.parts(PrecomputedKernel(table))[0].mix
        mix = np.eye(5) if mix is None else mix.toarray()
        wanted = mix @ table @ mix.T
        np.testing.assert_allclose(bound.gram(PrecomputedKernel(table)), wanted, atol=1e-14)
        found = bound.product(PrecomputedKernel(table), np.ones(len(wanted)))
        np.testing.assert_allclose(found, wanted.sum(axis=1), atol=1e-14)
