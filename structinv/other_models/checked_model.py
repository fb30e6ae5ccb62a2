"""The linear model in a fitted classifier, with checks of its scores and labels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..estimators import InvariantTextClassifier
from ..estimators.row_shapes import for_oracle, shaped
from ..estimators.target_labels import one_label_a_row
from ..oracles import InvarianceOracle
from ..utils.matrices import Matrix
from .fixed_columns import check_unchanged, rows_with_numbers
from .layers import Layers, transformed
from .linear_models import (
    LinearClassifier,
    check_labels,
    check_probes,
    check_scores,
    linear_classifier,
    scores_of,
)
from .naive_bayes import binary_rows, is_naive_bayes, refuse_before_comparison
from .probes import probes
from .steps import before_steps, unit_of
from .thresholds import thresholded


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
        rows = _numbers(to_last, known)
        if not is_naive_bayes(last):
            points = probes(known.scores, rows)
            check_probes(last, known, points)
        if steps:
            linear = replace(linear, scores=replace(linear.scores, unit=max(map(unit_of, (X, to_last)))))
            rows = _numbers(given, linear)
        rows, oracle = binary_rows(last, for_oracle(rows, oracle), oracle)
    name = type(last).__name__ if not steps else f"The Pipeline that ends in {type(last).__name__}"
    check_scores(name, linear, rows, scores_of(last, to_last))
    model = linear
    if parts.moved:
        name = type(parts.head).__name__
        dtype = np.result_type(rows.dtype, known.scores.coef.dtype)
        model = thresholded(linear, parts.head, dtype, to_head, points)
    labels = parts.head.predict(to_head)
    check_labels(name, model, rows, labels)
    if y is not None:
        labels = one_label_a_row(y, rows.shape[0])
    check_unchanged(oracle, model.scores, rows, labels, given)
    return model, rows, labels, oracle


def _numbers(X: Any, model: LinearClassifier) -> Matrix:
    """Return validated rows of the model."""
    rows, n_features = rows_with_numbers(X, model.scores.optional), model.scores.n_features
    if rows.shape[1] != n_features:
        raise ValueError(f"X must have {n_features} features, as in training, got {rows.shape[1]}")
    return rows
