"""Sequences of labels: which label follows which is learned, and the best labeling is exact."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from ..utils.jit import njit
from .base import Structure
from .decodings import Decoding
from .layout import Layout
from .viterbi import best_labels


class Sequence(Structure):
    """A label for every position; neighbors, the first and the last position have weights of their own.

    The score of a labeling y of an example with rows x_1 to x_T is

        sum over t of f(x_t, y_t) + sum over t > 1 of A[y_(t-1), y_t] + a[y_1] + e[y_T]

    The pairwise weights are A, flat, then a, then e. The best labeling is Viterbi's (1967).

    Parameters
    ----------
    allowed : set of (from, to) pairs of labels, or "iob2", optional
        Which label may follow which; any, by default. "iob2" speaks of labels "O", "B-x" and "I-x": I-x
        follows B-x or I-x only, and is not the first. Pairs of labels that the training labels lack
        say nothing.

    Attributes
    ----------
    follows_ : (n_labels + 1, n_labels) array of bool
        Which label (column) may follow which (row); the last row says which may be the first. Only where
        not all are allowed, and only of a structure that has been `prepared`.

    Examples
    --------
    >>> import numpy as np
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
        """See `Structure.prepared`: a table of which label may follow which.

        Raises
        ------
        ValueError, TypeError
            If `allowed` is of another kind, or leaves no labeling for sequences of some length.
        """
        return self if classes is None else self.prepared_by(classes, ())

    def prepared_by(self, classes: np.ndarray, summaries: Collection[Any]) -> Structure:
        """See `Structure.prepared_by`: examples tell nothing."""
        if self.allowed is None or self.follows_ is not None:
            return self
        pairs = _pairs_of_labels(self.allowed)
        own = clone(self)
        own.follows_ = _iob2(classes) if pairs is None else _listed(classes, pairs)
        _check_goes_on(own.follows_, self.allowed)
        return own

    def allows(self, labels: np.ndarray, layout: Layout, n_labels: int) -> np.ndarray:
        if self.follows_ is None:
            return super().allows(labels, layout, n_labels)
        before = np.r_[n_labels, labels[:-1]]
        before[layout.starts[:-1]] = n_labels
        return layout.sums(~self.follows_[before, labels]) == 0

    def n_pairwise(self, n_labels: int) -> int:
        return n_labels * (n_labels + 2)

    def named(self, pairwise: np.ndarray, n_labels: int) -> dict[str, np.ndarray]:
        """See `Structure.named`: "transitions", "start" and "end"."""
        transitions, start, end = self.tables(pairwise, n_labels)
        return {"transitions": transitions, "start": start, "end": end}

    def _barred(self, pairwise: np.ndarray, n_labels: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The tables, minus infinity where the mask forbids."""
        pairs, first, last = self.tables(np.asarray(pairwise, dtype=np.float64), n_labels)
        if self.follows_ is None:
            return pairs, first, last
        return (
            np.where(self.follows_[:-1], pairs, -np.inf),
            np.where(self.follows_[-1], first, -np.inf),
            last,
        )

    @staticmethod
    def tables(pairwise: np.ndarray, n_labels: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """A, from label to label, (n_labels, n_labels); a and e, (n_labels,) each; views."""
        pairs, edge = n_labels**2, n_labels * (n_labels + 1)
        return pairwise[:pairs].reshape(n_labels, n_labels), pairwise[pairs:edge], pairwise[edge:]

    def decode(self, potentials: np.ndarray, pairwise: np.ndarray, layout: Layout) -> Decoding:
        """See `Structure.decode`; exact, of equals the one whose last labels come first."""
        if potentials.ndim == 3:
            codes = np.zeros(len(potentials), dtype=np.int64)
            return self._counted(potentials, codes, 0, pairwise, layout)[0]
        own = np.ascontiguousarray(potentials, dtype=np.float64)
        links = np.vstack(self._barred(pairwise, own.shape[1]))
        heights = np.empty((int(layout.lengths.max(initial=1)), own.shape[1]))
        labels = np.zeros(len(own), dtype=np.int64)
        best_labels(own, links, layout.starts, heights, labels)
        return Decoding(labels)

    def runner_up(
        self, potentials: np.ndarray, codes: np.ndarray, pairwise: np.ndarray, layout: Layout
    ) -> Decoding:
        """See `Structure.runner_up`: one program over labels, and over whether any differed so far."""
        return self._counted(potentials, codes, 1, pairwise, layout)[0]

    def best_by_wrong(
        self, potentials: np.ndarray, codes: np.ndarray, pairwise: np.ndarray, layout: Layout
    ) -> np.ndarray:
        """See `Structure.best_by_wrong`: one program over labels and how many differed so far."""
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
        """The best labeling of each example with at least `most` labels other than the codes.

        Also the best scores with so many others, (n_blocks, most + 1); the last with `most` or more.
        """
        tables = self._barred(pairwise, potentials.shape[1])
        table = np.ascontiguousarray(potentials, dtype=np.float64)
        table = table if table.ndim == 3 else table[:, :, None]
        labels, levels = codes.astype(np.int64), np.zeros(len(codes), dtype=np.int64)
        heights = np.full((len(layout), most + 1), -np.inf)
        shape = (table.shape[2] * (most + 1), table.shape[1])
        longest = int(layout.lengths.max(initial=1)) if trace else 1
        room, notes = np.empty((2, *shape)), np.zeros((2, longest, *shape), dtype=np.int64)
        _count(table, *tables, layout.starts, codes, trace, labels, levels, heights, room, notes)
        known = None if potentials.ndim == 2 else levels
        return Decoding(labels, heights[:, -1].copy(), known), heights

    def pairwise_score(
        self, labels: np.ndarray, pairwise: np.ndarray, layout: Layout, n_labels: int
    ) -> np.ndarray:
        """See `Structure.pairwise_score`: looked up, as no features need be counted."""
        transitions, start, end = self.tables(pairwise, n_labels)
        each = transitions[np.r_[0, labels[:-1]], labels]
        first, last = layout.starts[:-1], layout.starts[1:] - 1
        each[first] = start[labels[first]]
        return layout.sums(each) + end[labels[last]]

    def features(self, labels: np.ndarray, layout: Layout, n_labels: int) -> sp.csr_matrix:
        """See `Structure.features`: how often each pair of labels follows one another, and the ends."""
        starts = layout.starts
        # The first label, then each pair, then the last label: one more than the example has rows.
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
    """The pairs listed; None for "iob2"."""
    if isinstance(allowed, str) and allowed == "iob2":
        return None
    what = 'allowed must be None, "iob2" or a set of (from, to) pairs of labels'
    if isinstance(allowed, (str, bytes)) or not isinstance(allowed, Collection):
        raise TypeError(f"{what}, got {allowed!r}")
    pairs = list(allowed)
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2 or not _hashable(pair):
            raise TypeError(f"{what}, got {pair!r} among them")
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
            raise ValueError(f'allowed="iob2" needs labels "O", "B-..." and "I-...", got {name!r}')
    follows = np.ones((len(names) + 1, len(names)), dtype=bool)
    for after, name in enumerate(names):
        if name.startswith("I-"):
            inside = [before in (f"B-{name[2:]}", name) for before in names]
            follows[:, after] = [*inside, False]
    return follows


def _check_goes_on(follows: np.ndarray, allowed: Any) -> None:
    """Raise ValueError unless there are labelings of sequences of every length."""
    reached = follows[-1]
    for _ in range(len(reached) + 1):
        if not np.any(reached):
            raise ValueError(
                f"allowed must leave labelings for sequences of any length, got {allowed!r}"
            )
        reached = reached @ follows[:-1]


@njit(cache=True, nogil=True)
def _count(potentials, pairs, first, last, starts, codes, trace, labels, levels, heights, room, notes):
    """The best labelings of every example, by how many labels differ from the codes.

    Levels of the potentials add up to the last one at most. Column c of `heights` becomes the best score
    with c labels that differ, the last column that with so many or more; where `trace`, `labels` and
    `levels` become those that reach the last column.

    `room`, (2, n_levels * counts, n_labels), are scores of all levels used and numbers of labels that
    differ, and labels: with the last position counted, and before it is. `notes`, (2, longest,
    n_levels * counts, n_labels), say how they are reached: by which label before, where this position is
    not yet counted; and by which level of its own, twice, and one more if it differs and is counted. The
    innermost loops run over labels.
    """
    n_labels, n_levels, counts = potentials.shape[1], potentials.shape[2], heights.shape[1]
    height, arriving, back, own_level = room[0], room[1], notes[0], notes[1]
    for b in range(len(starts) - 1):
        begin, end = starts[b], starts[b + 1]
        for t in range(begin, end):
            place, code = t - begin if trace else 0, codes[t]
            reachable = t - begin + 1 if t - begin + 1 < counts else counts
            for u in range(n_levels):
                for i in range(u * counts, u * counts + reachable):
                    into, origin = arriving[i], back[place, i]
                    for k in range(n_labels):
                        into[k] = first[k] if t == begin and u == 0 else -np.inf
                    for j in range(n_labels if t > begin else 0):
                        high, row = height[i, j], pairs[j]
                        if high == -np.inf:
                            continue
                        for k in range(n_labels):
                            value = high + row[k]
                            if value > into[k]:
                                into[k] = value
                                origin[k] = j
            for i in range(n_levels * counts):
                for k in range(n_labels):
                    height[i, k] = -np.inf
            for own in range(n_levels):
                for u in range(n_levels - own):
                    for c in range(reachable):
                        i, more = (u + own) * counts + c, 1 if c + 1 < counts else 0
                        for k in range(n_labels):
                            wrong = 0 if k == code else more
                            value = arriving[u * counts + c, k] + potentials[t, k, own]
                            if value > height[i + wrong, k]:
                                height[i + wrong, k] = value
                                own_level[place, i + wrong, k] = 2 * own + wrong
        for c in range(end - begin + 1 if end - begin + 1 < counts else counts):
            highest, best, used = -np.inf, 0, 0
            for u in range(n_levels):
                for k in range(n_labels):
                    if height[u * counts + c, k] + last[k] > highest:
                        highest, best, used = height[u * counts + c, k] + last[k], k, u
            heights[b, c] = highest
        if not trace or heights[b, counts - 1] == -np.inf:
            continue
        i = used * counts + counts - 1
        for t in range(end - 1, begin - 1, -1):
            note = own_level[t - begin, i, best]
            labels[t], levels[t] = best, note // 2
            i -= note // 2 * counts + note % 2
            best = back[t - begin, i, best]
