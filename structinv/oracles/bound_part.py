"""What bound oracles share that have the members of another one."""

from __future__ import annotations

import numpy as np

from ..utils.matrices import Rows
from .base import BoundOracle, InvarianceOracle


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

    def sample(self, rows: Rows, size: int, rng: np.random.Generator) -> np.ndarray:
        return self.inner.sample(rows, size, rng)

    def contains(self, row: int, z: np.ndarray) -> bool:
        return self.inner.contains(row, z)
