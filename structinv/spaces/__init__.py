"""Where the function lives: explicit features, or a reproducing kernel Hilbert space."""

from .atoms import AtomRows, AtomStore, Pool
from .base import Element, Furthest, Moved, Normals, Reached, Space
from .explicit import ExplicitSpace
from .kernel import Expansion, KernelSpace
from .representer import RepresenterExpansion, RepresenterRows, RepresenterSpace

__all__ = [
    "AtomRows",
    "AtomStore",
    "Element",
    "Expansion",
    "ExplicitSpace",
    "Furthest",
    "Moved",
    "KernelSpace",
    "Normals",
    "Pool",
    "Reached",
    "RepresenterExpansion",
    "RepresenterRows",
    "RepresenterSpace",
    "Space",
]
