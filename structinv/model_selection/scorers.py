"""Scorers of certificates, of detection, and of partly labeled data."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import get_scorer
from sklearn.utils import _safe_indexing
from sklearn.utils.metadata_routing import UNCHANGED, MetadataRequest
from sklearn.utils.validation import check_is_fitted, column_or_1d

from ..estimators import InvariantStructuredSVC
from ..estimators.classifier import InvariantClassifier
from ..estimators.inputs import (
    MISSING,
    as_labels,
    check_oracle_type,
    checked_weights,
    labels_equal,
    without_label,
)
from ..estimators.text import without_warnings_of_unknown_texts
from ..inspection.detection import check_max_fpr, positive_label, threshold_at, without_edits
from ..oracles import Identity, InvarianceOracle
from ..other_models import certify
from ..other_models.layers import layers, opened, transformed


class Scorer:
    """A scorer with sample weights, also for the metadata routing of scikit-learn."""

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
        `set_score_request`, for metadata routing. `structinv.certify` must support the estimator. For
        `InvariantStructuredSVC` the score is the certified fraction of rows, without weights.

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
    steps, last = opened(estimator)
    if isinstance(last, InvariantStructuredSVC):
        return last.certify(transformed(X, steps), y, oracle=oracle).position_accuracy
    known = _of_known_classes(estimator, y)
    correct = np.zeros(len(known))
    with without_warnings_of_unknown_texts():
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


MEASURES = ("clean", "attacked", "certified")


def detection_scorer(
    max_fpr: float = 0.01,
    oracle: InvarianceOracle | None = None,
    *,
    label: Any = None,
    measure: str = "certified",
    at: str = "features",
) -> Callable[..., float]:
    """Make a scorer of detection at a false-positive rate, for `scoring`.

    The score is the fraction of the samples of one label whose score is above a threshold. The threshold
    is the smallest one that at most `max_fpr` of the other samples exceed, without perturbations. It is
    set on the samples to score. Accuracy is the wrong measure of a filter whose threshold follows from
    a false-positive rate.

    Parameters
    ----------
    max_fpr : float, default=0.01
        Maximum false-positive rate, in [0, 1). A fold with fewer than ``1 / max_fpr`` other samples has
        no false positives.
    oracle : InvarianceOracle or None, default=None
        Oracle for all certificates of a search. By default each model is certified against the oracle of
        its own training. Scores of models with different oracles are then not comparable.
    label : label, default=None
        Label to detect. By default it is the only label that the oracle perturbs (`only_for`), otherwise
        the second class.
    measure : {"clean", "attacked", "certified"}, default="certified"
        Samples that count as detected: those without perturbations, those after the worst perturbation
        found, or those after every perturbation.
    at : {"features", "input"}, default="features"
        Space of the perturbations for a Pipeline, as in `certified_accuracy_scorer`.

    Returns
    -------
    callable
        Function of a fitted estimator with two classes, X and y. `structinv.certify` must support the
        estimator. Without one of the two labels in y, the score is NaN, with a warning.

    See Also
    --------
    certified_accuracy_scorer : Scorer of certified accuracy.
    select_changes : Selection of an oracle and C.
    structinv.inspection.security_curve : Detection rates against the number of edits.

    Examples
    --------
    >>> from sklearn.model_selection import cross_val_score
    >>> from structinv import InvariantLinearSVC
    >>> from structinv.datasets import make_mail_like
    >>> from structinv.model_selection import detection_scorer
    >>> from structinv.oracles import FDrop
    >>> X, y = make_mail_like(200, 100, random_state=0)
    >>> model = InvariantLinearSVC(FDrop(2), C=0.05, random_state=0)
    >>> clean = cross_val_score(model, X, y, scoring=detection_scorer(0.05, measure="clean"), cv=2)
    >>> certified = cross_val_score(model, X, y, scoring=detection_scorer(0.05), cv=2)
    >>> bool((certified <= clean).all())
    True
    """
    check_max_fpr(max_fpr)
    if oracle is not None:
        check_oracle_type(oracle)
    if measure not in MEASURES:
        raise ValueError(f"measure must be one of {list(MEASURES)}, got {measure!r}")
    return partial(_detection_rate, max_fpr=max_fpr, oracle=oracle, label=label, measure=measure, at=at)


def _detection_rate(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    max_fpr: float,
    oracle: InvarianceOracle | None,
    label: Any,
    measure: str,
    at: str,
) -> float:
    y, classes = np.asarray(y), estimator.classes_
    if len(classes) != 2:
        raise ValueError(f"estimator must have two classes for detection rates, got {len(classes)}")
    last = layers(estimator).last
    if oracle is None and isinstance(last, InvariantClassifier):
        oracle = last.oracle
    known = Identity() if oracle is None else oracle
    label = positive_label(known, classes)[0] if label is None else label
    if label not in classes.tolist():
        raise ValueError(f"label must be one of the classes {classes.tolist()}, got {label!r}")
    if len(np.unique(y)) < 2:
        warnings.warn(
            "y must contain both labels for a detection rate: the score is NaN, because a fold has one",
            UndefinedMetricWarning,
            stacklevel=3,
        )
        return float("nan")
    with without_warnings_of_unknown_texts():
        unperturbed = certify(estimator, without_edits(known), X, y, at=at)
        perturbed = unperturbed if measure == "clean" else certify(estimator, oracle, X, y, at=at)
    own = y == label
    threshold = threshold_at(-unperturbed.margins[~own], max_fpr)
    scores = perturbed.margins if measure == "certified" else perturbed.attacked
    return float(np.mean(scores[own] > threshold))


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
    estimator: Any, X: Any, y: Any, sample_weight: Any, *, scorer: Callable[..., float], unlabeled: Any
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
