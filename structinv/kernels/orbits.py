"""Means of kernels over changes: kernels between the distributions that an oracle makes of inputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..oracles import InvarianceOracle
from ..oracles.base import as_oracle
from ..oracles.cache import Record, parameters_of
from ..oracles.changes import Changes
from ..oracles.listing import averaged, check_n_draws, check_seed
from ..utils.parameters import check_number
from .base import Kernel
from .checked_kernel import ISOMETRIES, PERMUTATIONS
from .combinations import CompositeKernel
from .kernel_names import check_kernel
from .orbit_tables import mean_diagonal, mean_table
from .row_cache import RowCache
from .values import check_rows, holds, precision, same_precision

# Squared distances of embeddings are the difference of numbers that are rounded so often.
ROUNDINGS = 8
# Tables whose diagonals are kept: the centers of a machine, and blocks of its rows.
DIAGONALS = 64
# What a kernel of this file can make again.
_MADE = ("_changes", "_sides", "_stretched", "_diagonals")


class OrbitMean(CompositeKernel):
    r"""The mean of a kernel over changes of both inputs.

    .. math:: K(x, x') = E\, k(g x, g' x') = \langle E \phi(g x), E \phi(g' x') \rangle

    for independent changes g and g' of the oracle (Raj et al. 2017, eq. 3; Haasdonk and Burkhardt
    2007). It is the inner product of mean embeddings, and does not change where x moves inside its
    orbit, if the changes are a whole group, all alike; else it is smooth along it.

    Where changes are fixed linear maps that keep inner products, and k depends on these alone, the
    mean is one over the difference of both changes, ``E k(x, h x')`` with ``h = g^-1 g'``:
    as many values as there are differences, in the place of pairs of changes. Whether maps keep inner
    products is measured on their matrices: shifts by whole pixels with ``fill="wrap"``, quarter turns,
    mirror images and permutations do, interpolated images and those cut off at the border do not. Of
    ``left @ right`` the part `left` moves one side only, if it alone is of that kind:
    ``Rotations((90, 180, 270)) @ Rotations([30, 60])`` are twelve turns at a quarter of the cost.

    Parameters
    ----------
    oracle : InvarianceOracle
        See `InvarianceOracle.changes` and `draws`. Oracles that depend on labels are refused.
    kernel : Kernel
    n_draws : int, optional
        How many changes to draw; without it all members that the oracle lists, by their weights.
    random_state : int, default=0
        The draws depend on this alone, so that a row has the same members in every block and call.

    Raises
    ------
    TypeError, ValueError
        From `validate`, and where the oracle lists no changes and no `n_draws` is given.

    Notes
    -----
    The changes are kept from call to call, and made anew where parameters are others, of the oracle and
    of what it is made of, too. Arrays of more than 1000 numbers, functions and objects that are no
    estimators count as others only if they are other objects: do not change them in place. Diagonals are
    kept, too, of the last tables asked about, by what they hold.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.kernels import Gaussian, OrbitMean
    >>> from structinv.oracles import Rotations
    >>> kernel = OrbitMean(Rotations((90, 180, 270)), Gaussian(2.0))
    >>> image = np.array([[1.0, 0.0, 0.0, 0.0]])
    >>> turned = np.array([[0.0, 1.0, 0.0, 0.0]])
    >>> kernel.matrix(image, np.vstack([image, turned])).round(4)
    array([[0.8341, 0.8341]])
    """

    def __init__(
        self, oracle: InvarianceOracle, kernel: Kernel, n_draws: int | None = None, random_state: int = 0
    ) -> None:
        self.oracle = oracle
        self.kernel = kernel
        self.n_draws = n_draws
        self.random_state = random_state

    def validate(self, n_features: int | None = None) -> None:
        as_oracle(self.oracle)
        check_kernel("kernel", self.kernel, n_features)
        check_n_draws(self.n_draws)
        check_seed(self.random_state)
        if n_features is not None:
            self.changes(n_features)

    def changes(self, n_features: int) -> Changes:
        """The changes of rows of so many features."""
        return self._changes_record(n_features).made

    def sides(self, n_features: int) -> tuple[Changes | None, Changes]:
        """The changes of the left input, None for none, and of the right one; see `Changes.sides`."""
        return self._sides_by(self._changes_record(n_features), self.kernel.symmetry)

    def _sides_by(self, known: Record, symmetry: str) -> tuple[Changes | None, Changes]:
        # Which changes it is of stands in its key: another thread may put another one there meanwhile.
        key = known, symmetry
        record: Record | None = vars(self).get("_sides")
        if record is None or record.key != key:
            record = Record(key, _sides_of(known.made, symmetry))
            self._sides = record
        return record.made

    def _changes_record(self, n_features: int) -> Record:
        """The changes, and what it was made of: parameters may change in place."""
        key = parameters_of((self.oracle, self.n_draws, self.random_state, n_features))
        record: Record | None = vars(self).get("_changes")
        if record is None or record.key != key:
            changes = averaged(self.oracle, n_features, self.n_draws, self.random_state)
            record = Record(key, changes)
            self._changes = record
        return record

    def __getstate__(self) -> dict[str, Any]:
        """Without what can be made again."""
        state: dict[str, Any] = dict(super().__getstate__())
        return {name: value for name, value in state.items() if name not in _MADE}

    def matrix(self, X, Y, norms=None):
        """See `Kernel.matrix`; half of the work where `Y` is `X` itself."""
        self.validate()
        check_rows(X, Y)
        return self._table(X, Y)

    def diagonal(self, X):
        self.validate()
        check_rows(X, X)
        return self._own_values(X)

    def _table(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        """`matrix` of checked rows."""
        same = Y is X
        X, Y = same_precision(X, Y)
        left, right = self.sides(X.shape[1])
        if left is None and len(X) < len(Y):
            # The smaller side moves.
            return np.ascontiguousarray(mean_table(self.kernel, Y, X, left, right, False).T)
        return mean_table(self.kernel, X, X if same else Y, left, right, same)

    def _own_values(self, X: np.ndarray) -> np.ndarray:
        """`diagonal` of checked rows."""
        known, symmetry = self._changes_record(X.shape[1]), self.kernel.symmetry
        kept: RowCache = self.__dict__.setdefault("_diagonals", RowCache(DIAGONALS))
        X = X.astype(precision(X), copy=False)

        def make() -> np.ndarray:
            values = mean_diagonal(self.kernel, X, *self._sides_by(known, symmetry))
            return values.astype(X.dtype, copy=False)

        return np.array(kept.get(X, (known, symmetry, parameters_of(self.kernel)), make))

    def lipschitz(self, n_features: int | None = None) -> float:
        """That of the kernel times the mean of the maps' norms, `Changes.norm_bound`.

        Infinity without a number of features, and where changes are no fixed linear maps.
        """
        if n_features is None:
            return np.inf
        slope = self.kernel.lipschitz(n_features)
        # Both may be infinite, or the kernel constant.
        return slope * self._stretch(n_features) if 0 < slope < np.inf else slope

    def _stretch(self, n_features: int) -> float:
        """`Changes.norm_bound`, kept: it takes the matrices of all maps."""
        changes = self.changes(n_features)
        record: Record | None = vars(self).get("_stretched")
        if record is None or record.key is not changes:
            record = Record(changes, changes.norm_bound(n_features))
            self._stretched = record
        return float(record.made)


class OrbitDistance(CompositeKernel):
    r"""A Gaussian of the distance of mean embeddings: the second layer over `OrbitMean`.

    .. math:: \exp\bigl(-|\mu_x - \mu_{x'}|^2 / (2 \tau^2)\bigr), \quad \mu_x = E \phi(g x)

    with ``|mu_x - mu_x'|^2 = K(x, x) + K(x', x') - 2 K(x, x')``, K being the `OrbitMean` (Raj et al.
    2017, section 4; Christmann and Steinwart 2010).

    Parameters
    ----------
    oracle, kernel, n_draws, random_state
        See `OrbitMean`.
    tau : float, default=1.0
        Width, in the unit of the embeddings' distances, which are at most ``sqrt(2)`` for kernels with
        ``k(x, x) = 1``, above 0.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.kernels import Gaussian, OrbitDistance
    >>> from structinv.oracles import Flip
    >>> kernel = OrbitDistance(Flip(shape=(1, 2)), Gaussian(), tau=0.5)
    >>> kernel.matrix(np.array([[1.0, 0.0]]), np.array([[0.0, 1.0], [2.0, 0.0]])).round(4)
    array([[1.    , 0.3646]])
    """

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
        """The first layer."""
        # One and the same, since it keeps its changes from call to call.
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
        # What rounding alone may leave of equal ones would decide where tau is small.
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
        """That of the first layer over tau."""
        return self._mean().lipschitz(n_features) / float(self.tau)

    @property
    def _level(self):
        return 1.0


def _sides_of(changes: Changes, symmetry: str) -> tuple[Changes | None, Changes]:
    if symmetry not in (ISOMETRIES, PERMUTATIONS):
        return changes, changes
    return changes.sides(reordering=symmetry == PERMUTATIONS)
