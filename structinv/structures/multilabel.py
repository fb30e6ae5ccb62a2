"""Sets of labels: every row has or lacks each of several labels, which may hang together in a tree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree
from sklearn.base import clone

from ..utils.jit import njit
from ..utils.matrices import Matrix
from .base import Structure
from .competitors import LabelFunctions
from .decodings import Decoding
from .example_blocks import Reader, check_no_mask, kind_of
from .layout import Layout


class Multilabel(Structure):
    """Each of L labels, one or more, is present in a row or absent; they may hang together in a tree.

    The score of a set of labels y in {0, 1}^L at a row x is

        sum over t of y_t f(x, t) + sum over edges (s, t) of A_st[y_s, y_t]

    A label that is absent scores 0, so that without a tree, without changes and with the Hamming cost
    the objective is the sum of those of L separate ``LinearSVC(loss="hinge", fit_intercept=False)``.
    The tree is that of Chow and Liu (1968): the spanning tree of all labels with the largest sum of
    mutual information in the training labels. A table has all four entries: no pair of labels is
    penalized in another way than the others, and labels have constants of their own without a constant
    feature. Entries of a table sum to zero at the optimum, since every set has one of the four.

    An example is one row with L positions, one a label, each of two labels, 0 for absent and 1 for
    present. The row changes once for all of them.

    Parameters
    ----------
    pairwise : None or "tree", default=None
        Which pairs of labels have a table.

    Attributes
    ----------
    edges_ : (L - 1, 2) array of int
        The pairs (s, t) of the tree, s nearer to label 0 than t, in the order of the tables. Only of a
        tree, and only of a structure that has been `prepared`.

    References
    ----------
    Chow, Liu: Approximating discrete probability distributions with dependence trees, IEEE Transactions
    on Information Theory 14 (1968).

    Examples
    --------
    >>> import numpy as np
    >>> structure = Multilabel("tree")
    >>> codes, layout = positions(np.array([[1, 1, 0], [0, 0, 1], [1, 1, 1], [0, 0, 0]]))
    >>> learned = structure.prepared(np.arange(2), codes, layout)
    >>> learned.edges_[0]
    array([0, 1])
    >>> pairwise = np.zeros(8)
    >>> pairwise[3] = 1.0  # labels 0 and 1 are both present
    >>> potentials = np.array([[0.0, 0.5], [0.0, -0.7], [0.0, -1.0]])
    >>> learned.decode(potentials, pairwise, layout.take([0])).labels
    array([1, 1, 0])
    """

    term = "one_change"
    one_row = True
    edges_: np.ndarray | None = None

    def __init__(self, pairwise: str | None = None) -> None:
        self.pairwise = pairwise

    def read(self, X: Any, reader: Reader) -> tuple[Matrix, Layout]:
        """See `Structure.read`; X is a matrix, with a row for each example."""
        _check_matrix(X)
        rows = reader.matrix(X)
        return rows, Layout.of_rows(rows.shape[0])

    def read_labels(self, y: Any, layout: Layout) -> np.ndarray:
        """See `Structure.read_labels`; y is a table of 0 and 1, (n, L)."""
        labels, own = positions(y)
        if len(own) != len(layout):
            raise ValueError(f"y must have labels for each of {len(layout)} rows, got {len(own)}")
        return labels

    def positions(self, layout: Layout, n_positions: int) -> Layout:
        """See `Structure.positions`; as many for every row."""
        return Layout.of_lengths([n_positions // len(layout)] * len(layout))

    def written_rows(self, rows: Matrix, layout: Layout) -> Matrix:
        """See `Structure.written_rows`; a matrix."""
        return rows

    def written(self, labels: np.ndarray, layout: Layout) -> np.ndarray:
        """See `Structure.written`; a table of 0 and 1, (n, L)."""
        return labels.reshape(len(layout), -1)

    def check_classes(self, classes: np.ndarray) -> None:
        """Raise ValueError unless there are two classes, absent and present."""
        if len(classes) != 2:
            raise ValueError(f"Multilabel needs the classes 0 (absent) and 1 (present), got {classes}")

    def functions(self, n_labels: int) -> LabelFunctions:
        """See `Structure.functions`: of a position's own function; an absent label scores 0."""
        return LabelFunctions(np.zeros(2, dtype=np.int64), np.array([0.0, 1.0]))

    def prepared(
        self, classes: np.ndarray | None, codes: np.ndarray, layout: Layout | None
    ) -> Structure:
        """See `Structure.prepared`: learns the tree.

        Raises
        ------
        ValueError
            If `pairwise` is something else, or examples have not all as many positions.
        """
        self._check()
        if self.pairwise is None or self.edges_ is not None:
            return self
        if layout is None or len(layout) == 0 or np.ptp(layout.lengths) > 0:
            raise ValueError("Multilabel('tree') needs the same labels for all rows")
        return self._with_tree(pair_counts(codes.reshape(len(layout), -1)), len(layout))

    def _check(self) -> None:
        if self.pairwise not in (None, "tree"):
            raise ValueError(f"pairwise must be None or 'tree', got {self.pairwise!r}")

    def _with_tree(self, counts: np.ndarray, n_rows: int) -> Multilabel:
        own = clone(self)
        own.edges_ = tree_of_counts(counts, n_rows)
        return own

    def summary(self, labels: np.ndarray, layout: Layout) -> tuple[np.ndarray, int] | None:
        """See `Structure.summary`: how often both labels of a pair are present, and the rows."""
        if self.pairwise is None:
            return None
        return pair_counts(labels.reshape(len(layout), -1)), len(layout)

    def prepared_by(self, classes: np.ndarray, summaries: Sequence[Any]) -> Structure:
        """See `Structure.prepared_by`: learns the tree."""
        self._check()
        if self.pairwise is None or self.edges_ is not None:
            return self
        return self._with_tree(sum(each for each, _ in summaries), sum(n for _, n in summaries))

    def _edges(self) -> np.ndarray:
        if self.pairwise is None:
            return np.zeros((0, 2), dtype=np.int64)
        if self.edges_ is None:
            raise ValueError("Multilabel('tree') knows its tree only once it is prepared with labels")
        return self.edges_

    def n_pairwise(self, n_labels: int) -> int:
        """See `Structure.n_pairwise`: four for each edge."""
        return 4 * len(self._edges())

    def named(self, pairwise: np.ndarray, n_labels: int) -> dict[str, np.ndarray]:
        """See `Structure.named`: "pairs", (L - 1, 2, 2), by edge and by the labels of its two ends."""
        return {} if self.pairwise is None else {"pairs": pairwise.reshape(-1, 2, 2)}

    def features(self, labels: np.ndarray, layout: Layout, n_labels: int) -> sp.csr_matrix:
        """See `Structure.features`: which entry of each edge's table a set has."""
        edges = self._edges()
        shape = (len(layout), 4 * len(edges))
        if not len(edges):
            return sp.csr_matrix(shape)
        table = labels.reshape(len(layout), -1)
        columns = 4 * np.arange(len(edges)) + 2 * table[:, edges[:, 0]] + table[:, edges[:, 1]]
        starts = len(edges) * np.arange(len(layout) + 1)
        return sp.csr_matrix((np.ones(columns.size), columns.ravel(), starts), shape)

    def decode(self, potentials: np.ndarray, pairwise: np.ndarray, layout: Layout) -> Decoding:
        """See `Structure.decode`; exact."""
        if self.pairwise is None:
            return Decoding(np.argmax(potentials, axis=1))
        codes = np.zeros(len(potentials), dtype=np.int64)
        return Decoding(self._program(potentials, pairwise, layout, codes, 0, 0)[0])

    def runner_up(
        self, potentials: np.ndarray, codes: np.ndarray, pairwise: np.ndarray, layout: Layout
    ) -> Decoding:
        """See `Structure.runner_up`; exact."""
        labels, heights = self._program(potentials, pairwise, layout, codes, 1, 1)
        return Decoding(labels, heights[:, 1])

    def best_by_wrong(
        self, potentials: np.ndarray, codes: np.ndarray, pairwise: np.ndarray, layout: Layout
    ) -> np.ndarray:
        """See `Structure.best_by_wrong`; exact."""
        most = int(layout.lengths.max(initial=0))
        return self._program(potentials, pairwise, layout, codes, most, 0)[1]

    def _program(
        self,
        potentials: np.ndarray,
        pairwise: np.ndarray,
        layout: Layout,
        codes: np.ndarray,
        most: int,
        least: int,
    ) -> tuple[np.ndarray, np.ndarray]:
        """The best labeling with at least so many wrong positions, and the best scores by their number.

        Numbers from `most` on count as one.
        """
        edges = self._edges()
        labels = codes.astype(np.int64)
        heights = np.full((len(layout), most + 1), -np.inf)
        tables = np.asarray(pairwise, dtype=np.float64).reshape(len(edges), 2, 2)
        own = np.ascontiguousarray(potentials, dtype=np.float64)
        longest, n_labels = int(layout.lengths.max(initial=0)), own.shape[1]
        room = np.empty((longest, n_labels, most + 1)), np.empty((3, most + 1))
        notes = np.zeros((3, longest, n_labels, most + 1), dtype=np.int64)
        places = np.zeros((2, longest), dtype=np.int64)
        _best_by_wrong(
            own, edges, tables, layout.starts, codes, least, *room, *notes, *places, labels, heights
        )
        return labels, heights


