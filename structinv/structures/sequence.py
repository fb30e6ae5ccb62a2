"""Sequences of labels: which label follows which is learnt, and the best labelling is exact."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from ..compiled import njit
from .base import Decoding, Structure
from .layout import Layout


class Sequence(Structure):
    """A label for every position; neighbours, the first and the last position have weights of their own.

    The score of a labelling y of an example with rows x_1 to x_T is

        sum over t of f(x_t, y_t) + sum over t > 1 of A[y_(t-1), y_t] + a[y_1] + e[y_T]

    The extra parameters are A, flat, then a, then e. The best labelling is Viterbi's (1967).

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
    >>> layout, extra = Layout.of_lengths([3]), np.zeros(8)
    >>> Sequence().decode(potentials, extra, layout).labels
    array([0, 1, 0])
    >>> extra[1] = -1.0  # from label 0 to label 1
    >>> Sequence().decode(potentials, extra, layout).labels
    array([0, 0, 0])
    """

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
            If `allowed` is of another kind, or leaves no labelling for sequences of some length.
        """
        if self.allowed is None or self.follows_ is not None:
            return self
        assert classes is not None
        pairs = _pairs_of_labels(self.allowed)
        own = clone(self)
        own.follows_ = _iob2(classes) if pairs is None else _listed(classes, pairs)
        _check_goes_on(own.follows_, self.allowed)
        return own

    def allows(self, labels: np.ndarray, layout: Layout, n_labels: int) -> np.ndarray:
        """See `Structure.allows`."""
        if self.follows_ is None:
            return super().allows(labels, layout, n_labels)
        before = np.r_[n_labels, labels[:-1]]
        before[layout.starts[:-1]] = n_labels
        return layout.sums(~self.follows_[before, labels]) == 0

    def n_extra(self, n_labels: int) -> int:
        """See `Structure.n_extra`."""
        return n_labels * (n_labels + 2)

    def named(self, extra: np.ndarray, n_labels: int) -> dict[str, np.ndarray]:
        """See `Structure.named`: "transitions", "start" and "end"."""
        transitions, start, end = self.tables(extra, n_labels)
        return {"transitions": transitions, "start": start, "end": end}

    def _barred(self, extra: np.ndarray, n_labels: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The tables, minus infinity where the mask forbids."""
        pairs, first, last = self.tables(np.asarray(extra, dtype=np.float64), n_labels)
        if self.follows_ is None:
            return pairs, first, last
        return (
            np.where(self.follows_[:-1], pairs, -np.inf),
            np.where(self.follows_[-1], first, -np.inf),
            last,
        )

    @staticmethod
    def tables(extra: np.ndarray, n_labels: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """A, from label to label, (n_labels, n_labels); a and e, (n_labels,) each; views."""
        pairs, edge = n_labels**2, n_labels * (n_labels + 1)
        return extra[:pairs].reshape(n_labels, n_labels), extra[pairs:edge], extra[edge:]

    def decode(self, potentials: np.ndarray, extra: np.ndarray, layout: Layout) -> Decoding:
        """See `Structure.decode`; exact, of equals the one whose last labels come first."""
        tables = self._barred(extra, potentials.shape[1])
        labels = np.zeros(len(potentials), dtype=np.int64)
        _viterbi(np.ascontiguousarray(potentials, dtype=np.float64), *tables, layout.starts, labels)
        return Decoding(labels)

    def runner_up(
        self, potentials: np.ndarray, codes: np.ndarray, extra: np.ndarray, layout: Layout
    ) -> Decoding:
        """See `Structure.runner_up`: one programme over labels, and over whether any differed so far."""
        tables = self._barred(extra, potentials.shape[1])
        labels, best = codes.astype(np.int64), np.full(len(layout), -np.inf)
        _second(
            np.ascontiguousarray(potentials, dtype=np.float64),
            *tables,
            layout.starts,
            codes,
            labels,
            best,
        )
        return Decoding(labels, best)

    def features(self, labels: np.ndarray, layout: Layout, n_labels: int) -> sp.csr_matrix:
        """See `Structure.features`: how often each pair of labels follows one another, and the ends."""
        starts, owners = layout.starts, layout.owners
        inner = np.ones(len(labels), dtype=bool)
        inner[starts[:-1]] = False
        later = np.flatnonzero(inner)
        pairs = n_labels * labels[later - 1] + labels[later]
        first, last = labels[starts[:-1]], labels[starts[1:] - 1]
        every = np.arange(len(layout))
        rows = np.concatenate([owners[later], every, every])
        columns = np.concatenate([pairs, n_labels**2 + first, n_labels * (n_labels + 1) + last])
        shape = (len(every), self.n_extra(n_labels))
        return sp.csr_matrix((np.ones(len(rows)), (rows, columns)), shape)


def _pairs_of_labels(allowed: Any) -> list[tuple[Any, Any]] | None:
    """The pairs listed; None for "iob2"."""
    if isinstance(allowed, str) and allowed == "iob2":
        return None
    what = 'allowed must be None, "iob2" or a set of (from, to) pairs of labels'
    if isinstance(allowed, (str, bytes)) or not isinstance(allowed, Iterable):
        raise TypeError(f"{what}, got {allowed!r}")
    pairs = list(allowed)
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise TypeError(f"{what}, got {pair!r} among them")
    return pairs


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
    """Raise ValueError unless there are labellings of sequences of every length."""
    reached = follows[-1]
    for _ in range(len(reached) + 1):
        if not np.any(reached):
            raise ValueError(
                f"allowed must leave labellings for sequences of any length, got {allowed!r}"
            )
        reached = reached @ follows[:-1]


@njit(cache=True, nogil=True)
def _viterbi(potentials, pairs, first, last, starts, labels):
    """The best labelling of every example."""
    n_labels = potentials.shape[1]
    longest = 1
    for b in range(len(starts) - 1):
        longest = max(longest, starts[b + 1] - starts[b])
    back = np.zeros((longest, n_labels), dtype=np.int64)
    height, arriving = np.empty(n_labels), np.empty(n_labels)
    for b in range(len(starts) - 1):
        begin, end = starts[b], starts[b + 1]
        for k in range(n_labels):
            height[k] = potentials[begin, k] + first[k]
        for t in range(begin + 1, end):
            arriving[:] = -np.inf
            back[t - begin] = 0
            for j in range(n_labels):
                for k in range(n_labels):
                    value = height[j] + pairs[j, k]
                    if value > arriving[k]:
                        arriving[k] = value
                        back[t - begin, k] = j
            for k in range(n_labels):
                height[k] = arriving[k] + potentials[t, k]
        best = 0
        for k in range(n_labels):
            if height[k] + last[k] > height[best] + last[best]:
                best = k
        for t in range(end - 1, begin - 1, -1):
            labels[t] = best
            best = back[t - begin, best]


@njit(cache=True, nogil=True)
def _second(potentials, pairs, first, last, starts, codes, labels, values):
    """The best labelling of every example that differs from the codes somewhere, and its score."""
    n_labels = potentials.shape[1]
    longest = 1
    for b in range(len(starts) - 1):
        longest = max(longest, starts[b + 1] - starts[b])
    # Of labellings that differ already, in row 1, and of the codes themselves, in row 0.
    back = np.zeros((longest, n_labels), dtype=np.int64)
    same = np.zeros((longest, n_labels), dtype=np.bool_)
    height, arriving = np.empty(n_labels), np.empty(n_labels)
    for b in range(len(starts) - 1):
        begin, end = starts[b], starts[b + 1]
        truth = potentials[begin, codes[begin]] + first[codes[begin]]
        for k in range(n_labels):
            height[k] = -np.inf if k == codes[begin] else potentials[begin, k] + first[k]
        for t in range(begin + 1, end):
            before = codes[t - 1]
            for k in range(n_labels):
                arriving[k], back[t - begin, k], same[t - begin, k] = -np.inf, 0, False
                for j in range(n_labels):
                    value = height[j] + pairs[j, k]
                    if value > arriving[k]:
                        arriving[k], back[t - begin, k] = value, j
                if k != codes[t] and truth + pairs[before, k] > arriving[k]:
                    arriving[k], same[t - begin, k] = truth + pairs[before, k], True
            truth += pairs[before, codes[t]] + potentials[t, codes[t]]
            for k in range(n_labels):
                height[k] = arriving[k] + potentials[t, k]
        best = 0
        for k in range(n_labels):
            if height[k] + last[k] > height[best] + last[best]:
                best = k
        values[b] = height[best] + last[best]
        if values[b] == -np.inf:
            continue
        for t in range(end - 1, begin - 1, -1):
            labels[t] = best
            if t == begin or same[t - begin, best]:
                # Up to here the codes themselves.
                break
            best = back[t - begin, best]
