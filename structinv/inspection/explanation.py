"""Explanations: the change of the margin by each feature of a worst-case edit."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from sklearn.base import is_classifier
from sklearn.utils.validation import _num_samples

from ..estimators import (
    InvariantLinearSVC,
    InvariantStructuredSVC,
    InvariantSVC,
    InvariantTextClassifier,
)
from ..estimators.inputs import one_label_a_row
from ..oracles import InvarianceOracle
from ..oracles.support import rounding_bound
from ..other_models.layers import check_fitted, layers, names_after
from ..other_models.thresholds import with_threshold_zero
from ..utils.matrices import best_first, dense, first_best
from ..utils.summaries import Table, Tabulated, marked
from ..utils.texts import Part, after_edits, as_texts

Explained: TypeAlias = InvariantLinearSVC | InvariantTextClassifier
# Functions for other models.
_ADVICE = {
    InvariantStructuredSVC: "its methods certify and worst_case for examples",
    InvariantSVC: "WorstCasesDisplay for worst cases of images",
}


@dataclass(frozen=True, repr=False)
class Explanation(Tabulated):
    """Worst-case edit of one sample, with the most harmful feature first.

    The margin is the score of the label minus the score of its strongest competitor. The competitor is
    the one with the highest score after the edit, also for `margin`. A positive `edited_margin` means
    that the label is still predicted.

    - `features` (t,): indices of the edited features
    - `names` (t,): names of the edited features: the names in `fit`, or "x0", "x1", ... if the features
      had no names
    - `before, after` (t,): values of the edited features before and after the edit
    - `changes` (t,): change of the margin by each edited feature
    - `margin`: margin before the edit
    - `edited_margin`: margin after the edit of all features
    - `certified`: whether the label is predicted after every allowed edit
    - `parts` (kind, text): a text in parts, in sequence: "kept", "deleted" or "inserted" with the text
    """

    features: np.ndarray
    names: np.ndarray
    before: np.ndarray
    after: np.ndarray
    changes: np.ndarray
    margin: float
    edited_margin: float
    certified: bool
    parts: list[Part] | None = None

    def _table(self) -> Table:
        effect = f"margin {self.margin:.4g} to {self.edited_margin:.4g}"
        if not len(self.features):
            effect = f"no edit was found that lowers the margin {self.margin:.4g}"
        title = f"Worst edit: {effect}, {self._state()}"
        rows = [
            (str(name), *(f"{number:.4g}" for number in numbers))
            for name, *numbers in zip(self.names, self.before, self.after, self.changes, strict=True)
        ]
        columns = ["feature", "before", "after", "change of margin"]
        return Table(title, columns if rows else [], rows)

    def _repr_html_(self) -> str:
        return self._table().html(*([] if self.parts is None else [marked(self.parts)]))

    def _state(self) -> str:
        if self.margin < 0:
            return "the prediction is wrong without any edit"
        return "no allowed edit changes the prediction" if self.certified else "not certified"

    @property
    def margins(self) -> np.ndarray:
        """Margin after the first 1, 2, ... t edited features, ndarray of shape (t,)."""
        return self.margin + np.cumsum(self.changes)


def explain_edit(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    oracle: InvarianceOracle | None = None,
    feature_names: Any = None,
) -> Explanation:
    """Explain the worst allowed edit of one sample, feature by feature.

    Parameters
    ----------
    model : InvariantLinearSVC or InvariantTextClassifier
        Fitted model. Also a Pipeline, a search, or a classifier with a moved threshold such as
        `FixedThresholdClassifier`, around one of these. Edits then concern the input of the innermost
        classifier, and margins are distances from the threshold.
    X : array-like, sparse matrix or DataFrame of shape (1, n_features), or list of one text
        One sample, in the form that `fit` of the model supports.
    y : array-like of shape (1,), default=None
        True label; the predicted label by default.
    oracle : InvarianceOracle, default=None
        Oracle with the allowed edits. By default it is the oracle of the training.
    feature_names : array-like of str of shape (n_features,), default=None
        Names of the features that the edits change. By default they are the names in `fit`, or the
        output names of the steps of the Pipeline. Pass them for rows without names.

    Returns
    -------
    Explanation
        Result with the arrays `features`, `names`, `before`, `after` and `changes` (of the margin),
        sorted by harm, and with `margin`, `edited_margin`, `certified` and, for a text, its `parts`. The
        margin is that against the competitor after the edit. ``print`` shows a table.

    Raises
    ------
    TypeError
        If the model is of another class.
    ValueError
        If `X` does not have one row, or is a vector. If `feature_names` has another length. If the
        threshold is beyond all scores.
    NotFittedError
        If the model is not fitted.

    See Also
    --------
    structinv.certify : Certify any fitted linear classifier.
    security_curve : Detection rates against the number of edits.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv import InvariantLinearSVC
    >>> from structinv.inspection import explain_edit
    >>> from structinv.oracles import FDrop
    >>> X, y = np.array([[2.0, 1.0, 1.0], [0.0, 1.0, 2.0]]), np.array([1, 0])
    >>> model = InvariantLinearSVC(random_state=0).fit(X, y)
    >>> explain_edit(model, X[:1], y[:1], oracle=FDrop(1)).names.tolist()
    ['x0']
    """
    check_fitted(model)
    last = layers(model).last
    if not isinstance(last, Explained):
        raise TypeError(
            "model must be an InvariantLinearSVC or InvariantTextClassifier, also in a Pipeline or a "
            f"classifier with a moved threshold, got {type(last).__name__}{_advice(last)}"
        )
    steps, model = with_threshold_zero(model)
    names = _names(model, steps, feature_names)
    _check_one_sample(model, steps, X)
    for step in steps:
        X = step.transform(X)
    label = model.predict(X)[0] if y is None else one_label_a_row(y, 1)[0]
    if isinstance(model, InvariantTextClassifier):
        (parts,) = model._worst_case_parts(X, [label], oracle=oracle)
        worst = [after_edits(parts)]
    else:
        parts, worst = None, model.worst_case(X, [label], oracle=oracle)
    row, edited = (np.ravel(dense(model.rows_of(each))) for each in (X, worst))
    direction, offset, sizes = _margin_direction(model, edited, label)
    changes = direction * (edited - row)
    # A change within the rounding error of a prediction is no edit.
    largest = np.maximum(np.abs(row), np.abs(edited))
    rounding = rounding_bound(row[None], sizes[:-1] @ largest + sizes[-1])
    edited = np.where(np.abs(changes) > rounding, edited, row)
    if parts is not None and np.array_equal(edited, row):
        parts = [("kept", as_texts(X)[0])]
    touched = np.flatnonzero(edited != row)
    touched = touched[best_first(-changes[touched])]
    margin = float(row @ direction + offset)
    return Explanation(
        features=touched,
        names=names[touched].astype(str),
        before=row[touched],
        after=edited[touched],
        changes=changes[touched],
        margin=margin,
        edited_margin=float(edited @ direction + offset),
        certified=_certified(model, X, label, oracle),
        parts=parts,
    )


def _advice(last: Any) -> str:
    """Return the end of the error message for a model of another class."""
    for kind, advice in _ADVICE.items():
        if isinstance(last, kind):
            return f": use {advice}"
    other = is_classifier(last) and hasattr(last, "decision_function")
    return ": use structinv.certify for certificates of other linear classifiers" if other else ""


def _names(model: Explained, steps: list[Any], feature_names: Any) -> np.ndarray:
    """Return the names of all features; given names come first, then those of the steps."""
    n_features = model.coef_.shape[1]
    if feature_names is not None:
        names = np.asarray(feature_names)
        if names.shape != (n_features,):
            raise ValueError(
                f"feature_names must have one name for each of the {n_features} features, got shape "
                f"{names.shape}"
            )
        return names
    has_names = isinstance(model, InvariantTextClassifier) or hasattr(model, "feature_names_in_")
    names_of_steps = names_after(steps) if steps and not has_names else None
    return model.column_names() if names_of_steps is None else names_of_steps


def _check_one_sample(model: Explained, steps: list[Any], X: Any) -> None:
    """Raise an error unless X is one sample. The model checks the feature names of a DataFrame."""
    if isinstance(X, str):
        raise TypeError("X must be a list of texts, got a single str; write [text]")
    if not steps and isinstance(model, InvariantTextClassifier):
        as_texts(X)
    elif not steps and not sp.issparse(X) and np.ndim(X) == 1:
        raise ValueError(
            f"X must have shape (1, n_features), got shape {np.shape(X)}: pass X[:1], or X.iloc[:1] of "
            "a DataFrame"
        )
    if _num_samples(X) != 1:
        raise ValueError(f"X must have one row to explain, got {_num_samples(X)}")


def _certified(model: Explained, X: Any, label: Any, oracle: InvarianceOracle | None) -> bool:
    """Return whether a row is certified. Warnings point to the caller of `explain_edit`."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        certified = bool(model.certify(X, [label], oracle=oracle).correct[0])
    for warning in caught:
        warnings.warn(warning.message, warning.category, stacklevel=3)
    return certified


def _margin_direction(
    model: Explained, edited: np.ndarray, label: Any
) -> tuple[np.ndarray, float, np.ndarray]:
    """Return weights and intercept of the margin over the strongest competitor.

    The third result contains the sums of the absolute values of both scores' weights, with that of the
    intercepts last.
    """
    weights, intercept = model.coef_, np.ravel(model.intercept_)
    place = int(np.flatnonzero(model.classes_ == label)[0])
    table = np.column_stack([weights, intercept])
    if len(weights) == 1:
        sign = 1.0 if place == 1 else -1.0
        return sign * weights[0], float(sign * intercept[0]), np.abs(table[0])
    scores = weights @ edited + intercept
    scores[place] = -np.inf
    competitor = int(first_best(scores[None])[0])
    margin = table[place] - table[competitor]
    return margin[:-1], float(margin[-1]), np.abs(table[[place, competitor]]).sum(axis=0)
