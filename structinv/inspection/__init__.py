"""Looking at models: explanations of edits, and displays."""

from .displays import Curve, draw_certified, draw_errors, draw_gaps, gap_curve
from .explanation import Explanation, explain_edit
from .image_displays import draw_transforms, draw_worst_cases, name_changes, transform_counts
from .positions import position_margins
from .security import SecurityCurve, security_curve
from .sequence_displays import TransitionDisplay, draw_margins

__all__ = [
    "Curve",
    "Explanation",
    "SecurityCurve",
    "TransitionDisplay",
    "draw_certified",
    "draw_errors",
    "draw_gaps",
    "draw_margins",
    "draw_transforms",
    "draw_worst_cases",
    "explain_edit",
    "gap_curve",
    "name_changes",
    "position_margins",
    "security_curve",
    "transform_counts",
]
