"""Kernels of rows with directions: base class, and tangent vector kernels."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple

import numpy as np

from ..oracles import InvarianceOracle
from ..oracles.arguments import check_needs_no_label
from ..oracles.base import as_oracle
from ..oracles.cache import parameters_of
from ..oracles.third_party import tangents_of
from ..regions.inner_products import Stack, fill_table
from ..utils.jit import njit
from ..utils.matrices import floating
from ..utils.parameters import check_number
from ..utils.resources import check_memory
from .base import Kernel
from .kernel_values import DOUBLE, SINGLE, check_rows, precision, same_precision

# Exponents in float32 have a relative error of 1e-7. Those that may exceed this are float64.
MOST_IN_SINGLE = 1e3
# Smaller requests do not check the free memory.
FEW_BYTES = 1e7
# Number of rows whose directions are orthogonalized at once.
ROWS_AT_ONCE = 256


class DirectedRows(NamedTuple):
    """Rows with their directions, and numbers that a kernel computes for each row.

    - `stack`: rows and directions with their inner products
    - `numbers` (n, p): numbers of each row
    """

    stack: Stack
    numbers: np.ndarray

    def part(self, rows: slice) -> DirectedRows:
        """Return a slice of the rows."""
        return DirectedRows(self.stack.part(rows), self.numbers[rows])


class DirectedKernel(Kernel):
    """A kernel of rows with directions; subclasses define directions and values."""

    oracle: Any

    def validate(self, n_features: int | None = None) -> None:
        check_needs_no_label(as_oracle(self.oracle))
        self.oracle.validate(n_features)

    @abstractmethod
    def _made(self, X: np.ndarray) -> DirectedRows:
        """Compute rows and directions, in the precision of `X` or in float64."""

    @abstractmethod
    def _sharpness(self, left: DirectedRows, right: DirectedRows) -> float:
        """Return the largest derivative of an exponent with respect to a squared distance."""

    @abstractmethod
    def _fill(self, left: DirectedRows, right: DirectedRows, out: np.ndarray) -> None:
        """Write the kernel values of all pairs into a tile."""

    def matrix(self, X, Y, norms=None):
        same = Y is X
        self._check(X, Y)
        X, Y = same_precision(X, Y)
        if not len(X) or not len(Y):
            return np.zeros((len(X), len(Y)), dtype=X.dtype)
        right = self._directed(Y)
        out = self._table(right if same else self._directed(X), right, X.dtype)
        if same:
            np.fill_diagonal(out, self.diagonal(X))
        return out

    def _check(self, X: np.ndarray, Y: np.ndarray) -> None:
        """Raise TypeError or ValueError if parameters or rows are invalid."""
        check_rows(X, Y)
        self.validate(X.shape[1])

    def _directed(self, X: np.ndarray) -> DirectedRows:
        """Return the rows with their directions, cached for the most recent arrays."""
        key = parameters_of(tuple(self.get_params(deep=False).values()))

        def make() -> DirectedRows:
            with np.errstate(over="ignore", invalid="ignore"):
                return self._checked(self._made(floating(X)), X.dtype)

        return self._cached(X, key, make)

    def _checked(self, rows: DirectedRows, dtype: np.dtype) -> DirectedRows:
        """Return the rows; raise ValueError if their squared norms overflow."""
        if not np.all(np.isfinite(rows.stack.grams)):
            raise ValueError(
                f"{type(self).__name__}: squared norms of rows or directions overflow; rescale the "
                "features, or increase the length scales"
            )
        return rows

    def _table(self, left: DirectedRows, right: DirectedRows, dtype: np.dtype) -> np.ndarray:
        """Compute all pairs in several threads; half of them if both sides are the same."""
        same = left is right
        # Squared distances are differences of inner products, which lose fewer digits for centered rows.
        centers = right.stack.vectors[:, 0]
        step = (-np.mean(centers, axis=0, dtype=DOUBLE)).astype(centers.dtype)
        stacks = [rows.stack.moved(step) for rows in ([right] if same else [right, left])]
        far = max(float(np.max(stack.grams[:, 0, 0])) for stack in stacks)
        single = all(stack.vectors.dtype == SINGLE for stack in stacks)
        if not single or not far * self._sharpness(left, right) <= MOST_IN_SINGLE:
            stacks = [stack.in_double() for stack in stacks]
        right, left = right._replace(stack=stacks[0]), left._replace(stack=stacks[-1])
        out = np.empty((len(left.numbers), len(right.numbers)), dtype=dtype)

        def make(rows: slice, columns: slice) -> np.ndarray:
            tile = np.empty((rows.stop - rows.start, columns.stop - columns.start), dtype=dtype)
            self._fill(left.part(rows), right.part(columns), tile)
            return tile

        fill_table(out, left.stack.size * right.stack.size, same, make)
        return out

    def _tangents(self, X: np.ndarray) -> np.ndarray:
        """Compute the oracle's tangents at the rows, (n, J, d); one row first, for early errors."""
        try:
            one = tangents_of(self.oracle, X[:1])
        except NotImplementedError as error:
            raise NotImplementedError(f"{error}, which {type(self).__name__} requires") from error
        # 24 bytes per entry: float64 directions, orthogonal directions, and the cache.
        needed = 24.0 * X.size * (1 + one.shape[1])
        if needed > FEW_BYTES:
            check_memory(f"the directions of {len(X)} rows", needed, "use fewer rows")
        return one if len(X) == 1 else tangents_of(self.oracle, X)


