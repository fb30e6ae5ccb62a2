"""Base class of image oracles, and lists of transformed images."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy import stats

from ...utils import plugins
from ...utils.matrices import (
    ALL_ROWS,
    Matrix,
    Rows,
    dense,
    dense_rows,
    first_best,
    refuse_masked,
    rounding,
    row_dots,
    take,
)
from ...utils.parameters import check_integer, check_number
from ..arguments import check_directions, member_numbers, profile_of_list
from ..base import InvarianceOracle, Support
from ..cache import CachedOracle
from ..changes import Changes, LinearChanges, draw_names, normalized
from ..parameter_values import bisect, check_draw, draw, interval, listed, neighbors
from ..support import Costs, Grades, costs_of
from .image_intervals import Motion, furthest, mesh_of, motion_between
from .image_maps import (
    FILLS,
    ORDERS,
    ImageMaps,
    ImageShape,
    fill_code,
    image_maps,
    image_shape,
    smoothed,
    step_of,
    warp_images,
    warps_of,
)

# Halvings of the interval between the neighbors of the best value of a cover.
_HALVINGS = 8


class ImageOracle(CachedOracle, InvarianceOracle):
    r"""Base class of geometric image transformations with one real parameter.

    .. math:: S(x) = \{x\} \cup \{T_{k,t}\, x : t \in values, k \in families\}

    A subclass has a constructor that stores its parameters, and

    - `parameter`, the name of the parameter with the values of a finite set,
    - `neutral`, the value of the identity,
    - `geometry`, which returns the maps of some values,
    - `describe`, which returns the name of a transformed image.

    It overrides `families` if there are several axes or directions; each of them is one family. It
    overrides `turned` if the maps rotate images. The constructor may omit parameters of `Rotations`.
    Omitted parameters have the values of the class attributes.

    Attributes
    ----------
    parameter : str
        Name of the constructor's parameter with the values of a finite set.
    neutral : float
        Value of the identity, 0 by default.

    See Also
    --------
    Rotations : Rotations, with a description of the common parameters.
    FiniteOracle : Perturbation sets given by lists of any transformed samples.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.oracles import ImageOracle
    >>> class Squeezes(ImageOracle):
    ...     "Images compressed or stretched horizontally."
    ...     parameter, neutral = "factors", 1.0
    ...     def __init__(self, factors, shape=None):
    ...         self.factors = factors
    ...         self.shape = shape
    ...     def geometry(self, family, values):
    ...         matrices = np.tile(np.eye(2), (len(values), 1, 1))
    ...         matrices[:, 1, 1] = values
    ...         return matrices, np.zeros((len(values), 2))
    ...     def describe(self, family, value):
    ...         return f"squeeze {value:g}"
    >>> Squeezes(2.0, shape=(1, 3)).orbit(np.array([[0.0, 4.0, 0.0]]))
    array([[[0., 4., 0.],
            [2., 4., 2.]]])
    """

    parameter: str
    neutral: float = 0.0

    # Defaults for subclasses whose constructors lack these parameters.
    shape: ImageShape | tuple[int, ...] | None = None
    order: int = 1
    fill: str | float = "zero"
    interval: tuple[float, float] | None = None
    resolution: int = 9
    spread: float | None = None
    smoothing: float = 0.0

    @abstractmethod
    def geometry(self, family: Any, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return matrices and translations of the geometric maps with given values.

        A map moves the pixel q = (row, column) of the input to ``c + A (q - c) + t`` in the output,
        where c is the center of the image.

        Parameters
        ----------
        family : object
            Element of `families`.
        values : ndarray of shape (n_values,)
            Values of the parameter.

        Returns
        -------
        matrices : ndarray of shape (n_values, 2, 2)
            Matrices A.
        translations : ndarray of shape (n_values, 2)
            Translations t, in pixels.
        """

    @abstractmethod
    def describe(self, family: Any, value: float) -> str:
        """Return a short name of the transformation with a given value.

        Parameters
        ----------
        family : object
            Element of `families`.
        value : float
            Value of the parameter.

        Returns
        -------
        str
            Name, such as "rotation 10°".
        """

    def families(self) -> tuple[Any, ...]:
        """Return the axes or directions; each combines with every value.

        Returns
        -------
        tuple
            Axes, directions, or a single None.
        """
        return (None,)

    def tangent_families(self) -> tuple[Any, ...]:
        """Return the families that `tangents` differentiates.

        Returns
        -------
        tuple
            Axes or directions; `families` by default.
        """
        return self.families()

    def turned(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Return the angles by which images rotate between two values.

        With the default 0, the sources of pixels move on straight lines. The source of a pixel is the
        point of the input image that gives its value. At each value between, all sources have moved by
        the same fraction of their lines. With other angles, all sources rotate around the center of the
        image.

        With order 1, `support` is then exact for an interval. Maps with other motions have a local
        search and an infinite upper bound. Their classes override `mesh`.

        Parameters
        ----------
        low, high : ndarray of shape (n,)
            Values of the parameter.

        Returns
        -------
        ndarray of shape (n,)
            Angles in radians, positive for counterclockwise rotations.
        """
        return np.zeros(len(low))

    def check_values(self, name: str, values: Sequence[float]) -> None:
        """Raise ValueError if a value of the parameter is out of range.

        Parameters
        ----------
        name : str
            Name of the parameter with the values, for the message.
        values : sequence of float
            Values of a finite set, or the ends of an interval.
        """

    def values(self) -> tuple[float, ...]:
        """Return the values of a finite set.

        Returns
        -------
        tuple of float
            Values without duplicates, in the given sequence.
        """
        return listed(self.parameter, getattr(self, self.parameter))

    @property
    def finite(self) -> bool:  # type: ignore[override]
        """True if the set has listed values, False if it has an interval."""
        return self.interval is None

    def validate(self, n_features: int | None = None) -> None:
        self._check_range()
        if self.order not in ORDERS or isinstance(self.order, bool):
            raise ValueError(f"order must be 0, 1 or 3, got {self.order!r}")
        if isinstance(self.fill, str):
            if self.fill not in FILLS:
                raise ValueError(f"fill must be a number or one of {tuple(FILLS)}, got {self.fill!r}")
        else:
            check_number("fill", self.fill, minimum=-np.inf)
        check_integer("resolution", self.resolution, least=2)
        if self.spread is not None:
            check_number("spread", self.spread, strict=True)
        check_number("smoothing", self.smoothing)
        image_shape(self.shape, n_features)

    def _shape(self, n_features: int) -> ImageShape:
        def make() -> ImageShape:
            self.validate(n_features)
            shape = image_shape(self.shape, n_features)
            assert shape is not None
            return shape

        return self._once(("shape", n_features), make)

    def _check_range(self) -> None:
        values = getattr(self, self.parameter)
        if self.interval is None:
            if values is None:
                raise TypeError(
                    f"{self.parameter} must be a number or a list of numbers, got None: pass "
                    f"{self.parameter}, or interval=(low, high) for all values between two numbers"
                )
            if isinstance(values, tuple) and len(values) == 2:
                name, pair = self.parameter, values
                raise ValueError(
                    f"{name} must be a number or a list of numbers, got the pair {pair!r}: write "
                    f"{name}={list(pair)!r} for two values, or interval={pair!r} for all values between "
                    "them"
                )
            self.check_values(self.parameter, self.values())
            return
        if values is not None:
            raise ValueError(
                f"{self.parameter} must be None if interval is given, got {values!r}: remove one of them"
            )
        self.check_values("interval", self._ends())

    def _rows(self, X: Matrix) -> tuple[np.ndarray, ImageShape]:
        refuse_masked("X", X)
        rows = np.asarray(dense(X))
        if rows.ndim != 2:
            raise ValueError(
                f"X must have shape (n_samples, n_features), one row per image, got {rows.shape}: pass "
                "X.reshape(len(X), -1)"
            )
        if np.iscomplexobj(rows):
            raise ValueError(f"X must contain real numbers, got {rows.dtype}")
        shape = self._shape(rows.shape[1])
        return rows if rows.dtype in (np.float32, np.float64) else rows.astype(np.float64), shape

    def _table(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the distinct transformations of an orbit or a cover, the identity first.

        Returns the family of each, -1 for the identity, (m,); its value (m,); and its warp (m, 6).
        """
        return self._once("table", self._new_table)

    def _new_table(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        values = self.values() if self.finite else np.linspace(*self._ends(), self.resolution)
        n_families = len(self.families())
        family = np.r_[-1, np.tile(np.arange(n_families), len(values))]
        value = np.r_[self.neutral, np.repeat(values, n_families)]
        warps = self._warps(np.maximum(family, 0), value)
        # Different values may give equal maps, such as rotations by 0 and 360 degrees.
        _, first = np.unique(np.round(warps, 12) + 0.0, axis=0, return_index=True)
        distinct = np.sort(first)
        return family[distinct], value[distinct], warps[distinct]

    def _ends(self) -> tuple[float, float]:
        """Return the smallest and the largest value of a continuous set."""
        return interval("interval", self.interval)

    def _warps(self, family: np.ndarray, value: np.ndarray) -> np.ndarray:
        """Return the coefficients of geometric maps, (m, 6)."""
        warps = np.empty((len(family), 6))
        for number, name in enumerate(self.families()):
            selected = family == number
            if np.any(selected):
                warps[selected] = warps_of(*self._geometry(name, value[selected]))
        return warps

    def _geometry(self, family: Any, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the result of `geometry`, validated."""
        source, result = plugins.method(self, "geometry"), self.geometry(family, values)
        if not isinstance(result, tuple) or len(result) != 2:
            raise TypeError(f"{source} must return a pair (matrices, translations), got {result!r}")
        matrices = plugins.numbers(source, "matrices", result[0], (len(values), 2, 2))
        singular = np.flatnonzero(np.linalg.det(matrices) == 0)
        if len(singular):
            matrix, value = matrices[singular[0]].tolist(), values[singular[0]]
            raise ValueError(
                f"{source} must return invertible matrices, got {matrix} for the value {value:g}"
            )
        return matrices, plugins.numbers(source, "translations", result[1], (len(values), 2))

    def _maps(self, shape: ImageShape) -> ImageMaps:
        """Return the maps of pixels to pixels for all transformations in the table."""

        return self._once(
            ("maps", shape), lambda: image_maps(shape, self._table()[2], self.order, self.fill)
        )

    def _changed(self, X: np.ndarray, shape: ImageShape, warps: np.ndarray) -> np.ndarray:
        return warp_images(X, shape, warps, self.order, self.fill)

    def orbit(self, X: Matrix) -> np.ndarray:
        # Sorted by value, then by family.
        return super().orbit(self._rows(X)[0])

    def support(
        self, X: Matrix, V: np.ndarray, assign: np.ndarray, cost: Costs = None, rho: Grades = None
    ) -> Support:
        rows, shape = self._rows(X)
        check_directions(rows, V, assign, cost)
        if rho is not None:
            return self._graded(rows, shape, V, assign, cost, rho)
        maps = self._maps(shape)
        best = first_best(maps.facing_scores(rows, V, assign))
        points = maps.apply(rows, best[:, None])[:, 0]
        if self.finite:
            return Support(points)
        motions = self._motions(shape)
        if motions is not None:
            return self._best_of_motions(rows, shape, V, assign, points, motions)
        points = self.refined(rows, points, best, lambda z: row_dots(z, V, assign))
        return Support(points, np.full(len(rows), np.inf))

    def _graded(
        self,
        rows: np.ndarray,
        shape: ImageShape,
        V: np.ndarray,
        assign: np.ndarray,
        cost: Costs,
        rho: float | Sequence[float],
    ) -> Support:
        if not self.finite:
            raise self._absent("grades with interval, so it cannot be discounted", "does not support")
        maps = self._maps(shape)
        grades = profile_of_list(rho, len(maps))
        scores = maps.facing_scores(rows, V, assign) + costs_of(cost, assign)[:, None] * grades
        best = first_best(scores)
        return Support(maps.apply(rows, best[:, None])[:, 0], rho=grades[best])

    def _best_of_motions(
        self,
        rows: np.ndarray,
        shape: ImageShape,
        V: np.ndarray,
        assign: np.ndarray,
        points: np.ndarray,
        motions: list[Motion],
    ) -> Support:
        """Return the exact answer for a continuous set, from the best images of the cover."""
        background = fill_code(self.fill)[1]
        shift = background * V.sum(axis=1)[assign]
        best = row_dots(points, V, assign) - shift
        upper, warps = best.copy(), np.zeros((len(rows), 6))
        moved = np.zeros(len(rows), dtype=bool)
        for motion in motions:
            places, above = furthest(rows, V, assign, shape, motion, background, best)
            np.maximum(upper, above, out=upper)
            better = places >= 0
            warps[better], moved = motion.at(places[better]), moved | better
        points[moved] = self._changed(rows[moved], shape, warps[moved, None])[:, 0]
        # Rounding of sources near lines of the grid may make the image better by a rounding error.
        return Support(points, np.maximum(upper + shift, row_dots(points, V, assign)))

    def _motions(self, shape: ImageShape) -> list[Motion] | None:
        """Return the motions of all families; None if `support` has to search locally."""
        return self._once(("motions", shape), lambda: self._new_motions(shape))

    def _new_motions(self, shape: ImageShape) -> list[Motion] | None:
        if self.order != 1:
            return None
        low, high = self._ends()
        code, motions = fill_code(self.fill)[0], []
        # Sources of the identity are pixels, where the values of all bilinear images have kinks.
        ends = np.unique(np.clip([low, self.neutral, high], low, high)) if low < high else [low, low]
        for first, last in pairwise(ends):
            values = np.linspace(first, last, 5)
            turned = self._turned(np.full(5, first), values)
            for k in range(len(self.families())):
                warps = self._warps(np.full(5, k), values)
                motions.append(motion_between(shape, warps, turned, code))
        found = [motion for motion in motions if motion is not None]
        return found if len(found) == len(motions) else None

    def _turned(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Return the result of `turned`, validated."""
        source = plugins.method(self, "turned")
        return plugins.numbers(source, "angles", self.turned(low, high), low.shape)

    def mesh(self, rows: np.ndarray) -> np.ndarray:
        """Bound the distance from a continuous set to its cover.

        The source of a pixel is the point of the input image that gives its value. The bound combines
        two quantities: the movement of each source between neighboring values of the cover, and the
        differences between neighboring pixels. It requires bilinear interpolation, and is infinite
        unless `order` is 1.

        Parameters
        ----------
        rows : ndarray of shape (n_samples, n_features)
            Images.

        Returns
        -------
        ndarray of shape (n_samples,)
            Bound of the distance from any perturbed image to the nearest one of the cover.
        """
        if self.order != 1:
            return np.full(len(rows), np.inf)
        shape, values = self._shape(rows.shape[1]), self._cover_values()
        n_families = len(self.families())
        family = np.repeat(np.arange(n_families), len(values) - 1)
        low, high = np.tile(values[:-1], n_families), np.tile(values[1:], n_families)
        ends = self._warps(family, low), self._warps(family, high)
        code, background = fill_code(self.fill)
        return mesh_of(rows, shape, ends, np.abs(self._turned(low, high)), code, background)

    def refined(
        self,
        rows: np.ndarray,
        points: np.ndarray,
        index: np.ndarray,
        score: Callable[[np.ndarray], np.ndarray],
    ) -> np.ndarray:
        """Refine transformed images of the cover by a local search for a larger score.

        The distance to the neighboring values is halved in each step.

        Parameters
        ----------
        rows : ndarray of shape (n_samples, n_features)
            Images.
        points : ndarray of shape (n_samples, n_features)
            Transformed images of the cover, one per image; overwritten.
        index : ndarray of int of shape (n_samples,)
            Index of each transformed image in the cover.
        score : callable
            Function from transformed images, (n_samples, n_features), to scores, (n_samples,).

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Transformed images with scores no smaller than before.
        """
        if not len(points):
            return points
        shape = self._shape(rows.shape[1])
        families, values, _ = self._table()
        family, value = families[index], values[index]
        unchanged = family < 0
        low, high = neighbors(self._cover_values(), value)
        reached = score(points)
        # The identity belongs to all families, so a search from it uses each of them.
        for k in range(len(self.families()) if np.any(unchanged) else 1):
            now = np.where(unchanged, k, family)
            if k > 0:
                low, high = np.where(unchanged, low, value), np.where(unchanged, high, value)

            def change(at: np.ndarray, now: np.ndarray = now) -> np.ndarray:
                return self._changed(rows, shape, self._warps(now, at)[:, None])[:, 0]

            bisect(change, score, value.copy(), (low, high), points, reached, _HALVINGS)
        return points

    def _cover_values(self) -> np.ndarray:
        """Return the values of the cover, with `neutral` if it is in the interval."""
        low, high = self._ends()
        values = np.linspace(low, high, self.resolution)
        inside = low <= self.neutral <= high
        return np.unique(np.r_[values, self.neutral] if inside else values)

    def contains(self, x: np.ndarray, z: np.ndarray) -> bool:
        if not self.finite:
            raise self._absent("contains")
        members = self.orbit(x[None, :])[0]
        return bool(np.any(np.max(np.abs(members - z), axis=1, initial=0.0) <= 10.0 * rounding(x, z)))

    def sample(self, X: Matrix, n_draws: int, rng: np.random.Generator) -> np.ndarray:
        """Draw random transformed images, uniformly or with a normal density of `spread`.

        A finite set draws its images, the unperturbed one included, with probabilities in proportion
        to the density at their values. A continuous set draws values; all families are equally
        likely.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Images.
        n_draws : int
            Number of draws per image (>= 0).
        rng : numpy.random.Generator
            Source of random numbers.

        Returns
        -------
        ndarray of shape (n_samples, n_draws, n_features)
            Transformed images.
        """
        check_draw(n_draws, rng)
        rows, shape = self._rows(X)
        size = len(rows), n_draws
        if self.finite:
            probabilities = self._probabilities()
            numbers = rng.choice(len(probabilities), size, p=probabilities)
            return self._maps(shape).apply(rows, numbers)
        return self._changed(rows, shape, self._random_warps(size, rng))

    def _probabilities(self) -> np.ndarray:
        """Return the probabilities of a finite set, in proportion to the density at its values."""
        values = self._table()[1]
        if self.spread is None:
            return np.full(len(values), 1.0 / len(values))
        logs = stats.norm.logpdf(values, self.neutral, self.spread)
        densities = np.exp(logs - np.max(logs))
        return densities / np.sum(densities)

    def _random_warps(self, size: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        """Draw random warps of a continuous set, of shape (*size, 6)."""
        family = rng.integers(len(self.families()), size=size)
        value = draw(*self._ends(), self.neutral, self.spread, size, rng)
        return self._warps(family.ravel(), value.ravel()).reshape(*size, 6)

    def _changes(self, X: Matrix, y: np.ndarray | None) -> Changes:
        oracle = self._prepared()
        shape = oracle._rows(X)[1]
        numbers, values, _ = oracle._table()
        families, pairs = oracle.families(), zip(numbers[1:], values[1:], strict=True)
        names = ["identity", *(oracle.describe(families[k], float(value)) for k, value in pairs)]
        if self.finite:
            return MovedImages(X, oracle._maps(shape), names, oracle._probabilities())
        return CoverOfImages(oracle, X, oracle._maps(shape), names)

    def _draws(self, X: Matrix, n_draws: int, random_state: int) -> Changes:
        if self.finite:
            return super()._draws(X, n_draws, random_state)
        rng, shape = np.random.default_rng(random_state), self._rows(X)[1]
        warps = self._random_warps((n_draws,), rng)
        maps = image_maps(shape, warps, self.order, self.fill)
        return MovedImages(X, maps, draw_names(n_draws))

    def tangents(self, X: Matrix) -> np.ndarray:
        """Return derivatives with respect to the parameter at the identity.

        Derivatives are central differences of interpolated images. If `order` is 0, order 1 is used. If
        `smoothing` is positive, a Gaussian filter precedes them (Simard et al. 1998).

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Images.

        Returns
        -------
        ndarray of shape (n_samples, n_tangents, n_features)
            Derivatives per unit of the parameter, one per family.
        """
        rows, shape = self._rows(X)
        warps, steps = [], []
        for family in self.tangent_families():
            near = self.neutral + np.array([1e-4, -1e-4])
            step = step_of(shape, warps_of(*self._geometry(family, near)), 2e-4)
            values = np.array([self.neutral + step, self.neutral - step])
            warps.append(warps_of(*self._geometry(family, values)))
            steps.append(values[0] - values[1])
        order, size = max(self.order, 1), len(steps)
        maps = image_maps(shape, np.concatenate(warps), order, self.fill)
        images = smoothed(rows, shape, self.smoothing, self.fill)
        both = maps.apply(images, np.tile(np.arange(2 * size), (len(rows), 1)))
        both = both.reshape(len(rows), size, 2, shape.size)
        return ((both[:, :, 0] - both[:, :, 1]) / np.array(steps)[:, None]).astype(rows.dtype)


class MovedImages(Changes):
    """Images transformed by fixed maps, which are computed once.

    Shapes: `X` (n_samples, n_features), `weights` (n_members,).
    """

    def __init__(
        self,
        X: Matrix,
        maps: ImageMaps,
        names: Sequence[str] | None = None,
        weights: np.ndarray | None = None,
    ) -> None:
        super().__init__(X)
        self.maps = maps
        self._names = names
        self._weights = None if weights is None else normalized(weights)

    @property
    def size(self) -> int:
        return len(self.maps)

    @property
    def names(self) -> list[str]:
        return super().names if self._names is None else list(self._names)

    def _images(self, rows: Rows) -> np.ndarray:
        images = dense_rows(take(self.X, rows))
        return images if images.dtype in (np.float32, np.float64) else images.astype(np.float64)

    def members(self, rows: Rows = ALL_ROWS, numbers: np.ndarray | None = None) -> np.ndarray:
        images, chosen = self._images(rows), np.arange(self.size) if numbers is None else numbers
        return self.maps.apply(images, np.tile(chosen, (len(images), 1)))

    def points(self, rows: Rows, index: np.ndarray) -> np.ndarray:
        images = self._images(rows)
        index = member_numbers(index, len(images), self.size)
        return self.maps.apply(images, index[:, None])[:, 0]

    def adjoint(self, V: np.ndarray) -> np.ndarray | None:
        # With a numeric background, the maps are affine and have no adjoint.
        return self.maps.pull_back(V) if self.maps.linear else None

    def _member_scores(self, rows: Rows, V: np.ndarray) -> np.ndarray:
        return self.maps.scores(self._images(rows), V)

    def linear(self) -> LinearChanges | None:
        if not self.maps.linear:
            return None
        channels = sp.identity(self.maps.shape.channels, format="csr")
        maps = [sp.kron(self.maps.matrix(number), channels, format="csr") for number in range(self.size)]
        return LinearChanges(self.X, maps, self._names, self.weights)


class CoverOfImages(MovedImages):
    """Cover of a continuous set of transformed images, with a local search.

    Shapes: `X` (n_samples, n_features).
    """

    scored = False

    def __init__(self, oracle: ImageOracle, X: Matrix, maps: ImageMaps, names: Sequence[str]) -> None:
        super().__init__(X, maps, names)
        self.oracle = oracle

    def mesh(self, rows: Rows = ALL_ROWS) -> np.ndarray:
        return self.oracle.mesh(self._images(rows))

    def refine(
        self, rows: Rows, index: np.ndarray, score: Callable[[np.ndarray], np.ndarray]
    ) -> np.ndarray:
        return self.oracle.refined(self._images(rows), self.points(rows, index), index, score)

    # The fixed maps are only the cover of the set.
    def adjoint(self, V: np.ndarray) -> None:
        return None

    def linear(self) -> None:
        return None
