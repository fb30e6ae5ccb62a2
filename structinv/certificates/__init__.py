"""Certificates: worst-case margins and prediction bounds over perturbation sets."""

from .certificate import Certificate, WorstChange, worst_change
from .predictions import PredictionBounds

__all__ = ["Certificate", "PredictionBounds", "WorstChange", "worst_change"]
