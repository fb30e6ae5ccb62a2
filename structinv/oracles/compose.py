"""Composition: a perturbation of one oracle after a perturbation of another."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from scipy.optimize import nnls

from ..regions import Region
from ..regions.region_union import RegionUnion
from ..utils.matrices import (
    ALL_ROWS,
    Matrix,
    Rows,
    dense_rows,
    floating,
    rounding,
    row_dots,
    select,
    take,
)
from ..utils.ties import first_best
from .arguments import check_row_by_row
from .base import BoundOracle, InvarianceOracle, Support
from .changes import Changes
from .checked_lists import changes_of, draws_of, listed
from .checked_oracle import bind
from .combinators import Pair, best_of, upper_of
from .combined_changes import ComposedChanges
from .geometry import region_of


class Compose(Pair):
    r"""A perturbation of `right`, then one of `left`: ``left @ right``.

    .. math:: S(x) = \bigcup_{z \in S_{right}(x)} S_{left}(z)

    The support function is exact in three cases:

    - `left` is additive: the support functions add up.
    - `right` is finite: `left` is evaluated at every member.
    - `left` is a list of fixed linear maps: `right` is evaluated along T'v for each map T.

    Otherwise `support` tries several perturbed samples of `right` and returns the best result. Its
    `upper` is infinite.

    If `left` depends on labels, it uses the true label of the unperturbed sample. `orbit`
    lists the unperturbed sample once, for the pair of identities. `tangents` are those of `left`, then
    those of `right`.
    """

    @property
    def convex(self) -> bool:  # type: ignore[override]
        """True if S(x) is a sum of two convex sets."""
        return self.left.additive and self.left.convex and self.right.convex

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

    def _support(
        self, rows: Rows, V: np.ndarray, assign: np.ndarray, cost: np.ndarray | None
    ) -> Support:
        if self.oracle.left.additive:
            return self._sum(rows, V, assign)
        if self.oracle.right.finite:
            return self._enumerate(rows, V, assign)
        left = self._left_maps
        maps = None if left is None else left.adjoint(V)
        if left is None or maps is None:
            return self._try_several(rows, V, assign)
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
        members = np.moveaxis(listed(self.right).members(rows), 1, 0)
        best = self._after_member(members[0], rows, V, assign)
        for points in members[1:]:
            best = best_of([best, self._after_member(points, rows, V, assign)], V, assign)
        return best

    def _after_member(
        self, points: np.ndarray, rows: Rows, V: np.ndarray, assign: np.ndarray
    ) -> Support:
        part = sp.csr_matrix(points) if sp.issparse(self.X) else np.ascontiguousarray(points)
        return self._ungraded(self._after(part, rows), ALL_ROWS, V, assign)

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

    def _try_several(self, rows: Rows, V: np.ndarray, assign: np.ndarray) -> Support:
        starts = [take(self.X, rows)]
        starts += [self._ungraded(self.right, rows, sign * V, assign).points for sign in (1.0, -1.0)]
        answers = [Support(starts[0])]
        for points in starts:
            answers.append(self._ungraded(self._after(points, rows), ALL_ROWS, V, assign))
        if not sp.issparse(self.X):
            answers += self._reweighted(starts[1], answers[2].points, rows, V, assign)
        best = best_of([Support(answer.points) for answer in answers], V, assign)
        return Support(best.points, np.full(len(assign), np.inf))

    def _reweighted(
        self, source: np.ndarray, answer: np.ndarray, rows: Rows, V: np.ndarray, assign: np.ndarray
    ) -> list[Support]:
        """Search again along directions that are rescaled by the factors of an answer.

        If `left` multiplies features, the best element of `right` is that for these factors.
        """
        each, answers = np.arange(len(assign)), []
        for _ in range(2):
            known = np.abs(source) > 1e-12 * np.max(np.abs(source), initial=0.0)
            factors = np.divide(answer, source, out=np.ones(source.shape), where=known)
            source = self._ungraded(self.right, rows, V[assign] * factors, each).points
            answers.append(self._ungraded(self._after(source, rows), ALL_ROWS, V, assign))
            answer = answers[-1].points
        return answers

    def sample(self, rows: Rows, n_draws: int, rng: np.random.Generator) -> np.ndarray:
        return self._each_after(
            self.right.sample(rows, n_draws, rng), rows, lambda left: left.sample(ALL_ROWS, 1, rng)
        )

    def _each_after(
        self, members: np.ndarray, rows: Rows, view: Callable[[BoundOracle], np.ndarray]
    ) -> np.ndarray:
        n, s, d = members.shape
        changed = view(self._after(members.reshape(n * s, d), rows, times=s))
        return changed.reshape(n, s * changed.shape[1], d)

    def contains(self, row: int, z: np.ndarray) -> bool:
        rows = np.array([row])
        if self.oracle.right.finite:
            members = listed(self.right).members(rows)[0]
            left = self._after(members, rows, times=len(members))
            return any(left.contains(k, z) for k in range(len(members)))
        x = dense_rows(self.X, rows)
        if self.oracle.left.finite and self.oracle.left.additive:
            moves = listed(self._after(x, rows)).members()[0] - x
            return any(self.right.contains(row, z - move) for move in moves)
        if self.oracle.convex:
            return self._hull_contains(rows, x[0].astype(np.float64), z.astype(np.float64))
        name = type(self.oracle.left).__name__, type(self.oracle.right).__name__
        raise NotImplementedError(f"Compose does not define contains for {name[0]} @ {name[1]}")

    def _hull_contains(self, rows: np.ndarray, x: np.ndarray, z: np.ndarray) -> bool:
        """Return True if `z` is in the convex set, by its support function.

        The method projects `z` on the hull of the answers so far, as in fully corrective Frank-Wolfe. It
        ends if a direction separates `z` from the set.
        """
        near = 1e3 * rounding(x, z)
        corners = x[None, :]
        rest = z - x
        for _ in range(200):
            length = np.linalg.norm(rest)
            if length <= near:
                return True
            answer = self.support(rows, rest[None, :] / length, np.array([0]))
            corner = dense_rows(answer.points)[0]
            if rest @ (z - corner) / length > near:
                return False
            corners = np.vstack([corners, corner])
            rest = z - _nearest(corners, z)
        return bool(np.linalg.norm(rest) <= 100 * near)


def _no_grades(part: InvarianceOracle) -> str:
    return (
        f"Compose does not support grades, but {type(part).__name__} has grades: "
        "discount the parts of a union instead"
    )


def _nearest(corners: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Return the point of the convex hull of `corners` that is nearest to `z`."""
    moved = corners - z
    # The least-squares solution a >= 0 of moved' a = 0, 1'a = 1 is proportional to the weights of the
    # nearest point.
    system = np.vstack([moved.T / np.max(np.abs(moved)), np.ones(len(corners))])
    mixture, _ = nnls(system, np.r_[np.zeros(len(z)), 1.0])
    return z + moved.T @ (mixture / np.sum(mixture))
