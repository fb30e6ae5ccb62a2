"""Set distances: between perturbation sets, and tangent distances."""

from .distances import DistanceBounds, distance_bounds, nearest, set_distance, tangent_distance

__all__ = ["DistanceBounds", "distance_bounds", "nearest", "set_distance", "tangent_distance"]
