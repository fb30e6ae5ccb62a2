"""Levels of rows to which the same words may be added, and what all of them add together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..spaces import ExplicitSpace
from ..spaces.base import Element
from ..spaces.tensor_rows import ComputedRows
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

# A sweep is slow if it gains less than this share of the gap, or than is lost by sharing; and how many
# may be slow in a row.
_PROGRESS, _MOST_SLOW = 3e-4, 15
# Of steps that lower the dual, taken together, no smaller share is tried.
_LEAST_SHARE = 1e-3


@dataclass(frozen=True)
class AddedWords:
    """Words that rows add, with one threshold for the rows of each sign.

    Parameters
    ----------
    value : (d,) array
        What is added to each, 0 for nothing.
    each, every : int
        How much of one of them, and of all, a row adds for a unit of what it has left.

    Attributes
    ----------
    sides : (2, SUMS) array
    place : (d,) array of int8
        See `addition_steps.settle`.
    """

    value: np.ndarray
    each: int = 1
    every: int = 1

    @cached_property
    def inverse(self) -> np.ndarray:
        """One over each value, 0 where that is 0."""
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
        """Where each word belongs."""
        return np.zeros(len(self.value), dtype=np.int8)


class AdditionState(FocusedSweeps, DualState):
    r"""A level a row, and the words that the rows of each sign add, with one threshold for all of them.

    Rows that all add the same words would undo one another's steps. Here a step over a level takes what
    all rows add with it, exactly; see `addition_steps`. One threshold for all rows of a sign asks for
    sums over rows only. They are shared out between rows where `combination` or `planes` are asked for,
    so that what these give is a sum of planes; between sweeps alone `f` has the sums. Where rows have so
    many of the words that sums cannot be shared out, the state goes on with a few planes a row.

    Parameters
    ----------
    case : Case
        Worst cases, or losses of the least margin, of two classes with one function, linear in the
        input. The oracle adds words and does nothing else.
    rng : numpy.random.Generator
    """

    checks_planes = True
    packs = False

    def __init__(self, case: Case, rng: np.random.Generator) -> None:
        self.case = case
        self.space: ExplicitSpace = case.space
        self.term, self.loss = case.term, case.loss
        self.kind = KINDS[type(self.loss)]
        self.additions = found = self._changes(case)
        self.rng = rng
        self.signs = case.signs
        self.weights = self.term.weights
        self.levels = np.zeros(len(self.signs))
        self.rows = np.flatnonzero(self.weights > 0)
        self.gaps = np.zeros(len(self.signs))
        self.rows_at_once = rows_at_once(found.rows)
        n_features = len(found.value)
        # What is added in all, as part of f, and the rows' own part of it.
        self.pushed, self.ours = np.zeros((2, n_features))
        # The share of each row, in its weight times its level; None until it is asked for.
        self.shares: sp.csr_matrix | None = None
        self.own = np.zeros((2, n_features))
        self.added = self._words()
        self.mine = [found.changed & (self.signs == sign) & (self.weights > 0) for sign in (1.0, -1.0)]
        for words in self.added:
            # A side without rows adds nothing, whatever its threshold.
            words.sides[:, TOTAL] = [0.0 if np.any(mine) else -1.0 for mine in self.mine]
        self.cautious = False
        # The dual before the next step, as if sums were all that is asked for.
        self.height = 0.0
        # Of the last sweep the gap, by how much the dual rose, and how much was lost by sharing so far.
        self.gap, self.rise, self.lost = np.inf, np.inf, 0.0
        self.slow_sweeps = 0
        self.rest: DualState | None = None

    def _changes(self, case: Case) -> Any:
        """What the oracle says of its changes."""
        return case.edits

    def _words(self) -> list[AddedWords]:
        """The words that rows add, in groups with a budget each."""
        return [AddedWords(self.additions.value)]

    @property
    def offset(self) -> float:
        if self.rest is not None:
            return self.rest.offset
        return self._offset()

    def _offset(self) -> float:
        return -float(self.weights @ self.loss.conjugate(-self.levels))

    def sweep(self, f: Element, out_of_time: OutOfTime = never) -> tuple[float, int]:
        slow = self.rise < max(self.lost, _PROGRESS * self.gap)
        self.slow_sweeps = self.slow_sweeps + 1 if slow else 0
        if self.rest is None and (self.lost > self.gap or self.slow_sweeps > _MOST_SLOW):
            f[: len(self.pushed)] -= self.pushed - self._shared_push()
            self.rest = self._successor()
            self.rest.restore(self._own_planes())
        if self.rest is not None:
            found = self.rest.sweep(f, out_of_time)
            self.converged = self.rest.converged
            return found
        u = f
        u[: len(self.pushed)] -= self.pushed
        if self.shares is not None:
            # Sums are made anew after each check, so that rounding does not add up.
            self._count()
        self._settle(u)
        self.height = before = self._height_at(u)
        self.gap, visits = super().sweep(u, out_of_time)
        self.rise, self.lost = self.height - before, 0.0
        self._push(u)
        u[: len(self.pushed)] += self.pushed
        return self.gap, visits

    def _step(self, f: Element, order: np.ndarray, again: bool) -> None:
        """See `FocusedSweeps._step`; `f` is without what is added.

        Each step is exact for words that stay free, held or full. Where the dual is lower at the end of
        all steps, a share of them is taken.
        """
        height = self.height
        before: Any = [(part, ..., part.copy()) for part in self._parts(f)]
        self._sweep_rows(f, order)
        self._settle(f)
        self.height = self._height_at(f)
        self.cautious = self.height < height
        if not self.cautious:
            return
        before += self._moved()
        share, after = 1.0, [part[places].copy() for part, places, _ in before]
        while share > _LEAST_SHARE and self.height < height:
            share *= 0.5
            for (part, places, first), last in zip(before, after, strict=True):
                part[places] = first + share * (last - first)
            self._count()
            self._settle(f)
            self.height = self._height_at(f)

    def _parts(self, f: Element) -> tuple[np.ndarray, ...]:
        """What a sweep over rows changes, and of which a share of the way can be taken."""
        return f, self.levels

    def _moved(self) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """What else the last sweep over rows has changed, at which places, and what was there before."""
        return []

    def _sweep_rows(self, f: Element, order: np.ndarray) -> None:
        found, (words,) = self.additions, self.added
        sweep_additions(
            found.rows.indptr, found.rows.indices, found.rows.data, self.signs, self.weights,
            found.changed, found.value, words.inverse, found.present, found.max_changes, self.kind,
            self.space.intercept, self.cautious, f, self.own, words.sides, words.place, self.levels,
            order, self.gaps,
        )  # fmt: skip

    def _left_over(self) -> tuple[np.ndarray, np.ndarray]:
        """How much each row may add of one word, and of all, times its weight."""
        masses = self.weights * self.levels
        return masses, self.additions.max_changes * masses

    def _settle(self, u: np.ndarray) -> None:
        """What all rows add, at the levels as they are."""
        for words in self.added:
            settle(u, self.own, words.value, words.sides, words.place)

    def _height_at(self, u: np.ndarray) -> float:
        """The dual, if sums over rows are all that is asked for."""
        f = self._weights(u)
        return self._offset() - 0.5 * self.space.dot(f, f)

    def _weights(self, u: np.ndarray) -> np.ndarray:
        """The weights, with what all rows add."""
        f = u.copy()
        for words in self.added:
            weights_of(u, self.own, words.value, words.sides, words.place, f)
        return f

    def _count(self) -> None:
        """The sums of levels over the rows of each side, and over those that have a word."""
        found, (masses, budgets) = self.additions, self._left_over()
        for side, mine in enumerate(self.mine):
            # A side without rows adds nothing, whatever its threshold.
            total, budget = masses[mine].sum() if np.any(mine) else -1.0, budgets[mine].sum()
            for words in self.added:
                words.sides[side, TOTAL] = words.each * total
                words.sides[side, BUDGET] = words.every * budget
            if not found.present:
                self.own[side] = self._has.T @ np.where(mine, masses, 0.0)

    @cached_property
    def _has(self) -> sp.csr_matrix:
        return with_data(self.additions.rows, np.ones(self.additions.rows.nnz))

    def _push(self, u: np.ndarray) -> None:
        """Keep what all rows add, to be part of f and to be shared out."""
        d = len(self.pushed)
        self.ours = u[:d].copy()
        self.pushed, self.shares = self._weights(u)[:d] - self.ours, None

    def _shared_out(self) -> sp.csr_matrix:
        """What each row adds, from what all of them do; also finds how much of the dual that loses."""
        if self.shares is None:
            (masses, budgets), parts, self.lost = self._left_over(), [], 0.0
            lengths = np.diff(self.additions.rows.indptr)
            for words in self.added:
                left_over = words.each * masses, words.every * budgets
                for side, mine in enumerate(self.mine):
                    rows = np.flatnonzero(mine & (masses > 0))
                    # Those that have most words have the least choice.
                    rows = rows[np.argsort(-lengths[rows], kind="stable")]
                    shares, missing = self._shared(words, side, rows, left_over)
                    parts.append(shares)
                    self.lost += missing
            self.shares = sum(parts[1:], parts[0])
        return self.shares

    def _shared(
        self, words: AddedWords, side: int, rows: np.ndarray, left_over: tuple[np.ndarray, np.ndarray]
    ) -> tuple[sp.csr_matrix, float]:
        """What each of some rows of a side adds of some words; how much of the dual is lost by that."""
        sums, sign, weights = words.sides[side], 1.0 - 2.0 * side, self.ours + self.pushed
        pushed = words.place * sign > 0
        pull = np.where(pushed, sign * words.value, 1.0)
        asked = np.where(pushed, self.pushed / pull, 0.0)
        could = np.maximum(sums[TOTAL] - self.own[side], 0.0)
        shares = self._taken(words, rows, left_over, np.minimum(asked, could), could)
        left = asked - np.asarray(shares.sum(axis=0)).ravel()
        # What is left raises gains, which is seen by all rows that would add the word.
        gains = np.maximum(-pull * weights, 0.0) + pull**2 * sums[TOTAL]
        return shares, float(gains @ np.abs(left))

    def _shared_push(self) -> np.ndarray:
        """What is added in all, as far as it can be shared out."""
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
        found, (masses, budgets) = self.additions, left_over
        room = len(rows) * (words.every * found.max_changes + 1) + len(asked)
        starts = np.zeros(len(rows) + 1, dtype=np.int64)
        places, shares = np.empty(room, dtype=np.int64), np.empty(room)
        share_out(
            found.rows.indptr, found.rows.indices, rows, masses[rows], budgets[rows], asked, could,
            found.present, starts, places, shares,
        )  # fmt: skip
        size, owners = starts[-1], np.repeat(rows, np.diff(starts))
        shape = (len(self.levels), len(asked))
        return sp.csr_matrix((shares[:size], (owners, places[:size])), shape=shape)

    def combination(self) -> Element:
        if self.rest is not None:
            return self.rest.combination()
        f, self.pushed = self._of_rows(), self._shared_push()
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
        """Planes of the state's own, whose normals are made when they are asked for."""
        active = np.flatnonzero(self.levels > 0)
        shares, levels, ones = self._shared_out(), self.levels[active], np.ones(len(active))

        def make(some: np.ndarray) -> sp.csr_matrix:
            added = shares[some] @ sp.diags_array(self.additions.value)
            rows, signs = self._rows(some), self.signs[some]
            given = scale_rows(added, 1.0 / (self.weights[some] * self.levels[some])).astype(rows.dtype)
            return self.space.with_constants(scale_rows(rows + given, signs), signs)

        offsets, slopes, masses = ones, ones, levels
        if self.kind != HINGE:
            offsets, slopes, masses = -self.loss.conjugate(-levels), levels, ones
        normals = ComputedRows(make, self.space.stride, active, slopes[:, None])
        return PlaneSet(normals, offsets, active, masses)

    def restore(self, planes: PlaneSet) -> None:
        """See `DualState.restore`: the levels, unless the planes themselves are worth more."""
        rest = self._successor()
        rest.restore(planes)
        levels = self._levels_of(planes)
        if levels is not None:
            self._take_over(levels, planes)
            self._count()
            u = self._of_rows()
            self._settle(u)
            self._push(u)
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
