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
from .packed import PackedVector, pack
from .partition import Block, Recipe

# How many fits a worker remembers to be over.
MOST_ENDED = 1000
# Rows of each partition that functions are compiled with.
ROWS_TO_COMPILE = 8


@dataclass(frozen=True)
class Group:
    """Partitions that are one block of an objective, ready for a fit.

    Parameters
    ----------
    number : int
    blocks : tuple of Block
    recipe : Recipe
    """

    number: int
    blocks: tuple[Block, ...]
    recipe: Recipe


def grouped(number: int, blocks: list[Block], recipe: Recipe) -> Group:
    """A group of blocks, whose rows get all features."""
    return Group(number, tuple(block.ready(recipe) for block in blocks), recipe)


@dataclass(frozen=True)
class Question:
    """What a group is asked about a function in a round.

    Parameters
    ----------
    share : PackedVector
        The group's part of the function.
    sweeps : int
        Over the rows.
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
class Answer:
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
class _Held:
    """The losses of a group, and the dual states of its rows once they have been swept."""

    space: ExplicitSpace
    terms: list[WorstCase]
    states: list[DualState] | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def plane(self, f: Element) -> tuple[np.ndarray, float, float, float]:
        """Normal and offset of the plane at `f`, the bound of the losses, and the plane's height."""
        normal, numbers = self.space.zeros(), np.zeros(3)
        for term in self.terms:
            found = term.plane_of_sum(self.space, f)
            normal += self.space.combine(found.normals, np.ones(1))
            numbers += [found.offsets[0], found.upper[0], found.heights[0]]
        offset, upper, height = numbers.tolist()
        return normal, offset, upper, height

    def begin(self, sigma: float, seeds: list[int]) -> None:
        """Let the rows stand at zero; their states are those of losses times sigma."""
        states = []
        for k, term in enumerate(self.terms):
            amplified = copy(term)
            amplified.weights = sigma * term.weights
            states.append(dual_state(amplified, self.space, np.random.default_rng([*seeds, k])))
        self.states = states

    def combination(self) -> np.ndarray:
        """The normal of the plane that the rows stand at, times sigma."""
        assert self.states is not None
        total = self.space.zeros()
        for state in self.states:
            total += state.combination()
        return total


_HELD: dict[tuple[str, int], _Held] = {}
_ENDED: dict[str, None] = {}
_LOCK = threading.Lock()


def _held(group: Group, fit: str) -> _Held:
    """What this worker holds of a group; it is made if there is nothing yet."""
    key = fit, group.number
    with _LOCK:
        known = _HELD.get(key)
    if known is not None:
        return known
    recipe = group.recipe
    made = _Held(recipe.space, [recipe.term(block) for block in group.blocks])
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
    for block in group.blocks[:1]:
        few = _Held(recipe.space, [recipe.term(block.head(ROWS_TO_COMPILE))])
        few.begin(1.0, [0])
        f = few.combination()
        for state in few.states or ():
            state.sweep(f)
        few.plane(f)
    _held(group, fit)


def ask(group: Group, fit: str, f: PackedVector, question: Question) -> Answer:
    """Two planes of a group: the one at `f`, and the one that its rows stand at after sweeps.

    Rows go on from where this worker has left them, or from zero. The task can run again anywhere: its
    planes are bounds in any case. `fit` names the fit that the state is of.
    """
    held, size, sigma = _held(group, fit), group.recipe.space.size, question.sigma
    around = f.written(size)
    with held.lock:
        touching, touches, upper, height = held.plane(around)
        rows = sum(block.X.shape[0] for block in group.blocks)
        anew = held.states is None
        if held.states is None:
            held.begin(sigma, [question.seed, group.number])
        assert held.states is not None
        around += held.combination() - sigma * question.share.written(size)
        for _ in range(question.sweeps):
            rows += sum(state.sweep(around)[1] for state in held.states)
        standing = held.combination() / sigma
        offset = float(sum(state.offset for state in held.states) / sigma)
    planes = pack(touching), pack(standing), (touches, offset)
    return Answer(group.number, *planes, upper, height, rows, anew)


def plane(group: Group, fit: str, f: PackedVector) -> tuple[PackedVector, float, float, float]:
    """Normal and offset of the plane at `f` of a group's losses, their bound, and its height."""
    normal, *numbers = _held(group, fit).plane(f.written(group.recipe.space.size))
    offset, upper, height = numbers
    return pack(normal), offset, upper, height


def value(group: Group, fit: str, f: PackedVector) -> tuple[float, float]:
    """The losses of a group at `f`: a bound from above, and what was attained."""
    space = group.recipe.space
    whole = f.written(space.size)
    upper, attained = np.sum([term.total(space, whole) for term in _held(group, fit).terms], axis=0)
    return float(upper), float(attained)
