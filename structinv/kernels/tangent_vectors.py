"""Tangent vector kernels, and tangent distribution kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..oracles import InvarianceOracle
from ..regions.inner_products import Stack
from ..utils.jit import njit
from ..utils.parameters import check_number
from .directed_rows import DirectedKernel, DirectedRows, orthogonal_directions, unit_directions
from .kernel_utils import check_rows, precision
from .vicinal import NormalOverlapKernel, in_units, normal_distributions


class _TangentSum(DirectedKernel):
    """Mean over sides of ``[exp(-a |D|^2) + h sum_j exp(-b d_par^2 - c d_perp^2)] / (1 + h J)``.

    A subclass defines the rates a, b, c and the weight h of every direction.
    """

    definite = False

    def __init__(
        self,
        oracle: InvarianceOracle,
        sigma: float = 1.0,
        gamma_w: float = 1.0,
        eta: float = 1.0,
    ) -> None:
        self.oracle = oracle
        self.sigma = sigma
        self.gamma_w = gamma_w
        self.eta = eta

    def validate(self, n_features: int | None = None) -> None:
        super().validate(n_features)
        check_number("sigma", self.sigma, strict=True)
        check_number("gamma_w", self.gamma_w, strict=True)
        check_number("eta", self.eta)

    def _rates(self) -> tuple[float, float, float, float]:
        """Return ``(a, b, c, h)``."""
        raise NotImplementedError

    def diagonal(self, X):
        """Return ones, as ``K(x, x) = 1``.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
            Input.

        Returns
        -------
        ndarray of shape (n_samples,)
            Ones.
        """
        check_rows(X, X)
        return np.ones(len(X), dtype=precision(X))

    @property
    def _level(self) -> float:
        return 1.0

    def _made(self, X: np.ndarray) -> DirectedRows:
        unit = unit_directions(self._tangents(X))
        counts = np.any(unit != 0, axis=2).sum(axis=1, keepdims=True)
        return DirectedRows(Stack.of(X, unit), counts.astype(np.float64))

    def _sharpness(self, left: DirectedRows, right: DirectedRows) -> float:
        return max(self._rates()[:3])

    def _fill(self, left: DirectedRows, right: DirectedRows, out: np.ndarray) -> None:
        left_stack, right_stack = left.stack, right.stack
        d = left_stack.vectors.shape[2]
        # The directions of one side are multiplied with the rows of the other side only.
        left_by_rows = left_stack.vectors.reshape(-1, d) @ right_stack.vectors[:, 0].T
        rows_by_right = (
            np.ascontiguousarray(left_stack.vectors[:, 0]) @ right_stack.vectors[:, 1:].reshape(-1, d).T
        )
        left_by_rows = left_by_rows.reshape(len(out), left_stack.size, -1)
        rows_by_right = rows_by_right.reshape(*out.shape, right_stack.size - 1)
        counts = left.numbers[:, 0], right.numbers[:, 0]
        _tangent_sums(
            left_by_rows, rows_by_right, left_stack.grams, right_stack.grams, *counts, self._rates(), out
        )


class TangentVectorKernel(_TangentSum):
    r"""Gaussian kernel with a larger length scale along the tangents of either input.

    With the density around x

    .. math:: p_x(z) = \frac{e^{-|z - x|^2 / (2 \sigma^2)}}{1 + \eta J}
        \Bigl[1 + \eta \sum_{j=1}^{J} e^{-d_j^2 / (2 \gamma_w^2)}\Bigr], \quad
        d_j^2 = |z - x|^2 - \frac{\langle z - x, l_j \rangle^2}{|l_j|^2}

    for the tangents :math:`l_j` of x, it is ``K(x, z) = (p_x(z) + p_z(x)) / 2``, with ``K(x, x) = 1``
    (after Pozdnoukhov and Bengio 2004, and 2006, eqs. 19, 21 and 38).

    K is the mean of the densities around x and around z, and **may be indefinite**: `definite` is False,
    and estimators compute eigenvalues. `TangentDistributionKernel` is always positive semi-definite.

    Parameters
    ----------
    oracle : InvarianceOracle
        Oracle with `tangents`. Their lengths do not matter.
    sigma : float, default=1.0
        Length scale (> 0) in all directions, in the units of the features.
    gamma_w : float, default=1.0
        Length scale (> 0) across a tangent.
    eta : float, default=1.0
        Weight (>= 0) of each tangent compared with the plain Gaussian.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of its range, or the oracle depends on labels.
    NotImplementedError
        If the oracle has no tangents.

    See Also
    --------
    TangentOverlapKernel : Overlaps of these densities.
    TangentDistributionKernel : Positive semi-definite kernel of tangents.

    Notes
    -----
    J is the number of nonzero directions. Directions of the most recent input arrays are cached, so
    those of training rows are computed once.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.kernels import TangentVectorKernel
    >>> from structinv.oracles import Offset
    >>> signals = np.array([[0.0, 0.0], [1.0, 1.0], [1.0, -1.0]])
    >>> TangentVectorKernel(Offset(1.0), sigma=1.0, gamma_w=0.5)(signals).round(3)
    array([[1.   , 0.368, 0.187],
           [0.368, 1.   , 0.069],
           [0.187, 0.069, 1.   ]])
    """

    def _rates(self) -> tuple[float, float, float, float]:
        plain = 0.5 / float(self.sigma) ** 2
        return plain, plain, plain + 0.5 / float(self.gamma_w) ** 2, float(self.eta)


class TangentOverlapKernel(_TangentSum):
    r"""Overlap of `TangentVectorKernel` densities, without products of tangents.

    .. math:: K(x, z) \propto e^{-|D|^2 / (4 s^2)} + \eta \sum_j [I_j(x) + I_j(z)], \quad
        I_j = \exp\Bigl(-\frac{d_{par}^2}{4 s^2}
            - d_{perp}^2 \frac{s^2 + g^2}{2 s^2 (2 g^2 + s^2)}\Bigr)

    with D = x - z, s = `sigma` and g = `gamma_w` (after Pozdnoukhov and Bengio 2006, eq. 24). ``d_par``
    and ``d_perp`` are the parts of D along and across the j-th tangent of x, or of z.

    Each term is an integral of the plain Gaussian of one input times a term of the other input's
    density. It is divided by the largest value of this integral. Products of terms of two tangents are
    left out; the product of both plain Gaussians is included. The terms of each input are divided by
    ``1 + 2 eta J``, so ``K(x, x) = 1``.

    K **may be indefinite**: `definite` is False, and estimators compute eigenvalues. The exact overlap
    `TangentDistributionKernel` is always positive semi-definite.

    Parameters
    ----------
    oracle : InvarianceOracle
        Oracle with `tangents`. Their lengths do not matter.
    sigma : float, default=1.0
        Length scale (> 0) in all directions, in the units of the features.
    gamma_w : float, default=1.0
        Length scale (> 0) across a tangent.
    eta : float, default=1.0
        Weight (>= 0) of each tangent compared with the plain Gaussian.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of its range, or the oracle depends on labels.
    NotImplementedError
        If the oracle has no tangents.

    See Also
    --------
    TangentVectorKernel : Kernel of the same densities, without integrals.
    TangentDistributionKernel : Positive semi-definite kernel of tangents.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.kernels import TangentOverlapKernel
    >>> from structinv.oracles import Offset
    >>> signals = np.array([[0.0, 0.0], [1.0, 1.0], [1.0, -1.0]])
    >>> TangentOverlapKernel(Offset(1.0), sigma=1.0, gamma_w=0.5)(signals).round(3)
    array([[1.   , 0.607, 0.492],
           [0.607, 1.   , 0.298],
           [0.492, 0.298, 1.   ]])
    """

    def _rates(self) -> tuple[float, float, float, float]:
        rate = 0.25 / float(self.sigma) ** 2
        # The square of a larger ratio overflows.
        ratio = min(float(self.gamma_w) / float(self.sigma), 1e100) ** 2
        return rate, rate, rate * (2.0 + 2.0 * ratio) / (1.0 + 2.0 * ratio), 2.0 * float(self.eta)


@njit(cache=True, nogil=True)
def _tangent_sums(
    forth: Any, back: Any, own_left: Any, own_right: Any, left: Any, right: Any, rates: Any, out: Any
) -> None:
    """Compute the means of both sides' sums over directions; see `_TangentSum`.

    Shapes: `forth` (n, 1 + r, m), `back` (n, m, s), `own_left` (m, 1 + s, 1 + s), `own_right` (m, 1 + s,
    1 + s), `left` (m,), `right` (m,), `out` (n, m).
    """
    near, along_rate, across_rate, weight = rates
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            square = own_left[i, 0, 0] + own_right[j, 0, 0] - 2.0 * forth[i, 0, j]
            square = 0.0 if square < 0.0 else square
            plain = np.exp(-near * square)
            ours = theirs = plain
            for a in range(1, own_left.shape[1]):
                if own_left[i, a, a] > 0.0:
                    along = own_left[i, a, 0] - forth[i, a, j]
                    along = along * along if along * along < square else square
                    ours += weight * np.exp(-along_rate * along - across_rate * (square - along))
            for b in range(1, own_right.shape[1]):
                if own_right[j, b, b] > 0.0:
                    along = own_right[j, b, 0] - back[i, j, b - 1]
                    along = along * along if along * along < square else square
                    theirs += weight * np.exp(-along_rate * along - across_rate * (square - along))
            out[i, j] = 0.5 * (ours / (1.0 + weight * left[i]) + theirs / (1.0 + weight * right[j]))


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
    `gamma_w` the additional one across each tangent. The kernel is positive semi-definite by
    construction, as an inner product of functions. Values are divided by ``sqrt(K(x, x) K(z, z))``,
    which is 1 for ``rho=0.5``.

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
    Each kernel value requires the inner products of both rows and their tangents, and a linear system
    with one unknown per tangent. No matrix of n_features rows and columns is computed. Tangents may be
    linearly dependent; a repeated tangent changes the distribution. Tangents of the most recent input
    arrays are cached.

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
