"""Dual state with members of listed perturbation sets, in the space of a kernel."""

from __future__ import annotations

import numpy as np

from ..oracles.listed_changes import listed
from ..spaces.kernel_space import Expansion, KernelSpace
from ..spaces.point_sums import PointSums
from ..utils.jit import LEAN, njit
from ..utils.row_arrays import Arrays
from . import case as needs
from .base import CONVERGED_SHARE, DualState, OutOfTime, in_runs, never
from .case import Case
from .linear_member_state import feasible_pairs
from .member_steps import RowBlock, member_losses

# Maximum number of additional passes over rows with most of the gap.
FOCUSED_PASSES = 5
# Number of rows whose members are evaluated together, and the fraction of the gap at which additional
# passes end. With a plane_tol, fewer atoms matter more than time, so each sweep does more passes.
ROWS_AT_ONCE, FOCUSED_SHARE = 512, 1.0
ROWS_AT_ONCE_SPARSE, FOCUSED_SHARE_SPARSE = 256, 0.3
# Maximum number of new atoms of a row in a sweep if plane_tol is 0, and the number of members for each
# atom after the first.
MOST_NEWCOMERS, MEMBERS_A_NEWCOMER = 3, 10
# Numbers of atoms of a block: its kernel matrix stays in the CPU cache; fewer if memory is short.
LEAST_ATOMS, MOST_ATOMS = 64, 600
# Number of multiplications for kernel values between two checks of the time.
PRODUCTS_AT_ONCE = 2e10
# Fraction of the mean gap by which a member must exceed the atoms, far from the optimum.
PATIENCE = 0.3


class MemberState(DualState):
    """One dual variable for every row, member and label; most of them are zero.

    The members of a batch of rows are evaluated together. The worst members of each row become atoms if
    they exceed the row's atoms by more than `plane_tol`. Their kernel values are computed in one
    product. Then rows do exact pairwise steps between their own atoms, in blocks. Each block visits its
    rows several times before the function values at all members are updated.

    Blocks are random in every sweep: fixed blocks need twice as many sweeps. Inactive atoms below all
    active planes of their row are left out of its block.
    """

    name = "members"

    @staticmethod
    def refuses(case: Case) -> str:
        return needs.worst_case_of_rows(case) or needs.of_a_kernel(case) or needs.all_members_known(case)

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
        self.competitors = term.bound_structure.competitors()
        n_rows = len(self.competitors)
        grades = listed(term.bound).grades()
        self.grades = np.ones((n_rows, pool.size)) if grades is None else grades
        self.losses = member_losses(self.competitors, self.grades, term.weights)
        self.alphas = np.zeros((n_rows, pool.size, self.competitors.n_labels))
        self.rows = np.flatnonzero(term.weights > 0)
        self.gaps = np.zeros(n_rows)
        self.idle = np.zeros((n_rows, pool.size), dtype=bool)
        self.total = 0.0

    @property
    def offset(self) -> float:
        parts = self.term.weights, self.alphas, self.grades, self.competitors.costs
        return float(np.einsum("i,isk,is,ik->", *parts, optimize=True))

    def sweep(self, f: Expansion, out_of_time: OutOfTime = never) -> tuple[float, int]:
        # One pass over all rows, then passes over the rows with most of the gap.
        order = self.rng.permutation(self.rows)
        self.n_added, self.converged, total = 0, False, 0.0
        blocks: list[RowBlock] = []
        # Far from the optimum, members that hardly exceed the atoms would soon be inactive.
        required = self.plane_tol
        if self.total > 0:
            required = max(required, PATIENCE * self.total / self.term.weights.sum())
        for first in range(0, len(order), self.rows_at_once):
            if out_of_time():
                return np.inf, first
            rows = order[first : first + self.rows_at_once]
            total += self._grow(f, rows, required, out_of_time)
            # Atoms may be new, or belong to an earlier run in the same space.
            f.make_room(len(self.space.atoms))
            # Rows without a gap are skipped.
            fresh = self._blocks(rows[self.gaps[rows] > 0])
            for block in fresh:
                self._ascend(f, block, self.rng.permutation(len(block.rows)))
            blocks += fresh
        self.total = total
        if self.n_added == 0 and required == self.plane_tol > 0:
            # The gap over the rows' own atoms, compared with the gap due to plane_tol.
            self._do_steps(f, blocks, 0.0, out_of_time)
            self.converged = not out_of_time() and bool(self.gaps.sum() <= CONVERGED_SHARE * self.total)
        self._optimize_active(f, blocks, out_of_time)
        return self.total, len(self.rows)

    def _blocks(self, rows: np.ndarray) -> list[RowBlock]:
        """Return rows in blocks whose kernel matrices stay in the CPU cache."""
        store, slots = self.space.atoms, self._atoms_of(rows)
        room = 0.5 * store.cache_bytes / (max(1, len(store)) * store.dtype.itemsize)
        most = max(LEAST_ATOMS, min(MOST_ATOMS, int(room)))
        places = in_runs(np.arange(len(rows)), np.count_nonzero(slots >= 0, axis=1), most)
        return [RowBlock(store, rows[own], slots[own]) for own in places]

    def _optimize_active(self, f: Expansion, blocks: list[RowBlock], out_of_time: OutOfTime) -> None:
        """Do several passes over the rows with most of the gap, without new atoms."""
        for _ in range(FOCUSED_PASSES):
            left = self.gaps.sum()
            if out_of_time() or (left <= self.focused_share * self.total and self.n_added):
                break
            self._do_steps(f, blocks, self.focused_share * left / len(self.gaps), out_of_time)

    def _do_steps(
        self, f: Expansion, blocks: list[RowBlock], min_gap: float, out_of_time: OutOfTime
    ) -> None:
        """Do steps on rows with a gap of at least `min_gap`, until time is up."""
        for number in self.rng.permutation(len(blocks)):
            if out_of_time():
                break
            block = blocks[number]
            far_off = np.flatnonzero(self.gaps[block.rows] >= min_gap)
            self._ascend(f, block, self.rng.permutation(far_off))

    def _grow(self, f: Expansion, rows: np.ndarray, required: float, out_of_time: OutOfTime) -> float:
        """Add the worst members as atoms, if they exceed the row's atoms by more than `required`.

        Return the rows' gap over all members.
        """
        members = np.empty((len(rows), self.newcomers), dtype=np.int64)
        pool = self.pool.first, self.pool.numbers, self.pool.slots
        _worst_newcomers(
            f.values().T, pool, rows, self.losses, self.alphas, required, np.empty((2, self.pool.size)),
            members, self.gaps, self.idle,
        )  # fmt: skip
        if required <= self.plane_tol:
            # Convergence is checked over all atoms.
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
        """Do steps in some rows of a block, by their positions in it."""
        rows = block.rows
        own = rows[block.owners], block.members
        alphas = self.alphas[own]
        self.gaps[rows[order]] = block.ascend(
            f,
            order,
            member_losses(self.competitors.take(rows), self.grades[own], self.term.weights[rows]),
            alphas,
        )
        self.alphas[own] = alphas

    def _atoms_of(self, rows: np.ndarray) -> np.ndarray:
        """Return the atoms of each row's members; -1 for none, idle ones and copies of the row."""
        numbers = self.pool.numbers[rows]
        slots = self.pool.slots[numbers]
        slots[:, 1:][numbers[:, 1:] == numbers[:, :1]] = -1
        slots[self.idle[rows]] = -1
        return slots

    def combination(self) -> Expansion:
        rows, members, labels = np.nonzero(self.alphas)
        normals = self.competitors.take(rows).normals(labels)
        keys, starts = self.pool.keys(rows, members), np.arange(len(rows) + 1)
        sizes = self.term.weights[rows] * self.alphas[rows, members, labels]
        return self.space.combine(PointSums(keys, normals, starts), sizes)

    def arrays(self) -> Arrays:
        rows, members, labels = np.nonzero(self.alphas)
        return {
            "pairs.counts": np.bincount(rows, minlength=len(self.alphas)),
            "pairs.members": members,
            "pairs.labels": labels,
            "pairs.alphas": self.alphas[rows, members, labels],
        }

    def _start(self, arrays: Arrays, f: Expansion) -> int:
        rows, members, labels, alphas = feasible_pairs(arrays, self.pool.size, self.competitors)
        members = self.pool.distinct(rows, members)
        self.alphas[:] = 0.0
        np.add.at(self.alphas, (rows, members, labels), alphas)
        self.space.atoms.slots(self.pool.keys(rows, members))
        return 0


