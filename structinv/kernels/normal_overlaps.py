"""Kernels of the overlap of normal distributions around both rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from ..oracles import Identity, InvarianceOracle
from ..regions.inner_products import Stack, pair_products
from ..utils.jit import njit
from ..utils.parameters import brief, check_number, in_order
from .kernel_values import DOUBLE, precision, same_precision
from .tangent_vectors import (
    MOST_IN_SINGLE,
    DirectedKernel,
    DirectedRows,
    orthogonal_directions,
    unit_directions,
)

# Column of the logarithm of the kernel of a row with itself.
OWN = 3
# Distance from 0, in length scales, from which rounding of rows to float32 changes the kernel more than
# rounding of its values.
FAR = 16.0


class NormalOverlapKernel(DirectedKernel):
    r"""Kernel of the overlap of normal distributions around both rows.

    With covariances L and L' and :math:`C = w + L + L'` it is

    .. math:: |C|^{-1/2} e^{-r\, D' C^{-1} D} f_x f_z

    with a factor f for each row. A subclass computes the distributions and defines w, r and the
    logarithm of an upper bound of the values.
    """

    definite = True

    @abstractmethod
    def _constants(self) -> tuple[float, float, float]:
        """Return ``(w, r, logarithm of the largest value)``."""

    def diagonal(self, X):
        self._check(X, X)
        X = X.astype(precision(X), copy=False)
        if not len(X):
            return np.zeros(0, dtype=X.dtype)
        return np.exp(self._directed(X).numbers[:, OWN]).astype(X.dtype)

    def _sharpness(self, left: DirectedRows, right: DirectedRows) -> float:
        width, rate, _ = self._constants()
        return rate / (width + float(np.min(left.numbers[:, 0]) + np.min(right.numbers[:, 0])))

    def _fill(self, left: DirectedRows, right: DirectedRows, out: np.ndarray) -> None:
        products = pair_products(left.stack, right.stack)
        d = left.stack.vectors.shape[2]
        numbers = left.numbers, right.numbers
        _overlaps(products, left.stack.grams, right.stack.grams, *numbers, d, *self._constants(), out)


def normal_distributions(
    centers: np.ndarray,
    axes: np.ndarray,
    squares: np.ndarray,
    numbers: Sequence[np.ndarray],
    width: float = 0.0,
) -> DirectedRows:
    """Return normal distributions with covariances ``v 1 + sum_k b_k b_k'``.

    Shapes: `centers` (n, d), `axes` (n, r, d), `squares` (n, r), `numbers` (n,).
    """
    least = width + 2.0 * float(np.min(numbers[0]))
    if float(np.max(squares, initial=0.0)) > MOST_IN_SINGLE * least:
        centers = centers.astype(DOUBLE, copy=False)
    return DirectedRows(Stack.of(centers, axes), np.column_stack(numbers))


def in_units(X: np.ndarray, sigma: float) -> np.ndarray:
    """Return ``X / sigma`` in the precision of X; infinite if it overflows.

    The precision is float64 for rows so far from 0 that float32 would round off their differences.
    """
    with np.errstate(over="ignore"):
        units = X / np.float64(sigma)
        far = float(np.max(np.abs(units), initial=0.0)) > FAR
        return units if far and np.all(np.isfinite(units.astype(X.dtype))) else units.astype(X.dtype)


@njit(cache=True, nogil=True)
def _overlaps(products, own_left, own_right, left, right, d, width, rate, most, out):
    r, s = own_left.shape[1] - 1, own_right.shape[1] - 1
    cross, factor = np.empty((r, s)), np.empty((s, s))
    inverse, along, across = np.empty(r), np.empty(r), np.empty(s)
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            v = width + left[i, 0] + right[j, 0]
            square = max(own_left[i, 0, 0] + own_right[j, 0, 0] - 2.0 * products[i, 0, j, 0], 0.0)
            for a in range(r):
                inverse[a] = 1.0 / (v + own_left[i, a + 1, a + 1])
                along[a] = own_left[i, a + 1, 0] - products[i, a + 1, j, 0]
                for b in range(s):
                    cross[a, b] = products[i, a + 1, j, b + 1]
            for b in range(s):
                across[b] = products[i, 0, j, b + 1] - own_right[j, b + 1, 0]
            rest, grown = _rest(square, v, inverse, along, across, cross, own_right[j], factor)
            level = d * (left[i, 1] + right[j, 1] - 0.5 * np.log(v)) + left[i, 2] + right[j, 2]
            out[i, j] = np.exp(min(level - 0.5 * grown - rate * rest / v, most))


@njit(cache=True, nogil=True)
def _rest(square, v, inverse, left_products, right_products, cross, right_gram, factor):
    """Return ``v D' C^-1 D`` and ``log |C / v|`` after elimination of the left axes."""
    r, s = cross.shape
    log_volume, volume, quadratic = 0.0, 1.0, square
    for a in range(r):
        volume *= 1.0 / (v * inverse[a])
        quadratic -= left_products[a] * left_products[a] * inverse[a]
        if volume > 1e100:
            log_volume, volume = log_volume + np.log(volume), 1.0
    for b in range(s):
        part = right_products[b]
        for a in range(r):
            part -= cross[a, b] * left_products[a] * inverse[a]
        for c in range(b + 1):
            entry = v + right_gram[b + 1, b + 1] if c == b else 0.0
            for a in range(r):
                entry -= cross[a, b] * cross[a, c] * inverse[a]
            for k in range(c):
                entry -= factor[b, k] * factor[c, k]
            if c < b:
                factor[b, c] = entry * factor[c, c]
                part -= factor[b, c] * right_products[c]
            else:
                # The matrix is at least v, so only rounding makes a pivot smaller.
                entry = max(entry, v)
                factor[b, b] = 1.0 / np.sqrt(entry)
                volume *= entry / v
        right_products[b] = part * factor[b, b]
        quadratic -= right_products[b] * right_products[b]
        if volume > 1e100:
            log_volume, volume = log_volume + np.log(volume), 1.0
    return max(quadratic, 0.0), log_volume + np.log(volume)


class VicinalKernel(NormalOverlapKernel):
    r"""Gaussian kernel averaged over normal distributions around both rows.

    .. math:: M(x, z) = E\, e^{-|u - v|^2 / (2 \sigma^2)}
        = |1 + (S_x + S_z) / \sigma^2|^{-1/2}
          e^{-(x - z)' (\sigma^2 + S_x + S_z)^{-1} (x - z) / 2}

    with independent :math:`u \sim N(x, S_x)` and :math:`v \sim N(z, S_z)`. The covariance is
    :math:`S_x = \nu^2 + \sum_j s_j^2 t_j t_j'` for the oracle's tangents :math:`t_j` at x, their
    `spread` s and the `noise` nu.

    This is the two-vicinal kernel (after Pozdnoukhov and Bengio 2006, eqs. 31 to 35; Chapelle, Weston,
    Bottou and Vapnik 2001). It is the inner product of both mean embeddings, so it is positive
    semi-definite by construction. (Eq. 33 prints a wrong factor of the density of a normal distribution.
    It is ``1 / (sqrt(2 pi) gamma)`` for the standard deviation gamma.)

    The oracle defines the directions. Use ``TangentDerivative(T, 1.0)`` for given directions, `Segment`
    for the amplitude of a row, `Offset` for its baseline, and image oracles for images. Without an
    oracle, the only variance is that of `noise`.

    Parameters
    ----------
    oracle : InvarianceOracle, optional
        Oracle with `tangents`. Their lengths matter.
    sigma : float, default=1.0
        Length scale (> 0) of the Gaussian kernel, in the units of the features.
    spread : float or array-like of shape (n_tangents,), default=1.0
        Standard deviation (>= 0) along each tangent, in units of its length, such as degrees or pixels.
    noise : float, default=0.0
        Additional standard deviation (>= 0) of every feature.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of its range, or the oracle depends on labels. If the length of `spread`
        differs from the number of tangents. If the values underflow, due to noise in many features.
    NotImplementedError
        If the oracle has no tangents.

    See Also
    --------
    structinv.functionals.VicinalAverages : Averages as functionals, for any kernel.
    TangentDistributionKernel : Overlap of normal distributions.

    Notes
    -----
    An estimator with this kernel averages both the training rows and the rows of `predict`. To predict
    for rows without averages, train with the kernel matrix of M, and predict with that of `one_vicinal`.

    Values decrease with increasing `spread` and `noise`, and M(x, x) is below 1. An SVM then requires a
    larger C than with a Gaussian kernel.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.svm import SVC
    >>> from structinv.kernels import VicinalKernel
    >>> from structinv.oracles import Segment
    >>> signals = np.array([[2.0, 0.0], [4.0, 1.0], [0.0, 1.0], [1.0, 5.0]])
    >>> kernel = VicinalKernel(Segment(0.5, 2.0), sigma=1.0, spread=0.3)
    >>> kernel(signals).round(3)
    array([[0.762, 0.22 , 0.119, 0.004],
           [0.22 , 0.496, 0.019, 0.001],
           [0.119, 0.019, 0.921, 0.044],
           [0.004, 0.001, 0.044, 0.42 ]])
    >>> model = SVC(kernel="precomputed").fit(kernel(signals), [0, 0, 1, 1])
    >>> model.predict(kernel.one_vicinal(np.array([[8.0, 1.0], [1.0, 9.0]]), signals))
    array([0, 1])
    """

    def __init__(
        self,
        oracle: InvarianceOracle | None = None,
        sigma: float = 1.0,
        spread: float | Sequence[float] | np.ndarray = 1.0,
        noise: float = 0.0,
    ) -> None:
        self.oracle = oracle
        self.sigma = sigma
        self.spread = spread
        self.noise = noise

    def validate(self, n_features: int | None = None) -> None:
        if self.oracle is not None:
            super().validate(n_features)
        check_number("sigma", self.sigma, strict=True)
        check_spread(self.spread)
        check_number("noise", self.noise)

    def one_vicinal(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        """Compute the Gaussian kernel averaged over the distributions of `Y` only.

        Parameters
        ----------
        X : ndarray of shape (n_samples_X, n_features)
            Samples without a distribution.
        Y : ndarray of shape (n_samples_Y, n_features)
            Means of the normal distributions.

        Returns
        -------
        ndarray of shape (n_samples_X, n_samples_Y)
            The values ``E exp(-|x_i - v|^2 / (2 sigma^2))`` with ``v ~ N(y_j, S_j)``; not symmetric.
        """
        self._check(X, Y)
        X, Y = same_precision(X, Y)
        if not len(X) or not len(Y):
            return np.zeros((len(X), len(Y)), dtype=X.dtype)
        right = self._directed(Y)
        with np.errstate(over="ignore", invalid="ignore"):
            points = self._checked(self._laws(X, np.zeros((len(X), 0, X.shape[1])), 0.0), X.dtype)
        return self._table(points, right, X.dtype)

    def _made(self, X: np.ndarray) -> DirectedRows:
        tangents = np.zeros((len(X), 0, X.shape[1]))
        if self.oracle is not None and not isinstance(self.oracle, Identity):
            tangents = self._tangents(X).astype(np.float64)
            tangents *= spreads_of(self.spread, tangents.shape[1])[:, None]
        return self._laws(X, tangents, float(self.noise) / float(self.sigma))

    def _laws(self, X: np.ndarray, tangents: np.ndarray, noise: float) -> DirectedRows:
        """Return the distributions with a noise in units of sigma."""
        axes, squares = orthogonal_directions(tangents / float(self.sigma))
        variances = np.full(len(X), noise**2)
        whole = 1.0 + 2.0 * variances
        grown = np.log1p(2.0 * squares / whole[:, None]).sum(axis=1)
        nothing = np.zeros(len(X))
        numbers = variances, nothing, nothing, -0.5 * (X.shape[1] * np.log(whole) + grown)
        return normal_distributions(in_units(X, self.sigma), axes, squares, numbers, 1.0)

    def _constants(self) -> tuple[float, float, float]:
        return 1.0, 0.5, np.inf

    def _checked(self, rows: DirectedRows, dtype: np.dtype) -> DirectedRows:
        own = super()._checked(rows, dtype).numbers[:, OWN]
        least, most = np.log(np.finfo(dtype).tiny), np.log(np.finfo(dtype).max)
        outside = (own < least) | (own > most)
        if np.any(outside):
            raise ValueError(
                f"K(x, x) = exp({own[outside][0]:.4g}) in {rows.stack.vectors.shape[2]} features is "
                f"outside the range of {dtype}: use less than "
                f"noise={self.noise!r} and spread={self.spread!r}, or a larger sigma"
            )
        return rows


class TangentDistributionKernel(NormalOverlapKernel):
    r"""Overlap of normal distributions with large variance along tangents.

    .. math:: K(x, z) = \int p_x(u)^\rho\, p_z(u)^\rho\, du, \quad p_x = N(x, L_x), \quad
        L_x^{-1} = P_x = \Bigl(\frac{1}{\sigma^2} + \frac{J}{\gamma_w^2}\Bigr) 1
            - \sum_{j=1}^{J} \frac{l_j l_j'}{\gamma_w^2 |l_j|^2}

    for the tangents :math:`l_j` of x, in closed form

    .. math:: (2 \pi)^{(1 - 2 \rho) N / 2}\, |\rho (P_x + P_z)|^{-1/2}\, (|L_x| |L_z|)^{-\rho / 2}
        \exp\bigl(-\tfrac{\rho}{2} (x - z)' (L_x + L_z)^{-1} (x - z)\bigr)

    (after Pozdnoukhov and Bengio 2006, eqs. 22 and 23; Jebara, Kondor and Howard 2004). The paper prints
    half of this P. With twice the printed P, `sigma` is the standard deviation along all tangents, and
    `gamma_w` the additional one across each tangent. As an inner product of functions, the kernel is
    positive semi-definite by construction. Values are divided by ``sqrt(K(x, x) K(z, z))``, which is 1
    for ``rho=0.5``.

    Parameters
    ----------
    oracle : InvarianceOracle
        Oracle with `tangents`. Their lengths do not matter, and zero vectors are ignored.
    sigma : float, default=1.0
        Length scale (> 0) of a distribution without tangents, in the units of the features.
    gamma_w : float, default=1.0
        Additional length scale (> 0) across a tangent.
    rho : float, default=0.5
        Exponent of the densities (> 0). 1/2 gives the Bhattacharyya coefficient, 1 the mean density of
        one distribution under the other.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of its range, or the oracle depends on labels.
    NotImplementedError
        If the oracle has no tangents.

    See Also
    --------
    TangentVectorKernel : Kernel of tangents that may be indefinite.
    VicinalKernel : Gaussian kernel averaged over normal distributions.

    Notes
    -----
    Each kernel value takes the inner products of both rows and their tangents, and a linear system with
    one unknown per tangent. Tangents may be linearly dependent; a repeated tangent changes the
    distribution.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.kernels import TangentDistributionKernel
    >>> from structinv.oracles import Offset
    >>> signals = np.array([[0.0, 0.0], [1.0, 1.0], [1.0, -1.0]])
    >>> TangentDistributionKernel(Offset(1.0), sigma=1.0, gamma_w=0.5)(signals).round(3)
    array([[1.   , 0.779, 0.287],
           [0.779, 1.   , 0.223],
           [0.287, 0.223, 1.   ]])
    """

    def __init__(
        self,
        oracle: InvarianceOracle,
        sigma: float = 1.0,
        gamma_w: float = 1.0,
        rho: float = 0.5,
    ) -> None:
        self.oracle = oracle
        self.sigma = sigma
        self.gamma_w = gamma_w
        self.rho = rho

    def validate(self, n_features: int | None = None) -> None:
        super().validate(n_features)
        check_number("sigma", self.sigma, strict=True)
        check_number("gamma_w", self.gamma_w, strict=True)
        check_number("rho", self.rho, strict=True)

    @property
    def _level(self) -> float:
        return 1.0

    def _made(self, X: np.ndarray) -> DirectedRows:
        axes, squares, variances = self._spreads(X)
        along = np.log1p(squares / variances[:, None]).sum(axis=1)
        # f is (2^d |L|)^(1/4) in units of sigma, since the kernel has |C / 2| instead of |C|.
        numbers = variances, 0.25 * np.log(2.0 * variances), 0.25 * along, np.zeros(len(X))
        return normal_distributions(in_units(X, self.sigma), axes, squares, numbers)

    def _spreads(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Compute each L / sigma^2: axes, their squared lengths, variance across the axes."""
        unit = unit_directions(self._tangents(X))
        counts = np.any(unit != 0, axis=2).sum(axis=1)
        ratio = (float(self.sigma) / float(self.gamma_w)) ** 2
        axes, squares = orthogonal_directions(unit)
        # L's variance along an axis is 1 / (1 + ratio (J - square)), and 1 / (1 + ratio J) elsewhere.
        precision = 1.0 + ratio * counts
        along = 1.0 + ratio * np.maximum(counts[:, None] - squares, 0.0)
        excess = (ratio / precision)[:, None] / along
        return axes * np.sqrt(excess)[:, :, None], squares * excess, 1.0 / precision

    def _constants(self) -> tuple[float, float, float]:
        return 0.0, 0.5 * float(self.rho), 0.0


def check_spread(spread: object) -> None:
    """Raise TypeError or ValueError if a spread is not a number or vector >= 0."""
    message = f"spread must be a number or a vector of numbers of at least 0, got {brief(spread)}"
    try:
        values = np.asarray(spread)
    except ValueError as error:
        raise ValueError(message) from error
    values = in_order("spread", spread, kind="tangent")
    if values.dtype.kind not in "fiu":
        raise TypeError(message)
    if values.ndim > 1 or not np.all((values >= 0) & (values < np.inf)):
        raise ValueError(message)


def spreads_of(spread: object, size: int) -> np.ndarray:
    """Return the spread along each tangent, (size,); ValueError for another number."""
    values = in_order("spread", spread, kind="tangent").astype(np.float64)
    if values.ndim and len(values) != size:
        raise ValueError(f"spread must have one entry for each of {size} tangents, got {len(values)}")
    return np.broadcast_to(values, (size,))
