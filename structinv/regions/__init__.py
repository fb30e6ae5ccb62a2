"""Perturbation sets as geometric sets: lists, boxes, tangent planes, ellipsoids."""

from .base import Region, SquaredDistances
from .boxes import Boxes
from .point_lists import Points

__all__ = [
    "Boxes",
    "Points",
    "Region",
    "SquaredDistances",
]
