"""Choosing parameters: how many changes, how wide, how large a C; folds without labels; scores."""

from .changes import select_changes
from .labels import LabelledSplit, labelled_scorer
from .scorers import certified_accuracy_scorer
from .spans import span_f1_scorer, span_scores
from .widths import learn_widths

__all__ = [
    "LabelledSplit",
    "certified_accuracy_scorer",
    "labelled_scorer",
    "learn_widths",
    "select_changes",
    "span_f1_scorer",
    "span_scores",
]
