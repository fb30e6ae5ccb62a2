"""Estimators and features of orbits on a Dask cluster; needs the extra `dask`."""

from .bundle import MultiCutBundle
from .certificates import DaskCertificate, DaskPredictionBounds
from .cluster import SchedulerLostError
from .estimators import DaskInvariantLinearSVC, DaskInvariantLinearSVR
from .features import DaskOrbitFourier, DaskOrbitNystroem

__all__ = [
    "DaskCertificate",
    "DaskInvariantLinearSVC",
    "DaskInvariantLinearSVR",
    "DaskOrbitFourier",
    "DaskOrbitNystroem",
    "DaskPredictionBounds",
    "MultiCutBundle",
    "SchedulerLostError",
]
