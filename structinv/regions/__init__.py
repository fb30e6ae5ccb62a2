"""Geometry of the sets S(x) of rows: distances between lists, boxes, tangent planes, ellipsoids."""

from .base import Region, SquaredDistances
from .boxes import Boxes
from .covers import Covers
from .curves import CurveRegion, Grid
from .ellipsoids import Balls, Ellipsoids
from .flats import Flats
from .parts import Parts
from .points import Points
from .products import Stack, pair_products
from .zonotopes import Zonotopes

__all__ = [
    "Balls",
    "Boxes",
    "Covers",
    "CurveRegion",
    "Ellipsoids",
    "Flats",
    "Grid",
    "Parts",
    "Points",
    "Region",
    "SquaredDistances",
    "Stack",
    "Zonotopes",
    "pair_products",
]
