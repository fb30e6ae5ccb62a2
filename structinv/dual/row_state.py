"""Dual states with one dual variable per row: unperturbed rows."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..losses import Hinge, ScalarLoss
from ..spaces.base import Element
from ..structures.classes import BoundRegression
from ..utils.jit import LEAN_FAST, njit
from ..utils.matrices import Matrix, csr_arrays, floating, squared_lengths
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
_NO_TARGETS = np.empty(0)


class RowLosses(NamedTuple):
    """Losses ``c_i L(-s_i f(x_i))`` of rows, in the format of the compiled functions.

    - `kind`: number of L
    - `signs, weights, squares` (n,): s_i, c_i, and the squared length of x_i
    - `intercept`: whether f has a constant feature, the last one
    - `targets` (n,), `tube`: numbers of a regression, and its epsilon; without targets otherwise
    """

    kind: int
    signs: np.ndarray
    weights: np.ndarray
    squares: np.ndarray
    intercept: bool
    targets: np.ndarray = _NO_TARGETS
    tube: float = 0.0


class RowState(FocusedSweeps, DualState):
    r"""Base class of dual states with one dual variable :math:`\tau_i` per row.

    The part of f is :math:`\sum_i c_i s_i \tau_i x_i`. A visit of a row sets its dual variable to the
    optimum, as in dual coordinate descent (Hsieh et al. 2008; Yu, Huang and Lin 2011). States of larger
    sets S(x) derive from `HingeState` and add their own variables per row.

    Shapes: `taus` (n_rows,), `gaps` (n_rows,).
    """

    packs_rows = True
    quick_value = True
    variable: ClassVar[str] = "taus"

    def __init__(self, case: Case, rng: np.random.Generator, X: Matrix, losses: RowLosses) -> None:
        self.term, self.space, self.rng = case.term, case.space, rng
        self.X: Any = X
        self.losses = losses
        self.taus, self.gaps = np.zeros((2, len(losses.weights)))
        self.rows = np.flatnonzero(losses.weights > 0)
        self.rows_at_once = rows_at_once(X)

    def _step(self, f: Element, order: np.ndarray, again: bool) -> None:
        rows = self.losses, self.taus, f, order, self.gaps
        if sp.issparse(self.X):
            _sweep_csr(csr_arrays(self.X), *rows)
        else:
            _sweep_dense(self.X, *rows)

    def scores(self, f: Element) -> np.ndarray:
        """Return ``f(x_i)`` of each row."""
        found: np.ndarray = self.X @ self.space.weights(f)[0] + self.space.constants(f)[0]
        return found

    def combined(self, taus: np.ndarray) -> Element:
        """Return the part of f for other dual variables."""
        f = self.space.zeros()
        self.space.add(f, self.X, (self.losses.signs * self.losses.weights * taus)[:, None])
        return f

    def combination(self) -> Element:
        return self.combined(self.taus)

    def arrays(self) -> Arrays:
        return {"gaps": self.gaps.astype(np.float32), self.variable: self.taus.copy()}

    def _start(self, arrays: Arrays, f: Element) -> int:
        self.gaps[:] = arrays["gaps"]
        self.taus[:] = np.clip(arrays[self.variable], *self._limits())
        return 0

    @abstractmethod
    def _limits(self) -> tuple[float, float]:
        """Return the smallest and the largest dual variable."""


@njit(**LEAN_FAST)
def _sweep_dense(X, losses, taus, f, order, gaps):
    kind, signs, weights, squares, intercept, targets, tube = losses
    last, target = f.size - 1, 0.0
    for i in order:
        x, c, s = X[i], weights[i], signs[i]
        gaps[i] = 0.0
        if c == 0:
            continue
        value = f[last] if intercept else 0.0
        for k in range(x.size):
            value += x[k] * f[k]
        if kind == TUBE:
            target = targets[i]
        gap, new = _gap_and_best(kind, -s * value, taus[i], c * (squares[i] + intercept), target, tube)
        gaps[i] = c * gap
        step = c * s * (new - taus[i])
        if step != 0:
            taus[i] = new
            for k in range(x.size):
                f[k] += step * x[k]
            if intercept:
                f[last] += step


@njit(**LEAN_FAST)
def _sweep_csr(rows, losses, taus, f, order, gaps):
    indptr, indices, data = rows
    kind, signs, weights, squares, intercept, targets, tube = losses
    last, target = f.size - 1, 0.0
    for i in order:
        start, stop, c, s = indptr[i], indptr[i + 1], weights[i], signs[i]
        gaps[i] = 0.0
        if c == 0:
            continue
        value = f[last] if intercept else 0.0
        # Unsigned indices need no comparison with zero.
        for e in range(start, stop):
            value += data[e] * f[np.uint64(indices[e])]
        if kind == TUBE:
            target = targets[i]
        gap, new = _gap_and_best(kind, -s * value, taus[i], c * (squares[i] + intercept), target, tube)
        gaps[i] = c * gap
        step = c * s * (new - taus[i])
        if step != 0:
            taus[i] = new
            for e in range(start, stop):
                f[np.uint64(indices[e])] += step * data[e]
            if intercept:
                f[last] += step


@njit(**LEAN_FAST)
def _gap_and_best(kind, gain, tau, q, target, tube):
    """Return the gap of a row, and its best dual variable with all others fixed.

    `gain` is the argument of the loss, and `q` the curvature of the dual. A tube has a closed form (Ho
    and Lin 2012, sec. 3.2).
    """
    if kind != TUBE:
        gap = loss_value(kind, gain) + conjugate(kind, tau) - tau * gain
        return max(gap, 0.0), best_alpha(kind, gain + q * tau, q)
    off = gain - target
    outside = abs(off) - tube
    gap = max(max(outside, 0.0) + tube * abs(tau) - tau * off, 0.0)
    if q == 0.0:
        return gap, np.sign(off) if outside > 0.0 else 0.0
    best = tau + off / q
    size = min(max(abs(best) - tube / q, 0.0), 1.0)
    return gap, size if best > 0.0 else -size


class HingeState(RowState):
    r"""Dual variables in [0, 1] of the two-class hinge loss of unperturbed rows.

    Each row has one averaged plane instead of a list. It consists of :math:`\tau` and a point of
    :math:`\tau` times the convex hull of S(x). The plane has the normal ``y * point`` and the offset
    :math:`\tau`. Here, the point is :math:`\tau x`.
    """

    name = "rows"

    def __init__(self, case: Case, rng: np.random.Generator, X: Matrix | None = None) -> None:
        X = contiguous(case.term.bound.X) if X is None else X
        super().__init__(case, rng, X, row_losses(case, Hinge(), X, case.term.weights * case.others))

    @staticmethod
    def refuses(case: Case) -> str:
        return needs.hinge_of_rows(case) or needs.keeps_words(case)

    @property
    def offset(self) -> float:
        return float(self.losses.weights @ self.taus)

    def value(self, f: Element) -> tuple[float, float]:
        losses = np.maximum(0.0, 1.0 - self.losses.signs * self.scores(f))
        value = float(self.losses.weights @ losses)
        return value, value

    def _limits(self) -> tuple[float, float]:
        return 0.0, 1.0


def contiguous(X: Matrix) -> Matrix:
    """Return rows with a floating dtype, as a CSR matrix or a contiguous array."""
    X = floating(X)
    return X if sp.issparse(X) else np.ascontiguousarray(X)


def row_losses(case: Case, loss: ScalarLoss, X: Matrix, weights: np.ndarray) -> RowLosses:
    """Return the losses of margins of rows."""
    return RowLosses(KINDS[type(loss)], case.signs, weights, squared_lengths(X), case.space.intercept)


class SlopeState(RowState):
    """One slope tau per row, with ``tau y x`` in f and ``-L*(tau)`` in the dual.

    Rows with a large norm relative to their weight undo each other's steps. Newton's method then
    continues from the function of the sweeps. Its iterate is stored as `primal`, because the function
    of its slopes may have a much larger objective.
    """

    name = "slopes"

    def __init__(self, case: Case, rng: np.random.Generator) -> None:
        X = contiguous(case.term.bound.X)
        super().__init__(case, rng, X, row_losses(case, case.loss, X, case.term.weights))
        self.total = np.inf

    @staticmethod
    def refuses(case: Case) -> str:
        reason = needs.one_number_a_row(case) or needs.worst_margin(case)
        if not reason and not case.loss.smooth:
            return f"{type(case.loss).__name__} has a kink"
        return reason or needs.plain_rows(case)

    @property
    def offset(self) -> float:
        taus = np.maximum(0.0, self.taus)
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
            self.taus = found.slopes
            f[:] = found.of_slopes
        return found.gap, visits + len(self.rows)

    def gains(self, f: np.ndarray) -> np.ndarray:
        """Return the argument of the loss of each row."""
        return -self.losses.signs * self.scores(f)

    def value(self, f: np.ndarray) -> tuple[float, float]:
        value = float(self.term.weights @ self.term.losses(self.gains(f)))
        return value, value

    def _start(self, arrays: Arrays, f: Element) -> int:
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
        return self.state.gains(f)

    def sum_of(self, slopes: np.ndarray) -> np.ndarray:
        return self.state.combined(slopes)


class TubeState(RowState):
    """Slope of the loss of each row, between -1 and 1.

    The dual is ``-sum_i c_i (slope_i y_i + epsilon |slope_i|)`` minus half the squared norm.
    """

    name = "tube"
    variable = "slopes"

    def __init__(self, case: Case, rng: np.random.Generator) -> None:
        X, weights = contiguous(case.term.bound.X), case.term.weights
        bound_structure = case.term.bound_structure
        problem = weights, squared_lengths(X), case.space.intercept, bound_structure.targets
        losses = RowLosses(
            TUBE, -np.ones(len(weights)), *problem, float(bound_structure.structure.epsilon)
        )
        super().__init__(case, rng, X, losses)

    @staticmethod
    def refuses(case: Case) -> str:
        reason = needs.one_number_a_row(case) or needs.worst_case_of_rows(case)
        if not reason and not isinstance(case.term.bound_structure, BoundRegression):
            return "the structure is not regression"
        return reason or needs.plain_rows(case)

    @property
    def offset(self) -> float:
        losses = self.losses
        return -float(losses.weights @ (self.taus * losses.targets + losses.tube * np.abs(self.taus)))

    def value(self, f: np.ndarray) -> tuple[float, float]:
        off = np.abs(self.scores(f) - self.losses.targets)
        value = float(self.term.weights @ np.maximum(0.0, off - self.losses.tube))
        return value, value

    def _limits(self) -> tuple[float, float]:
        return -1.0, 1.0
