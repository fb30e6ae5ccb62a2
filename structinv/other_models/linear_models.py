"""Linear classifiers of other libraries: weights, and checks of their scores."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.multiclass import OneVsRestClassifier

from ..structures import Binary, Multiclass, Structure
from ..structures.bound import predicted
from ..utils.matrices import Matrix, dense, row_max, scale_rows, squared_lengths, stack, with_data
from .affine import Affine
from .naive_bayes import is_naive_bayes, naive_bayes_scores

EXPOSED = ("coef_", "intercept_", "classes_", "decision_function")
# Scores computed in another sequence may differ by the rounding errors of both.
ORDERS = 2.0
WITHOUT_NAMES = "X does not have valid feature names"
# Number of given rows from which probes are made.
PROBED = 32
MULTIPLES = (-1.0, 0.0, 0.5, 1000.0)
# Relative steps to both sides of a tie.
AROUND_A_TIE = (-1e-3, 1e-3)


@dataclass(frozen=True)
class LinearClassifier:
    """Scores of rows, and the labels of the scores.

    - `scores`: one function for two classes, positive for ``classes[1]``; else one for each class
    - `classes` (n_classes,): the labels
    - `always`: number of the class that is predicted for any score
    """

    scores: Affine
    classes: np.ndarray
    always: int | None = None

    @property
    def structure(self) -> Structure:
        """The output structure that maps scores to labels."""
        return Binary() if len(self.scores.coef) == 1 else Multiclass()


def linear_classifier(model: Any) -> LinearClassifier:
    """Return the linear classifier that the attributes of a fitted model define."""
    name = type(model).__name__
    if is_naive_bayes(model):
        _check_classes(name, model.classes_)
        return LinearClassifier(naive_bayes_scores(model), model.classes_)
    if isinstance(model, OneVsRestClassifier):
        scores = _stacked(model)
    else:
        missing = [each for each in EXPOSED if getattr(model, each, None) is None]
        if missing:
            raise TypeError(
                "estimator must be a fitted linear classifier, a Pipeline that ends in one, or a "
                "refitted search for one; with at='features' it may be an estimator of structinv with a "
                f"method certify. {name} has no {missing[0]}{_why_not(name)}. If it contains a linear "
                "classifier, pass that. For a kernel SVM, train InvariantSVC with the same kernel and "
                "this oracle, and call its method certify. Forests, boosted trees and neural networks "
                "have no certificates here: attack them instead"
            )
        scores = _scores(model)
    n_functions, classes = len(scores.coef), model.classes_
    _check_classes(name, classes)
    # Three pairs of three classes have as many functions as classes.
    if isinstance(model, _support_vector_machines()) and len(classes) > 2:
        raise TypeError(
            f"{name} predicts one of {len(classes)} classes by votes of pairs of classes, which are not "
            f"linear: train OneVsRestClassifier({name}(kernel='linear')), or LinearSVC"
        )
    if n_functions != len(classes) and (n_functions, len(classes)) != (1, 2):
        raise TypeError(
            f"{name} must have one function for two classes or one for each class, got {n_functions} "
            f"for {len(classes)} classes"
        )
    return LinearClassifier(scores, classes)


def _scores(model: Any) -> Affine:
    """Return the scores that the attributes of a model define."""
    coef = np.atleast_2d(_dense(model.coef_))
    intercept = np.array(np.broadcast_to(np.ravel(_dense(model.intercept_)), len(coef)), coef.dtype)
    scores = Affine.of(coef, intercept)
    if not isinstance(model, _support_vector_machines()) or len(coef) > 1:
        return scores
    # The score is a sum of products with support vectors, which may nearly cancel in the weights.
    vectors = model.support_vectors_
    sizes = np.abs(_dense(model.dual_coef_)) @ np.abs(_dense(vectors))
    return replace(scores, coef_size=sizes, n_steps=1, widest=max(vectors.shape))


@cache
def _support_vector_machines() -> tuple[Any, ...]:
    from sklearn.svm import SVC, NuSVC

    return SVC, NuSVC


def scores_of(model: Any, rows: Any) -> np.ndarray:
    """Compute the scores of a supported model by itself, (n,) or (n, n_outputs)."""
    if is_naive_bayes(model):
        return np.asarray(model.predict_joint_log_proba(rows))
    return np.asarray(model.decision_function(rows))


def labels_of(model: Any, rows: Any, scores: np.ndarray) -> np.ndarray:
    """Return the labels that `predict` returns for rows with known scores."""
    from sklearn.svm import LinearSVC

    if getattr(model.predict, "__func__", None) is not LinearSVC.predict:
        return np.asarray(model.predict(rows))
    # scikit-learn's linear models would compute the scores again, which is most of the run time.
    known = copy(model)
    known.decision_function = lambda _: scores
    return np.asarray(known.predict(rows))


def check_scores(name: str, own: Affine, rows: Matrix, values: np.ndarray, scores: np.ndarray) -> None:
    """Raise ValueError if `scores_of` has other scores than the linear classifier.

    Shapes: `values` (n, n_outputs), the scores by the weights, `scores` (n,) or (n, n_outputs).
    """
    given = scores[:, None] if scores.ndim == 1 else scores
    if given.shape != values.shape:
        raise ValueError(
            f"{name} is not a linear classifier: its scores have shape {scores.shape}, but those of its "
            f"coef_ have {values.shape}"
        )
    differences = np.abs(given - values)
    # Few rows have errors to bound. NaN is not equal to 0.
    places = np.flatnonzero(~(row_max(differences) == 0))
    if len(places) and not np.all(differences[places] <= ORDERS * own.roundings_at(places, rows)):
        raise ValueError(
            f"{name} is not a linear classifier: its decision_function differs from X coef' + intercept "
            f"by up to {np.max(differences):.2g} on the given rows"
        )


def check_probes(model: Any, linear: LinearClassifier, points: Matrix) -> None:
    """Raise ValueError if scores or labels of probes are not those of the weights."""
    name = type(model).__name__
    values = linear.scores.values(points)
    with without_names():
        scores = scores_of(model, points)
        check_scores(name, linear.scores, points, values, scores)
        check_labels(name, linear, points, values, labels_of(model, points, scores))


def check_labels(
    name: str, model: LinearClassifier, rows: Matrix, values: np.ndarray, labels: Any
) -> None:
    """Raise ValueError if `predict` returns other labels than the linear classifier.

    Shapes: `values` (n, n_outputs), the scores by the weights.
    """
    labels = np.asarray(labels)
    if labels.shape != (len(values),):
        raise ValueError(
            f"{name} is not a linear classifier: its labels have shape {labels.shape}, but those of its "
            f"coef_ have {(len(values),)}"
        )
    if model.always is not None:
        wrong = np.flatnonzero(labels != model.classes[model.always])
    else:
        best = model.classes[predicted(model.structure, len(model.classes), values)]
        wrong = np.flatnonzero(labels != best)
        if len(wrong):
            ordered = np.sort(values[wrong], axis=1)
            margin = np.abs(ordered[:, 0]) if ordered.shape[1] == 1 else ordered[:, -1] - ordered[:, -2]
            wrong = wrong[margin > 2 * ORDERS * row_max(model.scores.roundings_at(wrong, rows))]
    if len(wrong):
        raise ValueError(
            f"{name} does not predict the class with the highest score (of two classes, the second "
            "if the score is above its threshold), so its predictions cannot be certified"
        )


def _check_classes(name: str, classes: Any) -> None:
    if not isinstance(classes, np.ndarray) or classes.ndim != 1 or len(classes) < 2:
        raise TypeError(f"{name} must predict one of at least two classes, got classes_={classes!r}")


def _why_not(name: str) -> str:
    """Return the reason why scores of a class are not linear."""
    reasons = {
        "GaussianNB": "squares of the features",
        "CategoricalNB": "a table of weights for each feature",
        "OneVsOneClassifier": "votes of one classifier for each pair of classes",
        "OutputCodeClassifier": "distances between codes of classes",
    }
    return f": its scores are made of {reasons[name]}" if name in reasons else ""


def _stacked(model: OneVsRestClassifier) -> Affine:
    """Return the functions of one classifier against the rest for each class."""
    for part in model.estimators_:
        if model.multilabel_ or any(getattr(part, each, None) is None for each in EXPOSED[:2]):
            raise TypeError(
                "OneVsRestClassifier must contain linear classifiers with one label per row, got "
                f"{'several labels per row' if model.multilabel_ else type(part).__name__}"
            )
    return Affine.stacked([_scores(part) for part in model.estimators_])


def _dense(values: Any) -> np.ndarray:
    array = np.asarray(dense(values))
    return array if array.dtype.kind == "f" else array.astype(np.float64)


def probes(scores: Affine, rows: Matrix) -> Matrix:
    """Return multiples of rows, points between rows, and points near ties.

    On many rows, a vote of several functions agrees with the highest score; near ties it does not.
    Probes of sparse rows have entries only where a row has some.
    """
    some = rows[:: max(1, -(-rows.shape[0] // PROBED))]
    weights, values = scores.coef, np.asarray(some @ scores.coef.T) + scores.intercept
    if len(weights) == 1:
        values = np.insert(values, 0, 0.0, axis=1)
    every, best = np.arange(len(values)), np.argmax(values, axis=1)
    following = np.roll(every, -1)
    parts = [some * factor for factor in MULTIPLES] + [(some + some[following]) * 0.5]
    with np.errstate(all="ignore"):
        # Between a row and the next, whose best functions differ.
        gap, gap_after = (values[at, best] - values[at, best[following]] for at in (every, following))
        parts += _around(some, some[following] - some, gap / (gap - gap_after))
        # From a row towards its second-best function.
        for place in range(2, min(values.shape[1], 3) + 1):
            other = np.argsort(values, axis=1)[:, -place]
            uphill = _differences(some, weights, other, best)
            gap = values[every, best] - values[every, other]
            parts += _around(some, uphill, gap / squared_lengths(uphill))
    points = stack(parts).astype(rows.dtype, copy=False)
    return points[np.isfinite(squared_lengths(points))]


@contextmanager
def without_names() -> Iterator[None]:
    """Suppress the warning of models that were fitted on data frames and read arrays."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", WITHOUT_NAMES, UserWarning)
        yield


def _around(rows: Matrix, directions: Matrix, lengths: np.ndarray) -> list[Matrix]:
    """Return the rows moved by a little less, and a little more, than a tie requires."""
    return [rows + scale_rows(directions, lengths * (1.0 + step)) for step in AROUND_A_TIE]


def _differences(rows: Matrix, weights: np.ndarray, plus: np.ndarray, minus: np.ndarray) -> Matrix:
    """Return differences of two labels' weights for each row, at the entries of the row.

    With one function, the first of two labels has the weights 0.
    """
    single = len(weights) == 1
    if not sp.issparse(rows):
        differences = (plus - minus)[:, None] * weights if single else weights[plus] - weights[minus]
        return np.where(rows != 0, differences, 0.0)
    owners, at = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr)), rows.indices
    plus, minus = plus[owners], minus[owners]
    differences = (plus - minus) * weights[0, at] if single else weights[plus, at] - weights[minus, at]
    return with_data(rows, differences)
