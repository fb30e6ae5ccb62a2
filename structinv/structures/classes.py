"""Structures of single rows: classification and regression."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..utils.matrices import Rows, first_best, row_max
from ..utils.parameters import check_number
from .base import Structure
from .bound import BoundStructure
from .competitors import Competitors, LabelFunctions
from .decodings import Decoding, Layout

_ZERO_AND_F = LabelFunctions(np.zeros(2, dtype=np.int64), np.array([0.0, 1.0]))


class RowStructure(Structure):
    """Base class of structures whose examples are single rows.

    The prediction is the label with the highest score. In ties it is the first.

    See Also
    --------
    Binary : Two classes with one function.
    Multiclass : One function per class.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.structures import Layout
    >>> from structinv.structures.classes import Multiclass
    >>> potentials = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> Multiclass().decode(potentials, np.zeros(0), Layout.of_rows(2)).labels
    array([0, 1])
    """

    rowwise = True
    rescalings: tuple[str, ...] = ("margin", "slack")

    def decode(self, potentials: np.ndarray, pairwise: np.ndarray, layout: Layout) -> Decoding:
        return Decoding(np.argmax(potentials, axis=1))

    def separate(
        self, competitors: Competitors, found: Any, pairwise: np.ndarray, layout: Layout
    ) -> Decoding:
        reached = found.gains + found.costs
        labels = np.argmax(reached, axis=1)
        # The true label has the loss 0.
        violated = row_max(reached) > 0
        upper = row_max(found.upper)
        return Decoding(np.where(violated, labels, competitors.codes), np.maximum(0.0, upper))

    def runner_up(
        self, potentials: np.ndarray, codes: np.ndarray, pairwise: np.ndarray, layout: Layout
    ) -> Decoding:
        every = np.arange(len(codes))
        if potentials.shape[1] == 2:
            return Decoding(1 - codes, potentials[every, 1 - codes])
        others = potentials.copy()
        others[every, codes] = -np.inf
        return Decoding(first_best(others), row_max(others))

    def best_by_wrong(
        self, potentials: np.ndarray, codes: np.ndarray, pairwise: np.ndarray, layout: Layout
    ) -> np.ndarray:
        true_scores = np.take_along_axis(potentials, codes[:, None], axis=1)[:, 0]
        highest: Any = self.runner_up(potentials, codes, pairwise, layout).upper
        return np.column_stack([true_scores, highest])


class Binary(RowStructure):
    """Two classes with one function; the larger label is the positive one.

    The loss is ``max(0, D - G y f(z))`` at the worst z in S(x), with y = 1 or -1, the misclassification
    cost D and the factor G of `rescaling`. With the default cost and no perturbations it is the loss of
    scikit-learn's ``LinearSVC(loss="hinge")``. The function f is the score of the positive label. The
    score of the other label is zero.

    See Also
    --------
    Multiclass : One function per class.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.structures import Binary
    >>> Binary().bind(np.array(["ham", "spam", "ham"])).codes
    array([0, 1, 0])
    """

    def check_classes(self, classes: np.ndarray) -> None:
        if len(classes) != 2:
            raise ValueError(f"Binary requires two classes in y, got {len(classes)}: {classes[:5]}")

    def functions(self, n_labels: int) -> LabelFunctions:
        return _ZERO_AND_F


class Multiclass(RowStructure):
    """Several classes with one function each.

    The loss is ``max over y' of G(y, y') [f(z, y') - f(z, y)] + D(y, y')`` at the worst z in S(x) (Teo
    et al. 2007, eq. 2). D is the misclassification cost, and G the factor of `rescaling`.
    """


TRUE, ABOVE, BELOW = range(3)


class BoundRegression(BoundStructure):
    """Regression with the targets of given rows.

    Shapes: `y` (n_rows,), `targets` (n_rows,).
    """

    structure: Regression
    targets: np.ndarray

    def _take_truth(
        self, y: np.ndarray, classes: Any, cost: ArrayLike | None, position_weight: ArrayLike | None
    ) -> int:
        given: dict[str, Any] = {"classes": classes, "cost": cost, "position_weight": position_weight}
        for name, value in given.items():
            if value is not None:
                raise ValueError(f"{name} must be None for Regression, which has no labels")
        check_number("epsilon", self.structure.epsilon)
        numbers = np.asarray(y)
        if numbers.dtype.kind not in "biuf" or not np.all(np.isfinite(numbers)):
            raise ValueError("y must contain finite numbers")
        self.targets = numbers.astype(np.float64)
        self.codes, self.position_weight = np.full(len(self.targets), TRUE), None
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
    _bound = BoundRegression

    def __init__(self, epsilon: float = 0.1) -> None:
        self.epsilon = epsilon

    def functions(self, n_labels: int) -> LabelFunctions:
        """Return the functions of the three labels: zero, f and -f."""
        return LabelFunctions(np.zeros(3, dtype=np.int64), np.array([0.0, 1.0, -1.0]))
