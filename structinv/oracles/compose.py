"""One oracle after another."""

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
from .arguments import check_row_by_row
from .base import BoundOracle, InvarianceOracle, Support
from .changes import Changes
from .checked_oracle import bind
from .combinators import Pair, best_of, upper_of
from .combined_changes import ComposedChanges
from .geometry import region_of
from .listing import changes_of, draws_of, listed


class Compose(Pair):
    r"""First a change of `right`, then one of `left`; written ``left @ right``.

    .. math:: S(x) = \bigcup_{z \in S_{right}(x)} S_{left}(z)

    Exact if the part applied last is additive (the two supports add), or the part applied first is
    finite (one question for each member), or the part applied last is a list of fixed linear maps,
    known as such (the right part is asked along T'v for each map T). Otherwise several
    points of `right` are tried, the best answer is kept, and `upper` is infinite.

    Parameters
    ----------
    left, right : InvarianceOracle
        Ungraded: ``(left @ right).discounted(...)`` and graded parts are refused.

    Notes
    -----
    The set of `left` around a changed row belongs to the label of the row itself. In `orbit` only
    the pair of both identities counts as the identity.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.oracles import Box, Ellipsoid
    >>> both = Box(1.0) @ Ellipsoid(np.eye(2), radius=2.0)
    >>> both.support(np.zeros((1, 2)), np.array([[1.0, 0.0]]), np.array([0])).points
    array([[3., 0.]])
    """

    @property
    def convex(self) -> bool:  # type: ignore[override]
        """Whether the set is a sum of two convex sets."""
        return self.left.additive and self.left.convex and self.right.convex

    def validate(self, n_features: int | None = None) -> None:
        """Raise if a part is not an oracle, is graded, or has a parameter out of range."""
        super().validate(n_features)
        for part in (self.left, self.right):
            check_row_by_row("a part of @", part, "write Shared(left @ right)")
            if part.graded:
                raise NotImplementedError(_no_grades(part))

    def region(self, X: np.ndarray) -> Region:
        """See `InvarianceOracle.region`: a sum of sets, or a union over members of the right part."""
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
        # Otherwise it is not known how far the left part carries two points apart. If it is additive,
        # what it adds is as far from its list wherever the right part has moved to.
        return ComposedChanges(left, right, bounded=self.left.additive or self.right.finite)

    def _moved_later(self, X: Matrix, y: np.ndarray | None) -> Changes | None:
        """The changes of the left part, on no rows yet."""
        return changes_of(self.left, dense_rows(X, slice(0, 0)), None if y is None else y[:0])

    def _draws(self, X: Matrix, n_draws: int, random_state: int) -> Changes:
        """See `InvarianceOracle.draws`: changes of both parts, independent of one another."""
        seeds = np.random.SeedSequence(random_state).generate_state(3)
        left = draws_of(self.left, dense_rows(X, slice(0, 0)), n_draws, int(seeds[0]))
        right = draws_of(self.right, X, n_draws, int(seeds[1]))
        # Draws may be sorted, as those of a union are: in pairs of sorted ones both parts would go
        # together.
        order = np.random.default_rng(seeds[2]).permutation(n_draws)
        return ComposedChanges(left.take(order), right, paired=True)

    def bind(self, X: Matrix, y: np.ndarray | None = None) -> BoundOracle:
        """The right part on the rows of `X`; the left one is bound to the changed rows."""
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
        """The members of the left part, if they are all there are."""
        found = self.oracle._moved_later(self.X, self.y)
        return found if found is not None and found.scored else None

    def _after(self, points: Matrix, rows: Rows, times: int = 1) -> BoundOracle:
        """The left part on changed rows, with the labels of the rows they came from."""
        labels = self._labels(rows)
        return bind(self.oracle.left, points, None if labels is None else np.repeat(labels, times))

    def _labels(self, rows: Rows) -> np.ndarray | None:
        return None if self.y is None else self.y[rows]

    def _ask(self, part: BoundOracle, rows: Rows, V: np.ndarray, assign: np.ndarray) -> Support:
        answer = part.support(rows, V, assign)
        if answer.rho is not None:
            raise NotImplementedError(_no_grades(part.oracle))
        return answer

    def _sum(self, rows: Rows, V: np.ndarray, assign: np.ndarray) -> Support:
        first = self._ask(self.right, rows, V, assign)
        second = self._ask(self._after(first.points, rows), ALL_ROWS, V, assign)
        if first.upper is None and second.upper is None:
            return Support(second.points)
        reached = row_dots(first.points, V, assign)
        return Support(second.points, upper_of(first, V, assign) + upper_of(second, V, assign) - reached)

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
        return self._ask(self._after(part, rows), ALL_ROWS, V, assign)

    def _of_maps(
        self, left: Changes, maps: np.ndarray, rows: Rows, V: np.ndarray, assign: np.ndarray
    ) -> Support:
        """The best member where the left part is a list of fixed linear maps."""
        answers = [self._ask(self.right, rows, W, assign) for W in maps]
        values = [row_dots(a.points, W, assign) for a, W in zip(answers, maps, strict=True)]
        choice = np.argmax(values, axis=0)
        sources = select(choice, [answer.points for answer in answers])
        points = dense_rows(left.on(sources, self._labels(rows)).points(ALL_ROWS, choice))
        upper = None
        if any(answer.upper is not None for answer in answers):
            uppers = [upper_of(a, W, assign) for a, W in zip(answers, maps, strict=True)]
            upper = np.max(uppers, axis=0)
        return Support(sp.csr_matrix(points) if sp.issparse(self.X) else points, upper)

    def _try_several(self, rows: Rows, V: np.ndarray, assign: np.ndarray) -> Support:
        starts = [take(self.X, rows)]
        starts += [self._ask(self.right, rows, sign * V, assign).points for sign in (1.0, -1.0)]
        answers = [Support(starts[0])]
        for points in starts:
            answers.append(self._ask(self._after(points, rows), ALL_ROWS, V, assign))
        if not sp.issparse(self.X):
            answers += self._reweighted(starts[1], answers[2].points, rows, V, assign)
        best = best_of([Support(answer.points) for answer in answers], V, assign)
        return Support(best.points, np.full(len(assign), np.inf))

    def _reweighted(
        self, source: np.ndarray, answer: np.ndarray, rows: Rows, V: np.ndarray, assign: np.ndarray
    ) -> list[Support]:
        """Ask `right` along directions in which a feature counts as much as `left` magnifies it."""
        each, answers = np.arange(len(assign)), []
        for _ in range(2):
            known = np.abs(source) > 1e-12 * np.max(np.abs(source), initial=0.0)
            factors = np.divide(answer, source, out=np.ones(source.shape), where=known)
            source = self._ask(self.right, rows, V[assign] * factors, each).points
            answers.append(self._ask(self._after(source, rows), ALL_ROWS, V, assign))
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
        """Whether no direction separates `z` from a convex set that is known by its support.

        The nearest point of a growing hull of answers, as in fully corrective Frank-Wolfe.
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
        f"Compose refuses graded parts, and {type(part).__name__} has grades: "
        "discount the members of a union instead"
    )


def _nearest(corners: np.ndarray, z: np.ndarray) -> np.ndarray:
    """The point of the convex hull of `corners` that is nearest to `z`."""
    moved = corners - z
    # The least squares of (moved' a, 1'a - 1) over a >= 0 point to the nearest mixture.
    system = np.vstack([moved.T / np.max(np.abs(moved)), np.ones(len(corners))])
    mixture, _ = nnls(system, np.r_[np.zeros(len(z)), 1.0])
    return z + moved.T @ (mixture / np.sum(mixture))
