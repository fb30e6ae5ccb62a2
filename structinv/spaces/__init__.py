"""Where the function lives: explicit features, or a reproducing kernel Hilbert space."""

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