@njit(**LEAN)
def _worst_newcomers(values, pool, rows, losses, alphas, required, plane_values, newcomers, gaps, idle):
    """Find the gap of each row, its worst members that exceed all its atoms, and idle members.

    Missing members are -1. Idle members are inactive and below all active planes of the row.
    """
    start, numbers, slots = pool
    codes, costs, outputs, signs, slack, grades, weights = losses
    for r in range(len(rows)):
        i, c = rows[r], codes[rows[r]]
        best, covered, mean, used, low = 0.0, 0.0, 0.0, 0.0, np.inf
        for m in range(plane_values.shape[1]):
            # Largest value of a member without an atom, and of any member.
            plane_values[0, m], plane_values[1, m], idle[i, m] = -1.0, -1.0, True
            point = numbers[i, m]
            if m > 0 and point == numbers[i, 0]:
                continue
            truth = signs[c] * values[outputs[c], start + point]
            for k in range(len(outputs)):
                if k == c:
                    continue
                factor = costs[i, k] if slack else 1.0
                gain = signs[k] * values[outputs[k], start + point] - truth
                plane_value = costs[i, k] * grades[i, m] + factor * gain
                plane_values[1, m] = (
                    plane_value if plane_value > plane_values[1, m] else plane_values[1, m]
                )
                if alphas[i, m, k] > 0.0:
                    idle[i, m] = False
                    mean += alphas[i, m, k] * plane_value
                    used += alphas[i, m, k]
                    low = plane_value if plane_value < low else low
            if slots[point] >= 0:
                covered = plane_values[1, m] if plane_values[1, m] > covered else covered
            else:
                plane_values[0, m] = plane_values[1, m]
            best = plane_values[1, m] if plane_values[1, m] > best else best
        low = 0.0 if used < 1.0 - 1e-12 and low > 0.0 else low
        for m in range(plane_values.shape[1]):
            idle[i, m] = idle[i, m] and plane_values[1, m] <= low
        gap = (best if best > covered else covered) - mean
        gaps[i] = 0.0 if gap < 0.0 else weights[i] * gap
        for place in range(newcomers.shape[1]):
            worst = 0
            for m in range(1, plane_values.shape[1]):
                worst = m if plane_values[0, m] > plane_values[0, worst] else worst
            rises = plane_values[0, worst] > covered + required + 1e-12 * (1.0 + abs(best))
            newcomers[r, place] = worst if rises else -1
            plane_values[0, worst] = -1.0
