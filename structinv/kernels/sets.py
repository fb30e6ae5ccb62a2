"""Kernels of the distances between the sets that an oracle describes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..metrics.comparison import Comparison, check_sides, check_sizes, compare_regions, table
from ..oracles import InvarianceOracle
from ..oracles.base import as_oracle
from ..oracles.cache import parameters_of
from ..oracles.geometry import region_of, tangent_planes
from ..regions import Region
from .base import Kernel
from .indefinite import check_spectrum, psd_corrected
from .kernel_names import check_kernel
from .row_cache import RowCache
from .values import check_rows, describe, precision, same_precision

SIDES = ("two", "mean", "tangent")
# Rows whose sets are kept: all rows that a machine knows, and those it asks about.
REGIONS = 2


class SetKernel(Kernel):
    r"""A kernel of the distance between the sets around both inputs.

    .. math:: K(x, x') = k\bigl(d(S(x), S(x'))\bigr)

    with k a function of distances, such as the Gaussian: the set around an input *is* the input
    (Pozdnoukhov and Bengio 2006, section 3; with a list of members it is the jittering kernel of
    DeCoste and Schoelkopf 2002; Haasdonk and Keysers 2002 use tangent distances).

    Such distances are no distances of points in any space, so **K need not be positive semi-definite**:
    eigenvalues down to -1 were seen. A machine that is fitted with it warns by name and tells the
    `min_eigenvalue_` of its training rows, or mends the kernel by `spectrum`; see `psd_corrected`.

    Parameters
    ----------
    oracle : InvarianceOracle
        See `structinv.metrics.set_distance`.
    kernel : Kernel
        One of distances alone: `Gaussian`, `Matern`, `RationalQuadratic`, or sums and products of these.
    sides : {"two", "mean", "tangent"}, default="two"
        The distance of both sets; the mean of both distances from a point to the other set; or that of
        the tangent planes, by the oracle's tangents with coefficients of any size. For bounded ones take
        ``TangentDerivative(oracle, bounds)`` and "two".
    spectrum : {None, "clip", "flip", "square", "shift"}, default=None
        How estimators mend the kernel with their training rows.

    Raises
    ------
    TypeError, ValueError, NotImplementedError
        From `validate`, and as `structinv.metrics.set_distance`. With a `spectrum`, from all questions
        outside of an estimator, where no training rows are known.

    Notes
    -----
    Sets of the rows asked about last are kept: the tangents of training rows are made once. Functions
    inside an oracle count as others only if they are other objects.

    No Lipschitz constant is known: machines certify lists of changes, but no continuum of them.

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
                "sides must be one of 'two', 'mean', 'tangent', got 'one': distances from a point to a "
                "set are not symmetric; 'mean' takes both"
            )
        check_sides(self.sides, SIDES)
        if self.spectrum is not None:
            check_spectrum(self.spectrum)
        check_kernel("kernel", self.kernel, n_features)
        if (self.kernel.uses_distances, self.kernel.uses_products) != (True, False):
            raise ValueError(
                "kernel must be a function of distances alone, such as Gaussian, Matern or "
                f"RationalQuadratic, got {describe(self.kernel)}"
            )
        self.oracle.validate(n_features)

    def prepared(self, X: np.ndarray) -> Kernel:
        """See `Kernel.prepared`: psd_corrected with the training rows, if a `spectrum` is given."""
        if self.spectrum is None:
            return self
        return psd_corrected(SetKernel(self.oracle, self.kernel, self.sides), X, self.spectrum)

    def matrix(self, X, Y, norms=None):
        """See `Kernel.matrix`; half of the work where `Y` is `X` itself."""
        self.validate()
        self._refuse_spectrum()
        check_rows(X, Y)
        same = Y is X
        X, Y = same_precision(X, Y)
        if not len(X) or not len(Y):
            return np.zeros((len(X), len(Y)), dtype=X.dtype)
        compared = self._compared(X, X if same else Y)
        distances, _ = table(compared, len(X), len(Y), same)
        return self._of_squares(np.square(distances, out=distances))

    def diagonal(self, X):
        """See `Kernel.diagonal`: the kernel at no distance."""
        self.validate()
        self._refuse_spectrum()
        check_rows(X, X)
        return self._of_squares(np.zeros(len(X), dtype=precision(X)))

    @property
    def _level(self) -> float:
        return float(self._of_squares(np.zeros(1))[0])

    def _of_squares(self, squares: np.ndarray) -> np.ndarray:
        return self.kernel.partials(squares, None, order=0)[0, 0]

    def _compared(self, X: np.ndarray, Y: np.ndarray) -> Comparison:
        sides = "mean" if self.sides == "mean" else "two"
        check_sizes(X, Y)
        right = self._region(Y)
        return compare_regions(right if X is Y else self._region(X), right, sides)

    def _region(self, X: np.ndarray) -> Region:
        kept: RowCache = self.__dict__.setdefault("_regions", RowCache(REGIONS))
        make = tangent_planes if self.sides == "tangent" else region_of
        key = parameters_of((self.oracle, self.sides == "tangent"))
        found: Region = kept.get(X, key, lambda: make(self.oracle, X))
        return found

    def _refuse_spectrum(self) -> None:
        if self.spectrum is not None:
            raise ValueError(
                f"spectrum={self.spectrum!r} mends the kernel with training rows, which an estimator of "
                "structinv gives it in fit; elsewhere write structinv.kernels.psd_corrected(kernel, "
                f"X_train, {self.spectrum!r}) around a SetKernel without a spectrum"
            )

    def __getstate__(self) -> dict[str, Any]:
        """Without what can be made again."""
        state: dict[str, Any] = dict(super().__getstate__())
        state.pop("_regions", None)
        return state
