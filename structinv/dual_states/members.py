"""Masses on the members of every orbit, in a kernel's space where all members are known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..compiled import njit
from ..matrices import ALL_ROWS
from ..planes import PlaneSet
from ..spaces import AtomRows, Expansion, KernelSpace, Pool, Space
from .base import DualState, Hurried, Refusal, in_runs, never
from .capabilities import of_a_kernel, worst_case_of_rows
from .row_steps import ascend_row

if TYPE_CHECKING:
    from ..terms import Term, WorstCase

# More members of a row than this have too large a table of inner products.
MOST_MEMBERS = 2048
FOCUSED_PASSES = 5
# Rows priced together, and the share of the gap that is left for the next sweep. With an epsilon,
# newcomers are what is to be saved, so each sweep does more before it asks for some.
ROWS_AT_ONCE, FOCUSED_SHARE = 512, 0.6
ROWS_AT_ONCE_SPARSE, FOCUSED_SHARE_SPARSE = 256, 0.3
SETTLED_SHARE = 0.01
# Between two looks at the clock so many products of numbers are taken for the kernel's values.
PRODUCTS_AT_ONCE = 2e10
PATIENCE = 0.3


def all_members(term: WorstCase, space: KernelSpace) -> Pool:
    """The members of the term's oracle, all of them points that the space knows; else a Refusal."""
    pool = space.atoms.pool(term.bound)
    if pool.mesh is None or np.any(pool.mesh != 0):
        raise Refusal("members of S(x) are more than the points that the space knows")
    if pool.size > MOST_MEMBERS:
        raise Refusal(f"S(x) lists more than {MOST_MEMBERS} members")
    return pool


