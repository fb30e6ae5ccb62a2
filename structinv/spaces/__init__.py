"""Function spaces: explicit features, and reproducing kernel Hilbert spaces."""

from .base import Space
from .explicit_space import ExplicitSpace
from .kernel_space import KernelSpace
from .representer_space import RepresenterSpace

__all__ = [
    "ExplicitSpace",
    "KernelSpace",
    "RepresenterSpace",
    "Space",
]
