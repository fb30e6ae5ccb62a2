"""Dual variables of a term, in the form in which block-coordinate solvers improve them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from .functionals import Functionals
from .losses import ScalarLoss
from .matrices import scale_rows
from .oracles.base import Hull
from .planes import PlaneSet, WorkingSet
from .spaces import ExplicitSpace, Space

if TYPE_CHECKING:
    from .objective import Term

BLOCKS_AT_ONCE = 128
CACHED_ROUNDS = 20
ROWS_IN_A_RUN = 4
FOCUSED_PASSES = 10


class DualState(ABC):
    """The dual variables of one term; the element they stand for is part of the solver's `f`."""

    @property
    @abstractmethod
    def offset(self) -> float:
        """The linear part of the dual."""

    @abstractmethod
    def sweep(self, f: np.ndarray) -> tuple[float, int]:
        """Improve every block once, updating `f` in place.

        Returns
        -------
        gap : float
            Sum of the blocks' gaps, each measured on arrival: an estimate of the duality gap.
        rows : int
            How many rows an oracle was asked.
        """

    @abstractmethod
    def value(self, f: np.ndarray) -> tuple[float, float]:
        """The term at `f`: a bound from above, and what was attained."""

    @abstractmethod
    def combination(self) -> np.ndarray:
        """The term's part of `f`, recomputed from the state."""

    @abstractmethod
    def planes(self) -> PlaneSet:
        """The state as planes with masses, blocks numbered within the term."""

    @abstractmethod
    def restore(self, planes: PlaneSet) -> None:
        """Start from planes of the same blocks."""


