"""Where the function lives: explicit features, or a reproducing kernel Hilbert space."""

from .atoms import AtomRows, AtomStore, Pool
from .base import Element, Normals, Space
from .explicit import ExplicitSpace
from .kernel import Expansion, KernelSpace
from .representer import RepresenterExpansion, RepresenterRows, RepresenterSpace

__all__ = [
    "AtomRows",
    "AtomStore",
    "Element",
    "Expansion",
    "ExplicitSpace",
    "KernelSpace",
    "Normals",
    "Pool",
    "RepresenterExpansion",
    "RepresenterRows",
    "RepresenterSpace",
    "Space",
]
