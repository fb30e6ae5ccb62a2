"""scikit-learn estimators."""

from .base import ConvexEstimator, InvariantClassifier
from .kernel import InvariantSVC
from .linear import InvariantLinearSVC
from .virtual import VirtualSupportVectorSVC, VirtualSVC

__all__ = [
    "ConvexEstimator",
    "InvariantClassifier",
    "InvariantLinearSVC",
    "InvariantSVC",
    "VirtualSVC",
    "VirtualSupportVectorSVC",
]
