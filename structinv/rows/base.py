"""Rows that are read a block at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..utils.matrices import Matrix, stack

# A block has about so many strips.
STRIPS_OF_A_BLOCK = 16


class RowSource(ABC):
    """Rows that need not fit into memory together.

    Terms, certificates and predictions ask for nothing but the members listed here.

    Attributes
    ----------
    shape : tuple of two ints
        Number of rows and number of features.
    dtype : dtype
        float32 or float64.
    sparse : bool
        Whether blocks are CSR matrices.
    """

    shape: tuple[int, int]
    dtype: np.dtype
    sparse: bool

    @property
    def labels(self) -> np.ndarray | None:
        """The label of each row, (n,); None if the source has none."""
        return None

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        """Refuse to load all rows, for functions that make an array of what they are given."""
        raise TypeError(
            f"{self!r} is read in blocks, and is no array: InvariantLinearSVC, InvariantLinearSVR and "
            "structinv.select_changes take it, and its method block reads some rows for other functions"
        )

    @abstractmethod
    def block(self, start: int, stop: int) -> Matrix:
        """Rows ``start`` to ``stop - 1``.

        The caller may read the block from another thread than the one that asked for it. It must not
        change the block.

        Parameters
        ----------
        start, stop : int
            ``0 <= start < stop <= shape[0]``.

        Returns
        -------
        (stop - start, n_features) C-contiguous array, or CSR matrix
            All values are finite. CSR rows have sorted and unique indices.

        Raises
        ------
        ValueError
            If the rows cannot be used. The message names the first row that is wrong.
        OSError
            If the rows cannot be read.
        """

    @abstractmethod
    def edges(self, most_values: int) -> np.ndarray:
        """Where to cut the rows into blocks of at most about `most_values` stored values.

        Returns
        -------
        (n_blocks + 1,) array of int64
            Increasing, from 0 to the number of rows. No block is empty.
        """

    def blocks(self, cuts: Sequence[slice]) -> Matrix:
        """The rows of several blocks as one block.

        Parameters
        ----------
        cuts : sequence of slice
            With a start and a stop, as of `block`.
        """
        return stack([self.block(cut.start, cut.stop) for cut in cuts])

    def cuts(self, most_values: int) -> list[slice]:
        """The rows of each block between two `edges`."""
        return self._between(self.edges(most_values))

    def strips(self, most_values: int) -> list[slice]:
        """Parts of blocks of `most_values`, about sixteen to a block, if there is more than one block.

        A block can be made of strips from all over the rows. To read a strip costs little more than its
        share of the block.
        """
        edges = self.edges(most_values)
        return self._between(edges if len(edges) == 2 else self._strip_edges(most_values))

    def _strip_edges(self, most_values: int) -> np.ndarray:
        """See `strips`; there is more than one block."""
        return self.edges(max(1, most_values // STRIPS_OF_A_BLOCK))

    @staticmethod
    def _between(edges: np.ndarray) -> list[slice]:
        edges = edges.tolist()
        return [slice(first, last) for first, last in zip(edges[:-1], edges[1:], strict=True)]
