"""Learn models that are invariant to declared perturbations, with certificates."""

__version__ = "0.2.0.dev0"

from .certificates.certificate import Certificate
from .certificates.predictions import PredictionBounds
from .estimators import (
    CustomStructuredSVC,
    InvariantLinearSVC,
    InvariantLinearSVR,
    InvariantStructuredSVC,
    InvariantSVC,
    InvariantSVR,
    InvariantTextClassifier,
    LapSVC,
    OrbitRidge,
    RepresenterClassifier,
    RepresenterRegressor,
    VirtualSupportVectorSVC,
    VirtualSVC,
    explain_solver,
)
from .model_selection import select_changes, select_widths
from .other_models import certify, worst_texts
from .persistence import load, save
from .utils.exceptions import (
    CheckError,
    IndefiniteKernelWarning,
    TextEditsWarning,
    UninformativeFitWarning,
)

__all__ = [
    "IndefiniteKernelWarning",
    "Certificate",
    "CheckError",
    "CustomStructuredSVC",
    "InvariantLinearSVC",
    "InvariantLinearSVR",
    "InvariantSVC",
    "InvariantSVR",
    "InvariantStructuredSVC",
    "InvariantTextClassifier",
    "LapSVC",
    "OrbitRidge",
    "PredictionBounds",
    "RepresenterClassifier",
    "RepresenterRegressor",
    "TextEditsWarning",
    "UninformativeFitWarning",
    "VirtualSVC",
    "VirtualSupportVectorSVC",
    "__version__",
    "certify",
    "explain_solver",
    "select_changes",
    "select_widths",
    "load",
    "save",
    "worst_texts",
]
