"""Image transformations: rotations, shifts, scalings, shears and flips."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any

import numpy as np

from ..union import Union
from .image_base import ImageOracle
from .image_maps import ImageShape

Shape = ImageShape | tuple[int, ...] | None
Values = float | Sequence[float] | None


@dataclass(eq=False, repr=False)
class _Interpolated(ImageOracle):
    """Base class of transformations with a real parameter, which need interpolation."""

    _: KW_ONLY
    shape: Shape = None
    interval: tuple[float, float] | None = None
    order: int = 1
    fill: str | float = "zero"
    resolution: int = 9
    spread: float | None = None
    smoothing: float = 0.0


@dataclass(eq=False, repr=False)
class Rotations(_Interpolated):
    r"""Rotations of an image around its center by listed angles or by an interval.

    .. math:: (T_t x)(p) = x\bigl(c + A_t^{-1}(p - c)\bigr), \quad
       A_t = \begin{pmatrix} \cos t & -\sin t \\ \sin t & \cos t \end{pmatrix}

    with pixels p = (row, column), the center c and the angle t in degrees. Positive angles are
    counterclockwise if row 0 is displayed on top. Multiples of 90 degrees are exact permutations of
    the pixels of square images.

    ``degrees=[-10, 10]`` allows two angles: the set is finite and the support function is exact (Teo et
    al. 2007). ``interval=(-10, 10)`` allows all angles between them. The support function of an interval
    is exact with ``order=1``. With other orders a local search refines the best angle of a cover, and
    `Support.upper` is infinite.

    Parameters
    ----------
    degrees : float or sequence of float, default=None
        Angles of a finite set. The unperturbed image is always an element. Pass either `degrees` or
        `interval`.
    shape : ImageShape or tuple, default=None
        ``(height, width)`` or ``(height, width, channels)``; rows of X are images in C order. None
        stands for square images of one channel. More than 4 channels require an `ImageShape`, since
        such tuples are often volumes or have channels first.
    interval : pair of float, default=None
        Smallest and largest angle of a continuous set. The unperturbed image is always an element.
    order : {0, 1, 3}, default=1
        Interpolation between pixels: 0 nearest, 1 bilinear, 3 cubic convolution of 16 pixels (Keys
        1981, a = -1/2). Order 3 differs from the cubic spline of ``scipy.ndimage``, whose filter
        makes every pixel depend on all others.
    fill : {"zero", "nearest", "reflect", "wrap"} or float, default="zero"
        Values beyond the border: zero, the nearest pixel, the image mirrored with its outermost pixels
        repeated, or the image repeated. A number c is the intensity of the background, such as 255 for
        black on white. The map is then affine: ``z = c + T (x - c)``, where T fills with zero.
    resolution : int, default=9
        Number of angles in the cover of an `interval` (>= 2). Kernel methods and orders 0 and 3 search
        between these angles.
    spread : float or None, default=None
        Standard deviation of the angle in random draws, in degrees (> 0): a normal distribution around
        0, truncated to `interval`. None is a uniform distribution. Listed angles have probabilities in
        proportion to the density.
    smoothing : float, default=0.0
        Standard deviation in pixels of the Gaussian filter that precedes `tangents` (>= 0).

    Raises
    ------
    TypeError, ValueError
        Raised by `validate` and all methods that use images, if a parameter is invalid, if not exactly
        one of `degrees` and `interval` is given, or if `shape` does not fit the number of features.

    See Also
    --------
    Shifts : Shifts along the axes or diagonals.
    Scalings : Magnification and reduction.
    ImageOracle : Base class of other transformations.

    Notes
    -----
    Transformed images have the dtype of X if it is float32 or float64. Integers become float64.

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

    degrees: Values = None

    def geometry(self, family: Any, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        angles = np.radians(values)
        cosines, sines = np.cos(angles), np.sin(angles)
        matrices = np.stack([cosines, -sines, sines, cosines], axis=1).reshape(-1, 2, 2)
        return matrices, np.zeros((len(values), 2))

    def turned(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        return np.radians(high - low)

    def describe(self, family: Any, value: float) -> str:
        return f"rotation {value:g}°"


@dataclass(eq=False, repr=False)
class Shifts(_Interpolated):
    r"""Shifts of an image along its axes by listed lengths or by an interval.

    .. math:: (T_{u,t}\, x)(p) = x(p - t u)

    with the length t and the direction u = (rows down, columns to the right). There are 4 directions
    (-1, 0), (1, 0), (0, -1), (0, 1), or 8 with (-1, -1), (-1, 1), (1, -1), (1, 1). A diagonal shift of
    length 1 is one pixel along both axes.

    ``pixels=[1, 2]`` allows two lengths, ``interval=(1, 2)`` all lengths between them. Shifts by whole
    pixels do not interpolate. With ``fill="wrap"`` they are permutations of the pixels.

    Parameters
    ----------
    pixels : float or sequence of float, default=None
        Lengths of the shifts of a finite set (>= 0), whole or fractional. Pass either `pixels` or
        `interval`.
    shape : ImageShape or tuple, default=None
        ``(height, width)`` or ``(height, width, channels)``; None for square images of one channel.
    interval : pair of float, default=None
        Smallest and largest length of a continuous set, in each direction. ``(-a, a)`` equals
        ``(0, a)``, since directions come in opposite pairs.
    order : {0, 1, 3}, default=1
        Interpolation between pixels: 0 nearest, 1 bilinear, 3 cubic convolution.
    fill : {"zero", "nearest", "reflect", "wrap"} or float, default="zero"
        Values beyond the border, or the intensity of the background.
    resolution : int, default=9
        Number of values per direction in the cover of an `interval` (>= 2).
    spread : float or None, default=None
        Standard deviation of the length in random draws, in pixels (> 0): a normal distribution around
        0, truncated to `interval`. None is a uniform distribution.
    smoothing : float, default=0.0
        Standard deviation in pixels of the Gaussian filter that precedes `tangents` (>= 0).
    directions : {4, 8}, default=4
        Number of directions: 4 along the axes, or 8 with the diagonals.

    Raises
    ------
    TypeError, ValueError
        Raised by `validate` and all methods that use images, if a parameter is invalid, if not exactly
        one of `pixels` and `interval` is given, or if `shape` does not fit the number of features.

    See Also
    --------
    Rotations : Rotations, with a longer description of the common parameters.
    teo2007_transforms : Shifts with rotations, scalings and shears.

    Notes
    -----
    `tangents` returns two derivatives per image, for shifts down and to the right, per pixel.

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
                f"{name} must be (low, high) with low >= 0, or a symmetric pair (-a, a), got "
                f"{given!r}: pass ({shortest:g}, {longest:g}) for shifts up to {longest:g} pixels in "
                "all directions"
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

    def describe(self, family: Any, value: float) -> str:
        return f"shift ({family[0] * value + 0.0:g}, {family[1] * value + 0.0:g})"


@dataclass(eq=False, repr=False)
class Scalings(_Interpolated):
    r"""Scalings of an image around its center by listed factors or by an interval.

    .. math:: (T_t x)(p) = x\bigl(c + (p - c) / t\bigr)

    with the center c and the factor t.
    ``factors=[0.9, 1.1]`` allows two factors, ``interval=(0.9, 1.1)`` all factors between them.

    Parameters
    ----------
    factors : float or sequence of float, default=None
        Factors of a finite set (> 0); factors above 1 magnify. Pass either `factors` or `interval`.
    shape : ImageShape or tuple, default=None
        ``(height, width)`` or ``(height, width, channels)``; None for square images of one channel.
    interval : pair of float, default=None
        Smallest and largest factor of a continuous set (> 0).
    order : {0, 1, 3}, default=1
        Interpolation between pixels: 0 nearest, 1 bilinear, 3 cubic convolution.
    fill : {"zero", "nearest", "reflect", "wrap"} or float, default="zero"
        Values beyond the border, or the intensity of the background.
    resolution : int, default=9
        Number of factors in the cover of an `interval` (>= 2).
    spread : float or None, default=None
        Standard deviation of the factor in random draws (> 0): a normal distribution around 1, truncated
        to `interval`. None is a uniform distribution.
    smoothing : float, default=0.0
        Standard deviation in pixels of the Gaussian filter that precedes `tangents` (>= 0).

    Raises
    ------
    TypeError, ValueError
        Raised by `validate` and all methods that use images, if a parameter is invalid, if not exactly
        one of `factors` and `interval` is given, or if `shape` does not fit the number of features.

    See Also
    --------
    Rotations : Rotations, with a longer description of the common parameters.
    Shears : Shears along one axis or both.

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

    factors: Values = None

    def check_values(self, name: str, values: Sequence[float]) -> None:
        if min(values) <= 0:
            raise ValueError(f"{name} must be above 0, got {getattr(self, name)!r}")

    def geometry(self, family: Any, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return values[:, None, None] * np.eye(2), np.zeros((len(values), 2))

    def describe(self, family: Any, value: float) -> str:
        return f"scaling {value:g}"


@dataclass(eq=False, repr=False)
class Shears(_Interpolated):
    r"""Shears of an image along its axes by listed factors or by an interval.

    .. math:: (T_t x)(r, s) = x(r - t (s - c_1), s) \text{ along axis 0}, \quad
       x(r, s - t (r - c_0)) \text{ along axis 1}

    with the center c and the factor t. Axis 0 moves columns, axis 1 moves rows, in proportion to their
    distance from the center. ``factors=[-0.2, 0.2]`` allows two factors, ``interval=(-0.2, 0.2)`` all
    factors between them.

    Parameters
    ----------
    factors : float or sequence of float, default=None
        Factors of a finite set, in pixels of movement per pixel of distance from the center. Pass
        either `factors` or `interval`.
    shape : ImageShape or tuple, default=None
        ``(height, width)`` or ``(height, width, channels)``; None for square images of one channel.
    interval : pair of float, default=None
        Smallest and largest factor of a continuous set, along each axis.
    order : {0, 1, 3}, default=1
        Interpolation between pixels: 0 nearest, 1 bilinear, 3 cubic convolution.
    fill : {"zero", "nearest", "reflect", "wrap"} or float, default="zero"
        Values beyond the border, or the intensity of the background.
    resolution : int, default=9
        Number of values per axis in the cover of an `interval` (>= 2).
    spread : float or None, default=None
        Standard deviation of the factor in random draws (> 0): a normal distribution around 0, truncated
        to `interval`. None is a uniform distribution.
    smoothing : float, default=0.0
        Standard deviation in pixels of the Gaussian filter that precedes `tangents` (>= 0).
    axes : int or sequence of int, default=(0, 1)
        Axes along which pixels move: 0, 1 or both.

    Raises
    ------
    TypeError, ValueError
        Raised by `validate` and all methods that use images, if a parameter is invalid, if not exactly
        one of `factors` and `interval` is given, or if `shape` does not fit the number of features.

    See Also
    --------
    Rotations : Rotations, with a longer description of the common parameters.
    Scalings : Magnification and reduction.

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

    def describe(self, family: Any, value: float) -> str:
        return f"shear {'yx'[family]} {value:g}"


class Flip(ImageOracle):
    """Mirror image, left-right or top-bottom.

    A flip has no derivative, so `tangents` raises NotImplementedError.

    Parameters
    ----------
    axis : {0, 1}, default=1
        Mirrored axis: 1 exchanges left and right, 0 exchanges top and bottom.
    shape : ImageShape or tuple, default=None
        ``(height, width)`` or ``(height, width, channels)``; None for square images of one channel.

    Raises
    ------
    TypeError, ValueError
        Raised by `validate` and all methods that use images, if `axis` is not 0 or 1, or if `shape` does
        not fit the number of features.

    See Also
    --------
    Rotations : Rotations around the center.
    Permutations : Permutations of the features.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.oracles import Flip
    >>> Flip(shape=(1, 3)).orbit(np.array([[1.0, 2.0, 3.0]]))
    array([[[1., 2., 3.],
            [3., 2., 1.]]])
    >>> only_for_symmetric_digits = Flip().only_for([0, 8])
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
        return (1.0,)

    def geometry(self, family: Any, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        matrices = np.tile(np.eye(2), (len(values), 1, 1))
        matrices[:, self.axis, self.axis] = 1.0 - 2.0 * values
        return matrices, np.zeros((len(values), 2))

    def describe(self, family: Any, value: float) -> str:
        return "flip left-right" if self.axis == 1 else "flip top-bottom"

    def tangents(self, X: Any) -> np.ndarray:
        raise self._absent("tangents")


def teo2007_transforms(shape: Shape = None, **options: Any) -> Union:
    """Create an oracle with the 20 transformations of digits in Teo et al. 2007.

    - Shifts by 1 pixel in 4 directions and by 2 pixels in 8 directions,
    - rotations by -10 and 10 degrees,
    - scalings by 0.85 and 1.15,
    - shears by -0.15 and 0.15 along both axes.

    Parameters
    ----------
    shape : ImageShape or tuple, default=None
        ``(height, width)`` or ``(height, width, channels)``; None for square images of one channel.
    **options : dict
        Further parameters of all transformations, such as `order` and `fill`.

    Returns
    -------
    Union
        Oracle with 21 perturbed images per image, the unperturbed image included.

    See Also
    --------
    Shifts : Shifts alone.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.oracles import teo2007_transforms
    >>> teo2007_transforms().orbit(np.ones((2, 784))).shape
    (2, 21, 784)
    """
    options["shape"] = shape
    shifts = Shifts(pixels=1, directions=4, **options) | Shifts(pixels=2, directions=8, **options)
    rotations = Rotations(degrees=[-10, 10], **options)
    scalings = Scalings(factors=[0.85, 1.15], **options)
    return shifts | rotations | scalings | Shears(factors=[-0.15, 0.15], axes=(0, 1), **options)
