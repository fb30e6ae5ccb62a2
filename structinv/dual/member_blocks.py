"""Blocks of rows with the kernel matrix of their atoms, for fast steps."""

from __future__ import annotations

import numpy as np

from ..spaces.atoms import AtomStore
from ..spaces.kernel_space import Expansion
from ..utils.jit import njit
from ..utils.matrices import in_threads
from .base import in_runs
from .member_steps import ascend_row

# Number of columns of the kernel matrix per portion, so that function values stay in the CPU cache.
COLUMNS_AT_ONCE = 4096
# Number of additions with the run time of one exponential.
NUMBERS_A_VALUE = 100
# Maximum number of passes over a block, and the fraction of its gap at which they end; the fraction of
# the mean gap below which rows are skipped; and the fraction of a row's gap at which its steps end.
MOST_PASSES, LEFT, ACTIVE, ROW_SHARE = 8, 0.1, 0.6, 0.5


class RowBlock:
    """Some rows with their atoms and the kernel matrix of these.

    Shapes: `rows` (n,), `slots` (n, n_members), `atoms` (m,), `owners` (m,), `members` (m,), `start` (n
    + 1,).
    """

    def __init__(self, store: AtomStore, rows: np.ndarray, slots: np.ndarray) -> None:
        self.store = store
        self.rows = rows
        self.owners, self.members = np.nonzero(slots >= 0)
        self.atoms = slots[self.owners, self.members]
        self.start = np.searchsorted(self.owners, np.arange(len(rows) + 1))
        self.kernel = store.square(self.atoms)

    def ascend(
        self,
        f: Expansion,
        order: np.ndarray,
        problem: tuple,
        grades: np.ndarray,
        weights: np.ndarray,
        alphas: np.ndarray,
    ) -> np.ndarray:
        """Do exact steps between the atoms of rows; return the gaps at the last visits.

        Shapes: `order` (r,), `grades` (m,), `weights` (n,), `alphas` (m, n_labels).
        """
        values = f.values().T
        local = np.ascontiguousarray(values[:, self.store.places[self.atoms]])
        moved, gaps = np.zeros((len(self.atoms), len(values))), np.zeros(len(self.rows))
        own = np.empty((2, np.diff(self.start).max(initial=0), len(values)))
        _passes(
            local, moved, own, self.kernel, self.start, order, *problem, grades, weights, alphas, gaps,
            LEFT, ACTIVE, MOST_PASSES, ROW_SHARE,
        )  # fmt: skip
        used = np.flatnonzero(np.any(moved != 0, axis=1))
        f.coefficients[self.atoms[used]] += moved[used]
        _update_values(self.store, values, self.atoms[used], moved[used])
        return gaps[order]


def _update_values(store: AtomStore, values: np.ndarray, atoms: np.ndarray, moved: np.ndarray) -> None:
    """Add the effect of changed coefficients, (m, n_outputs), to the values at all known points."""
    late = np.where(atoms >= store.n_whole_rows, 1, 0)
    for part in in_runs(np.arange(len(atoms)), late, store.rows_at_once):
        _update_some_values(store, values, atoms[part], moved[part])


def _update_some_values(
    store: AtomStore, values: np.ndarray, atoms: np.ndarray, moved: np.ndarray
) -> None:
    where, table, extra = store.rows_of_table(atoms)
    places = where[atoms]

    def work(columns: slice) -> None:
        first, last = columns.start, columns.stop
        _add_rows(values, first, last, table, extra, places, moved, COLUMNS_AT_ONCE)

    n_columns = values.shape[1]
    in_threads(work, n_columns, len(atoms) * n_columns // NUMBERS_A_VALUE)


@njit(cache=True, nogil=True)
def _add_rows(values, first, last, table, extra, where, moved, columns_at_once):
    for start in range(first, last, columns_at_once):
        size = columns_at_once if last - start > columns_at_once else last - start
        for a in range(len(where)):
            row = where[a] - table.shape[0]
            products = (extra[row] if row >= 0 else table[where[a]])[start : start + size]
            for k in range(values.shape[0]):
                if moved[a, k] != 0.0:
                    # Compilers vectorize loops in one precision that start at 0.
                    factor = values.dtype.type(moved[a, k])
                    own = values[k, start : start + size]
                    for u in range(own.shape[0]):
                        own[u] += factor * products[u]


@njit(cache=True, nogil=True)
def _passes(
    local, moved, own, kernel, start, order, codes, outputs, signs, costs, slack, grades, weights,
    alphas, gaps, left, active, most_passes, row_share,
):  # fmt: skip
    """Visit the rows of `order` repeatedly until a fraction of their gap is left.

    `local` has the function values at the block's atoms, and `kernel` their kernel matrix. `moved`
    receives the changes of coefficients. Row r has the atoms from ``start[r]`` on. `own` is a workspace
    for the values and the changes of a row.
    """
    n_outputs = local.shape[0]
    arrival, min_gap = -1.0, -1.0
    for _ in range(most_passes):
        total = 0.0
        for r in order:
            first, q = start[r], start[r + 1] - start[r]
            if gaps[r] > min_gap and q > 0:
                for a in range(q):
                    for k in range(n_outputs):
                        own[0, a, k], own[1, a, k] = local[k, first + a], 0.0
                gaps[r] = ascend_row(
                    own[0], own[1], q, kernel, first, codes[r], outputs, signs, costs[r], slack, grades,
                    weights[r], alphas, first, row_share,
                )  # fmt: skip
                for a in range(q):
                    for k in range(n_outputs):
                        if own[1, a, k] != 0.0:
                            moved[first + a, k] += own[1, a, k]
                            factor = local.dtype.type(own[1, a, k])
                            for u in range(kernel.shape[1]):
                                local[k, u] += factor * kernel[first + a, u]
            total += gaps[r]
        if arrival < 0.0:
            arrival = total
        if total <= left * arrival:
            break
        min_gap = active * total / len(order)
