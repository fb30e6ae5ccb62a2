"""Base of kernels of rows with directions: row data, cache, kernel matrix."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple

import numpy as np

from ..oracles.arguments import check_needs_no_label
from ..oracles.base import as_oracle
from ..oracles.cache import parameters_of
from ..oracles.third_party import tangents_of
from ..regions.inner_products import Stack, fill_table
from ..utils.matrices import floating
from ..utils.resources import check_memory
from .base import Kernel
from .kernel_utils import DOUBLE, SINGLE, RowCache, check_rows, same_precision

# Number of cached arrays: the training rows and the rows of the last call.
KEPT = 2
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

    def moved(self, step: np.ndarray) -> DirectedRows:
        """Return the rows with a vector added."""
        return DirectedRows(self.stack.moved(step), self.numbers)

    def in_double(self) -> DirectedRows:
        """Return the rows in double precision."""
        return DirectedRows(self.stack.in_double(), self.numbers)

    @property
    def largest_square(self) -> float:
        """The largest squared norm of a row."""
        return float(np.max(self.stack.grams[:, 0, 0]))


class DirectedKernel(Kernel):
    """A kernel of rows with directions; subclasses define directions and values."""

    oracle: Any
    _caches = ("_rows",)

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
        cache: RowCache = self.__dict__.setdefault("_rows", RowCache(KEPT))
        key = parameters_of(tuple(self.get_params(deep=False).values()))

        def make() -> DirectedRows:
            with np.errstate(over="ignore", invalid="ignore"):
                return self._checked(self._made(floating(X)), X.dtype)

        directed: DirectedRows = cache.get(X, key, make)
        return directed

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
        right = right.moved(step)
        left = right if same else left.moved(step)
        far = max(left.largest_square, right.largest_square)
        single = left.stack.vectors.dtype == right.stack.vectors.dtype == SINGLE
        if not single or not far * self._sharpness(left, right) <= MOST_IN_SINGLE:
            right = right.in_double()
            left = right if same else left.in_double()
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
        self._check_room(X, one.shape[1])
        return one if len(X) == 1 else tangents_of(self.oracle, X)

    def _check_room(self, X: np.ndarray, size: int) -> None:
        # 24 bytes per entry: float64 directions, orthogonal directions, and the cache.
        needed = 24.0 * X.size * (1 + size)
        if needed > FEW_BYTES:
            check_memory(f"the directions of {len(X)} rows", needed, "use fewer rows")


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
