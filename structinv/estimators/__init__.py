"""scikit-learn estimators."""

from .base import ConvexEstimator, InvariantClassifier
from .kernel import InvariantSVC
from .linear import InvariantLinearSVC
from .representer import LapSVC, RepresenterClassifier, RepresenterRegressor
from .virtual import VirtualSupportVectorSVC, VirtualSVC

__all__ = [
    "ConvexEstimator",
    "InvariantClassifier",
    "InvariantLinearSVC",
    "InvariantSVC",
    "LapSVC",
    "RepresenterClassifier",
    "RepresenterRegressor",
    "VirtualSVC",
    "VirtualSupportVectorSVC",
]
