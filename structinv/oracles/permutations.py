"""Permutations of the rows of a matrix, for sets such as points or atoms."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment

from ..utils.jit import LEAN, njit
from ..utils.matrices import (
    ALL_ROWS,
    TIES,
    Matrix,
    Rows,
    dense_rows,
    floating,
    in_threads,
    rounding,
    take,
)
from ..utils.parameters import check_number
from .arguments import check_directions
from .base import Support
from .changes import Changes, LinearChanges, draw_names
from .finite_oracles import FiniteOracle
from .images.image_maps import ImageShape
from .parameter_values import check_draw
from .support import Costs, Grades

AXES = ("rows", "both")
# Maximum number of rows of a matrix with a list of all orders, which are 720.
_MOST_ROWS = 6


class Permutations(FiniteOracle):
    r"""Matrices with permuted rows, or with permuted rows and columns.

    .. math:: S(x) = \{P x : P \text{ a permutation}\} \quad \text{or} \quad \{P x P^\top\}

    The sample x is a matrix: one point per row (``axes="rows"``), or the Coulomb matrix of a molecule
    (``axes="both"``). With up to 6 rows the set is a list of at most 720 members, and `changes` is the
    whole group with uniform probabilities. Support functions over rows are exact for any size, by linear
    assignment. Over both axes they are quadratic assignment problems, solved by enumeration of the list.
    With more than 6 rows, `support` then raises NotImplementedError.

    Averages over random draws sort with noise, as Montavon et al. (2012): rows are in decreasing order
    of Euclidean norm plus Gaussian noise. Each draw has r noise values, the same for all samples. The
    row with the k-th largest norm receives the k-th value. Therefore the draws do not depend on the
    order of the rows of a sample, unless two norms are equal.

    Parameters
    ----------
    shape : (int, int) or ImageShape
        Numbers of rows and columns of the matrix, in C order; an ImageShape must have one channel.
    axes : {"rows", "both"}, default="rows"
        Permuted axes; "both" requires a square matrix.
    noise : float, default=1.0
        Standard deviation of the noise in averages, in units of the norms (>= 0). 0 sorts by norm;
        infinity draws uniform permutations, the same for every sample.

    Raises
    ------
    TypeError, ValueError
        Raised by `validate` and all other methods, if a parameter is out of its range or `shape` does
        not match the number of features.
    NotImplementedError
        Raised by `support` for ``axes="both"`` and more than 6 rows.

    See Also
    --------
    Flip : Mirror image, a group of two elements.
    structinv.kernels.OrbitMean : Kernel averaged over permutations.

    Notes
    -----
    Entries are sorted before they are summed to a norm. Therefore norms do not depend on the order of
    columns, not even by rounding. Zero rows of molecules with fewer atoms are permuted with the others.
    `sample` draws uniform permutations.

    References
    ----------
    Montavon et al. (2012), Learning invariant representations of molecules for atomization energy
    prediction.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.kernels import Gaussian, OrbitMean
    >>> from structinv.oracles import Permutations
    >>> x = np.array([[1.0, 2.0, 3.0, 4.0, 0.0, 6.0]])
    >>> by_norm = OrbitMean(Permutations((3, 2), noise=0.0), Gaussian(), n_draws=1)
    >>> by_norm.matrix(x, x[:, [4, 5, 0, 1, 2, 3]])
    array([[1.]])
    >>> Permutations((3, 2)).orbit(x).shape
    (1, 6, 6)
    """

    _enumerates = False

    def __init__(
        self, shape: tuple[int, int] | ImageShape, axes: str = "rows", noise: float = 1.0
    ) -> None:
        self.shape = shape
        self.axes = axes
        self.noise = noise

    @property
    def finite(self) -> bool:  # type: ignore[override]
        """True if the group has at most 720 elements."""
        lengths = _lengths(self.shape)
        return lengths is not None and lengths[0] <= _MOST_ROWS

    def validate(self, n_features: int | None = None) -> None:
        r, c = self._lengths()
        if self.axes not in AXES:
            raise ValueError(f"axes must be one of {AXES}, got {self.axes!r}")
        if self.axes == "both" and r != c:
            raise ValueError(f"shape must be square for axes='both', got {self.shape!r}")
        check_number("noise", self.noise, finite=False)
        if n_features is not None and r * c != n_features:
            raise ValueError(
                f"shape must match the {n_features} features, got {self.shape!r} with {r * c} entries"
            )

    def _lengths(self) -> tuple[int, int]:
        """Return the numbers of rows and columns."""
        lengths = _lengths(self.shape)
        if lengths is None:
            raise ValueError(
                f"shape must be a pair of integers of at least 1, (rows, columns), got {self.shape!r}"
            )
        return lengths

    def orbit(self, X: Matrix) -> np.ndarray:
        self._check_rows(X)
        return dense_rows(X)[:, self._listed("an orbit")]

    def support(
        self, X: Matrix, V: np.ndarray, assign: np.ndarray, cost: Costs = None, rho: Grades = None
    ) -> Support:
        self._check_rows(X)
        check_directions(X, V, assign, cost)
        if rho is not None:
            if not self.finite:
                raise self._absent(
                    "grades of more than 6 rows, so it cannot be discounted", "does not support"
                )
            return super().support(X, V, assign, cost, rho)
        rows = floating(dense_rows(X))
        if self.axes == "rows":
            return Support(_best_assignments(rows, V, assign, *self._lengths()))
        if not self.finite:
            r = self._lengths()[0]
            raise NotImplementedError(
                f"Permutations cannot compute the worst case for axes='both' and {r} x {r} matrices: it "
                f"is a quadratic assignment over {r}! permutations. Use at most 6 rows, or axes='rows'"
            )
        orders = self._listed("an orbit")
        best = np.empty(len(rows), dtype=np.intp)
        V = np.ascontiguousarray(V, dtype=np.float64)

        def find_best(part: slice) -> None:
            _best_orders(rows[part], V, assign[part], orders, best[part])

        in_threads(find_best, len(rows), len(rows) * orders.size)
        return Support(np.take_along_axis(rows, orders[best], axis=1))

    def sample(self, X: Matrix, n_draws: int, rng: np.random.Generator) -> np.ndarray:
        self._check_rows(X)
        check_draw(n_draws, rng)
        rows = dense_rows(X)
        places = self._places(_random_orders((len(rows), n_draws), self._lengths()[0], rng))
        return np.take_along_axis(rows[:, None, :], places, axis=2)

    def contains(self, x: np.ndarray, z: np.ndarray) -> bool:
        self._check_rows(x[None, :])
        members = x[self._listed("contains for more than 6 rows")]
        return bool(np.any(np.max(np.abs(members - z), axis=1) <= rounding(x, z)))

    def _no_cover(self) -> str:
        if self.finite:
            return ""
        r = self._lengths()[0]
        return f" of {r} rows, but the orbit of Permutations has at most {_MOST_ROWS} rows (720 orders)"

    def _changes(self, X: Matrix, y: np.ndarray | None) -> Changes | None:
        if not self.finite:
            return None
        orders = list(itertools.permutations(range(self._lengths()[0])))
        names = ["identity", *("order " + " ".join(map(str, order)) for order in orders[1:])]
        return Orders(X, self._listed("an orbit"), names, group=True)

    def _draws(self, X: Matrix, n_draws: int, random_state: int) -> Changes:
        """Return `n_draws` noisy sorts."""
        rng, r = np.random.default_rng(random_state), self._lengths()[0]
        if self.noise == np.inf:
            return Orders(X, self._places(_random_orders((n_draws,), r, rng)), draw_names(n_draws))
        noise = self.noise * rng.standard_normal((n_draws, r))
        return SortedRows(X, self._lengths(), self.axes == "both", noise)

    def _listed(self, what: str) -> np.ndarray:
        """Return the feature at each position in every member, (s, d)."""
        if not self.finite:
            raise self._absent(what)
        r = self._lengths()[0]
        return self._places(np.array(list(itertools.permutations(range(r))), dtype=np.intp))

    def _places(self, orders: np.ndarray) -> np.ndarray:
        """Return permutations of features (..., d) from permutations of rows (..., r)."""
        r, c = self._lengths()
        columns = (
            orders if self.axes == "both" else np.broadcast_to(np.arange(c), (*orders.shape[:-1], c))
        )
        return (orders[..., :, None] * c + columns[..., None, :]).reshape(*orders.shape[:-1], r * c)


class Orders(Changes):
    """A list of permutations of features, the same for all rows.

    Shapes: `X` (n_samples, n_features), `orders` (size, n_features).
    """

    def __init__(
        self, X: Matrix, orders: np.ndarray, names: Sequence[str] | None = None, *, group: bool = False
    ) -> None:
        super().__init__(X)
        self.orders = orders
        self._names = names
        self._all = group

    @property
    def size(self) -> int:
        return len(self.orders)

    @property
    def names(self) -> list[str]:
        return super().names if self._names is None else list(self._names)

    @property
    def group(self) -> bool:
        """True if these are all elements of a group, with equal probabilities."""
        return self._all and bool(np.all(self.weights == self.weights[0]))

    def members(self, rows: Rows = ALL_ROWS, numbers: np.ndarray | None = None) -> np.ndarray:
        orders = self.orders if numbers is None else self.orders[numbers]
        return floating(dense_rows(take(self.X, rows)))[:, orders]

    def points(self, rows: Rows, index: np.ndarray) -> np.ndarray:
        return np.take_along_axis(floating(dense_rows(take(self.X, rows))), self.orders[index], axis=1)

    def adjoint(self, V: np.ndarray) -> np.ndarray:
        # (T x)_j = x_order[j], so (T'v)_order[j] = v_j.
        return np.ascontiguousarray(V[:, np.argsort(self.orders, axis=1)].swapaxes(0, 1))

    def linear(self) -> LinearChanges:
        size, d = self.orders.shape
        starts, ones = np.arange(d + 1), np.ones(d)
        maps = [sp.csr_matrix((ones, order, starts), shape=(d, d)) for order in self.orders]
        return LinearChanges(self.X, maps, self._names, self.weights)

    def differences(self, most: int | None = None) -> LinearChanges | None:
        """Return the maps ``g^-1 g'``; for a whole group these are its elements."""
        if not self.group:
            return super().differences(most)
        return self.linear() if most is None or self.size <= most else None


