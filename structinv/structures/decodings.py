"""Layouts of examples, and results of inference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from ..utils.matrices import Rows


@dataclass(frozen=True)
class Layout:
    """Assignment of rows to examples.

    Structures may use subclasses with more fields, such as the edges of graphs.

    Parameters
    ----------
    starts : ndarray of int of shape (n_blocks + 1,)
        Example b has the rows ``starts[b]`` to ``starts[b + 1] - 1``.

    See Also
    --------
    Structure : Output structure, which reads a layout from user-given examples.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.structures import Layout
    >>> layout = Layout.of_lengths([2, 3])
    >>> layout.starts, layout.owners
    (array([0, 2, 5]), array([0, 0, 1, 1, 1]))
    >>> layout.take(np.array([1])).starts
    array([0, 3])
    """

    starts: np.ndarray

    @classmethod
    def of_lengths(cls, lengths: ArrayLike) -> Layout:
        """Return the layout of consecutive examples with these lengths.

        Parameters
        ----------
        lengths : array-like of int of shape (n_blocks,)
            Number of rows of each example (>= 1).

        Returns
        -------
        Layout
            The layout.

        Raises
        ------
        ValueError
            If a length is not an integer of at least 1.
        """
        counts = np.asarray(lengths)
        if counts.ndim != 1 or counts.dtype.kind not in "iu" or len(counts) == 0 or np.any(counts < 1):
            raise ValueError(f"lengths must be integers of at least 1, one per example, got {lengths!r}")
        return Layout(np.r_[0, np.cumsum(counts)])

    @classmethod
    def of_rows(cls, n_rows: int) -> Layout:
        """Return the layout in which every row is an example.

        Parameters
        ----------
        n_rows : int
            Number of rows.

        Returns
        -------
        Layout
            The layout.
        """
        return Layout(np.arange(n_rows + 1))

    @classmethod
    def join(cls, layouts: Sequence[Layout]) -> Layout:
        """Return the layout of the examples of several layouts, one after the other.

        Parameters
        ----------
        layouts : list of Layout
            Layouts of this class.

        Returns
        -------
        Layout
            The joint layout.

        Raises
        ------
        TypeError
            If a subclass does not override this method.
        """
        if cls is not Layout:
            raise TypeError(f"{cls.__name__} must override join to support examples in partitions")
        return Layout(np.r_[0, np.cumsum(np.concatenate([each.lengths for each in layouts]))])

    def __len__(self) -> int:
        """Return the number of examples."""
        return len(self.starts) - 1

    @property
    def n_rows(self) -> int:
        """Total number of rows."""
        return int(self.starts[-1])

    @property
    def lengths(self) -> np.ndarray:
        """Number of rows of each example."""
        return np.diff(self.starts)

    @property
    def owners(self) -> np.ndarray:
        """Example of each row."""
        return np.repeat(np.arange(len(self)), self.lengths)

    def rows(self, blocks: Rows) -> np.ndarray:
        """Return the rows of some examples, one example after the other.

        Parameters
        ----------
        blocks : slice or ndarray of shape (n,)
            Examples, as an index of NumPy.

        Returns
        -------
        ndarray of int
            Rows of these examples.
        """
        blocks = np.arange(len(self))[blocks]
        lengths = self.lengths[blocks]
        ends = np.cumsum(lengths)
        first = np.repeat(self.starts[blocks] - (ends - lengths), lengths)
        return first + np.arange(len(first))

    def take(self, blocks: Rows) -> Self:
        """Return the layout of some examples alone.

        Parameters
        ----------
        blocks : slice or ndarray of shape (n,)
            Examples, as an index of NumPy.

        Returns
        -------
        Layout
            The layout, with rows numbered from 0.
        """
        taken: Any = type(self)(np.r_[0, np.cumsum(self.lengths[blocks])])
        return taken

    def compared_fields(self) -> list[Any]:
        """Return the values of all fields that define equality of layouts.

        Returns
        -------
        list
            Values of the fields.
        """
        return [getattr(self, field.name) for field in fields(self) if field.compare]

    def sums(self, each: np.ndarray) -> np.ndarray:
        """Sum over the rows of each example.

        Parameters
        ----------
        each : ndarray of shape (n_rows, ...)
            One item per row.

        Returns
        -------
        ndarray of shape (n_blocks, ...)
            Sums along the first axis.
        """
        if len(self) == self.n_rows and each.dtype.kind == "f":
            # Every example is a single row.
            return each
        return np.add.reduceat(each, self.starts[:-1], axis=0)


def laid_out(layout: Layout | None, n_rows: int) -> Layout:
    """Return the layout; None means that every row is an example."""
    return Layout.of_rows(n_rows) if layout is None else layout


@dataclass(frozen=True)
class Decoding:
    """Best labeling of each example, from `decode`, `separate` or `runner_up`.

    Parameters
    ----------
    labels : ndarray of int of shape (n_rows,)
        Label of each row.
    upper : ndarray of shape (n_blocks,), optional
        Upper bound of the highest score of each example. None means that `labels` have the highest
        score. From `separate`, it is required: the bound of the loss over all labelings and
        perturbations.
    levels : ndarray of int of shape (n_rows,), optional
        Level of each row, if the potentials have a third axis of levels.
    fractions : ndarray of shape (n_rows, n_labels), optional
        Fraction of each label at each row, from relaxed inference. The score of the fractional labeling
        is at least that of `labels`.
    features : ndarray or CSR matrix of shape (n_blocks, n_pairwise), optional
        Features of the fractional labelings, as in `Structure.features`.
    scale : ndarray of shape (n_blocks,), optional
        Factor of the score difference, for slack rescaling of whole labelings; 1 by default. Only
        results of `separate` may have it.

    See Also
    --------
    Structure : Base class whose `Structure.decode` returns this record.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.structures import Decoding
    >>> Decoding(np.array([0, 1])).labels
    array([0, 1])
    """

    labels: np.ndarray
    upper: Any = None
    levels: np.ndarray | None = None
    fractions: np.ndarray | None = None
    features: Any = None
    scale: np.ndarray | None = None
