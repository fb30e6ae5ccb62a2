"""Groups of partitions on workers, and their tasks."""

from __future__ import annotations

import threading
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp

from ..dual import DualState, dual_state
from ..spaces.base import Element
from ..terms import WorstCase
from ..utils.matrices import ALL_ROWS
from .partition import Block, Recipe

Packed: TypeAlias = np.ndarray | sp.csr_matrix
# Bytes of one nonzero value with its position.
BYTES_OF_ENTRY = 12
# Gap at which the sweeps of a round end, relative to that of the first sweep.
ENOUGH = 0.5
# Number of rows for the compilation of functions.
ROWS_TO_COMPILE = 8


def pack(vector: np.ndarray) -> Packed:
    """Return a vector, or a CSR matrix of one row if that takes less memory."""
    if BYTES_OF_ENTRY * np.count_nonzero(vector) >= vector.nbytes:
        return vector
    return sp.csr_matrix(vector)


def unpack(vector: Packed) -> np.ndarray:
    """Return a packed vector as a new array."""
    unpacked: np.ndarray = vector.copy() if isinstance(vector, np.ndarray) else vector.toarray()[0]
    return unpacked


class Group:
    """Partitions that form one block of the objective, with their dual variables.

    The dual variables stay on the worker of the group. A copy of a group starts at zero again.

    - `number`: number of the group
    - `block`: rows of all its partitions
    - `recipe`: construction of the losses
    - `state`: dual state of the rows after the first sweep
    """

    def __init__(self, number: int, block: Block, recipe: Recipe) -> None:
        self.number, self.block, self.recipe = number, block, recipe
        self.space = recipe.space
        self.state: DualState | None = None
        self.lock = threading.Lock()

    def __reduce__(self) -> tuple[type[Group], tuple[int, Block, Recipe]]:
        return Group, (self.number, self.block, self.recipe)

    @cached_property
    def term(self) -> WorstCase:
        """Losses of the rows."""
        return self.recipe.term(self.block)

    def plane(self, f: Element) -> tuple[np.ndarray, float, float, float]:
        """Return the plane at `f`: normal, offset, upper bound and attained value."""
        planes = self.term.plane_of_sum(self.space, f)
        normal = self.space.combine(planes.normals, np.ones(1))
        return normal, float(planes.offsets[0]), float(planes.upper[0]), float(planes.plane_values[0])

    def begin(self, sigma: float, seeds: list[int]) -> DualState:
        """Start with dual variables of zero, for the losses times sigma."""
        amplified = copy(self.term)
        amplified.weights = sigma * self.term.weights
        self.state = dual_state(amplified, self.space, np.random.default_rng(seeds))
        return self.state


def grouped(number: int, blocks: list[Block], recipe: Recipe) -> Group:
    """Join the blocks of partitions to a group."""
    ready = [block.ready(recipe) for block in blocks]
    return Group(number, type(ready[0]).join(ready), recipe)


@dataclass(frozen=True)
class Response:
    """Two cutting planes of a group: ``offset - <normal, g> <= loss(g)`` for all g.

    - `number`: number of the group
    - `normals`: that of the plane at the given weights, and of the plane after local sweeps
    - `offsets`: offsets of both planes
    - `upper, attained`: upper bound and attained value of the loss at the given weights
    - `rows`: number of rows passed to an oracle
    - `anew`: whether the dual variables started at zero
    - `late`: whether the request is from an earlier round
    """

    number: int
    normals: tuple[Packed, Packed]
    offsets: tuple[float, float]
    upper: float
    attained: float
    rows: int
    anew: bool
    late: bool = False


def prepare(group: Group) -> None:
    """Bind the losses of a group, and compile the functions of its rounds."""
    few = Group(group.number, group.block.head(ROWS_TO_COMPILE), group.recipe)
    f = group.space.zeros()
    few.begin(1.0, [0]).sweep(f)
    few.plane(f)
    group.term  # noqa: B018


def respond(group: Group, f: Packed, share: Packed, sweeps: int, sigma: float, seed: int) -> Response:
    """Return two planes of a group: the one at `f`, and the one after local sweeps.

    The sweeps continue from the dual variables on this worker, or from zero. The task can run again on
    any worker, because all planes are lower bounds.

    - `share`: part of the group in `f`
    - `sweeps`: maximum number of sweeps over the rows
    - `sigma`: amplification of the group's own updates in its sweeps
    - `seed`: seed of the order of rows
    """
    around = unpack(f)
    with group.lock:
        touching, touches, upper, attained = group.plane(around)
        rows = group.term.rows_of(ALL_ROWS)
        anew = group.state is None
        state = group.state or group.begin(sigma, [seed, group.number])
        around += np.asarray(state.combination()) - sigma * unpack(share)
        first = np.inf
        for k in range(sweeps):
            gap, visited = state.sweep(around)
            rows, first = rows + visited, gap if k == 0 else first
            if gap <= ENOUGH * first and k > 0:
                break
        standing = np.asarray(state.combination()) / sigma
        offset = float(state.offset / sigma)
    normals = pack(touching), pack(standing)
    return Response(group.number, normals, (touches, offset), upper, attained, rows, anew)


def plane(group: Group, f: Packed) -> tuple[Packed, float, float, float]:
    """Return a group's plane at `f`: normal, offset, bound and attained value."""
    normal, *numbers = group.plane(unpack(f))
    offset, upper, attained = numbers
    return pack(normal), offset, upper, attained


def value(group: Group, f: Packed) -> tuple[float, float]:
    """Return upper bound and attained value of a group's losses at `f`."""
    return group.term.total(group.space, unpack(f))
