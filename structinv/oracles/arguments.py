"""Validation of arguments of oracles: directions, features, grades, rows."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from ..utils import plugins
from ..utils.matrices import Matrix, refuse_half_or_masked, refuse_masked
from ..utils.parameters import brief, in_order, places_of


def check_directions(
    X: Matrix, V: np.ndarray, assign: np.ndarray, cost: np.ndarray | None = None
) -> None:
    """Raise ValueError or TypeError unless V, assign and cost match the rows."""
    n_rows, n_features = X.shape
    for name, given in (("V", V), ("assign", assign), ("cost", cost)):
        refuse_masked(name, given)
    if np.ndim(V) != 2 or V.shape[1] != n_features:
        raise ValueError(f"V must have shape (n_directions, {n_features}), got {np.shape(V)}")
    if np.shape(assign) != (n_rows,):
        raise ValueError(
            f"assign must have shape ({n_rows},), one number per row, got {np.shape(assign)}"
        )
    if np.asarray(assign).dtype.kind not in "iu":
        raise TypeError(f"assign must contain integers, got {np.asarray(assign).dtype}")
    if n_rows and (np.min(assign) < 0 or np.max(assign) >= len(V)):
        raise ValueError(
            f"assign must contain rows of V, from 0 to {len(V) - 1}, got {np.min(assign)} to "
            f"{np.max(assign)}"
        )
    if cost is not None and np.shape(cost) != (n_rows,):
        raise ValueError(f"cost must have shape ({n_rows},), one per row, got {np.shape(cost)}")


def check_features(name: str, given: Any, n_features: int | None) -> None:
    """Raise TypeError or ValueError unless the value selects existing features.

    Allowed values are a mask, numbers, or names of columns. Names are replaced by numbers once the
    rows are known, so they are an error if `n_features` is given.
    """
    refuse_masked(name, given)
    if are_names(given):
        _check_names(name, list(given), n_features)
        return
    chosen = np.asarray(given) if n_features is None else selection(name, given)
    if chosen.ndim != 1 or (chosen.dtype.kind not in "biu" and chosen.size):
        raise TypeError(
            f"{name} must be an array of booleans (one per feature), of column numbers, or of column "
            f"names, got {brief(given)}"
        )
    if chosen.dtype == bool:
        _check_mask(name, chosen, n_features)
    else:
        _check_numbers(name, chosen, n_features)


def is_mask(given: Any) -> bool:
    """Return True for booleans, one per feature."""
    return np.asarray(given).dtype == bool


def selection(name: str, given: Any) -> np.ndarray:
    """Return a mask in the order of its labels, or numbers of features as given."""
    return in_order(name, given) if is_mask(given) else np.asarray(given)


def are_names(given: Any) -> bool:
    """Return True for a nonempty list of strings."""
    return np.ndim(given) == 1 and len(given) > 0 and all(isinstance(each, str) for each in given)


def _check_names(name: str, given: list[str], n_features: int | None) -> None:
    if n_features is not None:
        raise ValueError(
            f"{name} must contain column numbers or a mask, because X has no column names, got "
            f"{str(given[0])!r}. Pass X as a data frame; steps of a Pipeline return data frames after "
            "set_output(transform='pandas')"
        )
    found, counts = np.unique(given, return_counts=True)
    if len(found) < len(given):
        repeated = str(found[np.argmax(counts)])
        raise ValueError(f"{name} must name each column once, got {repeated!r} {counts.max()} times")


def _check_mask(name: str, mask: np.ndarray, n_features: int | None) -> None:
    if n_features is not None and len(mask) != n_features:
        raise ValueError(
            f"{name} must have one entry for each of the {n_features} features, got {len(mask)}"
        )
    if not np.any(mask):
        raise ValueError(f"{name} must select at least one feature, got a mask without True")


def _check_numbers(name: str, numbers: np.ndarray, n_features: int | None) -> None:
    if len(numbers) == 0:
        raise ValueError(f"{name} must select at least one feature, got an empty array")
    most = np.iinfo(np.int64).max if n_features is None else n_features - 1
    wrong = numbers[(numbers < 0) | (numbers > most)]
    if len(wrong):
        limits = "0 or larger" if n_features is None else f"from 0 to {most}"
        raise ValueError(f"{name} must contain column numbers, {limits}, got {wrong[0]}")
    found, counts = np.unique(numbers, return_counts=True)
    if len(found) < len(numbers):
        raise ValueError(
            f"{name} must contain each column number once, got {found[np.argmax(counts)]} "
            f"{counts.max()} times; a mask must contain booleans: np.asarray({name}, dtype=bool)"
        )


def chosen_features(given: Any, n_features: int) -> np.ndarray:
    """Return the sorted numbers of the selected features; None selects all."""
    if given is None:
        return np.arange(n_features)
    chosen = selection("the mask", given)
    return np.flatnonzero(chosen) if chosen.dtype == bool else np.unique(chosen)


def check_row_by_row(name: str, part: Any, advice: str) -> None:
    """Raise ValueError if the oracle perturbs the samples of an example jointly."""
    if part.whole_example:
        raise ValueError(
            f"{name} must perturb each sample independently, got {part!r}, which perturbs whole "
            f"examples: {advice}"
        )


def check_needs_no_label(oracle: Any) -> None:
    """Raise ValueError if S(x) of the oracle depends on labels."""
    if oracle.depends_on_label:
        raise ValueError(
            "oracle must not depend on labels, because samples have none at prediction: remove "
            f"only_for, got {oracle!r}"
        )


def instance_of(kind: type) -> str:
    """Write the call of a class with its required arguments, for messages."""
    parameters = inspect.signature(kind).parameters.values()
    required = [
        parameter.name
        for parameter in parameters
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    return f"{kind.__name__}({', '.join(f'{name}=...' for name in required)})"


def hint_of(given: Any) -> str:
    """Return advice to pass an instance of a class, or an empty string."""
    known = isinstance(given, type) and issubclass(given, BaseEstimator)
    return f"; pass an instance: {instance_of(given)}" if known else ""


def closest_of(given: Any, known: Sequence[str]) -> str:
    """Return a hint with the most similar known word; otherwise an empty string."""
    if not isinstance(given, str):
        return ""
    lower = {word.lower(): word for word in known}
    close = get_close_matches(given.lower(), lower, 1)
    return "".join(f": did you mean {lower[word]!r}?" for word in close)


def grade_profile(rho: float | Sequence[float], length: int | None = None) -> np.ndarray:
    """Return validated grades, from no perturbation (1) to the largest one."""
    refuse_masked("rho", rho)
    try:
        given = np.asarray(rho, dtype=np.float64)
    except (TypeError, ValueError):
        given = np.array(np.nan)
    places = places_of("rho", rho, -1, None, "grade")
    given = given if places is None else given[places]
    grades = np.linspace(1.0, float(given), length or 2) if np.isscalar(rho) else given
    if grades.ndim != 1 or len(grades) < 1 or not np.all((grades >= 0) & (grades <= 1)):
        raise ValueError(f"rho must be a number or a sequence of numbers in [0, 1], got {brief(rho)}")
    if grades[0] != 1.0:
        raise ValueError(
            f"rho must start with 1, the grade of the unperturbed sample, got {grades[0]!r}"
        )
    if length is not None and len(grades) != length:
        raise ValueError(
            f"rho must be a number, or have {length} entries for this oracle, got {len(grades)}"
        )
    return grades


def member_numbers(index: Any, n_rows: int, size: int) -> np.ndarray:
    """Return validated numbers of members of a list, one per row."""
    numbers, last = np.asarray(index, dtype=np.intp), size - 1
    if numbers.shape != (n_rows,) or np.any((numbers < 0) | (numbers > last)):
        raise ValueError(f"index must contain {n_rows} numbers from 0 to {last}, got {index!r}")
    return numbers


def breakpoints(rho: float | Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """Return fractions of the largest perturbation (0 to 1), and the grades at them."""
    grades = grade_profile(rho)
    if len(grades) == 1:
        grades = np.ones(2)
    return np.linspace(0.0, 1.0, len(grades)), grades


def profile_of_list(rho: float | Sequence[float], size: int) -> np.ndarray:
    """Return the grades of listed members; a number grades all except the first."""
    last = grade_profile(rho)[-1]
    return grade_profile(np.r_[1.0, np.full(size - 1, last)] if np.isscalar(rho) else rho, size)


def real_rows(name: str, X: Any, columns: Sequence[Any] | None) -> np.ndarray:
    """Convert one or several samples to floats, in the order of `columns`."""
    if sp.issparse(X):
        raise TypeError(f"{name} must be dense, got {type(X).__name__}: pass X.toarray()")
    refuse_half_or_masked(name, X)
    rows = in_order(name, X, known=columns)
    if rows.dtype.kind == "O":
        rows = rows.astype(np.float64)
    if rows.dtype.kind not in "fiub":
        raise TypeError(f"{name} must contain real numbers, got dtype {rows.dtype}")
    if rows.ndim not in (1, 2):
        hint = f": pass {name}.reshape(len({name}), -1)" if rows.ndim > 2 else ""
        raise ValueError(f"{name} must have shape (n_samples, n_features), got {rows.shape}{hint}")
    rows = rows if rows.dtype in (np.float32, np.float64) else rows.astype(np.float64)
    if not plugins.all_finite(rows):
        raise ValueError(f"{name} must be finite, got NaN or infinity")
    return rows
