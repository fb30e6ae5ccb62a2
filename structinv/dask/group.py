"""Tasks of workers on groups of partitions, with cached dual states."""

from __future__ import annotations

import threading
from copy import copy
from dataclasses import dataclass, field

import numpy as np

from ..dual import DualState, dual_state
from ..spaces import ExplicitSpace
from ..spaces.base import Element
from ..terms import WorstCase
from ..utils.matrices import ALL_ROWS
from .partition import Block, Recipe

# Bytes of one nonzero value with its position.
BYTES_OF_ENTRY = 12
# Number of finished fits in a worker's record.
MOST_ENDED = 1000
# Gap at which the sweeps of a round end, relative to that of the first sweep.
ENOUGH = 0.5
# Number of rows for the compilation of functions.
ROWS_TO_COMPILE = 8


@dataclass(frozen=True)
class PackedVector:
    """Vector in a compact form.

    - `values` (m,): values
    - `places` (m,): positions of the values; by default `values` is the whole vector
    """

    values: np.ndarray
    places: np.ndarray | None = None

    @property
    def nbytes(self) -> int:
        """Number of bytes of the compact form."""
        return self.values.nbytes + (0 if self.places is None else self.places.nbytes)

    def written(self, size: int) -> np.ndarray:
        """Return the vector of `size` numbers as a new array."""
        if self.places is None:
            return self.values.copy()
        whole = np.zeros(size)
        whole[self.places] = self.values
        return whole


def pack(vector: np.ndarray) -> PackedVector:
    """Convert a vector to its compact form."""
    places = np.flatnonzero(vector)
    if BYTES_OF_ENTRY * len(places) >= vector.nbytes:
        return PackedVector(vector)
    return PackedVector(vector[places], places.astype(np.int32))


@dataclass(frozen=True)
class Group:
    """Partitions that form one block of the objective.

    - `number`: number of the group
    - `block`: rows of all its partitions
    - `recipe`: construction of the losses
    """

    number: int
    block: Block
    recipe: Recipe


def grouped(number: int, blocks: list[Block], recipe: Recipe) -> Group:
    """Join the blocks of partitions to a group."""
    ready = [block.ready(recipe) for block in blocks]
    return Group(number, type(ready[0]).join(ready), recipe)


@dataclass(frozen=True)
class Request:
    """Request to a group in one round.

    - `share`: part of the group in the weights
    - `sweeps`: maximum number of sweeps over the rows
    - `sigma`: amplification of the group's own updates in its sweeps
    - `seed`: seed of the order of rows
    """

    share: PackedVector
    sweeps: int
    sigma: float
    seed: int

    @property
    def nbytes(self) -> int:
        """Number of bytes of the request."""
        return self.share.nbytes


@dataclass(frozen=True)
class Response:
    """Two cutting planes of a group: ``offset - <normal, g> <= loss(g)`` for all g.

    - `number`: number of the group
    - `touching, standing`: normals of the plane at the given weights, and of the plane after local
      sweeps
    - `offsets`: offsets of both planes
    - `upper, attained`: upper bound and attained value of the loss at the given weights
    - `rows`: number of rows passed to an oracle
    - `anew`: whether the dual variables started at zero
    - `late`: whether the request is from an earlier round
    """

    number: int
    touching: PackedVector
    standing: PackedVector
    offsets: tuple[float, float]
    upper: float
    attained: float
    rows: int
    anew: bool
    late: bool = False

    def normals(self, size: int) -> list[np.ndarray]:
        """Return both normals as arrays of `size` numbers."""
        return [self.touching.written(size), self.standing.written(size)]


@dataclass
class _GroupState:
    """Losses of a group, and the dual state of its rows after the first sweep."""

    space: ExplicitSpace
    term: WorstCase
    state: DualState | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def plane(self, f: Element) -> tuple[np.ndarray, float, float, float]:
        """Return normal and offset of the plane at `f`, and upper bound and attained value."""
        planes = self.term.plane_of_sum(self.space, f)
        normal = self.space.combine(planes.normals, np.ones(1))
        return normal, float(planes.offsets[0]), float(planes.upper[0]), float(planes.plane_values[0])

    def begin(self, sigma: float, seeds: list[int]) -> DualState:
        """Start with dual variables of zero, for the losses times sigma."""
        amplified = copy(self.term)
        amplified.weights = sigma * self.term.weights
        self.state = dual_state(amplified, self.space, np.random.default_rng(seeds))
        return self.state


_CACHED: dict[tuple[str, int], _GroupState] = {}
_ENDED: dict[str, None] = {}
_LOCK = threading.Lock()


def _cached(group: Group, fit: str) -> _GroupState:
    """Return the cached state of a group on this worker, or build it."""
    key = fit, group.number
    with _LOCK:
        known = _CACHED.get(key)
    if known is not None:
        return known
    recipe = group.recipe
    made = _GroupState(recipe.space, recipe.term(group.block))
    with _LOCK:
        return made if fit in _ENDED else _CACHED.setdefault(key, made)


async def forget(fit: str, number: int | None = None) -> None:
    """Clear the cache of a group, or of a whole fit.

    Tasks of the fit that are still running do not fill the cache again.
    """
    with _LOCK:
        if number is not None:
            _CACHED.pop((fit, number), None)
            return
        _ENDED[fit] = None
        for old in list(_ENDED)[:-MOST_ENDED]:
            del _ENDED[old]
        for key in [key for key in _CACHED if key[0] == fit]:
            del _CACHED[key]


def prepare(group: Group, fit: str) -> None:
    """Bind the losses of a group, and compile the functions of its rounds."""
    recipe = group.recipe
    few = _GroupState(recipe.space, recipe.term(group.block.head(ROWS_TO_COMPILE)))
    f = recipe.space.zeros()
    few.begin(1.0, [0]).sweep(f)
    few.plane(f)
    _cached(group, fit)


def respond(group: Group, fit: str, f: PackedVector, request: Request) -> Response:
    """Return two planes of a group: the one at `f`, and the one after local sweeps.

    The sweeps continue from the dual variables on this worker, or from zero. The task can run again on
    any worker, because all planes are lower bounds. `fit` is the name of the fit.
    """
    local, size, sigma = _cached(group, fit), group.recipe.space.size, request.sigma
    around = f.written(size)
    with local.lock:
        touching, touches, upper, attained = local.plane(around)
        rows = local.term.rows_of(ALL_ROWS)
        anew = local.state is None
        state = local.state or local.begin(sigma, [request.seed, group.number])
        around += np.asarray(state.combination()) - sigma * request.share.written(size)
        first = np.inf
        for k in range(request.sweeps):
            gap, visited = state.sweep(around)
            rows, first = rows + visited, gap if k == 0 else first
            if gap <= ENOUGH * first and k > 0:
                break
        standing = np.asarray(state.combination()) / sigma
        offset = float(state.offset / sigma)
    planes = pack(touching), pack(standing), (touches, offset)
    return Response(group.number, *planes, upper, attained, rows, anew)


def plane(group: Group, fit: str, f: PackedVector) -> tuple[PackedVector, float, float, float]:
    """Return a group's plane at `f`: normal, offset, bound and attained value."""
    normal, *numbers = _cached(group, fit).plane(f.written(group.recipe.space.size))
    offset, upper, attained = numbers
    return pack(normal), offset, upper, attained


def value(group: Group, fit: str, f: PackedVector) -> tuple[float, float]:
    """Return upper bound and attained value of a group's losses at `f`."""
    space = group.recipe.space
    whole = f.written(space.size)
    return _cached(group, fit).term.total(space, whole)
