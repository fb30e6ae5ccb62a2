"""What an objective is a sum of: worst-case losses of rows, and penalties on functionals."""

from .base import Term
from .objective import Objective
from .one_change import OneChange
from .penalty import Penalty
from .worst_case import WorstCase

# What trains structures, by their attribute `term`.
REGISTRY: dict[str, type[Term]] = {"worst_case": WorstCase, "one_change": OneChange}

__all__ = [
    "REGISTRY",
    "Objective",
    "Penalty",
    "Term",
    "WorstCase",
]
