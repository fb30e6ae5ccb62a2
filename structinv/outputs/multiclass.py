"""Any number of classes, one function each, trained jointly."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from .base import Output, RowOutput, check_cost, check_rescaling, encode_labels


class Multiclass(Output):
    """Joint multiclass: ``max over y' of G(y,y') [f(z,y') - f(z,y)] + D(y,y')`` (Teo 2007, eq. 2).

    Parameters
    ----------
    cost : (n_classes, n_classes) array-like, optional
        ``cost[i, j]`` is the cost D of predicting class j where class i is true, in the order of the
        sorted labels: non-negative, zero diagonal. By default every error costs 1.
    rescaling : {"margin", "slack"}, default="margin"
        G = 1, or G = D.

    Examples
    --------
    >>> import numpy as np
    >>> Multiclass(cost=[[0, 1], [5, 0]]).encode(np.array([0, 1])).rewards
    array([[0., 5.],
           [1., 0.]])
    """

    def __init__(self, cost: ArrayLike | None = None, rescaling: str = "margin") -> None:
        self.cost = cost
        self.rescaling = rescaling

    def encode(self, y: np.ndarray, classes: np.ndarray | None = None) -> EncodedMulticlass:
        """See `Output.encode`; raises ValueError for one class, or a cost that does not fit."""
        check_rescaling(self.rescaling)
        classes, codes = encode_labels(y, classes)
        cost = check_cost(self.cost, len(classes))
        return EncodedMulticlass(classes, codes, cost, self.rescaling == "slack")

    def predict(self, scores: np.ndarray) -> np.ndarray:
        """See `Output.predict`."""
        return np.argmax(scores, axis=1)


class EncodedMulticlass(RowOutput):
    """`Multiclass` on given labels: alternative a is class a, the true class competes with nothing."""

    def __init__(self, classes: np.ndarray, codes: np.ndarray, cost: np.ndarray, slack: bool) -> None:
        n_classes = len(classes)
        if n_classes < 2:
            raise ValueError(f"Multiclass needs at least two classes in y, got {classes}")
        self.classes = classes
        self.codes = codes
        identity = np.eye(n_classes)
        self.margin_directions = identity[:, None, :] - identity[None, :, :]
        scale = cost.T[:, :, None] if slack else 1.0
        self.directions = scale * self.margin_directions
        self.rewards = cost.T
