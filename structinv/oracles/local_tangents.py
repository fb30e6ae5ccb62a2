"""Changes learned from data: the directions along which neighboring rows spread."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ..utils.jit import njit
from ..utils.matrices import in_threads, refuse_half_or_masked
from ..utils.parameters import check_integer
from .affine import Ellipsoid, _finite

# Features that are summed before a row may be known to be too far away.
_SUMMED_AT_ONCE = 64
# Distances that are held at once.
_DISTANCES = 2**22
_EPS = float(np.finfo(np.float64).eps)
# Rows whose neighbors are gathered at once.
_ROWS_AT_ONCE = 256


class LocalTangents(Ellipsoid):
    r"""Changes along the principal directions of the nearest reference rows.

    .. math:: S(x) = \{x + \rho \sum_j u_j s_j t_j : |u|_2 \le 1\}

    with :math:`t_j` the unit vectors along which the `n_neighbors` reference rows nearest to x spread
    most around their mean, and :math:`s_j` their standard deviations. It stands for the tangent plane
    of the data at x, where no transform of inputs is known (Raj et al. 2017 leave it open; local
    principal directions as in Zhang and Zha 2004). Reference rows may be rows without labels.

    Parameters
    ----------
    reference : (m, n_features) array
        Rows that the directions are learned from, best the training rows; a row is its own neighbor
        if it is among them.
    n_directions : int, default=2
        How many, less than `n_neighbors` and at most as many as features.
    n_neighbors : int, default=10
        How many reference rows, at most all; of equally near ones the first.
    radius : float, default=1.0
        How far a change goes, at least 0, in standard deviations of the neighbors.

    Raises
    ------
    TypeError, ValueError
        From `validate` and all views, naming what is out of its range: more directions than neighbors
        can have, fewer reference rows than neighbors, rows of another width; from all views, rows so
        large or so far away that squares of distances are no numbers.

    Notes
    -----
    Nearest rows are found by comparing all pairs in compiled code, which stops a sum when it is too
    large already; what is found for a row does not depend on the rows beside it. `tangents` are
    :math:`s_j t_j`, in units of the features, so that penalties on them weigh directions by how much
    data vary along them; their signs are arbitrary.

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

    def validate(self, n_features: int | None = None) -> None:
        self._check_radius()
        refuse_half_or_masked("reference", self.reference)
        if sp.issparse(self.reference):
            kind = type(self.reference).__name__
            raise TypeError(f"reference must be dense, got {kind}: pass reference.toarray()")
        reference = _finite("reference", self.reference)
        if reference.ndim != 2 or (n_features is not None and reference.shape[1] != n_features):
            raise ValueError(
                f"reference must have shape (m, {n_features or 'd'}), rows like those that change, got "
                f"shape {reference.shape}"
            )
        check_integer("n_neighbors", self.n_neighbors, 2, len(reference), "reference rows")
        most = min(int(self.n_neighbors) - 1, reference.shape[1])
        check_integer("n_directions", self.n_directions, 1, most, "dimensions of so many neighbors")

    def _frame(self, X: np.ndarray) -> np.ndarray:
        """Directions times standard deviations, (n, d, r)."""
        rows = np.ascontiguousarray(X, dtype=np.float64)
        reference = np.ascontiguousarray(self.reference, dtype=np.float64)
        # What stays below 0 is a neighbor that was not found.
        nearest = np.full((len(rows), int(self.n_neighbors)), -1, dtype=np.intp)

        step = max(1, _DISTANCES // len(reference))
        for first in range(0, len(rows), step):
            part = slice(first, first + step)
            _find_nearest(rows[part], reference, nearest[part])
        lonely = np.flatnonzero(nearest[:, -1] < 0)
        if len(lonely):
            raise ValueError(
                f"X must have {self.n_neighbors} reference rows at squared distances that are numbers "
                f"from each row; row {lonely[0]} of those asked about, with entries up to "
                f"{np.max(np.abs(rows[lonely[0]])):.3g}, has not, and reference has entries up to "
                f"{np.max(np.abs(reference)):.3g}: scale both down"
            )
        frame = np.empty((*rows.shape, int(self.n_directions)))
        for first in range(0, len(rows), _ROWS_AT_ONCE):
            part = slice(first, first + _ROWS_AT_ONCE)
            frame[part] = _principal(reference[nearest[part]], int(self.n_directions))
        return frame


def _find_nearest(rows: np.ndarray, reference: np.ndarray, found: np.ndarray) -> None:
    """`_nearest` of rows, where products of matrices tell whose distances are worth a sum."""
    center = reference.mean(axis=0)
    # Numbers that are none are no reason to leave a row out.
    with np.errstate(all="ignore"):
        x, z = rows - center, reference - center
        of_rows, of_reference = (np.einsum("ij,ij->i", each, each) for each in (x, z))
        about = of_rows[:, None] + of_reference - 2.0 * (x @ z.T)
        rounding = 4.0 * (rows.shape[1] + 8) * _EPS * (of_rows + of_reference.max())
        limits = np.partition(about, found.shape[1] - 1, axis=1)[:, found.shape[1] - 1] + rounding

    def find(part: slice) -> None:
        distances = np.empty(found.shape[1])
        _nearest(rows[part], reference, about[part], limits[part], distances, found[part])

    in_threads(find, len(rows), about.size)


def _principal(neighbors: np.ndarray, n_directions: int) -> np.ndarray:
    """Principal directions times their standard deviations, (n, d, r), of (n, k, d) points."""
    around = neighbors - neighbors.mean(axis=1, keepdims=True)
    # Z = U S V' has S V' = U'Z, and U comes from the small matrix ZZ', of entries whose squares are
    # numbers.
    sizes = np.max(np.abs(around), axis=(1, 2), keepdims=True)
    unit = np.divide(around, sizes, out=np.zeros_like(around), where=sizes > 0)
    _, left = np.linalg.eigh(unit @ unit.swapaxes(1, 2))
    most = left[:, :, ::-1][:, :, :n_directions]
    return around.swapaxes(1, 2) @ most / np.sqrt(neighbors.shape[1] - 1)


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _nearest(rows, reference, about, limits, distances, found):
    """Numbers of the nearest reference rows of each row, ascending by distance and then by number.

    Those whose distance is about a number above the row's limit are none of them.
    """
    size, n_features = found.shape[1], rows.shape[1]
    for i in range(rows.shape[0]):
        for place in range(size):
            distances[place] = np.inf
        for j in range(reference.shape[0]):
            if about[i, j] > limits[i]:
                continue
            total, start = 0.0, 0
            while start < n_features and total < distances[size - 1]:
                end = start + _SUMMED_AT_ONCE if start + _SUMMED_AT_ONCE < n_features else n_features
                for k in range(start, end):
                    total += (rows[i, k] - reference[j, k]) ** 2
                start = end
            if total < distances[size - 1]:
                place = size - 1
                while place > 0 and total < distances[place - 1]:
                    distances[place] = distances[place - 1]
                    found[i, place] = found[i, place - 1]
                    place -= 1
                distances[place] = total
                found[i, place] = j
