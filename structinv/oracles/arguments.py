"""Checks of what oracles are asked and made of, before any work."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from ..utils import plugins
from ..utils.matrices import Matrix, refuse_half_or_masked


def check_directions(
    X: Matrix, V: np.ndarray, assign: np.ndarray, cost: np.ndarray | None = None
) -> None:
    """Raise ValueError or TypeError unless directions, and who faces which, fit the rows."""
    n_rows, n_features = X.shape
    if np.ndim(V) != 2 or V.shape[1] != n_features:
        raise ValueError(f"V must have shape (p, {n_features}), a direction a row, got {np.shape(V)}")
    if np.shape(assign) != (n_rows,):
        raise ValueError(f"assign must have shape ({n_rows},), a number a row, got {np.shape(assign)}")
    if np.asarray(assign).dtype.kind not in "iu":
        raise TypeError(f"assign must hold integers, got {np.asarray(assign).dtype}")
    if n_rows and (np.min(assign) < 0 or np.max(assign) >= len(V)):
        raise ValueError(
            f"assign must hold numbers from 0 to {len(V) - 1}, got {np.min(assign)} to {np.max(assign)}"
        )
    if cost is not None and np.shape(cost) != (n_rows,):
        raise ValueError(f"cost must have shape ({n_rows},), one a row, got {np.shape(cost)}")


def check_features(name: str, given: Any, n_features: int | None) -> None:
    """Raise TypeError or ValueError unless it holds features that are there: a mask, numbers or names.

    Names of columns stand for numbers until the rows are known, and are refused if `n_features` is.

    Examples
    --------
    >>> check_features("allowed", [0, 7], 5)
    Traceback (most recent call last):
        ...
    ValueError: allowed must hold numbers of features, from 0 to 4, got 7
    """
    if are_names(given):
        _check_names(name, list(given), n_features)
        return
    named = np.asarray(given)
    if named.ndim != 1 or (named.dtype.kind not in "biu" and named.size):
        raise TypeError(
            f"{name} must be an array of booleans, one for each feature, of numbers of features, or of "
            f"names of columns, got {given!r}"
        )
    if named.dtype == bool:
        _check_mask(name, named, n_features)
    else:
        _check_numbers(name, named, n_features)


def are_names(given: Any) -> bool:
    """Whether these are several strings, as names of columns are."""
    return np.ndim(given) == 1 and len(given) > 0 and all(isinstance(each, str) for each in given)


def _check_names(name: str, given: list[str], n_features: int | None) -> None:
    if n_features is not None:
        raise ValueError(
            f"{name} must hold numbers of features or a mask, since X is no data frame with names of "
            f"columns, got {str(given[0])!r}; steps of a Pipeline return data frames after "
            "set_output(transform='pandas')"
        )
    found, counts = np.unique(given, return_counts=True)
    if len(found) < len(given):
        twice = str(found[np.argmax(counts)])
        raise ValueError(f"{name} must name each column once, got {twice!r} {counts.max()} times")


def _check_mask(name: str, mask: np.ndarray, n_features: int | None) -> None:
    if n_features is not None and len(mask) != n_features:
        raise ValueError(
            f"{name} must have one entry for each of the {n_features} features, got {len(mask)}"
        )
    if not np.any(mask):
        raise ValueError(f"{name} must name a feature at least, got a mask without any")


def _check_numbers(name: str, numbers: np.ndarray, n_features: int | None) -> None:
    if len(numbers) == 0:
        raise ValueError(f"{name} must name a feature at least, got none")
    most = np.iinfo(np.int64).max if n_features is None else n_features - 1
    wrong = numbers[(numbers < 0) | (numbers > most)]
    if len(wrong):
        known = "from 0 on" if n_features is None else f"from 0 to {most}"
        raise ValueError(f"{name} must hold numbers of features, {known}, got {wrong[0]}")
    found, counts = np.unique(numbers, return_counts=True)
    if len(found) < len(numbers):
        raise ValueError(
            f"{name} must hold the number of each feature once, got {found[np.argmax(counts)]} "
            f"{counts.max()} times; is it a mask? Then it must hold booleans: "
            f"np.asarray({name}, dtype=bool)"
        )


def chosen_features(given: Any, n_features: int) -> np.ndarray:
    """The numbers of the features that a mask or numbers hold, in order; all for None."""
    if given is None:
        return np.arange(n_features)
    named = np.asarray(given)
    return np.flatnonzero(named) if named.dtype == bool else np.unique(named)


def check_row_by_row(name: str, part: Any, advice: str) -> None:
    """Raise ValueError if an oracle's changes of rows of one example depend on one another."""
    if part.whole_example:
        raise ValueError(
            f"{name} must change each row by itself, got {part!r}, which speaks of whole examples: "
            f"{advice}"
        )


