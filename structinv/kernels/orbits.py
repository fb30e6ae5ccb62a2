"""Invariant kernels: averages over transformations, distances of embeddings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..oracles import InvarianceOracle
from ..oracles.base import as_oracle
from ..oracles.cache import Record, parameters_of
from ..oracles.changes import Changes
from ..oracles.listed_changes import averaged, check_n_draws, check_seed
from ..utils.parameters import check_number
from .base import Kernel
from .combinations import CompositeKernel
from .kernel_names import validate_kernel
from .kernel_values import (
    ISOMETRIES,
    PERMUTATIONS,
    check_rows,
    holds,
    precision,
    same_precision,
)
from .orbit_tables import mean_diagonal, mean_table

# Number of rounding errors in a squared distance, which is a difference of kernel values.
ROUNDINGS = 8


class OrbitMean(CompositeKernel):
    r"""Invariant kernel: the average of a kernel over transformations of both inputs.

    .. math:: K(x, x') = E\, k(g x, g' x') = \langle E \phi(g x), E \phi(g' x') \rangle

    for independent transformations g and g' of the oracle (Raj et al. 2017, eq. 3; Haasdonk and
    Burkhardt 2007). K is the inner product of mean embeddings. It is exactly invariant if the
    transformations are a group with equal weights: K(g x, x') = K(x, x'). Otherwise it is smooth along
    the orbits.

    K takes fewer evaluations of k if the transformations are linear maps that preserve inner products
    and `Kernel.symmetry` is "isometries". The average is then ``E k(x, h x')`` over the differences
    ``h = g^-1 g'``. A kernel with symmetry "permutations" requires permutations of the features.

    Shifts by whole pixels with ``fill="wrap"``, rotations by 90 degrees, mirror images and permutations
    preserve inner products. Transformations that interpolate or crop images do not. If only `left` of
    ``left @ right`` does, `left` transforms only one of both inputs. So
    ``Rotations((90, 180, 270)) @ Rotations([30, 60])`` averages over twelve rotations in a quarter of
    the time.

    Parameters
    ----------
    oracle : InvarianceOracle
        Transformations, either a finite list or a distribution for `n_draws`. The oracle must not depend
        on labels.
    kernel : Kernel
        Base kernel k.
    n_draws : int, optional
        Number of randomly drawn transformations (>= 1). By default the average is over all perturbed
        samples of the oracle's list, with their weights.
    random_state : int, default=0
        Seed of the draws. A row has the same transformations in every block and call.

    Raises
    ------
    TypeError, ValueError
        If a parameter is invalid, or if the oracle has no list and `n_draws` is None.

    See Also
    --------
    OrbitDistance : Gaussian of the distances of mean embeddings.
    structinv.embeddings.OrbitFourier : Random features of an invariant kernel, for many rows.

    Notes
    -----
    Transformations are cached, and computed again if a parameter changes, including those of the oracle.
    Arrays of more than 1000 numbers, functions and other objects are compared by identity, so do not
    modify them in place.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.kernels import Gaussian, OrbitMean
    >>> from structinv.oracles import Rotations
    >>> kernel = OrbitMean(Rotations((90, 180, 270)), Gaussian(2.0))
    >>> image = np.array([[1.0, 0.0, 0.0, 0.0]])
    >>> rotated = np.array([[0.0, 1.0, 0.0, 0.0]])
    >>> kernel.matrix(image, np.vstack([image, rotated])).round(4)
    array([[0.8341, 0.8341]])
    """

    _caches = ("_results", "_made", "_bound")
    # Diagonals of landmarks of a model, and of blocks of its rows.
    _most_results = 64

    def __init__(
        self, oracle: InvarianceOracle, kernel: Kernel, n_draws: int | None = None, random_state: int = 0
    ) -> None:
        self.oracle = oracle
        self.kernel = kernel
        self.n_draws = n_draws
        self.random_state = random_state

    def validate(self, n_features: int | None = None) -> None:
        as_oracle(self.oracle)
        validate_kernel("kernel", self.kernel, n_features)
        check_n_draws(self.n_draws)
        check_seed(self.random_state)
        if n_features is not None:
            self.changes(n_features)

    def changes(self, n_features: int) -> Changes:
        """Return the transformations of rows.

        Parameters
        ----------
        n_features : int
            Number of features of a row.

        Returns
        -------
        Changes
            The listed or drawn transformations with their weights.
        """
        return self._orbit(n_features).made[0]

    def sides(self, n_features: int) -> tuple[Changes | None, Changes]:
        """Return the transformations of the left and of the right input.

        Parameters
        ----------
        n_features : int
            Number of features of a row.

        Returns
        -------
        left : Changes or None
            Transformations of the left input; None if only the right input is transformed.
        right : Changes
            Transformations of the right input.
        """
        return self._orbit(n_features).made[1:]

    def _record(self, name: str, key: Any, make: Callable[[], Any]) -> Record:
        """Return the record with this name, made again if its key differs."""
        record: Record | None = vars(self).get(name)
        if record is None or record.key != key:
            record = Record(key, make())
            setattr(self, name, record)
        return record

    def _orbit(self, n_features: int) -> Record:
        """Return the transformations of a row, and those of the left and of the right input."""
        symmetry = self.kernel.symmetry

        def make() -> tuple[Changes, Changes | None, Changes]:
            changes = averaged(self.oracle, n_features, self.n_draws, self.random_state)
            if symmetry not in (ISOMETRIES, PERMUTATIONS):
                return changes, changes, changes
            return changes, *changes.sides(reordering=symmetry == PERMUTATIONS)

        # Parameters may change in place.
        key = parameters_of((self.oracle, self.n_draws, self.random_state, n_features))
        return self._record("_made", (key, symmetry), make)

    def matrix(self, X, Y, norms=None):
        self.validate()
        check_rows(X, Y)
        return self._table(X, Y)

    def diagonal(self, X):
        self.validate()
        check_rows(X, X)
        return self._own_values(X)

    def _table(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        """Compute `matrix` of validated rows."""
        same = Y is X
        X, Y = same_precision(X, Y)
        left, right = self.sides(X.shape[1])
        if left is None and len(X) < len(Y):
            # The smaller side is transformed.
            return np.ascontiguousarray(mean_table(self.kernel, Y, X, left, right, False).T)
        return mean_table(self.kernel, X, X if same else Y, left, right, same)

    def _own_values(self, X: np.ndarray) -> np.ndarray:
        """Compute `diagonal` of validated rows."""
        known = self._orbit(X.shape[1])
        X = X.astype(precision(X), copy=False)

        def make() -> np.ndarray:
            values = mean_diagonal(self.kernel, X, *known.made[1:])
            return values.astype(X.dtype, copy=False)

        return np.array(self._cached(X, (known, parameters_of(self.kernel)), make))

    def lipschitz(self, n_features: int | None = None) -> float:
        if n_features is None:
            return np.inf
        constant = self.kernel.lipschitz(n_features)
        if not 0 < constant < np.inf:
            # It does not depend on the bound, which may be infinite.
            return constant
        # The bound is cached, because it takes the matrices of all maps.
        known = self._orbit(n_features)
        record = self._record("_bound", known, lambda: known.made[0].norm_bound(n_features))
        return constant * float(record.made)


class OrbitDistance(CompositeKernel):
    r"""Gaussian kernel of the distance of mean embeddings.

    .. math:: \exp\bigl(-|\mu_x - \mu_{x'}|^2 / (2 \tau^2)\bigr), \quad \mu_x = E \phi(g x)

    with ``|mu_x - mu_x'|^2 = K(x, x) + K(x', x') - 2 K(x, x')``. K is the `OrbitMean` of the same
    parameters (Raj et al. 2017, section 4; Christmann and Steinwart 2010).

    Parameters
    ----------
    oracle : InvarianceOracle
        Transformations, either a finite list or a distribution for `n_draws`. The oracle must not depend
        on labels.
    kernel : Kernel
        Base kernel k.
    tau : float, default=1.0
        Length scale (> 0) of the distances of embeddings. The distances are at most ``sqrt(2)`` for
        nonnegative kernels with ``k(x, x) = 1``.
    n_draws : int, optional
        Number of randomly drawn transformations (>= 1). By default the average is over all perturbed
        samples of the oracle's list, with their weights.
    random_state : int, default=0
        Seed of the draws. A row has the same transformations in every block and call.

    See Also
    --------
    OrbitMean : Inner product of the mean embeddings.
    structinv.embeddings.OrbitNystroem : Landmark features of a kernel, for many rows.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.kernels import Gaussian, OrbitDistance
    >>> from structinv.oracles import Flip
    >>> kernel = OrbitDistance(Flip(shape=(1, 2)), Gaussian(), tau=0.5)
    >>> kernel.matrix(np.array([[1.0, 0.0]]), np.array([[0.0, 1.0], [2.0, 0.0]])).round(4)
    array([[1.    , 0.3646]])
    """

    _caches = ("_first",)

    def __init__(
        self,
        oracle: InvarianceOracle,
        kernel: Kernel,
        tau: float = 1.0,
        n_draws: int | None = None,
        random_state: int = 0,
    ) -> None:
        self.oracle = oracle
        self.kernel = kernel
        self.tau = tau
        self.n_draws = n_draws
        self.random_state = random_state

    def validate(self, n_features: int | None = None) -> None:
        check_number("tau", self.tau, strict=True)
        self._mean().validate(n_features)

    def _mean(self) -> OrbitMean:
        """Return the invariant kernel of the embeddings, with current parameters."""
        # The same object in each call, because it caches its transformations.
        mean: OrbitMean = self.__dict__.setdefault("_first", OrbitMean(self.oracle, self.kernel))
        mean.oracle, mean.kernel = self.oracle, self.kernel
        mean.n_draws, mean.random_state = self.n_draws, self.random_state
        return mean

    def matrix(self, X, Y, norms=None):
        self.validate()
        check_rows(X, Y)
        mean = self._mean()
        left = mean._own_values(X)
        right = left if Y is X else mean._own_values(Y)
        values = mean._table(X, Y)
        values *= 2.0
        values -= left[:, None]
        values -= right
        # For a small tau, rounding errors of equal embeddings would change the kernel.
        least = ROUNDINGS * np.finfo(values.dtype).eps * (np.abs(left[:, None]) + np.abs(right))
        values[values > -least] = 0.0
        rate = 0.5 / float(self.tau) ** 2
        if not holds(values.dtype, rate):
            values = values.astype(np.float64)
        with np.errstate(over="ignore"):
            values *= rate
        return np.exp(values, out=values).astype(precision(X, Y), copy=False)

    def diagonal(self, X):
        self.validate()
        check_rows(X, X)
        return np.ones(len(X), dtype=precision(X))

    def lipschitz(self, n_features: int | None = None) -> float:
        return self._mean().lipschitz(n_features) / float(self.tau)

    @property
    def _level(self):
        return 1.0
