"""What a choice on training rows is told, looked at before any work: grids and folds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.model_selection import check_cv

Folds = list[tuple[np.ndarray, np.ndarray]]


def check_grid(grid: Any) -> None:
    """Raise TypeError or ValueError unless it is a dict of lists of values, or a list of such dicts.

    Examples
    --------
    >>> check_grid({"spread": 5})
    Traceback (most recent call last):
        ...
    TypeError: grid must have a list of values for 'spread', as {'spread': [5, 20]} has, got 5
    """
    parts = [grid] if isinstance(grid, Mapping) else grid
    if not isinstance(parts, (list, tuple)) or not all(isinstance(part, Mapping) for part in parts):
        raise TypeError(
            "grid must be a dict of parameters with values, as {'spread': [5, 20]}, or a list of such "
            f"dicts, got {grid!r}"
        )
    for part in parts:
        for name, values in part.items():
            if not isinstance(name, str):
                raise TypeError(f"grid must have names of parameters, got {name!r} in {grid!r}")
            listed = isinstance(values, (Sequence, np.ndarray)) and not isinstance(values, (str, bytes))
            if not listed or (isinstance(values, np.ndarray) and values.ndim == 0):
                raise TypeError(
                    f"grid must have a list of values for {name!r}, as {{'spread': [5, 20]}} has, got "
                    f"{values!r}"
                )
            if len(values) == 0:
                raise ValueError(f"grid must have at least one value for {name!r}, got {values!r}")


def checked_folds(cv: Any, rows: np.ndarray, y: np.ndarray, classes: bool) -> Folds:
    """The rows to train and to test on of each fold, by number.

    Parameters
    ----------
    cv : int, splitter, iterable or None
        As in GridSearchCV.
    rows : (n, d) array
    y : (n,) array
    classes : bool
        Whether `y` has labels.

    Raises
    ------
    TypeError, ValueError
        Where that are no folds of these rows: none, empty ones, numbers of rows that are not there.
    """
    if isinstance(cv, (bool, type)):
        raise TypeError(f"cv must be an integer of at least 2, a splitter or folds, got {cv!r}")
    parts = list(check_cv(5 if cv is None else cv, y, classifier=classes).split(rows, y))
    if not parts:
        raise ValueError(f"cv must have at least one fold, got {cv!r}")
    return [_fold(number, part, len(rows)) for number, part in enumerate(parts)]


def _fold(number: int, part: Any, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    if not isinstance(part, (tuple, list)) or len(part) != 2:
        raise ValueError(f"cv must have pairs of rows to train and to test on, got {part!r} as a fold")
    train, test = (_numbers(number, np.asarray(each), n_rows) for each in part)
    if len(train) < 2 or len(test) < 1:
        raise ValueError(
            "cv must leave at least two rows to train and one to test on, got "
            f"{len(train)} and {len(test)} in fold {number}"
        )
    return train, test


def _numbers(number: int, chosen: np.ndarray, n_rows: int) -> np.ndarray:
    """Rows by number, of numbers or of a mask."""
    if chosen.dtype.kind == "b" and chosen.shape == (n_rows,):
        return np.flatnonzero(chosen)
    if chosen.ndim != 1 or (chosen.dtype.kind not in "iu" and len(chosen)):
        raise TypeError(
            f"cv must have rows by number, or a mask of {n_rows} rows, got {chosen!r} in fold {number}"
        )
    if len(chosen) and not -n_rows <= int(chosen.min()) <= int(chosen.max()) < n_rows:
        raise ValueError(
            f"cv must have numbers from 0 to {n_rows - 1}, as there are {n_rows} rows, got "
            f"{int(chosen.min())} to {int(chosen.max())} in fold {number}"
        )
    return chosen.astype(np.intp)
