"""Geometric changes of images: shifts, rotations, scalings, shears, mirror images."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any

import numpy as np

from ..union import Union
from .image_base import ImageOracle
from .image_maps import ImageShape, warps_of
from .image_paths import Path

Shape = ImageShape | tuple[int, ...] | None
Values = float | Sequence[float] | None


@dataclass(eq=False, repr=False)
class _Interpolated(ImageOracle):
    """The parameters of changes by any value; see `Rotations`."""

    _: KW_ONLY
    shape: Shape = None
    interval: tuple[float, float] | None = None
    order: int = 1
    fill: str | float = "zero"
    unitary: bool = False
    resolution: int = 9
    distribution: str = "uniform"
    spread: float | None = None
    smoothing: float = 0.0


@dataclass(eq=False, repr=False)
class Rotations(_Interpolated):
    r"""Rotations of an image around its center by exactly the angles listed; a range is `interval`.

    .. math:: (T_t x)(p) = x\bigl(c + A_t^{-1}(p - c)\bigr), \quad
       A_t = \begin{pmatrix} \cos t & -\sin t \\ \sin t & \cos t \end{pmatrix}

    for pixels p = (row, column), the center c and t in degrees: a positive angle is
    counter-clockwise as the image is displayed, with row 0 on top. The set is finite with `degrees`
    (exact, fixed sparse linear maps; Teo et al. 2007) and continuous with `interval`:
    ``degrees=[-10, 10]`` are two angles, ``interval=(-10, 10)`` those and all between them. The best
    angle between for a linear function is found exactly with order 1, and with other orders refined
    from the best of a grid (`upper` is infinite).
    Turns of square images by 90 degrees are exact permutations.

    Parameters
    ----------
    degrees : float or sequence of float, optional
        The angles of a finite set, used as they are; no change is a member too, once. Give either
        this or `interval`.
    shape : ImageShape or tuple, optional
        ``(height, width)`` or ``(height, width, channels)``, rows being in C order of it; None for
        square images of one channel. More than 4 channels are given as an `ImageShape` only, since
        such a tuple is mostly a volume, or has the channels in front.
    interval : pair of float, optional
        Lowest and highest angle of a continuous set; no change is a member even if outside.
    order : {1, 0, 3}, default=1
        Interpolation between pixels: 0 nearest, 1 bilinear, 3 cubic convolution (Keys 1981, a =
        -1/2), which weighs 16 pixels. It is not the cubic spline of ``scipy.ndimage``, whose
        filter makes every pixel depend on all others.
    fill : {"zero", "nearest", "reflect", "wrap"} or float, default="zero"
        What lies beyond the border: zeros, the nearest pixel, the image mirrored with its outermost
        pixels repeated, the image repeated. A number c is the background, such as 255 for black on
        white: ``z = c + T (x - c)`` with T of zero fill, which is affine and has no `pullback`.
    unitary : bool, default=False
        Whether intensities are multiplied by |J|^-1/2, J being the Jacobian determinant of the
        geometric map, which makes it unitary on images without pixels. Matters for scalings only.
    resolution : int, default=9
        Values on the grid of a continuous set, for each axis or direction; at least 2. Kernel
        machines and other orders than 1 start from it.
    distribution : {"uniform", "normal", "vonmises"}, default="uniform"
        The density of the angle in `sample`, largest at no change and cut off at the ends of
        `interval`; a finite set is drawn in proportion to it. "vonmises" has concentration
        1 / spread^2.
    spread : float, optional
        Standard deviation of the angle before it is cut off, in degrees; needed and above 0 for
        every distribution but "uniform", which refuses it.
    smoothing : float, default=0.0
        Standard deviation in pixels of the Gaussian by which `tangents` smooths an image first.

    Raises
    ------
    TypeError, ValueError
        From `validate` and all views, if a parameter is out of its range, if both or none of
        `degrees` and `interval` are given, or if `shape` does not fit the number of features.

    Notes
    -----
    Answers have the precision of the rows, float32 or float64; integers become float64.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.oracles import Rotations
    >>> X = np.array([[1.0, 2.0, 3.0, 4.0]])
    >>> Rotations(degrees=90).orbit(X).reshape(2, 2, 2)
    array([[[1., 2.],
            [3., 4.]],
           [[2., 4.],
            [1., 3.]]])
    """

    parameter = "degrees"
    distributions = ("uniform", "normal", "vonmises")

    degrees: Values = None

    def geometry(self, family: Any, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        angles = np.radians(values)
        cosines, sines = np.cos(angles), np.sin(angles)
        matrices = np.stack([cosines, -sines, sines, cosines], axis=1).reshape(-1, 2, 2)
        return matrices, np.zeros((len(values), 2))

    def turned(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        return np.radians(high - low)

    def path(self, family: Any, low: float, high: float) -> Path:
        """See `ImageOracle.path`: a circle."""
        warps = [[0.0] * 6, [1.0, 0.0, 0.0, 1.0, 0.0, 0.0], [0.0, 1.0, -1.0, 0.0, 0.0, 0.0]]
        first, last = np.radians([low, high])
        return Path(np.array(warps), first, last, turning=True, value_at=np.degrees)

    def describe(self, family: Any, value: float) -> str:
        return f"rotation {value:g}°"


@dataclass(eq=False, repr=False)
class Shifts(_Interpolated):
    r"""Shifts of an image along its axes by exactly the lengths listed; a range is `interval`.

    .. math:: (T_{u,t}\, x)(p) = x(p - t u)

    with directions u = (rows down, columns to the right): (-1, 0), (1, 0), (0, -1), (0, 1), and with
    8 directions (-1, -1), (-1, 1), (1, -1), (1, 1), so that a diagonal shift by 1 is one pixel along
    both axes. Shifts by whole pixels move pixels exactly, and permute them with ``fill="wrap"``.
    ``pixels=[1, 2]`` are two lengths, ``interval=(1, 2)`` those and all between them.

    Parameters
    ----------
    pixels : float or sequence of float, optional
        Lengths of the shifts of a finite set, at least 0 and not always whole. Give either this or
        `interval`.
    directions : {4, 8}, default=4
    interval : pair of float, optional
        Shortest and longest shift of a continuous set, in each direction. ``(-a, a)`` is ``(0, a)``,
        since directions come in opposite pairs.
    distribution : {"uniform", "normal"}, default="uniform"
    spread : float, optional
        Standard deviation of the length, in pixels.
    shape, order, fill, unitary, resolution, smoothing
        See `Rotations`, also for errors.

    Notes
    -----
    `tangents` has two directions, down and to the right, per pixel.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.oracles import Shifts
    >>> oracle = Shifts(pixels=1, shape=(1, 3))
    >>> oracle.changes(np.zeros((1, 3))).names
    ['identity', 'shift (-1, 0)', 'shift (1, 0)', 'shift (0, -1)', 'shift (0, 1)']
    >>> oracle.support(np.array([[1.0, 2.0, 3.0]]), np.array([[0.0, 0.0, -1.0]]), np.array([0])).points
    array([[0., 0., 0.]])
    """

    parameter = "pixels"

    pixels: Values = None
    _: KW_ONLY
    directions: int = 4

    def validate(self, n_features: int | None = None) -> None:
        if not isinstance(self.directions, Integral) or self.directions not in (4, 8):
            raise ValueError(f"directions must be 4 or 8, got {self.directions!r}")
        super().validate(n_features)

    def check_values(self, name: str, values: Sequence[float]) -> None:
        if min(values) >= 0:
            return
        given = getattr(self, name)
        if name == "interval":
            shortest, longest = max(0.0, -max(values)), max(map(abs, values))
            raise ValueError(
                f"{name} must be the shortest and the longest shift, at least 0, or a symmetric pair "
                f"(-a, a), got {given!r}; directions come in opposite pairs, so write "
                f"({shortest:g}, {longest:g}) for shifts up to {longest:g} pixels both ways"
            )
        raise ValueError(f"{name} must be at least 0, got {given!r}")

    def _ends(self) -> tuple[float, float]:
        low, high = super()._ends()
        return (0.0, high) if low == -high else (low, high)

    def families(self) -> tuple[tuple[int, int], ...]:
        straight = (-1, 0), (1, 0), (0, -1), (0, 1)
        return straight if self.directions == 4 else (*straight, (-1, -1), (-1, 1), (1, -1), (1, 1))

    def tangent_families(self) -> tuple[tuple[int, int], ...]:
        return (1, 0), (0, 1)

    def geometry(self, family: Any, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.tile(np.eye(2), (len(values), 1, 1)), np.outer(values, family)

    def path(self, family: Any, low: float, high: float) -> Path:
        """See `ImageOracle.path`: a line."""
        return _line(*self.geometry(family, np.array([0.0, 1.0])), low, high)

    def describe(self, family: Any, value: float) -> str:
        return f"shift ({family[0] * value + 0.0:g}, {family[1] * value + 0.0:g})"


@dataclass(eq=False, repr=False)
class Scalings(_Interpolated):
    r"""Images enlarged or reduced by exactly the factors listed; a range is `interval`.

    .. math:: (T_t x)(p) = x\bigl(c + (p - c) / t\bigr), \text{ with } 1/t \text{ before x if unitary}

    around the center c. ``factors=[0.9, 1.1]`` are two changes, ``interval=(0.9, 1.1)`` those and all
    between them.

    Parameters
    ----------
    factors : float or sequence of float, optional
        The factors of a finite set, above 0; more than 1 enlarges. Give either this or `interval`.
    interval : pair of float, optional
        Smallest and largest factor of a continuous set.
    distribution : {"uniform", "normal", "lognormal"}, default="uniform"
        "lognormal" is a normal density over the logarithm of the factor, largest at 1.
    spread : float, optional
        Standard deviation of the factor, or of its logarithm.
    shape, order, fill, unitary, resolution, smoothing
        See `Rotations`, also for errors.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.oracles import Scalings
    >>> Scalings(factors=[0.5, 2.0], shape=(1, 3)).orbit(np.array([[2.0, 6.0, 4.0]]))
    array([[[2., 6., 4.],
            [0., 6., 0.],
            [4., 6., 5.]]])
    """

    parameter, neutral = "factors", 1.0
    distributions = ("uniform", "normal", "lognormal")

    factors: Values = None

    def check_values(self, name: str, values: Sequence[float]) -> None:
        if min(values) <= 0:
            raise ValueError(f"{name} must be above 0, got {getattr(self, name)!r}")

    def geometry(self, family: Any, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return values[:, None, None] * np.eye(2), np.zeros((len(values), 2))

    def path(self, family: Any, low: float, high: float) -> Path:
        """See `ImageOracle.path`: a line, as the factor's inverse grows."""
        warps = np.zeros((3, 6))
        warps[1, [0, 3]] = 1.0
        return Path(warps, 1.0 / high, 1.0 / low, gained=bool(self.unitary), value_at=np.reciprocal)

    def describe(self, family: Any, value: float) -> str:
        return f"scaling {value:g}"


