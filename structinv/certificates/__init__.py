"""Certificates: what a model predicts whatever changes the oracle makes."""

from .certificate import Certificate, worst_change
from .predictions import PredictionBounds

__all__ = ["Certificate", "PredictionBounds", "worst_change"]
