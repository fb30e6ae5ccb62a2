"""Validation of appended rows and labels. Errors name the row."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_array

from ..utils.matrices import check_indices, refuse_half_or_masked, refuse_masked
from ..utils.visible import shown

_KIND_NAMES = {"b": "booleans", "i": "integers", "f": "floats", "U": "strings"}
_KINDS = {"b": "b", "i": "i", "u": "i", "f": "f", "U": "U", "T": "U"}


def checked_rows(X: Any, dtype: np.dtype, n_features: int | None, before: int) -> sp.csr_matrix:
    """Return a validated copy of the rows as a canonical CSR matrix.

    Indices are sorted and unique, and stored zeros are dropped.

    Shapes: `X` (n, d).
    """
    refuse_half_or_masked("X", X)
    check_indices("X", X, before)
    X = check_array(
        X,
        accept_sparse="csr",
        ensure_all_finite=False,
        ensure_min_samples=0,
        ensure_min_features=0,
        input_name="X",
    )
    rows = (
        sp.csr_matrix(X) if not sp.issparse(X) else sp.csr_matrix((X.data, X.indices, X.indptr), X.shape)
    )
    wrong = rows.indices >= (rows.shape[1] if n_features is None else n_features)
    if n_features is not None and wrong.any():
        entry = int(np.argmax(wrong))
        raise ValueError(
            f"features must be from 0 to {n_features - 1} for n_features={n_features}, got "
            f"{rows.indices[entry]} in {_place(rows, entry, before)}"
        )
    with np.errstate(over="ignore"):
        # Copies, because they are changed in place.
        parts = rows.data.astype(dtype), rows.indices.copy(), rows.indptr.copy()
        rows = sp.csr_matrix(parts, rows.shape)
        rows.sum_duplicates()
    wrong = ~np.isfinite(rows.data)
    if wrong.any():
        entry = int(np.argmax(wrong))
        raise ValueError(
            f"values must be finite in {dtype}, got {rows.data[entry]} for feature "
            f"{rows.indices[entry]} in {_place(rows, entry, before)}"
        )
    rows.eliminate_zeros()
    return rows


def checked_labels(y: Any, n_rows: int, kind: str | None, before: int) -> np.ndarray:
    """Return labels of one kind: bool, int64, float64, or strings as objects.

    Shapes: `y` (n,).
    """
    refuse_masked("y", y, "remove the rows with a masked label, or fill them")
    found = np.asarray(y) if not isinstance(y, (list, tuple)) else np.array(y, dtype=object)
    if found.shape != (n_rows,):
        raise ValueError(f"y must have shape ({n_rows},), one label per row, got {found.shape}")
    listed = found.dtype == object
    kinds = [_kind(each) for each in found] if listed else [_KINDS.get(found.dtype.kind, "?")][:n_rows]
    for row, each in enumerate(kinds):
        if each not in _KIND_NAMES:
            raise ValueError(
                "labels must be strings, integers, booleans or floats, got "
                f"{shown(repr(_plain(found, row)))} in row {before + row}"
            )
        kind = kind or each
        if each != kind:
            raise ValueError(
                f"labels must be of one kind, got {shown(repr(_plain(found, row)))} in row "
                f"{before + row} after {_KIND_NAMES[kind]}"
            )
    if kind is None:
        return found
    return _CONVERTED[kind](found, before)


def _plain(labels: np.ndarray, row: int) -> Any:
    """Return a label as a Python object, whose `repr` does not depend on the version of NumPy."""
    return labels[row : row + 1].tolist()[0]


def _strings(labels: np.ndarray, before: int) -> np.ndarray:
    return np.array([str(each) for each in labels], dtype=object)


def _booleans(labels: np.ndarray, before: int) -> np.ndarray:
    return labels.astype(np.bool_)


def _integers(found: np.ndarray, before: int) -> np.ndarray:
    limits = np.iinfo(np.int64)
    if len(found) and not limits.min <= found.min() <= found.max() <= limits.max:
        row = int(np.argmax((found < limits.min) | (found > limits.max)))
        raise ValueError(f"labels must be 64-bit integers, got {found[row]} in row {before + row}")
    return found.astype(np.int64)


def _floats(found: np.ndarray, before: int) -> np.ndarray:
    values = found.astype(np.float64)
    if not np.isfinite(values).all():
        row = int(np.argmin(np.isfinite(values)))
        raise ValueError(f"labels must be finite, got {values[row]} in row {before + row}")
    return values


_CONVERTED = {"b": _booleans, "i": _integers, "f": _floats, "U": _strings}


def _kind(label: Any) -> str:
    """Return the kind of a label, or "?" for other values."""
    if isinstance(label, (bool, np.bool_)):
        return "b"
    if isinstance(label, (int, np.integer)):
        return "i"
    if isinstance(label, (float, np.floating)):
        return "f"
    return "U" if isinstance(label, str) else "?"


def _place(rows: sp.csr_matrix, entry: int, before: int) -> str:
    row = int(np.searchsorted(rows.indptr, entry, side="right")) - 1
    return f"row {before + row}" if not before else f"row {before + row} (row {row} of this block)"