def check_needs_no_label(oracle: Any) -> None:
    """Raise ValueError if an oracle's sets depend on labels."""
    if oracle.depends_on_label:
        raise ValueError(
            "oracle must not depend on labels, which rows to predict do not have: leave out only_for, "
            f"got {oracle!r}"
        )


def instance_of(kind: type) -> str:
    """How an instance of a class is written, with the arguments that it must be given.

    Examples
    --------
    >>> from structinv.oracles import FDrop, Identity
    >>> instance_of(FDrop), instance_of(Identity)
    ('FDrop(max_changes=...)', 'Identity()')
    """
    parameters = inspect.signature(kind).parameters.values()
    required = [
        each.name
        for each in parameters
        if each.default is each.empty and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
    ]
    return f"{kind.__name__}({', '.join(f'{name}=...' for name in required)})"


def hint_of(given: Any) -> str:
    """What to write in the place of a class that was given for an instance of it; else nothing."""
    known = isinstance(given, type) and issubclass(given, BaseEstimator)
    return f"; write {instance_of(given)} for an instance of the class" if known else ""


def closest_of(given: Any, known: Sequence[str]) -> str:
    """Which of the known words may have been meant by a misspelled one; else nothing."""
    if not isinstance(given, str):
        return ""
    plain = {each.lower(): each for each in known}
    close = get_close_matches(given.lower(), plain, 1)
    return "".join(f": did you mean {plain[each]!r}?" for each in close)


def grade_profile(rho: float | Sequence[float], length: int | None = None) -> np.ndarray:
    """Grades from no change to the largest one, checked: the first is 1, all lie in [0, 1]."""
    if np.isscalar(rho):
        grades = np.linspace(1.0, float(rho), length or 2)  # type: ignore[arg-type]
    else:
        grades = np.asarray(rho, dtype=np.float64)
    if grades.ndim != 1 or len(grades) < 1 or not np.all((grades >= 0) & (grades <= 1)):
        raise ValueError(f"rho must be a number or a sequence of numbers in [0, 1], got {rho!r}")
    if grades[0] != 1.0:
        raise ValueError(f"rho must start with 1, the grade of no change, got {grades[0]!r}")
    if length is not None and len(grades) != length:
        raise ValueError(f"rho must have {length} entries here, got {len(grades)}")
    return grades


def profile_of_list(rho: float | Sequence[float], size: int) -> np.ndarray:
    """Grades of a list's members, the identity first: a number is the grade of all others."""
    return grade_profile(np.r_[1.0, np.full(size - 1, rho)] if np.isscalar(rho) else rho, size)


def real_rows(name: str, X: Any) -> np.ndarray:
    """What kernels and distances are asked about, as an array of floats of one or two dimensions."""
    if sp.issparse(X):
        raise TypeError(f"{name} must be dense, got {type(X).__name__}: pass X.toarray()")
    refuse_half_or_masked(name, X)
    rows = np.asarray(X)
    if rows.dtype.kind == "O":
        rows = np.asarray(X, dtype=np.float64)
    if rows.dtype.kind not in "fiub":
        raise TypeError(f"{name} must hold real numbers, got dtype {rows.dtype}")
    if rows.ndim not in (1, 2):
        hint = f": pass {name}.reshape(len({name}), -1)" if rows.ndim > 2 else ""
        raise ValueError(f"{name} must have shape (n, d), a row an input, got {rows.shape}{hint}")
    rows = rows if rows.dtype in (np.float32, np.float64) else rows.astype(np.float64)
    if not plugins.all_finite(rows):
        raise ValueError(f"{name} must be finite, got NaN or infinity")
    return rows
