"""Union of the perturbation sets of several oracles."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..regions import Region
from ..regions.base import RegionUnion
from ..utils.matrices import ALL_ROWS, Matrix, Rows
from .base import BoundOracle, InvarianceOracle, Support
from .changes import Changes, SelectedChanges
from .combinators import Pair, best_of
from .combined_changes import UnionChanges
from .listed_changes import changes_of, draws_of
from .support import Costs, Grades
from .third_party import bind, region_of


class Union(Pair):
    r"""Perturbed samples of either of two oracles: ``left | right``.

    .. math:: S(x) = S_{left}(x) \cup S_{right}(x)

    `support` returns the better of both answers; it is exact if both parts are exact. If a part is
    `Shared` or `Budget`, the same oracle perturbs all samples of an example. Otherwise the oracle may
    differ between samples.

    Random members and draws use each part of nested unions with the same probability. Grades apply to
    all parts. `tangents` are those of `left`, then those of `right`.
    """

    graded = property(lambda self: self.left.graded or self.right.graded)

    def region(self, X: np.ndarray) -> Region:
        if self.finite:
            return super().region(X)
        self._check_rows(X)
        return RegionUnion([region_of(leaf, X) for leaf in self.leaves()])

    def leaves(self) -> list[InvarianceOracle]:
        """Return the oracles of nested unions, from left to right."""
        parts = (self.left, self.right)
        return [
            leaf for part in parts for leaf in (part.leaves() if isinstance(part, Union) else [part])
        ]

    def _changes(self, X: Matrix, y: np.ndarray | None) -> Changes | None:
        """Return the lists of all leaves as one; leaves have equal probabilities."""
        parts = [changes_of(leaf, X, y) for leaf in self.leaves()]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None
        weights = [part.weights for part in known]
        identity = [sum(each[0] for each in weights)]
        return UnionChanges(
            [known[0], *map(_perturbed, known[1:])],
            np.concatenate([identity, *(each[1:] for each in weights)]),
        )

    def _draws(self, X: Matrix, n_draws: int, random_state: int) -> Changes:
        """Return draws of all leaves; each draw uses a random leaf."""
        leaves = self.leaves()
        rng = np.random.default_rng(random_state)
        sizes = np.bincount(rng.integers(len(leaves), size=n_draws), minlength=len(leaves))
        seeds = rng.integers(2**32, size=len(leaves))
        drawn = np.flatnonzero(sizes)
        parts = [draws_of(leaves[k], X, int(sizes[k]), int(seeds[k])) for k in drawn]
        return UnionChanges(parts, np.ones(n_draws))

    def bind(self, X: Matrix, y: np.ndarray | None = None) -> BoundOracle:
        self._check_rows(X)
        return _BoundUnion(self._prepared(), X, y)


class _BoundUnion(BoundOracle):
    """All leaves of nested unions, bound to the same rows.

    Only the first leaf lists the unperturbed sample.
    """

    def __init__(self, oracle: Union, X: Matrix, y: np.ndarray | None) -> None:
        super().__init__(oracle, X, y)
        self.parts = [bind(leaf, X, y) for leaf in oracle.leaves()]

    def scenarios(self) -> list[tuple[BoundOracle, ...]]:
        """Return the scenarios of both parts; this oracle if it perturbs rows separately."""
        oracle: Any = self.oracle
        if not oracle.whole_example:
            return super().scenarios()
        parts = [bind(part, self.X, self.y) for part in (oracle.left, oracle.right)]
        return [levels for part in parts for levels in part.scenarios()]

    def support(
        self, rows: Rows, V: np.ndarray, assign: np.ndarray, cost: Costs = None, rho: Grades = None
    ) -> Support:
        answers = [part.support(rows, V, assign, cost, rho) for part in self.parts]
        return best_of(answers, V, assign, cost)

    def sample(self, rows: Rows, n_draws: int, rng: np.random.Generator) -> np.ndarray:
        """Draw members, each from a random leaf."""
        draws = np.stack([part.sample(rows, n_draws, rng) for part in self.parts])
        leaf = rng.integers(len(self.parts), size=draws.shape[1:3])
        return np.take_along_axis(draws, leaf[None, :, :, None], axis=0)[0]

    def contains(self, row: int, z: np.ndarray) -> bool:
        return any(part.contains(row, z) for part in self.parts)


def _perturbed(changes: Changes) -> Changes:
    """Return a list without the unperturbed sample, which a union has once."""
    return _Perturbed(changes, np.arange(1, changes.size), np.ones(changes.size - 1))


class _Perturbed(SelectedChanges):
    def mesh(self, rows: Rows = ALL_ROWS) -> np.ndarray:
        # The list of the first leaf has the unperturbed sample.
        return self.whole.mesh(rows)
