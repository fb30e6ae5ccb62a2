"""What oracles tell of their sets as geometry, looked at."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import answers
from ..matrices import ALL_ROWS, floating
from ..regions import Flats, Points, Region
from ..regions.covers import Covers, Score
from .arguments import hint_of
from .base import InvarianceOracle, dense_rows, listed
from .checked import bind, tangents_of


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
    check_distances_of(oracle)
    if answers.of_a_stranger(oracle) and not answers.writes(oracle, "region"):
        return listed_or_covered(oracle, X)
    source = answers.method(oracle, "region")
    found = answers.ask(oracle, source, oracle.region, floating(X))
    if not isinstance(found, Region):
        raise TypeError(f"{source} must return a Region, got {type(found).__name__}")
    if len(found) != len(X) or found.centers.shape != X.shape:
        raise ValueError(
            f"{source} must return the sets of {len(X)} rows, got {len(found)}, around points of shape "
            f"{found.centers.shape}"
        )
    return found


def tangent_planes(oracle: InvarianceOracle, X: np.ndarray) -> Flats:
    """The planes through the rows along an oracle's tangents, with coefficients of any size.

    Raises
    ------
    TypeError, ValueError
        If the oracle is none, depends on labels, or its answer is not what the contract says.
    NotImplementedError
        If it has no tangents.
    """
    check_distances_of(oracle)
    oracle.validate(X.shape[1])
    X = floating(X)
    return Flats.spanned(X, tangents_of(oracle, X))


def listed_or_covered(oracle: InvarianceOracle, X: np.ndarray) -> Region:
    """The list of members of a finite oracle, or the cover of another one that has one."""
    rows = floating(dense_rows(X))
    bound = bind(oracle, rows)
    if oracle.finite:
        return Points(_in_precision(rows, listed(bound).members()))
    found = bound.changes()
    if found is None:
        raise NotImplementedError(
            f"{type(oracle).__name__} does not define a region, which distances between sets need: it "
            "is neither a list, nor has it a cover; list members (see structinv.oracles.Sampled), or "
            "define `region` in a subclass"
        )
    changes = found

    def refine(points: np.ndarray, index: np.ndarray, score: Score) -> np.ndarray:
        return changes.on(points).refine(ALL_ROWS, index, score)

    return Covers(rows, _in_precision(rows, found.members()), found.mesh(), refine)


def _in_precision(rows: np.ndarray, points: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(points, dtype=rows.dtype)


def check_distances_of(oracle: Any) -> None:
    """Raise TypeError or ValueError unless it is an oracle whose sets belong to rows without labels."""
    if not isinstance(oracle, InvarianceOracle):
        given = repr(oracle)
        if isinstance(oracle, np.ndarray):
            given = f"an array of shape {oracle.shape}; the oracle comes first"
        raise TypeError(f"oracle must be an InvarianceOracle, got {given}{hint_of(oracle)}")
    if oracle.depends_on_label:
        raise ValueError(
            f"oracle must not depend on labels, which rows to predict do not have, got {oracle!r}"
        )
