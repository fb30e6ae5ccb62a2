"""Composition: a perturbation of one oracle after a perturbation of another."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import scipy.sparse as sp

from ..regions import Region
from ..regions.base import RegionUnion
from ..utils.matrices import (
    ALL_ROWS,
    Matrix,
    Rows,
    dense_rows,
    first_best,
    floating,
    row_dots,
    select,
)
from .arguments import check_row_by_row
from .base import BoundOracle, InvarianceOracle, Support
from .changes import Changes
from .combinators import Pair, best_of, upper_of
from .combined_changes import ComposedChanges
from .listed_changes import changes_of, draws_of, listed
from .support import Costs, Grades
from .third_party import bind, region_of


class Compose(Pair):
    r"""A perturbation of `right`, then one of `left`: ``left @ right``.

    .. math:: S(x) = \bigcup_{z \in S_{right}(x)} S_{left}(z)

    The support function is defined, and exact, in three cases:

    - `left` is additive: the support functions add up.
    - `right` is finite: `left` is evaluated at every member.
    - `left` is a list of fixed linear maps: `right` is evaluated along T'v for each map T.

    Other pairs have lists or draws, but no `support`.

    If `left` depends on labels, it uses the true label of the unperturbed sample. `orbit`
    lists the unperturbed sample once, for the pair of identities. `tangents` are those of `left`, then
    those of `right`.
    """

    # A sum of two convex sets is convex.
    convex = property(lambda self: self.left.additive and self.left.convex and self.right.convex)

    def validate(self, n_features: int | None = None) -> None:
        super().validate(n_features)
        for part in (self.left, self.right):
            check_row_by_row("each part of @", part, "write Shared(left @ right)")
            if part.graded:
                raise NotImplementedError(_no_grades(part))

    def region(self, X: np.ndarray) -> Region:
        if self.finite:
            return super().region(X)
        self._check_rows(X)
        if self.left.additive:
            whole = region_of(self.right, X).widened(region_of(self.left, X))
            return super().region(X) if whole is None else whole
        if not self.right.finite:
            return super().region(X)
        members = listed(bind(self.right, floating(X))).members()
        each = (np.ascontiguousarray(members[:, k]) for k in range(members.shape[1]))
        return RegionUnion([region_of(self.left, rows) for rows in each])

    def _changes(self, X: Matrix, y: np.ndarray | None) -> Changes | None:
        right = changes_of(self.right, X, y)
        left = self._moved_later(X, y)
        if left is None or right is None:
            return None
        # The mesh is known if the left part is additive or the right part is finite. Otherwise, the left
        # part may enlarge the gaps of the right part's cover.
        return ComposedChanges(left, right, bounded=self.left.additive or self.right.finite)

    def _moved_later(self, X: Matrix, y: np.ndarray | None) -> Changes | None:
        """Return the list of the left part on 0 rows; `Changes.on` moves it to others."""
        return changes_of(self.left, dense_rows(X, slice(0, 0)), None if y is None else y[:0])

    def _draws(self, X: Matrix, n_draws: int, random_state: int) -> Changes:
        """Return independent draws of both parts, in pairs."""
        seeds = np.random.SeedSequence(random_state).generate_state(3)
        left = draws_of(self.left, dense_rows(X, slice(0, 0)), n_draws, int(seeds[0]))
        right = draws_of(self.right, X, n_draws, int(seeds[1]))
        # Draws of a union are sorted by part. Without a permutation, both draws would be dependent.
        order = np.random.default_rng(seeds[2]).permutation(n_draws)
        return ComposedChanges(left.take(order), right, paired=True)

    def bind(self, X: Matrix, y: np.ndarray | None = None) -> BoundOracle:
        self._check_rows(X)
        return _BoundCompose(self._prepared(), X, y)


class _BoundCompose(BoundOracle):
    oracle: Compose

    def __init__(self, oracle: Compose, X: Matrix, y: np.ndarray | None) -> None:
        super().__init__(oracle, X, y)
        self.right = bind(oracle.right, X, y)

    def support(
        self, rows: Rows, V: np.ndarray, assign: np.ndarray, cost: Costs = None, rho: Grades = None
    ) -> Support:
        self.oracle._refuse_grades(rho)
        if self.oracle.left.additive:
            return self._sum(rows, V, assign)
        if self.oracle.right.finite:
            return self._enumerate(rows, V, assign)
        left = self._left_maps
        maps = None if left is None else left.adjoint(V)
        if left is None or maps is None:
            names = f"{type(self.oracle.left).__name__} @ {type(self.oracle.right).__name__}"
            raise self.oracle._absent(
                f"support of {names}: the left oracle must be additive or a list of linear maps, or the "
                "right one finite"
            )
        return self._of_maps(left, maps, rows, V, assign)

    @cached_property
    def _left_maps(self) -> Changes | None:
        """The list of the left part; None if it is not complete."""
        found = self.oracle._moved_later(self.X, self.y)
        return found if found is not None and found.scored else None

    def _after(self, points: Matrix, rows: Rows, times: int = 1) -> BoundOracle:
        """Bind the left part to perturbed rows, with the labels of the unperturbed rows."""
        labels = self._labels(rows)
        return bind(self.oracle.left, points, None if labels is None else np.repeat(labels, times))

    def _labels(self, rows: Rows) -> np.ndarray | None:
        return None if self.y is None else self.y[rows]

    def _ungraded(self, part: BoundOracle, rows: Rows, V: np.ndarray, assign: np.ndarray) -> Support:
        answer = part.support(rows, V, assign)
        if answer.rho is not None:
            raise NotImplementedError(_no_grades(part.oracle))
        return answer

    def _sum(self, rows: Rows, V: np.ndarray, assign: np.ndarray) -> Support:
        first = self._ungraded(self.right, rows, V, assign)
        second = self._ungraded(self._after(first.points, rows), ALL_ROWS, V, assign)
        if first.upper is None and second.upper is None:
            return Support(second.points)
        first_values = row_dots(first.points, V, assign)
        return Support(
            second.points, upper_of(first, V, assign) + upper_of(second, V, assign) - first_values
        )

    def _enumerate(self, rows: Rows, V: np.ndarray, assign: np.ndarray) -> Support:
        # Only the best points are in memory.
        best: list[Support] = []
        for points in np.moveaxis(listed(self.right).members(rows), 1, 0):
            part = sp.csr_matrix(points) if sp.issparse(self.X) else np.ascontiguousarray(points)
            answer = self._ungraded(self._after(part, rows), ALL_ROWS, V, assign)
            best = [best_of([*best, answer], V, assign)]
        return best[0]

    def _of_maps(
        self, left: Changes, maps: np.ndarray, rows: Rows, V: np.ndarray, assign: np.ndarray
    ) -> Support:
        """Return the best member if the left part is a list of fixed linear maps."""
        answers = [self._ungraded(self.right, rows, W, assign) for W in maps]
        values = [row_dots(a.points, W, assign) for a, W in zip(answers, maps, strict=True)]
        choice = first_best(np.transpose(values))
        sources = select(choice, [answer.points for answer in answers])
        points = dense_rows(left.on(sources, self._labels(rows)).points(ALL_ROWS, choice))
        upper = None
        if any(answer.upper is not None for answer in answers):
            uppers = [upper_of(a, W, assign) for a, W in zip(answers, maps, strict=True)]
            upper = np.max(uppers, axis=0)
        return Support(sp.csr_matrix(points) if sp.issparse(self.X) else points, upper)

    def contains(self, row: int, z: np.ndarray) -> bool:
        raise self.oracle._absent("contains")

    def sample(self, rows: Rows, n_draws: int, rng: np.random.Generator) -> np.ndarray:
        first = self.right.sample(rows, n_draws, rng)
        left = self._after(first.reshape(-1, first.shape[2]), rows, times=n_draws)
        return left.sample(ALL_ROWS, 1, rng).reshape(first.shape)


def _no_grades(part: InvarianceOracle) -> str:
    return (
        f"Compose does not support grades, but {type(part).__name__} has grades: "
        "discount the parts of a union instead"
    )
