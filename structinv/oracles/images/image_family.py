"""A family of geometric maps with one parameter: its values, their maps, and the shape of the images."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from ...utils import plugins
from ...utils.matrices import Matrix
from ...utils.parameters import check_boolean, check_integer, check_number
from ..base import InvarianceOracle
from ..cache import Cache
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
from .image_parameters import check_distribution, interval, listed
from .image_paths import Path


@dataclass(frozen=True)
class MemberTable:
    """The members of an orbit or a cover, the identity first.

    Parameters
    ----------
    family : (s,) array of int
        Number of the family of each, -1 for the identity.
    value : (s,) array
    warps : (s, 6) array
    place : (1 + m * f,) array of int
        Which member the identity became, and then each of m values in each of f families, by value.
    """

    family: np.ndarray
    value: np.ndarray
    warps: np.ndarray
    place: np.ndarray


class ImageFamily(InvarianceOracle):
    """What parameters say of geometric maps: `ImageOracle` has the views of the set that they make."""

    parameter: str
    neutral: float = 0.0
    distributions: tuple[str, ...] = ("uniform", "normal")

    # Those of a family whose constructor has none of them.
    shape: ImageShape | tuple[int, ...] | None = None
    order: int = 1
    fill: str | float = "zero"
    unitary: bool = False
    interval: tuple[float, float] | None = None
    resolution: int = 9
    distribution: str = "uniform"
    spread: float | None = None
    smoothing: float = 0.0

    # Of a prepared copy only.
    _kept: Cache | None = None

    @abstractmethod
    def geometry(self, family: Any, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Matrices A (m, 2, 2) and translations t (m, 2) of the maps with these values, (m,).

        What lies at (row, column) q of the input goes to ``c + A (q - c) + t`` in the output, c
        being the center of the image.
        """

    @abstractmethod
    def describe(self, family: Any, value: float) -> str:
        """A short name of the member of a family with this value."""

    def families(self) -> tuple[Any, ...]:
        """Axes or directions, each of which has a member for every value."""
        return (None,)

    def tangent_families(self) -> tuple[Any, ...]:
        """The families that `tangents` differentiates."""
        return self.families()

    def turned(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Radians by which the sources of pixels turn around the center between two values.

        Zero, the default, says that they move on straight lines, all by the same fraction at the
        same value. A family for which neither holds overrides `mesh`.
        """
        return np.zeros(len(low))

    def path(self, family: Any, low: float, high: float) -> Path | None:
        """The members of a family between two values as a path; with order 1 `support` is then exact.

        None, the default, where the warps move neither on a line nor on a circle.
        """
        return None

    def check_values(self, name: str, values: Sequence[float]) -> None:
        """Raise ValueError if a value of the parameter is out of its range."""

    def values(self) -> tuple[float, ...]:
        """The values of a finite set, as given."""
        return listed(self.parameter, getattr(self, self.parameter))

    @property
    def finite(self) -> bool:  # type: ignore[override]
        """Whether the values are listed, and no interval is given."""
        return self.interval is None

    def validate(self, n_features: int | None = None) -> None:
        """Raise if a parameter is out of its range, or the shape does not fit the features."""
        self._check_range()
        name = type(self).__name__
        if self.order not in ORDERS or isinstance(self.order, bool):
            raise ValueError(f"order must be 0, 1 or 3, got {self.order!r}")
        if isinstance(self.fill, str):
            if self.fill not in FILLS:
                raise ValueError(f"fill must be a number or one of {tuple(FILLS)}, got {self.fill!r}")
        else:
            check_number("fill", self.fill, minimum=-np.inf)
        check_boolean("unitary", self.unitary)
        check_integer("resolution", self.resolution, least=2)
        check_distribution(name, self.distributions, self.distribution, self.spread)
        check_number("smoothing", self.smoothing)
        image_shape(self.shape, n_features)

    def _prepared(self) -> Self:
        """See `InvarianceOracle._prepared`: the values are looked at once, and their maps kept."""
        if self._kept is not None:
            return self
        prepared = copy.copy(self)
        prepared._kept = Cache()
        return prepared

    def _once(self, name: Hashable, make: Callable[[], Any]) -> Any:
        return make() if self._kept is None else self._kept.get(name, make)

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
            if isinstance(values, tuple) and len(values) == 2:
                name, pair = self.parameter, values
                raise ValueError(
                    f"{name} must be a number or a list of numbers, got the pair {pair!r}: write "
                    f"{name}={list(pair)!r} for two values, or interval={pair!r} for all in between"
                )
            self.check_values(self.parameter, self.values())
            return
        if values is not None:
            raise ValueError(
                f"{self.parameter} and interval exclude each other: give one and leave the other None"
            )
        self.check_values("interval", self._ends())

    def _rows(self, X: Matrix) -> tuple[np.ndarray, ImageShape]:
        rows = X.toarray() if sp.issparse(X) else np.asarray(X)
        if rows.ndim != 2:
            raise ValueError(
                f"X must have shape (n, d), an image a row, got {rows.shape}; "
                "X.reshape(len(X), -1) makes rows of images"
            )
        if np.iscomplexobj(rows):
            raise ValueError(f"X must hold real numbers, got {rows.dtype}")
        shape = self._shape(rows.shape[1])
        return rows if rows.dtype in (np.float32, np.float64) else rows.astype(np.float64), shape

    def _table(self) -> MemberTable:
        return self._once("table", self._new_table)

    def _new_table(self) -> MemberTable:
        values = np.array(self.values() if self.finite else np.linspace(*self._ends(), self.resolution))
        return member_table(values, len(self.families()), self.neutral, self._warps)

    def _ends(self) -> tuple[float, float]:
        """The lowest and the highest value of a continuous set."""
        return interval("interval", self.interval)

    def _warps(self, family: np.ndarray, value: np.ndarray) -> np.ndarray:
        """The warps of many members, (m, 6)."""
        warps = np.empty((len(family), 6))
        for number, name in enumerate(self.families()):
            mine = family == number
            if np.any(mine):
                warps[mine] = warps_of(*self._geometry(name, value[mine]))
        return warps

    def _geometry(self, family: Any, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """`geometry`, validated."""
        source, found = plugins.method(self, "geometry"), self.geometry(family, values)
        if not isinstance(found, tuple) or len(found) != 2:
            raise TypeError(f"{source} must return matrices and translations, got {found!r}")
        matrices = plugins.numbers(source, "matrices", found[0], (len(values), 2, 2))
        return matrices, plugins.numbers(source, "translations", found[1], (len(values), 2))

    def _maps(self, shape: ImageShape) -> ImageMaps:
        """The maps of all members in the table."""

        def make() -> ImageMaps:
            warps = self._table().warps
            return image_maps(shape, warps, self.order, self.fill, bool(self.unitary))

        return self._once(("maps", shape), make)

    def _changed(self, X: np.ndarray, shape: ImageShape, warps: np.ndarray) -> np.ndarray:
        return warp_images(X, shape, warps, self.order, self.fill, bool(self.unitary))


def member_table(
    values: np.ndarray,
    n_families: int,
    neutral: float,
    warps_at: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> MemberTable:
    """The members with these values in all families.

    Parameters
    ----------
    values : (m,) array
    n_families : int
    neutral : float
        The value of no change.
    warps_at : callable
        From families (k,) and values (k,) to warps (k, 6).
    """
    family = np.r_[-1, np.tile(np.arange(n_families), len(values))]
    value = np.r_[neutral, np.repeat(values, n_families)]
    warps = warps_at(np.maximum(family, 0), value)
    # Equal values, and others that do the same: no change, or a whole turn.
    rounded = np.round(warps, 12) + 0.0
    _, first, same = np.unique(rounded, axis=0, return_index=True, return_inverse=True)
    kept = np.sort(first)
    place = np.searchsorted(kept, first[same.ravel()])
    return MemberTable(family[kept], value[kept], warps[kept], place)
