"""Choosing parameters: how many changes, how large a C, and folds of rows without labels."""

from .changes import ChangesSelection, select_changes
from .labels import LabelledSplit, labelled_scorer
from .scorers import certified_accuracy_scorer

__all__ = [
    "ChangesSelection",
    "LabelledSplit",
    "certified_accuracy_scorer",
    "labelled_scorer",
    "select_changes",
]
