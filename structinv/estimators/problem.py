"""Data of a fit: checked rows, labels, oracle, weights and loss."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..losses import Logistic, ScalarLoss, SquaredHinge
from ..oracles import InvarianceOracle
from ..structures import Layout
from ..terms import REGISTRY as TERMS
from ..terms import WorstCase
from ..terms.blockwise_term import BlockSizes, BlockwiseTerm
from ..terms.worst_case import WorstMargin
from ..utils.matrices import Matrix, Rows
from ..utils.parameters import brief

HINGE = "hinge"
# Losses of the smallest margin, for two classes. Only the hinge has costs and more classes.
SMOOTH: dict[str, type[ScalarLoss]] = {"squared_hinge": SquaredHinge, "logistic": Logistic}
MARGIN_LOSSES = (HINGE, *SMOOTH)


@dataclass(frozen=True)
class Problem:
    """Checked data and settings of a fit.

    - `rows` (n_rows, n_features): all checked rows; for custom structures a list of inputs
    - `labels` (n_labeled,): labels or targets of the labeled rows; labelings for custom structures
    - `oracle`: oracle for rows of this shape
    - `structure`: output structure
    - `weights` (n_examples,): weights of the examples, C included
    - `learned`: attributes of the fitted estimator that are known before the fit
    - `loss`: one of `MARGIN_LOSSES`
    - `classes` (n_classes,): sorted labels; None for targets
    - `layout`: assignment of rows to examples; None for single rows
    - `cost` (n_classes, n_classes): misclassification costs; 1 by default
    - `rescaling`: use of the costs, as in `WorstCase`
    - `position_weight` (n_rows,): factors of the costs at each row; 1 by default
    - `target_mean`: mean that was subtracted from the targets
    - `labeled` (n_labeled,): indices of the labeled rows; all by default
    - `targets` (n_labeled, n_outputs): targets of the functions at the labeled rows, for losses without
      oracle
    - `shown`: X, y and sample weights for scikit-learn's callbacks, if they differ from the given ones
    """

    rows: Any
    labels: Any
    oracle: InvarianceOracle
    structure: Any
    weights: np.ndarray
    learned: dict[str, Any]
    loss: str = HINGE
    classes: np.ndarray | None = None
    layout: Layout | None = None
    cost: ArrayLike | None = None
    rescaling: str = "margin"
    position_weight: np.ndarray | None = None
    target_mean: float = 0.0
    labeled: np.ndarray | None = None
    targets: Any = None
    shown: tuple[Any, Any, Any] | None = None

    @property
    def n_outputs(self) -> int:
        """Number of functions: one for two classes or numbers, else one per class."""
        return 1 if self.classes is None or len(self.classes) == 2 else len(self.classes)

    @property
    def labeled_rows(self) -> Any:
        """Rows with a label."""
        return self.rows if self.labeled is None else self.rows[self.labeled]

    def worst_case(self, inputs: Any = None) -> WorstCase:
        """Return the worst-case loss of the labeled rows.

        Shapes: `inputs` (n_labeled, n_features).
        """
        X = self.labeled_rows if inputs is None else inputs
        if self.loss != HINGE:
            loss = SMOOTH[self.loss]()
            return WorstMargin(X, self.labels, self.oracle, loss, self.weights, self.classes)
        term: Any = TERMS[self.structure.term]
        return term(
            X,
            self.labels,
            self.oracle,
            self.structure,
            self.weights,
            self.classes,
            layout=self.layout,
            cost=self.cost,
            rescaling=self.rescaling,
            position_weight=self.position_weight,
        )

    def in_blocks(self, sizes: BlockSizes) -> BlockwiseTerm:
        """Return the worst-case loss of rows in blocks."""
        labels = self.structure.bind(self.labels, self.classes, cost=self.cost, rescaling=self.rescaling)

        def part(X: Matrix, rows: Rows) -> WorstCase:
            some = replace(self, rows=X, labels=self.labels[rows], weights=self.weights[rows])
            return some.worst_case()

        return BlockwiseTerm(self.rows, part, labels, self.weights, sizes)


def check_margin_loss(loss: Any, oracle: InvarianceOracle, cost: Any, rescaling: str) -> None:
    """Raise ValueError unless the loss exists and suits oracle and costs."""
    if not isinstance(loss, str) or loss not in MARGIN_LOSSES:
        raise ValueError(f"loss must be one of {list(MARGIN_LOSSES)}, got {brief(loss)}")
    if loss == HINGE:
        return
    if cost is not None:
        raise ValueError(
            f"cost must be None with loss={loss!r}, got cost={brief(cost)}: "
            "use class_weight for the errors of a class, or loss='hinge'"
        )
    if rescaling != "margin":
        raise ValueError(
            f"rescaling must be 'margin' with loss={loss!r}, got rescaling={rescaling!r}: "
            "use class_weight for the errors of a class, or loss='hinge'"
        )
    if oracle.graded:
        raise ValueError(
            f"loss must be 'hinge' with a discounted oracle, got loss={brief(loss)} with "
            f"oracle={oracle!r}"
        )


def check_two_classes(loss: str, n_classes: int) -> None:
    """Raise ValueError for more than two classes and a loss other than the hinge."""
    if loss != HINGE and n_classes > 2:
        # scikit-learn's estimator checks require some of these words.
        raise ValueError(
            f"loss must be 'hinge' for more than two classes, got loss={brief(loss)} and {n_classes} "
            "classes in y: use loss='hinge' or scikit-learn's OneVsRestClassifier. Only binary "
            f"classification is supported with {loss!r}. The type of the target is multiclass"
        )
