"""What oracles tell of their sets as geometry, validated."""

from __future__ import annotations

import numpy as np

from ..regions import AffineSubspaces, Region
from ..utils import plugins
from ..utils.matrices import floating
from .arguments import check_needs_no_label
from .base import InvarianceOracle, as_oracle
from .checked_oracle import tangents_of
from .listing import listed_region


def region_of(oracle: InvarianceOracle, X: np.ndarray) -> Region:
    """``oracle.region(X)``, checked.

    A subclass outside this package has the region that it writes itself. An inherited one might belong
    to another set, so the subclass is asked for its list or its cover.

    Parameters
    ----------
    oracle : InvarianceOracle
        One whose sets do not depend on labels.
    X : (n, d) array

    Raises
    ------
    TypeError, ValueError
        If the oracle is none, depends on labels, or its answer is no region of these rows.
    NotImplementedError
        If it does not tell what its sets look like.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.oracles import Box
    >>> region_of(Box(0.5), np.zeros((3, 2))).kind
    'box'
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
            f"{source} must return the sets of {len(X)} rows, got {len(found)}, around points of shape "
            f"{found.centers.shape}"
        )
    return found


def tangent_planes(oracle: InvarianceOracle, X: np.ndarray) -> AffineSubspaces:
    """The planes through the rows along an oracle's tangents, with coefficients of any size.

    Raises
    ------
    TypeError, ValueError
        If the oracle is none, depends on labels, or its answer is not what the contract says.
    NotImplementedError
        If it has no tangents.
    """
    check_needs_no_label(as_oracle(oracle))
    oracle.validate(X.shape[1])
    X = floating(X)
    return AffineSubspaces.spanned(X, tangents_of(oracle, X))
