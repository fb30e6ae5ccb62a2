"""Oracles made of oracles: unions, compositions, labels, grades."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import nnls

from ..matrices import ALL_ROWS, Matrix, Rows, interleave, rounding, row_dots, select, take
from .base import BoundOracle, InvarianceOracle, Support, dense_rows, grade_profile


class _Combination(InvarianceOracle):
    """Views that ask the bound oracle, where the parts may see labels."""

    def support(
        self, X: Matrix, V: np.ndarray, assign: np.ndarray, reward: np.ndarray | None = None
    ) -> Support:
        """See `InvarianceOracle.support`."""
        return self.bind(X).support(ALL_ROWS, V, assign, reward)

    def orbit(self, X: Matrix) -> np.ndarray:
        """See `InvarianceOracle.orbit`; needs parts that are finite."""
        return bound_view(self.bind(X), "orbit")(ALL_ROWS)

    def sample(self, X: Matrix, size: int, rng: np.random.Generator) -> np.ndarray:
        """See `InvarianceOracle.sample`."""
        return self.bind(X).sample(ALL_ROWS, size, rng)

    def contains(self, x: np.ndarray, z: np.ndarray) -> bool:
        """See `InvarianceOracle.contains`."""
        return self.bind(x[None, :]).contains(0, z)


class _Pair(_Combination):
    def __init__(self, left: InvarianceOracle, right: InvarianceOracle) -> None:
        self.left = left
        self.right = right

    @property
    def supports_sparse(self) -> bool:  # type: ignore[override]
        """Whether both parts take CSR rows."""
        return self.left.supports_sparse and self.right.supports_sparse

    @property
    def finite(self) -> bool:  # type: ignore[override]
        """Whether both parts are finite."""
        return self.left.finite and self.right.finite

    @property
    def additive(self) -> bool:  # type: ignore[override]
        """Whether both parts are additive."""
        return self.left.additive and self.right.additive

    def validate(self, n_features: int | None = None) -> None:
        """Raise if a part is not an oracle or has a parameter out of range."""
        _validate_part("left", self.left, n_features)
        _validate_part("right", self.right, n_features)


class Union(_Pair):
    r"""Everything that either of two oracles allows; written ``left | right``.

    .. math:: S(x) = S_{left}(x) \cup S_{right}(x)

    The answer is the better of the two answers, and exact if both are.

    Parameters
    ----------
    left, right : InvarianceOracle

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.oracles import Box, Ellipsoid
    >>> either = Box([3.0, 0.0]) | Ellipsoid(np.eye(2), radius=2.0)
    >>> either.support(np.zeros((2, 2)), np.eye(2), np.array([0, 1])).points
    array([[3., 0.],
           [0., 2.]])
    """

    @property
    def graded(self) -> bool:
        """Whether a part is graded."""
        return _graded(self.left) or _graded(self.right)

    def bind(self, X: Matrix, y: np.ndarray | None = None) -> BoundOracle:
        """Both parts on the rows of `X`."""
        self.validate(X.shape[1])
        return _BoundUnion(self, X, y)

    def graded_support(
        self,
        X: Matrix,
        V: np.ndarray,
        assign: np.ndarray,
        reward: np.ndarray,
        rho: float | Sequence[float],
    ) -> Support:
        """See `InvarianceOracle.graded_support`: the same grades in both parts."""
        return bound_view(self.bind(X), "graded_support")(ALL_ROWS, V, assign, reward, rho)


class _BoundUnion(BoundOracle):
    def __init__(self, oracle: Union, X: Matrix, y: np.ndarray | None) -> None:
        super().__init__(oracle, X, y)
        self.parts = [oracle.left.bind(X, y), oracle.right.bind(X, y)]

    def support(
        self, rows: Rows, V: np.ndarray, assign: np.ndarray, reward: np.ndarray | None = None
    ) -> Support:
        answers = [part.support(rows, V, assign, reward) for part in self.parts]
        return _best(answers, V, assign, reward)

    def graded_support(
        self,
        rows: Rows,
        V: np.ndarray,
        assign: np.ndarray,
        reward: np.ndarray,
        rho: float | Sequence[float],
    ) -> Support:
        views = [bound_view(part, "graded_support") for part in self.parts]
        return _best([view(rows, V, assign, reward, rho) for view in views], V, assign, reward)

    def orbit(self, rows: Rows) -> np.ndarray:
        left, right = (bound_view(part, "orbit")(rows) for part in self.parts)
        return np.concatenate([left, right[:, 1:]], axis=1)

    def sample(self, rows: Rows, size: int, rng: np.random.Generator) -> np.ndarray:
        left, right = (part.sample(rows, size, rng) for part in self.parts)
        return np.where(rng.random((*left.shape[:2], 1)) < 0.5, left, right)

    def contains(self, row: int, z: np.ndarray) -> bool:
        return any(part.contains(row, z) for part in self.parts)


class Compose(_Pair):
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
        for name, part in (("left", self.left), ("right", self.right)):
            if _graded(part):
                raise NotImplementedError(
                    f"Compose refuses graded parts, and {name} is {type(part).__name__} with "
                    "grades: discounts go on members of a union, or outermost"
                )

    def bind(self, X: Matrix, y: np.ndarray | None = None) -> BoundOracle:
        """The right part on the rows of `X`; the left one is bound to the changed rows."""
        self.validate(X.shape[1])
        return _BoundCompose(self, X, y)


class _BoundCompose(BoundOracle):
    oracle: Compose

    def __init__(self, oracle: Compose, X: Matrix, y: np.ndarray | None) -> None:
        super().__init__(oracle, X, y)
        self.right = oracle.right.bind(X, y)

    def support(
        self, rows: Rows, V: np.ndarray, assign: np.ndarray, reward: np.ndarray | None = None
    ) -> Support:
        if self.oracle.left.additive:
            return self._sum(rows, V, assign)
        if self.oracle.right.finite:
            return self._enumerate(rows, V, assign)
        pullback = getattr(self.oracle.left, "pullback", None)
        maps = None if pullback is None else pullback(V)
        if maps is not None:
            return self._pull_back(maps, rows, V, assign)
        return self._try_several(rows, V, assign)

    def _after(self, points: Matrix, rows: Rows, times: int = 1) -> BoundOracle:
        """The left part on changed rows, with the labels of the rows they came from."""
        labels = self.labels(rows)
        return self.oracle.left.bind(points, None if labels is None else np.repeat(labels, times))

    def _sum(self, rows: Rows, V: np.ndarray, assign: np.ndarray) -> Support:
        first = self.right.support(rows, V, assign)
        second = self._after(first.points, rows).support(ALL_ROWS, V, assign)
        if first.upper is None and second.upper is None:
            return Support(second.points)
        reached = row_dots(first.points, V, assign)
        return Support(
            second.points, _upper(first, V, assign) + _upper(second, V, assign) - reached
        )

    def _enumerate(self, rows: Rows, V: np.ndarray, assign: np.ndarray) -> Support:
        members = np.moveaxis(bound_view(self.right, "orbit")(rows), 1, 0)
        best = None
        for points in members:
            part = sp.csr_matrix(points) if sp.issparse(self.X) else np.ascontiguousarray(points)
            answer = self._after(part, rows).support(ALL_ROWS, V, assign)
            best = answer if best is None else _best([best, answer], V, assign)
        return best

    def _pull_back(
        self, maps: np.ndarray, rows: Rows, V: np.ndarray, assign: np.ndarray
    ) -> Support:
        answers = [self.right.support(rows, W, assign) for W in maps]
        values = [row_dots(a.points, W, assign) for a, W in zip(answers, maps, strict=True)]
        choice = np.argmax(values, axis=0)
        sources = select(choice, [answer.points for answer in answers])
        members = bound_view(self._after(sources, rows), "orbit")(ALL_ROWS)
        points = members[np.arange(len(choice)), choice]
        upper = None
        if any(answer.upper is not None for answer in answers):
            uppers = [_upper(a, W, assign) for a, W in zip(answers, maps, strict=True)]
            upper = np.max(uppers, axis=0)
        return Support(sp.csr_matrix(points) if sp.issparse(self.X) else points, upper)

    def _try_several(self, rows: Rows, V: np.ndarray, assign: np.ndarray) -> Support:
        starts = [take(self.X, rows)]
        starts += [self.right.support(rows, sign * V, assign).points for sign in (1.0, -1.0)]
        answers = [Support(starts[0])]
        for points in starts:
            answers.append(self._after(points, rows).support(ALL_ROWS, V, assign))
        if not sp.issparse(self.X):
            answers += self._reweighted(starts[1], answers[2].points, rows, V, assign)
        best = _best([Support(answer.points) for answer in answers], V, assign)
        return Support(best.points, np.full(len(assign), np.inf))

    def _reweighted(
        self, source: np.ndarray, answer: np.ndarray, rows: Rows, V: np.ndarray, assign: np.ndarray
    ) -> list[Support]:
        """Ask `right` along directions in which a feature counts as much as `left` magnifies it."""
        each, answers = np.arange(len(assign)), []
        for _ in range(2):
            known = np.abs(source) > 1e-12 * np.max(np.abs(source), initial=0.0)
            factors = np.divide(answer, source, out=np.ones(source.shape), where=known)
            source = self.right.support(rows, V[assign] * factors, each).points
            answers.append(self._after(source, rows).support(ALL_ROWS, V, assign))
            answer = answers[-1].points
        return answers

    def orbit(self, rows: Rows) -> np.ndarray:
        return self._each_after(
            bound_view(self.right, "orbit")(rows),
            rows,
            lambda left: bound_view(left, "orbit")(ALL_ROWS),
        )

    def sample(self, rows: Rows, size: int, rng: np.random.Generator) -> np.ndarray:
        return self._each_after(
            self.right.sample(rows, size, rng), rows, lambda left: left.sample(ALL_ROWS, 1, rng)
        )

    def _each_after(
        self, members: np.ndarray, rows: Rows, view: Callable[[BoundOracle], np.ndarray]
    ) -> np.ndarray:
        n, s, d = members.shape
        return view(self._after(members.reshape(n * s, d), rows, times=s)).reshape(n, -1, d)

    def contains(self, row: int, z: np.ndarray) -> bool:
        rows = np.array([row])
        if self.oracle.right.finite:
            members = bound_view(self.right, "orbit")(rows)[0]
            left = self._after(members, rows, times=len(members))
            return any(left.contains(k, z) for k in range(len(members)))
        x = dense_rows(self.X, rows)
        if self.oracle.left.finite and self.oracle.left.additive:
            moves = bound_view(self._after(x, rows), "orbit")(ALL_ROWS)[0] - x
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


class OnlyFor(_Combination):
    r"""The invariance of an oracle for rows of some labels; written ``oracle.only_for(labels)``.

    .. math:: S(x, y) = S_{oracle}(x) \text{ if } y \in labels, \quad \{x\} \text{ otherwise}

    Parameters
    ----------
    oracle : InvarianceOracle
    labels : label or sequence of labels
        True labels, as they are given to ``fit``.

    Notes
    -----
    It is asked through ``bind(X, y)``; without labels it raises a ValueError.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.oracles import Box
    >>> X, y = np.zeros((2, 1)), np.array(["ham", "spam"])
    >>> bound = Box(1.0).only_for("spam").bind(X, y)
    >>> bound.support(slice(None), np.array([[1.0]]), np.array([0, 0])).points
    array([[0.],
           [1.]])
    """

    def __init__(self, oracle: InvarianceOracle, labels: Any) -> None:
        self.oracle = oracle
        self.labels = labels

    supports_sparse = property(lambda self: self.oracle.supports_sparse)
    finite = property(lambda self: self.oracle.finite)
    additive = property(lambda self: self.oracle.additive)
    convex = property(lambda self: self.oracle.convex)
    graded = property(lambda self: _graded(self.oracle))

    def validate(self, n_features: int | None = None) -> None:
        """Raise if the part is not an oracle or there are no labels."""
        _validate_part("oracle", self.oracle, n_features)
        if self.labels is None or len(self._listed()) == 0:
            raise ValueError(f"labels must be a label or a sequence of labels, got {self.labels!r}")

    def _listed(self) -> np.ndarray:
        return np.asarray([self.labels] if np.isscalar(self.labels) else list(self.labels))

    def bind(self, X: Matrix, y: np.ndarray | None = None) -> BoundOracle:
        """The part on the rows of `X`, some of which it leaves alone."""
        self.validate(X.shape[1])
        if y is None:
            raise ValueError("OnlyFor depends on the true labels: use bind(X, y)")
        return _BoundOnlyFor(self, X, np.asarray(y))


class _BoundOnlyFor(BoundOracle):
    def __init__(self, oracle: OnlyFor, X: Matrix, y: np.ndarray) -> None:
        super().__init__(oracle, X, y)
        self.inner = oracle.oracle.bind(X, y)
        self.covered = np.isin(y, oracle._listed())

    def support(
        self, rows: Rows, V: np.ndarray, assign: np.ndarray, reward: np.ndarray | None = None
    ) -> Support:
        return self._merged(self.inner.support, rows, V, assign, reward)

    def graded_support(
        self,
        rows: Rows,
        V: np.ndarray,
        assign: np.ndarray,
        reward: np.ndarray,
        rho: float | Sequence[float],
    ) -> Support:
        return self._merged(bound_view(self.inner, "graded_support"), rows, V, assign, reward, rho)

    def _merged(
        self,
        ask: Callable[..., Support],
        rows: Rows,
        V: np.ndarray,
        assign: np.ndarray,
        reward: np.ndarray | None,
        *grades: Any,
    ) -> Support:
        whole = np.arange(self.X.shape[0])[rows]
        mask = self.covered[whole]
        X = take(self.X, rows)
        rho = np.ones(len(mask)) if grades or _graded(self.oracle) else None
        if not np.any(mask):
            return Support(X, rho=rho)
        some = None if reward is None else reward[mask]
        part = ask(whole[mask], V, assign[mask], some, *grades)
        if part.rho is not None:
            rho[mask] = part.rho
        upper = None
        if part.upper is not None:
            upper = row_dots(X, V, assign)
            if rho is not None and reward is not None:
                upper += reward
            upper[mask] = part.upper
        return Support(interleave(mask, part.points, X[~mask]), upper, rho)

    def orbit(self, rows: Rows) -> np.ndarray:
        """For the labels left alone the identity as often as the others have members."""
        members = bound_view(self.inner, "orbit")(rows)
        outside = ~self.covered[rows]
        members[outside] = members[outside, :1]
        return members

    def sample(self, rows: Rows, size: int, rng: np.random.Generator) -> np.ndarray:
        members = self.inner.sample(rows, size, rng)
        outside = ~self.covered[rows]
        members[outside] = dense_rows(take(self.X, rows)[outside])[:, None, :]
        return members

    def contains(self, row: int, z: np.ndarray) -> bool:
        if self.covered[row]:
            return self.inner.contains(row, z)
        x = dense_rows(self.X, [row])[0]
        return bool(np.max(np.abs(z - x), initial=0.0) <= rounding(x, z))


class Discounted(_Combination):
    r"""The set of an oracle with grades; written ``oracle.discounted(rho)``.

    The answer maximises :math:`\langle v, z\rangle + reward \cdot \rho(x, z)`: missing a small
    change costs more than missing a large one.

    Parameters
    ----------
    oracle : InvarianceOracle
        With a `graded_support`: word oracles, `Box`, `Ellipsoid`, finite oracles, and unions and
        ``only_for`` of these. Others are refused by name.
    rho : float or sequence of float
        See `InvarianceOracle.discounted`. In a union both parts have these grades.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.oracles import Box
    >>> graded = Box(1.0).discounted(0.5)
    >>> X, V, assign = np.zeros((2, 1)), np.array([[1.0]]), np.array([0, 0])
    >>> answer = graded.support(X, V, assign, reward=np.array([1.0, 3.0]))
    >>> answer.points, answer.rho
    (array([[1.],
           [0.]]), array([0.5, 1. ]))
    """

    graded = True

    def __init__(self, oracle: InvarianceOracle, rho: float | Sequence[float]) -> None:
        self.oracle = oracle
        self.rho = rho

    supports_sparse = property(lambda self: self.oracle.supports_sparse)
    finite = property(lambda self: self.oracle.finite)
    additive = property(lambda self: self.oracle.additive)
    convex = property(lambda self: self.oracle.convex)

    def validate(self, n_features: int | None = None) -> None:
        """Raise if the part is not an oracle, or the grades not in [0, 1] and 1 at no change."""
        _validate_part("oracle", self.oracle, n_features)
        grade_profile(self.rho)

    def bind(self, X: Matrix, y: np.ndarray | None = None) -> BoundOracle:
        """The part on the rows of `X`."""
        self.validate(X.shape[1])
        return _BoundDiscounted(self, X, y)


class _BoundDiscounted(BoundOracle):
    oracle: Discounted

    def __init__(self, oracle: Discounted, X: Matrix, y: np.ndarray | None) -> None:
        super().__init__(oracle, X, y)
        self.inner = oracle.oracle.bind(X, y)

    def support(
        self, rows: Rows, V: np.ndarray, assign: np.ndarray, reward: np.ndarray | None = None
    ) -> Support:
        worth = np.zeros(len(assign)) if reward is None else reward
        ask = bound_view(self.inner, "graded_support")
        return ask(rows, V, assign, worth, self.oracle.rho)

    def orbit(self, rows: Rows) -> np.ndarray:
        return bound_view(self.inner, "orbit")(rows)

    def sample(self, rows: Rows, size: int, rng: np.random.Generator) -> np.ndarray:
        return self.inner.sample(rows, size, rng)

    def contains(self, row: int, z: np.ndarray) -> bool:
        return self.inner.contains(row, z)


def bound_view(bound: BoundOracle, name: str) -> Callable[..., Any]:
    """A view of a bound oracle, asked of the oracle itself where the bound class has none."""
    own = getattr(bound, name, None)
    if own is not None:
        return own
    view = getattr(bound.oracle, name)
    return lambda rows, *args: view(take(bound.X, rows), *args)


def _graded(oracle: InvarianceOracle) -> bool:
    return getattr(oracle, "graded", False)


def _validate_part(name: str, part: Any, n_features: int | None) -> None:
    if not isinstance(part, InvarianceOracle):
        raise TypeError(f"{name} must be an InvarianceOracle, got {part!r}")
    part.validate(n_features)


def _attained(
    answer: Support, V: np.ndarray, assign: np.ndarray, reward: np.ndarray | None = None
) -> np.ndarray:
    """What the points reach. Without grades the reward is a constant that nobody adds."""
    dots = row_dots(answer.points, V, assign)
    return dots if answer.rho is None or reward is None else dots + reward * answer.rho


def _upper(
    answer: Support, V: np.ndarray, assign: np.ndarray, reward: np.ndarray | None = None
) -> np.ndarray:
    """A bound on the best value, which an exact answer attains."""
    return _attained(answer, V, assign, reward) if answer.upper is None else answer.upper


def _best(
    answers: Sequence[Support],
    V: np.ndarray,
    assign: np.ndarray,
    reward: np.ndarray | None = None,
) -> Support:
    """In each row the best of several answers, of equal ones that of the larger grade."""
    if any(answer.rho is not None for answer in answers):
        answers = [_with_grades(answer, reward) for answer in answers]
    values = np.stack([_attained(answer, V, assign, reward) for answer in answers])
    grades = [np.ones(len(assign)) if a.rho is None else a.rho for a in answers]
    ties = np.where(values == np.max(values, axis=0), grades, -1.0)
    choice = np.argmax(ties, axis=0)
    upper = None
    if any(answer.upper is not None for answer in answers):
        upper = np.max([_upper(a, V, assign, reward) for a in answers], axis=0)
    rho = None if answers[0].rho is None else np.stack(grades)[choice, np.arange(len(choice))]
    return Support(select(choice, [answer.points for answer in answers]), upper, rho)


def _with_grades(answer: Support, reward: np.ndarray | None) -> Support:
    if answer.rho is not None:
        return answer
    upper = answer.upper
    if upper is not None and reward is not None:
        upper = upper + reward
    return Support(answer.points, upper, np.ones(answer.points.shape[0]))


def _nearest(corners: np.ndarray, z: np.ndarray) -> np.ndarray:
    """The point of the convex hull of `corners` that is nearest to `z`."""
    moved = corners - z
    # The least squares of (moved' a, 1'a - 1) over a >= 0 point to the nearest mixture.
    system = np.vstack([moved.T / np.max(np.abs(moved)), np.ones(len(corners))])
    mixture, _ = nnls(system, np.r_[np.zeros(len(z)), 1.0])
    return z + moved.T @ (mixture / np.sum(mixture))
