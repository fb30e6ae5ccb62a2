"""Dual state with one slope for each functional of a penalty."""

from __future__ import annotations

import numpy as np

from ..losses import ScalarLoss
from ..spaces.base import Element
from ..terms import Penalty
from ..utils.row_arrays import Arrays
from .base import DualState, OutOfTime, never
from .case import Case

# Proximal steps on the slopes in a sweep.
STEPS = 5
# Steps of the power iteration for the largest eigenvalue.
ROUNDS = 50


class PenaltyState(DualState):
    """One slope per functional.

    A list of planes would be less accurate. The average of planes has the averages of their slopes, so
    one slope per functional represents all averages of planes.

    The dual of ``sum_j c_j r(L_j f)`` is ``- sum_j c_j r*(p_j)``, and its part of f is
    ``- sum_j c_j p_j z_j``. A sweep does proximal-gradient steps on p. The step length is the reciprocal
    of the largest eigenvalue of the weighted Gram matrix of the functionals. The first sweep computes
    it, and later ones continue if it runs out of time.
    """

    name = "penalty"

    adds_planes = False

    @staticmethod
    def refuses(case: Case) -> str:
        known = isinstance(case.term, Penalty)
        return "" if known else "the term is not a penalty on functionals"

    def __init__(self, case: Case, rng: np.random.Generator) -> None:
        term, space = case.term, case.space
        loss, weights = term.loss, term.weights[0] * term.shares
        self.term = term
        self.functionals = term.functionals
        self.loss = loss
        self.weights = weights
        self.space = space
        self.slopes = loss.derivative(np.zeros(len(weights)))
        self._vector = rng.standard_normal(len(weights))
        self._rounds, self._eigenvalue = 0, float(np.finfo(float).tiny)

    def _step_length(self, out_of_time: OutOfTime) -> float | None:
        """Return the length of a step, or None if time is up before it is known."""
        root = np.sqrt(self.weights)
        while self._rounds < ROUNDS:
            if out_of_time():
                return None
            norm = np.linalg.norm(self._vector)
            if norm == 0:
                break
            element = self.functionals.combine(self.space, root * self._vector / norm)
            self._vector = root * self.functionals.apply(self.space, element)
            self._eigenvalue = max(self._eigenvalue, float(np.linalg.norm(self._vector)))
            self._rounds += 1
        return 1.0 / (1.05 * self._eigenvalue)

    @property
    def offset(self) -> float:
        return -float(self.weights @ self.loss.conjugate(self.slopes))

    def sweep(self, f: Element, out_of_time: OutOfTime = never) -> tuple[float, int]:
        u = self.functionals.apply(self.space, f)
        parts = self.loss.value(u) + self.loss.conjugate(self.slopes) - self.slopes * u
        gap = float(self.weights @ np.maximum(0.0, parts))
        step = self._step_length(out_of_time)
        for _ in range(STEPS):
            if step is None or out_of_time():
                break
            new = self.loss.conjugate_prox(self.slopes + step * u, step)
            f -= self.functionals.combine(self.space, self.weights * (new - self.slopes))
            self.slopes = new
            u = self.functionals.apply(self.space, f)
        return gap, 0

    def combination(self) -> Element:
        return self.functionals.combine(self.space, -self.weights * self.slopes)

    def arrays(self) -> Arrays:
        return {"slopes": self.slopes.copy()}

    def _start(self, arrays: Arrays, f: Element) -> int:
        self.slopes = feasible_slopes(arrays["slopes"], self.loss)
        return 0


def feasible_slopes(slopes: np.ndarray, loss: ScalarLoss) -> np.ndarray:
    """Return slopes moved into the domain of the conjugate of a loss."""
    clipped = np.clip(slopes, *loss.domain())
    return np.where(
        np.isfinite(loss.conjugate(clipped)), clipped, loss.derivative(np.zeros(len(slopes)))
    )
