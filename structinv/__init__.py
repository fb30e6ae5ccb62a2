"""Learning with invariances: say once what may change, train on the worst case, get a certificate."""

__version__ = "0.1.0"

from .certificates import Certificate
from .estimators import (
    InvariantLinearSVC,
    InvariantSVC,
    LapSVC,
    RepresenterClassifier,
    RepresenterRegressor,
    VirtualSupportVectorSVC,
    VirtualSVC,
)
from .persistence import load, save

__all__ = [
    "Certificate",
    "InvariantLinearSVC",
    "InvariantSVC",
    "LapSVC",
    "RepresenterClassifier",
    "RepresenterRegressor",
    "VirtualSVC",
    "VirtualSupportVectorSVC",
    "__version__",
    "load",
    "save",
]
