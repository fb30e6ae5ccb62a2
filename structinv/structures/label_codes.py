"""Encoding of labels as indices, and validation of misclassification costs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..utils.matrices import refuse_masked
from ..utils.parameters import brief, places_of

# Number of labels in messages.
_MOST_SHOWN = 10


def encode_labels(y: np.ndarray, classes: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return the classes and the index of each row's label among them.

    Classes are sorted. Classes that are given as objects keep their order. Raises ValueError for a label
    outside the given classes.
    """
    y = np.asarray(y)
    if y.ndim != 1:
        raise ValueError(f"y must have shape (n,), one label per row, got {y.shape}")
    if classes is None:
        if y.dtype.kind == "f" and np.any(np.isnan(y)):
            raise ValueError("y must contain labels, got NaN")
        try:
            return np.unique(y, return_inverse=True)
        except TypeError as error:
            raise TypeError(f"y must contain labels of one sortable type: {error}") from None
    classes = np.asarray(classes)
    if classes.dtype == object:
        return classes, _places_of(y, classes)
    if len(classes) > 1 and not np.all(classes[:-1] < classes[1:]):
        raise ValueError(f"classes must be sorted, without duplicates, got {classes}")
    codes = np.searchsorted(classes, y)
    known = classes[np.minimum(codes, len(classes) - 1)] == y
    if not np.all(known):
        raise _unknown(np.unique(np.asarray(y)[~known]).tolist(), classes)
    return classes, codes


def _places_of(y: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Return the index of each label among hashable classes, which need no order."""
    places = {label: place for place, label in enumerate(classes)}
    if len(places) < len(classes):
        raise ValueError(f"classes must be without duplicates, got {classes}")
    codes = np.array([places.get(label, -1) for label in y], dtype=np.int64)
    if np.any(codes < 0):
        raise _unknown(list(dict.fromkeys(y[codes < 0].tolist())), classes)
    return codes


def _unknown(labels: list[Any], classes: np.ndarray) -> ValueError:
    """Return the error for labels that are no classes; it has the first classes."""
    listed = classes[:_MOST_SHOWN].tolist()
    more = f" and {len(classes) - len(listed)} more" if len(classes) > len(listed) else ""
    return ValueError(
        f"y contains labels that are not among the classes: {labels[:_MOST_SHOWN]}; classes are "
        f"{listed}{more}"
    )


def check_named_labels(argument: str, named: Iterable[Any], classes: np.ndarray) -> None:
    """Raise ValueError if a parameter names a label that is not a class.

    Some meta-estimators fit a model on codes 0, 1, ... instead of the labels. The message mentions it if
    the classes are such codes.
    """
    classes = np.asarray(classes)
    known = classes.tolist()
    # A comparison of lists distinguishes 1 and "1", and needs no hash.
    unknown = [label for label in named if label not in known]
    if not unknown:
        return
    message = f"{argument}: labels must be among the classes {known}, got {unknown[0]!r}"
    same = [label for label in known if str(label) == str(unknown[0])]
    if same:
        message += f": pass {same[0]!r}, which has the type of y"
    elif classes.dtype.kind in "iu" and known == list(range(len(known))):
        message += (
            ". A meta-estimator has probably encoded y as 0, 1, ..., as cross_val_predict and "
            "CalibratedClassifierCV(ensemble=False) do: pass y with the labels 0, 1, ... and name them, "
            "or use CalibratedClassifierCV(ensemble=True)"
        )
    raise ValueError(message)


def check_cost(cost: ArrayLike | None, classes: np.ndarray) -> np.ndarray:
    """Return a cost matrix with a zero diagonal, in the order of the classes."""
    n_classes = len(classes)
    if cost is None:
        return 1.0 - np.eye(n_classes)
    refuse_masked("cost", cost)
    try:
        table = np.asarray(cost, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"cost must be a matrix of numbers, got {brief(cost)}") from None
    if table.shape != (n_classes, n_classes):
        raise ValueError(
            f"cost must have shape ({n_classes}, {n_classes}), one row and one column per class, "
            f"got {table.shape}"
        )
    for axis in (0, -1):
        places = places_of("cost", cost, axis, classes.tolist(), "class of y")
        table = table if places is None else np.take(table, places, axis=axis)
    if not np.all(np.isfinite(table)) or np.any(table < 0):
        raise ValueError("cost must contain finite non-negative numbers")
    if np.any(np.diag(table) != 0):
        raise ValueError("cost must have a zero diagonal: a correct prediction has no cost")
    return table


def check_rescaling(rescaling: str) -> None:
    """Raise ValueError unless the name of a rescaling is valid."""
    if rescaling not in ("margin", "slack"):
        raise ValueError(f"rescaling must be 'margin' or 'slack', got {rescaling!r}")
