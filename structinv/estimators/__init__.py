"""scikit-learn estimators."""

from .base import ConvexEstimator
from .linear import InvariantLinearSVC

__all__ = ["ConvexEstimator", "InvariantLinearSVC"]
