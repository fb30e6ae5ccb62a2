"""Set distances: between perturbation sets, and tangent distances."""

from .distances import distance_bounds, nearest, set_distance, tangent_distance

__all__ = ["distance_bounds", "nearest", "set_distance", "tangent_distance"]
