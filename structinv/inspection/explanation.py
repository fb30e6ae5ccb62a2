"""What the worst edit of a row does, feature by feature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import _num_samples

from ..estimators import InvariantLinearSVC, InvariantTextClassifier
from ..estimators.target_labels import one_label_a_row
from ..oracles import InvarianceOracle
from ..utils.summaries import Tabulated


@dataclass(frozen=True, repr=False)
class Explanation(Tabulated):
    """The worst edit of one row, from the most harmful feature on.

    The margin of the label is its score less that of the strongest competitor at the edited row: above 0
    the label is predicted.

    Attributes
    ----------
    features : (t,) array of int
        Columns that the edit touches.
    names : (t,) array of str
        Their names: those of the columns that the model was fitted with, "x0", "x1", ... if they had
        none; of a text the words and n-grams.
    before, after : (t,) arrays
        Their values.
    moves : (t,) array
        By how much each moves the margin.
    margin : float
        Margin without any edit.
    edited_margin : float
        Margin after the whole edit.
    certified : bool
        Whether no allowed edit at all turns the label.
    """

    features: np.ndarray
    names: np.ndarray
    before: np.ndarray
    after: np.ndarray
    moves: np.ndarray
    margin: float
    edited_margin: float
    certified: bool

    def __str__(self) -> str:
        state = "no allowed edit changes the prediction" if self.certified else "not certified"
        lines = [f"Worst edit: margin {self.margin:.4g} to {self.edited_margin:.4g}, {state}"]
        if not len(self.features):
            return lines[0]
        cells: list[tuple[str, ...]] = [("feature", "before", "after", "move")]
        for k, name in enumerate(self.names):
            numbers = self.before[k], self.after[k], self.moves[k]
            cells.append((str(name), *(f"{number:.4g}" for number in numbers)))
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        for name, *texts in cells:
            right = (f"{text:>{width}}" for text, width in zip(texts, widths[1:], strict=True))
            lines.append("  ".join([f"  {name:<{widths[0]}}", *right]))
        return "\n".join(lines)

    @property
    def margins(self) -> np.ndarray:
        """The margin after each feature in turn, (t,)."""
        return self.margin + np.cumsum(self.moves)


def explain_edit(
    model: InvariantLinearSVC | InvariantTextClassifier,
    X: Any,
    y: Any = None,
    *,
    oracle: InvarianceOracle | None = None,
) -> Explanation:
    """Explain the worst allowed edit of one row.

    Parameters
    ----------
    model : InvariantLinearSVC or InvariantTextClassifier
        Fitted.
    X : (1, n_features) array-like, sparse matrix or data frame; or a list of one text
    y : (1,) array-like, optional
        The true label; the prediction takes its place.
    oracle : InvarianceOracle, optional
        What may change; by default what the model was trained for.

    Returns
    -------
    Explanation

    Raises
    ------
    TypeError
        If the model is not linear.
    ValueError
        If `X` does not have one row.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv import InvariantLinearSVC
    >>> from structinv.oracles import FDrop
    >>> X, y = np.array([[2.0, 1.0, 1.0], [0.0, 1.0, 2.0]]), np.array([1, 0])
    >>> model = InvariantLinearSVC(random_state=0).fit(X, y)
    >>> explain_edit(model, X[:1], y[:1], oracle=FDrop(1)).names.tolist()
    ['x0']
    """
    if not isinstance(model, (InvariantLinearSVC, InvariantTextClassifier)):
        raise TypeError(
            "model must be an InvariantLinearSVC or InvariantTextClassifier, since only there each "
            f"feature has its share of a margin, got {type(model).__name__}; draw_worst_cases shows "
            "what changes do to images"
        )
    # As it came: a data frame has the names that the model looks for.
    if _num_samples(X) != 1:
        raise ValueError(f"X must have one row to explain, got {_num_samples(X)}")
    label = model.predict(X)[0] if y is None else one_label_a_row(y, 1)[0]
    edited = _dense_row(model.rows_of(model.worst_case(X, [label], oracle=oracle)))
    row = _dense_row(model.rows_of(X))
    direction, offset = _margin_direction(model, edited, label)
    moves = direction * (edited - row)
    touched = np.flatnonzero(edited != row)
    touched = touched[np.argsort(moves[touched], kind="stable")]
    margin = float(row @ direction + offset)
    return Explanation(
        features=touched,
        names=model.column_names()[touched].astype(str),
        before=row[touched],
        after=edited[touched],
        moves=moves[touched],
        margin=margin,
        edited_margin=float(edited @ direction + offset),
        certified=bool(model.certify(X, [label], oracle=oracle).correct[0]),
    )


def _dense_row(X: Any) -> np.ndarray:
    return np.ravel(X.toarray() if sp.issparse(X) else np.asarray(X))


def _margin_direction(
    model: InvariantLinearSVC | InvariantTextClassifier, edited: np.ndarray, label: Any
) -> tuple[np.ndarray, float]:
    """Along what the label's margin over its strongest competitor at the edited row grows."""
    weights, intercept = model.coef_, np.ravel(model.intercept_)
    place = int(np.flatnonzero(model.classes_ == label)[0])
    if len(weights) == 1:
        sign = 1.0 if place == 1 else -1.0
        return sign * weights[0], float(sign * intercept[0])
    scores = weights @ edited + intercept
    scores[place] = -np.inf
    competitor = int(np.argmax(scores))
    return weights[place] - weights[competitor], float(intercept[place] - intercept[competitor])
