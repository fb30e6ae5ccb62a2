"""Blocks in batches, each with a working set: what states share that ask for planes or points."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from ..spaces.base import Element
from .base import DualState, OutOfTime, never
from .case import Case

# Passes over cached planes between passes of the oracle: 3 to 10 times fewer of these on digits.
CACHED_ROUNDS = 20
# A sweep that adds no plane has settled once this share of the gap is left.
SETTLED_SHARE = 0.01


class BatchedState(DualState):
    """Working sets over batches of blocks: each batch is asked for in turn, then all are used up.

    Parameters
    ----------
    case : Case
        Its `plane_tol` says how far something new must rise above what its block has to be taken up.
    rng : numpy.random.Generator

    Attributes
    ----------
    batches : list of (n,) arrays of int
        Blocks with a weight, in increasing order in each batch.
    sets : list of WorkingSet
    n_added : int
        How much has come new in the last sweep.
    """

    batches: list[np.ndarray]
    sets: list[Any]

    def __init__(self, case: Case, rng: np.random.Generator) -> None:
        self.term = term = case.term
        self.space = space = case.space
        self.rng = rng
        self.plane_tol = case.plane_tol
        self.n_added = 0
        shuffled = rng.permutation(np.flatnonzero(term.weights > 0))
        edges = range(space.blocks_in_a_set, len(shuffled), space.blocks_in_a_set)
        batches = np.split(shuffled, list(edges))
        self.batches = [np.sort(batch) for batch in batches if len(batch)]
        self.sets = [self._new_set(batch) for batch in self.batches]

    @abstractmethod
    def _new_set(self, batch: np.ndarray) -> Any:
        """A working set for some blocks."""

    @abstractmethod
    def _visit(self, f: Element, number: int, out_of_time: OutOfTime) -> tuple[float, int]:
        """Ask about a batch, take up what is new, and ascend.

        Returns the gap on arrival, and how many of the first blocks there was time to ask for.
        """

    def _asked(self, f: Element, total: float, out_of_time: OutOfTime) -> None:
        """What is to be done once all batches have been asked; nothing, by default."""

    def _still_at_it(self, f: Element, count: int, target: float, out_of_time: OutOfTime) -> None:
        """What is to be done where so many rounds over what there is have not been enough."""

    @property
    def offset(self) -> float:
        return sum(working.offset for working in self.sets)

    def sweep(self, f: Element, out_of_time: OutOfTime = never) -> tuple[float, int]:
        total, rows, self.n_added, self.converged = 0.0, 0, 0, False
        order = self.rng.permutation(len(self.batches))
        for number in order:
            if out_of_time():
                return np.inf, rows
            gap, asked = self._visit(f, number, out_of_time)
            total += gap
            rows += self.term.rows_of(self.batches[number][:asked])
        self._asked(f, total, out_of_time)
        left = self._use_up(f, order, 0.2 * total, out_of_time)
        self.converged = self.n_added == 0 and left <= SETTLED_SHARE * total
        for working in self.sets:
            if out_of_time():
                break
            working.prune(max_idle=2 * CACHED_ROUNDS)
            working.merge(self.term.planes_of_a_block(self.space))
        return total, rows

    def _use_up(self, f: Element, order: np.ndarray, target: float, out_of_time: OutOfTime) -> float:
        """Oracles are dear: go on over what is there until its gap is small; what is left of it."""
        left = np.inf
        for count in range(CACHED_ROUNDS):
            left = 0.0
            for number in order:
                if out_of_time():
                    return np.inf
                left += self.sets[number].ascend(f, 0.0, max_passes=1)
            if left <= target:
                break
            self._still_at_it(f, count, target, out_of_time)
        return left

    def combination(self) -> Element:
        return sum((working.combination() for working in self.sets), self.space.zeros())
