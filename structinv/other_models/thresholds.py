"""Moved thresholds and calibration: the score at which the label changes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from scipy.special import expit, logsumexp
from sklearn.multiclass import OneVsRestClassifier
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from ..estimators.inputs import label_name
from ..utils.matrices import Matrix
from .affine import Affine
from .layers import THRESHOLD_KINDS, calibrated_kind, inner_of, layers, opened, transformed
from .linear_models import LinearClassifier, linear_classifier, scores_of, without_names
from .naive_bayes import is_naive_bayes

Decision = Callable[[np.ndarray], np.ndarray]

METHODS = ("predict_proba", "decision_function")
# Number of rows on which links are checked.
CHECKED = 256
# Maximum rounding error of a threshold, relative to its size, or to 1 if that is larger.
MOST_ROOM = 0.01
# Maximum error of a computed value, in rounding units.
UNITS = 8.0


def thresholded(
    model: LinearClassifier,
    head: Any,
    dtype: np.dtype,
    X: Any = None,
    points: Matrix | None = None,
) -> LinearClassifier:
    """Return the linear classifier with the threshold of `head`, which contains it."""
    if X is not None:
        X = _safe_indexing(X, np.arange(min(_num_samples(X), CHECKED)))
    links, positive = _rule(head, X, points)
    if len(model.classes) != 2:
        raise ValueError(
            f"{type(head).__name__} must have two classes for a certificate, got {len(model.classes)}"
        )
    scores = _one_score(model.scores)

    def is_second(score: float) -> bool:
        with np.errstate(over="ignore"):
            return bool(positive(_values(links, np.array([score], dtype=dtype)))[0])

    below, above = _change(is_second, float(np.finfo(dtype).max) / 2)
    second_above = is_second(above)
    if is_second(below) == second_above:
        return replace(model, scores=scores, always=int(second_above))
    at, sign = (below, 1.0) if second_above else (above, -1.0)
    room, growth = _room(links, above, dtype)
    if not room <= MOST_ROOM * max(1.0, abs(at)):
        raise ValueError(
            f"the threshold of {type(head).__name__} cannot be certified: near it, different scores "
            "have equal probabilities after rounding. Change the threshold, or compare scores: "
            "response_method='decision_function'"
        )
    moved = scores.combined(np.full((1, 1), sign))
    sizes = moved.offset_sizes
    moved = replace(
        moved,
        intercept=moved.intercept - sign * at,
        coef_size=growth * moved.coef_size,
        intercept_size=growth * moved.intercept_size + abs(at) + room / np.finfo(dtype).eps,
        offset_sizes=None if sizes is None else growth * sizes,
        n_steps=moved.n_steps + 1,
        widest=max(moved.widest, moved.n_features),
    )
    return replace(model, scores=moved)


def with_threshold_zero(estimator: Any) -> tuple[list[Any], Any]:
    """Return the steps of an estimator, and its last classifier with threshold 0.

    If the threshold is moved, the classifier is a copy with another intercept. Its margins are
    distances from the moved threshold.
    """
    parts = layers(estimator)
    if not parts.moved:
        return parts.steps, parts.last
    known = linear_classifier(parts.last)
    model = thresholded(known, parts.head, known.scores.coef.dtype)
    if model.always is not None:
        label = label_name(model.classes[model.always])
        raise ValueError(
            f"the threshold of {type(parts.head).__name__} must be within the scores, but the model "
            f"always predicts {label!r}: choose another threshold"
        )
    last = copy.copy(parts.last)
    last.coef_, last.intercept_ = model.scores.coef, model.scores.intercept
    return parts.steps, last


def _one_score(scores: Affine) -> Affine:
    """Return the score of the second class, minus that of the first if there are two."""
    return scores if len(scores.coef) == 1 else scores.combined(np.array([[-1.0, 1.0]]))


def _rule(head: Any, X: Any, points: Matrix | None) -> tuple[list[Link], Decision]:
    """Return the links from the linear score to the values of both classes, and their decision."""
    if type(head) is calibrated_kind():
        links, _ = _responses(head, METHODS, X, points)
        return links, lambda values: values[:, 1] > values[:, 0]
    wanted = METHODS if head.response_method == "auto" else (head.response_method,)
    links, method = _responses(inner_of(head), wanted, X, points)
    if hasattr(head, "best_threshold_"):
        least, label = head.best_threshold_, head._curve_scorer._get_pos_label()
    else:
        least, label = head.threshold, head.pos_label
    if isinstance(least, str):
        least = 0.5 if method == "predict_proba" else 0.0
    if label is None or label == head.classes_[1]:
        return links, lambda values: values[:, 1] >= least
    return links, lambda values: ~(values[:, 0] >= least)


def _responses(
    estimator: Any, methods: Sequence[str], X: Any, points: Matrix | None
) -> tuple[list[Link], str]:
    """Return the links from the linear score to the result of a method, and the method."""
    method = next((each for each in methods if hasattr(estimator, each)), None)
    if method is None:
        has = next((each for each in METHODS if hasattr(estimator, each)), "auto")
        raise ValueError(
            f"{type(estimator).__name__} has no method {methods[0]}, which the classifier around it "
            f"compares with its threshold: fit that with response_method={has!r}"
        )
    steps, head = opened(estimator)
    X, inner = None if X is None else transformed(X, steps), inner_of(head)
    if inner is None:
        if method != "predict_proba":
            return [], method
        link = probability_link(head)
        for rows in [each for each in (X, points) if each is not None]:
            with without_names():
                check_link(head, link, scores_of(head, rows), head.predict_proba(rows))
        return [link], method
    if type(head) in THRESHOLD_KINDS:
        return _responses(inner, (method,), X, points)
    links, response = _responses(inner, METHODS[::-1], X, points)
    link = calibration_link(head)
    if X is not None:
        scores = np.asarray(getattr(inner, response)(X))
        check_link(head, link, scores if scores.ndim == 1 else scores[:, 1], head.predict_proba(X))
    return [*links, link], method


def _values(links: Sequence[Link], score: np.ndarray) -> np.ndarray:
    """Return the values of both classes, (n, 2)."""
    values = np.stack([-score, score], axis=1)
    for link in links:
        values = link.values(values[:, 1])
    return values


def _change(decision: Callable[[float], bool], largest: float) -> tuple[float, float]:
    """Return the neighboring numbers between which a decision changes, by bisection.

    If the decision never changes, these are the ends of the range.
    """
    below, above = -largest, largest
    lowest = decision(below)
    if decision(above) != lowest:
        while below < (middle := 0.5 * below + 0.5 * above) < above:
            below, above = (middle, above) if decision(middle) == lowest else (below, middle)
    return below, above


def _room(links: Sequence[Link], score: float, dtype: np.dtype) -> tuple[float, float]:
    """Bound the rounding error of a threshold; return the factor of the error of the score, too."""
    unit = UNITS * float(np.finfo(dtype).eps)
    room, slope, growth = unit * abs(score), 1.0, 1.0
    for link in links:
        slope *= link.slope(score)
        if slope == 0:
            return np.inf, growth
        values = link.values(np.array([score], dtype=dtype))[0]
        score = float(values[1])
        room += unit * max(1.0, abs(score)) / slope
        if link.of_logs:
            growth = 1.0 + 1.0 / float(values.min())
    return room, growth


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
