"""Dual states with one dual variable per row: unperturbed rows."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from ..structures.classes import BoundRegression
from ..utils.jit import njit
from ..utils.matrices import Matrix, floating, squared_lengths
from ..utils.row_arrays import Arrays
from . import case as needs
from .base import DualState, FocusedSweeps, OutOfTime, never, rows_at_once
from .case import Case
from .margin_steps import KINDS, best_alpha, conjugate, loss_value
from .newton_steps import SmoothRows

# The loss of a regression; `margin_steps` has the numbers of the margin losses.
TUBE = 3
# After a pass that leaves more than this fraction of the gap, Newton's method is used. Each of its
# sweeps ends at this fraction of the gap.
SLOW, NEWTON_SHARE = 0.5, 0.1


class PlainRows(FocusedSweeps, DualState):
    """Base class of dual states with one coefficient b_i per row.

    The part of f is ``sum_i b_i x_i``. A visit of a row sets its coefficient to the optimum. The dual
    variable of a row is its coefficient without its weight and its sign in `signs`.

    Shapes: `targets` (n_rows,), `signs` (n_rows,), `coefficients` (n_rows,).
    """

    packs_rows = True
    quick_value = True
    variable: ClassVar[str]
    signs: np.ndarray

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
        """Return ``sum_i b_i x_i`` for coefficients b."""
        f = self.space.zeros()
        self.space.add(f, self.X, coefficients[:, None])
        return f

    def combination(self) -> np.ndarray:
        return self.combined(self.coefficients)

    def arrays(self) -> Arrays:
        weights = self.term.weights
        shares = self.coefficients / np.where(weights > 0, weights, 1.0)
        return {"gaps": self.gaps.astype(np.float32), self.variable: self.signs * shares}

    def _start(self, arrays: Arrays, f: np.ndarray) -> int:
        low, high = self._limits()
        self.gaps[:] = arrays["gaps"]
        self.coefficients = self.signs * self.term.weights * np.clip(arrays[self.variable], low, high)
        return 0

    @abstractmethod
    def _limits(self) -> tuple[float, float]:
        """Return the smallest and the largest dual variable."""


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


class SlopeState(PlainRows):
    """One slope tau per row, with ``tau y x`` in f and ``-L*(tau)`` in the dual.

    Sweeps are those of dual coordinate descent (Hsieh et al. 2008; Yu, Huang and Lin 2011): each row
    takes its optimal slope. Rows with a large norm relative to their weight undo each other's steps.
    Newton's method then continues from the function of the sweeps. Its iterate is stored as `primal`,
    because the function of its slopes may have a much larger objective.
    """

    name = "slopes"

    variable = "taus"

    @staticmethod
    def refuses(case: Case) -> str:
        reason = needs.one_number_a_row(case) or needs.worst_margin(case)
        if not reason and not case.loss.smooth:
            return f"{type(case.loss).__name__} has a kink"
        return reason or needs.plain_rows(case)

    def __init__(self, case: Case, rng: np.random.Generator) -> None:
        super().__init__(case, rng, KINDS[type(case.loss)], case.signs)
        self.signs = self.targets
        self.total = np.inf

    @property
    def offset(self) -> float:
        taus = np.maximum(0.0, self.arrays()["taus"])
        return -float(self.term.weights @ self.term.conjugate(taus))

    def sweep(self, f: np.ndarray, out_of_time: OutOfTime = never) -> tuple[float, int]:
        # A pass over all rows, or steps of Newton's method.
        visits = 0
        if self.primal is None:
            self.unwatched = self.rows_at_once
            gap, visits = self.visit_all(f, out_of_time)
            slow, self.total = gap > SLOW * self.total, gap
            if not slow or not np.isfinite(gap):
                return gap, visits
        start = f if self.primal is None else self.primal
        found = SmoothPlainRows(self, f).minimize(start, NEWTON_SHARE, 0.0, out_of_time)
        self.primal = found.f
        # Far from the optimum, the current slopes may have a larger dual value.
        if found.proven > self.offset - 0.5 * self.space.dot(f, f):
            self.coefficients = self.targets * self.term.weights * found.slopes
            f[:] = found.of_slopes
        return found.gap, visits + len(self.rows)

    def value(self, f: np.ndarray) -> tuple[float, float]:
        value = float(self.term.weights @ self.term.losses(-self.targets * self.scores(f)))
        return value, value

    def _start(self, arrays: Arrays, f: np.ndarray) -> int:
        self.primal, self.total = None, np.inf
        return super()._start(arrays, f)

    def _limits(self) -> tuple[float, float]:
        low, high = self.term.loss.domain()
        return -float(high), -float(low)


class SmoothPlainRows(SmoothRows):
    """Minimization over all rows, with each row itself as its point."""

    def __init__(self, state: SlopeState, f: np.ndarray) -> None:
        self.state = state
        others = f - state.combination()
        super().__init__(state.space, state.term.loss, state.term.weights, others)

    def gains(self, f: np.ndarray) -> np.ndarray:
        return -self.state.targets * self.state.scores(f)

    def sum_of(self, slopes: np.ndarray) -> np.ndarray:
        return self.state.combined(self.state.targets * self.weights * slopes)


class TubeState(PlainRows):
    """Coefficient b_i of each row, between minus its weight and its weight.

    The slope of a row's loss is ``-b_i`` without the weight. The dual is ``sum_i b_i y_i - epsilon
    |b_i|`` minus half the squared norm.
    """

    name = "tube"

    variable = "slopes"

    @staticmethod
    def refuses(case: Case) -> str:
        reason = needs.one_number_a_row(case) or needs.worst_case_of_rows(case)
        if not reason and not isinstance(case.term.labels, BoundRegression):
            return "the structure is not regression"
        return reason or needs.plain_rows(case)

    def __init__(self, case: Case, rng: np.random.Generator) -> None:
        labels = case.term.labels
        super().__init__(case, rng, TUBE, labels.targets, float(labels.structure.epsilon))
        self.signs = -np.ones(len(self.targets))

    def _limits(self) -> tuple[float, float]:
        return -1.0, 1.0

    @property
    def offset(self) -> float:
        return float(self.coefficients @ self.targets - self.tube * np.abs(self.coefficients).sum())

    def value(self, f: np.ndarray) -> tuple[float, float]:
        off = np.abs(self.scores(f) - self.targets)
        value = float(self.term.weights @ np.maximum(0.0, off - self.tube))
        return value, value
