"""Margins and transition weights of sequence models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def position_margins(model: Any, x: Any, labels: Sequence[Any] | np.ndarray | None = None) -> np.ndarray:
    """Compute the margin of each label of one sequence.

    The margin at a position compares two labelings of the whole sequence. The first has the highest
    score of all labelings with the given label at the position. The second has the highest score of
    all labelings with another label at the position. The margin is the score of the first minus the
    score of the second. It is positive if the prediction has the given label at the position.

    Parameters
    ----------
    model : fitted estimator
        Sequence model, such as `InvariantStructuredSVC` with `Sequence`.
    x : array-like or sparse matrix of shape (n_positions, n_features), or list of tokens
        One example, in the form that the model supports.
    labels : sequence of length n_positions, default=None
        Labels; the predicted labels by default.

    Returns
    -------
    ndarray of shape (n_positions,)
        Margins. Infinite if no other label is allowed; empty for an example without rows.

    Raises
    ------
    TypeError
        If the model has no transition weights.
    ValueError
        If the number of labels differs from the number of positions, or if a label is not a class of
        the model.

    See Also
    --------
    structinv.structures.Sequence : Structure of sequences.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv import InvariantStructuredSVC
    >>> from structinv.inspection import position_margins
    >>> from structinv.structures import Sequence
    >>> X = [np.eye(3)[[0, 1, 2]], np.eye(3)[[1, 2]], np.eye(3)[[0, 2, 2, 1]]]
    >>> y = [["a", "b", "b"], ["b", "b"], ["a", "b", "b", "b"]]
    >>> model = InvariantStructuredSVC(Sequence(), C=10.0, random_state=0).fit(X, y)
    >>> position_margins(model, X[0], y[0]) > 0
    array([ True,  True,  True])
    """
    between, start, end, _ = transition_weights(model)
    scores = np.asarray(model.decision_function([x])[0], dtype=np.float64)
    given = list(model.predict([x])[0] if labels is None else labels)
    if len(given) != len(scores):
        raise ValueError(f"labels must have one label for each of {len(scores)} rows, got {len(given)}")
    places = {label: code for code, label in enumerate(model.classes_.tolist())}
    unknown = [label for label in given if label not in places]
    if unknown:
        raise ValueError(f"labels must be among the model's classes, got {unknown[0]!r}")
    if not given:
        return np.zeros(0)
    codes = np.array([places[label] for label in given], dtype=np.intp)

    before, behind = np.empty_like(scores), np.empty_like(scores)
    before[0], behind[-1] = start + scores[0], end
    for t in range(1, len(scores)):
        before[t] = scores[t] + np.max(before[t - 1][:, None] + between, axis=0)
        behind[-t - 1] = np.max(between + scores[-t] + behind[-t], axis=1)
    best = before + behind
    every = np.arange(len(scores))
    own = best[every, codes]
    best[every, codes] = -np.inf
    return own - np.max(best, axis=1)


def transition_weights(estimator: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the transition weights of a sequence model; -inf if forbidden.

    Returns `transitions` (n_classes, n_classes), `start, end` (n_classes,), `classes` (n_classes,).
    """
    names = ("transitions_", "start_", "end_", "classes_")
    missing = [name for name in names if getattr(estimator, name, None) is None]
    if missing:
        raise TypeError(
            f"estimator must be fitted to sequences, but {type(estimator).__name__} has no "
            f"{', '.join(missing)}"
        )
    transitions, start, end, classes = (np.asarray(getattr(estimator, name)) for name in names)
    follows = getattr(getattr(estimator, "structure_", None), "follows_", None)
    if follows is not None:
        transitions = np.where(follows[:-1], transitions, -np.inf)
        start = np.where(follows[-1], start, -np.inf)
    return transitions, start, end, classes
