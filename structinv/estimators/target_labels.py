"""Labels: their checks, how messages write them, and which rows have one where some are missing."""

from __future__ import annotations

from numbers import Number, Real
from typing import Any

import numpy as np
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from ..utils.matrices import Matrix
from .row_shapes import flat_rows

# The label of rows without one, as in scikit-learn's semi-supervised estimators.
MISSING = -1


def label_name(label: Any) -> str:
    """A label as text; a whole number without its fraction.

    Examples
    --------
    >>> [label_name(label) for label in (-1.0, 0.5, 3, "ham")]
    ['-1', '0.5', '3', 'ham']
    """
    whole = isinstance(label, (float, np.floating)) and float(label).is_integer()
    return str(int(label)) if whole else str(label)


def as_labels(y: Any) -> Any:
    """`y` itself, or an array of objects for a list that mixes strings with other labels.

    NumPy would make strings of all of them, and "-1" of the -1 that stands for no label.
    """
    if isinstance(y, (list, tuple)):
        strings = sum(isinstance(label, str) for label in y)
        if 0 < strings < len(y):
            mixed = np.empty(len(y), dtype=object)
            mixed[:] = y
            return mixed
    return y


def one_label_a_row(y: Any, n_rows: int) -> np.ndarray:
    """Labels of one kind, (n_rows,); see `one_a_row`.

    Raises
    ------
    ValueError, TypeError
        If there is not one label a row, or they are of several kinds.
    """
    labels = one_a_row(y, n_rows)
    check_one_kind(labels)
    return labels


def one_a_row(y: Any, n_rows: int) -> np.ndarray:
    """Labels or none, (n_rows,); a column of them is taken, with scikit-learn's warning."""
    labels = np.asarray(as_labels(y))
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = column_or_1d(labels, warn=True)
    if labels.shape != (n_rows,):
        raise ValueError(f"y must have shape ({n_rows},), one label a row, got {labels.shape}")
    return labels


def labeled_rows(estimator: Any, X: Any, y: Any, **rules: Any) -> tuple[Matrix, np.ndarray]:
    """Rows and their labels, as a classifier's fit takes them.

    Parameters
    ----------
    estimator : BaseEstimator
        Learns the number of features, and their names.
    X : array-like or sparse matrix
        Rows, or a stack of images.
    y : array-like
    **rules
        Of scikit-learn's `validate_data`.

    Raises
    ------
    ValueError, TypeError
        If they cannot be used.
    """
    X, y = validate_data(estimator, flat_rows(X), as_labels(y), **rules)
    check_targets(y)
    return X, y


def check_targets(y: np.ndarray, *missing: str) -> None:
    """Raise TypeError or ValueError unless these are labels of classes; see `check_one_kind`."""
    check_one_kind(y, *missing)
    check_classification_targets(y)


def check_one_kind(y: np.ndarray, missing: str = "rows without a label have to be left out") -> None:
    """Raise TypeError unless labels are of one kind, so that they have an order.

    Parameters
    ----------
    y : (n,) array
    missing : str
        What the message says of rows without a label, if there is None among the labels.
    """
    if y.dtype.kind != "O":
        return
    kinds = {_kind_of(kind) for kind in set(map(type, y))}
    if len(kinds) > 1 or kinds == {"None"}:
        hint = f"; {missing}" if "None" in kinds else ""
        raise TypeError(f"y must hold labels of one kind, got {' and '.join(sorted(kinds))}{hint}")


def _kind_of(kind: type) -> str:
    if issubclass(kind, (Number, np.bool_)):
        return "numbers"
    if issubclass(kind, str):
        return "strings"
    return "None" if kind is type(None) else kind.__name__


def say_what_is_missing(unlabeled: Any) -> str:
    """What marks a row without a label, for messages; see `without_label`."""
    if unlabeled is None:
        return "with unlabeled=None every row needs a label"
    auto = isinstance(unlabeled, str) and unlabeled == "auto"
    mark = f"the number {MISSING}" if auto else f"{unlabeled!r} (unlabeled={unlabeled!r})"
    return f"{mark} marks rows without a label, None does not"


def without_label(y: np.ndarray, unlabeled: Any) -> np.ndarray:
    """Which rows have no label, (n,) of bool.

    Parameters
    ----------
    y : (n,) array
    unlabeled : label, "auto" or None
        "auto" is the number -1 unless y holds -1 and +1 only, which are two ordinary classes.

    Raises
    ------
    ValueError
        With "auto", if -1 stands beside a single other value than +1, so that it could be either a
        class or no label; or if strings hold "-1", which NumPy makes of the number.

    Examples
    --------
    >>> import numpy as np
    >>> without_label(np.array(["ham", -1, "spam"], dtype=object), "auto")
    array([False,  True, False])
    >>> without_label(np.array([-1, 1, 1]), "auto")
    array([False, False, False])
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
            f"y must hold at least two classes, got one, {others.pop()!r}, beside {MISSING} for no "
            f"label; if {MISSING} is a class of its own, pass unlabeled=None"
        )
    return missing


def labels_equal(y: np.ndarray, label: Any) -> np.ndarray:
    """Which labels equal one, of whatever type, (n,) of bool; NaN stands for every NaN."""
    if isinstance(label, Real) and np.isnan(float(label)):
        return np.asarray(y != y, dtype=bool)
    return np.broadcast_to(np.asarray(y == label, dtype=bool), y.shape)


def _refuse_a_written_mark(y: np.ndarray) -> None:
    """Raise ValueError if strings hold "-1" and other labels than those of two classes."""
    labels = set(np.unique(y).astype(str).tolist())
    if "-1" in labels and labels not in ({"-1", "1"}, {"-1", "+1"}):
        raise ValueError(
            "y is an array of strings that holds '-1': for rows without a label make it an array of "
            "objects with the number -1 in it, dtype=object, or pass unlabeled='-1'; pass "
            "unlabeled=None if '-1' is a class"
        )


def class_factors(class_weight: Any, classes: np.ndarray, y: np.ndarray, own: np.ndarray) -> np.ndarray:
    """The factor of each class, as scikit-learn's `class_weight` says, for samples of given weights.

    Raises
    ------
    ValueError
        For anything else, for negative factors, and where none is above 0.
    """
    known = class_weight is None or isinstance(class_weight, dict)
    if not known and not (isinstance(class_weight, str) and class_weight == "balanced"):
        raise ValueError(
            f"class_weight must be None, 'balanced' or a dict of labels, got {class_weight!r}"
        )
    factors = compute_class_weight(class_weight, classes=classes, y=y, sample_weight=own)
    if isinstance(class_weight, str) and class_weight == "balanced":
        # A class without a sample that counts has no balance; its samples count nothing anyway.
        factors = np.where(np.isfinite(factors), factors, 0.0)
    if np.any(factors < 0) or not np.all(np.isfinite(factors)):
        raise ValueError(f"class_weight must be non-negative, got {class_weight!r}")
    if isinstance(class_weight, dict) and not np.any(factors > 0):
        raise ValueError("class_weight must leave a class with a weight above 0, got zeros alone")
    return factors
