"""Link functions from scores of two classes to probabilities, and derivatives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from scipy.special import expit, logsumexp
from sklearn.multiclass import OneVsRestClassifier

from .naive_bayes import is_naive_bayes

# Maximum error of a computed value, in rounding units.
UNITS = 8.0


@dataclass(frozen=True)
class Link:
    """A monotone function of one score, as scikit-learn computes it.

    - `values`: function from scores of the second class, (n,), to the values of both classes, (n, 2)
    - `slope`: function from a score to the derivative of the second class's value
    - `of_logs`: true if values come from one score per class, each with a rounding error
    """

    values: Callable[[np.ndarray], np.ndarray]
    slope: Callable[[float], float]
    of_logs: bool = False


def probability_link(model: Any) -> Link:
    """Return the link from the linear score of a model to its `predict_proba`."""
    if is_naive_bayes(model):
        return Link(_normalized, _logistic_slope, of_logs=True)
    if isinstance(model, OneVsRestClassifier):
        model = model.estimators_[0]
    logistic, by_loss = _known_probabilities()
    loss = model.loss if type(model) is by_loss else None
    if type(model) in logistic or loss == "log_loss":
        return Link(lambda score: _with_rest(expit(score)), _logistic_slope)
    if loss == "modified_huber":
        return Link(_clipped, lambda score: 0.5 * (abs(score) <= 1.0))
    raise TypeError(
        f"predict_proba of {type(model).__name__} is not known to be a monotone function of its score. "
        "Compare decision_function with the threshold instead: response_method='decision_function'"
    )


@cache
def _known_probabilities() -> tuple[tuple[Any, ...], Any]:
    """Return classifiers with logistic probabilities, and the one whose `loss` determines them."""
    # Exact classes, because subclasses may compute other probabilities.
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.linear_model import LogisticRegression, LogisticRegressionCV, SGDClassifier

    return (LogisticRegression, LogisticRegressionCV, LinearDiscriminantAnalysis), SGDClassifier


def calibration_link(calibrated: Any) -> Link:
    """Return the link from the score of a calibrated classifier to probabilities."""
    if len(calibrated.classes_) > 2:
        raise ValueError(
            f"CalibratedClassifierCV of {len(calibrated.classes_)} classes divides one probability per "
            "class by their sum, so the label is not a function of the margins. Certify the linear "
            "classifier inside"
        )
    (calibrator,) = calibrated.calibrated_classifiers_[0].calibrators
    slopes = {"sigmoid": _sigmoid_slope, "isotonic": _isotonic_slope}
    if calibrated.method not in slopes:
        raise ValueError(
            f"method of CalibratedClassifierCV must be one of {sorted(slopes)} for a certificate, got "
            f"{calibrated.method!r}"
        )
    slope = slopes[calibrated.method]
    return Link(
        lambda score: _with_rest(calibrator.predict(score)), lambda score: slope(calibrator, score)
    )


def check_link(model: Any, link: Link, scores: np.ndarray, values: np.ndarray) -> None:
    """Raise ValueError unless a link maps scores of a model to its probabilities.

    Shapes: `scores` (n, 2), `values` (n, 2).
    """
    each = scores[:, None] if scores.ndim == 1 else scores
    own = link.values(each[:, -1] if each.shape[1] == 1 else each[:, 1] - each[:, 0])
    eps = np.finfo(np.result_type(own, values)).eps
    errors = np.abs(values - own).max(axis=1)
    if not np.all(errors <= UNITS * eps * (1.0 + np.abs(each).max(axis=1))):
        raise ValueError(
            f"predict_proba of {type(model).__name__} is not the known function of its score: it "
            f"differs by up to {errors.max():.2g}. Compare decision_function with the threshold "
            "instead: response_method='decision_function'"
        )


def _with_rest(second: np.ndarray) -> np.ndarray:
    return np.stack([1.0 - second, second], axis=1)


def _normalized(score: np.ndarray) -> np.ndarray:
    logs = np.stack([np.zeros_like(score), score], axis=1)
    return np.exp(logs - logsumexp(logs, axis=1, keepdims=True))


def _clipped(score: np.ndarray) -> np.ndarray:
    return _with_rest((np.clip(score, -1.0, 1.0) + 1.0) / 2.0)


def _logistic_slope(score: float) -> float:
    return float(expit(score) * expit(-score))


def _sigmoid_slope(calibrator: Any, score: float) -> float:
    return abs(calibrator.a_) * _logistic_slope(calibrator.a_ * score + calibrator.b_)


def _isotonic_slope(calibrator: Any, score: float) -> float:
    """Return the slope of the piece that contains the score, or ends there."""
    knots, values = calibrator.X_thresholds_, calibrator.y_thresholds_
    last = min(max(int(np.searchsorted(knots, score)), 1), len(knots) - 1)
    return float((values[last] - values[last - 1]) / (knots[last] - knots[last - 1]))