def _check_matrix(X: Any) -> None:
    """Raise TypeError or ValueError, saying what to give, unless X has two dimensions."""
    try:
        n_dimensions = np.ndim(X)
        table = n_dimensions == 2 and (hasattr(X, "shape") or np.asarray(X).dtype.kind not in "USO")
    except ValueError:
        n_dimensions, table = 0, False
    if table:
        return
    message = (
        f"X must be a matrix (n, n_features) for Multilabel, a row for each example, got {kind_of(X)}: "
        "a single row is given as [x]; examples of several rows, with a label each, are for Sequence "
        "and Graph"
    )
    raise ValueError(message) if isinstance(X, np.ndarray) else TypeError(message)


def positions(y: Any) -> tuple[np.ndarray, Layout]:
    """The labels of positions, one row after the other, and their layout, from a table of 0 and 1.

    Parameters
    ----------
    y : (n, L) array-like of 0 and 1

    Returns
    -------
    labels : (n * L,) array of int
    layout : Layout

    Raises
    ------
    TypeError, ValueError
        If it is no such table; the message says why not.
    """
    if sp.issparse(y):
        raise TypeError(f"y must be an array of 0 and 1, got {type(y).__name__}: call toarray()")
    check_no_mask("y", y)
    try:
        table = np.asarray(y)
    except ValueError as error:
        raise ValueError(f"y must have shape (n, L), one column a label: {error}") from None
    if table.ndim != 2 or table.shape[1] == 0 or len(table) == 0:
        raise ValueError(
            "y must have shape (n, L), one column a label, with at least one row and L at least 1, got "
            f"{table.shape}"
        )
    if table.dtype.kind not in "biuf":
        raise TypeError(f"y must hold 0 (absent) and 1 (present), got dtype {table.dtype}")
    wrong = (table != 0) & (table != 1)
    if np.any(wrong):
        row, label = np.argwhere(wrong)[0]
        raise ValueError(
            f"y must hold 0 (absent) and 1 (present), got {table[row, label].item()!r} in row {row}, "
            f"column {label}"
        )
    return table.astype(np.int64).ravel(), Layout.of_lengths([table.shape[1]] * len(table))


