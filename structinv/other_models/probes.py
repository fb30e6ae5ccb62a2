"""Probes: further rows on which a linear classifier is checked."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import scipy.sparse as sp

from ..utils.matrices import Matrix, scale_rows, squared_lengths, stack, with_data
from .affine import Affine

# Number of given rows from which probes are made.
PROBED = 32
MULTIPLES = (-1.0, 0.0, 0.5, 1000.0)
# Relative steps to both sides of a tie.
AROUND_A_TIE = (-1e-3, 1e-3)


def probes(scores: Affine, rows: Matrix) -> Matrix:
    """Return multiples of rows, points between rows, and points near ties.

    On many rows, a vote of several functions agrees with the highest score; near ties it does not.
    Probes of sparse rows have entries only where a row has some.
    """
    some = rows[:: max(1, -(-rows.shape[0] // PROBED))]
    weights, values = scores.coef, np.asarray(some @ scores.coef.T) + scores.intercept
    if len(weights) == 1:
        weights, values = np.vstack([0 * weights, weights]), np.insert(values, 0, 0.0, axis=1)
    every, best = np.arange(len(values)), np.argmax(values, axis=1)
    following = np.roll(every, -1)
    parts = [some * factor for factor in MULTIPLES] + [(some + some[following]) * 0.5]
    with np.errstate(all="ignore"):
        # Between a row and the next, whose best functions differ.
        gap, gap_after = (values[at, best] - values[at, best[following]] for at in (every, following))
        parts += _around(some, some[following] - some, gap / (gap - gap_after))
        # From a row towards its second-best function.
        for place in range(2, min(values.shape[1], 3) + 1):
            other = np.argsort(values, axis=1)[:, -place]
            uphill = _differences(some, weights, other, best)
            gap = values[every, best] - values[every, other]
            parts += _around(some, uphill, gap / squared_lengths(uphill))
    points = stack(parts).astype(rows.dtype, copy=False)
    return points[np.isfinite(squared_lengths(points))]


@contextmanager
def without_names() -> Iterator[None]:
    """Suppress the warning of models that were fitted on data frames and read arrays."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
        yield


def _around(rows: Matrix, directions: Matrix, lengths: np.ndarray) -> list[Matrix]:
    """Return the rows moved by a little less, and a little more, than a tie requires."""
    return [rows + scale_rows(directions, lengths * (1.0 + step)) for step in AROUND_A_TIE]


def _differences(rows: Matrix, weights: np.ndarray, plus: np.ndarray, minus: np.ndarray) -> Matrix:
    """Return differences of two functions' weights for each row, at the entries of the row."""
    if not sp.issparse(rows):
        return np.where(rows != 0, weights[plus] - weights[minus], 0.0)
    owners = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    at = rows.indices
    return with_data(rows, weights[plus[owners], at] - weights[minus[owners], at])
