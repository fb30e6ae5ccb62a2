"""Perturbations along local principal directions that are learned from data."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ..utils.matrices import refuse_half_or_masked
from ..utils.parameters import check_integer, in_order
from .affine import Ellipsoid, _finite

# Maximum number of distances, or of their summands, in memory.
_DISTANCES = 2**22
_EPS = float(np.finfo(np.float64).eps)
# Number of rows whose neighbors are processed together.
_ROWS_AT_ONCE = 256


class LocalTangents(Ellipsoid):
    r"""Perturbations along the principal directions of the nearest reference samples.

    .. math:: S(x) = \{x + \rho \sum_j u_j s_j t_j : |u|_2 \le 1\}

    The unit vectors :math:`t_j` are the principal directions of the `n_neighbors` reference samples
    nearest to x, as in Zhang and Zha (2004). Their standard deviations are :math:`s_j`. These directions
    approximate the tangent plane of the data at x without a known transformation. Raj et al. (2017)
    leave this problem open. Reference samples may be unlabeled.

    Parameters
    ----------
    reference : array-like of shape (n_reference, n_features)
        Samples from which the directions are learned, usually the training samples. A sample is its own
        neighbor if it is among them. A data frame is aligned with the columns of X.
    n_directions : int, default=2
        Number of directions (>= 1), less than `n_neighbors` and at most `n_features`.
    n_neighbors : int, default=10
        Number of neighbors (>= 2), at most `n_reference`. Among equal distances, the first rows are
        used.
    radius : float, default=1.0
        Maximum length ρ of a perturbation (>= 0), in standard deviations of the neighbors.

    Raises
    ------
    TypeError, ValueError
        Raised by `validate` and all other methods, if a parameter is out of its range or does not match
        the others. Raised by all methods with samples, if squared distances overflow.

    See Also
    --------
    TangentDerivative : Tangents of known transformations.
    Ellipsoid : Ellipsoid with a given matrix.

    Notes
    -----
    A matrix product excludes most pairs of samples. The distances of all other pairs are computed
    exactly. The result for a sample does not depend on the other samples. `tangents` are
    :math:`s_j t_j`, in units of the features, so penalties weigh directions by the standard deviation of
    the data. The signs of tangents are arbitrary.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.oracles import LocalTangents
    >>> angles = np.linspace(0.0, 2.0 * np.pi, 200, endpoint=False)
    >>> circle = np.column_stack([np.cos(angles), np.sin(angles)])
    >>> along = LocalTangents(circle, n_directions=1, n_neighbors=11, radius=2.0)
    >>> right = np.array([[1.0, 0.0]])
    >>> along.support(right, np.array([[0.0, 1.0]]), np.array([0])).points.round(2) + 0.0
    array([[1.  , 0.21]])
    """

    def __init__(
        self,
        reference: np.ndarray,
        n_directions: int = 2,
        n_neighbors: int = 10,
        radius: float = 1.0,
    ) -> None:
        self.reference = reference
        self.n_directions = n_directions
        self.n_neighbors = n_neighbors
        self.radius = radius

    additive = False
    feature_axes = {"reference": -1}

    def validate(self, n_features: int | None = None) -> None:
        self._check_radius()
        refuse_half_or_masked("reference", self.reference)
        if sp.issparse(self.reference):
            kind = type(self.reference).__name__
            raise TypeError(f"reference must be dense, got {kind}: pass reference.toarray()")
        reference = _finite("reference", self.reference)
        if n_features is not None:
            in_order("reference", self.reference)
        if reference.ndim != 2 or (n_features is not None and reference.shape[1] != n_features):
            raise ValueError(
                f"reference must have shape (n_reference, {n_features or 'n_features'}), with the "
                f"features of the samples, got shape {reference.shape}"
            )
        check_integer("n_neighbors", self.n_neighbors, 2, len(reference), "reference rows")
        most = min(int(self.n_neighbors) - 1, reference.shape[1])
        check_integer("n_directions", self.n_directions, 1, most, "dimensions spanned by the neighbors")

    def _frame(self, X: np.ndarray) -> np.ndarray:
        """Compute directions times standard deviations, (n, d, r)."""
        rows = np.ascontiguousarray(X, dtype=np.float64)
        reference = np.ascontiguousarray(in_order("reference", self.reference), dtype=np.float64)
        nearest = np.empty((len(rows), int(self.n_neighbors)), dtype=np.intp)
        step = max(1, _DISTANCES // len(reference))
        for first in range(0, len(rows), step):
            part = slice(first, first + step)
            nearest[part] = _nearest(rows[part], reference, nearest.shape[1])
        incomplete = np.flatnonzero(nearest[:, -1] < 0)
        if len(incomplete):
            row = incomplete[0]
            raise ValueError(
                f"squared distances between row {row} of X and reference overflow: entries of the row "
                f"go up to {np.max(np.abs(rows[row])):.3g}, and those of reference up to "
                f"{np.max(np.abs(reference)):.3g}. Rescale both, so that each sample has "
                f"{self.n_neighbors} reference samples at finite squared distances"
            )
        frame = np.empty((*rows.shape, int(self.n_directions)))
        for first in range(0, len(rows), _ROWS_AT_ONCE):
            part = slice(first, first + _ROWS_AT_ONCE)
            frame[part] = _principal(reference[nearest[part]], int(self.n_directions))
        return frame


def _nearest(rows: np.ndarray, reference: np.ndarray, size: int) -> np.ndarray:
    """Return the nearest reference rows, by increasing distance, then by number, (n, size).

    -1 marks a missing neighbor. A matrix product excludes most pairs.
    """
    center = reference.mean(axis=0)
    # An overflow gives NaN, which never excludes a pair.
    with np.errstate(all="ignore"):
        x, z = rows - center, reference - center
        of_rows, of_reference = (np.einsum("ij,ij->i", each, each) for each in (x, z))
        approximate = of_rows[:, None] + of_reference - 2.0 * (x @ z.T)
        rounding = 4.0 * (rows.shape[1] + 8) * _EPS * (of_rows + of_reference.max())
        limits = np.partition(approximate, size - 1, axis=1)[:, size - 1] + rounding
        row, other = np.nonzero(~(approximate > limits[:, None]))
        distances = np.empty(len(row))
        step = max(1, _DISTANCES // rows.shape[1])
        for first in range(0, len(row), step):
            part = slice(first, first + step)
            between = rows[row[part]] - reference[other[part]]
            distances[part] = np.einsum("ij,ij->i", between, between)
    order = np.lexsort((other, distances, row))
    rank = np.arange(len(row)) - np.searchsorted(row, row)
    used = (rank < size) & np.isfinite(distances[order])
    found = np.full((len(rows), size), -1, dtype=np.intp)
    found[row[used], rank[used]] = other[order[used]]
    return found


def _principal(neighbors: np.ndarray, n_directions: int) -> np.ndarray:
    """Compute principal directions times standard deviations (n, d, r) of points (n, k, d)."""
    centered = neighbors - neighbors.mean(axis=1, keepdims=True)
    # Z = U S V' has S V' = U'Z, and U comes from the small matrix ZZ'. Rescaling avoids overflow.
    sizes = np.max(np.abs(centered), axis=(1, 2), keepdims=True)
    unit = np.divide(centered, sizes, out=np.zeros_like(centered), where=sizes > 0)
    _, left = np.linalg.eigh(unit @ unit.swapaxes(1, 2))
    leading = left[:, :, ::-1][:, :, :n_directions]
    return centered.swapaxes(1, 2) @ leading / np.sqrt(neighbors.shape[1] - 1)
