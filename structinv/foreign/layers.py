"""The parts of a fitted classifier: steps that change rows, a linear model, and a moved threshold."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted


@dataclass(frozen=True)
class Layers:
    """A fitted classifier taken apart.

    Parameters
    ----------
    before : list of transformers
        Steps that rows pass first.
    head : fitted classifier
        What predicts behind these steps: a classifier with a moved threshold, or `last` itself.
    inside : list of transformers
        Steps inside `head`.
    last : fitted classifier
        The innermost one.
    """

    before: list[Any]
    head: Any
    inside: list[Any]
    last: Any

    @property
    def steps(self) -> list[Any]:
        """All steps, in the order in which rows pass them."""
        return [*self.before, *self.inside]

    @property
    def moved(self) -> bool:
        """Whether something around `last` decides what is predicted."""
        return self.head is not self.last


def layers(estimator: Any) -> Layers:
    """The parts of a classifier: Pipelines, searches and classifiers around a classifier are opened.

    Raises
    ------
    TypeError
        If a classifier around others averages several.
    """
    before, head = opened(estimator)
    inside, last = [], head
    while (inner := inner_of(last)) is not None:
        more, last = opened(inner)
        inside += more
    return Layers(before, head, inside, last)


def opened(estimator: Any) -> tuple[list[Any], Any]:
    """The steps that change rows, and the classifier behind them."""
    steps: list[Any] = []
    while True:
        best = getattr(estimator, "best_estimator_", None)
        if best is not None:
            estimator = best
        elif isinstance(estimator, Pipeline):
            changing = [step for _, step in estimator.steps[:-1]]
            steps += [step for step in changing if step is not None and not isinstance(step, str)]
            estimator = estimator.steps[-1][1]
        elif type(estimator) is _frozen():
            estimator = estimator.estimator
        else:
            return steps, estimator


def inner_of(estimator: Any) -> Any:
    """The one classifier whose scores another one compares with a threshold; None if there is none.

    Raises
    ------
    TypeError
        If it averages several.
    """
    if type(estimator) in threshold_kinds():
        # Such a classifier may stand around a fitted one without having been fitted.
        return getattr(estimator, "estimator_", estimator.estimator)
    if type(estimator) is not calibrated_kind():
        return None
    calibrated = estimator.calibrated_classifiers_
    if len(calibrated) != 1:
        raise TypeError(
            f"CalibratedClassifierCV averages {len(calibrated)} calibrated classifiers, and the average "
            "is not a function of one score. Fit it with ensemble=False, or around a FrozenEstimator. "
            "The linear classifier inside can be certified by itself"
        )
    return calibrated[0].estimator


def check_fitted(estimator: Any) -> None:
    """Raise NotFittedError unless the estimator can predict."""
    if type(estimator) in threshold_kinds() and isinstance(estimator.estimator, BaseEstimator):
        check_is_fitted(getattr(estimator, "estimator_", estimator.estimator))
        return
    check_is_fitted(estimator)


@cache
def threshold_kinds() -> tuple[Any, ...]:
    """Classifiers that compare the scores of another one with a threshold of their own."""
    # Subclasses may predict by another rule.
    from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV

    return FixedThresholdClassifier, TunedThresholdClassifierCV


@cache
def calibrated_kind() -> Any:
    """The classifier that maps the scores of another one to probabilities."""
    from sklearn.calibration import CalibratedClassifierCV

    return CalibratedClassifierCV


@cache
def _frozen() -> Any:
    from sklearn.frozen import FrozenEstimator

    return FrozenEstimator
