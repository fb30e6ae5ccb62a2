"""What an objective is a sum of: weighted convex blocks, given by planes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from ..losses import ScalarLoss
from ..spaces import Space
from ..spaces.base import Element
from ..utils.matrices import ALL_ROWS, Rows
from .planes import Planes, PlaneSet

# Asked between portions of work: whether the rest had better be left.
OutOfTime: TypeAlias = Callable[[], bool]


def never() -> bool:
    """False: there is no limit of time."""
    return False


class Term(ABC):
    """A sum of weighted convex blocks ``c_b phi_b(f)``, given by planes.

    Attributes
    ----------
    weights : (n_blocks,) array
    floors : (n_blocks,) array
        A lower bound of each block.
    """

    weights: np.ndarray
    floors: np.ndarray
    # Whether `planes` can be asked for.
    has_planes: bool = True
    # Whether dual states keep one plane for the sum of all blocks.
    planes_are_sums: bool = False

    @property
    def n_blocks(self) -> int:
        """How many blocks the term has."""
        return len(self.weights)

    @property
    def relaxed(self) -> bool:
        """Whether the value is that of a relaxed loss, no less than the loss itself; no, by default."""
        return False

    @property
    def dtype(self) -> np.dtype:
        """The precision of the numbers it is computed from; double, by default."""
        return np.dtype(np.float64)

    @abstractmethod
    def validate(self, space: Space) -> None:
        """Raise ValueError if the term cannot be evaluated on elements of the space."""

    @abstractmethod
    def planes(self, space: Space, f: Element, blocks: Rows = ALL_ROWS) -> Planes:
        """A plane of each block named that touches it from below at `f`."""

    @abstractmethod
    def values(self, space: Space, f: Element) -> tuple[np.ndarray, np.ndarray]:
        """Each block's value at `f`: a bound from above, and what was attained."""

    def portions(self) -> list[Rows]:
        """All blocks, in portions whose planes fit in memory several times over."""
        return [ALL_ROWS]

    def blocks_at_once(self, space: Space) -> int:
        """How many blocks to ask for together, so that a solver can look at the clock in between."""
        return max(1, self.n_blocks)

    def planes_of_a_block(self, space: Space) -> int:
        """How many planes of a block dual states keep before they average the lightest."""
        return space.planes_of_a_block

    def total(self, space: Space, f: Element) -> tuple[float, float]:
        """The weighted sum of `values`."""
        above, reached = self.values(space, f)
        # A block of weight zero counts nothing, be its bound infinite.
        counted = self.weights > 0
        return float(self.weights[counted] @ above[counted]), float(self.weights @ reached)

    def plane_of_sum(self, space: Space, f: Element) -> Planes:
        """The plane at `f` of the weighted sum of all blocks; only a portion is in memory at a time."""
        normal, numbers = space.zeros(), np.zeros(3)
        for blocks in self.portions():
            planes = self.planes(space, f, blocks)
            weights = self.weights[blocks]
            normal += space.combine(planes.normals, weights)
            # A block of weight zero counts nothing, be its bound infinite.
            upper = np.where(weights > 0, planes.upper, 0.0)
            numbers += [weights @ each for each in (planes.offsets, upper, planes.heights)]
        offset, upper, height = numbers[:, None]
        return Planes(space.element(normal), offset, upper, height)

    @abstractmethod
    def rows_of(self, blocks: Rows) -> int:
        """How many rows an oracle is asked when the blocks named are evaluated."""

    def coordinates(self) -> Coordinates | None:
        """The term as a sum of scalar losses of representers; None if it is none, as by default."""
        return None

    def plane_of_slopes(self, space: Space, slopes: np.ndarray, block: int = 0) -> PlaneSet:
        """The plane that a slope for each of the `coordinates` makes; for terms that have them."""
        raise NotImplementedError(f"{type(self).__name__} has no coordinates")


@dataclass(frozen=True)
class Coordinates:
    """``sum_i weights_i r_i(L_places_i f)``: what a term is to solvers that work on coefficients.

    Parameters
    ----------
    places : slice
        Which functionals of a `RepresenterSpace`, those of all outputs one behind the other.
    loss : ScalarLoss
    weights : (n,) array
    """

    places: slice
    loss: ScalarLoss
    weights: np.ndarray


def check_weights(weights: ArrayLike, size: int) -> np.ndarray:
    """Finite, non-negative weights of the given number, or a ValueError.

    Parameters
    ----------
    weights : float or (size,) array-like
    size : int
    """
    array = np.asarray(weights, dtype=np.float64)
    if array.ndim == 0:
        array = np.full(size, float(array))
    if array.shape != (size,):
        raise ValueError(f"weights must have shape ({size},), got {array.shape}")
    if not np.all(np.isfinite(array)) or np.any(array < 0):
        raise ValueError("weights must be finite and non-negative")
    return array


def join(space: Space, parts: Sequence[Planes]) -> Planes:
    """Planes of all parts, one below the other.

    Parameters
    ----------
    space : Space
    parts : sequence of Planes
    """
    if len(parts) == 1:
        return parts[0]
    return Planes(
        space.stack([part.normals for part in parts]),
        np.concatenate([part.offsets for part in parts]),
        np.concatenate([part.upper for part in parts]),
        np.concatenate([part.heights for part in parts]),
    )
