"""Scorer of certified accuracy for scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any, Self

import numpy as np
from sklearn.utils import _safe_indexing
from sklearn.utils.metadata_routing import UNCHANGED, MetadataRequest

from ..estimators.parameters import check_oracle_type, checked_weights
from ..estimators.target_labels import as_labels
from ..oracles import InvarianceOracle
from ..other_models import certify


class Scorer:
    """A scorer with sample weights, also for the metadata routing of scikit-learn.

    Parameters
    ----------
    function : callable
        Function of a fitted estimator, X, y and `sample_weight`.
    **settings : dict
        Further keyword arguments of the function.
    """

    def __init__(self, function: Callable[..., float], **settings: Any) -> None:
        self.function = function
        self.settings = settings
        self._request = MetadataRequest(owner=type(self).__name__)
        self._request.score.add_request(param="sample_weight", alias=None)

    def __call__(self, estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
        return self.function(estimator, X, y, sample_weight, **self.settings)

    def set_score_request(self, *, sample_weight: bool | str | None = UNCHANGED) -> Self:
        """Request sample weights, as scikit-learn's estimators do."""
        if sample_weight is not UNCHANGED:
            self._request.score.add_request(param="sample_weight", alias=sample_weight)
        return self

    def get_metadata_routing(self) -> MetadataRequest:
        """Return the requested metadata."""
        return deepcopy(self._request)


def certified_accuracy_scorer(
    oracle: InvarianceOracle | None = None, *, at: str = "features"
) -> Callable[..., float]:
    """Make a scorer of certified accuracy, for `scoring` in scikit-learn.

    The score is the fraction of samples that are classified correctly for every perturbation. A sample
    of a class that the training fold lacks is never classified correctly.

    Parameters
    ----------
    oracle : InvarianceOracle or None, default=None
        Oracle for all certificates of a search. By default each model is certified against the oracle of
        its own training. Scores of models with different oracles are then not comparable: without
        perturbations the certificate is easiest.
    at : {"features", "input"}, default="features"
        Space of the perturbations for a Pipeline: the input of its last step, or its own input. "input"
        requires affine steps before the last.

    Returns
    -------
    callable
        Function of a fitted estimator, X, y and an optional `sample_weight`. It has
        `set_score_request`, for metadata routing. `structinv.certify` must support the estimator.

    See Also
    --------
    structinv.certify : Certificates of fitted estimators.
    select_changes : Selection of an oracle and C by clean and certified accuracy.

    Examples
    --------
    >>> from sklearn.model_selection import GridSearchCV
    >>> from structinv import InvariantLinearSVC
    >>> from structinv.datasets import make_mail_like
    >>> from structinv.model_selection import certified_accuracy_scorer
    >>> from structinv.oracles import FDrop
    >>> X, y = make_mail_like(60, 100, random_state=0)
    >>> search = GridSearchCV(
    ...     InvariantLinearSVC(FDrop(0), C=0.1, random_state=0),
    ...     {"oracle__max_changes": [0, 2]},
    ...     scoring={"clean": "accuracy", "certified": certified_accuracy_scorer(FDrop(2))},
    ...     refit="certified",
    ...     cv=2,
    ... ).fit(X, y)
    >>> search.best_params_
    {'oracle__max_changes': 2}
    """
    if oracle is not None:
        check_oracle_type(oracle)
    return Scorer(_certified_accuracy, oracle=oracle, at=at)


def _certified_accuracy(
    estimator: Any, X: Any, y: Any, sample_weight: Any, *, oracle: InvarianceOracle | None, at: str
) -> float:
    known = _of_known_classes(estimator, y)
    correct = np.zeros(len(known))
    if np.all(known):
        correct = certify(estimator, oracle, X, y, at=at).correct
    elif np.any(known):
        rows = np.flatnonzero(known)
        some = _safe_indexing(X, rows), _safe_indexing(y, rows)
        correct[rows] = certify(estimator, oracle, *some, at=at).correct
    return float(np.average(correct, weights=checked_weights(sample_weight, correct)))


def _of_known_classes(estimator: Any, y: Any) -> np.ndarray:
    """Return a mask of the labels that are classes of the estimator; lists are not tested."""
    labels = np.asarray(as_labels(y), dtype=object)
    classes = set(np.asarray(getattr(estimator, "classes_", [])).tolist())
    if labels.ndim != 1 or not classes:
        return np.ones(len(labels), dtype=bool)
    return np.array([not np.isscalar(label) or label in classes for label in labels.tolist()])
