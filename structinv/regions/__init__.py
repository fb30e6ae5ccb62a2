"""Geometry of the sets S(x) of rows: distances between lists, boxes, tangent planes, ellipsoids."""

from .base import Region
from .boxes import Boxes
from .ellipsoids import Ellipsoids
from .flats import Flats
from .points import Points
from .zonotopes import Zonotopes

__all__ = [
    "Boxes",
    "Ellipsoids",
    "Flats",
    "Points",
    "Region",
    "Zonotopes",
]
