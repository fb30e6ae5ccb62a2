"""Parts of a fitted classifier: transformers, linear model, moved threshold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ..utils.parameters import brief

# Classifiers that compare the scores of another one with a threshold; subclasses may differ.
THRESHOLD_KINDS = (FixedThresholdClassifier, TunedThresholdClassifierCV)


@dataclass(frozen=True)
class Layers:
    """The parts of a fitted classifier.

    - `before`: steps before `head`
    - `head`: classifier after these steps: one with a moved threshold, or `last` itself
    - `inside`: steps inside `head`
    - `last`: the innermost classifier
    """

    before: list[Any]
    head: Any
    inside: list[Any]
    last: Any

    @property
    def steps(self) -> list[Any]:
        """All steps in sequence."""
        return [*self.before, *self.inside]

    @property
    def moved(self) -> bool:
        """True if a classifier around `last` decides the prediction."""
        return self.head is not self.last


def layers(estimator: Any) -> Layers:
    """Return the parts of a Pipeline, a search, or a classifier around a classifier."""
    before, head = opened(estimator)
    inside, last = [], head
    while (inner := inner_of(last)) is not None:
        more, last = opened(inner)
        inside += more
    return Layers(before, head, inside, last)


def opened(estimator: Any) -> tuple[list[Any], Any]:
    """Return the transforming steps of an estimator, and the classifier after them."""
    steps: list[Any] = []
    while True:
        best = getattr(estimator, "best_estimator_", None)
        if best is not None:
            estimator = best
        elif isinstance(estimator, Pipeline):
            steps += [step for _, step in estimator.steps[:-1] if _changes_rows(step)]
            estimator = estimator.steps[-1][1]
        elif type(estimator) is FrozenEstimator:
            estimator = estimator.estimator
        else:
            return steps, estimator


def _changes_rows(step: Any) -> bool:
    """Return True for a step that transforms the rows to predict.

    Pipelines of imbalanced-learn resample in `fit` only.
    """
    return step is not None and not isinstance(step, str) and not hasattr(step, "fit_resample")


def transformed(X: Any, steps: list[Any]) -> Any:
    """Return the rows after some steps."""
    for step in steps:
        X = step.transform(X)
    return X


def names_after(steps: Sequence[Any]) -> np.ndarray | None:
    """Return the names of the features after some steps, or None if a step has none."""
    names = None
    for step in steps:
        try:
            names = step.get_feature_names_out(names)
        except (AttributeError, ValueError):
            # Steps without a fixed number of features, or without names of their input.
            return None
    return names


def inner_of(estimator: Any) -> Any:
    """Return the classifier whose score another classifier compares with a threshold.

    None if there is no such classifier.
    """
    if type(estimator) in THRESHOLD_KINDS:
        # Such a classifier may contain a fitted one and not be fitted itself.
        return getattr(estimator, "estimator_", estimator.estimator)
    if type(estimator) is not calibrated_kind():
        return None
    calibrated = estimator.calibrated_classifiers_
    if len(calibrated) != 1:
        raise TypeError(
            f"CalibratedClassifierCV averages {len(calibrated)} calibrated classifiers, and the average "
            "is not a function of one score. Fit it with ensemble=False or around a FrozenEstimator, or "
            "certify the linear classifier inside"
        )
    return calibrated[0].estimator


def check_fitted(estimator: Any) -> None:
    """Raise NotFittedError if the estimator cannot predict."""
    if type(estimator) in THRESHOLD_KINDS and isinstance(estimator.estimator, BaseEstimator):
        check_is_fitted(getattr(estimator, "estimator_", estimator.estimator))
        return
    if not callable(getattr(estimator, "fit", None)):
        raise TypeError(f"estimator must be a fitted classifier, got {brief(estimator)}")
    check_is_fitted(estimator)


@cache
def calibrated_kind() -> Any:
    """Return the classifier that maps the scores of another one to probabilities."""
    from sklearn.calibration import CalibratedClassifierCV

    return CalibratedClassifierCV
