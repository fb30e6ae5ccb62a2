"""Positive definite kernels of dense inputs, as blocks of Gram matrices."""

from .base import Kernel
from .combinations import Product, Scaled, Sum
from .distances import Gaussian, Laplacian, Matern, RationalQuadratic
from .given import CallableKernel, PrecomputedKernel
from .names import as_kernel, resolve_gamma
from .orbits import OrbitDistance, OrbitMean
from .products import Linear, Polynomial
from .questions import (
    kernel_arguments,
    kernel_definite,
    kernel_diagonal,
    kernel_lipschitz,
    kernel_matrix,
    kernel_smoothness,
    kernel_spectral_law,
    kernel_symmetry,
    kernel_thread_safe,
)
from .sets import SetKernel
from .spectra import MendedKernel, ShiftedKernel, least_eigenvalue, mended, rounding_of
from .tangent_distributions import TangentDistributionKernel
from .tangent_vectors import TangentOverlapKernel, TangentVectorKernel
from .values import half_norms, precision, squared_norms
from .vicinal import VicinalKernel

REGISTRY: dict[str, type[Kernel]] = {
    "gaussian": Gaussian,
    "polynomial": Polynomial,
    "linear": Linear,
    "laplacian": Laplacian,
    "matern": Matern,
    "rational_quadratic": RationalQuadratic,
}

__all__ = [
    "REGISTRY",
    "CallableKernel",
    "Gaussian",
    "Kernel",
    "Laplacian",
    "Linear",
    "Matern",
    "OrbitDistance",
    "OrbitMean",
    "Polynomial",
    "PrecomputedKernel",
    "Product",
    "RationalQuadratic",
    "Scaled",
    "SetKernel",
    "MendedKernel",
    "ShiftedKernel",
    "Sum",
    "TangentDistributionKernel",
    "TangentOverlapKernel",
    "TangentVectorKernel",
    "VicinalKernel",
    "as_kernel",
    "half_norms",
    "kernel_arguments",
    "kernel_definite",
    "kernel_diagonal",
    "kernel_lipschitz",
    "kernel_matrix",
    "kernel_smoothness",
    "kernel_spectral_law",
    "kernel_symmetry",
    "kernel_thread_safe",
    "least_eigenvalue",
    "mended",
    "precision",
    "resolve_gamma",
    "rounding_of",
    "squared_norms",
]
