"""Where the function lives: explicit features, or a reproducing kernel Hilbert space."""

from .base import Space
from .explicit import ExplicitSpace
from .kernel import KernelSpace
from .representer import RepresenterSpace

__all__ = [
    "ExplicitSpace",
    "KernelSpace",
    "RepresenterSpace",
    "Space",
]
