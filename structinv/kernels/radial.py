"""Stationary kernels: Gaussian, Laplacian and Matern."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import gammaincinv, ndtri

from ..utils.jit import njit
from ..utils.matrices import contiguous_read_only, in_threads
from ..utils.parameters import check_number
from .base import Kernel
from .kernel_values import (
    ISOMETRIES,
    PERMUTATIONS,
    Norms,
    exponentials,
    half_norms,
    holds,
    in_double,
    in_tiles,
    precision,
    same_precision,
)

# Uniform numbers keep this distance from 0 and 1, where quantiles are infinite.
_EDGE = 2.0**-53


class Spectrum:
    """Distribution of frequencies w with ``k(x, y) = E cos(<w, x - y>)`` (Bochner).

    Here coordinates of w are independent, with a common quantile function.
    """

    def __init__(self, quantile: Callable[[np.ndarray], np.ndarray]) -> None:
        self._quantile = quantile

    def n_uniforms(self, n_features: int) -> int:
        """Return the number of uniform numbers per frequency."""
        return n_features

    def frequencies(self, uniforms: np.ndarray, n_features: int) -> np.ndarray:
        """Return frequencies, (p, n_features), for numbers in [0, 1), (p, n_uniforms)."""
        return self._quantile(_inside(uniforms))

    def scales(self, uniforms: np.ndarray) -> np.ndarray | None:
        """Return the scales (p,) of frequencies ``scale * z`` with standard normal z.

        None if frequencies do not have this form. Their distribution then depends on the direction, and
        rotated templates do not have it.
        """
        return None


class NormalMixture(Spectrum):
    """Frequencies ``scale * z`` with standard normal z and a random or fixed scale."""

    def __init__(self, quantile: Callable[[np.ndarray], np.ndarray] | float) -> None:
        self._scale = quantile

    def n_uniforms(self, n_features: int) -> int:
        # A random scale takes one more number.
        return n_features + callable(self._scale)

    def frequencies(self, uniforms: np.ndarray, n_features: int) -> np.ndarray:
        normal = ndtri(_inside(uniforms[:, :n_features]))
        return normal * self.scales(uniforms[:, -1])[:, None]

    def scales(self, uniforms: np.ndarray) -> np.ndarray:
        if callable(self._scale):
            return self._scale(_inside(uniforms))
        return np.full(len(uniforms), float(self._scale))


def normals(sigma: float) -> Spectrum:
    """Return the spectrum of `Gaussian`: normal, standard deviation ``1 / sigma``."""
    return NormalMixture(1.0 / float(sigma))


def _inside(uniforms: np.ndarray) -> np.ndarray:
    return np.clip(uniforms, _EDGE, 1.0 - _EDGE)


# A squared distance is computed again, from differences, if it is below this fraction of |x|^2 + |y|^2,
CLOSE = 0.01
# and if (|x|^2 + |y|^2) / 2, in units of the squared length scale, is at least this. Below, rounding
# changes the kernel by at most about this many units in the last place.
FAR = 500.0


class _Stationary(Kernel):
    """A kernel of ``x - y`` with ``k(x, x) = 1``."""

    def diagonal(self, X):
        return np.ones(X.shape[0], dtype=precision(X))

    @property
    def _level(self):
        return 1.0


class Gaussian(_Stationary):
    """Gaussian kernel ``k(x, y) = exp(-|x - y|^2 / (2 sigma^2))``.

    scikit-learn's `gamma` is ``1 / (2 sigma^2)``.

    Parameters
    ----------
    sigma : float, default=1.0
        Length scale (> 0), in the units of the features.

    See Also
    --------
    Matern : Kernel with fewer derivatives.

    Notes
    -----
    Squared distances come from inner products, in the precision of the inputs, and are at least 0.
    Rounding errors of k, including ``k(x, x)``, are a few ``eps |x| |y| / sigma^2``. They are at most
    about 1e-4 in float32 and 2e-13 in float64. Two rows that are close to each other but farther than
    about 20 sigma from the origin are compared feature by feature, which is slower. Center the features
    to avoid this.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.kernels import Gaussian
    >>> Gaussian(sigma=2.0).matrix(np.zeros((1, 2)), np.array([[0.0, 0.0], [0.0, 2.0]])).round(4)
    array([[1.    , 0.6065]])
    """

    smoothness = np.inf
    symmetry = ISOMETRIES
    thread_safe = True
    uses_distances = True

    def __init__(self, sigma: float = 1.0) -> None:
        self.sigma = sigma

    def validate(self, n_features: int | None = None) -> None:
        check_number("sigma", self.sigma, strict=True)

    def matrix(self, X, Y, norms=None):
        self.validate()
        rate = 1.0 / float(self.sigma) ** 2
        return _of_distances(self, X, Y, norms, rate, exponentials)

    def lipschitz(self, n_features: int | None = None) -> float:
        return 1.0 / self.sigma

    def partials(self, distances, products, order):
        rate = -0.5 / float(self.sigma) ** 2
        values = np.multiply(distances, rate, out=np.empty_like(distances))
        partials = {(0, 0): np.exp(values, out=values)}
        for i in range(order):
            partials[i + 1, 0] = np.multiply(partials[i, 0], rate, out=np.empty_like(values))
        return partials

    def _blurred(self, variance, n_features):
        square = float(self.sigma) ** 2
        factor = (1.0 + variance / square) ** (-0.5 * n_features)
        return factor * Gaussian(float(np.sqrt(square + variance)))

    def spectral_law(self):
        return normals(self.sigma)


class Laplacian(_Stationary):
    """Laplacian kernel ``k(x, y) = exp(-gamma |x - y|_1)``.

    Parameters
    ----------
    gamma : float, default=1.0
        Inverse length scale (> 0).

    See Also
    --------
    Gaussian : Kernel of Euclidean distances.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.kernels import Laplacian
    >>> Laplacian(0.5).matrix(np.zeros((1, 2)), np.array([[1.0, 0.0], [1.0, -1.0]])).round(4)
    array([[0.6065, 0.3679]])
    """

    symmetry = PERMUTATIONS
    adds_features = True
    thread_safe = True

    def __init__(self, gamma: float = 1.0) -> None:
        self.gamma = gamma

    def validate(self, n_features: int | None = None) -> None:
        check_number("gamma", self.gamma, strict=True)

    def matrix(self, X, Y, norms=None):
        self.validate()
        X, Y = same_precision(X, Y)
        if not holds(X.dtype, self.gamma):
            return in_double(self, X, Y)
        gamma = X.dtype.type(self.gamma)
        left, right = contiguous_read_only(X), contiguous_read_only(Y)

        def transform(tile, rows):
            _absolute_distances(left[None, rows], right[None], tile[None], gamma)
            exponentials(tile)

        values = np.empty((X.shape[0], Y.shape[0]), dtype=X.dtype)
        return in_tiles(values, transform, cost=X.shape[1], least_rows=256)

    def _stacked(self, X, Y):
        values = np.empty((len(X), X.shape[1], Y.shape[1]), dtype=X.dtype)
        cost = values.size * X.shape[2] // 4
        gamma = X.dtype.type(self.gamma)
        X, Y = contiguous_read_only(X), contiguous_read_only(Y)

        def work(rows):
            _absolute_distances(X[rows], Y[rows], values[rows], gamma)

        in_threads(work, len(X), cost)
        return exponentials(values)

    def spectral_law(self):
        # Cauchy coordinates.
        gamma = float(self.gamma)
        return Spectrum(lambda u: gamma * np.tan(np.pi * (u - 0.5)))


class Matern(_Stationary):
    """Matern kernel, with more derivatives for a larger `nu`.

    With ``a = sqrt(2 nu) r / length_scale`` and the distance r, the kernel is ``exp(-a)`` for nu = 1/2
    and ``(1 + a) exp(-a)`` for nu = 3/2. It is ``(1 + a + a^2 / 3) exp(-a)`` for nu = 5/2, and a
    Gaussian of this length scale for nu = infinity (Rasmussen and Williams 2006, section 4.2.1).

    Parameters
    ----------
    length_scale : float, default=1.0
        Length scale (> 0), in the units of the features.
    nu : {0.5, 1.5, 2.5, inf}, default=1.5
        Smoothness: k has ``nu - 1/2`` derivatives with respect to each argument.

    See Also
    --------
    Gaussian : Kernel with all derivatives.
    Laplacian : Exponential kernel of 1-norms.

    Notes
    -----
    `partials` differentiates with respect to ``s = r^2``. At 0 the second derivative is infinite for
    ``nu=1.5``, and the third and fourth for ``nu=2.5``. `partials` contains 0 there. In derivatives of k
    they are multiplied by powers of ``x - y`` that vanish faster.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.kernels import Matern
    >>> Matern(nu=1.5).matrix(np.zeros((1, 2)), np.array([[0.0, 0.0], [0.0, 1.0]])).round(4)
    array([[1.    , 0.4834]])
    """

    symmetry = ISOMETRIES
    thread_safe = True
    uses_distances = True

    def __init__(self, length_scale: float = 1.0, nu: float = 1.5) -> None:
        self.length_scale = length_scale
        self.nu = nu

    def validate(self, n_features: int | None = None) -> None:
        check_number("length_scale", self.length_scale, strict=True)
        if self.nu not in (0.5, 1.5, 2.5, np.inf):
            raise ValueError(f"nu must be 0.5, 1.5, 2.5 or inf, got {self.nu!r}")

    def matrix(self, X, Y, norms=None):
        self.validate()
        if self.nu == np.inf:
            return Gaussian(self.length_scale).matrix(X, Y, norms)
        rate = 4.0 * self.nu / float(self.length_scale) ** 2

        def transform(tile):
            a = np.sqrt(np.negative(tile, out=tile), out=tile)
            # For larger a the exponential is 0, and infinity times 0 would be NaN.
            np.minimum(a, 1e3, out=a)
            decay = np.exp(-a)
            if self.nu == 0.5:
                a[:] = decay
            else:
                a *= decay if self.nu == 1.5 else decay * (1.0 + a / 3.0)
                a += decay

        # For nu = 1/2, rounding errors of distances near 0 would appear with their root.
        return _of_distances(self, X, Y, norms, rate, transform, far=0.0 if self.nu == 0.5 else FAR)

    def lipschitz(self, n_features: int | None = None) -> float:
        # By Bochner's theorem k is an average of cosines, so 2 - 2 k(r) <= -k''(0) r^2.
        if self.nu == np.inf:
            return 1.0 / self.length_scale
        return float(np.sqrt(self.nu / (self.nu - 1.0))) / self.length_scale if self.nu > 1 else np.inf

    @property
    def smoothness(self) -> float:
        """Number of derivatives, ``nu - 1/2``."""
        return self.nu - 0.5

    def partials(self, distances, products, order):
        if self.nu == np.inf:
            return Gaussian(self.length_scale).partials(distances, products, order)
        rate = 2.0 * self.nu / float(self.length_scale) ** 2
        a = np.multiply(distances, rate, out=np.empty_like(distances))
        a = np.sqrt(a, out=a)
        decay = np.exp(-a)
        partials = {}
        # Powers of a small distance may overflow where the derivative is very large or infinite.
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            for i in range(order + 1):
                values = np.asarray(_MATERN[self.nu][i](a, decay))
                values *= (0.5 * rate) ** i
                # Derivatives of a higher order are infinite at 0.
                if i > self.smoothness:
                    values[~np.isfinite(values)] = 0
                partials[i, 0] = values
        return partials

    def _blurred(self, variance, n_features):
        if self.nu == np.inf:
            return Gaussian(self.length_scale)._blurred(variance, n_features)
        return None

    def spectral_law(self):
        if self.nu == np.inf:
            return normals(self.length_scale)
        # Student's t with 2 nu degrees of freedom.
        length_scale, nu = float(self.length_scale), float(self.nu)
        return NormalMixture(lambda u: np.sqrt(nu / gammaincinv(nu, u)) / length_scale)


# The kernel and its derivatives by ``s = r^2``, except for powers of ``nu / length_scale^2``, as
# functions of a and ``exp(-a)``. Each is the derivative by a of the one before, divided by a.
_MATERN: dict[float, tuple[Callable[[np.ndarray, np.ndarray], np.ndarray], ...]] = {
    0.5: (lambda a, decay: decay.copy(),),
    1.5: (
        lambda a, decay: a * decay + decay,
        lambda a, decay: -decay,
        lambda a, decay: decay / a,
    ),
    2.5: (
        lambda a, decay: (a / 3.0 + 1.0) * decay * a + decay,
        lambda a, decay: (a * decay + decay) / -3.0,
        lambda a, decay: decay / 3.0,
        lambda a, decay: decay / (-3.0 * a),
        lambda a, decay: (a * decay + decay) / a / a / a / 3.0,
    ),
}


def _of_distances(
    kernel: Kernel,
    X: np.ndarray,
    Y: np.ndarray,
    norms: Norms | None,
    rate: float,
    transform: Callable[[np.ndarray], Any],
    far: float = FAR,
) -> np.ndarray:
    """Compute tiles of ``-rate |x_i - y_j|^2 / 2`` and transform each in place.

    If half squared norms times `rate` exceed `far`, small distances are computed from differences.
    """
    X, Y = same_precision(X, Y)
    x, y = norms or (half_norms(X), half_norms(Y))
    largest = float(x.max(initial=0.0)) + float(y.max(initial=0.0))
    if not holds(X.dtype, rate, largest):
        return in_double(kernel, X, Y)
    if not largest < np.inf:
        name, rows = ("X", X) if np.max(x, initial=0.0) == np.inf else ("Y", Y)
        raise ValueError(
            f"{name} must have rows with finite squared norms, got entries up to "
            f"{np.max(np.abs(rows)):g}: rescale the features"
        )
    factor = X.dtype.type(rate)
    left, right = contiguous_read_only(X), contiguous_read_only(Y)
    # The margin is for rounding errors.
    some_far = rate * largest > 0.99 * far
    highest = y.max(initial=0.0)

    def work(tile: np.ndarray, rows: slice) -> None:
        _negative_distances(tile, x[rows], y, factor)
        if some_far:
            _correct_close(tile, left[rows], right, x[rows], y, highest, factor, far)
        transform(tile)

    return in_tiles(X @ Y.T, work)


# Constants have the type of the arrays: a plain 0 or 2 would change float32 to float64.
@njit(cache=True, nogil=True)
def _negative_distances(products, x, y, factor):
    """Replace products by ``-factor |x_i - y_j|^2 / 2 <= 0``; x, y are half squared norms."""
    zero = products.dtype.type(0)
    for i in range(products.shape[0]):
        for j in range(products.shape[1]):
            # The sum of both norms comes first, so the value is symmetric in x and y to the last bit.
            value = factor * (products[i, j] - (x[i] + y[j]))
            products[i, j] = zero if value > zero else value


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _correct_close(negative, X, Y, x, y, highest, factor, far):
    """Compute values from differences if products above `far` have canceled."""
    close = negative.dtype.type(-CLOSE)
    half, least = factor * negative.dtype.type(0.5), negative.dtype.type(far)
    for i in range(negative.shape[0]):
        if factor * (x[i] + highest) < least:
            continue
        for j in range(negative.shape[1]):
            size = factor * (x[i] + y[j])
            if size >= least and negative[i, j] > close * size:
                total = negative.dtype.type(0)
                for k in range(X.shape[1]):
                    difference = X[i, k] - Y[j, k]
                    total += difference * difference
                negative[i, j] = -half * total


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def _absolute_distances(X, Y, out, factor):
    """Write ``-factor |x_i - y_j|_1`` into `out` for each pair of arrays of rows, all (m, n, d).

    Eight rows of Y are compared with a row of X at a time, so that their sums stay in registers. At the
    edge the last row is repeated, so that every pair is summed in the same sequence. The factor is part
    of the sums, because processors multiply and add in one step.
    """
    zero = X.dtype.type(0)
    for m in range(X.shape[0]):
        end = Y.shape[1] - 1
        for j in range(0, end + 1, 8):
            j1 = end if j + 1 > end else j + 1
            j2 = end if j + 2 > end else j + 2
            j3 = end if j + 3 > end else j + 3
            j4 = end if j + 4 > end else j + 4
            j5 = end if j + 5 > end else j + 5
            j6 = end if j + 6 > end else j + 6
            j7 = end if j + 7 > end else j + 7
            y0, y1, y2, y3 = Y[m, j], Y[m, j1], Y[m, j2], Y[m, j3]
            y4, y5, y6, y7 = Y[m, j4], Y[m, j5], Y[m, j6], Y[m, j7]
            for i in range(X.shape[1]):
                x = X[m, i]
                a0, a1, a2, a3 = zero, zero, zero, zero
                a4, a5, a6, a7 = zero, zero, zero, zero
                for k in range(X.shape[2]):
                    p = x[k]
                    a0 += factor * abs(p - y0[k])
                    a1 += factor * abs(p - y1[k])
                    a2 += factor * abs(p - y2[k])
                    a3 += factor * abs(p - y3[k])
                    a4 += factor * abs(p - y4[k])
                    a5 += factor * abs(p - y5[k])
                    a6 += factor * abs(p - y6[k])
                    a7 += factor * abs(p - y7[k])
                out[m, i, j], out[m, i, j1], out[m, i, j2], out[m, i, j3] = -a0, -a1, -a2, -a3
                out[m, i, j4], out[m, i, j5], out[m, i, j6], out[m, i, j7] = -a4, -a5, -a6, -a7
