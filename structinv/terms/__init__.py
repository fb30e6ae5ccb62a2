"""What an objective is a sum of: worst-case losses of rows, and penalties on functionals."""

from .base import Coordinates, Term, check_weights, join
from .penalty import Penalty
from .worst_case import WorstCase
from .worst_margin import WorstMargin

__all__ = ["Coordinates", "Penalty", "Term", "WorstCase", "WorstMargin", "check_weights", "join"]
