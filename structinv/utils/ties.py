"""Ties: choices of the first of equal values, in spite of rounding errors."""

from __future__ import annotations

import numpy as np

# Values are equal if they differ by at most this fraction: processors add up numbers in another order.
# `Support.rounding` covers it, so certificates are valid for every choice.
TIES = 32 * float(np.finfo(np.float64).eps)


def first_best(values: np.ndarray) -> np.ndarray:
    """Return the position of the largest value of each row, the first of equal ones.

    Parameters
    ----------
    values : array of shape (n, m)
        Values, m >= 1. A row without a finite maximum has the position of `numpy.argmax`.

    Returns
    -------
    array of int of shape (n,)
        Positions.

    Examples
    --------
    >>> import numpy as np
    >>> first_best(np.array([[1.0, 0.3, 0.1 + 0.2], [0.0, 0.3, 0.1 + 0.2]]))
    array([0, 1])
    """
    best = np.max(values, axis=1, keepdims=True)
    finite = np.isfinite(best)
    least = np.where(finite, best - TIES * np.abs(np.where(finite, best, 0.0)), best)
    return np.argmax((values >= least) | np.isnan(values), axis=1)


def best_first(values: np.ndarray, most: int | None = None) -> np.ndarray:
    """Return the positions of values, the largest first and equal ones in order.

    Parameters
    ----------
    values : array of shape (n,)
        Values. Neighbors in the sorted sequence are equal if they differ by rounding errors only.
    most : int, optional
        Number of positions (>= 1); all by default.

    Returns
    -------
    array of int of shape (n,) or (most,)
        Positions.

    Examples
    --------
    >>> import numpy as np
    >>> best_first(np.array([0.3, 0.1 + 0.2, 0.5]))
    array([2, 0, 1])
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
