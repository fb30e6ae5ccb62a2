"""Kernels of dense samples, and their kernel matrices.

A kernel is positive semi-definite by construction if its attribute `definite` is True.
"""

from .base import Kernel
from .dot_products import Linear, Polynomial
from .indefinite import psd_corrected
from .kernel_checks import check_kernel
from .kernel_names import CallableKernel
from .normal_overlaps import TangentDistributionKernel, VicinalKernel
from .orbits import OrbitDistance, OrbitMean
from .radial import Gaussian, Laplacian, Matern
from .sets import SetKernel
from .tangent_vectors import TangentOverlapKernel, TangentVectorKernel

REGISTRY: dict[str, type[Kernel]] = {
    "gaussian": Gaussian,
    "polynomial": Polynomial,
    "linear": Linear,
    "laplacian": Laplacian,
    "matern": Matern,
}

__all__ = [
    "CallableKernel",
    "Gaussian",
    "Kernel",
    "Laplacian",
    "Linear",
    "Matern",
    "OrbitDistance",
    "OrbitMean",
    "Polynomial",
    "SetKernel",
    "TangentDistributionKernel",
    "TangentOverlapKernel",
    "TangentVectorKernel",
    "VicinalKernel",
    "check_kernel",
    "psd_corrected",
]