@dataclass(eq=False, repr=False)
class Shears(_Interpolated):
    r"""Images sheared along their axes by exactly the factors listed; a range is `interval`.

    .. math:: (T_t x)(r, s) = x(r - t (s - c_1), s) \text{ along axis 0}, \quad
       x(r, s - t (r - c_0)) \text{ along axis 1}

    with the center c: along axis 0 columns move, along axis 1 rows, further from the center by more.
    ``factors=[-0.2, 0.2]`` are two changes, ``interval=(-0.2, 0.2)`` those and all between them.

    Parameters
    ----------
    factors : float or sequence of float, optional
        Pixels moved for each pixel of distance from the center. Give either this or `interval`.
    axes : int or sequence of int, default=(0, 1)
        The axes along which pixels move: 0, 1 or both.
    interval : pair of float, optional
        Lowest and highest factor of a continuous set, along each axis.
    distribution : {"uniform", "normal"}, default="uniform"
    spread : float, optional
        Standard deviation of the factor.
    shape, order, fill, unitary, resolution, smoothing
        See `Rotations`, also for errors.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.oracles import Shears
    >>> X = np.array([[0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0]])
    >>> Shears(factors=1.0, axes=1).orbit(X)[0, 1].reshape(3, 3)
    array([[1., 0., 0.],
           [0., 1., 0.],
           [0., 0., 1.]])
    """

    parameter = "factors"

    factors: Values = None
    _: KW_ONLY
    axes: int | Sequence[int] = (0, 1)

    def validate(self, n_features: int | None = None) -> None:
        axes = tuple(self.axes) if isinstance(self.axes, Iterable) else (self.axes,)
        whole = [axis for axis in axes if isinstance(axis, Integral) and not isinstance(axis, bool)]
        if not whole or len(whole) < len(axes) or sorted(whole) not in ([0], [1], [0, 1]):
            raise ValueError(f"axes must be 0, 1 or (0, 1), got {self.axes!r}")
        super().validate(n_features)

    def families(self) -> tuple[int, ...]:
        return (int(self.axes),) if isinstance(self.axes, (int, np.integer)) else tuple(self.axes)

    def geometry(self, family: Any, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        matrices = np.tile(np.eye(2), (len(values), 1, 1))
        matrices[:, family, 1 - family] = values
        return matrices, np.zeros((len(values), 2))

    def path(self, family: Any, low: float, high: float) -> Path:
        """See `ImageOracle.path`: a line."""
        return _line(*self.geometry(family, np.array([0.0, 1.0])), low, high)

    def describe(self, family: Any, value: float) -> str:
        return f"shear {'yx'[family]} {value:g}"


class Flip(ImageOracle):
    """The mirror image, for labels that a mirror leaves alone.

    Parameters
    ----------
    axis : {1, 0}, default=1
        1 mirrors left and right, 0 top and bottom.
    shape : ImageShape or tuple, optional
        See `Rotations`, also for errors.

    Notes
    -----
    There is no small flip, so there are no `tangents`.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.oracles import Flip
    >>> Flip(shape=(1, 3)).orbit(np.array([[1.0, 2.0, 3.0]]))
    array([[[1., 2., 3.],
            [3., 2., 1.]]])
    >>> only_these_digits = Flip().only_for([0, 8])
    """

    parameter = "axis"
    order = 0

    def __init__(self, axis: int = 1, *, shape: Shape = None) -> None:
        self.axis = axis
        self.shape = shape

    def validate(self, n_features: int | None = None) -> None:
        whole = isinstance(self.axis, Integral) and not isinstance(self.axis, bool)
        if not whole or self.axis not in (0, 1):
            raise ValueError(f"axis must be 0 or 1, got {self.axis!r}")
        super().validate(n_features)

    def values(self) -> tuple[float, ...]:
        """See `ImageOracle.values`: flipped."""
        return (1.0,)

    def geometry(self, family: Any, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        matrices = np.tile(np.eye(2), (len(values), 1, 1))
        matrices[:, self.axis, self.axis] = 1.0 - 2.0 * values
        return matrices, np.zeros((len(values), 2))

    def describe(self, family: Any, value: float) -> str:
        return "flip left-right" if self.axis == 1 else "flip top-bottom"

    def tangents(self, X: Any) -> np.ndarray:
        """There are none."""
        raise self._absent("tangents")


def _line(matrices: np.ndarray, translations: np.ndarray, low: float, high: float) -> Path:
    """The path of warps that are affine in the value, given the maps at the values 0 and 1."""
    start, end = warps_of(matrices, translations)
    return Path(np.stack([start, end - start, np.zeros(6)]), low, high)


def teo2007_transforms(shape: Shape = None, **options: Any) -> Union:
    """The 20 changes of digits of Teo, Globerson, Roweis and Smola (2007), as one oracle.

    Shifts by 1 pixel in 4 and by 2 pixels in 8 directions, rotations by 10 degrees, scalings by 0.85
    and 1.15, and shears by 0.15 along both axes, each both ways.

    Parameters
    ----------
    shape : ImageShape or tuple, optional
        See `Rotations`.
    **options
        Parameters that all of them take, such as `fill`.

    Returns
    -------
    Union
        With 21 members, no change among them.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.oracles import teo2007_transforms
    >>> teo2007_transforms().orbit(np.ones((2, 784))).shape
    (2, 21, 784)
    """
    options["shape"] = shape
    shifts = Shifts(pixels=1, directions=4, **options) | Shifts(pixels=2, directions=8, **options)
    turns = Rotations(degrees=[-10, 10], **options)
    scalings = Scalings(factors=[0.85, 1.15], **options)
    return shifts | turns | scalings | Shears(factors=[-0.15, 0.15], axes=(0, 1), **options)


def zhang2013_transforms(shape: Shape = None, **options: Any) -> Union:
    """The 12 changes of digits of Zhang, Lee and Teh (2013), as one oracle.

    Shifts by 2 pixels in 4 directions, rotations by 10 degrees, scalings by 0.9 and 1.1, and shears
    by 0.1 along both axes, each both ways.

    Parameters
    ----------
    shape : ImageShape or tuple, optional
        See `Rotations`.
    **options
        Parameters that all of them take, such as `fill`.

    Returns
    -------
    Union
        With 13 members, no change among them.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.oracles import zhang2013_transforms
    >>> zhang2013_transforms(shape=(32, 32, 3)).orbit(np.ones((1, 3072))).shape
    (1, 13, 3072)
    """
    options["shape"] = shape
    shifts = Shifts(pixels=2, directions=4, **options)
    turns = Rotations(degrees=[-10, 10], **options)
    scalings = Scalings(factors=[0.9, 1.1], **options)
    return shifts | turns | scalings | Shears(factors=[-0.1, 0.1], axes=(0, 1), **options)
