"""Parameters of image oracles: values, geometric maps, shape of the images."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from ...utils import plugins
from ...utils.matrices import Matrix, dense, refuse_masked
from ...utils.parameters import check_integer, check_number
from ..base import InvarianceOracle
from ..cache import Cache
from ..parameter_values import check_spread, interval, listed
from .image_maps import (
    FILLS,
    ORDERS,
    ImageMaps,
    ImageShape,
    image_maps,
    image_shape,
    warp_images,
    warps_of,
)


@dataclass(frozen=True)
class MemberTable:
    """Parameters of the transformations of an orbit or a cover, the identity first.

    - `family` (n_members,): index of the family of each transformation, -1 for the identity
    - `value` (n_members,): value of the parameter
    - `warps` (n_members, 6): coefficients of the geometric maps
    - `place` (1 + n_values * n_families,): index in this table of the identity and of each value in each
      family, sorted by value
    """

    family: np.ndarray
    value: np.ndarray
    warps: np.ndarray
    place: np.ndarray


class ImageFamily(InvarianceOracle):
    """Base class of `ImageOracle`, with the parameters and the geometric maps."""

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

    # Only prepared copies have a cache.
    _cache: Cache | None = None

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
        check_spread(self.spread)
        check_number("smoothing", self.smoothing)
        image_shape(self.shape, n_features)

    def _prepared(self) -> Self:
        if self._cache is not None:
            return self
        prepared = copy.copy(self)
        prepared._cache = Cache()
        return prepared

    def _once(self, name: Hashable, make: Callable[[], Any]) -> Any:
        return make() if self._cache is None else self._cache.get(name, make)

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

    def _table(self) -> MemberTable:
        return self._once("table", self._new_table)

    def _new_table(self) -> MemberTable:
        values = np.array(self.values() if self.finite else np.linspace(*self._ends(), self.resolution))
        return member_table(values, len(self.families()), self.neutral, self._warps)

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

        def make() -> ImageMaps:
            warps = self._table().warps
            return image_maps(shape, warps, self.order, self.fill)

        return self._once(("maps", shape), make)

    def _changed(self, X: np.ndarray, shape: ImageShape, warps: np.ndarray) -> np.ndarray:
        return warp_images(X, shape, warps, self.order, self.fill)


def member_table(
    values: np.ndarray,
    n_families: int,
    neutral: float,
    warps_at: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> MemberTable:
    """Return the table of distinct transformations with these values in all families.

    Shapes: `values` (m,).
    """
    family = np.r_[-1, np.tile(np.arange(n_families), len(values))]
    value = np.r_[neutral, np.repeat(values, n_families)]
    warps = warps_at(np.maximum(family, 0), value)
    # Different values may give equal maps, such as rotations by 0 and 360 degrees.
    rounded = np.round(warps, 12) + 0.0
    _, first, same = np.unique(rounded, axis=0, return_index=True, return_inverse=True)
    distinct = np.sort(first)
    place = np.searchsorted(distinct, first[same.ravel()])
    return MemberTable(family[distinct], value[distinct], warps[distinct], place)
