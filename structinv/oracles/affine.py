"""Convex perturbation sets: ellipsoids, boxes, bounded combinations of tangents."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..regions import Boxes, Region
from ..regions.ellipsoids import Balls, Ellipsoids
from ..regions.inner_products import Stack
from ..regions.zonotopes import Zonotopes
from ..utils import plugins
from ..utils.matrices import (
    ALL_ROWS,
    Matrix,
    Rows,
    dense_rows,
    floating,
    refuse_masked,
    rounding,
    take,
)
from ..utils.parameters import brief, in_order, labels_of
from .arguments import breakpoints, check_directions
from .base import BoundOracle, InvarianceOracle, Support
from .columns import FeatureParameters
from .support import Costs, Grades, costs_of
from .third_party import tangents_of


class _AffineOracle(InvarianceOracle):
    """Base class of sets S(x) = {x + F u : u in U}.

    The matrix F (d, r), called frame, may depend on the row. A subclass defines F and the operations
    on U. The bound oracle computes the frames of all rows once.
    """

    convex = True

    @abstractmethod
    def _frame(self, X: np.ndarray) -> np.ndarray:
        """Return the common frame (d, r), or one per row (n, d, r)."""

    @abstractmethod
    def _extreme(self, C: np.ndarray) -> np.ndarray:
        """Return the maximizers over U of the inner products with the rows of `C`, (n, r)."""

    @abstractmethod
    def _draw(self, size: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        """Draw members of U as an array of shape `size`; the last axis has length r."""

    def _grade(
        self, C: np.ndarray, assign: np.ndarray, cost: np.ndarray, rho: float | Sequence[float]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the fraction of the largest change with the best graded value, and its grade."""
        raise self._absent("grades, so it cannot be discounted", verb="does not support")

    @abstractmethod
    def _region(self, X: np.ndarray, F: np.ndarray) -> Region:
        """Return S(x) of the rows of `X` with frames `F` as a region."""

    def _limits(self) -> np.ndarray | None:
        """Return limits of the coordinates, (r,) or (); None, the default, if U is a ball."""
        return None

    def _framed(self, X: Matrix) -> BoundFrame:
        self._check_rows(X)
        return BoundFrame(self, X, None)

    def support(
        self, X: Matrix, V: np.ndarray, assign: np.ndarray, cost: Costs = None, rho: Grades = None
    ) -> Support:
        framed = self._framed(X)
        check_directions(X, V, assign, cost)
        return framed.support(ALL_ROWS, V, assign, cost, rho)

    def region(self, X: np.ndarray) -> Region:
        self._check_rows(X)
        rows = floating(dense_rows(X))
        return self._region(rows, self._frame(rows))

    def tangents(self, X: Matrix) -> np.ndarray:
        self._check_rows(X)
        F = self._frame(dense_rows(X))
        return np.broadcast_to(F.swapaxes(-1, -2), (X.shape[0], F.shape[-1], F.shape[-2])).copy()

    def sample(self, X: Matrix, n_draws: int, rng: np.random.Generator) -> np.ndarray:
        return self._framed(X).sample(ALL_ROWS, n_draws, rng)