class MemberState(DualState):
    """One mass for every row, member of its orbit and label, most of them zero.

    A batch of rows is priced at once: the worst member of each joins the atoms if it rises above the
    planes of the row's own atoms by more than `epsilon`, and the kernel's columns of those that join
    are computed in one product. Then each row takes exact pairwise steps between its own atoms, and
    what changed is added to the function's values at all members.

    Parameters
    ----------
    term : WorstCase
        Of single rows.
    space : KernelSpace
        That knows all members of the term's oracle, and these are all there are.
    rng : numpy.random.Generator
    epsilon : float, default=0.0
    """

    verifies = True

    def __init__(self, term: Term, space: Space, rng: np.random.Generator, epsilon: float = 0.0) -> None:
        term, space = worst_case_of_rows(term), of_a_kernel(space)
        pool = all_members(term, space)
        self.term = term
        self.space = space
        self.pool = pool
        self.rng = rng
        self.epsilon = epsilon
        self.rows_at_once = ROWS_AT_ONCE_SPARSE if epsilon > 0 else ROWS_AT_ONCE
        self.focused_share = FOCUSED_SHARE_SPARSE if epsilon > 0 else FOCUSED_SHARE
        self.rivals = term.labels.rivals()
        n_rows = len(self.rivals)
        grades = term.bound.grades(ALL_ROWS)
        self.grades = np.ones((n_rows, pool.size)) if grades is None else grades
        self.masses = np.zeros((n_rows, pool.size, self.rivals.n_labels))
        self.rows = np.flatnonzero(term.weights > 0)
        self.gaps = np.zeros(n_rows)
        self.total = 0.0

    @property
    def offset(self) -> float:
        """See `DualState.offset`."""
        parts = self.term.weights, self.masses, self.grades, self.rivals.costs
        return float(np.einsum("i,isk,is,ik->", *parts, optimize=True))

    def sweep(self, f: Expansion, hurried: Hurried = never) -> tuple[float, int]:
        """See `DualState.sweep`: all rows once, then the rows that hold most of the gap."""
        order = self.rng.permutation(self.rows)
        self.n_added, self.settled = 0, False
        # While the function is far off, newcomers that hardly beat the others would soon be idle.
        ask = self.epsilon
        if self.total > 0:
            ask = max(ask, PATIENCE * self.total / self.term.weights.sum())
        for first in range(0, len(order), self.rows_at_once):
            if hurried():
                return np.inf, first
            batch = order[first : first + self.rows_at_once]
            self._grow(f, batch, ask, hurried)
            self._ascend(f, batch)
        self.total = float(self.gaps.sum())
        if self.n_added == 0 and ask == self.epsilon > 0:
            # What is left on the rows' own atoms, against what epsilon leaves out.
            self._again(f, self.rows, hurried)
            self.settled = not hurried() and bool(self.gaps.sum() <= SETTLED_SHARE * self.total)
        self._focus(f, hurried)
        return self.total, len(self.rows)

    def _focus(self, f: Expansion, hurried: Hurried) -> None:
        """Go over the rows that hold most of the gap, again and again, with the atoms there are."""
        for _ in range(FOCUSED_PASSES):
            left = self.gaps.sum()
            if hurried() or (left <= self.focused_share * self.total and self.n_added):
                break
            active = np.flatnonzero(self.gaps > self.focused_share * left / len(self.gaps))
            self._again(f, active, hurried)

    def _again(self, f: Expansion, rows: np.ndarray, hurried: Hurried) -> None:
        """Steps of some rows on their own atoms, as many rows as there is time for."""
        for first in range(0, len(rows), self.rows_at_once):
            if hurried():
                break
            self._ascend(f, rows[first : first + self.rows_at_once], known=True)

    def _grow(self, f: Expansion, rows: np.ndarray, ask: float, hurried: Hurried) -> None:
        """Make atoms of the worst members that rise above the atoms of their rows by more than `ask`."""
        members = np.empty(len(rows), dtype=np.int64)
        _worst_newcomers(
            f.values().T, self.pool.first, self.pool.numbers, rows, self.pool.slots,
            *self.rivals.arrays, self.grades, ask, members,
        )  # fmt: skip
        new = np.flatnonzero(members >= 0)
        work = self.space.n_features * max(1, len(self.space.atoms.known))
        at_once = max(1, int(PRODUCTS_AT_ONCE // work))
        for first in range(0, len(new), at_once):
            if hurried():
                break
            some = new[first : first + at_once]
            self.n_added += len(some)
            self.space.atoms.slots(self.pool.keys(rows[some], members[some]))

    def _ascend(self, f: Expansion, rows: np.ndarray, known: bool = False) -> None:
        """Pairwise steps in each row; its gap on arrival, over all members or over its own atoms."""
        # Atoms may be new, or older than the function: of an earlier run on the same space.
        f.make_room(len(self.space.atoms))
        for part in self._portions(rows):
            atoms = self._atoms_of(part)
            where, table, extra = self.space.atoms.rows_of_table(atoms[atoms >= 0])
            _sweep(
                f.values().T, f.coefficients, where, table, extra, self.pool.first, self.pool.numbers,
                part, self.pool.slots, *self.rivals.arrays, self.grades,
                self.term.weights, self.masses, self.gaps, known,
            )  # fmt: skip

    def _atoms_of(self, rows: np.ndarray) -> np.ndarray:
        """Which atoms the members of each row are, -1 for none, (n, s)."""
        return self.pool.slots[self.pool.numbers[rows]]

    def _portions(self, rows: np.ndarray) -> list[np.ndarray]:
        """The rows in runs, so that what the cache does not hold of their atoms fits in memory."""
        store = self.space.atoms
        late = np.count_nonzero(self._atoms_of(rows) >= store.n_whole_rows, axis=1)
        return in_runs(rows, late, store.rows_at_once)

    def value(self, f: Expansion) -> tuple[float, float]:
        """See `DualState.value`."""
        return self.term.total(self.space, f)

    def combination(self) -> Expansion:
        """See `DualState.combination`."""
        planes = self.planes()
        return self.space.combine(planes.normals, self.term.weights[planes.blocks] * planes.masses)

    def planes(self) -> PlaneSet:
        """See `DualState.planes`."""
        rows, members, labels = np.nonzero(self.masses)
        rivals = self.rivals.take(rows)
        keys = self.pool.keys(rows, members)
        normals = AtomRows(self.space.atoms, keys, rivals.normals(labels), np.arange(len(rows) + 1))
        offsets = rivals.cost_of(labels) * self.grades[rows, members]
        return PlaneSet(normals, offsets, rows, self.masses[rows, members, labels])

    def restore(self, planes: PlaneSet) -> None:
        """See `DualState.restore`; planes that are none of this set's are left to the null plane."""
        single = np.flatnonzero(np.diff(planes.normals.start) == 1)
        rows, masses = planes.blocks[single], planes.masses[single]
        terms = planes.normals.start[single]
        members = self._members_of(planes.normals.keys[terms], rows)
        labels = self.rivals.take(rows).labels_of(planes.normals.coefficients[terms])
        usable = np.flatnonzero((members >= 0) & (labels >= 0))
        chosen = members[usable], labels[usable]
        np.add.at(self.masses, (rows[usable], *chosen), masses[usable])
        self.space.atoms.slots(self.pool.keys(rows[usable], members[usable]))

    def _members_of(self, keys: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Which member of its row each point is, -1 for none."""
        points = self.space.atoms.points(self.space.atoms.slots(keys))
        known = self.space.atoms.known[self.pool.first :]
        members = np.full(len(rows), -1)
        for member in range(self.pool.size - 1, -1, -1):
            same = np.all(known[self.pool.numbers[rows, member]] == points, axis=1)
            members[same] = member
        return members


@njit(cache=True, nogil=True)
def _worst_newcomers(
    values, start, numbers, rows, slots, codes, outputs, signs, costs, slack, grades, epsilon, members
):
    """The worst member of each row, if it is no atom and beats all atoms of the row; else -1."""
    size = grades.shape[1]
    for r in range(len(rows)):
        i, c = rows[r], codes[rows[r]]
        members[r] = -1
        best, covered = 0.0, 0.0
        for m in range(size):
            point = numbers[i, m]
            if m > 0 and point == numbers[i, 0]:
                continue
            truth = signs[c] * values[outputs[c], start + point]
            for k in range(len(outputs)):
                if k == c:
                    continue
                factor = costs[i, k] if slack else 1.0
                lead = signs[k] * values[outputs[k], start + point] - truth
                height = costs[i, k] * grades[i, m] + factor * lead
                if slots[point] >= 0:
                    covered = max(covered, height)
                elif height > best:
                    best, members[r] = height, m
        if best <= covered + epsilon + 1e-12 * (1.0 + abs(best)):
            members[r] = -1


@njit(cache=True, nogil=True)
def _sweep(
    values, coefficients, where, table, extra, start, numbers, rows, slots, codes, outputs, signs, costs,
    slack, grades, weights, masses, gaps, known,
):  # fmt: skip
    n_outputs, size = values.shape[0], grades.shape[1]
    local = np.empty((n_outputs, size))
    moved = np.empty((n_outputs, size))
    kernel = np.zeros((size, size))
    mine = np.empty(size, dtype=slots.dtype)
    for i in rows:
        places = start + numbers[i]
        _take(local, values, places)
        moved[:] = 0.0
        for m in range(size):
            # The row itself once more is never better than the row.
            repeated = m > 0 and places[m] == places[0]
            mine[m] = -1 if repeated else slots[numbers[i, m]]
            if mine[m] >= 0:
                products = _products(table, extra, where[mine[m]])
                _take(kernel[m : m + 1], products.reshape(1, -1), places)
        gaps[i] = ascend_row(
            local, moved, kernel, mine, codes[i], outputs, signs, costs[i], slack, grades[i], weights[i],
            masses[i], known,
        )  # fmt: skip
        for m in range(size):
            for k in range(n_outputs):
                if moved[k, m] != 0.0:
                    coefficients[mine[m], k] += moved[k, m]
                    _add(values[k], _products(table, extra, where[mine[m]]), moved[k, m])


@njit(cache=True, nogil=True)
def _take(into, values, places):
    for k in range(values.shape[0]):
        for m in range(len(places)):
            into[k, m] = values[k, places[m]]


@njit(cache=True, nogil=True)
def _products(table, extra, row):
    return table[row] if row < table.shape[0] else extra[row - table.shape[0]]


@njit(cache=True, nogil=True)
def _add(values, products, size):
    # A loop of its own, in one precision, is what compilers turn into vector instructions.
    factor = values.dtype.type(size)
    for u in range(values.shape[0]):
        values[u] += factor * products[u]
