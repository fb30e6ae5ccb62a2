"""Families of functionals: values, derivatives, differences, averages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.neighbors import kneighbors_graph

from ..kernels import Kernel
from ..oracles import InvarianceOracle
from ..oracles.arguments import check_features
from ..oracles.base import as_oracle
from ..oracles.checked_oracle import bind, tangents_of
from ..oracles.columns import FeatureParameters
from ..oracles.listing import listed
from ..utils.parameters import check_integer, check_number
from .base import Functional, differences
from .parts import Derivatives, Gradients, Part, SecondDerivatives, Values
from .quadrature import MOST_NODES, nodes

if TYPE_CHECKING:
    from collections.abc import Sequence


class Evaluation(Functional):
    """Values ``f(x_i)``.

    Parameters
    ----------
    rows : (m,) array of int, optional
        Rows of X that are evaluated; all by default.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.kernels import Linear
    >>> Evaluation(rows=[1]).bind(np.array([[1.0], [2.0]])).gram(Linear())
    array([[4.]])
    """

    def __init__(self, rows: ArrayLike | None = None) -> None:
        self.rows = rows

    def validate(self, X: np.ndarray) -> None:
        if self.rows is not None:
            check_indices("rows", self.rows, len(X))

    def parts(self, X: np.ndarray, kernel: Kernel) -> list[Part]:
        if self.rows is None:
            return [Values(X)]
        rows = np.asarray(self.rows)
        chosen = sp.csr_matrix((np.ones(len(rows)), (np.arange(len(rows)), rows)), (len(rows), len(X)))
        return [Values(X, chosen)]


class Gradient(Functional):
    """All partial derivatives at each row: number ``i * d + p`` is that of row i by feature p.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.kernels import Gaussian
    >>> Gradient().bind(np.zeros((1, 2))).gram(Gaussian(sigma=0.5))
    array([[4., 0.],
           [0., 4.]])
    """

    def parts(self, X: np.ndarray, kernel: Kernel) -> list[Part]:
        return [Gradients(X)]


class PartialDerivative(FeatureParameters, Functional):
    """Partial derivatives by some features at each row, all of a row one after the other.

    Parameters
    ----------
    features : array-like of bool of shape (d,), of int or of str
        A mask, numbers of features, or names of columns if X is a data frame.
    """

    feature_parameters = ("features",)

    def __init__(self, features: ArrayLike) -> None:
        self.features = features

    def validate(self, X: np.ndarray) -> None:
        check_features("features", self.features, X.shape[1])

    def parts(self, X: np.ndarray, kernel: Kernel) -> list[Part]:
        given = np.asarray(self.features)
        return [Gradients(X, features=np.flatnonzero(given) if given.dtype == bool else given)]


class DirectionalDerivative(Functional):
    """Derivatives along directions, ``<v, grad f(x_i)>``.

    Parameters
    ----------
    directions : (d,), (t, d) or (n, t, d) array
        One direction, t that all rows share, or t a row.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.kernels import Linear
    >>> DirectionalDerivative([3.0, 4.0]).bind(np.zeros((1, 2))).gram(Linear())
    array([[25.]])
    """

    def __init__(self, directions: ArrayLike) -> None:
        self.directions = directions

    def validate(self, X: np.ndarray) -> None:
        table = np.asarray(self.directions)
        if table.dtype.kind not in "iuf":
            raise TypeError(f"directions must be numbers, got {self.directions!r}")
        n_rows = table.shape[0] if table.ndim == 3 else len(X)
        if table.ndim not in (1, 2, 3) or table.shape[-1] != X.shape[1] or n_rows != len(X):
            raise ValueError(
                f"directions must have shape ({X.shape[1]},), (t, {X.shape[1]}) or "
                f"({len(X)}, t, {X.shape[1]}) for these rows, got {table.shape}"
            )
        if not np.all(np.isfinite(table)):
            raise ValueError("directions must be finite, got NaN or infinity")

    def parts(self, X: np.ndarray, kernel: Kernel) -> list[Part]:
        table = np.asarray(self.directions, dtype=X.dtype)
        table = table[None, None, :] if table.ndim == 1 else table[None] if table.ndim == 2 else table
        shape = (len(X), *table.shape[1:])
        return [Derivatives(X, directions=np.broadcast_to(table, shape))]


class _OracleFunctional(Functional):
    """A family that an oracle's changes make.

    Parameters
    ----------
    oracle : InvarianceOracle
    """

    def __init__(self, oracle: InvarianceOracle) -> None:
        self.oracle = oracle

    def validate(self, X: np.ndarray) -> None:
        as_oracle(self.oracle).validate(X.shape[1])


class Tangents(_OracleFunctional):
    """Derivatives along the tangents of an oracle: how f changes as an input begins to change.

    Parameters
    ----------
    oracle : InvarianceOracle
        With `tangents`.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.kernels import Gaussian
    >>> from structinv.oracles import Rotations
    >>> oracle = Rotations(degrees=[-10, 10], shape=(4, 4))
    >>> Tangents(oracle).bind(np.eye(4).reshape(1, 16)).gram(Gaussian()).shape
    (1, 1)
    """

    def validate(self, X: np.ndarray) -> None:
        super().validate(X)
        tangents_of(self.oracle, X[:1])

    def parts(self, X: np.ndarray, kernel: Kernel) -> list[Part]:
        return [Derivatives(X, directions=tangents_of(self.oracle, X).astype(X.dtype))]


class TransformDifference(_OracleFunctional):
    """``f(T x_i) - f(x_i)`` for every change T of an oracle's orbit but the identity.

    Parameters
    ----------
    oracle : InvarianceOracle
        With `orbit`.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.kernels import Linear
    >>> from structinv.oracles import Shifts
    >>> family = TransformDifference(Shifts(1, directions=4, shape=(3, 3)))
    >>> family.bind(np.ones((2, 9))).gram(Linear()).shape
    (8, 8)
    """

    def validate(self, X: np.ndarray) -> None:
        super().validate(X)
        if listed(bind(self.oracle, X[:1])).size < 2:
            raise ValueError(f"oracle must have changes beside the identity, got {self.oracle!r}")

    def parts(self, X: np.ndarray, kernel: Kernel) -> list[Part]:
        changed = listed(bind(self.oracle, X)).members().astype(X.dtype, copy=False)[:, 1:]
        size = changed.shape[0] * changed.shape[1]
        owners = np.repeat(np.arange(len(X)), changed.shape[1])
        own = sp.csr_matrix((np.full(size, -1.0), (np.arange(size), owners)), (size, len(X)))
        return [Values(changed.reshape(size, -1)), Values(X, own)]


class Difference(Functional):
    """``weights_j (f(x_a) - f(x_b))`` for pairs (a, b) of rows.

    Parameters
    ----------
    pairs : (m, 2) array of int
    weights : float or (m,) array, default=1.0

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.kernels import Linear
    >>> Difference([[0, 1]], weights=2.0).bind(np.array([[1.0], [4.0]])).gram(Linear())
    array([[36.]])
    """

    def __init__(self, pairs: ArrayLike, weights: ArrayLike = 1.0) -> None:
        self.pairs = pairs
        self.weights = weights

    def validate(self, X: np.ndarray) -> None:
        pairs, weights = np.asarray(self.pairs), np.asarray(self.weights)
        if weights.dtype.kind not in "iuf":
            raise TypeError(f"weights must be numbers, got {self.weights!r}")
        if pairs.ndim != 2 or pairs.shape[1] != 2:
            raise ValueError(f"pairs must have shape (m, 2), got {pairs.shape}")
        check_indices("pairs", pairs.ravel(), len(X))
        if weights.shape not in ((), (len(pairs),)) or not np.all(np.isfinite(weights)):
            raise ValueError(f"weights must be a finite number or ({len(pairs)},) of them")

    def parts(self, X: np.ndarray, kernel: Kernel) -> list[Part]:
        pairs = np.asarray(self.pairs)
        weights = np.broadcast_to(np.asarray(self.weights, dtype=np.float64), (len(pairs),))
        return [Values(X, differences(pairs, weights, len(X)))]


class GraphLaplacian(Functional):
    """``sqrt(w_ab) (f(x_a) - f(x_b))`` over the edges of a graph of nearest neighbors.

    Under the squared loss they sum to ``f' L f`` with L the Laplacian of the graph, the penalty of
    LapSVM (Belkin, Niyogi and Sindhwani 2006).

    Parameters
    ----------
    n_neighbors : int, default=6
        An edge joins two rows if either is among the other's nearest.
    width : float, optional
        Edges weigh ``exp(-distance^2 / (2 width^2))``; 1 each by default.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.kernels import Linear
    >>> GraphLaplacian(n_neighbors=1).bind(np.array([[0.0], [1.0], [9.0], [10.0]])).gram(Linear())
    array([[1., 1.],
           [1., 1.]])
    """

    def __init__(self, n_neighbors: int = 6, width: float | None = None) -> None:
        self.n_neighbors = n_neighbors
        self.width = width

    def validate(self, X: np.ndarray) -> None:
        check_integer("n_neighbors", self.n_neighbors, 1, len(X) - 1, "other rows")
        if self.width is not None:
            check_number("width", self.width, strict=True)

    def parts(self, X: np.ndarray, kernel: Kernel) -> list[Part]:
        graph = kneighbors_graph(X, self.n_neighbors, mode="distance")
        edges = sp.coo_matrix(graph)
        ends = np.sort(np.column_stack([edges.row, edges.col]), axis=1)
        pairs, first = np.unique(ends, axis=0, return_index=True)
        weights = np.ones(len(pairs))
        if self.width is not None:
            weights = np.exp(-((edges.data[first] / float(self.width)) ** 2) / 4.0)
        return [Values(X, differences(pairs, weights, len(X)))]


class LocalAverage(Functional):
    """The average of f around a row minus its value there, ``E f(x_i + width * noise) - f(x_i)``.

    The noise is standard Gaussian. Gaussian kernels have it in closed form (Zhang, Lee and Teh 2013,
    section 4.3, whose inner product is misprinted: with kappa_s of width s and t the `width` it is
    ``kappa_s + c_2 kappa_sqrt(s^2 + 2 t^2) - 2 c_1 kappa_sqrt(s^2 + t^2)`` with
    ``c_m = (1 + m t^2 / s^2)^(-d/2)``). For other kernels the average is Gauss-Hermite quadrature
    with `n_nodes` nodes a feature, for few features; a finite sum of values, and exact as that.

    Parameters
    ----------
    width : float
        Standard deviation of the noise, above 0.
    n_nodes : int, default=7

    Examples
    --------
    >>> import numpy as np
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
        """See `Functional.parts`; ValueError where neither closed form nor quadrature will do."""
        minus = Values(X).scaled(-1.0)
        variance = float(self.width) ** 2
        if kernel.blurred(variance, X.shape[1]) is not None:
            return [Values(X, blur=variance), minus]
        if int(self.n_nodes) ** X.shape[1] > MOST_NODES:
            raise ValueError(
                f"LocalAverage has no closed form for {kernel!r}, and quadrature with n_nodes="
                f"{self.n_nodes} in {X.shape[1]} features would need more than {MOST_NODES} nodes a row"
            )
        grid, shares = nodes(int(self.n_nodes), X.shape[1])
        around = (X[:, None, :] + float(self.width) * grid).reshape(-1, X.shape[1]).astype(X.dtype)
        mix = sp.kron(sp.identity(len(X)), shares[None, :], format="csr")
        return [Values(around, mix), minus]


