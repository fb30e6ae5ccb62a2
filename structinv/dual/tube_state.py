"""Regression on rows that nothing changes: one number a row, and a step in closed form."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ..structures.regression import ABOVE, BELOW
from ..terms.planes import PlaneSet
from ..utils.jit import njit
from ..utils.matrices import Matrix, floating, squared_lengths
from ..utils.packed_rows import PackedRows
from .case import Case
from .focused import FocusedSweeps, rows_at_once
from .linear_member_state import LinearMemberState


class TubeState(FocusedSweeps, LinearMemberState):
    """How far each row pulls the function up or down, between its weight and minus its weight.

    A row has a plane that is below the tube and one that is above, and only one of them has mass, so
    that a number b with ``f = sum_i b_i x_i`` says all. The dual is ``sum_i b_i y_i - epsilon |b_i|``
    minus half of the squared norm, and its maximum along one b is known (Ho and Lin 2012, sec. 3.2).

    Parameters
    ----------
    case : Case
        Worst cases of a regression, linear in the input, whose oracle changes nothing.
    rng : numpy.random.Generator
    """

    packs_rows = True

    def __init__(self, case: Case, rng: np.random.Generator) -> None:
        super().__init__(case, rng)
        rows = case.term
        X = floating(rows.bound.X)
        self.X: Matrix = X if sp.issparse(X) else np.ascontiguousarray(X)
        self.squares = squared_lengths(self.X) + float(self.space.intercept)
        self.targets, self.tube = rows.labels.targets, float(rows.labels.structure.epsilon)
        self.pulls = np.zeros(len(self.targets))
        self.rows_at_once = rows_at_once(self.X)

    def _step(self, f: np.ndarray, order: np.ndarray, again: bool) -> None:
        problem = self.targets, self.tube, self.term.weights, self.squares
        rows = order, f, self.space.intercept, *problem, self.pulls, self.gaps
        if sp.issparse(self.X):
            _steps_csr(self.X.indptr, self.X.indices, self.X.data, *rows)
        else:
            _steps_dense(self.X, *rows)

    @property
    def offset(self) -> float:
        return float(self.pulls @ self.targets - self.tube * np.abs(self.pulls).sum())

    def combination(self) -> np.ndarray:
        f = self.space.zeros()
        self.space.add(f, self.X, self.pulls[:, None])
        return f

    def planes(self) -> PlaneSet:
        used = self.pulls != 0
        self.pairs[:, 0] = np.where(used, np.where(self.pulls > 0, BELOW, ABOVE), -1)
        self.pairs[:, 1:] = -1
        self.masses[:] = 0.0
        self.masses[used, 0] = np.abs(self.pulls[used]) / self.term.weights[used]
        return super().planes()

    def restore(self, planes: PlaneSet) -> None:
        super().restore(planes)
        signs = np.where(self.pairs == BELOW, 1.0, -1.0)
        self.pulls = self.term.weights * np.sum(signs * self.masses, axis=1)

    def pack(self) -> PackedRows:
        each = self.gaps.astype(np.float32), self.pulls / self._counted
        return PackedRows(each)

    def unpack(self, packed: PackedRows) -> None:
        self.gaps[:], shares = packed.each
        self.pulls = shares * self._counted

    @property
    def _counted(self) -> np.ndarray:
        """The weights, which may be others when packed pulls are taken up; 1 in place of 0."""
        weights = self.term.weights
        return np.where(weights > 0, weights, 1.0)

    def value(self, f: np.ndarray) -> tuple[float, float]:
        off = np.abs(self.X @ self.space.weights(f)[0] + self.space.constants(f)[0] - self.targets)
        value = float(self.term.weights @ np.maximum(0.0, off - self.tube))
        return value, value


@njit(cache=True, nogil=True)
def _steps_dense(X, order, f, intercept, targets, tube, weights, squares, pulls, gaps):
    n_features = X.shape[1]
    for i in order:
        row = X[i]
        value = f[n_features] if intercept else 0.0
        value += _product(row, f)
        off = value - targets[i]
        gaps[i], pull = _gap_and_pull(off, tube, weights[i], squares[i], pulls[i])
        change = pull - pulls[i]
        if change != 0.0:
            pulls[i] = pull
            for j in range(n_features):
                f[j] += change * row[j]
            if intercept:
                f[n_features] += change


@njit(cache=True, nogil=True)
def _steps_csr(indptr, indices, data, order, f, intercept, targets, tube, weights, squares, pulls, gaps):
    for i in order:
        value = f[-1] if intercept else 0.0
        for e in range(indptr[i], indptr[i + 1]):
            value += data[e] * f[indices[e]]
        off = value - targets[i]
        gaps[i], pull = _gap_and_pull(off, tube, weights[i], squares[i], pulls[i])
        change = pull - pulls[i]
        if change != 0.0:
            pulls[i] = pull
            for e in range(indptr[i], indptr[i + 1]):
                f[indices[e]] += change * data[e]
            if intercept:
                f[-1] += change


@njit(cache=True, nogil=True, fastmath={"reassoc"})
def _product(row, f):
    total = 0.0
    for j in range(len(row)):
        total += row[j] * f[j]
    return total


@njit(cache=True, nogil=True)
def _gap_and_pull(off, tube, weight, square, pull):
    """A row's weighted loss minus what it has in the dual, and its best pull, all others as they are.

    `off` is how far f is above the target.
    """
    outside = abs(off) - tube
    gap = weight * (0.0 if outside < 0.0 else outside) + pull * off + tube * abs(pull)
    if square == 0.0:
        best = 0.0 if outside <= 0.0 else -np.sign(off) * np.inf
    else:
        best = pull - off / square
        size = abs(best) - tube / square
        best = np.sign(best) * (0.0 if size < 0.0 else size)
    best = -weight if best < -weight else best
    return 0.0 if gap < 0.0 else gap, weight if best > weight else best
