"""Perturbation sets as geometric sets: lists, boxes, tangent planes, ellipsoids."""

from .affine_subspaces import AffineSubspaces
from .base import Region, SquaredDistances
from .boxes import Boxes
from .ellipsoids import Ellipsoids
from .point_lists import Points
from .zonotopes import Zonotopes

__all__ = [
    "Boxes",
    "Ellipsoids",
    "AffineSubspaces",
    "Points",
    "Region",
    "SquaredDistances",
    "Zonotopes",
]
