"""Masses on the members of every orbit, in a kernel's space where all members are known."""

from __future__ import annotations

import numpy as np

from ..oracles.listing import listed
from ..spaces import KernelSpace
from ..spaces.atoms import AtomRows
from ..spaces.kernel_space import Expansion
from ..terms.planes import PlaneSet
from ..utils.jit import njit
from .base import DualState, OutOfTime, in_runs, never
from .case import Case
from .member_blocks import RowBlock

# Passes over the rows with most of the gap, before a pass over all.
FOCUSED_PASSES = 5
# Rows priced together, and the share of the gap that is left for the next sweep. With an plane_tol,
# newcomers are what is to be saved, so each sweep does more before it asks for some.
ROWS_AT_ONCE, FOCUSED_SHARE = 512, 1.0
ROWS_AT_ONCE_SPARSE, FOCUSED_SHARE_SPARSE = 256, 0.3
# A sweep has settled once this share of the gap is left.
SETTLED_SHARE = 0.01
# Most members of a row that become atoms in a sweep, if plane_tol is 0: one more for so many.
MOST_NEWCOMERS, MEMBERS_A_NEWCOMER = 3, 10
# Atoms of a block: the kernel among them stays in a core's cache. Fewer where memory is short.
LEAST_ATOMS, MOST_ATOMS = 64, 600
# Between two looks at the clock so many products of numbers are taken for the kernel's values.
PRODUCTS_AT_ONCE = 2e10
PATIENCE = 0.3


