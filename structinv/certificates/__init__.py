"""Certificates: worst-case margins and prediction bounds over perturbation sets."""

from .certificate import Certificate
from .predictions import PredictionBounds

__all__ = ["Certificate", "PredictionBounds"]
