"""Inspection of models: explanations of edits, security curves and displays."""

from .explanation import Explanation, explain_edit
from .image_displays import WorstCasesDisplay, name_changes
from .security import SecurityCurve, security_curve

__all__ = [
    "Explanation",
    "SecurityCurve",
    "WorstCasesDisplay",
    "explain_edit",
    "name_changes",
    "security_curve",
]
