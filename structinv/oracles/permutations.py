"""Rows of matrices in another order: sets of things that have no order, such as atoms."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment

from ..utils.jit import njit
from ..utils.matrices import ALL_ROWS, Matrix, Rows, dense_rows, floating, in_threads, rounding, take
from ..utils.parameters import check_number
from .arguments import check_directions
from .base import Support
from .changes import Changes, LinearChanges, draw_names
from .finite import FiniteOracle
from .images.image_maps import ImageShape
from .images.image_parameters import check_draw

AXES = ("rows", "both")
# Larger groups are not listed.
MOST_MEMBERS = 720


class Permutations(FiniteOracle):
    r"""Matrices whose rows, or rows and columns together, come in any order.

    .. math:: S(x) = \{P x : P \text{ a permutation}\} \quad \text{or} \quad \{P x P^\top\}

    with the input x as a matrix: a point a row (``axes="rows"``), or the Coulomb matrix of a molecule
    (``axes="both"``). With up to 6 rows the set is a list of at most 720 members, and `changes` is the
    whole group, all alike. Worst cases over rows are exact for any size, as assignments
    of rows to places; those over both are quadratic assignments, exact for the lists and refused beyond.

    `draws` goes by a noisy sort, as Montavon et al. (2012) do: rows go by falling Euclidean norm plus
    Gaussian noise. The noise is drawn once, for ranks and not for rows, so that a matrix has the same
    members in whatever order its rows came in, unless two norms are equal.

    Parameters
    ----------
    shape : (int, int) or ImageShape
        Rows and columns of the matrix that an input is, in C order; of an image of one channel.
    axes : {"rows", "both"}, default="rows"
        What is reordered; "both" needs a square matrix.
    noise : float, default=1.0
        Standard deviation of the noise in `draws`, in units of the norms. 0 sorts by norm; infinity
        draws permutations that are all alike, the same ones for every input.

    Raises
    ------
    TypeError, ValueError
        From `validate` and all views, if a parameter is out of its range or `shape` does not fit the
        number of features.
    NotImplementedError
        From `support`, over both axes of matrices with more than 6 rows.

    Notes
    -----
    Norms are summed from the smallest entry on, so that they do not depend on the order of columns
    either, to the last digit. Rows of zeros, of molecules with fewer atoms, take part as all others.

    References
    ----------
    Montavon et al. (2012), Learning invariant representations of molecules for atomization energy
    prediction.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.oracles import Permutations
    >>> x = np.array([[1.0, 2.0, 3.0, 4.0, 0.0, 6.0]])
    >>> Permutations((3, 2), noise=0.0).draws(x, n_draws=1).members().reshape(3, 2)
    array([[0., 6.],
           [3., 4.],
           [1., 2.]])
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
        """Whether there are few enough members to be listed."""
        lengths = _lengths(self.shape)
        return lengths is not None and _is_small(lengths[0])

    def validate(self, n_features: int | None = None) -> None:
        r, c = self._lengths()
        if self.axes not in AXES:
            raise ValueError(f"axes must be one of {AXES}, got {self.axes!r}")
        if self.axes == "both" and r != c:
            raise ValueError(
                f"shape must be that of a square matrix for axes='both', got {self.shape!r}"
            )
        check_number("noise", self.noise, finite=False)
        if n_features is not None and r * c != n_features:
            raise ValueError(f"shape must fit {n_features} features, got {self.shape!r} for {r * c}")

    def _lengths(self) -> tuple[int, int]:
        """Rows and columns of a matrix."""
        lengths = _lengths(self.shape)
        if lengths is None:
            raise ValueError(
                f"shape must be a pair of integers of at least 1, (rows, columns), got {self.shape!r}"
            )
        return lengths

    def orbit(self, X: Matrix) -> np.ndarray:
        """See `InvarianceOracle.orbit`; up to 6 rows."""
        self._check_rows(X)
        return dense_rows(X)[:, self._listed("an orbit")]

    def _names(self) -> list[str]:
        """Which row comes first, second, and so on."""
        orders = itertools.permutations(range(self._lengths()[0]))
        next(orders)
        return ["identity", *("order " + " ".join(map(str, order)) for order in orders)]

    def support(
        self, X: Matrix, V: np.ndarray, assign: np.ndarray, cost: np.ndarray | None = None
    ) -> Support:
        """See `InvarianceOracle.support`; exact."""
        self._check_rows(X)
        check_directions(X, V, assign, cost)
        rows = floating(dense_rows(X))
        if self.axes == "rows":
            return Support(_best_assignments(rows, V, assign, *self._lengths()))
        if not self.finite:
            r = self._lengths()[0]
            raise NotImplementedError(
                f"Permutations has no worst case over rows and columns of {r} x {r} matrices: it is a "
                f"quadratic assignment, and their {r}! orders are too many to be listed"
            )
        orders = self._listed("an orbit")
        best = np.empty(len(rows), dtype=np.intp)
        V = np.ascontiguousarray(V, dtype=np.float64)

        def ask(part: slice) -> None:
            _best_orders(rows[part], V, assign[part], orders, best[part])

        in_threads(ask, len(rows), len(rows) * orders.size)
        return Support(np.take_along_axis(rows, orders[best], axis=1))

    def graded_support(
        self,
        X: Matrix,
        V: np.ndarray,
        assign: np.ndarray,
        cost: np.ndarray,
        rho: float | Sequence[float],
    ) -> Support:
        """See `InvarianceOracle.graded_support`; up to 6 rows, by enumeration."""
        self._check_rows(X)
        if not self.finite:
            raise self._absent(
                "graded support of more than 6 rows, so it cannot be discounted", "has no"
            )
        return super().graded_support(X, V, assign, cost, rho)

    def sample(self, X: Matrix, n_draws: int, rng: np.random.Generator) -> np.ndarray:
        """See `InvarianceOracle.sample`; all orders alike."""
        self._check_rows(X)
        check_draw(n_draws, rng)
        rows = dense_rows(X)
        places = self._places(_random_orders((len(rows), n_draws), self._lengths()[0], rng))
        return np.take_along_axis(rows[:, None, :], places, axis=2)

    def contains(self, x: np.ndarray, z: np.ndarray) -> bool:
        """Whether `z` has the rows of `x`, up to rounding; over both axes up to 6 rows."""
        self._check_rows(x[None, :])
        near = rounding(x, z)
        if self.axes == "rows":
            rows, others = x.reshape(self._lengths()), z.reshape(self._lengths())
            apart = np.max(np.abs(rows[:, None, :] - others), axis=2) > near
            return not np.any(apart[linear_sum_assignment(apart)])
        members = x[self._listed("contains for more than 6 rows and columns")]
        return bool(np.any(np.max(np.abs(members - z), axis=1) <= near))

    def _changes(self, X: Matrix, y: np.ndarray | None) -> Changes | None:
        if not self.finite:
            return None
        orders = self._listed("an orbit")
        return Orders(X, orders, self._names(), group=True)

    def _draws(self, X: Matrix, n_draws: int, random_state: int) -> Changes:
        """See `InvarianceOracle.draws`: `n_draws` noisy sorts."""
        rng, r = np.random.default_rng(random_state), self._lengths()[0]
        if self.noise == np.inf:
            return Orders(X, self._places(_random_orders((n_draws,), r, rng)), draw_names(n_draws))
        noise = self.noise * rng.standard_normal((n_draws, r))
        return SortedRows(X, self._lengths(), self.axes == "both", noise)

    def _listed(self, what: str) -> np.ndarray:
        """The feature that comes to each place in every member, (s, d)."""
        if not self.finite:
            raise self._absent(what)
        r = self._lengths()[0]
        return self._places(np.array(list(itertools.permutations(range(r))), dtype=np.intp))

    def _places(self, orders: np.ndarray) -> np.ndarray:
        """Features (..., d) in orders of rows (..., r)."""
        r, c = self._lengths()
        columns = (
            orders if self.axes == "both" else np.broadcast_to(np.arange(c), (*orders.shape[:-1], c))
        )
        return (orders[..., :, None] * c + columns[..., None, :]).reshape(*orders.shape[:-1], r * c)


