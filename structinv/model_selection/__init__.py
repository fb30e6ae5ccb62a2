"""Choosing parameters: how many changes, how large a C, folds of rows without labels; scores."""

from .changes import ChangesSelection, select_changes
from .labels import LabelledSplit, labelled_scorer
from .scorers import certified_accuracy_scorer
from .spans import SpanScores, span_f1_scorer, span_scores

__all__ = [
    "ChangesSelection",
    "LabelledSplit",
    "SpanScores",
    "certified_accuracy_scorer",
    "labelled_scorer",
    "select_changes",
    "span_f1_scorer",
    "span_scores",
]
