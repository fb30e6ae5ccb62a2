"""Function spaces: explicit features, and reproducing kernel Hilbert spaces."""

from .explicit_space import ExplicitSpace
from .representer_space import RepresenterSpace

__all__ = [
    "ExplicitSpace",
    "RepresenterSpace",
]