class Orders(Changes):
    """Features in other orders, the same ones for all rows.

    Parameters
    ----------
    X : (n, d) array or CSR matrix
    orders : (s, d) array of int
        The feature that comes to each place.
    names : sequence of str, optional
    group : bool, default=False
        Whether these are all elements of a group.
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
        """Whether these are all elements of a group, and alike."""
        return self._all and bool(np.all(self.weights == self.weights[0]))

    def members(self, rows: Rows = ALL_ROWS, numbers: np.ndarray | None = None) -> np.ndarray:
        orders = self.orders if numbers is None else self.orders[numbers]
        return floating(dense_rows(take(self.X, rows)))[:, orders]

    def points(self, rows: Rows, index: np.ndarray) -> np.ndarray:
        return np.take_along_axis(floating(dense_rows(take(self.X, rows))), self.orders[index], axis=1)

    def adjoint(self, V: np.ndarray) -> np.ndarray:
        return _pulled(self.orders, V)

    def linear(self) -> LinearChanges:
        size, d = self.orders.shape
        starts, ones = np.arange(d + 1), np.ones(d)
        maps = [sp.csr_matrix((ones, order, starts), shape=(d, d)) for order in self.orders]
        return LinearChanges(self.X, maps, self._names, self.weights)

    def differences(self, most: int | None = None) -> LinearChanges | None:
        """See `Changes.differences`; in a whole group they are spread as the changes themselves."""
        if not self.group:
            return super().differences(most)
        return self.linear() if most is None or self.size <= most else None


class SortedRows(Changes):
    """Rows by falling norm plus noise.

    Parameters
    ----------
    X : (n, d) array or CSR matrix
    shape : (int, int)
        Of the matrix that an input is.
    both : bool
        Whether columns go with the rows.
    noise : (s, r) array
        Added to the largest norm, the second largest, and so on.
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
        found = np.empty((len(X), len(noise), X.shape[1]), dtype=X.dtype)
        r, c = self.shape

        def sort(part: slice) -> None:
            # The squares in order, so that rows with the same entries have the same norm.
            matrices = X[part].reshape(-1, r, c)
            squares = np.sort(np.square(matrices, dtype=np.float64), axis=2)
            norms = -np.sqrt(np.cumsum(squares, axis=2)[:, :, -1])
            ranked = np.argsort(norms, axis=1, kind="stable")
            sorted_norms = np.take_along_axis(norms, ranked, axis=1)
            keys = sorted_norms[:, None] - noise
            order = np.take_along_axis(ranked[:, None], np.argsort(keys, axis=2, kind="stable"), axis=2)
            each = np.arange(len(matrices))[:, None, None, None]
            columns = order[:, :, None, :] if self.both else np.arange(c)
            sorted_rows = matrices[each, order[:, :, :, None], columns]
            found[part] = sorted_rows.reshape(found[part].shape)

        in_threads(sort, len(X), found.size)
        return found


