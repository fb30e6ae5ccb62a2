"""Certificates: what a model predicts whatever changes the oracle makes."""

from .certificate import Certificate, WorstChange, worst_change
from .predictions import PredictionBounds

__all__ = ["Certificate", "PredictionBounds", "WorstChange", "worst_change"]
