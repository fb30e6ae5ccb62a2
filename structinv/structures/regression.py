"""Numbers to be predicted: a loss where a prediction leaves the tube around its target."""

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
    """One function whose values are the predictions; the loss is what exceeds `epsilon` (Vapnik 1995).

    The loss is ``max(0, |y - f(z)| - epsilon)`` at the worst member z of S(x): without changes that of
    scikit-learn's ``LinearSVR``. A row has three labels: that all is well, whose score is zero; that f
    is too high, which wins f and costs ``-y - epsilon``; and that it is too low, which wins -f and costs
    ``y - epsilon``. So costs depend on the target and may be negative.

    Parameters
    ----------
    epsilon : float, default=0.1
        Half of the tube's width, at least 0: how far predictions may be off for nothing.

    Examples
    --------
    >>> import numpy as np
    >>> bound = Regression(epsilon=0.5).bind(np.array([2.0, -1.0]))
    >>> bound.competitors(slice(None)).costs
    array([[ 0. , -2.5,  1.5],
           [ 0. ,  0.5, -1.5]])
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
        """See `Structure.bind`; `y` holds numbers, all that speaks of labels must be None.

        Raises
        ------
        ValueError
            For targets that are no finite numbers, and for arguments that speak of labels.
        """
        if position_weight is not None:
            raise ValueError("position_weight must be None for Regression, whose truth is no label")
        return BoundRegression(self, y, classes, layout=layout, cost=cost, rescaling=rescaling)

    def functions(self, n_labels: int) -> LabelFunctions:
        """See `Structure.functions`: zero, f and -f, whatever `n_labels` is."""
        return LabelFunctions(np.zeros(3, dtype=np.int64), np.array([0.0, 1.0, -1.0]))


class BoundRegression(BoundStructure):
    """A regression with true numbers of given rows.

    Parameters
    ----------
    structure : Regression
    y : (n_rows,) array-like
        Targets.
    classes, layout, cost, rescaling, position_weight
        See `Regression.bind`.

    Attributes
    ----------
    targets : (n_rows,) array of float64
    """

    structure: Regression
    targets: np.ndarray

    def _take_truth(self, y: np.ndarray, classes: np.ndarray | None, cost: ArrayLike | None) -> int:
        given: dict[str, Any] = {"classes": classes, "cost": cost}
        for name, value in given.items():
            if value is not None:
                raise ValueError(f"{name} must be None for Regression, whose truth is no label")
        check_number("epsilon", self.structure.epsilon)
        numbers = np.asarray(y)
        if numbers.dtype.kind not in "biuf" or not np.all(np.isfinite(numbers)):
            raise ValueError("y must hold finite numbers")
        self.targets = numbers.astype(np.float64)
        self.codes = np.full(len(self.targets), TRUE)
        return 3

    @property
    def unit(self) -> float:
        return min(1.0, float(np.mean(np.abs(self.targets))))

    def costs(self, rows: Rows) -> np.ndarray:
        """See `BoundStructure.costs`; from the rows' targets."""
        targets = self.targets[rows]
        costs = np.zeros((len(targets), 3))
        costs[:, ABOVE], costs[:, BELOW] = -targets, targets
        costs[:, 1:] -= self.structure.epsilon
        return costs
