"""Dual variables with in-hull steps: interfaces, and unperturbed rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..utils.jit import FAST, njit
from ..utils.matrices import Matrix, add_combinations, row_dots, squared_lengths
from ..utils.row_arrays import Arrays


class Hull(ABC):
    """Dual variables of a two-class loss, inside the convex hull of each S(x).

    Each row has one averaged plane instead of a list. It consists of a dual variable tau in [0, 1] and
    a point of tau times the hull of S(x). The plane has the normal ``y * point`` and the
    offset ``tau``. ``f`` is the weighted sum of the normals.
    """

    @property
    @abstractmethod
    def offset(self) -> float:
        """Weighted sum of the offsets of all planes."""

    @abstractmethod
    def sweep(self, f: np.ndarray, order: np.ndarray, gaps: np.ndarray) -> None:
        """Maximize the dual in each row of `order` once, and update `f` in place.

        Shapes: `f` (n_features,), `order` (n_steps,), `gaps` (n_rows,).
        """

    def losses(self, f: np.ndarray) -> np.ndarray | None:
        """Compute the exact losses of all rows at `f`; None if the oracle is as fast."""
        return None

    @abstractmethod
    def combination(self) -> np.ndarray:
        """Recompute `f` from the dual variables, without accumulated rounding errors."""

    @abstractmethod
    def arrays(self) -> Arrays:
        """Return copies of the dual variables of all rows."""

    @abstractmethod
    def start(self, arrays: Arrays) -> None:
        """Start from dual variables of the form of `arrays`, clipped to the present sets."""


class LabelHull(ABC):
    r"""Dual variables of a loss of several labels, inside the hull of each S(x).

    The loss of row i with true label c is

    .. math:: \ell_i(W) = \max_{k,\, z \in S(x_i)} \langle w_k - w_c, z \rangle + D_{ck},
       \quad D_{cc} = 0.

    Each pair of a row and another label k has one averaged plane. It consists of a dual variable tau
    and a point of tau times the hull of S(x). The taus of a row add up to at most 1, so

    .. math:: W = \sum_i c_i \sum_k (e_c - e_k) \otimes \varphi_{ik}, \quad
       \varphi_{ik} \in \tau_{ik} \operatorname{conv} S(x_i) .

    Only pairs with a positive tau take memory, so memory does not grow with the number of labels.
    Weights are a C-contiguous array of shape (n_features, n_labels). With an intercept, the last of
    n_features + 1 rows belongs to a constant feature that no oracle changes.
    """

    @property
    @abstractmethod
    def offset(self) -> float:
        """Weighted sum of the offsets of all planes; an offset is tau times cost."""

    @abstractmethod
    def sweep(self, table: np.ndarray, order: np.ndarray, gaps: np.ndarray, every_label: bool) -> None:
        """Maximize the dual in each row of `order` once, and update `table` in place.

        Shapes: `table` (n_features [+ 1], n_labels), `order` (n_steps,), `gaps` (n_rows,).
        """

    @abstractmethod
    def losses(self, table: np.ndarray) -> np.ndarray:
        """Compute the exact losses of all rows over all labels at `table`, (n,)."""

    @abstractmethod
    def combination(self) -> np.ndarray:
        """Recompute the weights from the dual variables, without rounding errors."""

    @abstractmethod
    def arrays(self) -> Arrays:
        """Return copies of the dual variables of all rows."""

    @abstractmethod
    def start(self, arrays: Arrays) -> None:
        """Start from dual variables of the form of `arrays`, clipped to the present sets."""


class IdentityHull(Hull):
    r"""In-hull steps of the plain hinge loss: :math:`S(x) = \{x\}`.

    .. math:: w = \sum_i c_i \tau_i y_i x_i, \quad 0 \le \tau_i \le 1.

    An update is that of dual coordinate ascent for linear SVMs (Hsieh et al. 2008, alg. 1). Hulls of
    larger sets derive from this class and add their own state per row.

    Shapes: `X` (n_rows, n_features), `signs` (n_rows,), `weights` (n_rows,).
    """

    def __init__(
        self, X: Matrix, signs: np.ndarray, weights: np.ndarray, intercept: bool = False
    ) -> None:
        self.X: Any = X if sp.issparse(X) else contiguous(X)
        self.signs = np.ascontiguousarray(signs, dtype=np.float64)
        self.weights = np.array(weights, dtype=np.float64)
        self.intercept = bool(intercept)
        self.taus = np.zeros(X.shape[0])

    @cached_property
    def squares(self) -> np.ndarray:
        """Squared length of each row, (n,)."""
        return squared_lengths(self.X)

    @property
    def offset(self) -> float:
        """Weighted sum of the dual variables, ``sum_i c_i tau_i``."""
        return float(self.weights @ self.taus)

    def sweep(self, f: np.ndarray, order: np.ndarray, gaps: np.ndarray) -> None:
        X, rows = self.X, (self.signs, self.weights, self.squares, self.taus, self.intercept)
        if sp.issparse(X):
            _sweep_csr(X.indptr, X.indices, X.data, *rows, f, order, gaps)
        else:
            _sweep_dense(X, *rows, f, order, gaps)

    def losses(self, f: np.ndarray) -> np.ndarray | None:
        d = self.X.shape[1]
        scores = row_dots(self.X, f[None, :d], np.zeros(len(self.taus), dtype=np.int64))
        return np.maximum(0.0, 1.0 - self.signs * (scores + f[d:].sum()))

    def combination(self) -> np.ndarray:
        f, rates = np.zeros(self.X.shape[1] + self.intercept), self.weights * self.signs * self.taus
        add_combinations(self.X, rates[:, None], f[: self.X.shape[1], None])
        f[self.X.shape[1] :] = rates.sum()
        return f

    def arrays(self) -> Arrays:
        return {"taus": self.taus.copy()}

    def start(self, arrays: Arrays) -> None:
        self.taus = np.clip(arrays["taus"], 0.0, 1.0).astype(np.float64)


def contiguous(A: np.ndarray) -> np.ndarray:
    """Return a contiguous array, of float32 if `A` is, else of float64."""
    A = np.asarray(A)
    return np.ascontiguousarray(A, A.dtype if A.dtype == np.float32 else np.float64)


@njit(**FAST)
def _step(tau, c, y, square, margin, intercept, f):
    """Return the best tau of a row, its gap and the step in f; update the intercept."""
    last = f.size - 1
    if intercept:
        margin += f[last]
        square += 1.0
    slope, curve = 1.0 - y * margin, c * square
    new = tau + slope / curve if curve > 0 else 1.0
    new = min(max(new, 0.0), 1.0)
    step = (new - tau) * c * y
    if intercept:
        f[last] += step
    return new, c * (max(slope, 0.0) - tau * slope), step


@njit(**FAST)
def _sweep_csr(indptr, indices, data, signs, weights, squares, taus, intercept, f, order, gaps):
    for i in order:
        start, stop, margin = indptr[i], indptr[i + 1], 0.0
        gaps[i] = 0.0
        if weights[i] == 0:
            continue
        # Unsigned indices need no comparison with zero.
        for e in range(start, stop):
            margin += data[e] * f[np.uint64(indices[e])]
        taus[i], gaps[i], step = _step(taus[i], weights[i], signs[i], squares[i], margin, intercept, f)
        if step != 0:
            for e in range(start, stop):
                f[np.uint64(indices[e])] += step * data[e]


@njit(**FAST)
def _sweep_dense(X, signs, weights, squares, taus, intercept, f, order, gaps):
    for i in order:
        x, margin = X[i], 0.0
        gaps[i] = 0.0
        if weights[i] == 0:
            continue
        for k in range(x.size):
            margin += x[k] * f[k]
        taus[i], gaps[i], step = _step(taus[i], weights[i], signs[i], squares[i], margin, intercept, f)
        if step != 0:
            for k in range(x.size):
                f[k] += step * x[k]
