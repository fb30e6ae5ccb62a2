"""Dual state for regression on unperturbed rows, with steps in closed form."""

from __future__ import annotations

import numpy as np

from ..structures.classes import ABOVE, BELOW
from ..terms.planes import PlaneSet
from .case import Case
from .linear_member_state import LinearMemberState
from .plain_rows import TUBE, PlainRows


class TubeState(PlainRows, LinearMemberState):
    """Coefficient b_i of each row, between minus its weight and its weight.

    A row has one plane below the tube and one above it. Only one of them is active, so that a number b_i
    with ``f = sum_i b_i x_i`` determines both. The dual is ``sum_i b_i y_i - epsilon |b_i|`` minus half
    the squared norm.
    """

    def __init__(self, case: Case, rng: np.random.Generator) -> None:
        LinearMemberState.__init__(self, case, rng)
        labels = case.term.labels
        PlainRows.__init__(self, case, rng, TUBE, labels.targets, float(labels.structure.epsilon))

    @property
    def offset(self) -> float:
        return float(self.coefficients @ self.targets - self.tube * np.abs(self.coefficients).sum())

    def planes(self) -> PlaneSet:
        used = self.coefficients != 0
        self.pairs[:, 0] = np.where(used, np.where(self.coefficients > 0, BELOW, ABOVE), -1)
        self.pairs[:, 1:] = -1
        self.alphas[:] = 0.0
        self.alphas[used, 0] = np.abs(self.coefficients[used]) / self.term.weights[used]
        return LinearMemberState.planes(self)

    def restore(self, planes: PlaneSet) -> None:
        LinearMemberState.restore(self, planes)
        signs = np.where(self.pairs == BELOW, 1.0, -1.0)
        self.coefficients = self.term.weights * np.sum(signs * self.alphas, axis=1)

    def value(self, f: np.ndarray) -> tuple[float, float]:
        off = np.abs(self.scores(f) - self.targets)
        value = float(self.term.weights @ np.maximum(0.0, off - self.tube))
        return value, value
