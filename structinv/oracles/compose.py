"""One oracle after another."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from scipy.optimize import nnls

from ..matrices import ALL_ROWS, Matrix, Rows, floating, rounding, row_dots, select, take
from ..regions import Region
from ..regions.parts import Parts
from .arguments import check_row_by_row
from .base import (
    BoundOracle,
    Cover,
    InvarianceOracle,
    Support,
    dense_rows,
    pulled_back,
)
from .checked import bind
from .combinators import Pair, best_of, upper_of
from .geometry import region_of
from .joined_laws import ComposedLaw
from .laws import Law, TakenLaw, changes_otherwise, law_of


class Compose(Pair):
    r"""First a change of `right`, then one of `left`; written ``left @ right``.

    .. math:: S(x) = \bigcup_{z \in S_{right}(x)} S_{left}(z)

    Exact if the part applied last is additive (the two supports add), or the part applied first is
    finite (one question for each member), or the part applied last is a list of fixed linear maps,
    which `pullback` tells (the right part is asked along T'v for each map T). Otherwise several
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
        members = bind(self.right, floating(X)).orbit(ALL_ROWS)
        each = (np.ascontiguousarray(members[:, k]) for k in range(members.shape[1]))
        return Parts([region_of(self.left, rows) for rows in each])

    def pullback(self, V: np.ndarray) -> np.ndarray | None:
        """See `InvarianceOracle.pullback`; None unless both parts are linear maps."""
        left = pulled_back(self.left, V)
        if left is None:
            return None
        right = pulled_back(self.right, left.reshape(-1, V.shape[1]))
        return None if right is None else right.reshape(-1, *V.shape)

    def law(self, n_features: int, size: int | None = None, random_state: int = 0) -> Law:
        """See `InvarianceOracle.law`: changes of both parts, independent of one another."""
        if changes_otherwise(self, Compose, "member_weights"):
            return super().law(n_features, size, random_state)
        seeds = np.random.SeedSequence(random_state).generate_state(3)
        left, right = (
            law_of(part, n_features, size, int(seed))
            for part, seed in zip((self.left, self.right), seeds[:2], strict=True)
        )
        if size is None:
            return ComposedLaw(left, right, paired=False)
        # Draws may be sorted, as those of a union are: in pairs of sorted ones both parts would go
        # together.
        order = np.random.default_rng(seeds[2]).permutation(size)
        return ComposedLaw(TakenLaw(left, order, left.weights[order]), right, paired=True)

    def bind(self, X: Matrix, y: np.ndarray | None = None) -> BoundOracle:
        """The right part on the rows of `X`; the left one is bound to the changed rows."""
        self._check_rows(X)
        return _BoundCompose(self.prepared(), X, y)


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
        maps = pulled_back(self.oracle.left, V)
        if maps is not None:
            return self._pull_back(maps, rows, V, assign)
        return self._try_several(rows, V, assign)

    def _after(self, points: Matrix, rows: Rows, times: int = 1) -> BoundOracle:
        """The left part on changed rows, with the labels of the rows they came from."""
        labels = self.labels(rows)
        return bind(self.oracle.left, points, None if labels is None else np.repeat(labels, times))

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
        members = np.moveaxis(self.right.orbit(rows), 1, 0)
        best = self._after_member(members[0], rows, V, assign)
        for points in members[1:]:
            best = best_of([best, self._after_member(points, rows, V, assign)], V, assign)
        return best

    def _after_member(
        self, points: np.ndarray, rows: Rows, V: np.ndarray, assign: np.ndarray
    ) -> Support:
        part = sp.csr_matrix(points) if sp.issparse(self.X) else np.ascontiguousarray(points)
        return self._ask(self._after(part, rows), ALL_ROWS, V, assign)

    def _pull_back(self, maps: np.ndarray, rows: Rows, V: np.ndarray, assign: np.ndarray) -> Support:
        answers = [self._ask(self.right, rows, W, assign) for W in maps]
        values = [row_dots(a.points, W, assign) for a, W in zip(answers, maps, strict=True)]
        choice = np.argmax(values, axis=0)
        sources = select(choice, [answer.points for answer in answers])
        members = self._after(sources, rows).orbit(ALL_ROWS)
        points = members[np.arange(len(choice)), choice]
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

    def orbit(self, rows: Rows) -> np.ndarray:
        return self._each_after(
            self.right.orbit(rows),
            rows,
            lambda left: left.orbit(ALL_ROWS),
        )

    def cover(self, rows: Rows) -> Cover:
        right, meshes = self.right.cover(rows), []

        def points_of(left: BoundOracle) -> np.ndarray:
            cover = left.cover(ALL_ROWS)
            meshes.append(cover.mesh.reshape(right.points.shape[:2]).max(axis=1))
            return cover.points

        points = self._each_after(right.points, rows, points_of)
        if self.oracle.left.additive or self.oracle.right.finite:
            # What the left part adds is as far from its cover wherever the right part has moved to.
            return Cover(points, right.mesh + meshes[0])
        # How far the left part carries two points apart is not known.
        return Cover(points, np.full(len(points), np.inf))

    def members(self, rows: Rows, index: np.ndarray) -> np.ndarray:
        first, second = np.divmod(index, len(self.left_names))
        return self._after(self.right.members(rows, first), rows).members(ALL_ROWS, second)

    def refine(
        self, rows: Rows, index: np.ndarray, score: Callable[[np.ndarray], np.ndarray]
    ) -> np.ndarray:
        return self.members(rows, index)

    @cached_property
    def left_names(self) -> list[str]:
        return self._after(self.X[:1], slice(0, 1)).member_names()

    def member_names(self) -> list[str]:
        pairs = itertools.product(self.right.member_names(), self.left_names)
        return [_name_of_pair(first, second) for first, second in pairs]

    def sample(self, rows: Rows, size: int, rng: np.random.Generator) -> np.ndarray:
        return self._each_after(
            self.right.sample(rows, size, rng), rows, lambda left: left.sample(ALL_ROWS, 1, rng)
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
            members = self.right.orbit(rows)[0]
            left = self._after(members, rows, times=len(members))
            return any(left.contains(k, z) for k in range(len(members)))
        x = dense_rows(self.X, rows)
        if self.oracle.left.finite and self.oracle.left.additive:
            moves = self._after(x, rows).orbit(ALL_ROWS)[0] - x
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


def _name_of_pair(first: str, second: str) -> str:
    changes = [name for name in (first, second) if name != "identity"]
    return ", then ".join(changes) if changes else "identity"


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
