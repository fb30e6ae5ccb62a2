"""What kernels of rows with directions of their own share: the rows, and tables of pairs in tiles."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple

import numpy as np

from ..oracles.arguments import check_needs_no_label
from ..oracles.base import as_oracle
from ..oracles.cache import parameters_of
from ..oracles.checked_oracle import bind, tangents_of
from ..oracles.listing import listed
from ..regions.inner_products import Stack
from ..regions.tiles import fill_tables
from ..utils.matrices import floating
from ..utils.resources import check_memory
from .base import Kernel
from .row_cache import RowCache
from .values import DOUBLE, SINGLE, check_rows, same_precision

# Rows whose directions are kept: all rows that a machine knows, and those it asks about.
KEPT = 2
# Exponents of float32 rows may be so large before their inner products are taken in double precision,
# as those lose 1e-7 of it.
MOST_IN_SINGLE = 1e3
# How much memory is free is not asked for less.
FEW_BYTES = 1e7
# Rows whose directions are turned at once.
ROWS_AT_ONCE = 256


class DirectedRows(NamedTuple):
    """Rows with directions, and what else a kernel knows of each.

    Attributes
    ----------
    stack : Stack
    numbers : (n, p) array of float64
    """

    stack: Stack
    numbers: np.ndarray

    def part(self, rows: slice) -> DirectedRows:
        """Some of the rows."""
        return DirectedRows(self.stack.part(rows), self.numbers[rows])

    def moved(self, step: np.ndarray) -> DirectedRows:
        """The rows moved by a vector."""
        return DirectedRows(self.stack.moved(step), self.numbers)

    def in_double(self) -> DirectedRows:
        """The same in double precision."""
        return DirectedRows(self.stack.in_double(), self.numbers)

    @property
    def largest_square(self) -> float:
        """The largest squared length of a row."""
        return float(np.max(self.stack.own[:, 0, 0]))


class DirectedKernel(Kernel):
    """A kernel of rows and directions of theirs; a subclass says which, and what a pair is worth."""

    oracle: Any

    def validate(self, n_features: int | None = None) -> None:
        check_needs_no_label(as_oracle(self.oracle))
        self.oracle.validate(n_features)

    @abstractmethod
    def _made(self, X: np.ndarray) -> DirectedRows:
        """Rows of `X`, in its precision or double, with their directions."""

    @abstractmethod
    def _sharpness(self, left: DirectedRows, right: DirectedRows) -> float:
        """By how much an exponent changes at most with a squared distance."""

    @abstractmethod
    def _fill(self, left: DirectedRows, right: DirectedRows, out: np.ndarray) -> None:
        """Put the values of all pairs into a tile."""

    def matrix(self, X, Y, norms=None):
        """See `Kernel.matrix`; half of the work where `Y` is `X` itself."""
        same = Y is X
        self._check(X, Y)
        X, Y = same_precision(X, Y)
        if not len(X) or not len(Y):
            return np.zeros((len(X), len(Y)), dtype=X.dtype)
        right = self._known(Y)
        out = self._table(right if same else self._known(X), right, X.dtype)
        if same:
            np.fill_diagonal(out, self.diagonal(X))
        return out

    def _check(self, X: np.ndarray, Y: np.ndarray) -> None:
        """Raise unless parameters and rows will do."""
        check_rows(X, Y)
        self.validate(X.shape[1])

    def _known(self, X: np.ndarray) -> DirectedRows:
        """The rows with their directions, kept for those asked about last."""
        kept: RowCache = self.__dict__.setdefault("_rows", RowCache(KEPT))
        key = parameters_of(tuple(self.get_params(deep=False).values()))

        def make() -> DirectedRows:
            with np.errstate(over="ignore", invalid="ignore"):
                return self._looked_at(self._made(floating(X)), X.dtype)

        found: DirectedRows = kept.get(X, key, make)
        return found

    def _looked_at(self, rows: DirectedRows, dtype: np.dtype) -> DirectedRows:
        """The rows themselves, for values of a precision; ValueError where numbers are too large."""
        if not np.all(np.isfinite(rows.stack.own)):
            raise ValueError(
                f"{type(self).__name__}: squares of rows, or of their directions, are no numbers for "
                "widths like these: scale the features"
            )
        return rows

    def _table(self, left: DirectedRows, right: DirectedRows, dtype: np.dtype) -> np.ndarray:
        """Values of all pairs, by several threads; by halves if both sides are the same."""
        same = left is right
        # Around their mean rows lose few digits.
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

        def make(rows: slice, columns: slice) -> tuple[np.ndarray]:
            tile = np.empty((rows.stop - rows.start, columns.stop - columns.start), dtype=dtype)
            self._fill(left.part(rows), right.part(columns), tile)
            return (tile,)

        fill_tables((out,), left.stack.size * right.stack.size, same, make)
        return out

    def _tangents(self, X: np.ndarray) -> np.ndarray:
        """The oracle's tangents at the rows, (n, J, d), validated; errors before much is done."""
        try:
            one = tangents_of(self.oracle, X[:1])
        except NotImplementedError as error:
            raise NotImplementedError(f"{error}, which {type(self).__name__} needs") from error
        self._check_room(X, one.shape[1])
        return one if len(X) == 1 else tangents_of(self.oracle, X)

    def _differences(self, X: np.ndarray) -> np.ndarray:
        """The way from each row to every other member of the oracle's list, (n, s - 1, d)."""
        if not self.oracle.finite:
            raise NotImplementedError(
                f"{type(self.oracle).__name__} lists no members, which directions='differences' of "
                f"{type(self).__name__} need"
            )
        changes = listed(bind(self.oracle, X))
        self._check_room(X, changes.size)
        return changes.members()[:, 1:] - X[:, None]

    def _check_room(self, X: np.ndarray, size: int) -> None:
        # The directions, those made of them, and what is kept.
        needed = 24.0 * X.size * (1 + size)
        if needed > FEW_BYTES:
            check_memory(f"the directions of {len(X)} rows", needed, "take fewer rows")

    def __getstate__(self) -> dict[str, Any]:
        """Without what can be made again."""
        state: dict[str, Any] = dict(super().__getstate__())
        state.pop("_rows", None)
        return state


def unit_directions(directions: np.ndarray) -> np.ndarray:
    """Directions (n, r, d) of length 1, of float64; zero vectors, which are no directions, stay zero."""
    peaks = np.max(np.abs(directions), axis=2, keepdims=True, initial=0.0)
    unit = np.zeros(directions.shape)
    np.divide(directions, peaks, out=unit, where=peaks > 0)
    lengths = np.linalg.norm(unit, axis=2, keepdims=True)
    np.divide(unit, lengths, out=unit, where=lengths > 0)
    return unit


def turned(directions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Orthogonal directions with the same ``sum_k b_k b_k'``, and their squared lengths, ascending.

    Parameters
    ----------
    directions : (n, r, d) array of float64
        Any; those that depend on each other become shorter, or zero.

    Returns
    -------
    (n, r, d) and (n, r) arrays
    """
    found, squares = np.empty_like(directions), np.zeros(directions.shape[:2])
    if not directions.shape[1]:
        return found, squares
    for first in range(0, len(directions), ROWS_AT_ONCE):
        rows = slice(first, first + ROWS_AT_ONCE)
        some = directions[rows]
        squares[rows], turns = np.linalg.eigh(some @ some.swapaxes(1, 2))
        found[rows] = turns.swapaxes(1, 2) @ some
    return found, np.maximum(squares, 0.0)
