"""Dual state with labelings of examples and members of their rows, for kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from ..oracles.listed_changes import listed
from ..oracles.query import Violations, best_members
from ..spaces.kernel_space import Expansion, KernelSpace
from ..structures import Layout
from ..structures.decodings import laid_out
from ..utils.row_arrays import Arrays
from . import case as needs
from .base import DualState, OutOfTime, in_runs, never
from .case import Case
from .labeling_steps import ascend_blocks, mean_plane_values
from .linear_member_state import feasible_pairs

if TYPE_CHECKING:
    from ..structures.competitors import Competitors

# Number of members of a batch of blocks, and number of rounds before other blocks are updated.
MEMBERS_AT_ONCE, ROUNDS = 2048, 8
# Blocks with less than this fraction of the mean gap are skipped.
FAR_OFF = 0.1
# Number of stored labelings of a block from which on inactive ones are replaced.
LABELINGS_KEPT = 16


class LabelingState(DualState):
    """Dual variables of labelings of every example, and of members of every row.

    Rows are perturbed independently. The dual variable of a row's wrong label can therefore be divided
    among the members of the row, for any members of other rows. Both kinds of dual variables determine
    the average plane of a block, without a list of pairs of a labeling and members.

    Batches of blocks are visited together, with function values and kernel values at their own members.
    Each round finds the worst labelings. Each block then does exact pairwise steps between its labelings
    and, in each row, between members. After all rounds, the function values at all members are updated.
    """

    name = "labelings"

    @staticmethod
    def refuses(case: Case) -> str:
        return (
            needs.averages_planes(case)
            or needs.worst_case_of_examples(case)
            or needs.of_a_kernel(case)
            or needs.all_members_known(case)
        )

    def __init__(self, case: Case, rng: np.random.Generator) -> None:
        self.term = term = case.term
        self.space: KernelSpace = case.space
        self.pool = pool = case.pool
        self.rng = rng
        self.bound_structure = term.bound_structure
        self.layout = laid_out(self.bound_structure.layout, term.X.shape[0])
        competitors = self.bound_structure.competitors()
        self.codes, self.costs = competitors.codes, competitors.costs
        grades = listed(term.bound).grades()
        n_rows = len(self.codes)
        self.grades = np.ones((n_rows, pool.size)) if grades is None else grades
        self.n_labels = competitors.n_labels
        self.member_alphas = np.zeros((n_rows, pool.size, self.n_labels))
        self.alphas = np.zeros((term.n_blocks, LABELINGS_KEPT))
        self.labelings = np.repeat(self.codes[:, None], LABELINGS_KEPT, axis=1)
        self.n_listed = np.zeros(term.n_blocks, dtype=np.int64)
        self.blocks = np.flatnonzero(term.weights > 0)
        self.gaps = np.full(term.n_blocks, np.inf)

    @property
    def offset(self) -> float:
        each = np.einsum("isk,is,ik->i", self.member_alphas, self.grades, self.costs, optimize=True)
        return float(self.term.weights @ self.layout.sums(each))

    def sweep(self, f: Expansion, out_of_time: OutOfTime = never) -> tuple[float, int]:
        order, visited = self.rng.permutation(self.blocks), 0
        far_off = FAR_OFF * float(self.gaps[self.blocks].mean()) if len(order) else 0.0
        if not np.isfinite(far_off):
            far_off = 0.0
        for batch in in_runs(order, self.pool.size * self.layout.lengths[order], MEMBERS_AT_ONCE):
            if out_of_time():
                return np.inf, visited
            self._visit(f, np.sort(batch), far_off)
            visited += self.term.rows_of(batch)
        return float(self.gaps[self.blocks].sum()), visited

    def _visit(self, f: Expansion, blocks: np.ndarray, far_off: float) -> None:
        """Add labelings of a batch and do steps, for several rounds; then update `f`."""
        batch = _Batch(self, f, blocks)
        for count in range(ROUNDS):
            gaps = batch.add_worst()
            if count == 0:
                self.gaps[blocks] = gaps
                chosen = np.flatnonzero(gaps > far_off)
            if len(chosen) == 0:
                return
            batch.ascend(self.rng.permutation(chosen))
        f += batch.change()

    def enlist(self, blocks: np.ndarray, labels: np.ndarray) -> None:
        """Add a labeling to the list of each block, unless it is listed.

        `labels` has the labels of all rows. In a long list, the labeling replaces an inactive one.
        """
        rows, layout = self.layout.rows(blocks), self.layout.take(blocks)
        new = layout.sums(labels != self.codes[rows]) > 0
        listed = np.arange(self.alphas.shape[1]) < self.n_listed[blocks][:, None]
        differences = layout.sums(self.labelings[rows] != labels[:, None])
        new &= ~np.any((differences == 0) & listed, axis=1)
        idle = listed & (self.alphas[blocks] == 0)
        full = self.n_listed[blocks] >= LABELINGS_KEPT
        places = np.where(full & np.any(idle, axis=1), np.argmax(idle, axis=1), self.n_listed[blocks])
        self._enlarge(int(np.max(places[new], initial=-1)) + 1)
        fresh = new[layout.owners]
        self.labelings[rows[fresh], places[layout.owners[fresh]]] = labels[fresh]
        self.n_listed[blocks[new]] = np.maximum(self.n_listed[blocks[new]], places[new] + 1)

    def listed(self, blocks: np.ndarray, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray, Layout]:
        """Return labels, rows and layout of one listed labeling per entry of `blocks`.

        Shapes: `blocks` (m,), `chosen` (m,).
        """
        rows, layout = self.layout.rows(blocks), self.layout.take(blocks)
        return self.labelings[rows, chosen[layout.owners]], rows, layout

    def moved(self, blocks: np.ndarray, chosen: np.ndarray) -> sp.csr_matrix:
        """Return pairwise features minus those of the true labelings, (m, n_pairwise)."""
        if not self.space.n_pairwise or not len(blocks):
            return sp.csr_matrix((len(blocks), self.space.n_pairwise))
        labels, rows, layout = self.listed(blocks, chosen)
        return sp.csr_matrix(self.bound_structure.moved(labels, self.codes[rows], layout))

    def combination(self) -> Expansion:
        rows, members, labels = np.nonzero(self.member_alphas)
        weights = self.term.weights[self.layout.owners[rows]]
        sizes = weights * self.member_alphas[rows, members, labels]
        atoms = self.space.atoms.slots(self.pool.keys(rows, members))
        f = self.space.zeros()
        f.make_room(len(self.space.atoms))
        np.add.at(f.coefficients, (atoms, self.codes[rows]), sizes)
        np.add.at(f.coefficients, (atoms, labels), -sizes)
        if self.space.n_pairwise:
            blocks, chosen = np.nonzero(self.alphas)
            sizes = self.term.weights[blocks] * self.alphas[blocks, chosen]
            f.pairwise -= self.moved(blocks, chosen).T @ sizes
        return f

    def arrays(self) -> Arrays:
        rows, members, labels = np.nonzero(self.member_alphas)
        labelings, alphas = self._active_first(self.labelings, self.alphas)
        return {
            "labelings": labelings,
            "labelings alphas": alphas,
            "pairs.counts": np.bincount(rows, minlength=len(self.codes)),
            "pairs.members": members,
            "pairs.labels": labels,
            "pairs.alphas": self.member_alphas[rows, members, labels],
        }

    def _active_first(self, labels: np.ndarray, alphas: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the labelings with a dual variable, and true ones after them; (n_rows, m), (n, m)."""
        width, owners = int(np.count_nonzero(alphas, axis=1).max(initial=0)), self.layout.owners
        order = np.argsort(alphas <= 0, axis=1, kind="stable")[:, :width]
        alphas = np.take_along_axis(alphas, order, axis=1)
        labels = np.take_along_axis(labels, order[owners], axis=1)
        return np.where(alphas[owners] > 0, labels, self.codes[:, None]), alphas

    def _start(self, arrays: Arrays, f: Expansion) -> int:
        labels, alphas = arrays["labelings"], arrays["labelings alphas"]
        known = labels.shape[1] == alphas.shape[1] and np.all((labels >= 0) & (labels < self.n_labels))
        if not known or not labels.shape[1]:
            return 0
        labels, alphas = self._active_first(labels, self._feasible(labels, alphas))
        width = alphas.shape[1]
        self._enlarge(width)
        self.labelings[:, :width], self.alphas[:, :width] = labels, alphas
        self.n_listed = np.count_nonzero(alphas, axis=1)
        self.member_alphas = self._divided(arrays, labels, alphas[self.layout.owners])
        rows, members, _ = np.nonzero(self.member_alphas)
        self.space.atoms.slots(self.pool.keys(rows, members))
        return 0

    def _feasible(self, labels: np.ndarray, alphas: np.ndarray) -> np.ndarray:
        """Return the dual variables of wrong and allowed labelings, at most 1 in total."""
        structure = self.bound_structure.structure
        allowed = [structure.allows(each, self.layout, self.n_labels) for each in labels.T]
        wrong = [self.layout.sums(each != self.codes) > 0 for each in labels.T]
        kept = np.where(np.logical_and(allowed, wrong), np.maximum(alphas, 0.0).T, 0.0).T
        return kept / np.maximum(kept.sum(axis=1, keepdims=True), 1.0)

    def _divided(self, arrays: Arrays, labels: np.ndarray, alphas: np.ndarray) -> np.ndarray:
        """Divide the dual variables of each row's wrong labels among its members."""
        totals, shares = np.zeros((len(labels), self.n_labels)), np.zeros(self.member_alphas.shape)
        np.add.at(totals, (np.arange(len(labels))[:, None], labels), alphas)
        totals[np.arange(len(labels)), self.codes] = 0.0
        rows, members, wrong, sizes = feasible_pairs(
            arrays, self.pool.size, self.bound_structure.competitors()
        )
        np.add.at(shares, (rows, self.pool.distinct(rows, members), wrong), sizes)
        # Labels without members have the unperturbed row.
        shares[:, 0][shares.sum(axis=1) == 0] = 1.0
        divided: np.ndarray = shares * (totals / shares.sum(axis=1))[:, None, :]
        return divided

    def _enlarge(self, n_listed: int) -> None:
        """Enlarge the lists to at least `n_listed` labelings per block."""
        short = n_listed - self.alphas.shape[1]
        if short > 0:
            short += self.alphas.shape[1] // 2
            self.alphas = np.pad(self.alphas, ((0, 0), (0, short)))
            self.labelings = np.pad(self.labelings, ((0, 0), (0, short)), mode="edge")


