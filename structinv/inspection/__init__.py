"""Inspection of models: explanations of edits, security curves and displays."""

from .explanation import Explanation, explain_edit
from .image_displays import WorstCasesDisplay, name_changes
from .positions import position_margins
from .security import SecurityCurve, security_curve

__all__ = [
    "Explanation",
    "SecurityCurve",
    "WorstCasesDisplay",
    "explain_edit",
    "name_changes",
    "position_margins",
    "security_curve",
]
