"""scikit-learn estimators."""

from .base import ConvexEstimator, InvariantClassifier
from .kernel import InvariantSVC
from .laplacian import LapSVC
from .linear import InvariantLinearSVC
from .representer import RepresenterClassifier
from .representer_regressor import RepresenterRegressor
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
