"""Estimators on a Dask cluster; requires the extra `dask`."""

from .linear import DaskInvariantLinearSVC, DaskInvariantLinearSVR
from .structured import DaskInvariantStructuredSVC

__all__ = [
    "DaskInvariantLinearSVC",
    "DaskInvariantLinearSVR",
    "DaskInvariantStructuredSVC",
]
