"""Regression: a loss for predictions outside the tube around the target."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..utils.matrices import Rows
from ..utils.parameters import check_number
from .bound import BoundStructure
from .classes import RowStructure
from .competitors import LabelFunctions
from .layout import Layout

TRUE, ABOVE, BELOW = range(3)


class Regression(RowStructure):
    """One function whose values are the predictions; epsilon-insensitive loss.

    The loss is ``max(0, |y - f(z)| - epsilon)`` at the worst z in S(x) (Vapnik 1995). Without
    perturbations it equals that of scikit-learn's ``LinearSVR``.

    Internally each row has three labels. Their costs depend on the target and can be negative:

    - error within the tube: score 0, cost 0;
    - f too large: score f, cost ``-y - epsilon``;
    - f too small: score -f, cost ``y - epsilon``.
    """

    rescalings = ("margin",)
    labeled = False

    def __init__(self, epsilon: float = 0.1) -> None:
        self.epsilon = epsilon

    def bind(
        self,
        y: np.ndarray,
        classes: np.ndarray | None = None,
        *,
        layout: Layout | None = None,
        cost: ArrayLike | None = None,
        rescaling: str = "margin",
        position_weight: ArrayLike | None = None,
    ) -> BoundRegression:
        """Bind this structure to true numbers.

        Shapes: `y` (n_rows,).
        """
        if position_weight is not None:
            raise ValueError("position_weight must be None for Regression, which has no labels")
        return BoundRegression(self, y, classes, layout=layout, cost=cost, rescaling=rescaling)

    def functions(self, n_labels: int) -> LabelFunctions:
        """Return the functions of the three labels: zero, f and -f."""
        return LabelFunctions(np.zeros(3, dtype=np.int64), np.array([0.0, 1.0, -1.0]))


class BoundRegression(BoundStructure):
    """Regression with the targets of given rows.

    Shapes: `y` (n_rows,), `targets` (n_rows,).
    """

    structure: Regression
    targets: np.ndarray

    def _take_truth(self, y: np.ndarray, classes: np.ndarray | None, cost: ArrayLike | None) -> int:
        given: dict[str, Any] = {"classes": classes, "cost": cost}
        for name, value in given.items():
            if value is not None:
                raise ValueError(f"{name} must be None for Regression, which has no labels")
        check_number("epsilon", self.structure.epsilon)
        numbers = np.asarray(y)
        if numbers.dtype.kind not in "biuf" or not np.all(np.isfinite(numbers)):
            raise ValueError("y must contain finite numbers")
        self.targets = numbers.astype(np.float64)
        self.codes = np.full(len(self.targets), TRUE)
        return 3

    @property
    def unit(self) -> float:
        return min(1.0, float(np.mean(np.abs(self.targets))))

    def costs(self, rows: Rows) -> np.ndarray:
        targets = self.targets[rows]
        costs = np.zeros((len(targets), 3))
        costs[:, ABOVE], costs[:, BELOW] = -targets, targets
        costs[:, 1:] -= self.structure.epsilon
        return costs
