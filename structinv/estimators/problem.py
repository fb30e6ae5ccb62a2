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
from ..terms.worst_margin import WorstMargin
from ..utils.matrices import Matrix, Rows
from ..utils.parameters import brief

HINGE = "hinge"
# Losses of the smallest margin, for two classes. Only the hinge has costs and more classes.
SMOOTH: dict[str, type[ScalarLoss]] = {"squared_hinge": SquaredHinge, "logistic": Logistic}
MARGIN_LOSSES = (HINGE, *SMOOTH)


@dataclass(frozen=True)
class Problem:
    """Checked data and settings of a fit.

    Parameters
    ----------
    rows : array of shape (n_rows, n_features), CSR matrix or RowSource
        All checked rows; for custom structures a list of inputs.
    labels : array of shape (n_labeled,)
        Labels or targets of the labeled rows; labelings for custom structures.
    oracle : InvarianceOracle
        Oracle for rows of this shape.
    structure : Structure or Custom
        Output structure.
    weights : array of shape (n_examples,)
        Weights of the examples, C included.
    fingerprinted : object
        Given labels, to recognize the same fit later.
    learned : dict
        Attributes of the fitted estimator that are known before the fit.
    loss : str, default="hinge"
        One of `MARGIN_LOSSES`.
    classes : array of shape (n_classes,) or None, default=None
        Sorted labels; None for targets.
    layout : Layout or None, default=None
        Assignment of rows to examples; None for single rows.
    cost : array-like of shape (n_classes, n_classes) or None, default=None
        Misclassification costs; 1 by default.
    rescaling : {"margin", "slack"}, default="margin"
        Use of the costs, as in `WorstCase`.
    position_weight : array of shape (n_rows,) or None, default=None
        Factors of the costs at each row; 1 by default.
    target_mean : float, default=0.0
        Mean that was subtracted from the targets.
    labeled : array of shape (n_labeled,) of int or None, default=None
        Indices of the labeled rows; all by default.
    targets : array of shape (n_labeled, n_outputs) or None, default=None
        Targets of the functions at the labeled rows, for losses without oracle.
    shown : tuple or None, default=None
        X, y and sample weights for scikit-learn's callbacks, if they differ from the given ones.
    """

    rows: Any
    labels: Any
    oracle: InvarianceOracle
    structure: Any
    weights: np.ndarray
    fingerprinted: Any
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

        Parameters
        ----------
        inputs : array of shape (n_labeled, n_features) or None, default=None
            Inputs that replace the labeled rows.
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