class HullState(DualState):
    """One averaged plane a row, moved inside the hull of S(x) by the oracle's own kernel.

    Parameters
    ----------
    hull : Hull
    term : Term
        The term of which the hull is the dual.
    space : ExplicitSpace
    signs : (n_rows,) array of -1 and 1
    factor : (n_rows,) array
        What the hull's planes are multiplied with to become planes of the term (slack rescaling).
    rng : numpy.random.Generator
    """

    def __init__(
        self,
        hull: Hull,
        term: Term,
        space: ExplicitSpace,
        signs: np.ndarray,
        factor: np.ndarray,
        rng: np.random.Generator,
    ) -> None:
        self.hull = hull
        self.term = term
        self.space = space
        self.signs = signs
        self.factor = factor
        self.rng = rng
        self.rows = np.flatnonzero(term.weights * factor > 0)
        self.gaps = np.zeros(len(factor))

    @property
    def offset(self) -> float:
        """See `DualState.offset`."""
        return self.hull.offset

    def sweep(self, f: np.ndarray) -> tuple[float, int]:
        """See `DualState.sweep`: first the rows that were far off, again and again, then all."""
        visits = self._focus(f)
        self.hull.sweep(f, self._order(), self.gaps)
        return float(self.gaps.sum()), visits + len(self.rows)

    def _order(self) -> np.ndarray:
        """A random order of short runs of rows: neighbours in memory are cheaper to visit."""
        starts = ROWS_IN_A_RUN * self.rng.permutation(-(-len(self.rows) // ROWS_IN_A_RUN))
        places = (starts[:, None] + np.arange(ROWS_IN_A_RUN)).ravel()
        return self.rows[places[places < len(self.rows)]]

    def _focus(self, f: np.ndarray) -> int:
        """Sweep over the rows that hold most of the gap until it is a tenth; how many visits."""
        visits, total = 0, self.gaps.sum()
        for _ in range(FOCUSED_PASSES):
            active = np.flatnonzero(self.gaps > 0.1 * total / len(self.gaps))
            if len(active) == 0:
                break
            self.hull.sweep(f, active, self.gaps)
            visits += len(active)
            if self.gaps[active].sum() <= 0.1 * total:
                break
        return visits

    def value(self, f: np.ndarray) -> tuple[float, float]:
        """See `DualState.value`."""
        losses = self.hull.losses(f)
        if losses is None:
            return self.term.total(self.space, f)
        value = float(self.term.weights @ (self.factor * losses))
        return value, value

    def combination(self) -> np.ndarray:
        """See `DualState.combination`."""
        return self.hull.combination()

    def planes(self) -> PlaneSet:
        """See `DualState.planes`; only rows whose plane is not the null plane."""
        normals, levels = self.hull.planes()
        active = np.flatnonzero(levels > 0)
        levels, factor = levels[active], self.factor[active]
        if len(active) < len(self.factor):
            normals = normals[active]
        scaled = normals if np.all(factor == 1) else scale_rows(normals, factor)
        whole = self.space.with_constants(scaled, factor * self.signs[active] * levels)
        return PlaneSet(whole, factor * levels, active, np.ones(len(active)))

    def restore(self, planes: PlaneSet) -> None:
        """See `DualState.restore`."""
        n_rows = len(self.gaps)
        share = planes.masses / self.factor[planes.blocks]
        gather = sp.csr_matrix(
            (share, (planes.blocks, np.arange(len(planes)))), shape=(n_rows, len(planes))
        )
        normals = gather @ planes.normals
        self.hull.restore(normals[:, : self.space.n_features], gather @ planes.offsets)


class PlaneCache(DualState):
    """A few planes a block, asked for in batches; pairwise steps over each batch's planes.

    Parameters
    ----------
    term : Term
    space : Space
    rng : numpy.random.Generator
    max_planes : int, default=10
        Planes kept for a block; the lightest beyond are averaged into one.
    """

    def __init__(self, term: Term, space: Space, rng: np.random.Generator, max_planes: int = 10) -> None:
        self.term = term
        self.space = space
        self.rng = rng
        self.max_planes = max_planes
        shuffled = rng.permutation(np.flatnonzero(term.weights > 0))
        edges = range(BLOCKS_AT_ONCE, len(shuffled), BLOCKS_AT_ONCE)
        self.batches = [np.sort(batch) for batch in np.split(shuffled, list(edges))]
        self.sets = [
            WorkingSet(space, term.weights[batch], term.floors[batch]) for batch in self.batches
        ]

    @property
    def offset(self) -> float:
        """See `DualState.offset`."""
        return sum(working.offset for working in self.sets)

    def sweep(self, f: np.ndarray) -> tuple[float, int]:
        """See `DualState.sweep`."""
        total, rows = 0.0, 0
        order = self.rng.permutation(len(self.batches))
        for number in order:
            total += self._visit(f, self.batches[number], self.sets[number])
            rows += self.term.rows_of(self.batches[number])
        # Oracles are dear and planes are there: go on until they are as good as used up.
        for _ in range(CACHED_ROUNDS):
            cached = sum(self.sets[number].ascend(f, 0.0, max_passes=1) for number in order)
            if cached <= 0.2 * total:
                break
        for working in self.sets:
            working.prune(max_idle=2 * CACHED_ROUNDS)
            working.merge(self.max_planes)
        return total, rows

    def _visit(self, f: np.ndarray, blocks: np.ndarray, working: WorkingSet) -> float:
        """Ask for planes of a batch, add those that rise above the known ones, ascend; the gap."""
        planes = self.term.planes(self.space, f, blocks)
        heights = planes.offsets - self.space.scores(f, planes.normals)
        known, mean = working.heights(f)
        new = np.flatnonzero(heights > known + 1e-12 * (1.0 + np.abs(heights)))
        working.add(planes.normals[new], planes.offsets[new], new)
        gap = float(working.weights @ np.maximum(0.0, heights - mean))
        working.ascend(f, 0.1 * gap, max_passes=3)
        return gap

    def value(self, f: np.ndarray) -> tuple[float, float]:
        """See `DualState.value`."""
        return self.term.total(self.space, f)

    def combination(self) -> np.ndarray:
        """See `DualState.combination`."""
        return sum((working.combination() for working in self.sets), self.space.zeros())

    def planes(self) -> PlaneSet:
        """See `DualState.planes`."""
        return join_planes(
            self.space,
            [
                PlaneSet(working.normals, working.offsets, batch[working.blocks], working.masses)
                for batch, working in zip(self.batches, self.sets, strict=True)
                if working.normals is not None
            ],
        )

    def restore(self, planes: PlaneSet) -> None:
        """See `DualState.restore`."""
        for batch, working in zip(self.batches, self.sets, strict=True):
            mine = np.flatnonzero(np.isin(planes.blocks, batch))
            if len(mine):
                working.add(
                    planes.normals[mine],
                    planes.offsets[mine],
                    np.searchsorted(batch, planes.blocks[mine]),
                    planes.masses[mine],
                )


class PenaltyState(DualState):
    """One slope a functional; a list of planes would lose, since slopes may be averaged.

    The dual of ``sum_j c_j r(L_j f)`` is ``- sum_j c_j r*(p_j)`` with ``- sum_j c_j p_j z_j`` as its
    part of f. A sweep takes proximal-gradient steps on p, whose step length is one over the largest
    eigenvalue of the weighted Gram matrix of the functionals.

    Parameters
    ----------
    functionals : Functionals
    loss : ScalarLoss
    weights : (n_functionals,) array
    space : Space
    rng : numpy.random.Generator
    """

    def __init__(
        self,
        functionals: Functionals,
        loss: ScalarLoss,
        weights: np.ndarray,
        space: Space,
        rng: np.random.Generator,
    ) -> None:
        self.functionals = functionals
        self.loss = loss
        self.weights = weights
        self.space = space
        self.slopes = loss.derivative(np.zeros(len(weights)))
        self.curvature = 1.05 * self._largest_eigenvalue(rng)

    def _largest_eigenvalue(self, rng: np.random.Generator) -> float:
        root = np.sqrt(self.weights)
        vector = rng.standard_normal(len(root))
        value = 0.0
        for _ in range(50):
            norm = np.linalg.norm(vector)
            if norm == 0:
                break
            element = self.functionals.combine(self.space, root * vector / norm)
            vector = root * self.functionals.apply(self.space, element)
            value = max(value, float(np.linalg.norm(vector)))
        return max(value, np.finfo(float).tiny)

    @property
    def offset(self) -> float:
        """See `DualState.offset`."""
        return -float(self.weights @ self.loss.conjugate(self.slopes))

    def sweep(self, f: np.ndarray) -> tuple[float, int]:
        """See `DualState.sweep`."""
        u = self.functionals.apply(self.space, f)
        parts = self.loss.value(u) + self.loss.conjugate(self.slopes) - self.slopes * u
        gap = float(self.weights @ np.maximum(0.0, parts))
        for _ in range(5):
            step = 1.0 / self.curvature
            new = self.loss.conjugate_prox(self.slopes + step * u, step)
            f -= self.functionals.combine(self.space, self.weights * (new - self.slopes))
            self.slopes = new
            u = self.functionals.apply(self.space, f)
        return gap, 0

    def value(self, f: np.ndarray) -> tuple[float, float]:
        """See `DualState.value`."""
        losses = self.loss.value(self.functionals.apply(self.space, f))
        value = float(self.weights @ losses)
        return value, value

    def combination(self) -> np.ndarray:
        """See `DualState.combination`."""
        return -self.functionals.combine(self.space, self.weights * self.slopes)

    def planes(self) -> PlaneSet:
        """See `DualState.planes`: the family is one block, its state one plane."""
        total = self.weights.sum()
        share = 1.0 / total if total > 0 else 0.0
        return PlaneSet(
            self.space.element(share * self.combination()),
            np.array([share * self.offset]),
            np.zeros(1, dtype=np.int64),
            np.ones(1),
            slopes={0: self.slopes.copy()},
        )

    def restore(self, planes: PlaneSet) -> None:
        """See `DualState.restore`; only where the slopes are known and the loss has them."""
        slopes = planes.slopes.get(0)
        if slopes is None or slopes.shape != self.slopes.shape:
            return
        if np.all(np.isfinite(self.loss.conjugate(slopes))):
            self.slopes = slopes.copy()


def join_planes(space: Space, parts: list[PlaneSet]) -> PlaneSet:
    """Several plane sets as one."""
    if not parts:
        empty = space.element(space.zeros())[:0]
        return PlaneSet(empty, np.zeros(0), np.zeros(0, dtype=np.int64), np.zeros(0))
    return PlaneSet(
        space.stack([part.normals for part in parts]),
        np.concatenate([part.offsets for part in parts]),
        np.concatenate([part.blocks for part in parts]),
        np.concatenate([part.masses for part in parts]),
        slopes={block: slopes for part in parts for block, slopes in part.slopes.items()},
    )
