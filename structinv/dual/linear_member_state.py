"""Dual state with members of listed perturbation sets, for functions linear in x."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from ..oracles.changes import Changes
from ..oracles.listed_changes import listed
from ..spaces import ExplicitSpace
from ..structures.competitors import Competitors
from ..utils.jit import LEAN, njit
from ..utils.matrices import Matrix, floating
from ..utils.row_arrays import Arrays
from . import case as needs
from .base import CONVERGED_SHARE, DualState, OutOfTime, in_runs, never
from .case import Case
from .member_steps import ActiveMembers, member_losses

# Maximum number of rows whose members are scored together, and minimum number of batches in a sweep.
ROWS_AT_ONCE = 256
BATCHES_OF_A_SWEEP = 12
# Maximum number of rounds over active rows, and the fraction of the gap at which they end.
FOCUSED_ROUNDS = 20
FOCUSED_SHARE = 0.2
# Bytes of members in memory for these rounds: at least this, or half the size of the rows.
LEAST_MADE = 64_000_000


@dataclass
class MemberBlock:
    """Members of some rows in the active set, row by row.

    The r-th row has the entries ``start[r]`` to ``start[r + 1] - 1``; `alphas`, (n_entries, n_labels),
    are dual variables.
    """

    start: np.ndarray
    rows: np.ndarray
    members: np.ndarray
    alphas: np.ndarray


class LinearMemberState(DualState):
    """Numbers of the active members of every row, with their dual variables.

    The members of a batch of rows are scored together, by a transformation of the weights instead of the
    rows. Only the worst member and the active members of each row are then computed, and each row does
    exact pairwise steps between them. Memory does not depend on the number of members, and sparse rows
    stay sparse.
    """

    name = "linear_members"

    @staticmethod
    def refuses(case: Case) -> str:
        return needs.worst_case_of_rows(case) or needs.linear_in_x(case) or needs.listed_members(case)

    def __init__(self, case: Case, rng: np.random.Generator) -> None:
        self.term = term = case.term
        self.space: ExplicitSpace = case.space
        self.changes: Changes = listed(term.bound)
        self.size = case.n_members
        self.rng = rng
        self.plane_tol = case.plane_tol
        grades = self.changes.grades()
        self.grades = np.ones((1, self.size)) if grades is None else grades
        self.rows = np.flatnonzero(term.weights > 0)
        self.gaps = np.zeros(len(term.bound_structure.codes))
        # A few pairs (member, label) of each row, as one number, -1 for none; and their dual variables.
        self.pairs = np.full((len(self.gaps), 2), -1, dtype=np.int32)
        self.alphas = np.zeros(self.pairs.shape)

    @property
    def n_labels(self) -> int:
        """Number of labels of the term's structure."""
        return self.term.bound_structure.n_labels

    @property
    def offset(self) -> float:
        rows, members, labels, alphas = self._active(np.arange(len(self.alphas)))
        return float(self.term.weights[rows] * alphas @ self._offsets(rows, members, labels))

    def _offsets(self, rows: np.ndarray, members: np.ndarray, labels: np.ndarray) -> np.ndarray:
        return self._competitors(rows).cost_of(labels) * self._grades_of(rows, members)

    def _competitors(self, rows: np.ndarray) -> Competitors:
        return self.term.bound_structure.competitors(rows)

    def _grades_of(self, rows: np.ndarray, members: np.ndarray) -> np.ndarray:
        return self.grades[rows if len(self.grades) > 1 else 0, members]

    def _active(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return position in `rows`, member, label and dual variable of every active plane."""
        alphas = self.alphas[rows]
        owners, slots = np.nonzero(alphas)
        members, labels = np.divmod(self.pairs[rows[owners], slots], self.n_labels)
        return owners, members, labels, alphas[owners, slots]

    def sweep(self, f: np.ndarray, out_of_time: OutOfTime = never) -> tuple[float, int]:
        # One pass over all rows, then several rounds over active rows.
        self.n_added, self.converged = 0, False
        order = self.rng.permutation(self.rows)
        step = min(ROWS_AT_ONCE, 1 + len(order) // BATCHES_OF_A_SWEEP)
        for first in range(0, len(order), step):
            if out_of_time():
                return np.inf, first
            self._visit(f, np.sort(order[first : first + step]))
        total, left = float(self.gaps.sum()), 0.0
        holding = np.flatnonzero(np.any(self.alphas > 0, axis=1))
        for rows in self._portions(holding):
            left += np.inf if out_of_time() else self._optimize_active(f, rows, out_of_time)
        left_out = self.plane_tol * self.term.weights.sum()
        few = total <= (1.0 + CONVERGED_SHARE) * left_out
        self.converged = self.n_added == 0 and few and left <= CONVERGED_SHARE * total
        return total, len(self.rows)

    def _visit(self, f: np.ndarray, rows: np.ndarray) -> None:
        """Add the worst members of some rows, do steps in each row, and update the gaps."""
        newcomers = np.full(len(rows), -1)
        self.gaps[rows] = self._score_members(f, rows, newcomers)
        self.n_added += int(np.count_nonzero(newcomers >= 0))
        block = self._active_block(rows, newcomers)
        if len(block.rows):
            active_members = ActiveMembers(self._points(block.rows, block.members), block.start)
            self._ascend(f, rows, block, active_members, np.arange(len(rows)))
            self._store(rows, block)

    def _portions(self, rows: np.ndarray) -> list[np.ndarray]:
        """Split rows into runs whose members fit into memory next to the rows."""
        return in_runs(rows, np.count_nonzero(self.alphas[rows], axis=1), self._room)

    @property
    def _room(self) -> int:
        """Number of members of average size that fit into memory next to the rows."""
        X = self.term.bound.X
        size = X.data.nbytes + X.indices.nbytes if sp.issparse(X) else X.nbytes
        return int(max(LEAST_MADE, size // 2) // max(1, size // max(1, X.shape[0])))

    def _optimize_active(self, f: np.ndarray, rows: np.ndarray, out_of_time: OutOfTime) -> float:
        """Optimize over the planes of some rows until their gap is small; return the rest."""
        total = self.gaps[rows].sum()
        block = self._active_block(rows, np.full(len(rows), -1))
        active_members = ActiveMembers(self._points(block.rows, block.members), block.start)
        gaps = self._ascend(f, rows, block, active_members, self.rng.permutation(len(rows)))
        target = (FOCUSED_SHARE if self.n_added else CONVERGED_SHARE) * total
        for _ in range(FOCUSED_ROUNDS):
            if out_of_time() or gaps.sum() <= target:
                break
            active = np.flatnonzero(gaps > FOCUSED_SHARE * gaps.mean())
            gaps[active] = self._ascend(f, rows, block, active_members, self.rng.permutation(active))[
                active
            ]
        self._store(rows, block)
        return float(gaps.sum())

    def _score_members(self, f: np.ndarray, rows: np.ndarray, newcomers: np.ndarray) -> np.ndarray:
        """Return the weighted gaps at `f`, and write the worst new members into `newcomers`."""
        arrival = np.empty(len(rows))
        scores = self.changes.scores(rows, self.space.weights(f))
        assert scores is not None
        grades = self.grades if len(self.grades) == 1 else self.grades[rows]
        losses = member_losses(self._competitors(rows), grades, self.term.weights[rows])
        _worst_newcomers(
            np.ascontiguousarray(scores), self.space.constants(f), losses, self.pairs[rows],
            self.alphas[rows], self.plane_tol, newcomers, arrival,
        )  # fmt: skip
        return losses.weights * arrival

    def _active_block(self, rows: np.ndarray, newcomers: np.ndarray) -> MemberBlock:
        """Return the active members, and the new member of each row."""
        owners, members, labels, alphas = self._active(rows)
        new = np.flatnonzero(newcomers >= 0)
        nothing = np.zeros(len(new), dtype=np.int64)
        return self._gathered(
            rows,
            np.concatenate([owners, new]),
            np.concatenate([members, newcomers[new]]),
            np.concatenate([labels, nothing]),
            np.concatenate([alphas, nothing]),
        )

    def _gathered(
        self,
        rows: np.ndarray,
        owners: np.ndarray,
        members: np.ndarray,
        labels: np.ndarray,
        alphas: np.ndarray,
    ) -> MemberBlock:
        """Return dual variables by member; the k-th pair belongs to the row ``rows[owners[k]]``."""
        entries, places = np.unique(owners * self.size + members, return_inverse=True)
        dense = np.zeros((len(entries), self.n_labels))
        np.add.at(dense, (places, labels), alphas)
        own, listed = np.divmod(entries, self.size)
        return MemberBlock(np.searchsorted(own, np.arange(len(rows) + 1)), rows[own], listed, dense)

    def _points(self, rows: np.ndarray, members: np.ndarray) -> Matrix:
        # In the format of compiled functions.
        made = floating(self.changes.points(rows, members))
        return made if sp.issparse(made) else np.ascontiguousarray(made)

    def _ascend(
        self,
        f: np.ndarray,
        rows: np.ndarray,
        block: MemberBlock,
        active_members: ActiveMembers,
        order: np.ndarray,
    ) -> np.ndarray:
        """Do steps in the rows ``rows[order]``; return their gaps before the steps."""
        grades = self._grades_of(block.rows, block.members)
        losses = member_losses(self._competitors(rows), grades, self.term.weights[rows])
        return active_members.ascend(self.space.table(f), order, losses, block.alphas)

    def _store(self, rows: np.ndarray, block: MemberBlock) -> None:
        """Store dual variables, with as many columns as the row with most planes needs."""
        entries, labels = np.nonzero(block.alphas)
        owners = np.searchsorted(block.start, entries, side="right") - 1
        slots = np.arange(len(entries)) - np.searchsorted(owners, owners)
        short = int(slots.max(initial=-1)) + 1 - self.alphas.shape[1]
        if short > 0:
            self.pairs = np.pad(self.pairs, ((0, 0), (0, short)), constant_values=-1)
            self.alphas = np.pad(self.alphas, ((0, 0), (0, short)))
        self.alphas[rows], self.pairs[rows] = 0.0, -1
        # Dual variables are written last, so that Ctrl-C leaves none without a member.
        self.pairs[rows[owners], slots] = block.members[entries] * self.n_labels + labels
        self.alphas[rows[owners], slots] = block.alphas[entries, labels]

    def combination(self) -> np.ndarray:
        # Members are computed in portions, each once for all its planes.
        f = self.space.zeros()
        rows, members, labels, alphas = self._active(np.arange(len(self.alphas)))
        sizes = self.term.weights[rows] * alphas
        each = sizes[:, None] * self._competitors(rows).normals(labels)
        entries, places = np.unique(rows * self.size + members, return_inverse=True)
        ones, shape = np.ones(len(rows)), (len(entries), len(rows))
        summed = sp.csr_matrix((ones, (places.ravel(), np.arange(len(rows)))), shape) @ each
        for first in range(0, len(entries), 16 * ROWS_AT_ONCE):
            part = slice(first, first + 16 * ROWS_AT_ONCE)
            self.space.add(f, self._points(*np.divmod(entries[part], self.size)), summed[part])
        return f

    def arrays(self) -> Arrays:
        rows, members, labels, alphas = self._active(np.arange(len(self.alphas)))
        return {
            "gaps": self.gaps.copy(),
            "pairs.counts": np.bincount(rows, minlength=len(self.alphas)),
            "pairs.members": members,
            "pairs.labels": labels,
            "pairs.alphas": alphas,
        }

    def _start(self, arrays: Arrays, f: np.ndarray) -> int:
        every = np.arange(len(self.alphas))
        self.gaps[:] = arrays["gaps"]
        self._store(
            every, self._gathered(every, *feasible_pairs(arrays, self.size, self._competitors(every)))
        )
        return 0


def feasible_pairs(
    arrays: Arrays, n_members: int, competitors: Competitors
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return row, member, label and dual variable of possible pairs.

    Dual variables of a row that exceed 1 in total are scaled down.
    """
    rows = np.repeat(np.arange(len(competitors)), arrays["pairs.counts"])
    members, labels, alphas = (arrays[f"pairs.{name}"] for name in ("members", "labels", "alphas"))
    known = (members >= 0) & (members < n_members) & (labels >= 0) & (labels < competitors.n_labels)
    chosen = np.flatnonzero(known & (labels != competitors.codes[rows]) & (alphas > 0))
    rows, members, labels, alphas = rows[chosen], members[chosen], labels[chosen], alphas[chosen]
    totals = np.bincount(rows, alphas, len(competitors))
    return rows, members, labels, alphas / np.maximum(totals, 1.0)[rows]


@njit(**LEAN)
def _worst_newcomers(scores, constants, losses, pairs, alphas, plane_tol, newcomers, arrival):
    """Find the gap of each row, and its worst member if its value exceeds the active ones."""
    codes, costs, outputs, signs, slack, grades, _ = losses
    n_labels = len(outputs)
    for r in range(len(codes)):
        c, own = codes[r], min(r, grades.shape[0] - 1)
        best, covered, mean, member = 0.0, 0.0, 0.0, -1
        for m in range(scores.shape[1]):
            block = False
            for slot in range(pairs.shape[1]):
                block = block or (alphas[r, slot] > 0.0 and pairs[r, slot] // n_labels == m)
            truth = signs[c] * (scores[r, m, outputs[c]] + constants[outputs[c]])
            for k in range(n_labels):
                if k == c:
                    continue
                factor, o = costs[r, k] if slack else 1.0, outputs[k]
                gain = signs[k] * (scores[r, m, o] + constants[o]) - truth
                plane_value = costs[r, k] * grades[own, m] + factor * gain
                if block:
                    covered = plane_value if plane_value > covered else covered
                    for slot in range(pairs.shape[1]):
                        if pairs[r, slot] == m * n_labels + k:
                            mean += alphas[r, slot] * plane_value
                elif plane_value > best:
                    best, member = plane_value, m
        gap = (best if best > covered else covered) - mean
        arrival[r] = 0.0 if gap < 0.0 else gap
        newcomers[r] = member if best > covered + plane_tol + 1e-12 * (1.0 + best) else -1
