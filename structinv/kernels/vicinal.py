"""Gaussian kernels averaged over normal laws around both rows, or one of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..oracles import Identity, InvarianceOracle
from ..utils.parameters import check_number
from .directed_rows import DirectedRows, turned
from .normal_laws import LawKernel, in_units, normal_laws
from .values import same_precision


class VicinalKernel(LawKernel):
    r"""A Gaussian kernel averaged over normal laws around both rows.

    .. math:: M(x, z) = E\, e^{-|u - v|^2 / (2 \sigma^2)}
        = |1 + (S_x + S_z) / \sigma^2|^{-1/2}
          e^{-(x - z)' (\sigma^2 + S_x + S_z)^{-1} (x - z) / 2}

    with u and v independent, :math:`u \sim N(x, S_x)`, :math:`S_x = \nu^2 + \sum_j s_j^2 t_j t_j'` for
    the oracle's tangents :math:`t_j` at x, their `spread` s and the `noise` nu: the two-vicinal kernel
    (after Pozdnoukhov and Bengio 2006, eqs. 31 to 35; Chapelle, Weston, Bottou and Vapnik 2001). It is
    the inner product of mean embeddings of both laws, and positive semi-definite by construction. (The
    density of a normal law of width gamma in one dimension has the factor ``1 / (sqrt(2 pi) gamma)``;
    eq. 33 prints another.)

    What directions stand for is the oracle's to say: ``TangentDerivative(T, 1.0)`` for given ones, for a
    row's size ``Segment`` (the direction is the row itself), for its zero level ``Offset``, for images
    their transforms. Without an oracle there is `noise` alone.

    Parameters
    ----------
    oracle : InvarianceOracle, optional
        One that has `tangents`; their lengths count.
    sigma : float, default=1.0
        Width of the Gaussian kernel, above 0, in the units of the features.
    spread : float or (J,) array, default=1.0
        Standard deviation along each tangent, at least 0, in units of its length: degrees, pixels.
    noise : float, default=0.0
        Standard deviation of every feature beside that, at least 0.

    Raises
    ------
    TypeError, ValueError
        From `validate` and all questions, if a parameter is out of its range, or the oracle depends on
        labels; if there are other numbers of tangents than of spreads; if noise in so many features
        leaves values that are no numbers with all their digits.
    NotImplementedError
        If the oracle has no tangents.

    See Also
    --------
    structinv.functionals.VicinalAverages : the averages as functionals, for any kernel.

    Notes
    -----
    M is a kernel, and a machine that takes it sees laws on both sides. The vicinal machine evaluates at
    points instead: it is trained with the table of M, so that its losses are of averages over the laws
    of training rows, and asked with that of `one_vicinal`, as in the example.

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
    >>> machine = SVC(kernel="precomputed").fit(kernel(signals), [0, 0, 1, 1])
    >>> machine.predict(kernel.one_vicinal(np.array([[8.0, 1.0], [1.0, 9.0]]), signals))
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
        """The Gaussian kernel of rows and others, averaged over the laws of the others alone.

        Parameters
        ----------
        X : (n, d) array
            Points.
        Y : (m, d) array
            Means of laws.

        Returns
        -------
        (n, m) array
            ``E exp(-|x_i - v|^2 / (2 sigma^2))``, ``v ~ N(y_j, S_j)``: not symmetric.
        """
        self._check(X, Y)
        X, Y = same_precision(X, Y)
        if not len(X) or not len(Y):
            return np.zeros((len(X), len(Y)), dtype=X.dtype)
        right = self._known(Y)
        with np.errstate(over="ignore", invalid="ignore"):
            points = self._looked_at(self._laws(X, np.zeros((len(X), 0, X.shape[1])), 0.0), X.dtype)
        return self._table(points, right, X.dtype)

    def _made(self, X: np.ndarray) -> DirectedRows:
        tangents = np.zeros((len(X), 0, X.shape[1]))
        if self.oracle is not None and not isinstance(self.oracle, Identity):
            tangents = self._tangents(X).astype(np.float64)
            tangents *= spreads_of(self.spread, tangents.shape[1])[:, None]
        return self._laws(X, tangents, float(self.noise) / float(self.sigma))

    def _laws(self, X: np.ndarray, tangents: np.ndarray, noise: float) -> DirectedRows:
        """The laws with this noise in units of sigma."""
        axes, squares = turned(tangents / float(self.sigma))
        variances = np.full(len(X), noise**2)
        whole = 1.0 + 2.0 * variances
        grown = np.log1p(2.0 * squares / whole[:, None]).sum(axis=1)
        nothing = np.zeros(len(X))
        numbers = variances, nothing, nothing, -0.5 * (X.shape[1] * np.log(whole) + grown)
        return normal_laws(in_units(X, self.sigma), axes, squares, numbers, 1.0)

    def _constants(self) -> tuple[float, float, float]:
        return 1.0, 0.5, np.inf

    def _advice(self) -> str:
        return f"take less than noise={self.noise!r} and spread={self.spread!r}, or a larger sigma"


def check_spread(spread: object) -> None:
    """Raise TypeError or ValueError unless it is a number, or a vector, of at least 0.

    Examples
    --------
    >>> check_spread([1.0, -0.5])
    Traceback (most recent call last):
        ...
    ValueError: spread must be a number or a vector of numbers of at least 0, got [1.0, -0.5]
    """
    wanted = f"spread must be a number or a vector of numbers of at least 0, got {spread!r}"
    try:
        values = np.asarray(spread)
    except ValueError as error:
        raise ValueError(wanted) from error
    if values.dtype.kind not in "fiu":
        raise TypeError(wanted)
    if values.ndim > 1 or not np.all((values >= 0) & (values < np.inf)):
        raise ValueError(wanted)


def spreads_of(spread: object, size: int) -> np.ndarray:
    """The spread along each of so many tangents, (size,) of float64; ValueError if it has others."""
    values = np.asarray(spread, dtype=np.float64)
    if values.ndim and len(values) != size:
        raise ValueError(f"spread must have an entry for each of {size} tangents, got {len(values)}")
    return np.broadcast_to(values, (size,))
