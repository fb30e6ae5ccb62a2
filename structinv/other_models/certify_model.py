"""Certificates for linear classifiers of any library."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import is_regressor

from ..certificates.certificate import (
    Certificate,
    WorstChange,
    described,
    linear_function,
    warn_of_row_lengths,
    worst_change_in,
)
from ..estimators import InvariantStructuredSVC, InvariantTextClassifier
from ..estimators.classifier import InvariantClassifier
from ..estimators.inputs import check_oracle_type
from ..estimators.text import token_edits, warn_of_unknown_texts
from ..oracles import InvarianceOracle
from ..spaces.explicit_space import OffsetSpace
from ..terms.worst_case import ROWS_AT_ONCE
from ..utils.matrices import Matrix
from .certify_texts import certify_texts
from .checked_model import checked_model
from .layers import Layers, check_fitted, layers, transformed
from .linear_models import LinearClassifier
from .text_features import warn_of_text_edits

PLACES = ("features", "input")


def certify(
    estimator: Any,
    oracle: InvarianceOracle | None,
    X: Any,
    y: Any = None,
    *,
    at: str = "features",
) -> Certificate:
    """Certify any fitted linear classifier against a perturbation set.

    A linear classifier has the attributes `coef_`, `intercept_` and `classes_`. `certify` checks its
    `decision_function`, which must be ``X coef' + intercept`` except for rounding. `predict` must return
    the class with the highest score. The checks use the given rows, multiples of them, points between
    them, and points near ties of two scores. Examples are LinearSVC, LogisticRegression,
    RidgeClassifier, SGDClassifier, Perceptron, LinearDiscriminantAnalysis, and OneVsRestClassifier with
    one of these.

    The worst-case margin is ``min over y' of (b_y - b_y') - sigma_S(w_y' - w_y)`` (as in Teo, Globerson,
    Roweis and Smola 2007, eq. 2). Here ``w_y`` and ``b_y`` are the weights and the intercept of class y,
    and ``sigma_S(v)`` is the maximum of ``<v, z>`` over z in S(x). The margin is tight if the oracle is
    exact.

    `MultinomialNB` and `ComplementNB` have linear scores as well. `BernoulliNB` only compares features
    with its threshold `binarize`. It is certified for dropped and added features, if no value of a row
    is between 0 and `binarize`. With ``binarize=None`` its scores are linear for every oracle.

    A model with two classes may have another decision threshold, as in `FixedThresholdClassifier` and
    `TunedThresholdClassifierCV`. A `CalibratedClassifierCV` must have one classifier and the method
    "sigmoid" or "isotonic". The margin is then the distance of the score from the threshold. A threshold
    beyond all scores gives infinite margins, because the label never changes.

    Parameters
    ----------
    estimator : fitted classifier
        A linear classifier, a classifier of structinv with a method `certify`, or a Pipeline that ends
        in either. Also a search with such a `best_estimator_`, or a classifier that changes the decision
        threshold of one of these. For a classifier of structinv, the function calls its method `certify`
        if possible.
    oracle : InvarianceOracle or None
        Oracle with the perturbations. None means the oracle of the training, for a classifier of
        structinv.
    X : array-like or sparse matrix of shape (n_samples, n_features), or input of the Pipeline
        Samples to certify.
    y : array-like of shape (n_samples,) or None, default=None
        True labels. Without labels the certificate proves that predictions do not change, whether they
        are correct or not. An oracle with `only_for` then perturbs all samples.
    at : {"features", "input"}, default="features"
        Feature space of the perturbation sets in a Pipeline: the input of its last step, or `X`. Steps
        of a Pipeline inside a `FixedThresholdClassifier` or a similar classifier are steps in this
        sense. "input" supports scalers, projections and selections, which are affine. A
        `ColumnTransformer` may have other steps for columns that the oracle does not change.

    Returns
    -------
    Certificate
        The ``margins`` in units of the scores, with ``correct``, ``accuracy``, ``exact`` and
        ``attacked``. Without labels, ``accuracy`` is the fraction of unchanged predictions. The
        certificate holds also if the search for attacks misses the worst perturbation: its margins are
        then lower bounds.

    Raises
    ------
    TypeError
        If the estimator is not linear, averages several classifiers, predicts by votes of pairs of
        classes, or is a regressor. If `oracle` is
        not an oracle, or does not support sparse rows. If it allows edits other than dropped and added
        features for `BernoulliNB`. If the estimator is an `InvariantStructuredSVC`: call its own
        `certify`.
    ValueError
        If scores or predictions are not those of a linear classifier, or probabilities are not the known
        function of a score. If ``at="input"`` and a step is not known to be affine, or the oracle
        changes a column with such a step. If `y` contains a label that is not among the classes. If
        weights of naive Bayes are infinite, or `CalibratedClassifierCV` has more than two classes. If
        probabilities at the decision threshold round to 0 or 1.
    NotFittedError
        If the estimator is not fitted.

    Warns
    -----
    TextEditsWarning
        If the oracle edits single features, but an edit of the text changes other features. All rows
        have Euclidean length 1, or a vectorizer counts groups of words or characters.
    UserWarning
        If X contains texts without any feature of the model, such as an empty one. The message lists the
        first of them, with their predicted label and the share of unknown tokens.

    See Also
    --------
    structinv.Certificate : The result.
    structinv.estimators.InvariantLinearSVC : Linear classifier with worst-case training.

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
    _refuse_regressor(last)
    if isinstance(last, InvariantStructuredSVC):
        call = "pipe[-1].certify(pipe[:-1].transform(X), y" if parts.steps else "model.certify(X, y"
        raise TypeError(
            "certify supports classifiers of single rows; call the method of InvariantStructuredSVC for "
            f"labelings: {call}, oracle=...)"
        )
    edits = token_edits(oracle)
    if oracle is not None and edits is not None and not isinstance(last, InvariantTextClassifier):
        certificate, has_features = certify_texts(parts, X, y, oracle, edits)
        _warn_of_unknown_texts(estimator, parts, X, has_features)
        return certificate
    if at == "features" and (oracle is not None or isinstance(last, InvariantClassifier)):
        edits = check_oracle_type(last.oracle if oracle is None else oracle)
        warn_of_text_edits(edits, parts.steps, X, stacklevel=2)
    if (
        isinstance(last, InvariantClassifier)
        and not parts.moved
        and (at == "features" or not parts.steps)
    ):
        rows = transformed(X, parts.before)
        if not isinstance(last, InvariantTextClassifier):
            _warn_of_unknown_texts(estimator, parts, X, rows)
        return last.certify(rows, y, oracle=oracle)
    if oracle is None and not isinstance(last, InvariantClassifier):
        raise TypeError(
            f"oracle must be an InvarianceOracle, got None: {type(last).__name__} has no parameter "
            "oracle"
        )
    oracle = check_oracle_type(last.oracle if oracle is None else oracle)
    model, checked, labels, oracle = checked_model(parts, X, y, oracle, at)
    oracle.check_labels(model.classes)
    if y is None:
        oracle = oracle.for_any_label()
    _warn_of_unknown_texts(estimator, parts, X, checked)
    if not isinstance(last, InvariantTextClassifier):
        warn_of_row_lengths(oracle, checked, stacklevel=3)
    return _certificate(model, checked, labels, oracle, labels_given=y is not None)