class BoundFrame(BoundOracle):
    """Sets of the rows of one fit, with cached frames."""

    oracle: _AffineOracle

    def __init__(self, oracle: _AffineOracle, X: Matrix, y: np.ndarray | None) -> None:
        super().__init__(oracle, X, y)
        self.frame = oracle._frame(X)
        if not oracle.additive:
            # Repeated calls may return rotated directions, for example of singular vectors. The norm of
            # the frame must be the same.
            plugins.repeats(
                f"the function of {type(oracle).__name__}",
                "directions",
                np.linalg.norm(self.frame, axis=(1, 2)),
                lambda: np.linalg.norm(oracle._frame(X[-1:]), axis=(1, 2)),
            )

    def support(
        self, rows: Rows, V: np.ndarray, assign: np.ndarray, cost: Costs = None, rho: Grades = None
    ) -> Support:
        if self.frame.ndim == 2:
            C = V @ self.frame
            steps = (self.oracle._extreme(C) @ self.frame.T)[assign]
        else:
            # Rows with different frames have one direction each.
            F = self.frame[rows]
            C = np.einsum("nd,ndr->nr", V[assign], F)
            steps = np.einsum("nr,ndr->nd", self.oracle._extreme(C), F)
            assign = np.arange(len(C))
        if rho is None:
            return Support(_moved(take(self.X, rows), steps))
        fraction, grades = self.oracle._grade(C, assign, costs_of(cost, assign), rho)
        return Support(_moved(take(self.X, rows), fraction[:, None] * steps), rho=grades)

    def sample(self, rows: Rows, n_draws: int, rng: np.random.Generator) -> np.ndarray:
        X = dense_rows(self.X, rows)
        U = self.oracle._draw((len(X), n_draws, self.frame.shape[-1]), rng)
        U = U * rng.uniform(size=(len(X), n_draws, 1))
        F = self.frame if self.frame.ndim == 2 else self.frame[rows]
        return _moved(X[:, None, :], U @ F.swapaxes(-1, -2))

    def boxes(self) -> RowBoxes | None:
        limits = self.oracle._limits()
        if limits is None or self.frame.ndim > 2:
            return None
        radius = np.broadcast_to(limits, self.frame.shape[1])
        return RowBoxes(radius, np.ones(self.X.shape[0], dtype=bool), self.frame)


