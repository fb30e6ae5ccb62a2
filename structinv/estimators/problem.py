"""What a fit is about: checked rows, their labels and what these cost."""

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

HINGE = "hinge"
# Those of the least margin alone, for two classes; the hinge has costs and more classes, too.
SMOOTH: dict[str, type[ScalarLoss]] = {"squared_hinge": SquaredHinge, "logistic": Logistic}
MARGIN_LOSSES = (HINGE, *SMOOTH)


@dataclass(frozen=True)
class Problem:
    """What an estimator has read for a fit.

    Parameters
    ----------
    rows : (n, d) array, CSR matrix or RowSource
        All rows, checked; objects, where the estimator takes these.
    labels : (m,) array
        Labels or targets of the rows that have one; labelings of objects.
    oracle : InvarianceOracle
        For rows of this shape.
    structure : Structure or Custom
    weights : (n_examples,) array
        Of the examples, C included.
    told : object
        What was given as `y`, so that a later fit knows whether it is about the same.
    learned : dict
        Attributes of the fitted estimator that are known before the fit.
    loss : str, default="hinge"
        One of `MARGIN_LOSSES`.
    classes, layout, cost, rescaling, position_weight
        See `WorstCase`.
    target_mean : float, default=0.0
        What was taken off the targets.
    labeled : (m,) array of int, optional
        Which rows have a label; all, by default.
    targets : (m, n_outputs) array, optional
        What the functions should be at the labeled rows, for losses of rows as they are.
    shown : tuple, optional
        X, y and sample weights that scikit-learn's callbacks are told, if not all that were given.
    """

    rows: Any
    labels: Any
    oracle: InvarianceOracle
    structure: Any
    weights: np.ndarray
    told: Any
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
        """How many functions of single rows are learned: one of two classes or of numbers."""
        return 1 if self.classes is None or len(self.classes) == 2 else len(self.classes)

    @property
    def labeled_rows(self) -> Any:
        """The rows that have a label."""
        return self.rows if self.labeled is None else self.rows[self.labeled]

    def worst_case(self, inputs: Any = None) -> WorstCase:
        """The losses of the labeled rows at their worst.

        Parameters
        ----------
        inputs : (m, d) array, optional
            What stands for the labeled rows, if not they themselves.
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
        """The losses of rows that are read in blocks."""
        labels = self.structure.bind(self.labels, self.classes, cost=self.cost, rescaling=self.rescaling)

        def part(X: Matrix, rows: Rows) -> WorstCase:
            some = replace(self, rows=X, labels=self.labels[rows], weights=self.weights[rows])
            return some.worst_case()

        return BlockwiseTerm(self.rows, part, labels, self.weights, sizes)


def check_margin_loss(loss: Any, oracle: InvarianceOracle, cost: Any, rescaling: str) -> None:
    """Raise ValueError unless the name of a loss is known, and goes with oracle and costs."""
    if not isinstance(loss, str) or loss not in MARGIN_LOSSES:
        raise ValueError(f"loss must be one of {list(MARGIN_LOSSES)}, got {loss!r}")
    if loss == HINGE:
        return
    if cost is not None:
        raise ValueError(
            f"cost must be None with loss={loss!r}, which has no margin to ask for: class_weight weighs "
            f"the errors of a class, got cost={cost!r}"
        )
    if rescaling != "margin":
        raise ValueError(
            f"rescaling must be 'margin' with loss={loss!r}, which has no cost to rescale: class_weight "
            f"weighs the errors of a class, got rescaling={rescaling!r}"
        )
    if oracle.graded:
        raise ValueError(
            f"loss must be 'hinge' with an oracle whose changes are discounted, as that is the margin "
            f"they ask for, got loss={loss!r} with oracle={oracle!r}"
        )


def check_two_classes(loss: str, n_classes: int) -> None:
    """Raise ValueError for more than two classes with a loss that has none."""
    if loss != HINGE and n_classes > 2:
        # With the words that scikit-learn's checks wait for.
        raise ValueError(
            f"loss must be 'hinge' for more than two classes, got loss={loss!r} and y of {n_classes} "
            f"classes: Only binary classification is supported with {loss!r}. The type of the target is "
            "multiclass; scikit-learn's OneVsRestClassifier takes a class at a time"
        )
