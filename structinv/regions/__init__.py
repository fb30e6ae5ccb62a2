"""Geometry of the sets S(x) of rows: distances between lists, boxes, tangent planes, ellipsoids."""

from .base import Region, SquaredDistances
from .boxes import Boxes
from .points import Points
from .products import Stack, pair_products

__all__ = ["Boxes", "Points", "Region", "SquaredDistances", "Stack", "pair_products"]