class _Batch:
    """Blocks that are visited together, with function values at their own members."""

    def __init__(self, state: LabelingState, f: Expansion, blocks: np.ndarray) -> None:
        self.state = state
        self.f = f
        self.blocks = blocks
        self.rows, self.layout = state.layout.rows(blocks), state.layout.take(blocks)
        self.competitors: Competitors = state.bound_structure.competitors(self.rows)
        self.grades = state.grades[self.rows]
        self.weights = state.term.weights[blocks]
        self.places = state.pool.first + state.pool.numbers[self.rows]
        self.values = np.ascontiguousarray(f.values().T[:, self.places.ravel()])
        self.pairwise = f.pairwise.copy()
        self.changes = np.zeros(self.values.shape)
        # Row of `kernel` of each member, -1 for members without an atom.
        self.atom_rows = np.full(self.places.size, -1)
        self.kernel = np.zeros((0, self.places.size), dtype=self.values.dtype)
        self.listed = self._listed()

    def add_worst(self) -> np.ndarray:
        """List the worst labeling of each block with atoms for its members; return the gaps."""
        state = self.state
        shape = (-1, *self.places.shape)
        values = self.values.reshape(shape).transpose(1, 2, 0)
        gains, costs, members = best_members(values, self.competitors, self.grades)
        found = Violations(gains, costs, gains + costs)
        chosen = state.bound_structure.separate(self.competitors, found, self.pairwise, self.layout)
        means = mean_plane_values(
            self.values, self.competitors.codes, self.competitors.costs, self.grades,
            state.member_alphas[self.rows], *self.listed, state.alphas[self.blocks], self.layout.starts,
            self.pairwise,
        )  # fmt: skip
        state.enlist(self.blocks, chosen.labels)
        self.listed = self._listed()
        wrong = np.flatnonzero(chosen.labels != self.competitors.codes)
        worst = members[wrong, chosen.labels[wrong]]
        state.space.atoms.slots(state.pool.keys(self.rows[wrong], worst))
        return self.weights * np.maximum(chosen.upper - means, 0.0)

    def _listed(self) -> tuple[tuple, np.ndarray]:
        """Return pairwise features of the blocks' labelings, as CSR arrays, and starts of blocks."""
        sizes = self.state.n_listed[self.blocks]
        ends = np.r_[0, np.cumsum(sizes)]
        chosen = np.arange(ends[-1]) - np.repeat(ends[:-1], sizes)
        moved = self.state.moved(np.repeat(self.blocks, sizes), chosen)
        return (moved.indptr, moved.indices, moved.data), ends

    def ascend(self, order: np.ndarray) -> None:
        """Do steps in some of the blocks, by their positions in the batch."""
        state, store = self.state, self.state.space.atoms
        atoms = state.pool.slots[state.pool.numbers[self.rows]]
        # Members that equal the row itself are redundant.
        atoms[:, 1:][self.places[:, 1:] == self.places[:, :1]] = -1
        atoms = atoms.ravel()
        new = np.flatnonzero((atoms >= 0) & (self.atom_rows < 0))
        self.atom_rows[new] = len(self.kernel) + np.arange(len(new))
        fresh = store.between(atoms[new], self.places.ravel())
        self.kernel = fresh if len(self.kernel) == 0 else np.concatenate([self.kernel, fresh])
        alphas, member_alphas = state.alphas[self.blocks], state.member_alphas[self.rows]
        moved, listed = self.listed
        ascend_blocks(
            order, self.layout.starts, self.values, self.kernel, self.atom_rows, self.competitors.codes,
            self.competitors.costs, self.grades, self.weights, state.labelings[self.rows], listed, moved,
            alphas, member_alphas,
            self.pairwise, self.changes,
        )  # fmt: skip
        state.alphas[self.blocks], state.member_alphas[self.rows] = alphas, member_alphas

    def change(self) -> Expansion:
        """Return the change of the function."""
        state = self.state
        total = state.space.zeros()
        total.make_room(len(state.space.atoms))
        own = np.flatnonzero(np.any(self.changes != 0, axis=0))
        atoms = state.pool.slots[(self.places.ravel() - state.pool.first)[own]]
        total.coefficients[atoms] = self.changes[:, own].T
        total.pairwise += self.pairwise - self.f.pairwise
        return total
