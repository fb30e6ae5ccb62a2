"""What workers do with the rows of one partition."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_array
from sklearn.utils.validation import _get_feature_names

from ..dual import DualState, dual_state
from ..estimators.fingerprint import digest
from ..estimators.problem import Problem
from ..oracles import InvarianceOracle
from ..spaces import ExplicitSpace
from ..spaces.base import Element
from ..terms import WorstCase
from ..utils.matrices import Matrix

# So many sweeps a partition makes whose rows start at zero beside a plane that is not.
SWEEPS_OF_LOST = 10
# How many fits a worker remembers to be over.
MOST_ENDED = 1000


@dataclass(frozen=True)
class Block:
    """Checked rows of a partition, with labels or targets and sample weights.

    Parameters
    ----------
    X : (n, d) array or CSR matrix
    y : (n,) array
    weights : (n,) array
    names : tuple of str, optional
        Of the columns of a DataFrame.
    """

    X: Matrix
    y: np.ndarray
    weights: np.ndarray
    names: tuple[str, ...] | None = None


def numbered_block(number: int, given: Any) -> Block:
    """`checked_block` of rows, labels and perhaps weights; errors name the partition."""
    try:
        return checked_block(*given)
    except (ValueError, TypeError) as error:
        raise type(error)(f"partition {number}: {error}") from None


def checked_rows(X: Any) -> tuple[Matrix, tuple[str, ...] | None]:
    """Finite rows, which may be none, and the names of their columns."""
    columns = _get_feature_names(X)
    if np.ndim(X) != 2 and not sp.issparse(X):
        raise ValueError(f"X must have two dimensions, got shape {np.shape(X)}")
    rows = check_array(
        X,
        accept_sparse="csr",
        accept_large_sparse=True,
        dtype=[np.float64, np.float32],
        ensure_min_samples=0,
        input_name="X",
    )
    if sp.issparse(rows) and not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    return rows, None if columns is None else tuple(columns)


def checked_block(X: Any, y: Any, weights: Any = None) -> Block:
    """The block of a partition of what its collections hold.

    Raises
    ------
    ValueError, TypeError
        If they cannot be used.
    """
    rows, names = checked_rows(X)
    n = rows.shape[0]
    labels = np.asarray(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.shape != (n,):
        raise ValueError(f"y must have one label for each of the {n} rows, got shape {labels.shape}")
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise ValueError("y must hold finite numbers, got NaN or infinity")
    own = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
    if own.ndim == 2 and own.shape[1] == 1:
        own = own[:, 0]
    if own.shape != (n,) or not np.isfinite(own).all() or np.any(own < 0):
        raise ValueError("sample_weight must hold one finite, non-negative number for each row")
    return Block(rows, labels, own, names)


@dataclass(frozen=True)
class Facts:
    """What the driver has to know of a block.

    Parameters
    ----------
    shape : tuple of two ints
    dtype : dtype
    sparse : bool
    names : tuple of str or None
    weight : float
        The sum of the sample weights.
    summary : object
        Of the labels or targets.
    """

    shape: tuple[int, int]
    dtype: np.dtype
    sparse: bool
    names: tuple[str, ...] | None
    weight: float
    summary: Any


def facts(number: int, block: Block, summarize: Callable[[Block], Any]) -> Facts:
    """The facts about the block of a partition, whose number errors name."""
    X = block.X
    try:
        summary = summarize(block)
    except (ValueError, TypeError) as error:
        raise type(error)(f"partition {number}: {error}") from None
    return Facts(X.shape, X.dtype, sp.issparse(X), block.names, float(block.weights.sum()), summary)


def alike(found: Sequence[Facts]) -> dict[int, Facts]:
    """The facts about partitions that have rows, by their numbers.

    Raises
    ------
    ValueError
        If there are no rows, or partitions have different features.
    """
    kept = {p: each for p, each in enumerate(found) if each.shape[0]}
    if not kept:
        raise ValueError(f"X must have rows, got {len(found)} partitions without any")
    first, reference = next(iter(kept.items()))
    for p, each in kept.items():
        if each.shape[1] != reference.shape[1]:
            raise ValueError(
                f"X must have as many features in all partitions: partition {first} has "
                f"{reference.shape[1]}, partition {p} has {each.shape[1]}"
            )
        if each.names != reference.names:
            raise ValueError(
                f"X must have the same columns in all partitions: partition {p} has others than "
                f"partition {first}"
            )
    return kept


def fingerprint(block: Block) -> str:
    """A text that is the same for equal blocks."""
    return digest([block.X, block.y, block.weights])


@dataclass(frozen=True)
class Recipe:
    """From the rows of any partition to their losses.

    Parameters
    ----------
    problem : callable
        From an estimator, an oracle, what is learnt, a block and a factor of the weights to a `Problem`.
    estimator : InvariantLinearSVC or InvariantLinearSVR
        Has the parameters; it is not fitted.
    oracle : InvarianceOracle
        For rows of this shape.
    learnt : object
        What is known of all rows.
    space : ExplicitSpace
    n_partitions : int
    """

    problem: Callable[..., Problem]
    estimator: Any
    oracle: InvarianceOracle
    learnt: Any
    space: ExplicitSpace
    n_partitions: int

    def term(self, block: Block, factor: float = 1.0) -> WorstCase:
        """The losses of a block, all of them times a factor."""
        return self.problem(self.estimator, self.oracle, self.learnt, block, factor).worst_case()


@dataclass(frozen=True)
class Part:
    """A partition that is ready for a fit.

    Parameters
    ----------
    number : int
        Among the partitions that have rows.
    block : Block
    recipe : Recipe
    """

    number: int
    block: Block
    recipe: Recipe


@dataclass(frozen=True)
class Start:
    """Where a partition starts to sweep.

    Parameters
    ----------
    center : element
        The function that the sweeps see, less the partition's own part, which the worker adds.
    sweeps : int
    seed : int
        Of the orders in which partitions visit their rows.
    nothing : bool
        Whether the driver's plane of the partition is zero, so that rows at zero have lost nothing.
    """

    center: Element
    sweeps: int
    seed: int
    nothing: bool


@dataclass(frozen=True)
class Answer:
    """The plane that the rows of a partition stand at after sweeps.

    Parameters
    ----------
    number : int
    normal, offset
        The loss of the partition is at least ``offset - <normal, f>``.
    gap : float
        What was left of the rows' gaps on arrival.
    rows : int
        How many rows were visited.
    anew : bool
        Whether the rows started at zero.
    late : bool
        Whether the answer is to an earlier round.
    """

    number: int
    normal: Element
    offset: float
    gap: float
    rows: int
    anew: bool
    late: bool = False


@dataclass
class _Held:
    """The dual state of a partition in the memory of a worker."""

    state: DualState
    lock: threading.Lock = field(default_factory=threading.Lock)


_HELD: dict[tuple[str, int], _Held] = {}
_ENDED: dict[str, None] = {}
_LOCK = threading.Lock()


def sweep(part: Part, fit: str, start: Start) -> Answer:
    """Sweep the rows of a partition, from where this worker has left them or from zero.

    The task can run again anywhere: its answer is a plane of the partition in any case. `fit` names the
    fit that the state is of.
    """
    n = part.recipe.n_partitions
    held, anew = _held(part, fit, start.seed)
    lost = anew and not start.nothing
    with held.lock:
        state = held.state
        f = start.center + state.combination()
        gap, rows = 0.0, 0
        for _ in range(max(start.sweeps, SWEEPS_OF_LOST) if lost else start.sweeps):
            gap, visited = state.sweep(f)
            rows += visited
        normal, offset = np.asarray(state.combination()) / n, float(state.offset / n)
    return Answer(part.number, normal, offset, gap / n, rows, lost)


def _held(part: Part, fit: str, seed: int) -> tuple[_Held, bool]:
    """The state of a partition, and whether it is new."""
    key = fit, part.number
    with _LOCK:
        known = _HELD.get(key)
    if known is not None:
        return known, False
    recipe = part.recipe
    # Losses times the number of partitions make sweeps see their own change so many times.
    term = recipe.term(part.block, float(recipe.n_partitions))
    rng = np.random.default_rng([seed, part.number])
    made = _Held(dual_state(term, recipe.space, rng))
    with _LOCK:
        if fit not in _ENDED:
            _HELD[key] = made
    return made, True


async def forget(fit: str) -> None:
    """Drop all states of a fit, those of tasks that still run too."""
    with _LOCK:
        _ENDED[fit] = None
        for old in list(_ENDED)[:-MOST_ENDED]:
            del _ENDED[old]
        for key in [key for key in _HELD if key[0] == fit]:
            del _HELD[key]


def plane(part: Part, f: Element) -> tuple[Element, float, float, float]:
    """Normal and offset of the plane at `f` of a partition's losses, their bound, and its height."""
    found = part.recipe.term(part.block).plane_of_sum(part.recipe.space, f)
    normal = part.recipe.space.combine(found.normals, np.ones(1))
    return normal, float(found.offsets[0]), float(found.upper[0]), float(found.heights[0])


def value(part: Part, f: Element) -> tuple[float, float]:
    """The losses of a partition at `f`: a bound from above, and what was attained."""
    return part.recipe.term(part.block).total(part.recipe.space, f)
