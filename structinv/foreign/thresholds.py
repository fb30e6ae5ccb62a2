"""Where the label of a two-class model changes, if something else than the sign of its score decides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .layers import calibrated_kind, inner_of, opened, threshold_kinds
from .linear_models import LinearClassifier
from .links import Link, calibration_link, probability_link
from .steps import Affine

METHODS = ("predict_proba", "decision_function")
# A computed value is this many units of rounding away from the exact one at most.
UNITS = 8.0
# A threshold that rounding moves by more is refused: a share of its size, or of 1.
MOST_ROOM = 0.01


@dataclass(frozen=True)
class Threshold:
    """The score at which a label changes.

    Parameters
    ----------
    at : float
        The second class is predicted where ``sign * (score - at) > 0``.
    sign : float
        1 or -1.
    room : float
        How far rounding can move it.
    growth : float
        How many times the rounding of scores counts in addition to once.
    """

    at: float
    sign: float
    room: float
    growth: float


def thresholded(model: LinearClassifier, head: Any, dtype: np.dtype) -> LinearClassifier:
    """The classifier that predicts as `head` does, which holds a linear one.

    Parameters
    ----------
    model : LinearClassifier
        What the innermost classifier is.
    head : fitted classifier
        A classifier around it that compares scores or probabilities with a threshold.
    dtype : dtype
        In which scores are computed.

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
    found = _threshold(links, positive, dtype, type(head).__name__)
    if isinstance(found, bool):
        return replace(model, scores=scores, always=int(found))
    growth, room = 1.0 + found.growth, found.room / np.finfo(dtype).eps
    moved = Affine(
        found.sign * scores.coef,
        found.sign * (scores.intercept - found.at),
        growth * scores.coef_size,
        growth * scores.intercept_size + abs(found.at) + room,
        scores.n_steps + 1,
        max(scores.widest, scores.coef.shape[1]),
    )
    return replace(model, scores=moved)


def _one_score(scores: Affine) -> Affine:
    """The score of the second class, less that of the first if there are two."""
    if len(scores.coef) == 1:
        return scores
    differences = np.diff(scores.coef, axis=0), np.diff(scores.intercept)
    sizes = scores.coef_size.sum(axis=0, keepdims=True), scores.intercept_size.sum(keepdims=True)
    return replace(Affine.of(*differences), coef_size=sizes[0], intercept_size=sizes[1])


Rule = tuple[list[Link], Callable[[np.ndarray], np.ndarray]]


def _rule(head: Any) -> Rule:
    """The links between linear score and decision, and the decision from values of both classes."""
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
    """The links between the linear score and what a method returns, and which method that is."""
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
    """The values of both classes, (n, 2)."""
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
    """Where the decision changes, found by asking the links; a bool where it never does."""

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
            f"{name} has a threshold where rounding decides: probabilities there are so close to 0 or "
            "1, or so flat, that they do not tell scores apart. Move the threshold, or compare scores: "
            "response_method='decision_function'"
        )
    return Threshold(at, sign, room, growth)


def _room(links: Sequence[Link], score: float, dtype: np.dtype) -> tuple[float, float]:
    """How far rounding of the links' values moves a threshold, and how rounding of the score grows."""
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
    """The place of a number among all numbers of double precision."""
    bits = int(np.float64(number).view(np.int64))
    return bits if bits >= 0 else -(2**63) - bits


def _number(place: int) -> float:
    bits = place if place >= 0 else -(2**63) - place
    return float(np.int64(bits).view(np.float64))
