"""Inner products of changed rows and templates, in blocks, and what features make of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..compiled import njit
from ..matrices import Matrix, in_threads, one_blas_thread, products
from ..oracles.laws import Law

# Products of rows with templates that are held at once, by each thread.
PRODUCTS = 2**20
# Columns of such a block: changes times templates.
COLUMNS = 2048
# Values of rows, and of moved templates or members, that are held at once.
VALUES = 2**20
# Moved templates are kept for later calls up to so many values.
KEPT = 2**25

# Told which rows, which templates, and their products, (rows, changes * templates), change by change.
Use = Callable[[slice, slice, np.ndarray], None]


class Responses:
    """``<g x, w>`` for all rows x, changes g and templates w, a block at a time.

    Where changes are fixed linear maps T the templates move, once, as ``<T x, w> = <x, T'w>``, whether
    they keep inner products or not; else members of the rows are made.

    Parameters
    ----------
    law : Law
    templates : (p, d) array
    """

    def __init__(self, law: Law, templates: np.ndarray) -> None:
        self.law = law
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
        step = max(256, VALUES // d)
        for first in range(0, n, step):
            rows = X[first : first + step]
            for part in self._parts():
                self._multiply(rows, first, part, use)

    def _parts(self) -> list[slice]:
        """Blocks of templates."""
        p = len(self.templates)
        count = max(1, COLUMNS // self.law.size)
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
        if self.law.size * self.templates.size <= KEPT:
            self._moved[key] = table
        return table

    def _pull_back(self, part: slice) -> np.ndarray | None:
        return self.law.pull_back(self.templates[part])

    def _each_of_members(self, X: Matrix, use: Use) -> None:
        p, d = self.templates.shape
        size = self.law.size
        templates = self.templates.astype(X.dtype, copy=False)
        step = max(1, VALUES // (size * max(p, d)))
        every = slice(0, p)
        for first in range(0, X.shape[0], step):
            members = self.law.members(X[first : first + step]).astype(X.dtype, copy=False)
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
    weights = responses.law.weights * np.sqrt(2.0 / n_columns)
    p = len(responses.templates)

    def use(rows: slice, templates: slice, values: np.ndarray) -> None:
        columns = slice(2 * templates.start, 2 * templates.stop)
        if n_columns == 2 * p or templates.stop < p:
            _mean_waves(values, weights, found[rows, columns])
            return
        waves = np.empty((len(values), 2 * (p - templates.start)))
        _mean_waves(values, weights, waves)
        waves[:, -2] = np.cos(phase) * waves[:, -2] - np.sin(phase) * waves[:, -1]
        found[rows, columns] = waves[:, :-1]

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
        first, last = bins * templates.start, bins * templates.stop
        own = thresholds[templates]
        if last <= n_columns:
            _mean_steps(values, responses.law.weights, own, found[rows, first:last])
            return
        steps = np.empty((len(values), last - first))
        _mean_steps(values, responses.law.weights, own, steps)
        found[rows, first:] = steps[:, : n_columns - first]

    responses.each(X, use)
    return found


# Pi in three parts, the first two so short that their multiples by whole numbers are exact.
_PI_1, _PI_2, _PI_3 = 3.1415926534682512, 1.215420100718692e-10, 5.825464112186712e-20
_OVER_PI = 1.0 / np.pi
# Added and taken off again, it rounds to the nearest whole number.
_ROUNDS = 1.5 * 2.0**52
# Up to here sine and cosine are right to the last bits.
_FAR = 1e6


# No reassociation: the multiples of pi have to be taken off part by part.
@njit(cache=True, nogil=True, fastmath={"contract"})
def _mean_waves(values, weights, found):
    n_templates = values.shape[1] // len(weights)
    cosines, sines = np.empty(n_templates), np.empty(n_templates)
    for i in range(values.shape[0]):
        cosines[:] = 0.0
        sines[:] = 0.0
        for k in range(len(weights)):
            run = values[i, k * n_templates : (k + 1) * n_templates]
            far = False
            for j in range(n_templates):
                far |= not abs(run[j]) < _FAR
            if far:
                for j in range(n_templates):
                    cosines[j] += weights[k] * np.cos(np.float64(run[j]))
                    sines[j] += weights[k] * np.sin(np.float64(run[j]))
            else:
                _add_waves(run, weights[k], cosines, sines)
        for j in range(n_templates):
            found[i, 2 * j] = cosines[j]
            found[i, 2 * j + 1] = sines[j]


@njit(cache=True, nogil=True, fastmath={"contract"})
def _add_waves(run, weight, cosines, sines):
    """Add weighted cosines and sines, without branches, for the vector unit.

    With ``x = n pi + 2 t`` they are those of 2 t, up to the sign of (-1)^n, and t lies within pi / 4,
    where the series of Taylor, their last coefficients corrected, are short.
    """
    for j in range(len(run)):
        x = np.float64(run[j])
        n = (x * _OVER_PI + _ROUNDS) - _ROUNDS
        t = 0.5 * (((x - n * _PI_1) - n * _PI_2) - n * _PI_3)
        u = t * t
        sine = 2.75573137070700676789e-06 + u * (
            -2.50507602534068634195e-08 + u * 1.58969099521155010221e-10
        )
        sine = 8.33333333332248946124e-03 + u * (-1.98412698298579493134e-04 + u * sine)
        sine = t + t * u * (-1.66666666666666324348e-01 + u * sine)
        cosine = -2.75573143513906633035e-07 + u * (
            2.08757232129817482790e-09 - u * 1.13596475577881948265e-11
        )
        cosine = -1.38888888888741095749e-03 + u * (2.48015872894767294178e-05 + u * cosine)
        cosine = 1.0 - 0.5 * u + u * u * (4.16666666666666019037e-02 + u * cosine)
        odd = n - 2.0 * ((0.5 * n - 0.25 + _ROUNDS) - _ROUNDS)
        signed = weight - 2.0 * weight * odd
        cosines[j] += signed * (1.0 - 2.0 * sine * sine)
        sines[j] += signed * (2.0 * sine * cosine)


@njit(cache=True, nogil=True)
def _mean_steps(values, weights, thresholds, found):
    n_templates, bins = thresholds.shape
    for i in range(values.shape[0]):
        found[i, :] = 0
        for k in range(len(weights)):
            for j in range(n_templates):
                value = values[i, k * n_templates + j]
                # The first threshold that is not below it; the sums come afterwards.
                low, high = 0, bins
                while low < high:
                    middle = (low + high) // 2
                    if thresholds[j, middle] < value:
                        low = middle + 1
                    else:
                        high = middle
                if low < bins:
                    found[i, j * bins + low] += weights[k]
        for j in range(n_templates):
            for b in range(1, bins):
                found[i, j * bins + b] += found[i, j * bins + b - 1]
