"""Kernel machines whose fits are shortened to a number of support vectors."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, Self

from sklearn.exceptions import ConvergenceWarning

from ..learnt import learnt_attributes
from ..objective import Objective
from ..oracles import InvarianceOracle
from .compression import check_count
from .kernel_machine import KernelMachine

# Of the objective at zero: gaps of smaller values are relative to this.
LEAST_SHARE = 1e-12


class BudgetedMachine(KernelMachine):
    """A kernel machine that stores `budget`, the most support vectors of a fit, or None."""

    budget: int | None

    def _check_parameters(self) -> InvarianceOracle:
        oracle = super()._check_parameters()
        if self.budget is not None:
            check_count("budget", self.budget)
            if self.warm_start:
                raise ValueError(
                    "warm_start must be False with a budget, after which nothing is left to start "
                    f"from, got budget={self.budget!r}"
                )
        return oracle

    def _finish(self, objective: Objective) -> None:
        """Shorten the expansion of a fit that is done to the budget."""
        if self.budget is None or len(self.support_) <= self.budget:
            return
        try:
            smaller = self._shorter(objective, self.budget)
        except KeyboardInterrupt:
            warnings.warn(
                f"{type(self).__name__} was interrupted while it was being shortened to "
                f"budget={self.budget!r}: it has {len(self.support_)} support vectors, and "
                "compress(n_support=...) makes a shorter copy",
                ConvergenceWarning,
                stacklevel=5,
            )
            raise
        # At once: Ctrl-C must not come between.
        self.__dict__.update(learnt_attributes(smaller))

    def _shorter(self, objective: Objective, n_support: int) -> Self:
        """A compressed copy whose solution has its own value of the objective."""
        smaller: Any = self.compress(n_support=n_support)
        space: Any = objective.space
        value = objective.value(smaller._in(space)).upper
        gap = value - smaller.solution_.dual
        scale = max(value, LEAST_SHARE * objective.value(space.zeros()).upper)
        smaller.solution_ = replace(
            smaller.solution_, primal=value, gap=gap, relative_gap=gap / scale if scale > 0 else 0.0
        )
        return smaller
