"""Model selection: oracles, parameters, labeled folds and scorers."""

from .entity_scores import SpanScores, span_f1_scorer, span_scores
from .label_scores import LabeledSplit, labeled_scorer
from .scorers import certified_accuracy_scorer, detection_scorer
from .select_changes import ChangesSelection, select_changes
from .widths import WidthsSelection, select_widths

__all__ = [
    "ChangesSelection",
    "LabeledSplit",
    "SpanScores",
    "WidthsSelection",
    "certified_accuracy_scorer",
    "detection_scorer",
    "labeled_scorer",
    "select_widths",
    "select_changes",
    "span_f1_scorer",
    "span_scores",
]
