"""Certificates for linear classifiers, whoever trained them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from ..certificates import Certificate, WorstChange, warn_of_unit_length, worst_change
from ..estimators import InvariantClassifier, InvariantStructuredSVC
from ..estimators.base import canonical, check_oracle_type
from ..estimators.labels import one_label_a_row
from ..estimators.shapes import shaped
from ..matrices import Matrix
from ..oracles import InvarianceOracle
from .linear import LinearClassifier, check_scores, linear_classifier, roundings
from .steps import before_steps

PLACES = ("features", "input")
# Rows whose worst members are held at once.
ROWS_AT_ONCE = 4096


def certify(
    estimator: Any,
    oracle: InvarianceOracle | None,
    X: Any,
    y: Any = None,
    *,
    at: str = "features",
) -> Certificate:
    """What no allowed change of the rows can turn, for any fitted linear classifier.

    A linear classifier is known by what it exposes (`coef_`, `intercept_`, `classes_`), and believed
    only if its `decision_function` is ``X coef' + intercept`` to rounding, and its `predict` the class
    with the highest score, on the rows given: LinearSVC, LogisticRegression, RidgeClassifier,
    SGDClassifier, Perceptron, LinearDiscriminantAnalysis and their like, also one against the rest.
    The margin at the worst change is ``min over y' of (b_y - b_y') - sigma_S(w_y' - w_y)`` (as in Teo,
    Globerson, Roweis and Smola 2007, eq. 2), exact where the oracle is.

    Parameters
    ----------
    estimator : fitted classifier
        Linear, or an estimator of structinv with `certify` of its own, which is asked; a Pipeline that
        ends in either; or a search with a `best_estimator_` of these kinds.
    oracle : InvarianceOracle or None
        What may change. None stands for what an estimator of structinv was trained for.
    X : (n, n_features) array-like or sparse matrix, or what the Pipeline takes
    y : (n,) array-like, optional
        True labels; without them it is certified that the prediction does not change, right or wrong:
        an oracle for rows of some labels is then asked about all rows.
    at : {"features", "input"}, default="features"
        Of a Pipeline, whether S lies around the rows that its LAST step takes, or around the rows of
        `X`. "input" goes through scalers, projections and selections, which are affine, and refuses
        all other steps by name.

    Returns
    -------
    Certificate
        ``margins`` in units of the scores, ``correct``, ``accuracy``, ``exact`` and ``attacked``.

    Raises
    ------
    TypeError
        If the estimator is not linear, the oracle is none, or does not take sparse rows; and for
        `InvariantStructuredSVC`, whose own `certify` speaks of whole labellings.
    ValueError
        If scores or predictions on `X` are not those of a linear classifier, if a step is not known
        to be affine, or if `y` holds a label that is not among the classes.
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
    """
    if at not in PLACES:
        raise ValueError(f"at must be one of {list(PLACES)}, got {at!r}")
    check_is_fitted(estimator)
    steps, last = _taken_apart(estimator)
    if isinstance(last, InvariantStructuredSVC):
        own = "pipe[-1].certify(pipe[:-1].transform(X), y" if steps else "model.certify(X, y"
        raise TypeError(
            "certify takes classifiers of single rows; InvariantStructuredSVC has a certify of its own, "
            f"for whole labellings: {own}, oracle=...)"
        )
    whole, rows = estimator, X
    if at == "features" or not steps:
        for step in steps:
            rows = step.transform(rows)
        if isinstance(last, InvariantClassifier):
            return last.certify(rows, y, oracle=oracle)
        whole, steps = last, []
    if oracle is None and not isinstance(last, InvariantClassifier):
        raise TypeError(
            f"oracle must say what may change: {type(last).__name__} was trained without one, got None"
        )
    oracle = shaped(check_oracle_type(last.oracle if oracle is None else oracle), whole, rows)
    model, checked, labels = _checked(whole, steps, last, rows, y, oracle)
    oracle.check_labels(model.classes)
    if y is None:
        oracle = oracle.for_any_label()
    warn_of_unit_length(oracle, checked, stacklevel=3)
    return _certificate(model, checked, labels, oracle)


def _checked(
    whole: Any, steps: list[Any], last: Any, X: Any, y: Any, oracle: InvarianceOracle
) -> tuple[LinearClassifier, Matrix, np.ndarray]:
    """What a model is on the rows that its steps take, those rows, and the labels to certify."""
    found = linear_classifier(last)
    model = LinearClassifier(before_steps(found.scores, steps), found.classes)
    rows = _rows(X, model, oracle)
    labels = whole.predict(X)
    name = type(last).__name__ if not steps else f"The Pipeline that ends in {type(last).__name__}"
    check_scores(name, model, rows, whole.decision_function(X), labels)
    if y is not None:
        labels = one_label_a_row(y, rows.shape[0])
    return model, rows, labels


def _taken_apart(estimator: Any) -> tuple[list[Any], Any]:
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
        else:
            return steps, estimator


def _rows(X: Any, model: LinearClassifier, oracle: InvarianceOracle) -> Matrix:
    """Rows in the form that the oracle takes."""
    rows = canonical(
        check_array(
            X,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            input_name="X",
            estimator="certify",
        )
    )
    n_features = model.scores.coef.shape[1]
    if rows.shape[1] != n_features:
        raise ValueError(f"X must have {n_features} features, as in training, got {rows.shape[1]}")
    if sp.issparse(rows) and not oracle.supports_sparse:
        raise TypeError(f"{type(oracle).__name__} does not take sparse rows; pass X as a dense array")
    oracle.validate(n_features)
    return rows


def _certificate(
    model: LinearClassifier, X: Matrix, y: np.ndarray, oracle: InvarianceOracle
) -> Certificate:
    """The certificate of rows that are known to be scored as the model does."""
    # All labels are looked at before any work.
    oracle.check_labels(model.classes)
    model.structure.bind(y, model.classes)
    parts = []
    for first in range(0, X.shape[0], ROWS_AT_ONCE):
        rows = slice(first, first + ROWS_AT_ONCE)
        parts.append(_worst_change(model, oracle, X[rows], y[rows]).certificate())
    return Certificate(
        margins=np.concatenate([part.margins for part in parts]),
        attacked=np.concatenate([part.attacked for part in parts]),
        exact=np.concatenate([part.exact for part in parts]),
    )


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
