"""What an objective is a sum of: worst-case losses of rows, and penalties on functionals."""

from .base import Coordinates, Term, check_weights, join
from .joint_feature import JointFeature
from .one_change import OneChange
from .penalty import Penalty
from .worst_case import WorstCase
from .worst_margin import WorstMargin

# What trains structures, by their attribute `term`.
REGISTRY: dict[str, type[Term]] = {"worst_case": WorstCase, "one_change": OneChange}

__all__ = [
    "REGISTRY",
    "Coordinates",
    "JointFeature",
    "OneChange",
    "Penalty",
    "Term",
    "WorstCase",
    "WorstMargin",
    "check_weights",
    "join",
]
