"""Two classes with one function: margin ``y f(x)``."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from .base import Output, RowOutput, check_cost, check_rescaling, encode_labels


class Binary(Output):
    """Two classes, one function; the larger label is the positive one.

    The loss is ``max(0, D - G y f(z))`` at the worst member z of S(x), which by default equals
    scikit-learn's ``LinearSVC(loss="hinge")`` where nothing may change.

    Parameters
    ----------
    cost : (2, 2) array-like, optional
        ``cost[i, j]`` is the cost D of predicting class j where class i is true; zero diagonal. By
        default every error costs 1.
    rescaling : {"margin", "slack"}, default="margin"
        G = 1, or G = D.

    Examples
    --------
    >>> import numpy as np
    >>> Binary().encode(np.array(["ham", "spam", "ham"])).codes
    array([0, 1, 0])
    """

    def __init__(self, cost: ArrayLike | None = None, rescaling: str = "margin") -> None:
        self.cost = cost
        self.rescaling = rescaling

    def encode(self, y: np.ndarray, classes: np.ndarray | None = None) -> EncodedBinary:
        """See `Output.encode`; raises ValueError unless there are exactly two classes."""
        check_rescaling(self.rescaling)
        classes, codes = encode_labels(y, classes)
        if len(classes) != 2:
            raise ValueError(f"Binary needs two classes in y, got {len(classes)}: {classes[:5]}")
        cost = check_cost(self.cost, 2)
        return EncodedBinary(classes, codes, cost, self.rescaling == "slack")

    def predict(self, scores: np.ndarray) -> np.ndarray:
        """See `Output.predict`."""
        return (scores[:, 0] > 0).astype(np.int64)


class EncodedBinary(RowOutput):
    """`Binary` on given labels: the only alternative is the other class."""

    def __init__(self, classes: np.ndarray, codes: np.ndarray, cost: np.ndarray, slack: bool) -> None:
        self.classes = classes
        self.codes = codes
        self.margin_directions = np.array([[[1.0], [-1.0]]])
        self.rewards = np.array([[cost[0, 1], cost[1, 0]]])
        scale = self.rewards[:, :, None] if slack else 1.0
        self.directions = scale * self.margin_directions
