"""Set kernels: kernels of the distance between two perturbation sets."""

from __future__ import annotations

import numpy as np

from ..metrics.distances import check_sides, check_sizes, compare_regions, table
from ..oracles import InvarianceOracle
from ..oracles.base import as_oracle
from ..oracles.cache import parameters_of
from ..oracles.third_party import region_of, tangent_planes
from ..regions import Region
from .base import Kernel
from .indefinite import check_spectrum, psd_corrected
from .kernel_names import validate_kernel
from .kernel_values import check_rows, describe, kernel_partials, precision, same_precision

SIDES = ("two", "mean", "tangent")


class SetKernel(Kernel):
    r"""Kernel of the distance between the perturbation sets of both inputs.

    .. math:: K(x, x') = k\bigl(d(S(x), S(x'))\bigr)

    where k is a function of distances, such as a Gaussian (Pozdnoukhov and Bengio 2006, section 3). For
    finite lists of perturbed samples, K is the jittering kernel of DeCoste and Schölkopf 2002. Haasdonk
    and Keysers 2002 use tangent distances.

    Set distances are not metrics, so **K may be indefinite**: eigenvalues down to -1 occurred. An
    estimator with an indefinite kernel warns and stores the smallest eigenvalue of its training rows in
    `min_eigenvalue_`. Pass `spectrum` to correct the kernel; see `psd_corrected`.

    Parameters
    ----------
    oracle : InvarianceOracle
        Oracle that defines the perturbation sets, as in `structinv.metrics.set_distance`.
    kernel : Kernel
        Function of distances alone: `Gaussian`, `Matern`, or sums and products of
        these.
    sides : {"two", "mean", "tangent"}, default="two"
        Kind of distance. "two": between both sets. "mean": the mean of the distances from each sample to
        the set of the other. "tangent": between tangent planes, with unbounded coefficients; for bounded
        ones use ``TangentDerivative(oracle, bounds)`` and "two".
    spectrum : {None, "clip", "flip", "square"}, default=None
        Spectrum correction of an estimator, computed from its training rows.

    Raises
    ------
    TypeError, ValueError, NotImplementedError
        If a parameter is invalid, or the set distance is not available for the oracle. If `spectrum` is
        not None and values are computed without an estimator, as training rows are then unknown.

    See Also
    --------
    psd_corrected : Spectrum correction outside an estimator.
    structinv.metrics.set_distance : The distances.

    Notes
    -----
    The sets of the most recent input arrays are cached, so the tangents of training rows are computed
    once. Functions inside an oracle are compared by identity.

    No Lipschitz constant is known. So certificates are available for finite lists of perturbed samples,
    but not for continuous sets.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.kernels import Gaussian, SetKernel
    >>> from structinv.oracles import Segment
    >>> signals = np.array([[1.0, 0.0], [4.0, 0.0], [0.0, 3.0]])
    >>> SetKernel(Segment(0.5, 2.0), Gaussian())(signals).round(3)
    array([[1.   , 1.   , 0.287],
           [1.   , 1.   , 0.044],
           [0.287, 0.044, 1.   ]])
    """

    def __init__(
        self,
        oracle: InvarianceOracle,
        kernel: Kernel,
        sides: str = "two",
        spectrum: str | None = None,
    ) -> None:
        self.oracle = oracle
        self.kernel = kernel
        self.sides = sides
        self.spectrum = spectrum

    definite = False

    def validate(self, n_features: int | None = None) -> None:
        swapped = isinstance(self.oracle, Kernel) and isinstance(self.kernel, InvarianceOracle)
        as_oracle(self.oracle, hint="; the oracle comes first, then the kernel" if swapped else "")
        if isinstance(self.sides, str) and self.sides == "one":
            raise ValueError(
                "sides must be one of 'two', 'mean', 'tangent', got 'one': the distance from a sample "
                "to a set is not symmetric; use 'mean' for the mean of both distances"
            )
        check_sides(self.sides, SIDES)
        if self.spectrum is not None:
            check_spectrum(self.spectrum)
        validate_kernel("kernel", self.kernel, n_features)
        if (self.kernel.uses_distances, self.kernel.uses_products) != (True, False):
            raise ValueError(
                "kernel must be a function of distances alone, such as Gaussian or Matern, "
                f"got {describe(self.kernel)}"
            )
        self.oracle.validate(n_features)

    def prepared(self, X: np.ndarray) -> Kernel:
        if self.spectrum is None:
            return self
        return psd_corrected(SetKernel(self.oracle, self.kernel, self.sides), X, self.spectrum)

    def matrix(self, X, Y, norms=None):
        self.validate()
        self._refuse_spectrum()
        check_rows(X, Y)
        same = Y is X
        X, Y = same_precision(X, Y)
        if not len(X) or not len(Y):
            return np.zeros((len(X), len(Y)), dtype=X.dtype)
        check_sizes(X, Y)
        right = self._region(Y)
        left = right if same else self._region(X)
        compared = compare_regions(left, right, "mean" if self.sides == "mean" else "two")
        distances = table(compared, len(X), len(Y), same)
        return self._of_squares(np.square(distances, out=distances))

    def diagonal(self, X):
        self.validate()
        self._refuse_spectrum()
        check_rows(X, X)
        return self._of_squares(np.zeros(len(X), dtype=precision(X)))

    @property
    def _level(self) -> float:
        return float(self._of_squares(np.zeros(1))[0])

    def _of_squares(self, squares: np.ndarray) -> np.ndarray:
        return kernel_partials(self.kernel, squares, None, 0)[0, 0]

    def _region(self, X: np.ndarray) -> Region:
        make = tangent_planes if self.sides == "tangent" else region_of
        key = parameters_of((self.oracle, self.sides == "tangent"))
        return self._cached(X, key, lambda: make(self.oracle, X))

    def _refuse_spectrum(self) -> None:
        if self.spectrum is not None:
            raise ValueError(
                f"spectrum={self.spectrum!r} requires training rows, which only an estimator of "
                "structinv passes to the kernel. Elsewhere use structinv.kernels.psd_corrected(kernel, "
                f"X_train, {self.spectrum!r}) with a SetKernel without spectrum"
            )
