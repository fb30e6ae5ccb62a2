"""Families of functionals: values, derivatives, differences, averages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from ..kernels import Kernel
from ..oracles import InvarianceOracle
from ..oracles.arguments import check_features, selection
from ..oracles.base import as_oracle
from ..oracles.columns import FeatureParameters
from ..oracles.listed_changes import listed
from ..oracles.third_party import bind, tangents_of
from ..utils.matrices import refuse_masked
from ..utils.parameters import brief, check_integer, check_number, in_order
from .base import Functional, differences
from .parts import Derivatives, Gradients, Part, SecondDerivatives, Values

if TYPE_CHECKING:
    from collections.abc import Sequence


class Evaluation(Functional):
    """Values ``f(x_i)`` at the rows.

    Parameters
    ----------
    rows : array-like of int of shape (n_evaluated,), optional
        Numbers of the evaluated rows; by default all rows.

    See Also
    --------
    Gradient : All partial derivatives at the rows.
    LocalAverage : Average around a row minus the value there.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.functionals import Evaluation
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
        return [Values(X, sp.identity(len(X), format="csr")[np.asarray(self.rows)])]


class Gradient(Functional):
    """All partial derivatives at each row.

    Functional ``i * n_features + p`` is the derivative at row i with respect to feature p.

    See Also
    --------
    PartialDerivative : Derivatives with respect to some features.
    DirectionalDerivative : Derivatives along directions.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.functionals import Gradient
    >>> from structinv.kernels import Gaussian
    >>> Gradient().bind(np.zeros((1, 2))).gram(Gaussian(sigma=0.5))
    array([[4., 0.],
           [0., 4.]])
    """

    def parts(self, X: np.ndarray, kernel: Kernel) -> list[Part]:
        return [Gradients(X)]


class PartialDerivative(FeatureParameters, Functional):
    """Partial derivatives with respect to some features, at each row.

    Functional ``i * n_chosen + p`` is the derivative at row i with respect to the p-th chosen feature.

    Parameters
    ----------
    features : array-like of bool of shape (n_features,), of int or of str
        Chosen features: a mask, column numbers, or column names if X is a data frame.

    See Also
    --------
    Gradient : Derivatives with respect to all features.
    SecondDerivative : Second derivative with respect to two features.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.functionals import PartialDerivative
    >>> from structinv.kernels import Gaussian
    >>> PartialDerivative([1]).bind(np.zeros((1, 2))).gram(Gaussian(sigma=0.5))
    array([[4.]])
    """

    feature_parameters = ("features",)

    def __init__(self, features: ArrayLike) -> None:
        self.features = features

    def validate(self, X: np.ndarray) -> None:
        check_features("features", self.features, X.shape[1])

    def parts(self, X: np.ndarray, kernel: Kernel) -> list[Part]:
        features = selection("features", self.features)
        return [Gradients(X, features=np.flatnonzero(features) if features.dtype == bool else features)]


class DirectionalDerivative(FeatureParameters, Functional):
    """Derivatives along directions, ``<v, grad f(x_i)>``.

    Parameters
    ----------
    directions : array-like of shape (d,), (t, d) or (n, t, d)
        One direction v for all rows, t for all rows, or t for each of the n rows; d is the number of
        features. A table with names is aligned with the columns of X.

    See Also
    --------
    Tangents : Derivatives along the tangents of an oracle.
    Gradient : Derivatives with respect to all features.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.functionals import DirectionalDerivative
    >>> from structinv.kernels import Linear
    >>> DirectionalDerivative([3.0, 4.0]).bind(np.zeros((1, 2))).gram(Linear())
    array([[25.]])
    """

    feature_axes = {"directions": -1}

    def __init__(self, directions: ArrayLike) -> None:
        self.directions = directions

    def validate(self, X: np.ndarray) -> None:
        table = in_order("directions", self.directions)
        if table.dtype.kind not in "iuf":
            raise TypeError(f"directions must be numbers, got {brief(self.directions)}")
        n_rows = table.shape[0] if table.ndim == 3 else len(X)
        if table.ndim not in (1, 2, 3) or table.shape[-1] != X.shape[1] or n_rows != len(X):
            raise ValueError(
                f"directions must have shape ({X.shape[1]},), (t, {X.shape[1]}) or "
                f"({len(X)}, t, {X.shape[1]}) for these rows, got {table.shape}"
            )
        if not np.all(np.isfinite(table)):
            raise ValueError("directions must be finite, got NaN or infinity")

    def parts(self, X: np.ndarray, kernel: Kernel) -> list[Part]:
        table = in_order("directions", self.directions).astype(X.dtype)
        table = table[None, None, :] if table.ndim == 1 else table[None] if table.ndim == 2 else table
        shape = (len(X), *table.shape[1:])
        return [Derivatives(X, directions=np.broadcast_to(table, shape))]


class Tangents(Functional):
    """Derivatives of f along the tangents of an oracle.

    Parameters
    ----------
    oracle : InvarianceOracle
        Oracle with `tangents`.

    See Also
    --------
    TransformDifference : Differences to transformed samples instead of derivatives.
    DirectionalDerivative : Derivatives along given directions.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.functionals import Tangents
    >>> from structinv.kernels import Gaussian
    >>> from structinv.oracles import Rotations
    >>> oracle = Rotations(degrees=[-10, 10], shape=(4, 4))
    >>> Tangents(oracle).bind(np.eye(4).reshape(1, 16)).gram(Gaussian()).shape
    (1, 1)
    """

    def __init__(self, oracle: InvarianceOracle) -> None:
        self.oracle = oracle

    def validate(self, X: np.ndarray) -> None:
        as_oracle(self.oracle).validate(X.shape[1])
        tangents_of(self.oracle, X[:1])

    def parts(self, X: np.ndarray, kernel: Kernel) -> list[Part]:
        return [Derivatives(X, directions=tangents_of(self.oracle, X).astype(X.dtype))]