class Ellipsoid(FeatureParameters, _AffineOracle):
    r"""Ellipsoid around each sample: a ball, transformed by a matrix.

    .. math:: S(x) = \{x + \rho F u : |u|_2 \le 1\}

    The worst perturbation along v is :math:`\rho F F'v / |F'v|`, which adds :math:`\rho |F'v|` to the
    score. The training problem with the hinge loss is therefore a second-order cone program.

    Parameters
    ----------
    factor : float, array of shape (n_features, r), or callable
        The matrix F. A data frame is aligned by its index with the columns of X. A number is a multiple
        of the identity matrix: ``Ellipsoid(0.1)`` is the ball of radius 0.1. A function maps samples (n,
        d) to one matrix per sample (n, d, r). It is called with arbitrary blocks of samples, and its
        result for a sample must depend on this sample only.
    radius : float, default=1.0
        Maximum length of u, the number ρ (>= 0).

    See Also
    --------
    Box : Independent bound for each feature.
    TangentDerivative : Bounded combinations of directions, a zonotope.
    LocalTangents : Ellipsoid whose directions are learned from data.

    Notes
    -----
    Support functions are exact, in closed form. ``discounted(rho)`` interpolates the grades over the
    fraction of the radius. A sample stays unperturbed if its direction is zero or orthogonal to all
    columns of F. `sample` draws the direction of u and its length uniformly, the length in [0, 1].
    `tangents` are the columns of F.

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

    feature_axes: ClassVar[Mapping[str, int]] = {"factor": 0}

    def __init__(
        self, factor: float | np.ndarray | Callable[[np.ndarray], np.ndarray], radius: float = 1.0
    ) -> None:
        self.factor = factor
        self.radius = radius

    @property
    def additive(self) -> bool:  # type: ignore[override]
        """True if the factor is the same for every sample."""
        return not callable(self.factor)

    def validate(self, n_features: int | None = None) -> None:
        self._check_radius()
        if callable(self.factor):
            return
        if _finite("factor", self.factor).ndim:
            factor = self.factor if n_features is None else in_order("factor", self.factor, 0)
            _shaped("factor", factor, (n_features or "d", "r"))
        else:
            _bounded("factor", self.factor)

    def _frame(self, X: np.ndarray) -> np.ndarray:
        if callable(self.factor):
            found = plugins.ask_third_party("factor", self.factor, X)
            return _shaped("factor(X)", found, (*X.shape, "r"))
        factor = in_order("factor", self.factor, 0).astype(np.float64, copy=False)
        return factor if factor.ndim else factor * np.eye(X.shape[1])

    def _check_radius(self) -> None:
        if _bounded("radius", self.radius).ndim:
            raise ValueError(f"radius must be one number, got {brief(self.radius)}")

    def _extreme(self, C: np.ndarray) -> np.ndarray:
        length = np.linalg.norm(C, axis=1, keepdims=True)
        return self.radius * C / np.where(length > 0, length, 1.0)

    def _grade(
        self, C: np.ndarray, assign: np.ndarray, cost: np.ndarray, rho: float | Sequence[float]
    ) -> tuple[np.ndarray, np.ndarray]:
        # The value is piecewise linear in the fraction of the radius, so a breakpoint is best.
        shares, grades = breakpoints(rho)
        slopes = self.radius * np.linalg.norm(C, axis=1)[assign]
        best = np.argmax(slopes[:, None] * shares + cost[:, None] * grades, axis=1)
        return shares[best], grades[best]

    def _draw(self, size: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        U = rng.standard_normal(size)
        return self.radius * U / np.linalg.norm(U, axis=-1, keepdims=True)

    def _region(self, X: np.ndarray, F: np.ndarray) -> Region:
        number: Any = self.factor if self.additive else None
        if number is not None and np.ndim(number) == 0:
            return Balls(X, float(self.radius) * float(number))
        factors = float(self.radius) * (F if F.ndim == 3 else F[None])
        return Ellipsoids.of(X, factors, common=self.additive)


class TangentDerivative(FeatureParameters, _AffineOracle):
    r"""The sample plus bounded combinations of directions, such as tangents.

    .. math:: S(x) = \{x + \sum_k t_k T_k : |t_k| \le b_k\}

    Parameters
    ----------
    tangents : array of shape (n_directions, n_features), callable or oracle
        Directions T_k. A data frame is aligned with the columns of X. An oracle provides its `tangents`.
        A function maps samples (n, d) to t directions per sample, an array (n, t, d). It is called with
        arbitrary blocks of samples, and its result for a sample must depend on this sample only.
    bounds : float or array-like of shape (n_directions,)
        Largest absolute coefficient b_k of each direction (>= 0). A Series with names is aligned with
        the rows of `tangents`.

    See Also
    --------
    LocalTangents : Directions learned from neighboring samples.
    Ellipsoid : Common bound on all coefficients, an ellipsoid.
    structinv.functionals.Tangents : Penalty on derivatives along the same tangents.

    Notes
    -----
    Support functions are exact, in closed form. `sample` draws uniform coefficients and multiplies each
    perturbation by a uniform factor. This oracle cannot be discounted.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.oracles import TangentDerivative
    >>> brighter = TangentDerivative(np.ones((1, 3)), bounds=0.5)
    >>> X, V = np.array([[0.0, 1.0, 2.0]]), np.array([[1.0, 1.0, -3.0]])
    >>> brighter.support(X, V, np.array([0])).points
    array([[-0.5,  0.5,  1.5]])
    """

    feature_axes: ClassVar[Mapping[str, int]] = {"tangents": -1}

    def __init__(
        self,
        tangents: np.ndarray | Callable[[np.ndarray], np.ndarray] | InvarianceOracle,
        bounds: float | Sequence[float] | np.ndarray,
    ) -> None:
        self.tangents = tangents
        self.bounds = bounds

    @property
    def tangents(self) -> Callable[[Matrix], np.ndarray]:
        """Method `tangents` of oracles; `get_params` returns the parameter `tangents`."""
        return super().tangents

    @tangents.setter
    def tangents(self, value: Any) -> None:
        self._tangents = value

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters.

        Parameters
        ----------
        deep : bool, default=True
            True to include the parameters of an oracle in `tangents`.

        Returns
        -------
        dict
            Values by name.
        """
        params = {"tangents": self._tangents, "bounds": self.bounds}
        if deep and isinstance(self._tangents, InvarianceOracle):
            nested = self._tangents.get_params()
            params.update({f"tangents__{name}": value for name, value in nested.items()})
        return params

    @property
    def additive(self) -> bool:  # type: ignore[override]
        """True if the directions are the same for every sample."""
        return not (callable(self._tangents) or isinstance(self._tangents, InvarianceOracle))

    def validate(self, n_features: int | None = None) -> None:
        bounds = _bounded("bounds", self.bounds)
        if isinstance(self._tangents, InvarianceOracle):
            self._tangents.validate(n_features)
        elif not callable(self._tangents):
            given = self._tangents if n_features is None else in_order("tangents", self._tangents)
            tangents = _shaped("tangents", given, ("t", n_features or "d"))
            _number_or_vector("bounds", self._bounds, len(tangents))
        if bounds.ndim > 1:
            raise ValueError(f"bounds must be a number or a vector, got {brief(self.bounds)}")

    def _frame(self, X: np.ndarray) -> np.ndarray:
        if self.additive:
            return in_order("tangents", self._tangents).astype(np.float64, copy=False).T
        if isinstance(self._tangents, InvarianceOracle):
            tangents = tangents_of(self._tangents, X)
        else:
            tangents = plugins.ask_third_party("tangents", self._tangents, X)
        n, d = X.shape
        tangents = _shaped("tangents(X)", tangents, (n, "t", d))
        _number_or_vector("bounds", self._bounds, tangents.shape[1])
        return tangents.swapaxes(1, 2)

    def _align(self, columns: Sequence[Any]) -> None:
        # The row labels of `tangents` are lost in an array.
        self.bounds = self._bounds
        super()._align(columns)

    @property
    def _bounds(self) -> np.ndarray:
        """Bounds in the order of the tangents, by the row labels of `tangents`."""
        known = labels_of(self._tangents, 0)
        return in_order("bounds", self.bounds, known=known, kind="row of tangents").astype(np.float64)

    def _extreme(self, C: np.ndarray) -> np.ndarray:
        return np.sign(C) * self._bounds

    def _draw(self, size: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        return rng.uniform(-1.0, 1.0, size) * self._bounds

    def _region(self, X: np.ndarray, F: np.ndarray) -> Region:
        directions = np.broadcast_to(F.swapaxes(-1, -2), (len(X), F.shape[-1], X.shape[1]))
        bounds = np.broadcast_to(self._bounds, directions.shape[:2])
        return Zonotopes(Stack.of(X, directions), -bounds, bounds)

    def _limits(self) -> np.ndarray:
        return self._bounds


class Box(FeatureParameters, InvarianceOracle):
    r"""Independent perturbation of each feature within its radius.

    .. math:: S(x) = \{z : |z_j - x_j| \le r_j\}

    Parameters
    ----------
    radius : float or array-like of shape (n_features,)
        Radii r_j (>= 0), in units of the features. A Series with names is aligned with the columns of X.

    See Also
    --------
    Ellipsoid : Bound on the length of the perturbation.
    TangentDerivative : Bounded combinations of directions.

    Notes
    -----
    Support functions are exact, in closed form. With ``discounted(rho)``, each feature has a
    grade, interpolated at its perturbation divided by its radius. The grade of a perturbed sample is the
    average grade of the features with a positive radius. `tangents` are the unit vectors of these
    features. `sample` draws uniform perturbations and multiplies each by a uniform factor from 0 to 1.

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

    feature_axes: ClassVar[Mapping[str, int]] = {"radius": -1}

    def __init__(self, radius: float | Sequence[float] | np.ndarray) -> None:
        self.radius = radius

    def validate(self, n_features: int | None = None) -> None:
        radius = _bounded("radius", self.radius)
        _number_or_vector("radius", radius if n_features is None else self._radius, n_features)

    @property
    def _radius(self) -> np.ndarray:
        """Radii in the order of the features."""
        return in_order("radius", self.radius).astype(np.float64, copy=False)

    def support(
        self, X: Matrix, V: np.ndarray, assign: np.ndarray, cost: Costs = None, rho: Grades = None
    ) -> Support:
        self._check_rows(X)
        check_directions(X, V, assign, cost)
        if rho is None:
            steps = np.sign(V) * self._radius
            return Support(_moved(X, steps[assign]))
        shares, grades = breakpoints(rho)
        radius = np.broadcast_to(self._radius, X.shape[1:])
        free = radius > 0
        part = free / np.maximum(np.sum(free), 1)
        slopes = np.abs(V) * radius
        costs = costs_of(cost, assign)[:, None]
        best = costs * part
        fractions, losses = np.zeros(best.shape), np.zeros(best.shape)
        for t, grade in zip(shares[1:], grades[1:], strict=True):
            value = t * slopes[assign] + grade * costs * part
            better = value > best
            best[better] = value[better]
            fractions[better] = t
            losses[better] = 1.0 - grade
        steps = fractions * (np.sign(V) * radius)[assign]
        return Support(_moved(X, steps), rho=np.clip(1.0 - losses @ part, 0.0, 1.0))

    def region(self, X: np.ndarray) -> Region:
        self._check_rows(X)
        return Boxes(floating(dense_rows(X)), np.broadcast_to(self._radius, X.shape[1]))

    def tangents(self, X: Matrix) -> np.ndarray:
        self._check_rows(X)
        radius = np.broadcast_to(self._radius, X.shape[1:])
        units = np.eye(X.shape[1])[radius > 0]
        return np.repeat(units[None], X.shape[0], axis=0)

    def sample(self, X: Matrix, n_draws: int, rng: np.random.Generator) -> np.ndarray:
        self._check_rows(X)
        steps = rng.uniform(-1.0, 1.0, (X.shape[0], n_draws, X.shape[1]))
        steps *= rng.uniform(size=(X.shape[0], n_draws, 1))
        return _moved(dense_rows(X)[:, None, :], steps * self._radius)

    def contains(self, x: np.ndarray, z: np.ndarray) -> bool:
        change = np.abs(z.astype(np.float64) - x)
        return bool(np.all(change <= self._radius + rounding(x, z)))


@dataclass(frozen=True)
class RowBoxes:
    """Boxes around the rows of one fit, in their features or other coordinates.

    - `radius` (r,): largest change of each coordinate
    - `changed` (n,): mask of the rows that may change
    - `frame` (d, r): directions of the coordinates; None for features
    """

    radius: np.ndarray
    changed: np.ndarray
    frame: np.ndarray | None = None

    def directions(self) -> np.ndarray:
        """Return the largest change along each coordinate, (r, d)."""
        return np.diag(self.radius) if self.frame is None else (self.frame * self.radius).T


class BoundBox(BoundOracle):
    """Boxes around the samples of one fit."""

    oracle: Box

    def boxes(self) -> RowBoxes:
        radius = np.broadcast_to(self.oracle._radius, self.X.shape[1]).astype(np.float64)
        return RowBoxes(radius, np.ones(self.X.shape[0], dtype=bool))


def _moved(X: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Add steps to samples, in the precision of `X`."""
    return (X + steps).astype(X.dtype if X.dtype.kind == "f" else np.float64, copy=False)


def _finite(name: str, value: Any) -> np.ndarray:
    refuse_masked(name, value)
    try:
        array = np.asarray(value)
    except ValueError:
        array = np.asarray(None)
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{name} must be a number or an array of real numbers, got {brief(value)}")
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{name} must be finite, got {brief(value)}")
    return array.astype(np.float64, copy=False)


def _bounded(name: str, value: Any) -> np.ndarray:
    array = _finite(name, value)
    if np.any(array < 0):
        raise ValueError(f"{name} must be at least 0, got {brief(value)}")
    return array


def _number_or_vector(name: str, array: np.ndarray, length: int | None) -> None:
    if array.ndim > 1 or (array.ndim == 1 and length is not None and len(array) != length):
        raise ValueError(
            f"{name} must be a number or have shape ({length or 'd'},), got shape {array.shape}"
        )


def _shaped(name: str, value: Any, shape: tuple[int | str, ...]) -> np.ndarray:
    """Return the value as an array of this shape; strings stand for any length."""
    array = _finite(name, value)
    fits = array.ndim == len(shape) and all(
        isinstance(wanted, str) or wanted == got for wanted, got in zip(shape, array.shape, strict=True)
    )
    if not fits:
        wanted = ", ".join(str(length) for length in shape)
        raise ValueError(f"{name} must have shape ({wanted}), got shape {array.shape}")
    return array
