"""Kernel of the overlap of normal distributions that are wide along tangents."""

from __future__ import annotations

import numpy as np

from ..oracles import InvarianceOracle
from ..utils.parameters import check_number
from .directed_rows import DirectedRows, orthogonal_directions, unit_directions
from .normal_overlaps import NormalOverlapKernel, in_units, normal_distributions


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
    construction, as an inner product of functions.

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
    normalized : bool, default=True
        If True, values are divided by ``sqrt(K(x, x) K(z, z))``, which is 1 for ``rho=0.5``. For other
        `rho` and many features, unnormalized values overflow or underflow.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of its range, or the oracle depends on labels. If ``K(x, x)`` overflows or
        underflows without `normalized`.
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
        normalized: bool = True,
    ) -> None:
        self.oracle = oracle
        self.sigma = sigma
        self.gamma_w = gamma_w
        self.rho = rho
        self.normalized = normalized

    def validate(self, n_features: int | None = None) -> None:
        super().validate(n_features)
        check_number("sigma", self.sigma, strict=True)
        check_number("gamma_w", self.gamma_w, strict=True)
        check_number("rho", self.rho, strict=True)
        if not isinstance(self.normalized, bool | np.bool_):
            raise TypeError(f"normalized must be True or False, got {self.normalized!r}")

    @property
    def _is_one(self) -> bool:
        """True if ``K(x, x)`` is 1."""
        return bool(self.normalized) or float(self.rho) == 0.5

    @property
    def _level(self) -> float | None:
        return 1.0 if self._is_one else None

    def _made(self, X: np.ndarray) -> DirectedRows:
        axes, squares, variances = self._spreads(X)
        along, d = np.log1p(squares / variances[:, None]).sum(axis=1), X.shape[1]
        log_diagonal = np.zeros(len(X))
        if not self._is_one:
            rho = float(self.rho)
            # log |L|
            log_det = d * (np.log(variances) + 2.0 * np.log(float(self.sigma))) + along
            constant = 0.5 * d * ((1.0 - 2.0 * rho) * np.log(2.0 * np.pi) - np.log(2.0 * rho))
            log_diagonal = constant - (rho - 0.5) * log_det
        # f is (2^d |L|)^(1/4) in units of sigma, since the kernel has |C / 2| instead of |C|, times the
        # root of K(x, x).
        numbers = (
            variances,
            0.25 * np.log(2.0 * variances),
            0.25 * along + 0.5 * log_diagonal,
            log_diagonal,
        )
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
        return 0.0, 0.5 * float(self.rho), 0.0 if self._is_one else np.inf

    def _advice(self) -> str:
        return f"use normalized=True with rho={self.rho!r}"