def pair_counts(labels: np.ndarray) -> np.ndarray:
    """In how many rows both columns of a pair are 1, (L, L); a column with itself counts its own.

    Parameters
    ----------
    labels : (n, L) array of int
        0 and 1.
    """
    present = labels.astype(np.float64)
    return present.T @ present


def mutual_information(counts: np.ndarray, n_rows: int) -> np.ndarray:
    """Mutual information of each pair of columns of 0 and 1, in nats, (L, L).

    Parameters
    ----------
    counts : (L, L) array
        See `pair_counts`.
    n_rows : int
    """
    own = np.diag(counts)
    # By whether the first is present, then by whether the second is.
    tables = [
        [n_rows - own[:, None] - own + counts, own - counts],
        [own[:, None] - counts, counts],
    ]
    shares = [(n_rows - own) / n_rows, own / n_rows]
    shared = np.zeros(counts.shape)
    for one, row in zip(shares, tables, strict=True):
        for other, table in zip(shares, row, strict=True):
            joint, ratio = table / n_rows, np.ones(counts.shape)
            np.divide(joint, np.outer(one, other), out=ratio, where=joint > 0)
            shared += joint * np.log(ratio)
    return shared


def tree_of(labels: np.ndarray) -> np.ndarray:
    """The spanning tree of largest mutual information (Chow and Liu, 1968), (L - 1, 2).

    Parameters
    ----------
    labels : (n, L) array of int
        0 and 1.

    Returns
    -------
    (L - 1, 2) array of int
        Pairs, the end nearer to column 0 first, those near to it before those far off.
    """
    return tree_of_counts(pair_counts(labels), len(labels))


