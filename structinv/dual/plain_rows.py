"""Dual coordinate descent on unperturbed rows, with one dual variable per row."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ..utils.jit import njit
from ..utils.matrices import Matrix, floating, squared_lengths
from ..utils.packed_rows import PackedRows
from .base import DualState
from .case import Case
from .focused_sweeps import FocusedSweeps, rows_at_once
from .margin_steps import best_alpha, conjugate, loss_value

# The loss of a regression; `margin_steps` has the numbers of the margin losses.
TUBE = 3


class PlainRows(FocusedSweeps, DualState):
    """Base class of dual states with one coefficient b_i per row.

    The part of f is ``sum_i b_i x_i``. A visit of a row sets its coefficient to the optimum.

    Shapes: `targets` (n_rows,), `coefficients` (n_rows,).
    """

    packs_rows = True
    quick_value = True

    def __init__(
        self, case: Case, rng: np.random.Generator, kind: int, targets: np.ndarray, tube: float = 0.0
    ) -> None:
        self.term = case.term
        self.space = case.space
        self.rng = rng
        X = floating(self.term.bound.X)
        self.X: Matrix = X if sp.issparse(X) else np.ascontiguousarray(X)
        self.squares = squared_lengths(self.X) + float(self.space.intercept)
        self.kind, self.targets, self.tube = kind, targets, tube
        self.coefficients = np.zeros(len(targets))
        self.gaps = np.zeros(len(targets))
        self.rows = np.flatnonzero(self.term.weights > 0)
        self.rows_at_once = rows_at_once(self.X)

    def _step(self, f: np.ndarray, order: np.ndarray, again: bool) -> None:
        problem = self.kind, self.targets, self.tube, self.term.weights, self.squares
        rows = order, f, self.space.intercept, *problem, self.coefficients, self.gaps
        if sp.issparse(self.X):
            _steps_csr(self.X.indptr, self.X.indices, self.X.data, *rows)
        else:
            _steps_dense(self.X, *rows)

    def scores(self, f: np.ndarray) -> np.ndarray:
        """Return ``f(x_i)`` of each row."""
        found: np.ndarray = self.X @ self.space.weights(f)[0] + self.space.constants(f)[0]
        return found

    def combined(self, coefficients: np.ndarray) -> np.ndarray:
        """Return ``sum_i pulls_i x_i``."""
        f = self.space.zeros()
        self.space.add(f, self.X, coefficients[:, None])
        return f

    def combination(self) -> np.ndarray:
        return self.combined(self.coefficients)

    def pack(self) -> PackedRows:
        each = self.gaps.astype(np.float32), self.coefficients / self._counted
        return PackedRows(each)

    def unpack(self, packed: PackedRows) -> None:
        self.gaps[:], shares = packed.arrays
        self.coefficients = shares * self._counted

    @property
    def _counted(self) -> np.ndarray:
        """Weights, with 1 instead of 0; they may differ between packing and unpacking."""
        weights = self.term.weights
        return np.where(weights > 0, weights, 1.0)


@njit(cache=True, nogil=True)
def _steps_dense(X, order, f, intercept, kind, targets, tube, weights, squares, coefficients, gaps):
    n_features = X.shape[1]
    for i in order:
        row = X[i]
        value = f[n_features] if intercept else 0.0
        value += _product(row, f)
        gaps[i], coefficient = _gap_and_coefficient(
            kind, value, targets[i], tube, weights[i], squares[i], coefficients[i]
        )
        change = coefficient - coefficients[i]
        if change != 0.0:
            coefficients[i] = coefficient
            for j in range(n_features):
                f[j] += change * row[j]
            if intercept:
                f[n_features] += change


@njit(cache=True, nogil=True)
def _steps_csr(
    indptr, indices, data, order, f, intercept, kind, targets, tube, weights, squares, coefficients, gaps
):
    for i in order:
        value = f[-1] if intercept else 0.0
        for e in range(indptr[i], indptr[i + 1]):
            value += data[e] * f[np.uint64(indices[e])]
        gaps[i], coefficient = _gap_and_coefficient(
            kind, value, targets[i], tube, weights[i], squares[i], coefficients[i]
        )
        change = coefficient - coefficients[i]
        if change != 0.0:
            coefficients[i] = coefficient
            for e in range(indptr[i], indptr[i + 1]):
                f[np.uint64(indices[e])] += change * data[e]
            if intercept:
                f[-1] += change


@njit(cache=True, nogil=True, fastmath={"reassoc"})
def _product(row, f):
    total = 0.0
    for j in range(len(row)):
        total += row[j] * f[j]
    return total


@njit(cache=True, nogil=True)
def _gap_and_coefficient(kind, value, target, tube, weight, square, coefficient):
    """Return a row's weighted gap, and its optimal coefficient with all others fixed.

    `value` is f at the row. For a margin loss, the coefficient is slope times weight times sign. For a
    tube it has a closed form (Ho and Lin 2012, sec. 3.2).
    """
    if kind != TUBE:
        gain, alpha, q = -target * value, target * coefficient / weight, weight * square
        gap = weight * (loss_value(kind, gain) + conjugate(kind, alpha) - alpha * gain)
        best = target * weight * best_alpha(kind, gain + q * alpha, q)
        return 0.0 if gap < 0.0 else gap, best
    off = value - target
    outside = abs(off) - tube
    gap = weight * (0.0 if outside < 0.0 else outside) + coefficient * off + tube * abs(coefficient)
    if square == 0.0:
        best = 0.0 if outside <= 0.0 else -np.sign(off) * np.inf
    else:
        best = coefficient - off / square
        size = abs(best) - tube / square
        best = np.sign(best) * (0.0 if size < 0.0 else size)
    best = -weight if best < -weight else best
    return 0.0 if gap < 0.0 else gap, weight if best > weight else best
