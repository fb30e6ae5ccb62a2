"""Objectives: worst-case losses of samples and penalties on functionals."""

from .objective import Objective, Term
from .one_change import OneChange
from .penalty import Penalty
from .worst_case import WorstCase

# Terms that train output structures, by `Structure.term`.
REGISTRY: dict[str, type[Term]] = {"worst_case": WorstCase, "one_change": OneChange}

__all__ = [
    "Objective",
    "Penalty",
    "WorstCase",
]
