"""Looking at models: explanations of edits, and displays."""

from .displays import draw_certified, draw_gaps, gap_curve
from .explanation import Explanation, explain_edit

__all__ = ["Explanation", "draw_certified", "draw_gaps", "explain_edit", "gap_curve"]
