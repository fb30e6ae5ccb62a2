"""L-BFGS in the function space."""

from __future__ import annotations

import numpy as np

from ..dual_states import Hurried
from ..objective import Objective
from .base import check_positive_integer
from .smooth import SmoothDescent, SmoothState


class LBFGS(SmoothDescent):
    """Limited-memory BFGS steps in the inner product of the function space: one product a step.

    Parameters
    ----------
    memory : int, default=10
        Pairs of steps and changes of the gradient that are kept.
    """

    name = "Representer(method='lbfgs')"

    def __init__(self, memory: int = 10) -> None:
        self.memory = memory

    def validate(self, objective: Objective) -> None:
        check_positive_integer("memory", self.memory)
        super().validate(objective)

    def step(self, objective: Objective, state: SmoothState) -> float | None:
        at = state.at
        before = at.coefficients, at.functionals, at.gradient, at.of_gradient
        estimate = super().step(objective, state)
        after = at.coefficients, at.functionals, at.gradient, at.of_gradient
        s, of_s, y, of_y = (new - old for new, old in zip(after, before, strict=True))
        bend = float(s @ of_y)
        # Envelopes that were narrowed in between changed the gradient, too.
        if bend > 1e-12 * float(y @ of_y):
            state.memory = [*state.memory, (s, of_s, y, of_y, bend)][-self.memory :]
        return estimate

    def _direction(self, state: SmoothState, hurried: Hurried) -> tuple[np.ndarray, np.ndarray]:
        """The two loops of Nocedal (1980), on functions."""
        q, of_q = -state.at.gradient, -state.at.of_gradient
        shares = []
        for s, _, y, of_y, bend in reversed(state.memory):
            share = float(s @ of_q) / bend
            q, of_q = q - share * y, of_q - share * of_y
            shares.append(share)
        if state.memory:
            _, _, y, of_y, bend = state.memory[-1]
            scale = bend / float(y @ of_y)
            q, of_q = scale * q, scale * of_q
        for (s, of_s, y, _, bend), share in zip(state.memory, reversed(shares), strict=True):
            factor = share - float(y @ of_q) / bend
            q, of_q = q + factor * s, of_q + factor * of_s
        return q, of_q
