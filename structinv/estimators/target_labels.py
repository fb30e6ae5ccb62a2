"""Checks of labels, class weights and unlabeled samples."""

from __future__ import annotations

from numbers import Number, Real
from typing import Any

import numpy as np
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from ..structures.bound import check_named_labels
from ..utils.matrices import refuse_masked
from ..utils.parameters import brief

# Label of unlabeled rows, as in scikit-learn's semi-supervised estimators.
MISSING = -1


def label_name(label: Any) -> str:
    """Return a label as text; whole numbers have no fraction."""
    whole = isinstance(label, (float, np.floating)) and float(label).is_integer()
    return str(int(label)) if whole else str(label)


def as_labels(y: Any) -> Any:
    """Return `y`, or an object array for a list of strings and other labels.

    NumPy would convert all labels to strings, and the mark -1 of unlabeled rows to "-1".
    """
    refuse_masked("y", y, "remove the rows with a masked label, or fill them")
    if isinstance(y, (list, tuple)):
        strings = sum(isinstance(label, str) for label in y)
        if 0 < strings < len(y):
            mixed = np.empty(len(y), dtype=object)
            mixed[:] = y
            return mixed
    return y


def one_label_a_row(y: Any, n_rows: int) -> np.ndarray:
    """Return labels of one kind, (n_rows,)."""
    labels = one_a_row(y, n_rows)
    check_one_kind(labels)
    return labels


def one_a_row(y: Any, n_rows: int) -> np.ndarray:
    """Return labels (n_rows,), also those of unlabeled rows; warn for a column."""
    labels = np.asarray(as_labels(y))
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = column_or_1d(labels, warn=True)
    if labels.shape != (n_rows,):
        raise ValueError(f"y must have shape ({n_rows},), one label per row, got {np.shape(y)}")
    return labels


def check_targets(y: np.ndarray, *missing: str) -> None:
    """Raise TypeError or ValueError unless these are class labels of one kind."""
    check_one_kind(y, *missing)
    check_classification_targets(y)


def check_one_kind(y: np.ndarray, missing: str = "remove rows without a label") -> None:
    """Raise TypeError unless labels have the same kind and can thus be sorted.

    Shapes: `y` (n,).
    """
    if y.dtype.kind != "O":
        return
    kinds = {_kind_of(kind) for kind in set(map(type, y))}
    if len(kinds) > 1 or kinds == {"None"}:
        hint = f"; {missing}" if "None" in kinds else ""
        raise TypeError(f"y must contain labels of one kind, got {' and '.join(sorted(kinds))}{hint}")


def _kind_of(kind: type) -> str:
    if issubclass(kind, (Number, np.bool_)):
        return "numbers"
    if issubclass(kind, str):
        return "strings"
    return "None" if kind is type(None) else kind.__name__


def say_what_is_missing(unlabeled: Any) -> str:
    """Return advice on unlabeled rows for messages; see `without_label`."""
    if unlabeled is None:
        return "with unlabeled=None every row requires a label"
    auto = isinstance(unlabeled, str) and unlabeled == "auto"
    mark = f"the number {MISSING}" if auto else f"{unlabeled!r} (unlabeled={unlabeled!r})"
    return f"use {mark} for rows without a label, not None"


def without_label(y: np.ndarray, unlabeled: Any) -> np.ndarray:
    """Return a mask of the unlabeled rows, (n,).

    Shapes: `y` (n,).
    """
    if unlabeled is None:
        return np.zeros(len(y), dtype=bool)
    if not (isinstance(unlabeled, str) and unlabeled == "auto"):
        return labels_equal(y, unlabeled)
    if y.dtype.kind in "US":
        _refuse_a_written_mark(y)
        return np.zeros(len(y), dtype=bool)
    missing = labels_equal(y, MISSING)
    others = set(y[~missing].tolist())
    if not missing.any() or others == {1}:
        return np.zeros(len(y), dtype=bool)
    if len(others) == 1:
        raise ValueError(
            f"y must contain at least two classes, got only {others.pop()!r} and {MISSING}, which "
            f"marks unlabeled rows; if {MISSING} is a class, pass unlabeled=None"
        )
    return missing


def labels_equal(y: np.ndarray, label: Any) -> np.ndarray:
    """Return a mask of labels that equal a label of any type, (n,); NaN equals NaN."""
    if isinstance(label, Real) and np.isnan(float(label)):
        return np.asarray(y != y, dtype=bool)
    return np.broadcast_to(np.asarray(y == label, dtype=bool), y.shape)


def _refuse_a_written_mark(y: np.ndarray) -> None:
    """Raise ValueError if string labels contain "-1", except for the classes -1 and 1."""
    labels = set(np.unique(y).astype(str).tolist())
    if "-1" in labels and labels not in ({"-1", "1"}, {"-1", "+1"}):
        raise ValueError(
            "y must not be an array of strings with '-1' if unlabeled='auto': for unlabeled rows use an "
            "array of dtype=object with the number -1, or pass unlabeled='-1'; pass unlabeled=None if "
            "'-1' is a class"
        )


def class_factors(class_weight: Any, classes: np.ndarray, y: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Return the factor of each class by `class_weight`, for weighted samples."""
    known = class_weight is None or isinstance(class_weight, dict)
    if not known and not (isinstance(class_weight, str) and class_weight == "balanced"):
        raise ValueError(
            f"class_weight must be None, 'balanced' or a dict of labels, got {brief(class_weight)}"
        )
    if isinstance(class_weight, dict):
        check_named_labels("class_weight", class_weight, classes)
    factors = compute_class_weight(class_weight, classes=classes, y=y, sample_weight=own)
    if isinstance(class_weight, str) and class_weight == "balanced":
        # A class whose samples have no weight has no finite factor, and needs none.
        factors = np.where(np.isfinite(factors), factors, 0.0)
    if np.any(factors < 0) or not np.all(np.isfinite(factors)):
        raise ValueError(f"class_weight must be non-negative, got {brief(class_weight)}")
    if isinstance(class_weight, dict) and not np.any(factors > 0):
        raise ValueError("class_weight must be above 0 for at least one class, got only zeros")
    return factors
