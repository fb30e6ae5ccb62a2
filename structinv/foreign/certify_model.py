"""Certificates for linear classifiers, whoever trained them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import check_array

from ..certificates.certificate import Certificate, WorstChange, warn_of_unit_length, worst_change
from ..estimators import InvariantStructuredSVC, InvariantTextClassifier
from ..estimators.classifier import InvariantClassifier
from ..estimators.parameters import check_oracle_type
from ..estimators.row_shapes import for_oracle, shaped
from ..estimators.target_labels import one_label_a_row
from ..oracles import InvarianceOracle
from ..terms.worst_case import ROWS_AT_ONCE
from ..utils.matrices import Matrix
from .layers import Layers, check_fitted, layers
from .linear_models import (
    LinearClassifier,
    check_labels,
    check_scores,
    linear_classifier,
    roundings,
    scores_of,
)
from .naive_bayes import binary_rows, refuse_before_comparison
from .steps import before_steps
from .thresholds import thresholded

PLACES = ("features", "input")


def certify(
    estimator: Any,
    oracle: InvarianceOracle | None,
    X: Any,
    y: Any = None,
    *,
    at: str = "features",
) -> Certificate:
    """Certify any fitted linear classifier against the changes that an oracle allows.

    A linear classifier is known by what it exposes (`coef_`, `intercept_`, `classes_`), and believed
    only if its `decision_function` is ``X coef' + intercept`` to rounding, and its `predict` the class
    with the highest score, on the rows given: LinearSVC, LogisticRegression, RidgeClassifier,
    SGDClassifier, Perceptron, LinearDiscriminantAnalysis and their like, also one against the rest.
    The margin at the worst change is ``min over y' of (b_y - b_y') - sigma_S(w_y' - w_y)`` (as in Teo,
    Globerson, Roweis and Smola 2007, eq. 2), exact where the oracle is.

    `MultinomialNB` and `ComplementNB` have linear scores as well. `BernoulliNB` looks only at which
    features are above its `binarize`. It is certified for dropped and added features, on rows without
    values between 0 and `binarize`. With ``binarize=None`` its scores are linear for every oracle.

    Of two classes, a threshold may be moved: by `FixedThresholdClassifier`, by
    `TunedThresholdClassifierCV`, or by a `CalibratedClassifierCV` with a single classifier inside and
    the method "sigmoid" or "isotonic". Such a label changes at one score, from which margins are
    counted. A threshold beyond all scores gives infinite margins, because the label never changes.

    Parameters
    ----------
    estimator : fitted classifier
        Linear, or an estimator of structinv with `certify` of its own, which is asked; a Pipeline that
        ends in either; a search with a `best_estimator_` of these kinds; or a classifier that moves the
        threshold of one of these.
    oracle : InvarianceOracle or None
        What may change. None stands for what an estimator of structinv was trained for.
    X : (n, n_features) array-like or sparse matrix, or what the Pipeline takes
    y : (n,) array-like, optional
        True labels; without them it is certified that the prediction does not change, right or wrong:
        an oracle for rows of some labels is then asked about all rows.
    at : {"features", "input"}, default="features"
        Of a Pipeline, whether S lies around the rows that its LAST step takes, or around the rows of
        `X`. Steps inside a classifier with a moved threshold count as well. "input" goes through
        scalers, projections and selections, which are affine, and refuses all other steps by name.

    Returns
    -------
    Certificate
        ``margins`` in units of the scores, ``correct``, ``accuracy``, ``exact`` and ``attacked``.

    Raises
    ------
    TypeError
        If the estimator is not linear or averages several classifiers; if the oracle is none, does not
        take sparse rows, or does more to rows of `BernoulliNB` than drop and add features; and for
        `InvariantStructuredSVC`, whose own `certify` speaks of whole labelings.
    ValueError
        If scores or predictions on `X` are not those of a linear classifier, if a step is not known
        to be affine, or if `y` holds a label that is not among the classes. If weights of naive Bayes
        are infinite, if `CalibratedClassifierCV` has more than two classes, or if a moved threshold lies
        where probabilities round to 0 or 1.
    NotFittedError
        If the estimator is not fitted.

    Warns
    -----
    UnitLengthWarning
        Of rows of length 1 whose single features are edited.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from structinv import certify
    >>> from structinv.oracles import Box
    >>> X = np.array([[0.0, 10.0], [1.0, 30.0], [4.0, 20.0], [5.0, 40.0]])
    >>> y = np.array(["low", "low", "high", "high"])
    >>> model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
    >>> certify(model, Box(1.0), X, y, at="input").accuracy
    1.0
    >>> certify(model, Box(1.0), X, y).accuracy
    0.5

    Naive Bayes on word counts, with a threshold that spam must reach:

    >>> from sklearn.model_selection import FixedThresholdClassifier
    >>> from sklearn.naive_bayes import MultinomialNB
    >>> from structinv.oracles import FDrop
    >>> X = np.array([[3, 0, 2], [2, 0, 1], [0, 3, 1], [0, 1, 2]])
    >>> y = np.array(["spam", "spam", "ham", "ham"])
    >>> model = FixedThresholdClassifier(MultinomialNB(), threshold=0.6, pos_label="spam").fit(X, y)
    >>> certify(model, FDrop(1), X, y).accuracy
    0.5
    """
    if at not in PLACES:
        raise ValueError(f"at must be one of {list(PLACES)}, got {at!r}")
    check_fitted(estimator)
    parts = layers(estimator)
    last = parts.last
    if isinstance(last, InvariantStructuredSVC):
        own = "pipe[-1].certify(pipe[:-1].transform(X), y" if parts.steps else "model.certify(X, y"
        raise TypeError(
            "certify takes classifiers of single rows; InvariantStructuredSVC has a certify of its own, "
            f"for whole labelings: {own}, oracle=...)"
        )
    if isinstance(last, InvariantTextClassifier) and parts.moved:
        raise TypeError(
            f"{type(parts.head).__name__} around InvariantTextClassifier is not supported, whose "
            "certificates are of texts; certify the InvariantTextClassifier itself"
        )
    if (
        isinstance(last, InvariantClassifier)
        and not parts.moved
        and (at == "features" or not parts.steps)
    ):
        return last.certify(_transformed(X, parts.before), y, oracle=oracle)
    if oracle is None and not isinstance(last, InvariantClassifier):
        raise TypeError(
            f"oracle must say what may change: {type(last).__name__} was trained without one, got None"
        )
    oracle = check_oracle_type(last.oracle if oracle is None else oracle)
    model, checked, labels, oracle = _checked(parts, X, y, oracle, at)
    oracle.check_labels(model.classes)
    if y is None:
        oracle = oracle.for_any_label()
    warn_of_unit_length(oracle, checked, stacklevel=3)
    return _certificate(model, checked, labels, oracle)


def _checked(
    parts: Layers, X: Any, y: Any, oracle: InvarianceOracle, at: str
) -> tuple[LinearClassifier, Matrix, np.ndarray, InvarianceOracle]:
    """What a model is on the rows that may change, those rows, the labels to certify, and the oracle."""
    found, last = linear_classifier(parts.last), parts.last
    steps = parts.steps if at == "input" else []
    refuse_before_comparison(last, steps)
    linear = LinearClassifier(before_steps(found.scores, steps), found.classes)
    to_head = _transformed(X, parts.before)
    to_last = _transformed(to_head, parts.inside)
    given = X if at == "input" else to_last
    oracle = shaped(oracle, steps[0] if steps else last, given)
    rows = _rows(given, linear, oracle)
    rows, oracle = binary_rows(last, rows, oracle)
    name = type(last).__name__ if not steps else f"The Pipeline that ends in {type(last).__name__}"
    check_scores(name, linear, rows, scores_of(last, to_last))
    model = linear
    if parts.moved:
        name = type(parts.head).__name__
        moved = thresholded(found, parts.head, np.result_type(rows.dtype, found.scores.coef.dtype))
        model = replace(moved, scores=before_steps(moved.scores, steps))
    labels = parts.head.predict(to_head)
    check_labels(name, model, rows, labels)
    if y is not None:
        labels = one_label_a_row(y, rows.shape[0])
    return model, rows, labels, oracle


def _transformed(X: Any, steps: list[Any]) -> Any:
    """The rows behind some steps."""
    for step in steps:
        X = step.transform(X)
    return X


def _rows(X: Any, model: LinearClassifier, oracle: InvarianceOracle) -> Matrix:
    """Rows in the form that the oracle takes."""
    rows = check_array(
        X,
        accept_sparse="csr",
        dtype=[np.float64, np.float32],
        input_name="X",
        estimator="certify",
    )
    n_features = model.scores.coef.shape[1]
    if rows.shape[1] != n_features:
        raise ValueError(f"X must have {n_features} features, as in training, got {rows.shape[1]}")
    return for_oracle(rows, oracle)


def _certificate(
    model: LinearClassifier, X: Matrix, y: np.ndarray, oracle: InvarianceOracle
) -> Certificate:
    """The certificate of rows that are known to be scored as the model does."""
    # All labels are looked at before any work.
    oracle.check_labels(model.classes)
    model.structure.bind(y, model.classes)
    if model.always is not None:
        margins = np.where(y == model.classes[model.always], np.inf, -np.inf)
        return Certificate(margins, margins.copy(), np.ones(len(y), dtype=bool))
    parts = []
    for first in range(0, X.shape[0], ROWS_AT_ONCE):
        rows = slice(first, first + ROWS_AT_ONCE)
        parts.append(_worst_change(model, oracle, X[rows], y[rows]).certificate())
    return Certificate.join(parts)


def _worst_change(
    model: LinearClassifier, oracle: InvarianceOracle, X: Matrix, y: np.ndarray
) -> WorstChange:
    """The worst change of each row, with the rounding of all steps that predictions go through."""
    scores, bound = model.scores, model.structure.bind(y, model.classes)
    change = worst_change(scores.coef, scores.intercept, oracle, bound, X, points=scores.n_steps > 0)
    if change.points is None:
        return change
    each = np.sort(roundings(scores, change.points), axis=1)
    return replace(change, rounding=change.rounding + each[:, -2:].sum(axis=1))
