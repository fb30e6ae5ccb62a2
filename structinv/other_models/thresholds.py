"""Moved thresholds of two-class models: the score at which the label changes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..estimators.target_labels import label_name
from .layers import calibrated_kind, inner_of, layers, opened, threshold_kinds
from .linear_models import LinearClassifier, linear_classifier
from .links import Link, calibration_link, probability_link
from .steps import Affine

METHODS = ("predict_proba", "decision_function")
# Maximum error of a computed value, in rounding units.
UNITS = 8.0
# Maximum rounding error of a threshold, relative to its size, or to 1 if that is larger.
MOST_ROOM = 0.01


@dataclass(frozen=True)
class Threshold:
    """The score at which a label changes.

    Parameters
    ----------
    at : float
        The second class is predicted if ``sign * (score - at) > 0``.
    sign : float
        1 or -1.
    room : float
        Bound of the rounding error of `at`.
    growth : float
        Additional multiples of the rounding error of scores.
    """

    at: float
    sign: float
    room: float
    growth: float


def thresholded(model: LinearClassifier, head: Any, dtype: np.dtype) -> LinearClassifier:
    """Return the linear classifier with the threshold of `head`, which contains it.

    Parameters
    ----------
    model : LinearClassifier
        The innermost classifier.
    head : fitted classifier
        Classifier around it that compares scores or probabilities with a threshold.
    dtype : dtype
        Precision of computed scores.

    Raises
    ------
    TypeError, ValueError
        If there are more than two classes, if the probabilities are not known to be a monotone function
        of the score, or if rounding decides where the label changes.
    """
    links, positive = _rule(head)
    if len(model.classes) != 2:
        raise ValueError(
            f"{type(head).__name__} must have two classes for a certificate, got {len(model.classes)}"
        )
    scores = _one_score(model.scores)
    threshold = _threshold(links, positive, dtype, type(head).__name__)
    if isinstance(threshold, bool):
        return replace(model, scores=scores, always=int(threshold))
    growth, room = 1.0 + threshold.growth, threshold.room / np.finfo(dtype).eps
    moved = Affine(
        threshold.sign * scores.coef,
        threshold.sign * (scores.intercept - threshold.at),
        growth * scores.coef_size,
        growth * scores.intercept_size + abs(threshold.at) + room,
        scores.n_steps + 1,
        max(scores.widest, scores.coef.shape[1]),
    )
    return replace(model, scores=moved)


def with_threshold_zero(estimator: Any) -> tuple[list[Any], Any]:
    """Return the steps of an estimator, and its last classifier with threshold 0.

    If the threshold is moved, the classifier is a copy with another intercept. Its margins are
    distances from the moved threshold.

    Raises
    ------
    TypeError, ValueError
        As for `layers` and `thresholded`, and if the threshold is beyond all scores.
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
    if len(scores.coef) == 1:
        return scores
    differences = np.diff(scores.coef, axis=0), np.diff(scores.intercept)
    sizes = scores.coef_size.sum(axis=0, keepdims=True), scores.intercept_size.sum(keepdims=True)
    return replace(Affine.of(*differences), coef_size=sizes[0], intercept_size=sizes[1])


Rule = tuple[list[Link], Callable[[np.ndarray], np.ndarray]]


def _rule(head: Any) -> Rule:
    """Return the links from the linear score to the values of both classes, and their decision."""
    if type(head) is calibrated_kind():
        links, _ = _responses(head, METHODS)
        return links, lambda values: values[:, 1] > values[:, 0]
    wanted = METHODS if head.response_method == "auto" else (head.response_method,)
    links, method = _responses(inner_of(head), wanted)
    if hasattr(head, "best_threshold_"):
        least, label = head.best_threshold_, head._curve_scorer._get_pos_label()
    else:
        least, label = head.threshold, head.pos_label
    if isinstance(least, str):
        least = 0.5 if method == "predict_proba" else 0.0
    if label is None or label == head.classes_[1]:
        return links, lambda values: values[:, 1] >= least
    return links, lambda values: ~(values[:, 0] >= least)


def _responses(estimator: Any, methods: Sequence[str]) -> tuple[list[Link], str]:
    """Return the links from the linear score to the result of a method, and the method."""
    method = next(each for each in methods if hasattr(estimator, each))
    _, head = opened(estimator)
    inner = inner_of(head)
    if inner is None:
        return ([probability_link(head)] if method == "predict_proba" else []), method
    if type(head) in threshold_kinds():
        return _responses(inner, (method,))
    links, _ = _responses(inner, METHODS[::-1])
    return [*links, calibration_link(head)], method


def _values(links: Sequence[Link], score: np.ndarray) -> np.ndarray:
    """Return the values of both classes, (n, 2)."""
    values = np.stack([-score, score], axis=1)
    for link in links:
        values = link.values(values[:, 1])
    return values


def _threshold(
    links: Sequence[Link],
    positive: Callable[[np.ndarray], np.ndarray],
    dtype: np.dtype,
    name: str,
) -> Threshold | bool:
    """Find by bisection the score at which the decision changes; return a constant decision."""

    def decision(score: float) -> bool:
        return bool(positive(_values(links, np.array([score], dtype=dtype)))[0])

    largest = float(np.finfo(dtype).max) / 2
    with np.errstate(over="ignore"):
        lowest, highest = decision(-largest), decision(largest)
        if lowest == highest:
            return highest
        below, above = _place(-largest), _place(largest)
        while above - below > 1:
            middle = (below + above) // 2
            below, above = (middle, above) if decision(_number(middle)) == lowest else (below, middle)
    sign = 1.0 if highest else -1.0
    at = _number(below if highest else above)
    room, growth = _room(links, _number(above), dtype)
    if not room <= MOST_ROOM * max(1.0, abs(at)):
        raise ValueError(
            f"the threshold of {name} cannot be certified: near it, different scores have equal "
            "probabilities after rounding. Change the threshold, or compare scores: "
            "response_method='decision_function'"
        )
    return Threshold(at, sign, room, growth)


def _room(links: Sequence[Link], score: float, dtype: np.dtype) -> tuple[float, float]:
    """Bound the rounding error of a threshold, and the growth of the error of the score."""
    unit = UNITS * float(np.finfo(dtype).eps)
    room, slope, growth = unit * abs(score), 1.0, 0.0
    for link in links:
        slope *= link.slope(score)
        if slope == 0:
            return np.inf, growth
        values = link.values(np.array([score], dtype=dtype))[0]
        score = float(values[1])
        room += unit * max(1.0, abs(score)) / slope
        if link.of_logs:
            growth = 1.0 / float(values.min())
    return room, growth


def _place(number: float) -> int:
    """Return the position of a number among all float64 numbers."""
    bits = int(np.float64(number).view(np.int64))
    return bits if bits >= 0 else -(2**63) - bits


def _number(place: int) -> float:
    bits = place if place >= 0 else -(2**63) - place
    return float(np.int64(bits).view(np.float64))
