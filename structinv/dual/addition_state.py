"""Levels of rows to which the same words may be added, and what all of them add together."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import scipy.sparse as sp

from ..spaces import ExplicitSpace
from ..spaces.base import Element
from ..terms.planes import PlaneSet
from ..terms.worst_margin import WorstMargin
from ..utils.matrices import add_combinations, scale_rows, with_data
from .addition_shares import share_out
from .addition_steps import BUDGET, SUMS, TOTAL, settle, sweep_additions, weights_of
from .base import DualState, OutOfTime, never
from .case import Case
from .focused import FocusedSweeps, rows_at_once
from .margin_state import MarginState
from .margin_steps import HINGE, KINDS, SQUARED_HINGE
from .plane_cache import PlaneCache

# No further rounds where no more than this share of the gap is left.
_ENOUGH = 0.1
# A sweep is slow if it gains less than this share of the gap, or than is lost by sharing; and how many
# may be slow in a row.
_PROGRESS, _MOST_SLOW = 1e-3, 5
# Of steps that lower the dual, taken together, no smaller share is tried.
_LEAST_SHARE = 1e-3


class AdditionState(FocusedSweeps, DualState):
    r"""A level a row, and the words that the rows of each sign add, with one threshold for all of them.

    Rows that all add the same words would undo one another's steps. Here a step over a level takes what
    all rows add with it, exactly; see `addition_steps`. One threshold for all rows of a sign asks for
    sums over rows only. At the end of each sweep they are shared out between rows, so that `f` is a sum
    of planes and the dual is one. Where rows have so many of the words that sums cannot be shared out,
    the state goes on with a few planes a row, from where it is.

    Parameters
    ----------
    case : Case
        Worst cases, or losses of the least margin, of two classes with one function, linear in the
        input. The oracle adds words and does nothing else.
    rng : numpy.random.Generator
    """

    verifies = True
    packs = False
    # Further rounds of a sweep before what is added is shared out.
    more_rounds = 2

    def __init__(self, case: Case, rng: np.random.Generator) -> None:
        self.case = case
        self.space: ExplicitSpace = case.space
        self.term, self.loss = case.term, case.loss
        self.kind = KINDS[type(self.loss)]
        self.additions = found = case.edits
        self.rng = rng
        self.signs = case.signs
        self.weights = self.term.weights
        self.levels = np.zeros(len(self.signs))
        self.rows = np.flatnonzero(self.weights > 0)
        self.gaps = np.zeros(len(self.signs))
        self.rows_at_once = rows_at_once(found.rows)
        n_features = len(found.value)
        # What is added in all, as part of f, and the share of each row, in its weight times its level.
        self.pushed = np.zeros(n_features)
        self.shares = sp.csr_matrix(found.rows.shape)
        self.own, self.sides = np.zeros((2, n_features)), np.zeros((2, SUMS))
        self.place = np.zeros(n_features, dtype=np.int8)
        self.mine = [found.changed & (self.signs == sign) & (self.weights > 0) for sign in (1.0, -1.0)]
        self.cautious = False
        # The dual before the next step, as if sums were all that is asked for.
        self.height = 0.0
        self.slow_sweeps = 0
        self.rest: DualState | None = None

    @property
    def offset(self) -> float:
        if self.rest is not None:
            return self.rest.offset
        return self._offset()

    def _offset(self) -> float:
        return -float(self.weights @ self.loss.conjugate(-self.levels))

    def sweep(self, f: Element, out_of_time: OutOfTime = never) -> tuple[float, int]:
        if self.rest is not None:
            found = self.rest.sweep(f, out_of_time)
            self.settled = self.rest.settled
            return found
        u = f
        u[: len(self.pushed)] -= self.pushed
        self._count()
        self._settle(u)
        self.height = before = self._height_at(u)
        first, visits = super().sweep(u, out_of_time)
        gap = first
        for _ in range(self.more_rounds):
            if gap <= _ENOUGH * first or out_of_time():
                break
            gap, visited = super().sweep(u, out_of_time)
            visits += visited
        lost = self._share_out(u)
        u[: len(self.pushed)] += self.pushed
        slow = self.height - before < max(lost, _PROGRESS * gap)
        self.slow_sweeps = self.slow_sweeps + 1 if slow else 0
        if lost > gap or (self.slow_sweeps > _MOST_SLOW and not out_of_time()):
            self.rest = self._successor()
            self.rest.restore(self._own_planes())
        return gap + lost, visits

    def _step(self, f: Element, order: np.ndarray, again: bool) -> None:
        """See `FocusedSweeps._step`; `f` is without what is added.

        Each step is exact for words that stay free, held or full. Where the dual is lower at the end of
        all steps, a share of them is taken.
        """
        state, height = self._parts(f), self.height
        old = [part.copy() for part in state]
        self._sweep_rows(f, order)
        self._settle(f)
        self.height = self._height_at(f)
        self.cautious = self.height < height
        if not self.cautious:
            return
        share, new = 1.0, [part.copy() for part in state]
        while share > _LEAST_SHARE and self.height < height:
            share *= 0.5
            for part, first, last in zip(state, old, new, strict=True):
                part[:] = first + share * (last - first)
            self._settle(f)
            self.height = self._height_at(f)

    def _parts(self, f: Element) -> tuple[np.ndarray, ...]:
        """What a sweep over rows changes, each linear in a share of the way."""
        return f, self.levels, self.own, self.sides[:, TOTAL : BUDGET + 1]

    def _sweep_rows(self, f: Element, order: np.ndarray) -> None:
        found = self.additions
        sweep_additions(
            found.rows.indptr, found.rows.indices, found.rows.data, self.signs, self.weights,
            found.changed, found.value, found.present, found.max_changes, self.kind,
            self.space.intercept, self.cautious, f, self.own, self.sides, self.place, self.levels,
            order, self.gaps,
        )  # fmt: skip

    def _left_over(self) -> tuple[np.ndarray, np.ndarray]:
        """How much each row may add of one word, and of all, times its weight."""
        masses = self.weights * self.levels
        return masses, self.additions.max_changes * masses

    def _settle(self, u: np.ndarray) -> None:
        """What all rows add, at the levels as they are."""
        found = self.additions
        settle(u, self.own, found.value, self.sides, self.place)

    def _height_at(self, u: np.ndarray) -> float:
        """The dual, if sums over rows are all that is asked for."""
        f = u.copy()
        weights_of(u, self.own, self.additions.value, self.sides, self.place, f)
        return self._offset() - 0.5 * self.space.dot(f, f)

    def _count(self) -> None:
        """The sums of levels over the rows of each side, and over those that have a word."""
        found, (masses, budgets) = self.additions, self._left_over()
        for side, mine in enumerate(self.mine):
            # A side without rows adds nothing, whatever its threshold.
            self.sides[side, TOTAL] = masses[mine].sum() if np.any(mine) else -1.0
            self.sides[side, BUDGET] = budgets[mine].sum()
            if not found.present:
                self.own[side] = self._has.T @ np.where(mine, masses, 0.0)

    @cached_property
    def _has(self) -> sp.csr_matrix:
        return with_data(self.additions.rows, np.ones(self.additions.rows.nnz))

    def _share_out(self, u: np.ndarray) -> float:
        """What each row adds, from what all of them do; how much of the dual is lost by that."""
        found, d = self.additions, len(self.pushed)
        self._count()
        self._settle(u)
        weights, lost, parts, (masses, _) = np.empty(d), 0.0, [], self._left_over()
        weights_of(u, self.own, found.value, self.sides, self.place, weights)
        for side, sign in enumerate((1.0, -1.0)):
            rows = np.flatnonzero(self.mine[side] & (masses > 0))
            # Those that have most words have the least choice.
            rows = rows[np.argsort(-np.diff(found.rows.indptr)[rows], kind="stable")]
            pushed = self.place * sign > 0
            pull = np.where(pushed, sign * found.value, 1.0)
            asked = np.where(pushed, (weights - u[:d]) / pull, 0.0)
            could = np.maximum(self.sides[side, TOTAL] - self.own[side], 0.0)
            parts.append(self._shared(rows, np.minimum(asked, could), could))
            left = asked - np.asarray(parts[-1].sum(axis=0)).ravel()
            # What is left raises gains, which is seen by all rows that would add the word.
            gains = np.maximum(-pull * weights, 0.0) + pull**2 * self.sides[side, TOTAL]
            lost += float(gains @ np.abs(left))
        self.shares = parts[0] + parts[1]
        self.pushed = found.value * (self.shares.T @ self.signs)
        return lost

    def _shared(self, rows: np.ndarray, asked: np.ndarray, could: np.ndarray) -> sp.csr_matrix:
        found = self.additions
        room = len(rows) * (found.max_changes + 1) + len(asked)
        starts = np.zeros(len(rows) + 1, dtype=np.int64)
        words, shares = np.empty(room, dtype=np.int64), np.empty(room)
        masses, budgets = self._left_over()
        share_out(
            found.rows.indptr, found.rows.indices, rows, masses[rows], budgets[rows], asked, could,
            found.present, starts, words, shares,
        )  # fmt: skip
        size, owners = starts[-1], np.repeat(rows, np.diff(starts))
        shape = (len(self.levels), len(asked))
        return sp.csr_matrix((shares[:size], (owners, words[:size])), shape=shape)

    def value(self, f: Element) -> tuple[float, float]:
        return self.term.total(self.space, f)

    def combination(self) -> Element:
        if self.rest is not None:
            return self.rest.combination()
        f = self._of_rows()
        f[: len(self.pushed)] += self.pushed
        return f

    def _of_rows(self) -> Element:
        """The rows' own part of f."""
        f, rates = self.space.zeros(), self.weights * self.signs * self.levels
        d = len(self.pushed)
        add_combinations(self.additions.rows, rates[:, None], f[:d, None])
        f[d:] = rates.sum()
        return f

    def _rows(self, active: np.ndarray) -> sp.csr_matrix:
        """Rows without what they add, for a level of 1."""
        return self.additions.rows[active]

    def planes(self) -> PlaneSet:
        """See `DualState.planes`; only rows whose plane is not the null plane."""
        return self._own_planes() if self.rest is None else self.rest.planes()

    def _own_planes(self) -> PlaneSet:
        active = np.flatnonzero(self.levels > 0)
        signs, levels = self.signs[active], self.levels[active]
        added = self.shares[active] @ sp.diags_array(self.additions.value)
        rows = self._rows(active)
        points = rows + scale_rows(added, 1.0 / (self.weights[active] * levels)).astype(rows.dtype)
        normals = self.space.normals(points, signs[:, None])
        if self.kind == HINGE:
            return PlaneSet(normals, np.ones(len(active)), active, levels)
        offsets = -self.loss.conjugate(-levels)
        return PlaneSet(self.space.times(normals, levels), offsets, active, np.ones(len(active)))

    def restore(self, planes: PlaneSet) -> None:
        """See `DualState.restore`: the levels, unless the planes themselves are worth more."""
        rest = self._successor()
        rest.restore(planes)
        levels = self._levels_of(planes)
        if levels is not None:
            self._take_over(levels, planes)
            self._count()
            self._share_out(self._of_rows())
        if levels is None or self._height(self) < (1.0 - 1e-9) * self._height(rest):
            self.rest = rest

    def _successor(self) -> DualState:
        """The state that takes planes of any oracle for this term."""
        kind = MarginState if isinstance(self.term, WorstMargin) else PlaneCache
        return kind(self.case, self.rng)

    def _take_over(self, levels: np.ndarray, planes: PlaneSet) -> None:
        """Levels, and what else of planes is not known from them."""
        self.levels = levels

    def _height(self, state: DualState) -> float:
        f = state.combination()
        return state.offset - 0.5 * self.space.dot(f, f)

    def _levels_of(self, planes: PlaneSet) -> np.ndarray | None:
        """The sum of slopes of each row's planes, in the domain of the loss; None if nobody can tell."""
        slopes = planes.offsets
        if self.kind != HINGE:
            told = self.space.apart(planes.normals)
            if told is None:
                return None
            slopes = told[1]
        levels = np.bincount(planes.blocks, planes.masses * slopes, minlength=len(self.levels))
        return np.maximum(levels, 0.0) if self.kind == SQUARED_HINGE else np.clip(levels, 0.0, 1.0)
