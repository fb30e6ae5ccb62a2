"""Dual variables of a term, in the form in which block-coordinate solvers improve them."""

from .base import DualState, Hurried, join_planes, never, total
from .hull import HullState
from .labels import LabelState
from .linear_members import LinearMemberState
from .members import MOST_MEMBERS, MemberState
from .penalty import PenaltyState, slopes_fit
from .plane_cache import PlaneCache

__all__ = [
    "MOST_MEMBERS",
    "DualState",
    "HullState",
    "Hurried",
    "LabelState",
    "LinearMemberState",
    "MemberState",
    "PenaltyState",
    "PlaneCache",
    "join_planes",
    "never",
    "slopes_fit",
    "total",
]
