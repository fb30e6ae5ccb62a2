"""Inspection of models: explanations of edits, security curves and displays."""

from .explanation import explain_edit
from .image_displays import WorstCasesDisplay, name_changes
from .security import security_curve

__all__ = [
    "WorstCasesDisplay",
    "explain_edit",
    "name_changes",
    "security_curve",
]