class MemberState(DualState):
    """One mass for every row, member of its orbit and label, most of them zero.

    A batch of rows is priced at once: the worst members of each join the atoms if they rise above the
    planes of the row's own atoms by more than `plane_tol`, and the kernel's columns of those that join
    are computed in one product. Then rows take exact pairwise steps between their own atoms: in blocks,
    each of which goes over its rows several times before what changed in it is added to the function's
    values at all members. Blocks are drawn anew in every sweep: fixed ones need twice as many sweeps.
    Atoms without a mass that lie below all planes of their row with one are left out of its block.

    Parameters
    ----------
    case : Case
        Worst cases of single rows. The kernel's space knows all members of the oracle, and these are all
        there are.
    rng : numpy.random.Generator
    """

    checks_planes = True

    def __init__(self, case: Case, rng: np.random.Generator) -> None:
        self.term = term = case.term
        self.space: KernelSpace = case.space
        self.pool = pool = case.pool
        self.rng = rng
        self.plane_tol = plane_tol = case.plane_tol
        self.rows_at_once = ROWS_AT_ONCE_SPARSE if plane_tol > 0 else ROWS_AT_ONCE
        self.focused_share = FOCUSED_SHARE_SPARSE if plane_tol > 0 else FOCUSED_SHARE
        more = 0 if plane_tol > 0 else pool.size // MEMBERS_A_NEWCOMER
        self.newcomers = min(MOST_NEWCOMERS, 1 + more)
        self.competitors = term.labels.competitors()
        n_rows = len(self.competitors)
        grades = listed(term.bound).grades()
        self.grades = np.ones((n_rows, pool.size)) if grades is None else grades
        self.masses = np.zeros((n_rows, pool.size, self.competitors.n_labels))
        self.rows = np.flatnonzero(term.weights > 0)
        self.gaps = np.zeros(n_rows)
        self.idle = np.zeros((n_rows, pool.size), dtype=bool)
        self.total = 0.0

    @property
    def offset(self) -> float:
        parts = self.term.weights, self.masses, self.grades, self.competitors.costs
        return float(np.einsum("i,isk,is,ik->", *parts, optimize=True))

    def sweep(self, f: Expansion, out_of_time: OutOfTime = never) -> tuple[float, int]:
        """See `DualState.sweep`: all rows once, then the rows that hold most of the gap."""
        order = self.rng.permutation(self.rows)
        self.n_added, self.converged, total = 0, False, 0.0
        blocks: list[RowBlock] = []
        # While the function is far off, newcomers that hardly beat the others would soon be idle.
        ask = self.plane_tol
        if self.total > 0:
            ask = max(ask, PATIENCE * self.total / self.term.weights.sum())
        for first in range(0, len(order), self.rows_at_once):
            if out_of_time():
                return np.inf, first
            rows = order[first : first + self.rows_at_once]
            total += self._grow(f, rows, ask, out_of_time)
            # Atoms may be new, or older than the function: of an earlier run on the same space.
            f.make_room(len(self.space.atoms))
            # Whoever is far from all borders, and has no mass, is left alone.
            fresh = self._blocks(rows[self.gaps[rows] > 0])
            for block in fresh:
                self._ascend(f, block, self.rng.permutation(len(block.rows)))
            blocks += fresh
        self.total = total
        if self.n_added == 0 and ask == self.plane_tol > 0:
            # What is left on the rows' own atoms, against what plane_tol leaves out.
            self._again(f, blocks, 0.0, out_of_time)
            self.converged = not out_of_time() and bool(self.gaps.sum() <= SETTLED_SHARE * self.total)
        self._focus(f, blocks, out_of_time)
        return self.total, len(self.rows)

    def _blocks(self, rows: np.ndarray) -> list[RowBlock]:
        """The rows in blocks of so many atoms that the kernel among these stays in a core's cache."""
        store, slots = self.space.atoms, self._atoms_of(rows)
        room = 0.5 * store.cache_bytes / (max(1, len(store)) * store.dtype.itemsize)
        most = max(LEAST_ATOMS, min(MOST_ATOMS, int(room)))
        places = in_runs(np.arange(len(rows)), np.count_nonzero(slots >= 0, axis=1), most)
        return [RowBlock(store, rows[own], slots[own]) for own in places]

    def _focus(self, f: Expansion, blocks: list[RowBlock], out_of_time: OutOfTime) -> None:
        """Go over the rows that hold most of the gap, again and again, with the atoms there are."""
        for _ in range(FOCUSED_PASSES):
            left = self.gaps.sum()
            if out_of_time() or (left <= self.focused_share * self.total and self.n_added):
                break
            self._again(f, blocks, self.focused_share * left / len(self.gaps), out_of_time)

    def _again(self, f: Expansion, blocks: list[RowBlock], floor: float, out_of_time: OutOfTime) -> None:
        """Steps on their own atoms of rows with a gap above `floor`, of as many as there is time for."""
        for number in self.rng.permutation(len(blocks)):
            if out_of_time():
                break
            block = blocks[number]
            far_off = np.flatnonzero(self.gaps[block.rows] >= floor)
            self._ascend(f, block, self.rng.permutation(far_off))

    def _grow(self, f: Expansion, rows: np.ndarray, ask: float, out_of_time: OutOfTime) -> float:
        """Make atoms of the worst members that rise above the atoms of their rows by more than `ask`.

        Returns the rows' gap over all members.
        """
        members = np.empty((len(rows), self.newcomers), dtype=np.int64)
        _worst_newcomers(
            f.values().T, self.pool.first, self.pool.numbers, rows, self.pool.slots,
            *self.competitors.arrays, self.grades, self.term.weights, self.masses, ask,
            np.empty((2, self.pool.size)), members, self.gaps, self.idle,
        )  # fmt: skip
        if ask <= self.plane_tol:
            # Whether a run has settled is told by all atoms.
            self.idle[rows] = False
        owners, which = np.nonzero(members >= 0)
        new = self.pool.keys(rows[owners], members[owners, which])
        work = self.space.n_features * max(1, len(self.space.atoms.known))
        at_once = max(1, int(PRODUCTS_AT_ONCE // work))
        for first in range(0, len(new), at_once):
            if out_of_time():
                break
            some = new[first : first + at_once]
            self.n_added += len(some)
            self.space.atoms.slots(some)
        return float(self.gaps[rows].sum())

    def _ascend(self, f: Expansion, block: RowBlock, order: np.ndarray) -> None:
        """Steps in some rows of a block, in order, by their places in it."""
        rows = block.rows
        own = rows[block.owners], block.members
        masses = self.masses[own]
        self.gaps[rows[order]] = block.ascend(
            f,
            order,
            self.competitors.take(rows).arrays,
            self.grades[own],
            self.term.weights[rows],
            masses,
        )
        self.masses[own] = masses

    def _atoms_of(self, rows: np.ndarray) -> np.ndarray:
        """Which atoms the members of each row are; -1 for none, for idle ones and for the row again."""
        numbers = self.pool.numbers[rows]
        slots = self.pool.slots[numbers]
        slots[:, 1:][numbers[:, 1:] == numbers[:, :1]] = -1
        slots[self.idle[rows]] = -1
        return slots

    def combination(self) -> Expansion:
        planes = self.planes()
        return self.space.combine(planes.normals, self.term.weights[planes.blocks] * planes.masses)

    def planes(self) -> PlaneSet:
        rows, members, labels = np.nonzero(self.masses)
        competitors = self.competitors.take(rows)
        keys = self.pool.keys(rows, members)
        normals = AtomRows(self.space.atoms, keys, competitors.normals(labels), np.arange(len(rows) + 1))
        offsets = competitors.cost_of(labels) * self.grades[rows, members]
        return PlaneSet(normals, offsets, rows, self.masses[rows, members, labels])

    def restore(self, planes: PlaneSet) -> None:
        """See `DualState.restore`; planes that are none of this set's are left to the null plane."""
        single = np.flatnonzero(np.diff(planes.normals.start) == 1)
        rows, masses = planes.blocks[single], planes.masses[single]
        terms = planes.normals.start[single]
        members = self._members_of(planes.normals.keys[terms], rows)
        labels = self.competitors.take(rows).labels_of(planes.normals.coefficients[terms])
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
    values, start, numbers, rows, slots, codes, outputs, signs, costs, slack, grades, weights, masses,
    ask, heights, newcomers, gaps, idle,
):  # fmt: skip
    """The worst members of each row that are no atoms and beat all its atoms, -1 for none; the gaps.

    Idle members have no mass, and lie below all planes of the row that have some.
    """
    for r in range(len(rows)):
        i, c = rows[r], codes[rows[r]]
        best, covered, mean, used, low = 0.0, 0.0, 0.0, 0.0, np.inf
        for m in range(heights.shape[1]):
            # Of the planes of a member, and of those among them that have mass or might get it.
            heights[0, m], heights[1, m], idle[i, m] = -1.0, -1.0, True
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
                heights[1, m] = height if height > heights[1, m] else heights[1, m]
                if masses[i, m, k] > 0.0:
                    idle[i, m] = False
                    mean += masses[i, m, k] * height
                    used += masses[i, m, k]
                    low = height if height < low else low
            if slots[point] >= 0:
                covered = heights[1, m] if heights[1, m] > covered else covered
            else:
                heights[0, m] = heights[1, m]
            best = heights[1, m] if heights[1, m] > best else best
        low = 0.0 if used < 1.0 - 1e-12 and low > 0.0 else low
        for m in range(heights.shape[1]):
            idle[i, m] = idle[i, m] and heights[1, m] <= low
        gap = (best if best > covered else covered) - mean
        gaps[i] = 0.0 if gap < 0.0 else weights[i] * gap
        for place in range(newcomers.shape[1]):
            worst = 0
            for m in range(1, heights.shape[1]):
                worst = m if heights[0, m] > heights[0, worst] else worst
            rises = heights[0, worst] > covered + ask + 1e-12 * (1.0 + abs(best))
            newcomers[r, place] = worst if rises else -1
            heights[0, worst] = -1.0