class SortedRows(Changes):
    """Rows sorted by decreasing norm plus noise.

    Shapes: `X` (n_samples, n_features), `shape` (int, int), `noise` (size, r).
    """

    def __init__(self, X: Matrix, shape: tuple[int, int], both: bool, noise: np.ndarray) -> None:
        super().__init__(X)
        self.shape = shape
        self.both = both
        self.noise = noise

    @property
    def size(self) -> int:
        return len(self.noise)

    @property
    def names(self) -> list[str]:
        return draw_names(self.size)

    def members(self, rows: Rows = ALL_ROWS, numbers: np.ndarray | None = None) -> np.ndarray:
        X = np.ascontiguousarray(floating(dense_rows(take(self.X, rows))))
        noise = self.noise if numbers is None else self.noise[numbers]
        sorted_members = np.empty((len(X), len(noise), X.shape[1]), dtype=X.dtype)
        r, c = self.shape

        def sort(part: slice) -> None:
            # Sort the squares, so that rows with the same entries have the same norm.
            matrices = X[part].reshape(-1, r, c)
            squares = np.sort(np.square(matrices, dtype=np.float64), axis=2)
            norms = -np.sqrt(np.cumsum(squares, axis=2)[:, :, -1])
            ranked = np.argsort(norms, axis=1, kind="stable")
            sorted_norms = np.take_along_axis(norms, ranked, axis=1)
            keys = sorted_norms[:, None] - noise
            order = np.take_along_axis(ranked[:, None], np.argsort(keys, axis=2, kind="stable"), axis=2)
            number = np.arange(len(matrices))[:, None, None, None]
            columns = order[:, :, None, :] if self.both else np.arange(c)
            sorted_rows = matrices[number, order[:, :, :, None], columns]
            sorted_members[part] = sorted_rows.reshape(sorted_members[part].shape)

        in_threads(sort, len(X), sorted_members.size)
        return sorted_members


