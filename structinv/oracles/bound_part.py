"""What bound oracles share that have the members of another one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..matrices import Rows
from .base import BoundOracle, Cover, InvarianceOracle


class BoundPart(BoundOracle):
    """A bound oracle whose members are those of another one; a subclass says what it asks of them.

    Parameters
    ----------
    oracle : InvarianceOracle
    inner : BoundOracle
        On the same rows.
    """

    def __init__(self, oracle: InvarianceOracle, inner: BoundOracle) -> None:
        super().__init__(oracle, inner.X, inner.y)
        self.inner = inner

    def orbit(self, rows: Rows) -> np.ndarray:
        return self.inner.orbit(rows)

    def cover(self, rows: Rows) -> Cover:
        return self.inner.cover(rows)

    def members(self, rows: Rows, index: np.ndarray) -> np.ndarray:
        return self.inner.members(rows, index)

    def member_names(self) -> list[str]:
        return self.inner.member_names()

    def member_scores(self, rows: Rows, V: np.ndarray) -> np.ndarray | None:
        return self.inner.member_scores(rows, V)

    def refine(
        self, rows: Rows, index: np.ndarray, score: Callable[[np.ndarray], np.ndarray]
    ) -> np.ndarray:
        return self.inner.refine(rows, index, score)

    def sample(self, rows: Rows, size: int, rng: np.random.Generator) -> np.ndarray:
        return self.inner.sample(rows, size, rng)

    def contains(self, row: int, z: np.ndarray) -> bool:
        return self.inner.contains(row, z)
