"""Orbits as features: transformers of rows, for linear machines on many rows."""

from .patches import PatchOrbits

__all__ = ["PatchOrbits"]