def _lengths(shape: Any) -> tuple[int, int] | None:
    """Return the numbers of rows and columns; None if `shape` is not a shape of a matrix."""
    if isinstance(shape, ImageShape) and shape.channels == 1:
        shape = shape.height, shape.width
    if not isinstance(shape, (tuple, list)) or len(shape) != 2:
        return None
    if not all(isinstance(each, Integral) and not isinstance(each, bool) for each in shape):
        return None
    r, c = map(int, shape)
    return (r, c) if r >= 1 and c >= 1 else None


def _random_orders(many: tuple[int, ...], r: int, rng: np.random.Generator) -> np.ndarray:
    """Draw uniform permutations of r items, (*many, r)."""
    return rng.permuted(np.broadcast_to(np.arange(r), (*many, r)), axis=-1)


def _best_assignments(rows: np.ndarray, V: np.ndarray, assign: np.ndarray, r: int, c: int) -> np.ndarray:
    """Assign the rows of each matrix to positions to maximize the inner product, (n, d)."""
    inputs = rows.reshape(-1, r, c)
    directions = V.reshape(-1, r, c)
    orders = np.empty((len(rows), r), dtype=np.intp)
    for number, matrix in enumerate(inputs):
        # Position p contributes <v_p, x_i> for row i.
        orders[number] = linear_sum_assignment(directions[assign[number]] @ matrix.T, maximize=True)[1]
    return np.take_along_axis(inputs, orders[:, :, None], axis=1).reshape(rows.shape)


@njit(**LEAN)
def _best_orders(X, V, assign, orders, best):
    """Find the permutation of each row with the largest inner product, the first if equal."""
    for i in range(X.shape[0]):
        x, v = X[i], V[assign[i]]
        best_value = -np.inf
        for s in range(orders.shape[0]):
            value = 0.0
            for j in range(len(v)):
                value += v[j] * x[orders[s, j]]
            if value - best_value > TIES * abs(value):
                best_value, best[i] = value, s
