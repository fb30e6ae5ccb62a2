"""Positive definite kernels of dense inputs, as blocks of Gram matrices."""

from .base import Kernel, half_norms, precision, squared_norms
from .distances import Gaussian, Laplacian, Matern
from .given import CallableKernel, PrecomputedKernel
from .names import as_kernel, resolve_gamma
from .products import Linear, Polynomial

REGISTRY: dict[str, type[Kernel]] = {
    "gaussian": Gaussian,
    "polynomial": Polynomial,
    "linear": Linear,
    "laplacian": Laplacian,
    "matern": Matern,
}

__all__ = [
    "REGISTRY",
    "CallableKernel",
    "Gaussian",
    "Kernel",
    "Laplacian",
    "Linear",
    "Matern",
    "Polynomial",
    "PrecomputedKernel",
    "as_kernel",
    "half_norms",
    "precision",
    "resolve_gamma",
    "squared_norms",
]
