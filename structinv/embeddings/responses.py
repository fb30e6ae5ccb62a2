"""Inner products of changed rows and templates, in blocks, and what features make of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..oracles.changes import Changes
from ..utils.jit import njit
from ..utils.matrices import Matrix, in_threads, one_blas_thread, products

# Products of rows with templates that are held at once, by each thread.
PRODUCTS = 2**20
# Columns of such a block: changes times templates.
COLUMNS = 2048
# Templates of a block come in multiples of this.
VECTOR = 32
# Values of rows, and of moved templates or members, that are held at once.
VALUES = 2**20
# Moved templates are kept for later calls up to so many values; blocks of rows are as large beyond.
KEPT = 2**25

# Told which rows, which templates, and their products, (rows, changes * templates), change by change.
Use = Callable[[slice, slice, np.ndarray], None]


class Responses:
    """``<g x, w>`` for all rows x, changes g and templates w, a block at a time.

    Where changes are fixed linear maps T the templates move, once, as ``<T x, w> = <x, T'w>``, whether
    they keep inner products or not; else members of the rows are made.

    Parameters
    ----------
    changes : Changes
    templates : (p, d) array
    """

    def __init__(self, changes: Changes, templates: np.ndarray) -> None:
        self.changes = changes
        self.templates = templates
        self._moved: dict[tuple[int, Any], np.ndarray] = {}
        self.moves_templates = self._pull_back(slice(0, 1)) is not None

    def each(self, X: Matrix, use: Use) -> None:
        """Call `use` with all products, from several threads where that pays.

        Parameters
        ----------
        X : (n, d) array or CSR matrix
            CSR only if templates move.
        use : callable
            ``use(rows, templates, values)``; blocks with other rows or templates may be underway at
            the same time.
        """
        if not self.moves_templates:
            self._each_of_members(X, use)
            return
        n, d = X.shape
        step = self.rows_at_once(d)
        for first in range(0, n, step):
            rows = X[first : first + step]
            for part in self._parts():
                self._multiply(rows, first, part, use)

    def _parts(self) -> list[slice]:
        """Blocks of templates."""
        p = len(self.templates)
        count = max(1, COLUMNS // self.changes.size)
        # Whole vectors of the vector unit, where there are some.
        count -= count % VECTOR if count > VECTOR else 0
        return [slice(first, min(first + count, p)) for first in range(0, p, count)]

    def _multiply(self, rows: Matrix, offset: int, part: slice, use: Use) -> None:
        table = self._table(part, rows.dtype)
        step = max(1, PRODUCTS // len(table))
        times = _times_csr(table) if sp.issparse(rows) else _times_dense(table)

        def work(portion: slice) -> None:
            multiply = times()
            for first in range(portion.start, portion.stop, step):
                last = min(first + step, portion.stop)
                use(slice(offset + first, offset + last), part, multiply(rows[first:last]))

        n = rows.shape[0]
        with one_blas_thread():
            in_threads(work, n, n * len(table))

    def _table(self, part: slice, dtype: Any) -> np.ndarray:
        """Moved templates of a block, a row each, change by change."""
        key = (part.start, np.dtype(dtype))
        if key in self._moved:
            return self._moved[key]
        found = self._pull_back(part)
        assert found is not None
        table = found.reshape(-1, found.shape[2]).astype(dtype, copy=False)
        if self._keeps:
            self._moved[key] = table
        return table

    def rows_at_once(self, width: int) -> int:
        """How many rows of so many values a block has.

        Templates that are not kept move once for each block: there, blocks are large.
        """
        return max(256, (VALUES if self._keeps else KEPT) // width)

    @property
    def _keeps(self) -> bool:
        return self.changes.size * self.templates.size <= KEPT

    def _pull_back(self, part: slice) -> np.ndarray | None:
        return self.changes.adjoint(self.templates[part])

    def _each_of_members(self, X: Matrix, use: Use) -> None:
        p, d = self.templates.shape
        size = self.changes.size
        templates = self.templates.astype(X.dtype, copy=False)
        step = max(1, VALUES // (size * max(p, d)))
        every = slice(0, p)
        for first in range(0, X.shape[0], step):
            members = self.changes.on(X[first : first + step]).members().astype(X.dtype, copy=False)
            values = (members.reshape(-1, d) @ templates.T).reshape(len(members), -1)

            def work(portion: slice, values: np.ndarray = values, first: int = first) -> None:
                rows = slice(first + portion.start, first + portion.stop)
                use(rows, every, values[portion])

            in_threads(work, len(members), values.size)


def _times_dense(table: np.ndarray) -> Callable[[], Callable[[np.ndarray], np.ndarray]]:
    """Makes functions, one for each thread, from rows to their products."""

    def times() -> Callable[[np.ndarray], np.ndarray]:
        held: list[np.ndarray] = []

        def multiply(rows: np.ndarray) -> np.ndarray:
            # One allocation for all blocks; the first is the largest.
            if not held:
                held.append(np.empty((len(rows), len(table)), dtype=table.dtype))
            return np.matmul(rows, table.T, out=held[0][: len(rows)])

        return multiply

    return times


def _times_csr(table: np.ndarray) -> Callable[[], Callable[[Matrix], np.ndarray]]:
    columns = np.ascontiguousarray(table.T)
    return lambda: lambda rows: products(rows, columns)


def mean_waves(responses: Responses, X: Matrix, n_columns: int, phase: float) -> np.ndarray:
    """Means over changes of cosines and sines, side by side for each template.

    Parameters
    ----------
    responses : Responses
    X : (n, d) array or CSR matrix
    n_columns : int
        ``2 p``, or ``2 p - 1``: then the last template has one column, ``cos(<w, x> + phase)``.
    phase : float

    Returns
    -------
    (n, n_columns) array
        Times ``(2 / n_columns)^(1/2)``, in the precision of the rows.
    """
    found = np.empty((X.shape[0], n_columns), dtype=X.dtype)
    weights = responses.changes.weights * np.sqrt(2.0 / n_columns)
    p = len(responses.templates)

    def use(rows: slice, templates: slice, values: np.ndarray) -> None:
        columns = slice(2 * templates.start, 2 * templates.stop)
        waves = np.empty((len(values), 2 * (templates.stop - templates.start)), dtype=values.dtype)
        _take_waves(values, weights, waves)
        if n_columns < 2 * p == columns.stop:
            cosine, sine = waves[:, -2:].T.astype(np.float64)
            waves[:, -2] = np.cos(phase) * cosine - np.sin(phase) * sine
            waves = waves[:, :-1]
        found[rows, columns] = waves

    responses.each(X, use)
    return found


def mean_steps(responses: Responses, X: Matrix, thresholds: np.ndarray, n_columns: int) -> np.ndarray:
    """Probabilities over changes that a product is at most a threshold of its template.

    Parameters
    ----------
    responses : Responses
    X : (n, d) array or CSR matrix
    thresholds : (p, b) array
        Ascending in each row.
    n_columns : int
        At most ``p * b``: the last template may have fewer.

    Returns
    -------
    (n, n_columns) array
        Of the precision of the rows.
    """
    bins = thresholds.shape[1]
    found = np.empty((X.shape[0], n_columns), dtype=X.dtype)

    def use(rows: slice, templates: slice, values: np.ndarray) -> None:
        first, own = bins * templates.start, thresholds[templates]
        _mean_steps(values, responses.changes.weights, own, first, found[rows])

    responses.each(X, use)
    return found


# In each precision: 1 / (2 pi); what rounds to a whole number when it is added and taken off again; pi
# in three parts, the first two so short that their multiples by whole numbers are exact; 1, 1/2; up to
# where all this is right to the last bits.
_NUMBERS = {
    np.dtype(precision): tuple(map(precision, (0.5 / np.pi, 1.5 * 2.0**bits, *pi, 1.0, 0.5, far)))
    for precision, bits, pi, far in (
        (np.float64, 52, (3.1415926534682512, 1.215420100718692e-10, 5.825464112186712e-20), 1e6),
        (np.float32, 23, (3.140625, 9.67502593994140625e-4, 1.509957990978376432e-7), 2e4),
    )
}
# Of ``(sin(t) / t - 1) / u`` and ``(cos(t) - 1) / u`` in ``u = t^2``: of all polynomials of their degree
# those with the least error of sine and cosine up to pi / 2, some 1e-16, and 5e-9 for float32.
_SERIES = {
    np.dtype(precision): (tuple(map(precision, sine)), tuple(map(precision, cosine)))
    for precision, sine, cosine in (
        (
            np.float64,
            (
                -0.16666666666665805, 0.008333333333262454, -0.00019841269819988124,
                2.7557316064426647e-06, -2.5051850728927444e-08, 1.604727787932999e-10,
                -7.364367820846044e-13,
            ),
            (
                -0.5, 0.04166666666666652, -0.001388888888886941, 2.4801587293935274e-05,
                -2.755731788167417e-07, 2.0876634840498804e-09, -1.1464737613786456e-11,
                4.627548734705352e-14,
            ),
        ),
        (
            np.float32,
            (-0.166666570585899, 0.008333016355439695, -0.00019806547108, 2.5999032629931153e-06),
            (
                -0.5, 0.04166665572994938, -0.0013888568213314884, 2.476924067629506e-05,
                -2.6192484185488086e-07,
            ),
        ),
    )
}  # fmt: skip


def _take_waves(values: np.ndarray, weights: np.ndarray, found: np.ndarray) -> None:
    """Weighted cosines and sines, side by side, in the precision of the values.

    Each wave is right to 4 times the precision: 5e-7 in float32, 9e-16 in float64.
    """
    numbers, (sine, cosine) = _NUMBERS[values.dtype], _SERIES[values.dtype]
    weights = weights.astype(values.dtype, copy=False)
    room = np.empty((2, values.shape[1] // len(weights)), dtype=values.dtype)
    _mean_waves(values, weights, room, found, numbers, sine, cosine)


@njit(cache=True, nogil=True)
def _mean_waves(values, weights, room, found, numbers, of_sine, of_cosine):
    cosines, sines, n_templates = room[0], room[1], room.shape[1]
    for i in range(values.shape[0]):
        row = values[i]
        cosines[:] = 0
        sines[:] = 0
        if _add_waves(row, weights, cosines, sines, numbers, of_sine, of_cosine):
            cosines[:] = 0
            sines[:] = 0
            for j in range(len(row)):
                k, p = j // n_templates, j % n_templates
                cosines[p] += weights[k] * np.cos(np.float64(row[j]))
                sines[p] += weights[k] * np.sin(np.float64(row[j]))
        for j in range(n_templates):
            found[i, 2 * j] = cosines[j]
            found[i, 2 * j + 1] = sines[j]


# No reassociation: the multiples of pi have to be taken off part by part.
@njit(cache=True, nogil=True, fastmath={"contract"})
def _add_waves(row, weights, cosines, sines, numbers, of_sine, of_cosine):
    """Add weighted cosines and sines, without branches, for the vector unit; whether some are wrong.

    With ``x = 2 n pi + 2 t`` they are those of 2 t, and t lies within pi / 2: no sign depends on n.
    """
    over, rounds, pi_1, pi_2, pi_3, one, half, limit = numbers
    far = False
    for k in range(len(weights)):
        weight, run = weights[k], row[k * len(cosines) : (k + 1) * len(cosines)]
        for j in range(len(cosines)):
            x = run[j]
            far |= not abs(x) < limit
            n = (x * over + rounds) - rounds
            # The first difference is exact, so that one alone is rounded.
            t = (half * x - n * pi_1) - (n * pi_2 + n * pi_3)
            u = t * t
            sine = t + t * u * _polynomial(u, of_sine)
            cosine = one + u * _polynomial(u, of_cosine)
            share = weight * sine
            cosines[j] += weight * (cosine * cosine) - share * sine
            sines[j] += (share + share) * cosine
    return far


@njit(cache=True, nogil=True, fastmath={"contract"})
def _polynomial(u, coefficients):
    total = coefficients[len(coefficients) - 1]
    for k in range(len(coefficients) - 2, -1, -1):
        total = total * u + coefficients[k]
    return total


@njit(cache=True, nogil=True)
def _mean_steps(values, weights, thresholds, first, found):
    """Weighted shares of values at most each threshold, in the columns from `first` on, if there."""
    n_templates, bins = thresholds.shape
    n_columns = found.shape[1] - first
    n_columns = n_columns if n_columns < n_templates * bins else n_templates * bins
    for i in range(values.shape[0]):
        for column in range(first, first + n_columns):
            found[i, column] = 0
        for k in range(len(weights)):
            for j in range(n_templates):
                value = values[i, k * n_templates + j]
                # The first threshold that is not below it; the sums come afterward.
                low, high = 0, bins
                while low < high:
                    middle = (low + high) // 2
                    if thresholds[j, middle] < value:
                        low = middle + 1
                    else:
                        high = middle
                if low < bins and j * bins + low < n_columns:
                    found[i, first + j * bins + low] += weights[k]
        for column in range(n_columns):
            if column % bins > 0:
                found[i, first + column] += found[i, first + column - 1]
