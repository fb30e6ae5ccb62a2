"""Certificates: worst-case margins and prediction bounds over perturbation sets."""

from .certificate import Certificate, worst_change
from .predictions import PredictionBounds

__all__ = ["Certificate", "PredictionBounds", "worst_change"]
