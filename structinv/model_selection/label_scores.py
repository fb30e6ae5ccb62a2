"""Scorers for partly labeled data (semi-supervised)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.metrics import get_scorer
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted, column_or_1d

from ..estimators.parameters import checked_weights
from ..estimators.target_labels import (
    MISSING,
    as_labels,
    labels_equal,
    without_label,
)
from .scorers import Scorer


def labeled_scorer(
    scoring: str | Callable[..., float] = "accuracy", *, unlabeled: Any = "auto"
) -> Callable[..., float]:
    """Make a scorer that omits unlabeled samples.

    Other scorers, such as `score` of an estimator, count unlabeled samples as errors.

    Parameters
    ----------
    scoring : str or callable, default="accuracy"
        Name of a scorer, or a function of a fitted estimator, X and y, as in `GridSearchCV`.
    unlabeled : label, "auto" or None, default="auto"
        Label of unlabeled samples. "auto" is -1, unless `classes_` of the estimator contains it.

    Returns
    -------
    callable
        Function of a fitted estimator, X, y and an optional `sample_weight`, for `scoring` in
        scikit-learn. It has `set_score_request`, for metadata routing. It raises ValueError if no sample
        has a label; `PredefinedSplit` avoids such folds.

    See Also
    --------
    sklearn.model_selection.PredefinedSplit : Folds, with samples that are never tested.
    certified_accuracy_scorer : Scorer of certified accuracy.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv import LapSVC
    >>> from structinv.model_selection import labeled_scorer
    >>> X = np.array([[0.0], [0.5], [1.0], [3.0], [3.5], [4.0]])
    >>> y = [0, -1, -1, 1, -1, -1]
    >>> model = LapSVC(n_neighbors=1).fit(X, y)
    >>> labeled_scorer()(model, X, y), round(model.score(X, y), 2)
    (1.0, 0.33)
    """
    return Scorer(_labeled_score, scorer=get_scorer(scoring), unlabeled=unlabeled)


def _labeled_score(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    *,
    scorer: Callable[..., float],
    unlabeled: Any,
) -> float:
    check_is_fitted(estimator)
    labels = column_or_1d(as_labels(y))
    if isinstance(unlabeled, str) and unlabeled == "auto":
        # A fold may contain one class only, so the classes of the model define the meaning of -1.
        unlabeled = None if labels_equal(estimator.classes_, MISSING).any() else MISSING
    labeled = np.flatnonzero(~without_label(labels, unlabeled))
    if len(labeled) == 0:
        raise ValueError(
            "y must contain at least one label, got only unlabeled rows: use PredefinedSplit"
        )
    own = {}
    if sample_weight is not None:
        own["sample_weight"] = checked_weights(sample_weight, labels)[labeled]
    return scorer(estimator, _safe_indexing(X, labeled), labels[labeled], **own)
