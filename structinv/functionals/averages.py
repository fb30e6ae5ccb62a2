"""Averages of functions around points, and Gauss-Hermite nodes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from ..kernels import Kernel
from ..kernels.normal_overlaps import check_spread, spreads_of
from ..oracles import InvarianceOracle
from ..oracles.arguments import check_needs_no_label
from ..oracles.base import as_oracle
from ..oracles.third_party import tangents_of
from ..utils.parameters import check_integer, check_number
from .base import Functional
from .parts import Part, Values

# Maximum number of Gauss-Hermite nodes.
MOST_NODES = 1000


class LocalAverage(Functional):
    """Local average minus the value, ``E f(x_i + width * noise) - f(x_i)``.

    The noise is standard normal. For Gaussian kernels the average has a closed form (Zhang, Lee and Teh
    2013, section 4.3). The inner product printed there has a slip. With kappa_s of length scale s and t
    the `width`, it is ``kappa_s + c_2 kappa_sqrt(s^2 + 2 t^2) - 2 c_1 kappa_sqrt(s^2 + t^2)`` with
    ``c_m = (1 + m t^2 / s^2)^(-d/2)``.

    For other kernels the average is a Gauss-Hermite quadrature with `n_nodes` nodes per feature. At most
    1000 nodes per row are allowed, so X must have few features. Inner products of these finite sums are
    exact.

    Parameters
    ----------
    width : float
        Standard deviation (> 0) of the noise.
    n_nodes : int, default=7
        Number of nodes (>= 1) per feature, for kernels without a closed form.

    See Also
    --------
    VicinalAverages : Averages without the value at the row, along tangents.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.functionals import LocalAverage
    >>> from structinv.kernels import Gaussian
    >>> LocalAverage(width=1.0).bind(np.zeros((1, 2))).gram(Gaussian(1.0)).round(4)
    array([[0.3333]])
    """

    def __init__(self, width: float, n_nodes: int = 7) -> None:
        self.width = width
        self.n_nodes = n_nodes

    def validate(self, X: np.ndarray) -> None:
        check_number("width", self.width, strict=True)
        check_integer("n_nodes", self.n_nodes)

    def parts(self, X: np.ndarray, kernel: Kernel) -> list[Part]:
        no_axes = np.zeros((len(X), 0, X.shape[1]))
        average = averaged("LocalAverage", X, kernel, no_axes, float(self.width), int(self.n_nodes))
        return [average, Values(X).scaled(-1.0)]


class VicinalAverages(Functional):
    r"""Averages ``E f(z)`` over normal distributions around the rows.

    .. math:: z \sim N\bigl(x_i,\; \nu^2 + \textstyle\sum_j s_j^2 t_j t_j'\bigr)

    with the oracle's tangents :math:`t_j` at the row, their `spread` s and the `noise` nu (after
    Pozdnoukhov and Bengio 2006; Chapelle et al. 2001). For a Gaussian kernel, the inner products of
    their representers are the two-vicinal kernel, and the values of representers are the one-vicinal
    kernel. `structinv.kernels.VicinalKernel` has both in closed form.

    Along the tangents the average is a Gauss-Hermite quadrature with `n_nodes` nodes each. Inner
    products of these finite sums are exact. The quadrature is accurate if f changes little over one
    standard deviation.

    Noise has a closed form for Gaussian kernels and their sums and products. For other kernels it is a
    quadrature along all features, which requires few features.

    Parameters
    ----------
    oracle : InvarianceOracle, optional
        Oracle with `tangents`; by default none.
    spread : float or array-like of shape (n_tangents,), default=1.0
        Standard deviation (>= 0) along each tangent, in units of its length. Tangents with spread 0 are
        left out.
    noise : float, default=0.0
        Additional standard deviation (>= 0) of every feature.
    n_nodes : int, default=7
        Number of nodes (>= 1) per tangent, and per feature for noise without a closed form.

    Raises
    ------
    TypeError, ValueError, NotImplementedError
        Raised by `bind`, if a parameter is out of its range, or the oracle depends on labels or has no
        tangents. Raised by computations with a kernel, if they require more than 1000 nodes per row.

    See Also
    --------
    structinv.kernels.VicinalKernel : Closed form for Gaussian kernels.
    LocalAverage : Average over noise minus the value at the row.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.functionals import VicinalAverages
    >>> from structinv.kernels import Gaussian, VicinalKernel
    >>> from structinv.oracles import Segment
    >>> X = np.array([[1.0, 0.0], [2.0, 1.0]])
    >>> VicinalAverages(Segment(0.5, 2.0), spread=0.3).bind(X).gram(Gaussian(1.0)).round(4)
    array([[0.9206, 0.3975],
           [0.3975, 0.7255]])
    >>> VicinalKernel(Segment(0.5, 2.0), sigma=1.0, spread=0.3)(X).round(4)
    array([[0.9206, 0.3975],
           [0.3975, 0.7255]])
    """

    def __init__(
        self,
        oracle: InvarianceOracle | None = None,
        spread: float | Sequence[float] | np.ndarray = 1.0,
        noise: float = 0.0,
        n_nodes: int = 7,
    ) -> None:
        self.oracle = oracle
        self.spread = spread
        self.noise = noise
        self.n_nodes = n_nodes

    def validate(self, X: np.ndarray) -> None:
        check_spread(self.spread)
        check_number("noise", self.noise)
        check_integer("n_nodes", self.n_nodes)
        if self.oracle is not None:
            check_needs_no_label(as_oracle(self.oracle))
            self.oracle.validate(X.shape[1])
            spreads_of(self.spread, tangents_of(self.oracle, X[:1]).shape[1])

    def parts(self, X: np.ndarray, kernel: Kernel) -> list[Part]:
        axes = self._axes(X)
        return [averaged("VicinalAverages", X, kernel, axes, float(self.noise), int(self.n_nodes))]

    def _axes(self, X: np.ndarray) -> np.ndarray:
        """Return tangents times their spreads, (n, J, d), without those with spread 0."""
        if self.oracle is None:
            return np.zeros((len(X), 0, X.shape[1]))
        tangents = tangents_of(self.oracle, X)
        spreads = spreads_of(self.spread, tangents.shape[1])
        return tangents[:, spreads > 0] * spreads[spreads > 0][:, None]


def averaged(
    name: str, X: np.ndarray, kernel: Kernel, axes: np.ndarray, noise: float, n_nodes: int
) -> Values:
    """Return averages of f over normal distributions around rows.

    Along axes they are quadratures. Noise has a closed form, or adds one axis per feature.

    Shapes: `X` (n, d), `axes` (n, J, d).
    """
    variance = noise**2
    if variance > 0 and kernel.noise_averaged(variance, X.shape[1]) is None:
        noise_axes = np.broadcast_to(noise * np.eye(X.shape[1]), (len(X), X.shape[1], X.shape[1]))
        axes, variance = np.concatenate([axes, noise_axes], axis=1), 0.0
    n_axes = axes.shape[1]
    if n_axes == 0:
        return Values(X, blur=variance)
    if n_nodes**n_axes > MOST_NODES:
        raise ValueError(
            f"{name} has no closed form for {kernel!r} here, and quadrature with n_nodes={n_nodes} in "
            f"{n_axes} directions takes more than {MOST_NODES} nodes per row: use fewer nodes or "
            "tangents, or a Gaussian kernel"
        )
    grid, weights = nodes(n_nodes, n_axes)
    around = (X[:, None, :] + grid @ axes).reshape(-1, X.shape[1]).astype(X.dtype)
    return Values(around, sp.kron(sp.identity(len(X)), weights[None, :], format="csr"), variance)


def nodes(size: int, n_axes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return Gauss-Hermite nodes (m, n_axes) and weights (m,) of a standard normal."""
    along, factors = np.polynomial.hermite_e.hermegauss(size)
    grid = np.stack(np.meshgrid(*[along] * n_axes, indexing="ij"), axis=-1).reshape(-1, n_axes)
    weights = np.ones(1)
    for _ in range(n_axes):
        weights = np.outer(weights, factors / factors.sum()).ravel()
    return grid, weights
