"""Layouts of examples, true labels and costs of rows, and results of inference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
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

    def take(self, rows: np.ndarray, blocks: np.ndarray) -> Decoding:
        """Return the labelings of some of the examples.

        Parameters
        ----------
        rows : ndarray of int
            Rows of these examples.
        blocks : ndarray of int
            Numbers of the examples.

        Returns
        -------
        Decoding
            Their labelings.
        """

        def of(value: Any, places: np.ndarray) -> Any:
            return None if value is None else value[places]

        return Decoding(
            self.labels[rows],
            of(self.upper, blocks),
            of(self.levels, rows),
            of(self.fractions, rows),
            of(self.features, blocks),
            of(self.scale, blocks),
        )


@dataclass(frozen=True)
class LabelFunctions:
    """Function of each label: its score is ``signs[k] f(., outputs[k])``.

    - `outputs` (n_labels,): index of the function
    - `signs` (n_labels,): factor of the function; 0 for a label with the score 0
    """

    outputs: np.ndarray
    signs: np.ndarray

    @classmethod
    def one_each(cls, n_labels: int) -> LabelFunctions:
        """Return one function per label."""
        return cls(np.arange(n_labels), np.ones(n_labels))

    @property
    def n_outputs(self) -> int:
        """Number of functions."""
        return int(self.outputs.max()) + 1

    def __len__(self) -> int:
        return len(self.outputs)

    @property
    def are_one_each(self) -> bool:
        """True if label k has function k with the sign 1."""
        return bool(np.array_equal(self.outputs, np.arange(len(self))) and np.all(self.signs == 1.0))

    def scores(self, values: np.ndarray) -> np.ndarray:
        """Return the labels' scores for values of the functions, along the last axis."""
        if values.shape[-1] == len(self) and np.all(self.signs == 1.0):
            return values
        scores = np.zeros((*values.shape[:-1], len(self)), dtype=values.dtype)
        for label, (output, sign) in enumerate(zip(self.outputs, self.signs, strict=True)):
            if sign != 0:
                scores[..., label] = values[..., output] if sign == 1.0 else sign * values[..., output]
        return scores

    def sizes(self, sizes: np.ndarray) -> np.ndarray:
        """Return bounds of the labels' absolute scores from those of the functions.

        Both are along the last axis.
        """
        return sizes[..., self.outputs] * np.abs(self.signs)

    def tables(self, table: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Return weights (m, d) of some labels, from (n_outputs, d) of the functions."""
        signs = self.signs[labels]
        weights = table[self.outputs[labels]]
        return weights if np.all(signs == 1.0) else weights * signs[:, None]


@dataclass(frozen=True)
class Competitors:
    """True labels c and costs D in ``G (f_k(z) - f_c(z)) + D rho(x, z)``.

    - `functions`: function and sign of each label
    - `codes` (n,): true labels c
    - `costs` (n, n_labels): cost D of each label k; 0 for the true one
    - `slack`: true for G = D, False for G = 1
    - `alone`: true if each row is an example whose loss needs only the largest sum over labels
    """

    functions: LabelFunctions
    codes: np.ndarray
    costs: np.ndarray
    slack: bool
    alone: bool = False

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return len(self.functions)

    def take(self, rows: Rows) -> Competitors:
        """Return the competitors of some of the rows."""
        return replace(self, codes=self.codes[rows], costs=self.costs[rows])

    def cost_of(self, labels: np.ndarray) -> np.ndarray:
        """Return the cost of one label per row, (n,)."""
        return np.take_along_axis(self.costs, labels[:, None], axis=1)[:, 0]

    def factors(self, labels: np.ndarray) -> np.ndarray:
        """Return the factor G of one label per row; 0 for the true one."""
        return self.cost_of(labels) if self.slack else (labels != self.codes).astype(np.float64)

    def pairs(self, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the distinct pairs of a true label and the given label of a row.

        Returns `own, other` (n_pairs,), `assign` (n,).
        """
        n_labels = self.n_labels
        shifts = (labels - self.codes) % n_labels
        if len(labels) >= n_labels and np.all(shifts == shifts[0]):
            own = np.flatnonzero(np.bincount(self.codes, minlength=n_labels))
            assign = self.codes
            if len(own) < n_labels:
                assign = np.searchsorted(own, self.codes)
            return own, (own + shifts[0]) % n_labels, assign
        pairs, assign = np.unique(n_labels * self.codes + labels, return_inverse=True)
        own, other = np.divmod(pairs, n_labels)
        return own, other, assign

    def facing(self, table: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the weights of the given and the true label of each pair.

        Shapes: `table` (n_outputs, d), `labels` (n,); returns `theirs, own` (n_pairs, d), `assign` (n,).
        """
        own, other, assign = self.pairs(labels)
        return self.functions.tables(table, other), self.functions.tables(table, own), assign

    def gain_of(self, scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Return ``G (f_k - f_c)`` of one label per row, from values (n, n_outputs)."""
        every, outputs, signs = np.arange(len(self)), self.functions.outputs, self.functions.signs
        theirs, true_scores = (
            scores[every, outputs[each]] * signs[each] for each in (labels, self.codes)
        )
        return self.factors(labels) * (theirs - true_scores)

    def normals(self, labels: np.ndarray) -> np.ndarray:
        """Return the factors of each row in the normal of its plane, (n, n_outputs)."""
        factors = self.factors(labels)
        outputs, signs = self.functions.outputs, self.functions.signs
        if self.functions.n_outputs == 1:
            return (factors * (signs[self.codes] - signs[labels]))[:, None]
        coefficients = np.zeros((len(self), self.functions.n_outputs))
        every = np.arange(len(self))
        coefficients[every, outputs[self.codes]] += factors * signs[self.codes]
        coefficients[every, outputs[labels]] -= factors * signs[labels]
        return coefficients
