"""Sequences of labels: which label follows which is learnt, and the best labelling is exact."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ..compiled import njit
from .base import Decoding, Structure


class Sequence(Structure):
    """A label for every position; neighbours, the first and the last position have weights of their own.

    The score of a labelling y of an example with rows x_1 to x_T is

        sum over t of f(x_t, y_t) + sum over t > 1 of A[y_(t-1), y_t] + a[y_1] + e[y_T]

    The extra parameters are A, flat, then a, then e. The best labelling is Viterbi's (1967).

    Examples
    --------
    >>> import numpy as np
    >>> potentials = np.array([[1.0, 0.0], [0.0, 0.1], [1.0, 0.0]])
    >>> starts, extra = np.array([0, 3]), np.zeros(8)
    >>> Sequence().decode(potentials, extra, starts).labels
    array([0, 1, 0])
    >>> extra[1] = -1.0  # from label 0 to label 1
    >>> Sequence().decode(potentials, extra, starts).labels
    array([0, 0, 0])
    """

    def n_extra(self, n_labels: int) -> int:
        """See `Structure.n_extra`."""
        return n_labels * (n_labels + 2)

    @staticmethod
    def tables(extra: np.ndarray, n_labels: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """A, from label to label, (n_labels, n_labels); a and e, (n_labels,) each; views."""
        pairs, edge = n_labels**2, n_labels * (n_labels + 1)
        return extra[:pairs].reshape(n_labels, n_labels), extra[pairs:edge], extra[edge:]

    def decode(self, potentials: np.ndarray, extra: np.ndarray, starts: np.ndarray) -> Decoding:
        """See `Structure.decode`; exact, of equals the one whose last labels come first."""
        tables = self.tables(np.asarray(extra, dtype=np.float64), potentials.shape[1])
        labels = np.zeros(len(potentials), dtype=np.int64)
        _viterbi(np.ascontiguousarray(potentials, dtype=np.float64), *tables, starts, labels)
        return Decoding(labels)

    def runner_up(
        self, potentials: np.ndarray, codes: np.ndarray, extra: np.ndarray, starts: np.ndarray
    ) -> Decoding:
        """See `Structure.runner_up`: one programme over labels, and over whether any differed so far."""
        tables = self.tables(np.asarray(extra, dtype=np.float64), potentials.shape[1])
        labels, best = codes.astype(np.int64), np.full(len(starts) - 1, -np.inf)
        _second(np.ascontiguousarray(potentials, dtype=np.float64), *tables, starts, codes, labels, best)
        return Decoding(labels, best)

    def features(self, labels: np.ndarray, starts: np.ndarray, n_labels: int) -> sp.csr_matrix:
        """See `Structure.features`: how often each pair of labels follows one another, and the ends."""
        inner = np.ones(len(labels), dtype=bool)
        inner[starts[:-1]] = False
        later = np.flatnonzero(inner)
        owners = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        pairs = n_labels * labels[later - 1] + labels[later]
        first, last = labels[starts[:-1]], labels[starts[1:] - 1]
        every = np.arange(len(starts) - 1)
        rows = np.concatenate([owners[later], every, every])
        columns = np.concatenate([pairs, n_labels**2 + first, n_labels * (n_labels + 1) + last])
        shape = (len(every), self.n_extra(n_labels))
        return sp.csr_matrix((np.ones(len(rows)), (rows, columns)), shape)


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
