"""Dual state for oracles that add the same features to all rows."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..spaces.base import Element
from ..terms.worst_case import WorstMargin
from ..utils.matrices import csr_arrays, longest_row, scale_rows, with_data
from ..utils.row_arrays import Arrays
from . import case as needs
from .addition_shares import share_out
from .addition_steps import (
    BUDGET,
    SUMS,
    TOTAL,
    added_words,
    row_work,
    settle,
    sweep_additions,
    weights_of,
)
from .base import OutOfTime, never
from .case import Case
from .margin_state import MarginState
from .plane_cache import BatchedState, PlaneCache
from .row_state import RowState, row_losses

# A sweep is slow if it gains less than this fraction of the gap, or less than the distribution loses;
# and the maximum number of consecutive slow sweeps.
_PROGRESS, _MOST_SLOW = 3e-4, 15
# Smallest fraction of joint steps that is tried if they lower the dual.
_LEAST_SHARE = 1e-3


class AdditionState(RowState):
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

    packs = packs_rows = quick_value = False

    @staticmethod
    def refuses(case: Case) -> str:
        reason = needs.adds_words(case)
        if not reason and case.edits.multiplies:
            return "nonzero features are also edited"
        return reason

    def __init__(self, case: Case, rng: np.random.Generator) -> None:
        self.case, self.loss, self.edits = case, case.loss, case.edits
        X = self.edits.rows
        super().__init__(case, rng, X, row_losses(case, self.loss, X, case.term.weights))
        n_features = X.shape[1]
        # Sum of all additions, as part of f, and the part of the rows themselves.
        self.pushed, self.ours = np.zeros((2, n_features))
        # Amounts that each row adds, relative to its weight times dual variable; computed on access.
        self.shares: sp.csr_matrix | None = None
        signs, weights = self.losses.signs, self.losses.weights
        self.changed_rows = [
            self.edits.changed & (signs == sign) & (weights > 0) for sign in (1.0, -1.0)
        ]
        self.sides = np.zeros((2, SUMS))
        # A side without rows adds nothing.
        self.sides[:, TOTAL] = [0.0 if np.any(mine) else -1.0 for mine in self.changed_rows]
        most, present, value = self.edits.max_changes, self.edits.present, self.edits.value
        self.added = added_words(self.edits.changed, most, present, value, self.sides)
        self.width = longest_row(X.indptr) + 1
        self.entries, self.row_work = csr_arrays(X), row_work(self.width)
        self.cautious = False
        # Dual value before the next step, for sums that are not distributed over rows.
        self.dual = 0.0
        # Gap and increase of the dual in the last sweep, and loss by the distribution over rows.
        self.gap, self.rise, self.lost = np.inf, np.inf, 0.0
        self.slow_sweeps = 0
        self.rest: BatchedState | None = None

    @property
    def offset(self) -> float:
        return self._offset() if self.rest is None else self.rest.offset

    def _offset(self) -> float:
        return -float(self.losses.weights @ self.loss.conjugate(-self.taus))

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
        return f, self.taus

    def _moved(self) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Return further arrays that the last sweep has changed, the places, and the old values."""
        return []

    def _sweep_rows(self, f: Element, order: np.ndarray) -> None:
        sweep_additions(
            self.entries, self.losses, self.added, self.cautious, f, self.taus, order, self.gaps,
            self.row_work,
        )  # fmt: skip

    def _left_over(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the amounts of one feature and of all features that each row may add, weighted."""
        amounts = self.losses.weights * self.taus
        return amounts, self.edits.max_changes * amounts

    def _settle(self, u: np.ndarray) -> None:
        """Compute the additions of all rows for the current dual variables."""
        settle(u, self.added)

    def _dual_at(self, u: np.ndarray) -> float:
        """Return the dual value for sums that are not distributed over rows."""
        f = self._weights(u)
        return self._offset() - 0.5 * self.space.dot(f, f)

    def _weights(self, u: np.ndarray) -> np.ndarray:
        """Return the weights, including the additions of all rows."""
        f = u.copy()
        weights_of(u, self.added, f)
        return f

    def _count(self) -> None:
        """Sum the dual variables over the rows of each side, and over those with each feature."""
        amounts, budgets = self._left_over()
        for side, mine in enumerate(self.changed_rows):
            # A side without rows adds nothing.
            self.sides[side, TOTAL] = amounts[mine].sum() if np.any(mine) else -1.0
            self.sides[side, BUDGET] = budgets[mine].sum()
            if not self.edits.present:
                self.added.own[side] = self._has.T @ np.where(mine, amounts, 0.0)

    @cached_property
    def _has(self) -> sp.csr_matrix:
        return with_data(self.X, np.ones(self.X.nnz))

    def _push(self, u: np.ndarray) -> None:
        """Store the additions of all rows, for f and for the distribution over rows."""
        d = len(self.pushed)
        self.ours = u[:d].copy()
        self.pushed, self.shares = self._weights(u)[:d] - self.ours, None

    def _shared_out(self) -> sp.csr_matrix:
        """Distribute the additions over rows, and compute the loss of the dual value."""
        if self.shares is None:
            amounts, budgets = self._left_over()
            lengths = np.diff(self.X.indptr)
            parts, self.lost = [], 0.0
            for side, mine in enumerate(self.changed_rows):
                rows = np.flatnonzero(mine & (amounts > 0))
                # Rows with many features have the smallest choice, so they are first.
                rows = rows[np.argsort(-lengths[rows], kind="stable")]
                shares, missing = self._shared(side, rows, amounts[rows], budgets[rows])
                parts.append(shares)
                self.lost += missing
            self.shares = parts[0] + parts[1]
        return self.shares

    def _shared(
        self, side: int, rows: np.ndarray, amounts: np.ndarray, budgets: np.ndarray
    ) -> tuple[sp.csr_matrix, float]:
        """Return the additions of some rows of a side, and a bound of the loss of the dual."""
        total, sign, weights = self.sides[side, TOTAL], 1.0 - 2.0 * side, self.ours + self.pushed
        pushed = self.added.place * sign > 0
        pull = np.where(pushed, sign * self.added.value, 1.0)
        asked = np.where(pushed, self.pushed / pull, 0.0)
        could = np.maximum(total - self.added.own[side], 0.0)
        starts, words, taken = share_out(
            self.entries, rows, amounts, budgets, np.minimum(asked, could), could, self.edits.present,
            len(rows) * (self.edits.max_changes + 1) + len(asked),
        )  # fmt: skip
        owners, shape = np.repeat(rows, np.diff(starts)), (len(self.taus), len(asked))
        shares = sp.csr_matrix((taken, (owners, words)), shape=shape)
        left = asked - np.asarray(shares.sum(axis=0)).ravel()
        # The remaining amount r changes the weight by a r. The dual falls by gain r + a^2 r^2 / 2, and r
        # is at most the sum of the dual variables.
        gains = np.maximum(-pull * weights, 0.0) + pull**2 * total
        return shares, float(gains @ np.abs(left))

    def _shared_push(self) -> np.ndarray:
        """Return the sum of all additions that were distributed."""
        push: np.ndarray = self.edits.value * (self._shared_out().T @ self.losses.signs)
        return push

    def combination(self) -> Element:
        if self.rest is not None:
            return self.rest.combination()
        f, self.pushed = self._of_rows(), self._shared_push()
        f[: len(self.pushed)] += self.pushed
        return f

    def _of_rows(self) -> Element:
        """Return the part of f of the rows themselves."""
        return self.combined(self.taus)

    def _rows(self, active: np.ndarray) -> sp.csr_matrix:
        """Return rows without additions, for a dual variable of 1."""
        return self.X[active]

    def arrays(self) -> Arrays:
        return {**super().arrays(), **({} if self.rest is None else self.rest.arrays())}

    def _limits(self) -> tuple[float, float]:
        low, high = self.loss.domain()
        return -float(high), -float(low)

    def _start(self, arrays: Arrays, f: Element) -> int:
        super()._start(arrays, f)
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
        active = np.flatnonzero(self.taus > 0)
        added = scale_rows(
            self._shared_out()[active] @ sp.diags(self.edits.value),
            1.0 / (self.losses.weights[active] * self.taus[active]),
        )
        rows = self._rows(active)
        normals = self.space.normals(rows + added.astype(rows.dtype), self.losses.signs[active, None])
        offsets = np.zeros(len(active)) if kind is MarginState else np.ones(len(active))
        rest.take_over(normals, offsets, active, self.taus[active])
        return rest
