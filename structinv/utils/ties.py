"""Ties: choices of the first of equal values, in spite of rounding errors."""

from __future__ import annotations

import numpy as np

# Values are equal if they differ by at most this fraction: processors add up numbers in another order.
# `Support.rounding` covers it, so certificates are valid for every choice.
TIES = 32 * float(np.finfo(np.float64).eps)


def first_best(values: np.ndarray) -> np.ndarray:
    """Return the position of the largest value of each row, the first of equal ones.

    Shapes: `values` (n, m); returns (n,).
    """
    best = np.max(values, axis=1, keepdims=True)
    finite = np.isfinite(best)
    least = np.where(finite, best - TIES * np.abs(np.where(finite, best, 0.0)), best)
    return np.argmax((values >= least) | np.isnan(values), axis=1)


def best_first(values: np.ndarray, most: int | None = None) -> np.ndarray:
    """Return the positions of values, the largest first and equal ones in order.

    Shapes: `values` (n,); returns (n,) or (most,).
    """
    if most is not None and len(values) > most:
        last = np.partition(values, -most)[-most]
        places = np.flatnonzero(values >= last - TIES * np.abs(last))
        return places[best_first(values[places])[:most]]
    order = np.argsort(-values, kind="stable")
    ordered = values[order]
    falls = ordered[1:] < ordered[:-1] - TIES * np.abs(ordered[:-1])
    groups = np.concatenate([[0], np.cumsum(falls)])[: len(values)]
    return order[np.lexsort((order, groups))]