def _lengths(shape: Any) -> tuple[int, int] | None:
    """Rows and columns; None if it is no shape of a matrix."""
    if isinstance(shape, ImageShape) and shape.channels == 1:
        shape = shape.height, shape.width
    if not isinstance(shape, (tuple, list)) or len(shape) != 2:
        return None
    if not all(isinstance(each, Integral) and not isinstance(each, bool) for each in shape):
        return None
    r, c = map(int, shape)
    return (r, c) if r >= 1 and c >= 1 else None


def _is_small(r: int) -> bool:
    return r < 20 and math.factorial(r) <= MOST_MEMBERS


def _random_orders(many: tuple[int, ...], r: int, rng: np.random.Generator) -> np.ndarray:
    """Orders of r things, all alike, (*many, r)."""
    return rng.permuted(np.broadcast_to(np.arange(r), (*many, r)), axis=-1)


def _pulled(orders: np.ndarray, V: np.ndarray) -> np.ndarray:
    # (T x)_j = x_order[j], so (T'v)_order[j] = v_j.
    return np.ascontiguousarray(V[:, np.argsort(orders, axis=1)].swapaxes(0, 1))


def _best_assignments(rows: np.ndarray, V: np.ndarray, assign: np.ndarray, r: int, c: int) -> np.ndarray:
    """Each input with its rows where they win most, (n, d)."""
    inputs = rows.reshape(-1, r, c)
    directions = V.reshape(-1, r, c)
    orders = np.empty((len(rows), r), dtype=np.intp)
    for number, matrix in enumerate(inputs):
        # Place p is worth <v_p, x_i> to row i.
        orders[number] = linear_sum_assignment(directions[assign[number]] @ matrix.T, maximize=True)[1]
    return np.take_along_axis(inputs, orders[:, :, None], axis=1).reshape(rows.shape)


@njit(cache=True, nogil=True)
def _best_orders(X, V, assign, orders, best):
    """The first of the orders in which each row reaches furthest along its direction."""
    for i in range(X.shape[0]):
        x, v = X[i], V[assign[i]]
        top = -np.inf
        for s in range(orders.shape[0]):
            reached = 0.0
            for j in range(len(v)):
                reached += v[j] * x[orders[s, j]]
            if reached > top:
                top, best[i] = reached, s
