"""Sequences of labels with transition weights; the best labeling is exact."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from ..utils.jit import LEAN, njit
from .base import Structure
from .decodings import Decoding, Layout


class Sequence(Structure):
    """Chain of labels with weights for transitions, first and last labels.

    The score of a labeling y of an example with rows x_1 to x_T is::

        sum over t of f(x_t, y_t) + sum over t > 1 of A[y_(t-1), y_t] + a[y_1] + e[y_T]

    The pairwise weights are A (flat), then a, then e. `named` returns them as "transitions", of shape
    (n_labels, n_labels), "start" and "end". `decode`, `runner_up` and `best_by_wrong` are
    exact dynamic programs; `decode` is the Viterbi algorithm (1967).

    Parameters
    ----------
    allowed : set of (from, to) pairs of labels, or "iob2", optional
        Allowed transitions; all by default. "iob2" requires labels "O", "B-x" and "I-x". It allows I-x
        only after B-x or I-x, and not as the first label. Pairs with labels outside the training data
        are ignored.

    Attributes
    ----------
    follows_ : ndarray of bool of shape (n_labels + 1, n_labels)
        Allowed transitions from each label (row) to each label (column). The last row has the allowed
        first labels. `prepared` sets it if `allowed` is given.

    See Also
    --------
    Graph : Graph of labels, for trees, grids and other neighborhoods.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.structures import Layout, Sequence
    >>> potentials = np.array([[1.0, 0.0], [0.0, 0.1], [1.0, 0.0]])
    >>> layout, pairwise = Layout.of_lengths([3]), np.zeros(8)
    >>> Sequence().decode(potentials, pairwise, layout).labels
    array([0, 1, 0])
    >>> pairwise[1] = -1.0  # from label 0 to label 1
    >>> Sequence().decode(potentials, pairwise, layout).labels
    array([0, 0, 0])
    """

    budgets = True
    follows_: np.ndarray | None = None

    def __init__(self, allowed: Any = None) -> None:
        self.allowed = allowed

    def prepared(
        self, classes: np.ndarray | None, codes: np.ndarray, layout: Layout | None
    ) -> Structure:
        return self if classes is None else self.prepared_by(classes, ())

    def prepared_by(self, classes: np.ndarray, summaries: Collection[Any]) -> Structure:
        if self.allowed is None or self.follows_ is not None:
            return self
        pairs = _pairs_of_labels(self.allowed)
        prepared = clone(self)
        prepared.follows_ = _iob2(classes) if pairs is None else _listed(classes, pairs)
        _check_any_length(prepared.follows_, self.allowed)
        return prepared

    def allows(self, labels: np.ndarray, layout: Layout, n_labels: int) -> np.ndarray:
        if self.follows_ is None:
            return super().allows(labels, layout, n_labels)
        before = np.r_[n_labels, labels[:-1]]
        before[layout.starts[:-1]] = n_labels
        return layout.sums(~self.follows_[before, labels]) == 0

    def n_pairwise(self, n_labels: int) -> int:
        return n_labels * (n_labels + 2)

    def named(self, pairwise: np.ndarray, n_labels: int) -> dict[str, np.ndarray]:
        table = pairwise.reshape(n_labels + 2, n_labels)
        return {"transitions": table[:-2], "start": table[-2], "end": table[-1]}

    def _links(self, pairwise: np.ndarray, n_labels: int) -> np.ndarray:
        """Return the rows of A, then a and e, with minus infinity for transitions not allowed."""
        links = np.array(pairwise, dtype=np.float64).reshape(n_labels + 2, n_labels)
        if self.follows_ is not None:
            links[:-1][~self.follows_] = -np.inf
        return links

    def decode(self, potentials: np.ndarray, pairwise: np.ndarray, layout: Layout) -> Decoding:
        if potentials.ndim == 3:
            codes = np.zeros(len(potentials), dtype=np.int64)
            return self._counted(potentials, codes, 0, pairwise, layout)[0]
        own = np.ascontiguousarray(potentials, dtype=np.float64)
        links = self._links(pairwise, own.shape[1])
        best_scores = np.empty((int(layout.lengths.max(initial=1)), own.shape[1]))
        labels = np.zeros(len(own), dtype=np.int64)
        best_labels(own, links, layout.starts, best_scores, labels)
        return Decoding(labels)

    def runner_up(
        self, potentials: np.ndarray, codes: np.ndarray, pairwise: np.ndarray, layout: Layout
    ) -> Decoding:
        return self._counted(potentials, codes, 1, pairwise, layout)[0]

    def best_by_wrong(
        self, potentials: np.ndarray, codes: np.ndarray, pairwise: np.ndarray, layout: Layout
    ) -> np.ndarray:
        longest = int(layout.lengths.max())
        return self._counted(potentials, codes, longest, pairwise, layout, trace=False)[1]

    def _counted(
        self,
        potentials: np.ndarray,
        codes: np.ndarray,
        most: int,
        pairwise: np.ndarray,
        layout: Layout,
        trace: bool = True,
    ) -> tuple[Decoding, np.ndarray]:
        """Return the best labeling of each example with at least `most` wrong labels.

        Also return the best scores by the number of wrong labels, (n_blocks, most + 1). The last column
        is for `most` or more.
        """
        links = self._links(pairwise, potentials.shape[1])
        table = np.ascontiguousarray(potentials, dtype=np.float64)
        table = table if table.ndim == 3 else table[:, :, None]
        labels, levels = codes.astype(np.int64), np.zeros(len(codes), dtype=np.int64)
        best_scores = np.full((len(layout), most + 1), -np.inf)
        shape = (table.shape[2] * (most + 1), table.shape[1])
        longest = int(layout.lengths.max(initial=1)) if trace else 1
        space, notes = np.empty((2, *shape)), np.zeros((2, longest, *shape), dtype=np.int64)
        _count(table, links, layout.starts, codes, trace, labels, levels, best_scores, space, notes)
        chosen_levels = None if potentials.ndim == 2 else levels
        return Decoding(labels, best_scores[:, -1].copy(), chosen_levels), best_scores

    def pairwise_score(
        self, labels: np.ndarray, pairwise: np.ndarray, layout: Layout, n_labels: int
    ) -> np.ndarray:
        table = pairwise.reshape(n_labels + 2, n_labels)
        each = table[np.r_[0, labels[:-1]], labels]
        first, last = layout.starts[:-1], layout.starts[1:] - 1
        each[first] = table[-2, labels[first]]
        return layout.sums(each) + table[-1, labels[last]]

    def features(self, labels: np.ndarray, layout: Layout, n_labels: int) -> sp.csr_matrix:
        starts = layout.starts
        # An example has one entry for the start, one per transition and one for the end: its length plus
        # 1.
        ends = starts + np.arange(len(starts))
        columns = np.empty(ends[-1], dtype=np.int64)
        columns[np.arange(len(labels)) + layout.owners] = n_labels * np.r_[0, labels[:-1]] + labels
        columns[ends[:-1]] = n_labels**2 + labels[starts[:-1]]
        columns[ends[1:] - 1] = n_labels * (n_labels + 1) + labels[starts[1:] - 1]
        shape = (len(layout), self.n_pairwise(n_labels))
        found = sp.csr_matrix((np.ones(len(columns)), columns, ends), shape)
        found.sum_duplicates()
        return found


def _pairs_of_labels(allowed: Any) -> list[tuple[Any, Any]] | None:
    """Return the listed pairs, or None for "iob2"."""
    if isinstance(allowed, str) and allowed == "iob2":
        return None
    rule = 'allowed must be None, "iob2" or a set of (from, to) pairs of labels'
    if isinstance(allowed, (str, bytes)) or not isinstance(allowed, Collection):
        raise TypeError(f"{rule}, got {allowed!r}")
    pairs = list(allowed)
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2 or not _hashable(pair):
            raise TypeError(f"{rule}, got the item {pair!r}")
    return pairs


def _hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _listed(classes: np.ndarray, pairs: list[tuple[Any, Any]]) -> np.ndarray:
    places = {label: place for place, label in enumerate(classes.tolist())}
    follows = np.zeros((len(classes) + 1, len(classes)), dtype=bool)
    follows[-1] = True
    for before, after in pairs:
        if before in places and after in places:
            follows[places[before], places[after]] = True
    return follows


def _iob2(classes: np.ndarray) -> np.ndarray:
    names = classes.tolist()
    for name in names:
        if not isinstance(name, str) or not (name == "O" or name[:2] in ("B-", "I-")):
            raise ValueError(f'allowed="iob2" requires labels "O", "B-..." and "I-...", got {name!r}')
    follows = np.ones((len(names) + 1, len(names)), dtype=bool)
    for after, name in enumerate(names):
        if name.startswith("I-"):
            inside = [before in (f"B-{name[2:]}", name) for before in names]
            follows[:, after] = [*inside, False]
    return follows


def _check_any_length(follows: np.ndarray, allowed: Any) -> None:
    """Raise ValueError unless sequences of every length have an allowed labeling."""
    reached = follows[-1]
    for _ in range(len(reached) + 1):
        if not np.any(reached):
            raise ValueError(
                f"allowed must permit a labeling for sequences of any length, got {allowed!r}"
            )
        reached = reached @ follows[:-1]


@njit(**LEAN)
def _count(
    potentials, links, starts, codes, trace, labels, levels, best_scores, space, back_pointers,
):  # fmt: skip
    """Compute the best labelings of every example by the number of wrong labels.

    The levels of the potentials add up to at most the last one. Column c of `best_scores` receives the
    score with c wrong labels; the last column is for this number or more. If `trace`, `labels` and
    `levels` receive the labeling of the last column.

    `space`, of shape (2, n_levels * counts, n_labels), has scores by level used, number of wrong labels
    and label. The first part includes the last position, the second part does not. `back_pointers`
    has the shape (2, longest, n_levels * counts, n_labels). The first part is the previous label.
    The second part is twice the position's level, plus 1 if the label is wrong and counted. The
    innermost loops run over labels.
    """
    n_labels, n_levels, counts = potentials.shape[1], potentials.shape[2], best_scores.shape[1]
    best_with_label, best_before_label = space[0], space[1]
    previous_label, own_level = back_pointers[0], back_pointers[1]
    for b in range(len(starts) - 1):
        begin, end = starts[b], starts[b + 1]
        for t in range(begin, end):
            place, code = t - begin if trace else 0, codes[t]
            reachable = t - begin + 1 if t - begin + 1 < counts else counts
            for u in range(n_levels):
                for i in range(u * counts, u * counts + reachable):
                    into, origin = best_before_label[i], previous_label[place, i]
                    for k in range(n_labels):
                        into[k] = links[n_labels, k] if t == begin and u == 0 else -np.inf
                    for j in range(n_labels if t > begin else 0):
                        high, row = best_with_label[i, j], links[j]
                        if high == -np.inf:
                            continue
                        for k in range(n_labels):
                            value = high + row[k]
                            if value > into[k]:
                                into[k] = value
                                origin[k] = j
            for i in range(n_levels * counts):
                for k in range(n_labels):
                    best_with_label[i, k] = -np.inf
            for own in range(n_levels):
                for u in range(n_levels - own):
                    for c in range(reachable):
                        i, more = (u + own) * counts + c, 1 if c + 1 < counts else 0
                        for k in range(n_labels):
                            wrong = 0 if k == code else more
                            value = best_before_label[u * counts + c, k] + potentials[t, k, own]
                            if value > best_with_label[i + wrong, k]:
                                best_with_label[i + wrong, k] = value
                                own_level[place, i + wrong, k] = 2 * own + wrong
        for c in range(end - begin + 1 if end - begin + 1 < counts else counts):
            highest, best, used = -np.inf, 0, 0
            for u in range(n_levels):
                for k in range(n_labels):
                    value = best_with_label[u * counts + c, k] + links[n_labels + 1, k]
                    if value > highest:
                        highest, best, used = value, k, u
            best_scores[b, c] = highest
        if not trace or best_scores[b, counts - 1] == -np.inf:
            continue
        i = used * counts + counts - 1
        for t in range(end - 1, begin - 1, -1):
            note = own_level[t - begin, i, best]
            labels[t], levels[t] = best, note // 2
            i -= note // 2 * counts + note % 2
            best = previous_label[t - begin, i, best]


@njit(**LEAN)
def viterbi(potentials, begin, size, links, best_scores):
    """Return the last label of the best labeling, and its score (Viterbi 1967).

    No back-pointers are stored: `before` computes labels from the scores. The loop takes four labels at
    once, which saves reads and writes of the highest scores.

    Shapes: `potentials` (n, n_labels), `links` (n_labels + 2, n_labels), `best_scores` (size, n_labels).
    """
    n_labels = potentials.shape[1]
    rest = n_labels % 4
    for k in range(n_labels):
        best_scores[0, k] = potentials[begin, k] + links[n_labels, k]
    for t in range(1, size):
        into, before, own = best_scores[t], best_scores[t - 1], potentials[begin + t]
        for k in range(n_labels):
            into[k] = before[0] + links[0, k]
        for j in range(1, rest):
            high, row = before[j], links[j]
            for k in range(n_labels):
                value = high + row[k]
                into[k] = value if value > into[k] else into[k]
        for j in range(rest, n_labels, 4):
            a, b, c, d = links[j], links[j + 1], links[j + 2], links[j + 3]
            high_a, high_b, high_c, high_d = before[j], before[j + 1], before[j + 2], before[j + 3]
            for k in range(n_labels):
                value, other = high_a + a[k], high_b + b[k]
                value = other if other > value else value
                third, fourth = high_c + c[k], high_d + d[k]
                third = fourth if fourth > third else third
                value = third if third > value else value
                into[k] = value if value > into[k] else into[k]
        for k in range(n_labels):
            into[k] += own[k]
    best, highest = 0, -np.inf
    for k in range(n_labels):
        value = best_scores[size - 1, k] + links[n_labels + 1, k]
        if value > highest:
            best, highest = k, value
    return best, highest


@njit(**LEAN)
def before(t, label, links, best_scores):
    """Return the label before position t of the best labeling with `label` there.

    The first label is returned if several are equally good.
    """
    best, highest = 0, -np.inf
    for j in range(links.shape[1]):
        value = best_scores[t - 1, j] + links[j, label]
        if value > highest:
            best, highest = j, value
    return best


@njit(**LEAN)
def best_labels(potentials, links, starts, best_scores, labels):
    """Compute the best labeling of every example into `labels`.

    `best_scores` has as many rows as the longest example.
    """
    for b in range(len(starts) - 1):
        begin, size = starts[b], starts[b + 1] - starts[b]
        label, _ = viterbi(potentials, begin, size, links, best_scores)
        labels[begin + size - 1] = label
        for t in range(size - 1, 0, -1):
            label = before(t, label, links, best_scores)
            labels[begin + t - 1] = label
