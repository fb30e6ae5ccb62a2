"""scikit-learn estimators."""

from .base import ConvexEstimator, InvariantClassifier
from .kernel import InvariantSVC
from .laplacian import LapSVC
from .linear import InvariantLinearSVC
from .representer import RepresenterClassifier
from .representer_regressor import RepresenterRegressor
from .virtual import VirtualSupportVectorSVC, VirtualSVC

# Model files know the estimators by these names.
REGISTRY: dict[str, type] = {
    "invariant_linear_svc": InvariantLinearSVC,
    "invariant_svc": InvariantSVC,
    "lap_svc": LapSVC,
    "representer_classifier": RepresenterClassifier,
    "representer_regressor": RepresenterRegressor,
    "virtual_svc": VirtualSVC,
    "virtual_support_vector_svc": VirtualSupportVectorSVC,
}

__all__ = [
    "REGISTRY",
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