def _warn_of_unknown_texts(estimator: Any, parts: Layers, X: Any, rows: Any) -> None:
    """Warn if X has texts without a feature; `rows` are the features of its samples."""
    is_text = isinstance(parts.last, InvariantTextClassifier)
    vectorizer = parts.last.vectorizer_ if is_text else next(iter(parts.steps), None)
    warn_of_unknown_texts(X, rows, vectorizer, lambda text: estimator.predict([text])[0], stacklevel=3)


def _refuse_regressor(last: Any) -> None:
    """Raise TypeError for a regressor, whose predictions have bounds instead of margins."""
    if is_regressor(last):
        advice = (
            "call its method certify(X, oracle=...), or pass scoring= to a search"
            if hasattr(last, "certify")
            else "use InvariantLinearSVR for bounds of predictions"
        )
        raise TypeError(
            f"estimator must be a classifier, got the regressor {type(last).__name__}: {advice}"
        )


def _certificate(
    model: LinearClassifier,
    X: Matrix,
    y: np.ndarray,
    oracle: InvarianceOracle,
    labels_given: bool,
) -> Certificate:
    """Return the certificate of validated rows for a linear model."""
    if model.always is None and model.scores.n_steps == 0:
        return _worst_change(model, oracle, X, y).certificate(oracle, labels_given=labels_given)
    # All labels are checked before any work.
    model.structure.bind(y, model.classes)
    if model.always is not None:
        margins = np.where(y == model.classes[model.always], np.inf, -np.inf)
        exact = np.ones(len(y), dtype=bool)
        return Certificate(
            margins,
            margins.copy(),
            exact,
            labels_given=labels_given,
            perturbations=described(oracle),
        )
    # Points need more memory than rows.
    parts = []
    for first in range(0, X.shape[0], ROWS_AT_ONCE):
        rows = slice(first, first + ROWS_AT_ONCE)
        of_rows = oracle._for_rows(np.arange(X.shape[0])[rows])
        scores = replace(model, scores=model.scores.of_rows(rows))
        worst = _worst_change(scores, of_rows, X[rows], y[rows])
        parts.append(worst.certificate(oracle, labels_given=labels_given))
    return Certificate.join(parts)


def _worst_change(
    model: LinearClassifier, oracle: InvarianceOracle, X: Matrix, y: np.ndarray
) -> WorstChange:
    """Return the worst change of each row, with the rounding errors of all prediction steps."""
    scores, bound = model.scores, model.structure.bind(y, model.classes)
    space, f = linear_function(scores.coef, scores.intercept)
    if scores.offsets is not None:
        space = OffsetSpace(space, scores.offsets)
    change = worst_change_in(space, f, oracle, bound, X, points=scores.n_steps > 0)
    if change.points is None:
        return change
    each = np.sort(scores.roundings(change.points), axis=1)
    return replace(change, rounding=change.rounding + each[:, -2:].sum(axis=1))
