"""Dual state for oracles that add the same features to all rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..spaces import ExplicitSpace
from ..spaces.base import Element
from ..terms.worst_case import WorstMargin
from ..utils.matrices import add_combinations, csr_arrays, scale_rows, squared_lengths, with_data
from ..utils.row_arrays import Arrays
from . import case as needs
from .addition_shares import share_out
from .addition_steps import BUDGET, SUMS, TOTAL, Added, settle, sweep_additions, weights_of
from .base import DualState, FocusedSweeps, OutOfTime, never, rows_at_once
from .case import Case
from .margin_state import MarginState
from .margin_steps import KINDS
from .plane_cache import BatchedState, PlaneCache
from .row_state import RowLosses

# A sweep is slow if it gains less than this fraction of the gap, or less than the distribution loses;
# and the maximum number of consecutive slow sweeps.
_PROGRESS, _MOST_SLOW = 3e-4, 15
# Smallest fraction of joint steps that is tried if they lower the dual.
_LEAST_SHARE = 1e-3


@dataclass(frozen=True)
class AddedWords:
    """Features that rows add, with one threshold for the rows of each sign.

    - `value` (d,): value that is added to each feature, 0 for none
    - `per_feature, in_total`: factors of the two limits of a row, `AdditionState._left_over`: that of
      one feature, and that of all features in total
    - `sides` (2, SUMS): sums of both signs, as in `addition_steps.settle`
    - `place` (d,): state of each feature, as in `addition_steps.settle`
    """

    value: np.ndarray
    per_feature: int = 1
    in_total: int = 1

    @cached_property
    def inverse(self) -> np.ndarray:
        """Reciprocal of each value, 0 for a value of 0."""
        found: np.ndarray = np.divide(
            1.0, self.value, out=np.zeros_like(self.value), where=self.value != 0
        )
        return found

    @cached_property
    def sides(self) -> np.ndarray:
        """Sums of both signs."""
        return np.zeros((2, SUMS))

    @cached_property
    def place(self) -> np.ndarray:
        """State of each feature: free, held or full."""
        return np.zeros(len(self.value), dtype=np.int8)


class AdditionState(FocusedSweeps, DualState):
    r"""One dual variable per row, and the features that the rows of each sign add.

    Separate steps of rows that add the same features would undo each other. A step on the dual variable
    of a row therefore includes the additions of all rows; see `addition_steps`. All rows of a sign share
    one threshold, which needs only sums over rows. A step is exact while features keep their state.

    `combination` distributes these sums over the rows, so that it returns a sum of planes. Between its
    calls, `f` includes the sums themselves. A part of the sums may remain, if rows already
    have many of the features. This lowers the dual value by at most `lost`.

    The state hands over to a few planes per row, `PlaneCache` or `MarginState`, in two cases:

    - The distribution loses more than the gap of the last sweep.
    - More than 15 consecutive sweeps are slow: the dual rises by less than the distribution loses, or by
      less than 3e-4 of the gap.
    """

    name = "additions"

    packs = False

    @staticmethod
    def refuses(case: Case) -> str:
        reason = needs.adds_words(case)
        if not reason and case.edits.multiplies:
            return "nonzero features are also edited"
        return reason

    def __init__(self, case: Case, rng: np.random.Generator) -> None:
        self.case = case
        self.space: ExplicitSpace = case.space
        self.term, self.loss = case.term, case.loss
        self.kind = KINDS[type(self.loss)]
        self.additions = found = self._changes(case)
        self.rng = rng
        self.signs = case.signs
        self.weights = self.term.weights
        squares, intercept = squared_lengths(found.rows), self.space.intercept
        self.losses = RowLosses(self.kind, self.signs, self.weights, squares, intercept)
        self.alphas = np.zeros(len(self.signs))
        self.rows = np.flatnonzero(self.weights > 0)
        self.gaps = np.zeros(len(self.signs))
        self.rows_at_once = rows_at_once(found.rows)
        n_features = len(found.value)
        # Sum of all additions, as part of f, and the part of the rows themselves.
        self.pushed, self.ours = np.zeros((2, n_features))
        # Amounts that each row adds, relative to its weight times dual variable; computed on access.
        self.shares: sp.csr_matrix | None = None
        self.row_amounts = np.zeros((2, n_features))
        self.added = self._words()
        self.changed_rows = [
            found.changed & (self.signs == sign) & (self.weights > 0) for sign in (1.0, -1.0)
        ]
        for words in self.added:
            # A side without rows adds nothing.
            words.sides[:, TOTAL] = [0.0 if np.any(mine) else -1.0 for mine in self.changed_rows]
        self.cautious = False
        # Dual value before the next step, for sums that are not distributed over rows.
        self.dual = 0.0
        # Gap and increase of the dual in the last sweep, and loss by the distribution over rows.
        self.gap, self.rise, self.lost = np.inf, np.inf, 0.0
        self.slow_sweeps = 0
        self.rest: BatchedState | None = None

    def _changes(self, case: Case) -> Any:
        """Return the oracle's description of its edits."""
        return case.edits

    def _words(self) -> list[AddedWords]:
        """Return the features that rows add, in groups with separate budgets."""
        return [AddedWords(self.additions.value)]

    @property
    def offset(self) -> float:
        if self.rest is not None:
            return self.rest.offset
        return self._offset()

    def _offset(self) -> float:
        return -float(self.weights @ self.loss.conjugate(-self.alphas))

    def sweep(self, f: Element, out_of_time: OutOfTime = never) -> tuple[float, int]:
        slow = self.rise < max(self.lost, _PROGRESS * self.gap)
        self.slow_sweeps = self.slow_sweeps + 1 if slow else 0
        if self.rest is None and (self.lost > self.gap or self.slow_sweeps > _MOST_SLOW):
            f[: len(self.pushed)] -= self.pushed - self._shared_push()
            self.rest = self._successor()
        if self.rest is not None:
            found = self.rest.sweep(f, out_of_time)
            self.converged = self.rest.converged
            return found
        u = f
        u[: len(self.pushed)] -= self.pushed
        if self.shares is not None:
            # Sums are recomputed after each check to remove rounding errors.
            self._count()
        self._settle(u)
        self.dual = before = self._dual_at(u)
        self.gap, visits = super().sweep(u, out_of_time)
        self.rise, self.lost = self.dual - before, 0.0
        self._push(u)
        u[: len(self.pushed)] += self.pushed
        return self.gap, visits

    def _step(self, f: Element, order: np.ndarray, again: bool) -> None:
        """Step on each row of `order`; `f` excludes the additions.

        Each step is exact if no feature changes its state (free, held or full). If all steps together
        lower the dual, only a fraction of them is applied.
        """
        dual = self.dual
        before: Any = [(part, ..., part.copy()) for part in self._parts(f)]
        self._sweep_rows(f, order)
        self._settle(f)
        self.dual = self._dual_at(f)
        self.cautious = self.dual < dual
        if not self.cautious:
            return
        before += self._moved()
        share, after = 1.0, [part[places].copy() for part, places, _ in before]
        while share > _LEAST_SHARE and self.dual < dual:
            share *= 0.5
            for (part, places, first), last in zip(before, after, strict=True):
                part[places] = first + share * (last - first)
            self._count()
            self._settle(f)
            self.dual = self._dual_at(f)

    def _parts(self, f: Element) -> tuple[np.ndarray, ...]:
        """Return the arrays that a sweep over rows changes."""
        return f, self.alphas

    def _moved(self) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Return further arrays that the last sweep has changed, the places, and the old values."""
        return []

    def _sweep_rows(self, f: Element, order: np.ndarray) -> None:
        rows = csr_arrays(self.additions.rows), self.losses, self._sums()
        sweep_additions(*rows, self.cautious, f, self.alphas, order, self.gaps)

    def _sums(self) -> Added:
        found, (words,) = self.additions, self.added
        sums = self.row_amounts, words.sides, words.place
        allowed = found.changed, found.max_changes, found.present
        return Added(*allowed, found.value, words.inverse, *sums)

    def _left_over(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the amounts of one feature and of all features that each row may add, weighted."""
        amounts = self.weights * self.alphas
        return amounts, self.additions.max_changes * amounts

    def _settle(self, u: np.ndarray) -> None:
        """Compute the additions of all rows for the current dual variables."""
        for words in self.added:
            settle(u, self.row_amounts, words.value, words.sides, words.place)

    def _dual_at(self, u: np.ndarray) -> float:
        """Return the dual value for sums that are not distributed over rows."""
        f = self._weights(u)
        return self._offset() - 0.5 * self.space.dot(f, f)

    def _weights(self, u: np.ndarray) -> np.ndarray:
        """Return the weights, including the additions of all rows."""
        f = u.copy()
        for words in self.added:
            weights_of(u, self.row_amounts, words.value, words.sides, words.place, f)
        return f

    def _count(self) -> None:
        """Sum the dual variables over the rows of each side, and over those with each feature."""
        found, (amounts, budgets) = self.additions, self._left_over()
        for side, mine in enumerate(self.changed_rows):
            # A side without rows adds nothing.
            total, budget = amounts[mine].sum() if np.any(mine) else -1.0, budgets[mine].sum()
            for words in self.added:
                words.sides[side, TOTAL] = words.per_feature * total
                words.sides[side, BUDGET] = words.in_total * budget
            if not found.present:
                self.row_amounts[side] = self._has.T @ np.where(mine, amounts, 0.0)

    @cached_property
    def _has(self) -> sp.csr_matrix:
        return with_data(self.additions.rows, np.ones(self.additions.rows.nnz))

    def _push(self, u: np.ndarray) -> None:
        """Store the additions of all rows, for f and for the distribution over rows."""
        d = len(self.pushed)
        self.ours = u[:d].copy()
        self.pushed, self.shares = self._weights(u)[:d] - self.ours, None

    def _shared_out(self) -> sp.csr_matrix:
        """Distribute the additions over rows, and compute the loss of the dual value."""
        if self.shares is None:
            (amounts, budgets), parts, self.lost = self._left_over(), [], 0.0
            lengths = np.diff(self.additions.rows.indptr)
            for words in self.added:
                left_over = words.per_feature * amounts, words.in_total * budgets
                for side, mine in enumerate(self.changed_rows):
                    rows = np.flatnonzero(mine & (amounts > 0))
                    # Rows with many features have the smallest choice, so they are first.
                    rows = rows[np.argsort(-lengths[rows], kind="stable")]
                    shares, missing = self._shared(words, side, rows, left_over)
                    parts.append(shares)
                    self.lost += missing
            self.shares = sum(parts[1:], parts[0])
        return self.shares

    def _shared(
        self, words: AddedWords, side: int, rows: np.ndarray, left_over: tuple[np.ndarray, np.ndarray]
    ) -> tuple[sp.csr_matrix, float]:
        """Return the additions of some rows of a side, and a bound of the loss of the dual."""
        sums, sign, weights = words.sides[side], 1.0 - 2.0 * side, self.ours + self.pushed
        pushed = words.place * sign > 0
        pull = np.where(pushed, sign * words.value, 1.0)
        asked = np.where(pushed, self.pushed / pull, 0.0)
        could = np.maximum(sums[TOTAL] - self.row_amounts[side], 0.0)
        shares = self._taken(words, rows, left_over, np.minimum(asked, could), could)
        left = asked - np.asarray(shares.sum(axis=0)).ravel()
        # The remaining amount r changes the weight by a r. The dual falls by gain r + a^2 r^2 / 2, and r
        # is at most the sum of the dual variables.
        gains = np.maximum(-pull * weights, 0.0) + pull**2 * sums[TOTAL]
        return shares, float(gains @ np.abs(left))

    def _shared_push(self) -> np.ndarray:
        """Return the sum of all additions that were distributed."""
        push: np.ndarray = self.additions.value * (self._shared_out().T @ self.signs)
        return push

    def _taken(
        self,
        words: AddedWords,
        rows: np.ndarray,
        left_over: tuple[np.ndarray, np.ndarray],
        asked: np.ndarray,
        could: np.ndarray,
    ) -> sp.csr_matrix:
        found, (amounts, budgets) = self.additions, left_over
        room = len(rows) * (words.in_total * found.max_changes + 1) + len(asked)
        starts = np.zeros(len(rows) + 1, dtype=np.int64)
        places, shares = np.empty(room, dtype=np.int64), np.empty(room)
        share_out(
            found.rows.indptr, found.rows.indices, rows, amounts[rows], budgets[rows], asked, could,
            found.present, starts, places, shares,
        )  # fmt: skip
        size, owners = starts[-1], np.repeat(rows, np.diff(starts))
        shape = (len(self.alphas), len(asked))
        return sp.csr_matrix((shares[:size], (owners, places[:size])), shape=shape)

    def combination(self) -> Element:
        if self.rest is not None:
            return self.rest.combination()
        f, self.pushed = self._of_rows(), self._shared_push()
        f[: len(self.pushed)] += self.pushed
        return f

    def _of_rows(self) -> Element:
        """Return the part of f of the rows themselves."""
        f, rates = self.space.zeros(), self.weights * self.signs * self.alphas
        d = len(self.pushed)
        add_combinations(self.additions.rows, rates[:, None], f[:d, None])
        f[d:] = rates.sum()
        return f

    def _rows(self, active: np.ndarray) -> sp.csr_matrix:
        """Return rows without additions, for a dual variable of 1."""
        return self.additions.rows[active]

    def arrays(self) -> Arrays:
        if self.rest is not None:
            return {**self._own_arrays(), **self.rest.arrays()}
        return self._own_arrays()

    def _own_arrays(self) -> Arrays:
        """Return the dual variables of this state itself."""
        return {"taus": self.alphas.copy()}

    def _start(self, arrays: Arrays, f: Element) -> int:
        low, high = self.loss.domain()
        self.alphas = np.clip(arrays["taus"], -high, -low)
        self._start_rows(arrays)
        self._count()
        u = self._of_rows()
        self._settle(u)
        self._push(u)
        return 0

    def _start_rows(self, arrays: Arrays) -> None:
        """Set further variables of the rows; none by default."""

    def _successor(self) -> BatchedState:
        """Return a state with lists of planes of the rows, with these dual variables."""
        kind = MarginState if isinstance(self.term, WorstMargin) else PlaneCache
        rest = kind(self.case, self.rng)
        active = np.flatnonzero(self.alphas > 0)
        added = scale_rows(
            self._shared_out()[active] @ sp.diags(self.additions.value),
            1.0 / (self.weights[active] * self.alphas[active]),
        )
        rows = self._rows(active)
        normals = self.space.normals(rows + added.astype(rows.dtype), self.signs[active, None])
        offsets = np.zeros(len(active)) if kind is MarginState else np.ones(len(active))
        rest.take_over(normals, offsets, active, self.alphas[active])
        return rest
