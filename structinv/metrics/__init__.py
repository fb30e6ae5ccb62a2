"""Set distances: between perturbation sets, and tangent distances."""

from .distances import nearest, set_distance, tangent_distance

__all__ = ["nearest", "set_distance", "tangent_distance"]
