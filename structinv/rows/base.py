"""Base class of row sources, which read rows in blocks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ..utils.matrices import Matrix, stack

# Approximate number of strips per block.
STRIPS_OF_A_BLOCK = 16


class RowSource(ABC):
    """Rows that may exceed memory, read in blocks.

    Estimators, certificates and predictions use only the members listed here. A subclass implements
    `block` and `edges`, and sets the attributes.

    Attributes
    ----------
    shape : tuple of two ints
        Number of rows and number of features.
    dtype : dtype
        float32 or float64.
    sparse : bool
        True if blocks are CSR matrices.

    See Also
    --------
    RowFolder : Sparse rows in a folder on disk.
    SlicedRows : Rows of a sliceable array, for example of h5py.
    SomeRows : Selected rows of another source.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.rows import SlicedRows
    >>> rows = SlicedRows(np.arange(6.0).reshape(3, 2))
    >>> rows.edges(4).tolist(), rows.block(0, 1).tolist()
    ([0, 1, 3], [[0.0, 1.0]])
    """

    shape: tuple[int, int]
    dtype: np.dtype
    sparse: bool

    @property
    def labels(self) -> np.ndarray | None:
        """Label of each row, (n,); None if the source has no labels."""
        return None

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        """Raise TypeError, to prevent functions from loading all rows."""
        raise TypeError(
            f"{self!r} cannot be converted to an array, because its rows may exceed memory: pass it to "
            "InvariantLinearSVC, InvariantLinearSVR or structinv.select_changes, or read some rows with "
            "its method block"
        )

    @property
    def ndim(self) -> int:
        """Raise TypeError, as the conversion does that scikit-learn tries next."""
        return np.asarray(self).ndim

    @abstractmethod
    def block(self, start: int, stop: int) -> Matrix:
        """Read the rows from `start` to `stop`, exclusive.

        The caller may use the block in another thread. It must not change the block.

        Parameters
        ----------
        start, stop : int
            Rows, with ``0 <= start < stop <= shape[0]``.

        Returns
        -------
        ndarray or CSR matrix of shape (stop - start, n_features)
            Finite values. Arrays are C-contiguous; CSR rows have sorted and unique indices.

        Raises
        ------
        ValueError
            If a row is not valid. The message names the first such row.
        OSError
            If the rows cannot be read.
        """

    @abstractmethod
    def edges(self, most_values: int) -> np.ndarray:
        """Return the first row of each block, and the number of rows.

        Parameters
        ----------
        most_values : int
            Approximate maximum number of stored values per block.

        Returns
        -------
        ndarray of int64 of shape (n_blocks + 1,)
            Increasing row numbers from 0 to the number of rows. No block is empty.
        """

    def blocks(self, cuts: Sequence[slice]) -> Matrix:
        """Read several ranges of rows as one block.

        Parameters
        ----------
        cuts : sequence of slice
            Ranges with a start and a stop, as in `block`.

        Returns
        -------
        ndarray or CSR matrix of shape (n_rows, n_features)
            Rows of all ranges.
        """
        return stack([self.block(cut.start, cut.stop) for cut in cuts])

    def cuts(self, most_values: int) -> list[slice]:
        """Return the row range of each block, from `edges`.

        Parameters
        ----------
        most_values : int
            Approximate maximum number of stored values per block.

        Returns
        -------
        list of slice
            Row ranges.
        """
        return row_ranges(self.edges(most_values))

    def strips(self, most_values: int) -> list[slice]:
        """Divide blocks into about sixteen strips each, if there are several blocks.

        A block of random rows can combine strips from all over the source. The time to read a strip is
        about proportional to its number of values.

        Parameters
        ----------
        most_values : int
            Approximate maximum number of stored values per block.

        Returns
        -------
        list of slice
            Row range of each strip; a single range if all rows fit into one block.
        """
        edges = self.edges(most_values)
        return row_ranges(edges if len(edges) == 2 else self._strip_edges(most_values))

    def _strip_edges(self, most_values: int) -> np.ndarray:
        """Return the edges of strips if the rows do not fit into one block."""
        return self.edges(max(1, most_values // STRIPS_OF_A_BLOCK))


def row_ranges(edges: np.ndarray) -> list[slice]:
    """Return the range of rows between each two adjacent edges."""
    return [slice(first, last) for first, last in pairwise(edges.tolist())]
