"""Model selection: oracles, parameters, labeled folds and scorers."""

from .entity_scores import span_f1_scorer, span_scores
from .scorers import certified_accuracy_scorer, detection_scorer, labeled_scorer
from .select_changes import most_robust, select_changes
from .widths import select_widths

__all__ = [
    "certified_accuracy_scorer",
    "detection_scorer",
    "labeled_scorer",
    "most_robust",
    "select_changes",
    "select_widths",
    "span_f1_scorer",
    "span_scores",
]
