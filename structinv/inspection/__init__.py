"""Looking at models: explanations of edits, and displays."""

from .explanation import explain_edit
from .image_displays import draw_transforms, draw_worst_cases, name_changes
from .positions import position_margins
from .security import security_curve
from .sequence_displays import TransitionDisplay, draw_margins

__all__ = [
    "TransitionDisplay",
    "draw_margins",
    "draw_transforms",
    "draw_worst_cases",
    "explain_edit",
    "name_changes",
    "position_margins",
    "security_curve",
]
