"""Which rows belong to which example."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from ..utils.matrices import Rows


@dataclass(frozen=True)
class Layout:
    """Which rows belong to which example; structures derive from it what else they know of examples.

    Parameters
    ----------
    starts : (n_blocks + 1,) array of int
        Example b has the rows ``starts[b]`` to ``starts[b + 1] - 1``.

    Examples
    --------
    >>> layout = Layout.of_lengths([2, 3])
    >>> layout.starts, layout.owners
    (array([0, 2, 5]), array([0, 0, 1, 1, 1]))
    >>> layout.take(np.array([1])).starts
    array([0, 3])
    """

    starts: np.ndarray

    @classmethod
    def of_lengths(cls, lengths: ArrayLike) -> Layout:
        """Examples of so many rows each, one behind the other.

        Raises
        ------
        ValueError
            Unless all lengths are integers of at least 1.
        """
        sizes = np.asarray(lengths)
        if sizes.ndim != 1 or sizes.dtype.kind not in "iu" or len(sizes) == 0 or np.any(sizes < 1):
            raise ValueError(f"lengths must be integers of at least 1, one an example, got {lengths!r}")
        return Layout(np.r_[0, np.cumsum(sizes)])

    @classmethod
    def of_rows(cls, n_rows: int) -> Layout:
        """Every row an example of its own."""
        return Layout(np.arange(n_rows + 1))

    @classmethod
    def join(cls, layouts: Sequence[Layout]) -> Layout:
        """The layout of the examples of several, one behind the other; they are of one class.

        Raises
        ------
        TypeError
            If a class that knows more of examples has no method of its own.
        """
        if cls is not Layout:
            raise TypeError(f"{cls.__name__} must have a method join for examples in partitions")
        return Layout(np.r_[0, np.cumsum(np.concatenate([each.lengths for each in layouts]))])

    def __len__(self) -> int:
        """How many examples there are."""
        return len(self.starts) - 1

    @property
    def n_rows(self) -> int:
        """How many rows all examples have together."""
        return int(self.starts[-1])

    @property
    def lengths(self) -> np.ndarray:
        """How many rows each example has."""
        return np.diff(self.starts)

    @property
    def owners(self) -> np.ndarray:
        """The example of each row."""
        return np.repeat(np.arange(len(self)), self.lengths)

    def rows(self, blocks: Rows) -> np.ndarray:
        """The rows of the examples named, one example behind the other."""
        blocks = np.arange(len(self))[blocks]
        sizes = self.lengths[blocks]
        ends = np.cumsum(sizes)
        first = np.repeat(self.starts[blocks] - (ends - sizes), sizes)
        return first + np.arange(len(first))

    def take(self, blocks: Rows) -> Self:
        """The layout of the examples named, as if there were no others."""
        sizes = self.lengths[blocks]
        own: Any = type(self)(np.r_[0, np.cumsum(sizes)])
        return own

    def told(self) -> list[Any]:
        """All that tells it from other layouts."""
        return [getattr(self, field.name) for field in fields(self) if field.compare]

    def sums(self, each: np.ndarray) -> np.ndarray:
        """Sums over the rows of each example, along the first axis."""
        return np.add.reduceat(each, self.starts[:-1], axis=0)


def laid_out(layout: Layout | None, n_rows: int) -> Layout:
    """The layout; where there is none every row is an example of its own."""
    return Layout.of_rows(n_rows) if layout is None else layout