class TransformDifference(Functional):
    """Differences ``f(T x_i) - f(x_i)`` for all transformations T of an oracle.

    The unperturbed sample is left out.

    Parameters
    ----------
    oracle : InvarianceOracle
        Oracle with `orbit`.

    See Also
    --------
    Tangents : Derivatives along tangents instead of differences.
    Difference : Differences between rows.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.functionals import TransformDifference
    >>> from structinv.kernels import Linear
    >>> from structinv.oracles import Shifts
    >>> family = TransformDifference(Shifts(1, directions=4, shape=(3, 3)))
    >>> family.bind(np.ones((2, 9))).gram(Linear()).shape
    (8, 8)
    """

    def __init__(self, oracle: InvarianceOracle) -> None:
        self.oracle = oracle

    def validate(self, X: np.ndarray) -> None:
        as_oracle(self.oracle).validate(X.shape[1])
        if listed(bind(self.oracle, X[:1])).size < 2:
            raise ValueError(
                f"oracle must list perturbed samples other than the sample itself, got {self.oracle!r}"
            )

    def parts(self, X: np.ndarray, kernel: Kernel) -> list[Part]:
        transformed = listed(bind(self.oracle, X)).members().astype(X.dtype, copy=False)[:, 1:]
        rows = np.repeat(np.arange(len(X)), transformed.shape[1])
        minus = -sp.identity(len(X), format="csr")[rows]
        return [Values(transformed.reshape(len(rows), -1)), Values(X, minus)]


class Difference(Functional):
    """Weighted differences ``weights_j (f(x_a) - f(x_b))`` for pairs (a, b) of rows.

    Parameters
    ----------
    pairs : array-like of int of shape (n_pairs, 2)
        Numbers a and b of the rows of each pair.
    weights : float or array-like of shape (n_pairs,), default=1.0
        Weights of the differences.

    See Also
    --------
    GraphLaplacian : Differences between nearest neighbors.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.functionals import Difference
    >>> from structinv.kernels import Linear
    >>> Difference([[0, 1]], weights=2.0).bind(np.array([[1.0], [4.0]])).gram(Linear())
    array([[36.]])
    """

    def __init__(self, pairs: ArrayLike, weights: ArrayLike = 1.0) -> None:
        self.pairs = pairs
        self.weights = weights

    def validate(self, X: np.ndarray) -> None:
        refuse_masked("pairs", self.pairs)
        refuse_masked("weights", self.weights)
        pairs, weights = np.asarray(self.pairs), np.asarray(self.weights)
        if weights.dtype.kind not in "iuf":
            raise TypeError(f"weights must be numbers, got {brief(self.weights)}")
        if pairs.ndim != 2 or pairs.shape[1] != 2:
            raise ValueError(f"pairs must have shape (m, 2), got {pairs.shape}")
        check_indices("pairs", pairs.ravel(), len(X))
        if weights.shape not in ((), (len(pairs),)) or not np.all(np.isfinite(weights)):
            raise ValueError(
                f"weights must be a finite number or one finite number for each of {len(pairs)} pairs, "
                f"got {brief(self.weights)}"
            )

    def parts(self, X: np.ndarray, kernel: Kernel) -> list[Part]:
        pairs = np.asarray(self.pairs)
        weights = np.broadcast_to(np.asarray(self.weights, dtype=np.float64), (len(pairs),))
        return [Values(X, differences(pairs, weights, len(X)))]


class GraphLaplacian(Functional):
    """Differences of f over the edges of a graph of nearest neighbors.

    A functional is ``sqrt(w_ab) (f(x_a) - f(x_b))``. The sum of their squares is ``f' L f`` with the
    graph Laplacian L, the penalty of LapSVM (Belkin, Niyogi and Sindhwani 2006).

    Parameters
    ----------
    n_neighbors : int, default=6
        Number of neighbors. An edge joins two rows if either is among the nearest neighbors of the
        other.
    width : float, optional
        Length scale (> 0) of the edge weights ``w_ab = exp(-distance^2 / (2 width^2))``; by default all
        weights are 1.

    See Also
    --------
    Difference : Weighted differences for given pairs.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.functionals import GraphLaplacian
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
        from sklearn.neighbors import kneighbors_graph

        graph = kneighbors_graph(X, self.n_neighbors, mode="distance")
        edges = sp.coo_matrix(graph)
        ends = np.sort(np.column_stack([edges.row, edges.col]), axis=1)
        pairs, first = np.unique(ends, axis=0, return_index=True)
        weights = np.ones(len(pairs))
        if self.width is not None:
            weights = np.exp(-((edges.data[first] / float(self.width)) ** 2) / 4.0)
        return [Values(X, differences(pairs, weights, len(X)))]


class SecondDerivative(FeatureParameters, Functional):
    """Second partial derivative with respect to features i and j, at each row.

    Parameters
    ----------
    i, j : int or str
        Features, possibly equal: column numbers, or column names if X is a data frame.

    See Also
    --------
    PartialDerivative : First derivatives with respect to some features.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.functionals import SecondDerivative
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
    """Raise ValueError if `value` does not hold integers from 0 to ``size - 1``."""
    refuse_masked(name, value)
    array = np.asarray(value)
    integers = array.ndim == 1 and array.dtype.kind in "iu" and len(array) > 0
    if not integers or np.any(array < 0) or np.any(array >= size):
        raise ValueError(f"{name} must contain integers from 0 to {size - 1}, got {brief(value)}")
