"""Convex sets around the input: ellipsoids, boxes, bounded combinations of directions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.optimize import brentq, lsq_linear

from ..regions import Boxes, Ellipsoids, Region, Zonotopes
from ..regions.ellipsoids import Balls
from ..regions.inner_products import Stack
from ..utils import plugins
from ..utils.matrices import ALL_ROWS, Matrix, Rows, dense_rows, floating, rounding, take
from .affine_hull import BoxHull, EllipsoidHull, ZonotopeHull
from .arguments import check_directions, grade_profile
from .base import BoundOracle, Hull, InvarianceOracle, Support
from .checked_oracle import tangents_of
from .support import Grades


class _AffineOracle(InvarianceOracle):
    """S(x) = {x + F u : u in U}, with a frame F, (d, r), that may differ from row to row.

    A subclass gives the frame and what concerns U; evaluating the frame once for all rows is
    the work of the bound oracle.
    """

    convex = True

    @abstractmethod
    def _frame(self, X: np.ndarray) -> np.ndarray:
        """The frame, (d, r), or one for each row, (n, d, r)."""

    @abstractmethod
    def _extreme(self, C: np.ndarray) -> np.ndarray:
        """The members of U that are furthest along each of the rows of `C`, (n, r)."""

    @abstractmethod
    def _draw(self, size: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        """Uniform members of U in an array of this size, its last axis being r."""

    @abstractmethod
    def _distance(self, F: np.ndarray, change: np.ndarray) -> float:
        """Distance from `change`, (d,), to the changes allowed."""

    def _grade(
        self, C: np.ndarray, assign: np.ndarray, cost: np.ndarray, rho: float | Sequence[float]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Share of the extreme change to make in each row, and its grade."""
        raise self._absent("graded support, so it cannot be discounted", verb="has no")

    @abstractmethod
    def _region(self, X: np.ndarray, F: np.ndarray) -> Region:
        """The sets of the rows of a frame as geometry."""

    @abstractmethod
    def _hull(
        self,
        X: np.ndarray,
        F: np.ndarray,
        signs: np.ndarray,
        weights: np.ndarray,
        intercept: bool,
    ) -> Hull:
        """In-hull steps on the rows of a frame."""

    def _spread(self, F: np.ndarray) -> np.ndarray | None:
        """See `BoundOracle.spread`, of a frame that all rows share; None, the default, for balls."""
        return None

    def _framed(self, X: Matrix) -> BoundFrame:
        self._check_rows(X)
        return BoundFrame(self, X, None)

    def support(
        self, X: Matrix, V: np.ndarray, assign: np.ndarray, cost: np.ndarray | None = None
    ) -> Support:
        """See `InvarianceOracle.support`; exact, in closed form."""
        framed = self._framed(X)
        check_directions(X, V, assign, cost)
        return framed.support(ALL_ROWS, V, assign, cost)

    def graded_support(
        self,
        X: Matrix,
        V: np.ndarray,
        assign: np.ndarray,
        cost: np.ndarray,
        rho: float | Sequence[float],
    ) -> Support:
        """See `InvarianceOracle.graded_support`; `Ellipsoid` alone has it."""
        framed = self._framed(X)
        check_directions(X, V, assign, cost)
        return framed.support(ALL_ROWS, V, assign, cost, rho)

    def region(self, X: np.ndarray) -> Region:
        self._check_rows(X)
        rows = floating(dense_rows(X))
        return self._region(rows, self._frame(rows))

    def tangents(self, X: Matrix) -> np.ndarray:
        """The columns of the frame, (n, r, d)."""
        self._check_rows(X)
        F = self._frame(dense_rows(X))
        return np.broadcast_to(F.swapaxes(-1, -2), (X.shape[0], F.shape[-1], F.shape[-2])).copy()

    def sample(self, X: Matrix, n_draws: int, rng: np.random.Generator) -> np.ndarray:
        """Uniform changes, each shrunk by a uniform factor: small changes are likelier."""
        return self._framed(X).sample(ALL_ROWS, n_draws, rng)

    def contains(self, x: np.ndarray, z: np.ndarray) -> bool:
        """Whether `z` lies in S(`x`), up to rounding."""
        return self._framed(x[None, :]).contains(0, z)


