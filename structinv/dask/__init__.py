"""Linear estimators on a Dask cluster; needs the extra `dask`."""

from .ascent import CoCoA
from .certificates import DaskCertificate, DaskPredictionBounds
from .cluster import SchedulerLostError
from .estimators import DaskInvariantLinearSVC, DaskInvariantLinearSVR

__all__ = [
    "CoCoA",
    "DaskCertificate",
    "DaskInvariantLinearSVC",
    "DaskInvariantLinearSVR",
    "DaskPredictionBounds",
    "SchedulerLostError",
]