def unit_directions(directions: np.ndarray) -> np.ndarray:
    """Normalize directions (n, r, d), as float64; zero vectors stay zero."""
    peaks = np.max(np.abs(directions), axis=2, keepdims=True, initial=0.0)
    unit = np.zeros(directions.shape)
    np.divide(directions, peaks, out=unit, where=peaks > 0)
    lengths = np.linalg.norm(unit, axis=2, keepdims=True)
    np.divide(unit, lengths, out=unit, where=lengths > 0)
    return unit


def orthogonal_directions(directions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute orthogonal directions with the same ``sum_k b_k b_k'``.

    Shapes: `directions` (n, r, d); returns `orthogonal` (n, r, d), `squares` (n, r).
    """
    orthogonal, squares = np.empty_like(directions), np.zeros(directions.shape[:2])
    if not directions.shape[1]:
        return orthogonal, squares
    for first in range(0, len(directions), ROWS_AT_ONCE):
        rows = slice(first, first + ROWS_AT_ONCE)
        some = directions[rows]
        squares[rows], vectors = np.linalg.eigh(some @ some.swapaxes(1, 2))
        orthogonal[rows] = vectors.swapaxes(1, 2) @ some
    return orthogonal, np.maximum(squares, 0.0)


class TangentVectorKernel(DirectedKernel):
    r"""Gaussian kernel with a larger length scale along the tangents of either input.

    With the density around x

    .. math:: p_x(z) = \frac{e^{-|z - x|^2 / (2 \sigma^2)}}{1 + \eta J}
        \Bigl[1 + \eta \sum_{j=1}^{J} e^{-d_j^2 / (2 \gamma_w^2)}\Bigr], \quad
        d_j^2 = |z - x|^2 - \frac{\langle z - x, l_j \rangle^2}{|l_j|^2}

    for the tangents :math:`l_j` of x, it is ``K(x, z) = (p_x(z) + p_z(x)) / 2``, with ``K(x, x) = 1``
    (after Pozdnoukhov and Bengio 2004, and 2006, eqs. 19, 21 and 38).

    K **may be indefinite**: `definite` is False, and estimators compute eigenvalues.

    Parameters
    ----------
    oracle : InvarianceOracle
        Oracle with `tangents`. Their lengths do not matter.
    sigma : float, default=1.0
        Length scale (> 0) in all directions, in the units of the features.
    gamma_w : float, default=1.0
        Length scale (> 0) across a tangent.
    eta : float, default=1.0
        Weight (>= 0) of each tangent compared with the plain Gaussian.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of its range, or the oracle depends on labels.
    NotImplementedError
        If the oracle has no tangents.

    See Also
    --------
    TangentOverlapKernel : Overlaps of these densities.
    TangentDistributionKernel : Positive semi-definite kernel of tangents.

    Notes
    -----
    J is the number of nonzero directions. Directions of the most recent input arrays are cached, so
    those of training rows are computed once.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.kernels import TangentVectorKernel
    >>> from structinv.oracles import Offset
    >>> signals = np.array([[0.0, 0.0], [1.0, 1.0], [1.0, -1.0]])
    >>> TangentVectorKernel(Offset(1.0), sigma=1.0, gamma_w=0.5)(signals).round(3)
    array([[1.   , 0.368, 0.187],
           [0.368, 1.   , 0.069],
           [0.187, 0.069, 1.   ]])
    """

    definite = False

    def __init__(
        self,
        oracle: InvarianceOracle,
        sigma: float = 1.0,
        gamma_w: float = 1.0,
        eta: float = 1.0,
    ) -> None:
        self.oracle = oracle
        self.sigma = sigma
        self.gamma_w = gamma_w
        self.eta = eta

    def validate(self, n_features: int | None = None) -> None:
        super().validate(n_features)
        check_number("sigma", self.sigma, strict=True)
        check_number("gamma_w", self.gamma_w, strict=True)
        check_number("eta", self.eta)

    def diagonal(self, X):
        check_rows(X, X)
        return np.ones(len(X), dtype=precision(X))

    @property
    def _level(self) -> float:
        return 1.0

    def _made(self, X: np.ndarray) -> DirectedRows:
        unit = unit_directions(self._tangents(X))
        counts = np.any(unit != 0, axis=2).sum(axis=1, keepdims=True)
        return DirectedRows(Stack.of(X, unit), counts.astype(np.float64))

    def _sharpness(self, left: DirectedRows, right: DirectedRows) -> float:
        return max(self._rates()[:3])

    def _fill(self, left: DirectedRows, right: DirectedRows, out: np.ndarray) -> None:
        left_stack, right_stack = left.stack, right.stack
        d = left_stack.vectors.shape[2]
        # The directions of one side are multiplied with the rows of the other side only.
        left_by_rows = left_stack.vectors.reshape(-1, d) @ right_stack.vectors[:, 0].T
        rows_by_right = (
            np.ascontiguousarray(left_stack.vectors[:, 0]) @ right_stack.vectors[:, 1:].reshape(-1, d).T
        )
        left_by_rows = left_by_rows.reshape(len(out), left_stack.size, -1)
        rows_by_right = rows_by_right.reshape(*out.shape, right_stack.size - 1)
        counts = left.numbers[:, 0], right.numbers[:, 0]
        _tangent_sums(
            left_by_rows, rows_by_right, left_stack.grams, right_stack.grams, *counts, self._rates(), out
        )

    def _rates(self) -> tuple[float, float, float, float]:
        """Return ``(a, b, c, h)``.

        K is the mean over both sides of ``[exp(-a |D|^2) + h sum_j exp(-b d_par^2 - c d_perp^2)]``,
        divided by ``1 + h J``, for the tangents of the side.
        """
        plain = 0.5 / float(self.sigma) ** 2
        return plain, plain, plain + 0.5 / float(self.gamma_w) ** 2, float(self.eta)


class TangentOverlapKernel(TangentVectorKernel):
    r"""Overlap of `TangentVectorKernel` densities, without products of tangents.

    .. math:: K(x, z) \propto e^{-|D|^2 / (4 s^2)} + \eta \sum_j [I_j(x) + I_j(z)], \quad
        I_j = \exp\Bigl(-\frac{d_{par}^2}{4 s^2}
            - d_{perp}^2 \frac{s^2 + g^2}{2 s^2 (2 g^2 + s^2)}\Bigr)

    with D = x - z, s = `sigma` and g = `gamma_w` (after Pozdnoukhov and Bengio 2006, eq. 24). ``d_par``
    and ``d_perp`` are the parts of D along and across the j-th tangent of x, or of z.

    Each term is an integral of the plain Gaussian of one input times a term of the other input's
    density. It is divided by the largest value of this integral. Products of terms of two tangents are
    left out; the product of both plain Gaussians is included. The terms of each input are divided by
    ``1 + 2 eta J``, so ``K(x, x) = 1``.

    K **may be indefinite**, as that kernel.

    Parameters
    ----------
    oracle : InvarianceOracle
        Oracle with `tangents`. Their lengths do not matter.
    sigma : float, default=1.0
        Length scale (> 0) in all directions, in the units of the features.
    gamma_w : float, default=1.0
        Length scale (> 0) across a tangent.
    eta : float, default=1.0
        Weight (>= 0) of each tangent compared with the plain Gaussian.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of its range, or the oracle depends on labels.
    NotImplementedError
        If the oracle has no tangents.

    See Also
    --------
    TangentVectorKernel : Kernel of the same densities, without integrals.
    TangentDistributionKernel : Positive semi-definite kernel of tangents.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.kernels import TangentOverlapKernel
    >>> from structinv.oracles import Offset
    >>> signals = np.array([[0.0, 0.0], [1.0, 1.0], [1.0, -1.0]])
    >>> TangentOverlapKernel(Offset(1.0), sigma=1.0, gamma_w=0.5)(signals).round(3)
    array([[1.   , 0.607, 0.492],
           [0.607, 1.   , 0.298],
           [0.492, 0.298, 1.   ]])
    """

    def _rates(self) -> tuple[float, float, float, float]:
        rate = 0.25 / float(self.sigma) ** 2
        # The square of a larger ratio overflows.
        ratio = min(float(self.gamma_w) / float(self.sigma), 1e100) ** 2
        return rate, rate, rate * (2.0 + 2.0 * ratio) / (1.0 + 2.0 * ratio), 2.0 * float(self.eta)


@njit(cache=True, nogil=True)
def _tangent_sums(forth, back, own_left, own_right, left, right, rates, out):
    """Compute the means of both sides' sums over directions; see `_rates`.

    Shapes: `forth` (n, 1 + r, m), `back` (n, m, s), `own_left` (m, 1 + s, 1 + s), `own_right` (m, 1 + s,
    1 + s), `left` (m,), `right` (m,), `out` (n, m).
    """
    near, along_rate, across_rate, weight = rates
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            square = own_left[i, 0, 0] + own_right[j, 0, 0] - 2.0 * forth[i, 0, j]
            square = 0.0 if square < 0.0 else square
            plain = np.exp(-near * square)
            ours = theirs = plain
            for a in range(1, own_left.shape[1]):
                if own_left[i, a, a] > 0.0:
                    along = own_left[i, a, 0] - forth[i, a, j]
                    along = along * along if along * along < square else square
                    ours += weight * np.exp(-along_rate * along - across_rate * (square - along))
            for b in range(1, own_right.shape[1]):
                if own_right[j, b, b] > 0.0:
                    along = own_right[j, b, 0] - back[i, j, b - 1]
                    along = along * along if along * along < square else square
                    theirs += weight * np.exp(-along_rate * along - across_rate * (square - along))
            out[i, j] = 0.5 * (ours / (1.0 + weight * left[i]) + theirs / (1.0 + weight * right[j]))