class BoundFrame(BoundOracle):
    """Sets of given rows around frames, which are evaluated once."""

    oracle: _AffineOracle

    def __init__(self, oracle: _AffineOracle, X: Matrix, y: np.ndarray | None) -> None:
        super().__init__(oracle, X, y)
        self.frame = oracle._frame(X)
        if not oracle.additive:
            # Directions may be turned, as singular vectors are; their size may not change.
            plugins.repeats(
                f"the function of {type(oracle).__name__}",
                "directions",
                np.linalg.norm(self.frame, axis=(1, 2)),
                lambda: np.linalg.norm(oracle._frame(X[-1:]), axis=(1, 2)),
            )

    def support(
        self,
        rows: Rows,
        V: np.ndarray,
        assign: np.ndarray,
        cost: np.ndarray | None = None,
        rho: Grades | None = None,
    ) -> Support:
        F, V, assign = self._facing(rows, V, assign)
        C = _onto(F, V)
        steps = _along(F, self.oracle._extreme(C))[assign]
        if rho is None:
            return Support(_moved(take(self.X, rows), steps))
        worth = np.zeros(len(assign)) if cost is None else cost
        share, grades = self.oracle._grade(C, assign, worth, rho)
        return Support(_moved(take(self.X, rows), share[:, None] * steps), rho=grades)

    def sample(self, rows: Rows, n_draws: int, rng: np.random.Generator) -> np.ndarray:
        X = dense_rows(self.X, rows)
        U = self.oracle._draw((len(X), n_draws, self.frame.shape[-1]), rng)
        U = U * rng.uniform(size=(len(X), n_draws, 1))
        return _moved(X[:, None, :], U @ self._frames(rows).swapaxes(-1, -2))

    def contains(self, row: int, z: np.ndarray) -> bool:
        x = self.X[row]
        F = self.frame if self.frame.ndim == 2 else self.frame[row]
        change = z.astype(np.float64) - x
        return self.oracle._distance(F, change) <= rounding(x, z)

    def hull(self, signs: np.ndarray, weights: np.ndarray, intercept: bool) -> Hull:
        return self.oracle._hull(self.X, self.frame, signs, weights, intercept)

    def spread(self) -> np.ndarray | None:
        return self.oracle._spread(self.frame) if self.frame.ndim == 2 else None

    def _frames(self, rows: Rows) -> np.ndarray:
        return self.frame if self.frame.ndim == 2 else self.frame[rows]

    def _facing(
        self, rows: Rows, V: np.ndarray, assign: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Frames, directions and who faces which: one step a direction if the frame is shared."""
        if self.frame.ndim == 2:
            return self.frame, V, assign
        return self.frame[rows], V[assign], np.arange(len(assign))


class Ellipsoid(_AffineOracle):
    r"""Changes of bounded length, measured in the frame of a factor.

    .. math:: S(x) = \{x + \rho F u : |u|_2 \le 1\}

    with the worst change along v being :math:`\rho F F'v / |F'v|`, which makes the worst-case hinge
    loss a second-order cone.

    Parameters
    ----------
    factor : float, (d, r) array, or callable
        F, or a function of the rows, (n, d), that gives one F for each, (n, d, r). Such a function
        sees any block of rows, and what it gives for a row may depend on that row only. A number
        stands for that multiple of the unit matrix: ``Ellipsoid(0.1)`` is the ball of radius 0.1.
    radius : float
        The length allowed, at least 0.

    Notes
    -----
    ``discounted(rho)`` interpolates the grades over the share of the radius that a change uses.
    Zero directions and rows whose factor is orthogonal to the direction stay where they are.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.oracles import Ellipsoid
    >>> ball = Ellipsoid(np.eye(2), radius=5.0)
    >>> ball.support(np.zeros((1, 2)), np.array([[3.0, 4.0]]), np.array([0])).points
    array([[3., 4.]])
    >>> Ellipsoid(5.0).support(np.zeros((1, 2)), np.array([[3.0, 4.0]]), np.array([0])).points
    array([[3., 4.]])
    """

    def __init__(
        self, factor: float | np.ndarray | Callable[[np.ndarray], np.ndarray], radius: float = 1.0
    ) -> None:
        self.factor = factor
        self.radius = radius

    @property
    def additive(self) -> bool:  # type: ignore[override]
        """Whether the factor is the same for every row."""
        return not callable(self.factor)

    def validate(self, n_features: int | None = None) -> None:
        """Raise if the radius is no number of at least 0, or the factor not (d, r) and finite."""
        self._check_radius()
        if callable(self.factor):
            return
        if _finite("factor", self.factor).ndim:
            _shaped("factor", self.factor, (n_features or "d", "r"))
        else:
            _bounded("factor", self.factor)

    def _frame(self, X: np.ndarray) -> np.ndarray:
        if callable(self.factor):
            found = plugins.ask_third_party("factor", self.factor, X)
            return _shaped("factor(X)", found, (*X.shape, "r"))
        factor = np.asarray(self.factor, dtype=np.float64)
        return factor if factor.ndim else factor * np.eye(X.shape[1])

    def _check_radius(self) -> None:
        if _bounded("radius", self.radius).ndim:
            raise ValueError(f"radius must be one number, got {self.radius!r}")

    def _extreme(self, C: np.ndarray) -> np.ndarray:
        length = np.linalg.norm(C, axis=1, keepdims=True)
        return self.radius * C / np.where(length > 0, length, 1.0)

    def _grade(
        self, C: np.ndarray, assign: np.ndarray, cost: np.ndarray, rho: float | Sequence[float]
    ) -> tuple[np.ndarray, np.ndarray]:
        # Linear plus piecewise linear in the share of the radius: a breakpoint is best.
        shares, grades = _breakpoints(rho)
        slopes = self.radius * np.linalg.norm(C, axis=1)[assign]
        best = np.argmax(slopes[:, None] * shares + cost[:, None] * grades, axis=1)
        return shares[best], grades[best]

    def _draw(self, size: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        U = rng.standard_normal(size)
        U *= rng.uniform(size=(*size[:-1], 1)) ** (1 / max(size[-1], 1))
        return self.radius * U / np.linalg.norm(U, axis=-1, keepdims=True)

    def _region(self, X: np.ndarray, F: np.ndarray) -> Region:
        number: Any = self.factor if self.additive else None
        if number is not None and np.ndim(number) == 0:
            return Balls(X, float(self.radius) * float(number))
        factors = float(self.radius) * (F if F.ndim == 3 else F[None])
        return Ellipsoids.of(X, factors, common=self.additive)

    def _hull(
        self,
        X: np.ndarray,
        F: np.ndarray,
        signs: np.ndarray,
        weights: np.ndarray,
        intercept: bool,
    ) -> Hull:
        return EllipsoidHull(X, signs, weights, intercept, F, float(self.radius))

    def _distance(self, F: np.ndarray, change: np.ndarray) -> float:
        left, s, _ = np.linalg.svd(self.radius * F, full_matrices=False)
        c = left.T @ change
        kept = s > 1e-14 * np.max(s, initial=0.0)

        def coordinates(multiplier: float) -> np.ndarray:
            u = np.zeros_like(s)
            u[kept] = s[kept] * c[kept] / (s[kept] ** 2 + multiplier)
            return u

        u = coordinates(0.0)
        if np.linalg.norm(u) > 1.0:
            u = coordinates(
                brentq(lambda m: np.linalg.norm(coordinates(m)) - 1.0, 0.0, np.linalg.norm(s * c))
            )
        return float(np.linalg.norm(change - left @ (s * u)))


class TangentDerivative(_AffineOracle):
    r"""The input plus bounded combinations of directions, such as derivatives of a transform.

    .. math:: S(x) = \{x + \sum_k t_k T_k : |t_k| \le b_k\}

    Parameters
    ----------
    tangents : (t, d) array, callable or oracle
        The directions T_k, or a function of the rows, (n, d), that gives those of each row,
        (n, t, d), or an oracle that has `tangents`. A function sees any block of rows, and what it
        gives for a row may depend on that row only.
    bounds : float or (t,) array
        How far each direction may be followed, at least 0.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.oracles import TangentDerivative
    >>> brighter = TangentDerivative(np.ones((1, 3)), bounds=0.5)
    >>> X, V = np.array([[0.0, 1.0, 2.0]]), np.array([[1.0, 1.0, -3.0]])
    >>> brighter.support(X, V, np.array([0])).points
    array([[-0.5,  0.5,  1.5]])
    """

    def __init__(
        self,
        tangents: np.ndarray | Callable[[np.ndarray], np.ndarray] | InvarianceOracle,
        bounds: float | Sequence[float] | np.ndarray,
    ) -> None:
        self.tangents = tangents
        self.bounds = bounds

    @property
    def tangents(self) -> Callable[[Matrix], np.ndarray]:
        """The view `InvarianceOracle.tangents`; the parameter of this name is in `get_params`."""
        return super().tangents

    @tangents.setter
    def tangents(self, value: Any) -> None:
        self._tangents = value

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name, with those of an oracle given as `tangents` if `deep`."""
        params = {"tangents": self._tangents, "bounds": self.bounds}
        if deep and isinstance(self._tangents, InvarianceOracle):
            nested = self._tangents.get_params()
            params.update({f"tangents__{name}": value for name, value in nested.items()})
        return params

    @property
    def additive(self) -> bool:  # type: ignore[override]
        """Whether the directions are the same for every row."""
        return not (callable(self._tangents) or isinstance(self._tangents, InvarianceOracle))

    def validate(self, n_features: int | None = None) -> None:
        """Raise if a bound is below 0 or not finite, or the directions not (t, d) and finite."""
        bounds = _bounded("bounds", self.bounds)
        if isinstance(self._tangents, InvarianceOracle):
            self._tangents.validate(n_features)
        elif not callable(self._tangents):
            tangents = _shaped("tangents", self._tangents, ("t", n_features or "d"))
            _number_or_vector("bounds", bounds, len(tangents))
        if bounds.ndim > 1:
            raise ValueError(f"bounds must be a number or a vector, got {self.bounds!r}")

    def _frame(self, X: np.ndarray) -> np.ndarray:
        if self.additive:
            return np.asarray(self._tangents, dtype=np.float64).T
        if isinstance(self._tangents, InvarianceOracle):
            tangents = tangents_of(self._tangents, X)
        else:
            tangents = plugins.ask_third_party("tangents", self._tangents, X)
        n, d = X.shape
        tangents = _shaped("tangents(X)", tangents, (n, "t", d))
        _number_or_vector("bounds", np.asarray(self.bounds), tangents.shape[1])
        return tangents.swapaxes(1, 2)

    def _extreme(self, C: np.ndarray) -> np.ndarray:
        return np.sign(C) * np.asarray(self.bounds)

    def _draw(self, size: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        return rng.uniform(-1.0, 1.0, size) * np.asarray(self.bounds)

    def _region(self, X: np.ndarray, F: np.ndarray) -> Region:
        directions = np.broadcast_to(F.swapaxes(-1, -2), (len(X), F.shape[-1], X.shape[1]))
        bounds = np.broadcast_to(np.asarray(self.bounds, dtype=np.float64), directions.shape[:2])
        return Zonotopes(Stack.of(X, directions), -bounds, bounds)

    def _hull(
        self,
        X: np.ndarray,
        F: np.ndarray,
        signs: np.ndarray,
        weights: np.ndarray,
        intercept: bool,
    ) -> Hull:
        directions = np.ascontiguousarray(F.swapaxes(-1, -2))
        bounds = np.broadcast_to(np.asarray(self.bounds, dtype=np.float64), directions.shape[-2])
        return ZonotopeHull(X, signs, weights, intercept, directions, bounds.copy())

    def _spread(self, F: np.ndarray) -> np.ndarray:
        return (F * np.asarray(self.bounds)).T

    def _distance(self, F: np.ndarray, change: np.ndarray) -> float:
        scaled = F * np.asarray(self.bounds)
        scaled = scaled[:, np.any(scaled != 0, axis=0)]
        if scaled.shape[1] == 0:
            return float(np.linalg.norm(change))
        best = lsq_linear(scaled, change, (-1.0, 1.0), method="bvls", tol=1e-15)
        return float(np.linalg.norm(change - scaled @ best.x))


class Box(InvarianceOracle):
    r"""Each feature within a radius of its own.

    .. math:: S(x) = \{z : |z_j - x_j| \le r_j\}

    Parameters
    ----------
    radius : float or (d,) array
        The radii r_j, at least 0.

    Notes
    -----
    ``discounted(rho)`` takes the mean, over the features with a positive radius, of the grade
    interpolated over the share of the radius that the feature moves.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.oracles import Box
    >>> X, V = np.array([[1.0, 2.0]]), np.array([[1.0, -1.0]])
    >>> Box(0.5).support(X, V, np.array([0])).points
    array([[1.5, 1.5]])
    """

    additive = True
    convex = True
    coordinatewise = True

    def __init__(self, radius: float | Sequence[float] | np.ndarray) -> None:
        self.radius = radius

    def validate(self, n_features: int | None = None) -> None:
        """Raise if a radius is below 0 or not finite, or their number is not that of features."""
        _number_or_vector("radius", _bounded("radius", self.radius), n_features)

    def support(
        self, X: Matrix, V: np.ndarray, assign: np.ndarray, cost: np.ndarray | None = None
    ) -> Support:
        """See `InvarianceOracle.support`; exact, in closed form."""
        self._check_rows(X)
        check_directions(X, V, assign, cost)
        steps = np.sign(V) * np.asarray(self.radius)
        return Support(_moved(X, steps[assign]))

    def graded_support(
        self,
        X: Matrix,
        V: np.ndarray,
        assign: np.ndarray,
        cost: np.ndarray,
        rho: float | Sequence[float],
    ) -> Support:
        """See `InvarianceOracle.graded_support`; exact, feature by feature."""
        self._check_rows(X)
        check_directions(X, V, assign, cost)
        shares, grades = _breakpoints(rho)
        radius = np.broadcast_to(np.asarray(self.radius, dtype=np.float64), X.shape[1:])
        free = radius > 0
        part = free / np.maximum(np.sum(free), 1)
        slopes = np.abs(V) * radius
        best = cost[:, None] * part
        share, lost = np.zeros(best.shape), np.zeros(best.shape)
        for t, grade in zip(shares[1:], grades[1:], strict=True):
            worth = t * slopes[assign] + grade * cost[:, None] * part
            better = worth > best
            best[better] = worth[better]
            share[better] = t
            lost[better] = 1.0 - grade
        steps = share * (np.sign(V) * radius)[assign]
        return Support(_moved(X, steps), rho=np.clip(1.0 - lost @ part, 0.0, 1.0))

    def region(self, X: np.ndarray) -> Region:
        self._check_rows(X)
        radius = np.asarray(self.radius, dtype=np.float64)
        return Boxes(floating(dense_rows(X)), np.broadcast_to(radius, X.shape[1]))

    def tangents(self, X: Matrix) -> np.ndarray:
        """The unit vectors of the features that may move, (n, t, d)."""
        radius = np.broadcast_to(np.asarray(self.radius), X.shape[1:])
        units = np.eye(X.shape[1])[radius > 0]
        return np.repeat(units[None], X.shape[0], axis=0)

    def sample(self, X: Matrix, n_draws: int, rng: np.random.Generator) -> np.ndarray:
        """Uniform changes, each shrunk by a uniform factor: small changes are likelier."""
        steps = rng.uniform(-1.0, 1.0, (X.shape[0], n_draws, X.shape[1]))
        steps *= rng.uniform(size=(X.shape[0], n_draws, 1))
        return _moved(dense_rows(X)[:, None, :], steps * np.asarray(self.radius))

    def contains(self, x: np.ndarray, z: np.ndarray) -> bool:
        """Whether `z` lies in S(`x`), up to rounding."""
        change = np.abs(z.astype(np.float64) - x)
        return bool(np.all(change <= np.asarray(self.radius) + rounding(x, z)))


class BoundBox(BoundOracle):
    """Boxes around given rows."""

    def hull(self, signs: np.ndarray, weights: np.ndarray, intercept: bool) -> Hull:
        radius = np.asarray(self.oracle.radius, dtype=np.float64)
        whole = np.broadcast_to(radius, self.X.shape[1]).copy()
        return BoxHull(self.X, signs, weights, intercept, whole)

    def spread(self) -> np.ndarray:
        radius = np.asarray(self.oracle.radius, dtype=np.float64)
        return np.diag(np.broadcast_to(radius, self.X.shape[1]))


def _onto(F: np.ndarray, V: np.ndarray) -> np.ndarray:
    """F'v for each direction, of a shared frame or each of its own."""
    return V @ F if F.ndim == 2 else np.einsum("nd,ndr->nr", V, F)


def _along(F: np.ndarray, U: np.ndarray) -> np.ndarray:
    """F u for each u, of a shared frame or each of its own."""
    return U @ F.T if F.ndim == 2 else np.einsum("nr,ndr->nd", U, F)


def _moved(X: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """The sum, in the precision of `X`."""
    return (X + steps).astype(X.dtype if X.dtype.kind == "f" else np.float64, copy=False)


def _breakpoints(rho: float | Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """Shares of the radius, 0 to 1, and the grades that are interpolated between them."""
    grades = grade_profile(rho)
    if len(grades) == 1:
        grades = np.ones(2)
    return np.linspace(0.0, 1.0, len(grades)), grades


def _finite(name: str, value: Any) -> np.ndarray:
    try:
        array = np.asarray(value)
    except ValueError:
        array = np.asarray(None)
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{name} must be a number or an array of real numbers, got {value!r}")
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{name} must be finite, got {value!r}")
    return array.astype(np.float64, copy=False)


def _bounded(name: str, value: Any) -> np.ndarray:
    array = _finite(name, value)
    if np.any(array < 0):
        raise ValueError(f"{name} must be at least 0, got {value!r}")
    return array


def _number_or_vector(name: str, array: np.ndarray, length: int | None) -> None:
    if array.ndim > 1 or (array.ndim == 1 and length is not None and len(array) != length):
        raise ValueError(
            f"{name} must be a number or have shape ({length or 'd'},), got shape {array.shape}"
        )


def _shaped(name: str, value: Any, shape: tuple[int | str, ...]) -> np.ndarray:
    """The value as an array of this shape, in which strings stand for any length."""
    array = _finite(name, value)
    fits = array.ndim == len(shape) and all(
        isinstance(wanted, str) or wanted == got for wanted, got in zip(shape, array.shape, strict=True)
    )
    if not fits:
        wanted = ", ".join(str(length) for length in shape)
        raise ValueError(f"{name} must have shape ({wanted}), got shape {array.shape}")
    return array