class SecondDerivative(FeatureParameters, Functional):
    """The second partial derivative by features i and j at each row.

    Parameters
    ----------
    i, j : int or str
        Features, which may be the same: numbers, or names of columns if X is a data frame.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.kernels import Gaussian
    >>> SecondDerivative(0, 0).bind(np.zeros((1, 1))).gram(Gaussian())
    array([[3.]])
    """

    single_features = ("i", "j")

    def __init__(self, i: int | str, j: int | str) -> None:
        self.i = i
        self.j = j

    def validate(self, X: np.ndarray) -> None:
        check_indices("i", [self.i], X.shape[1])
        check_indices("j", [self.j], X.shape[1])

    def parts(self, X: np.ndarray, kernel: Kernel) -> list[Part]:
        left, right = (np.broadcast_to(_unit(k, X), X.shape) for k in (self.i, self.j))
        return [SecondDerivatives(X, left=left, right=right)]


def _unit(feature: Any, X: np.ndarray) -> np.ndarray:
    direction = np.zeros(X.shape[1], dtype=X.dtype)
    direction[feature] = 1.0
    return direction


def check_indices(name: str, value: ArrayLike | Sequence[int], size: int) -> None:
    """Raise ValueError unless `value` holds integers from 0 to ``size - 1``."""
    array = np.asarray(value)
    integers = array.ndim == 1 and array.dtype.kind in "iu" and len(array) > 0
    if not integers or np.any(array < 0) or np.any(array >= size):
        raise ValueError(f"{name} must hold integers from 0 to {size - 1}, got {value!r}")
