"""Explicit features of invariant kernels, for large data sets."""

from .distributions import GroupCDF
from .fourier import OrbitFourier
from .nystroem import OrbitNystroem
from .patches import PatchOrbits

REGISTRY: dict[str, type] = {
    "orbit_fourier": OrbitFourier,
    "orbit_nystroem": OrbitNystroem,
    "group_cdf": GroupCDF,
    "patch_orbits": PatchOrbits,
}

__all__ = [
    "GroupCDF",
    "OrbitFourier",
    "OrbitNystroem",
    "PatchOrbits",
]
