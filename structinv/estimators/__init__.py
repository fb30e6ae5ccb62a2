"""Estimators of scikit-learn style: classifiers, regressors and structured SVMs."""

from .custom_structured import CustomStructuredSVC
from .explain_solver import explain_solver
from .kernel import InvariantSVC, InvariantSVR
from .linear import InvariantLinearSVC, InvariantLinearSVR
from .representer_classifier import LapSVC, RepresenterClassifier
from .representer_regressor import RepresenterRegressor
from .ridge import OrbitRidge
from .structured import InvariantStructuredSVC
from .text import InvariantTextClassifier
from .virtual import VirtualSupportVectorSVC, VirtualSVC

# Model files contain these names.
REGISTRY: dict[str, type] = {
    "custom_structured_svc": CustomStructuredSVC,
    "invariant_linear_svc": InvariantLinearSVC,
    "invariant_linear_svr": InvariantLinearSVR,
    "invariant_svc": InvariantSVC,
    "invariant_svr": InvariantSVR,
    "invariant_structured_svc": InvariantStructuredSVC,
    "invariant_text_classifier": InvariantTextClassifier,
    "lap_svc": LapSVC,
    "orbit_ridge": OrbitRidge,
    "representer_classifier": RepresenterClassifier,
    "representer_regressor": RepresenterRegressor,
    "virtual_svc": VirtualSVC,
    "virtual_support_vector_svc": VirtualSupportVectorSVC,
}

__all__ = [
    "CustomStructuredSVC",
    "InvariantLinearSVC",
    "InvariantLinearSVR",
    "InvariantSVC",
    "InvariantSVR",
    "InvariantStructuredSVC",
    "InvariantTextClassifier",
    "LapSVC",
    "OrbitRidge",
    "RepresenterClassifier",
    "RepresenterRegressor",
    "VirtualSVC",
    "VirtualSupportVectorSVC",
    "explain_solver",
]