def tree_of_counts(counts: np.ndarray, n_rows: int) -> np.ndarray:
    """`tree_of` by the counts of pairs in so many rows."""
    shared = mutual_information(counts, n_rows)
    # Positive lengths: a length of 0 would be no edge.
    lengths = 1.0 + shared.max() - shared
    np.fill_diagonal(lengths, 0.0)
    tree = minimum_spanning_tree(lengths)
    order, before = breadth_first_order(tree, 0, directed=False)
    return np.column_stack([before[order[1:]], order[1:]]).astype(np.int64)


@njit(cache=True, nogil=True)
def _best_by_wrong(
    potentials, edges, tables, starts, codes, least, best, sums, chosen, share, rest, child, count,
    labels, heights,
):  # fmt: skip
    """For every example the best scores by the number of positions that differ from the codes.

    Edges lead from a parent to a child, those of the child come later; positions without a parent
    stand side by side. The labeling is the best of those with at least `least` wrong positions.

    `best`, (longest, n_labels, most + 1), are scores by a position, its label and the number of wrong
    ones from it on down. Of a position that is joined to its parent `chosen` says its label by that of
    the parent, `share` and `rest` how many wrong ones it and the parent's part so far had, by what they
    have together. `sums` has three rows, `child` and `count`, (longest,), are zeros.
    """
    n_labels, most = potentials.shape[1], heights.shape[1] - 1
    message, joined, total = sums[0], sums[1], sums[2]
    for e in range(len(edges)):
        child[edges[e, 1]] = 1
    for b in range(len(starts) - 1):
        first, size = starts[b], starts[b + 1] - starts[b]
        for t in range(size):
            for k in range(n_labels):
                for c in range(most + 1):
                    best[t, k, c] = -np.inf
                best[t, k, 1 if k != codes[first + t] and most > 0 else 0] = potentials[first + t, k]
        for e in range(len(edges) - 1, -1, -1):
            s, t = edges[e, 0], edges[e, 1]
            for k in range(n_labels):
                for c in range(most + 1):
                    highest, label = -np.inf, 0
                    for j in range(n_labels):
                        value = best[t, j, c] + tables[e, k, j]
                        if value > highest:
                            highest, label = value, j
                    message[c], chosen[t, k, c] = highest, label
                _join(best[s, k], message, joined, share[t, k], rest[t, k])
        for c in range(most + 1):
            total[c] = -np.inf if c > 0 else 0.0
        for t in range(size):
            if child[t] != 0:
                continue
            for c in range(most + 1):
                highest, label = -np.inf, 0
                for j in range(n_labels):
                    if best[t, j, c] > highest:
                        highest, label = best[t, j, c], j
                message[c], chosen[t, 0, c] = highest, label
            _join(total, message, joined, share[t, 0], rest[t, 0])
        wrong = least
        for c in range(most + 1):
            heights[b, c] = total[c]
            if c > least and total[c] > total[wrong]:
                wrong = c
        if total[wrong] == -np.inf:
            continue
        for t in range(size - 1, -1, -1):
            if child[t] == 0:
                count[t] = share[t, 0, wrong]
                labels[first + t] = chosen[t, 0, count[t]]
                wrong = rest[t, 0, wrong]
        for e in range(len(edges)):
            s, t = edges[e, 0], edges[e, 1]
            k = labels[first + s]
            count[t] = share[t, k, count[s]]
            count[s] = rest[t, k, count[s]]
            labels[first + t] = chosen[t, k, count[t]]


@njit(cache=True, nogil=True)
def _join(above, message, joined, share, rest):
    """Add messages to the best sums, by the number of wrong positions of both; and how many each had."""
    most = len(joined) - 1
    for c in range(most + 1):
        joined[c], share[c], rest[c] = -np.inf, 0, 0
    for a in range(most + 1):
        if above[a] == -np.inf:
            continue
        own = above[a]
        for c in range(most + 1):
            value, together = own + message[c], a + c if a + c < most else most
            if value > joined[together]:
                joined[together], share[together], rest[together] = value, c, a
    for c in range(most + 1):
        above[c] = joined[c]
