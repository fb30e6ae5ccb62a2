"""Validated geometric sets and tangent planes of oracles."""

from __future__ import annotations

import numpy as np

from ..regions import Region
from ..regions.zonotopes import AffineSubspaces
from ..utils import plugins
from ..utils.matrices import floating
from .arguments import check_needs_no_label
from .base import InvarianceOracle, as_oracle
from .checked_lists import listed_region
from .checked_oracle import tangents_of


def region_of(oracle: InvarianceOracle, X: np.ndarray) -> Region:
    """Call ``oracle.region(X)`` and validate the result.

    For a third-party subclass, only its own `region` is used. An inherited one might describe another
    set, so the list or cover of the subclass is used instead.

    Shapes: `X` (n_samples, n_features).
    """
    check_needs_no_label(as_oracle(oracle))
    if plugins.is_third_party(oracle) and not plugins.writes(oracle, "region"):
        return listed_region(oracle, X)
    source = plugins.method(oracle, "region")
    found = plugins.ask(oracle, source, oracle.region, floating(X))
    if not isinstance(found, Region):
        raise TypeError(f"{source} must return a Region, got {type(found).__name__}")
    if len(found) != len(X) or found.centers.shape != X.shape:
        raise ValueError(
            f"{source} must return one set per row, {len(X)} sets with centers of shape {X.shape}, got "
            f"{len(found)} with centers of shape {found.centers.shape}"
        )
    return found


def tangent_planes(oracle: InvarianceOracle, X: np.ndarray) -> AffineSubspaces:
    """Return the planes through the samples along an oracle's tangents."""
    check_needs_no_label(as_oracle(oracle))
    oracle.validate(X.shape[1])
    X = floating(X)
    return AffineSubspaces.spanned(X, tangents_of(oracle, X))
