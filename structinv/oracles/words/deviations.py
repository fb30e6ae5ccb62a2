"""Deviations of words from the dual variables of their rows, as arrays."""

from __future__ import annotations

import numpy as np

from ...utils.row_arrays import Arrays

# Relative excess of a limit that is due to rounding errors.
ROUNDING = 1e-12


def listed_deviations(indptr: np.ndarray, delta: np.ndarray) -> Arrays:
    """Return the nonzero deviations of the entries of CSR rows, as one list per row."""
    changed = np.flatnonzero(delta)
    counts = np.diff(np.searchsorted(changed, indptr))
    places = changed - np.repeat(indptr[:-1], counts)
    return {
        "words.counts": counts.astype(np.int32),
        "words.places": places.astype(np.uint16 if np.all(places < 2**16) else np.int32),
        "words.deviations": delta[changed],
    }


def feasible_deviations(
    arrays: Arrays,
    indptr: np.ndarray,
    taus: np.ndarray,
    budgets: np.ndarray,
    drop: float,
    grow: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the deviation of each entry, and the used budget of each row.

    The deviations of row i are between ``-drop taus[i]`` and ``grow taus[i]``. Those that exceed the
    budget in total are scaled down.
    """
    counts = arrays["words.counts"]
    lengths, owners = np.diff(indptr), np.repeat(np.arange(len(counts)), counts)
    places, delta = arrays["words.places"].astype(np.int64), np.zeros(indptr[-1])
    known = np.flatnonzero((places >= 0) & (places < lengths[owners]))
    delta[indptr[owners[known]] + places[known]] = arrays["words.deviations"][known]
    return shrunk(delta, lengths, taus, budgets, drop, grow)


def shrunk(
    delta: np.ndarray,
    lengths: np.ndarray,
    taus: np.ndarray,
    budgets: np.ndarray,
    drop: float,
    grow: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Return feasible deviations for lists of given lengths, and the used budgets."""
    owners = np.repeat(np.arange(len(lengths)), lengths)
    # Limits with rounding errors leave feasible deviations unchanged.
    limits = (1.0 + ROUNDING) * taus
    delta = np.clip(delta, -drop * limits[owners], grow * limits[owners])
    units = np.where(delta < 0, drop, grow)
    used = np.divide(np.abs(delta), units, out=np.zeros(len(delta)), where=delta != 0)
    spent = np.bincount(owners, used, len(lengths))
    exceeds = spent > (1.0 + ROUNDING) * budgets
    factor = np.divide(budgets, spent, out=np.ones(len(lengths)), where=exceeds)
    return delta * factor[owners], spent * factor
