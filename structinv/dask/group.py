"""What a worker does with the partitions of one group: it keeps their losses and dual states bound."""

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
from .packed import PackedVector, pack
from .partition import Block, Recipe

# How many fits a worker remembers to be over.
MOST_ENDED = 1000
# Sweeps of a round end when their gap is this share of the first one's.
ENOUGH = 0.5
# Rows of each group that functions are compiled with.
ROWS_TO_COMPILE = 8


@dataclass(frozen=True)
class Group:
    """Partitions that are one block of an objective, ready for a fit.

    Parameters
    ----------
    number : int
    block : Block
        The rows of all its partitions: sweeps have to mix them, see "Rows in blocks" in the design page.
    recipe : Recipe
    """

    number: int
    block: Block
    recipe: Recipe


def grouped(number: int, blocks: list[Block], recipe: Recipe) -> Group:
    """A group of the blocks of partitions."""
    ready = [block.ready(recipe) for block in blocks]
    return Group(number, type(ready[0]).join(ready), recipe)


@dataclass(frozen=True)
class Request:
    """What a group is asked about a function in a round.

    Parameters
    ----------
    share : PackedVector
        The group's part of the function.
    sweeps : int
        Over the rows, at most.
    sigma : float
        How many times sweeps see their own change.
    seed : int
        Of the orders in which rows are visited.
    """

    share: PackedVector
    sweeps: int
    sigma: float
    seed: int

    @property
    def nbytes(self) -> int:
        """As it is sent."""
        return self.share.nbytes


@dataclass(frozen=True)
class Response:
    """Two planes of a group: ``offset - <normal, g>`` is at most its loss at every g.

    Parameters
    ----------
    number : int
        Of the group.
    touching, standing : PackedVector
        Normals of the plane at the function that was asked about, and of the one that rows stand at.
    offsets : tuple of two floats
    upper, height : float
        The loss at the function that was asked about: a bound from above, and what was attained.
    rows : int
        How many rows an oracle was asked.
    anew : bool
        Whether the rows started at zero.
    late : bool
        Whether the answer is to an earlier round.
    """

    number: int
    touching: PackedVector
    standing: PackedVector
    offsets: tuple[float, float]
    upper: float
    height: float
    rows: int
    anew: bool
    late: bool = False

    def normals(self, size: int) -> list[np.ndarray]:
        """Both normals, of `size` numbers each."""
        return [self.touching.written(size), self.standing.written(size)]


@dataclass
class _GroupState:
    """The losses of a group, and the dual state of its rows once they have been swept."""

    space: ExplicitSpace
    term: WorstCase
    state: DualState | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def plane(self, f: Element) -> tuple[np.ndarray, float, float, float]:
        """Normal and offset of the plane at `f`, the bound of the losses, and the plane's height."""
        found = self.term.plane_of_sum(self.space, f)
        normal = self.space.combine(found.normals, np.ones(1))
        return normal, float(found.offsets[0]), float(found.upper[0]), float(found.heights[0])

    def begin(self, sigma: float, seeds: list[int]) -> DualState:
        """Let the rows stand at zero; their state is that of losses times sigma."""
        amplified = copy(self.term)
        amplified.weights = sigma * self.term.weights
        self.state = dual_state(amplified, self.space, np.random.default_rng(seeds))
        return self.state


_HELD: dict[tuple[str, int], _GroupState] = {}
_ENDED: dict[str, None] = {}
_LOCK = threading.Lock()


def _held(group: Group, fit: str) -> _GroupState:
    """What this worker holds of a group; it is made if there is nothing yet."""
    key = fit, group.number
    with _LOCK:
        known = _HELD.get(key)
    if known is not None:
        return known
    recipe = group.recipe
    made = _GroupState(recipe.space, recipe.term(group.block))
    with _LOCK:
        return made if fit in _ENDED else _HELD.setdefault(key, made)


async def forget(fit: str, number: int | None = None) -> None:
    """Drop what is held of a group that has gone; of a whole fit, by those tasks too that still run."""
    with _LOCK:
        if number is not None:
            _HELD.pop((fit, number), None)
            return
        _ENDED[fit] = None
        for old in list(_ENDED)[:-MOST_ENDED]:
            del _ENDED[old]
        for key in [key for key in _HELD if key[0] == fit]:
            del _HELD[key]


def prepare(group: Group, fit: str) -> None:
    """Bind the losses of a group, and compile what its rounds call."""
    recipe = group.recipe
    few = _GroupState(recipe.space, recipe.term(group.block.head(ROWS_TO_COMPILE)))
    f = recipe.space.zeros()
    few.begin(1.0, [0]).sweep(f)
    few.plane(f)
    _held(group, fit)


def ask(group: Group, fit: str, f: PackedVector, question: Request) -> Response:
    """Two planes of a group: the one at `f`, and the one that its rows stand at after sweeps.

    Rows go on from where this worker has left them, or from zero. The task can run again anywhere: its
    planes are bounds in any case. `fit` names the fit that the state is of.
    """
    held, size, sigma = _held(group, fit), group.recipe.space.size, question.sigma
    around = f.written(size)
    with held.lock:
        touching, touches, upper, height = held.plane(around)
        rows = held.term.rows_of(ALL_ROWS)
        anew = held.state is None
        state = held.state or held.begin(sigma, [question.seed, group.number])
        around += np.asarray(state.combination()) - sigma * question.share.written(size)
        first = np.inf
        for k in range(question.sweeps):
            gap, visited = state.sweep(around)
            rows, first = rows + visited, gap if k == 0 else first
            if gap <= ENOUGH * first and k > 0:
                break
        standing = np.asarray(state.combination()) / sigma
        offset = float(state.offset / sigma)
    planes = pack(touching), pack(standing), (touches, offset)
    return Response(group.number, *planes, upper, height, rows, anew)


def plane(group: Group, fit: str, f: PackedVector) -> tuple[PackedVector, float, float, float]:
    """Normal and offset of the plane at `f` of a group's losses, their bound, and its height."""
    normal, *numbers = _held(group, fit).plane(f.written(group.recipe.space.size))
    offset, upper, height = numbers
    return pack(normal), offset, upper, height


def value(group: Group, fit: str, f: PackedVector) -> tuple[float, float]:
    """The losses of a group at `f`: a bound from above, and what was attained."""
    space = group.recipe.space
    whole = f.written(space.size)
    return _held(group, fit).term.total(space, whole)
