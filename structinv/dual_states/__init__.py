"""Dual variables of a term, in the form in which block-coordinate solvers improve them."""

from .base import DualState, join_planes, total
from .hull import HullState
from .linear_members import LinearMemberState
from .members import MemberState
from .penalty import PenaltyState, slopes_fit
from .plane_cache import PlaneCache

__all__ = [
    "DualState",
    "HullState",
    "LinearMemberState",
    "MemberState",
    "PenaltyState",
    "PlaneCache",
    "join_planes",
    "slopes_fit",
    "total",
]
