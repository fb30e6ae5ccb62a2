"""The linear model in a fitted classifier; checks of rows, scores and labels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import _safe_indexing, check_array
from sklearn.utils.validation import _get_feature_names, _num_samples

from ..estimators import InvariantTextClassifier
from ..estimators.inputs import flat_rows, for_oracle, one_label_a_row, shaped
from ..oracles import InvarianceOracle
from ..oracles.third_party import bind
from ..utils.matrices import ALL_ROWS, Matrix, row_dots
from .affine import Affine
from .layers import Layers, transformed
from .linear_models import (
    LinearClassifier,
    check_labels,
    check_probes,
    check_scores,
    labels_of,
    linear_classifier,
    probes,
    scores_of,
)
from .naive_bayes import binary_rows, is_naive_bayes, refuse_before_comparison
from .steps import as_table, before_steps, unit_of
from .thresholds import thresholded

# Values of a column without numbers, for which an oracle must leave it unchanged.
FILLERS = (0.0, 1.0)
# Tolerance for an unchanged value, in rounding units.
UNITS = 16.0
# Number of columns that an error names.
NAMED = 10


def checked_model(
    parts: Layers, X: Any, y: Any, oracle: InvarianceOracle, at: str
) -> tuple[LinearClassifier, Matrix, np.ndarray, InvarianceOracle]:
    """Return the model, the unperturbed rows, the labels to certify, and the oracle."""
    known, last = linear_classifier(parts.last), parts.last
    steps = parts.steps if at == "input" else []
    refuse_before_comparison(last, steps)
    to_head = transformed(X, parts.before)
    to_last = transformed(to_head, parts.inside)
    linear = LinearClassifier(before_steps(known.scores, steps, X), known.classes)
    given, points = X if at == "input" else to_last, None
    if isinstance(last, InvariantTextClassifier):
        rows, oracle = last._rows_and_edits(given, oracle)
    else:
        oracle = shaped(oracle, steps[0] if steps else last, given)
        rows = _rows_for(to_last, known)
        if not is_naive_bayes(last):
            points = probes(known.scores, rows)
            check_probes(last, known, points)
        if steps:
            unit = max(linear.scores.unit, unit_of(X), unit_of(to_last))
            linear = replace(linear, scores=replace(linear.scores, unit=unit))
            rows = _rows_for(given, linear)
        rows, oracle = binary_rows(last, for_oracle(rows, oracle), oracle)
    name = type(last).__name__ if not steps else f"The Pipeline that ends in {type(last).__name__}"
    model, values, scores = linear, linear.scores.values(rows), scores_of(last, to_last)
    check_scores(name, linear.scores, rows, values, scores)
    if parts.moved:
        name = type(parts.head).__name__
        dtype = np.result_type(rows.dtype, known.scores.coef.dtype)
        model = thresholded(linear, parts.head, dtype, to_head, points)
        values, labels = model.scores.values(rows), parts.head.predict(to_head)
    else:
        labels = labels_of(last, to_last, scores)
    check_labels(name, model, rows, values, labels)
    if y is not None:
        labels = one_label_a_row(y, rows.shape[0])
    check_unchanged(oracle, model.scores, rows, labels, given)
    return model, rows, labels, oracle


def _rows_for(X: Any, model: LinearClassifier) -> Matrix:
    """Return validated rows of the model."""
    rows, n_features = rows_with_numbers(X, model.scores.optional), model.scores.n_features
    if rows.shape[1] != n_features:
        raise ValueError(f"X must have {n_features} features, as in training, got {rows.shape[1]}")
    return rows


def rows_with_numbers(X: Any, optional: np.ndarray) -> Matrix:
    """Return validated rows in which optional columns without numbers are 0."""
    X = flat_rows(X)
    if sp.issparse(X) or not np.any(optional):
        return _checked(X)
    X, needed = as_table(X), np.flatnonzero(~optional)
    part = _checked(_safe_indexing(X, needed, axis=1)) if len(needed) else np.zeros((_num_samples(X), 0))
    rows = np.zeros((len(part), len(optional)), dtype=part.dtype)
    rows[:, needed] = part
    for column in np.flatnonzero(optional):
        numbers = _numbers(_safe_indexing(X, int(column), axis=1))
        if numbers is not None:
            rows[:, column] = numbers
    return rows


def _checked(X: Any) -> Matrix:
    return check_array(
        X, accept_sparse="csr", dtype=[np.float64, np.float32], input_name="X", estimator="certify"
    )


def _numbers(column: Any) -> np.ndarray | None:
    """Return a column as finite numbers; None if it has others."""
    try:
        numbers = np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    return numbers if np.all(np.isfinite(numbers)) else None


def check_unchanged(
    oracle: InvarianceOracle, scores: Affine, rows: Matrix, labels: np.ndarray, X: Any
) -> None:
    """Raise ValueError if an oracle changes a column with scores that are not affine.

    The largest and the smallest value of each such column over S(x) must be that of x.

    Shapes: `rows` (n, d), `labels` (n,).
    """
    fixed = np.flatnonzero(scores.fixed)
    if not len(fixed):
        return
    changed = set()
    # S(x) may depend on the value of a column that has none.
    for filler in (None,) if sp.issparse(rows) else FILLERS:
        filled = rows if filler is None else _filled(rows, X, fixed, filler)
        changed |= set(fixed[_changed(oracle, filled, labels, fixed)].tolist())
    if not changed:
        return
    names = _get_feature_names(X)
    listed = [each if names is None else str(names[each]) for each in fixed.tolist()]
    first = min(changed)
    raise ValueError(
        f"oracle must leave columns unchanged in which the scores are not affine, but "
        f"{type(oracle).__name__} changes column {first if names is None else str(names[first])!r}: "
        f"{scores.reasons[first]}. Pass Protected(oracle, features), with the features "  # type: ignore[index]
        f"{listed[:NAMED]}{' and others' if len(listed) > NAMED else ''}"
    )


def _filled(rows: np.ndarray, X: Any, fixed: np.ndarray, filler: float) -> np.ndarray:
    """Return the rows with another value in columns without numbers."""
    filled, X = rows.copy(), as_table(X)
    for column in fixed:
        if _numbers(_safe_indexing(X, int(column), axis=1)) is None:
            filled[:, column] = filler
    return filled


def _changed(
    oracle: InvarianceOracle, rows: Matrix, labels: np.ndarray, columns: np.ndarray
) -> np.ndarray:
    """Return whether some perturbed row has another value in each column."""
    bound, every = bind(oracle, rows, labels), np.zeros(rows.shape[0], dtype=np.int64)
    changed = np.zeros(len(columns), dtype=bool)
    for place, column in enumerate(columns):
        for sign in (1.0, -1.0):
            V = np.zeros((1, rows.shape[1]))
            V[0, column] = sign
            found = bound.support(ALL_ROWS, V, every)
            largest = row_dots(found.points, V, every) if found.upper is None else found.upper
            own = row_dots(rows, V, every)
            changed[place] |= bool(np.any(largest > own + UNITS * np.finfo(float).eps * np.abs(own)))
    return changed
