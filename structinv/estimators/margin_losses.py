"""Which margin losses classifiers have at the worst case, by name, and what they go with."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..losses import Logistic, ScalarLoss, SquaredHinge
from ..matrices import Matrix
from ..objective import WorstCase, WorstMargin
from ..oracles import InvarianceOracle
from ..structures import Structure

HINGE = "hinge"
# Those of the least margin alone, for two classes; the hinge has costs and more classes, too.
SMOOTH: dict[str, type[ScalarLoss]] = {"squared_hinge": SquaredHinge, "logistic": Logistic}
NAMES = (HINGE, *SMOOTH)


def check_margin_loss(
    loss: Any, oracle: InvarianceOracle, cost: ArrayLike | None = None, rescaling: str = "margin"
) -> None:
    """Raise ValueError unless the name of a loss is known, and goes with oracle and costs."""
    if not isinstance(loss, str) or loss not in NAMES:
        raise ValueError(f"loss must be one of {list(NAMES)}, got {loss!r}")
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


def worst_cases(
    loss: str,
    X: Matrix,
    y: np.ndarray,
    oracle: InvarianceOracle,
    structure: Structure,
    weights: np.ndarray,
    **labels: Any,
) -> WorstCase:
    """The loss named at the worst case of each row; `labels` are classes and costs of `WorstCase`."""
    if loss == HINGE:
        return WorstCase(X, y, oracle, structure, weights, **labels)
    return WorstMargin(X, y, oracle, SMOOTH[loss](), weights, labels.get("classes"))
