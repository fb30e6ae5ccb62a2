"""Estimators and features on a Dask cluster; requires the extra `dask`."""

from .certificates import DaskCertificate, DaskExampleCertificate, DaskPredictionBounds
from .cluster import SchedulerLostError
from .estimators import DaskInvariantLinearSVC, DaskInvariantLinearSVR
from .features import DaskOrbitFourier, DaskOrbitNystroem
from .structured import DaskInvariantStructuredSVC

__all__ = [
    "DaskCertificate",
    "DaskExampleCertificate",
    "DaskInvariantLinearSVC",
    "DaskInvariantLinearSVR",
    "DaskInvariantStructuredSVC",
    "DaskOrbitFourier",
    "DaskOrbitNystroem",
    "DaskPredictionBounds",
    "SchedulerLostError",
]
