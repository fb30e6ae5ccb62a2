"""Distributions over changes that are made of others: one change after another, or either of several."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..matrices import Matrix
from .laws import MOST_PAIRS, Law, LinearLaw, normalised, usable_differences


class ComposedLaw(Law):
    """First a change of one law, then one of another: all pairs of them, or the k-th with the k-th.

    Parameters
    ----------
    left, right : Law
        `right` comes first.
    paired : bool
        Whether change number k is made of both laws' number k, as for draws; both have as many then.
    weights : (s,) array, optional
        By default the products of both laws' weights, up to a factor.
    """

    def __init__(
        self, left: Law, right: Law, *, paired: bool, weights: np.ndarray | None = None
    ) -> None:
        self.left = left
        self.right = right
        self.paired = paired
        if weights is None and paired:
            weights = left.weights * right.weights
        elif weights is None:
            weights = np.outer(right.weights, left.weights).ravel()
        self.weights = normalised(weights)

    def take(self, numbers: Sequence[int] | np.ndarray, weights: np.ndarray | None = None) -> Law:
        if not self.paired:
            return super().take(numbers, weights)
        chosen, weights = self._chosen(numbers, weights)
        left, right = self.left.take(chosen), self.right.take(chosen)
        return ComposedLaw(left, right, paired=True, weights=weights)

    def members(self, X: Matrix) -> np.ndarray:
        first = self.right.members(X)
        n, size, d = first.shape
        if self.paired:
            parts = [self.left.take([k]).members(first[:, k]) for k in range(size)]
            return np.concatenate(parts, axis=1)
        return self.left.members(first.reshape(-1, d)).reshape(n, self.size, d)

    def pull_back(self, V: np.ndarray) -> np.ndarray | None:
        pulled = self.left.pull_back(V)
        if pulled is None:
            return None
        if self.paired:
            return _all_of([self.right.take([k]).pull_back(each) for k, each in enumerate(pulled)])
        found = self.right.pull_back(pulled.reshape(-1, V.shape[1]))
        return None if found is None else found.reshape(-1, *V.shape)

    def linear(self) -> LinearLaw | None:
        left, right = self.left.linear(), self.right.linear()
        if left is None or right is None or self.size**2 > MOST_PAIRS:
            return None
        if self.paired:
            maps = [last @ first for first, last in zip(right.maps, left.maps, strict=True)]
        else:
            maps = [last @ first for first in right.maps for last in left.maps]
        return LinearLaw(maps, self.weights)

    def sides(self, *, reordering: bool = False) -> tuple[Law | None, Law]:
        """See `Law.sides`; changes that come last and keep inner products move one side only."""
        left, right = super().sides(reordering=reordering)
        if left is None or self.paired:
            return left, right
        last = usable_differences(self.left, reordering)
        return (
            (self, self) if last is None else (self.right, ComposedLaw(last, self.right, paired=False))
        )


class MixedLaw(Law):
    """A change of one of several laws.

    Parameters
    ----------
    laws : sequence of Law
    shares : (n_laws,) array
        How likely each of them is, up to a factor.
    """

    def __init__(self, laws: Sequence[Law], shares: np.ndarray) -> None:
        self.laws = tuple(laws)
        pairs = zip(self.laws, normalised(shares), strict=True)
        self.weights = np.concatenate([share * law.weights for law, share in pairs])

    def take(self, numbers: Sequence[int] | np.ndarray, weights: np.ndarray | None = None) -> Law:
        """See `Law.take`; only the laws that have these changes are asked for members."""
        chosen, weights = self._chosen(numbers, weights)
        ends = np.cumsum([law.size for law in self.laws])
        owner = np.searchsorted(ends, chosen, side="right")
        runs = np.split(np.arange(len(chosen)), np.flatnonzero(np.diff(owner)) + 1)
        laws = []
        for run in runs:
            law = self.laws[owner[run[0]]]
            laws.append(law.take(chosen[run] - (ends[owner[run[0]]] - law.size), weights[run]))
        return MixedLaw(laws, np.array([np.sum(weights[run]) for run in runs]))

    def members(self, X: Matrix) -> np.ndarray:
        return np.concatenate([law.members(X) for law in self.laws], axis=1)

    def pull_back(self, V: np.ndarray) -> np.ndarray | None:
        return _all_of([law.pull_back(V) for law in self.laws])

    def linear(self) -> LinearLaw | None:
        found = [law.linear() for law in self.laws]
        known = [law.maps for law in found if law is not None]
        return LinearLaw(sum(known, []), self.weights) if len(known) == len(found) else None


def _all_of(parts: Sequence[np.ndarray | None]) -> np.ndarray | None:
    """One table of all parts; None if one of them is."""
    known = [part for part in parts if part is not None]
    return np.concatenate(known) if len(known) == len(parts) else None
