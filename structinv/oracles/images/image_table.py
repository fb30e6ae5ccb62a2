"""Which members a list of values gives, those that do the same only once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class MemberTable:
    """The members of an orbit or a cover, the identity first.

    Parameters
    ----------
    family : (s,) array of int
        Number of the family of each, -1 for the identity.
    value : (s,) array
    warps : (s, 6) array
    place : (1 + m * f,) array of int
        Which member the identity became, and then each of m values in each of f families, by value.
    """

    family: np.ndarray
    value: np.ndarray
    warps: np.ndarray
    place: np.ndarray


def member_table(
    values: np.ndarray,
    n_families: int,
    neutral: float,
    warps_at: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> MemberTable:
    """The members with these values in all families.

    Parameters
    ----------
    values : (m,) array
    n_families : int
    neutral : float
        The value of no change.
    warps_at : callable
        From families (k,) and values (k,) to warps (k, 6).
    """
    family = np.r_[-1, np.tile(np.arange(n_families), len(values))]
    value = np.r_[neutral, np.repeat(values, n_families)]
    warps = warps_at(np.maximum(family, 0), value)
    # Equal values, and others that do the same: no change, or a whole turn.
    rounded = np.round(warps, 12) + 0.0
    _, first, same = np.unique(rounded, axis=0, return_index=True, return_inverse=True)
    kept = np.sort(first)
    place = np.searchsorted(kept, first[same.ravel()])
    return MemberTable(family[kept], value[kept], warps[kept], place)
