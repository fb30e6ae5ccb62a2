"""Label sets: each row has or lacks several labels, with optional pair weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree
from sklearn.base import clone

from ..utils.jit import LEAN, njit
from ..utils.matrices import Matrix
from .base import Structure
from .competitors import LabelFunctions
from .decodings import Decoding, Layout
from .example_blocks import Reader, check_no_mask, kind_of


class Multilabel(Structure):
    """Set of labels for each row, with optional weights for pairs in a tree.

    The score of a set of labels y in {0, 1}^L at a row x is::

        sum over t of y_t f(x, t) + sum over edges (s, t) of A_st[y_s, y_t]

    An absent label has the score 0. Without a tree and perturbations, and with the Hamming cost, the
    objective is the sum of L separate ``LinearSVC(loss="hinge", fit_intercept=False)``.

    The tree is the spanning tree with the largest sum of mutual information in the training labels (Chow
    and Liu 1968). Each edge has a table of four weights, one for each pair of label values. All four are
    penalized equally. They sum to zero at the optimum, because every set has one of the four. The tables
    also give each label a constant, without a constant feature.

    X is a matrix with one row per example. `y` is an indicator matrix of shape (n, L): 0 for absent and
    1 for present labels. An example has L positions, one per label. A perturbation of the row is common
    to all positions. Inference is exact. `named` returns the tables as "pairs", of shape (L - 1, 2, 2).

    Parameters
    ----------
    edges : None or "tree", default=None
        Pairs of labels with a table of weights: no pairs, or the edges of a tree. Set it to "tree" if
        labels depend on each other.

    Attributes
    ----------
    edges_ : ndarray of int of shape (L - 1, 2)
        Edges (s, t) of the tree, in the order of the tables. In the tree, s is nearer to label 0 than t.
        `prepared` sets it if `edges` is "tree".

    See Also
    --------
    Multiclass : One of several labels per row.

    References
    ----------
    Chow, Liu: Approximating discrete probability distributions with dependence trees, IEEE Transactions
    on Information Theory 14 (1968).

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.structures import Layout, Multilabel
    >>> structure, rows = Multilabel("tree"), Layout.of_rows(4)
    >>> codes = structure.read_labels([[1, 1, 0], [0, 0, 1], [1, 1, 1], [0, 0, 0]], rows)
    >>> layout = structure.positions(rows, len(codes))
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

    def __init__(self, edges: str | None = None) -> None:
        self.edges = edges

    def read(self, X: Any, reader: Reader) -> tuple[Matrix, Layout]:
        _check_matrix(X)
        rows = reader.matrix(X)
        return rows, Layout.of_rows(rows.shape[0])

    def read_labels(self, y: Any, layout: Layout) -> np.ndarray:
        labels, by_position = positions(y)
        if len(by_position) != len(layout):
            raise ValueError(
                f"y must have labels for each of {len(layout)} rows, got {len(by_position)}"
            )
        return labels

    def positions(self, layout: Layout, n_positions: int) -> Layout:
        return Layout.of_lengths([n_positions // len(layout)] * len(layout))

    def written_rows(self, rows: Matrix, layout: Layout) -> Matrix:
        return rows

    def written(self, labels: np.ndarray, layout: Layout) -> np.ndarray:
        return labels.reshape(len(layout), -1)

    def check_classes(self, classes: np.ndarray) -> None:
        if len(classes) != 2:
            raise ValueError(
                f"Multilabel requires the classes 0 (absent) and 1 (present), got {classes}"
            )

    def functions(self, n_labels: int) -> LabelFunctions:
        return LabelFunctions(np.zeros(2, dtype=np.int64), np.array([0.0, 1.0]))

    def prepared(
        self, classes: np.ndarray | None, codes: np.ndarray, layout: Layout | None
    ) -> Structure:
        self._check()
        if self.edges is None or self.edges_ is not None:
            return self
        if layout is None or len(layout) == 0 or np.ptp(layout.lengths) > 0:
            raise ValueError("Multilabel('tree') requires the same number of labels in all rows")
        return self._with_tree(pair_counts(codes.reshape(len(layout), -1)), len(layout))

    def _check(self) -> None:
        if self.edges not in (None, "tree"):
            raise ValueError(f"edges must be None or 'tree', got {self.edges!r}")

    def _with_tree(self, counts: np.ndarray, n_rows: int) -> Multilabel:
        prepared = clone(self)
        prepared.edges_ = tree_of_counts(counts, n_rows)
        return prepared

    def summary(self, labels: np.ndarray, layout: Layout) -> tuple[np.ndarray, int] | None:
        if self.edges is None:
            return None
        return pair_counts(labels.reshape(len(layout), -1)), len(layout)

    def prepared_by(self, classes: np.ndarray, summaries: Sequence[Any]) -> Structure:
        self._check()
        if self.edges is None or self.edges_ is not None:
            return self
        return self._with_tree(sum(each for each, _ in summaries), sum(n for _, n in summaries))

    def _edges(self) -> np.ndarray:
        if self.edges is None:
            return np.zeros((0, 2), dtype=np.int64)
        if self.edges_ is None:
            raise ValueError("Multilabel('tree') has no tree: call prepared with the training labels")
        return self.edges_

    def n_pairwise(self, n_labels: int) -> int:
        return 4 * len(self._edges())

    def named(self, pairwise: np.ndarray, n_labels: int) -> dict[str, np.ndarray]:
        return {} if self.edges is None else {"pairs": pairwise.reshape(-1, 2, 2)}

    def features(self, labels: np.ndarray, layout: Layout, n_labels: int) -> sp.csr_matrix:
        edges = self._edges()
        shape = (len(layout), 4 * len(edges))
        if not len(edges):
            return sp.csr_matrix(shape)
        table = labels.reshape(len(layout), -1)
        columns = 4 * np.arange(len(edges)) + 2 * table[:, edges[:, 0]] + table[:, edges[:, 1]]
        starts = len(edges) * np.arange(len(layout) + 1)
        return sp.csr_matrix((np.ones(columns.size), columns.ravel(), starts), shape)

    def decode(self, potentials: np.ndarray, pairwise: np.ndarray, layout: Layout) -> Decoding:
        if self.edges is None:
            return Decoding(np.argmax(potentials, axis=1))
        codes = np.zeros(len(potentials), dtype=np.int64)
        return Decoding(self._dynamic_program(potentials, pairwise, layout, codes, 0, 0)[0])

    def runner_up(
        self, potentials: np.ndarray, codes: np.ndarray, pairwise: np.ndarray, layout: Layout
    ) -> Decoding:
        labels, best_scores = self._dynamic_program(potentials, pairwise, layout, codes, 1, 1)
        return Decoding(labels, best_scores[:, 1])

    def best_by_wrong(
        self, potentials: np.ndarray, codes: np.ndarray, pairwise: np.ndarray, layout: Layout
    ) -> np.ndarray:
        most = int(layout.lengths.max(initial=0))
        return self._dynamic_program(potentials, pairwise, layout, codes, most, 0)[1]

    def _dynamic_program(
        self,
        potentials: np.ndarray,
        pairwise: np.ndarray,
        layout: Layout,
        codes: np.ndarray,
        most: int,
        least: int,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the best labeling with at least `least` wrong positions, and scores.

        The scores are the best ones by the number of wrong positions, up to `most` or more.
        """
        edges = self._edges()
        labels = codes.astype(np.int64)
        best_scores = np.full((len(layout), most + 1), -np.inf)
        tables = np.asarray(pairwise, dtype=np.float64).reshape(len(edges), 2, 2)
        own = np.ascontiguousarray(potentials, dtype=np.float64)
        longest, n_labels = int(layout.lengths.max(initial=0)), own.shape[1]
        space = np.empty((longest, n_labels, most + 1)), np.empty((3, most + 1))
        notes = np.zeros((3, longest, n_labels, most + 1), dtype=np.int64)
        places = np.zeros((2, longest), dtype=np.int64)
        _best_by_wrong(
            own, edges, tables, layout.starts, codes, least, *space, *notes, *places, labels, best_scores
        )
        return labels, best_scores


def _check_matrix(X: Any) -> None:
    """Raise TypeError or ValueError with advice unless X has two dimensions."""
    try:
        n_dimensions = np.ndim(X)
        table = n_dimensions == 2 and (hasattr(X, "shape") or np.asarray(X).dtype.kind not in "USO")
    except ValueError:
        n_dimensions, table = 0, False
    if table:
        return
    message = (
        f"X must be a matrix (n, n_features) for Multilabel, one row per example, got {kind_of(X)}: "
        "pass a single row as [x]; use Sequence or Graph for examples of several labeled rows"
    )
    raise ValueError(message) if isinstance(X, np.ndarray) else TypeError(message)


def positions(y: Any) -> tuple[np.ndarray, Layout]:
    """Return the labels of positions, and their layout, from an indicator matrix.

    Shapes: `y` (n, L); returns `labels` (n * L,).
    """
    if sp.issparse(y):
        raise TypeError(f"y must be an array of 0 and 1, got {type(y).__name__}: call toarray()")
    check_no_mask("y", y)
    try:
        table = np.asarray(y)
    except ValueError as error:
        raise ValueError(f"y must have shape (n, L), one column per label: {error}") from None
    if table.ndim != 2 or table.shape[1] == 0 or len(table) == 0:
        raise ValueError(
            "y must have shape (n, L), one column per label, with at least one row and one column, got "
            f"{table.shape}"
        )
    if table.dtype.kind not in "biuf":
        raise TypeError(f"y must contain 0 (absent) and 1 (present), got dtype {table.dtype}")
    wrong = (table != 0) & (table != 1)
    if np.any(wrong):
        row, label = np.argwhere(wrong)[0]
        raise ValueError(
            f"y must contain 0 (absent) and 1 (present), got {table[row, label].item()!r} in row {row}, "
            f"column {label}"
        )
    return table.astype(np.int64).ravel(), Layout.of_lengths([table.shape[1]] * len(table))


def pair_counts(labels: np.ndarray) -> np.ndarray:
    """Count the rows in which both columns of a pair are 1, (L, L).

    The diagonal counts the ones of each column.

    Shapes: `labels` (n, L).
    """
    present = labels.astype(np.float64)
    return present.T @ present


def mutual_information(counts: np.ndarray, n_rows: int) -> np.ndarray:
    """Return the mutual information of each pair of binary columns, in nats, (L, L).

    Shapes: `counts` (L, L).
    """
    ones = np.diag(counts)
    # Counts by the value of the first column, then of the second.
    tables = [
        [n_rows - ones[:, None] - ones + counts, ones - counts],
        [ones[:, None] - counts, counts],
    ]
    frequencies = [(n_rows - ones) / n_rows, ones / n_rows]
    information = np.zeros(counts.shape)
    for first, row in zip(frequencies, tables, strict=True):
        for second, table in zip(frequencies, row, strict=True):
            joint, ratio = table / n_rows, np.ones(counts.shape)
            np.divide(joint, np.outer(first, second), out=ratio, where=joint > 0)
            information += joint * np.log(ratio)
    return information


def tree_of_counts(counts: np.ndarray, n_rows: int) -> np.ndarray:
    """Return the tree of largest mutual information (Chow and Liu 1968), (L - 1, 2).

    `counts` are those of pairs of labels in `n_rows` rows.
    """
    information = mutual_information(counts, n_rows)
    # Positive lengths, because SciPy interprets a length of 0 as a missing edge.
    lengths = 1.0 + information.max() - information
    np.fill_diagonal(lengths, 0.0)
    tree = minimum_spanning_tree(lengths)
    order, before = breadth_first_order(tree, 0, directed=False)
    return np.column_stack([before[order[1:]], order[1:]]).astype(np.int64)


@njit(**LEAN)
def _best_by_wrong(
    potentials, edges, tables, starts, codes, least, best, sums, chosen, share, rest, child, count,
    labels, best_scores,
):  # fmt: skip
    """Compute the best scores of every example by the number of wrong positions.

    Edges lead from a parent to a child, and those of the child come later. Positions without a parent
    are separate trees. The labeling is the best one with at least `least` wrong positions.

    `best`, of shape (longest, n_labels, most + 1), has scores by position, label, and number of wrong
    positions in the subtree. `chosen`, `share` and `rest` have the back-pointers of a position with a
    parent. `chosen` is its label, given the label of the parent. `share` and `rest` are the numbers of
    wrong positions in its subtree and in the parent's earlier part, given their sum. `sums` has three
    rows. `child` and `count`, of shape (longest,), are zeros.
    """
    n_labels, most = potentials.shape[1], best_scores.shape[1] - 1
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
            best_scores[b, c] = total[c]
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


@njit(**LEAN)
def _join(above, message, joined, share, rest):
    """Add messages to the best sums by the joint number of wrong positions.

    `share` and `rest` receive the number of each part.
    """
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
