"""Validation of appended rows and labels. Errors name the row."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_array

from ..utils.matrices import check_indices, refuse_half_or_masked, refuse_masked
from ..utils.texts import shown
from .checked_blocks import check_finite

# Types of labels, and their dtype as an array.
_KINDS: dict[str, tuple[tuple[type, ...], type]] = {
    "booleans": ((bool, np.bool_), np.bool_),
    "integers": ((int, np.integer), np.int64),
    "floats": ((float, np.floating), np.float64),
    "strings": ((str,), object),
}
# Number of features whose indices are 32-bit integers.
SHORT = 2**31


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
    most = SHORT if n_features is None else n_features
    if rows.shape[1] > most:
        rows = sp.csr_matrix((rows.data, rows.indices, rows.indptr), (rows.shape[0], most))
        check_indices("X", rows, before)
    with np.errstate(over="ignore"):
        # Copies, because they are changed in place.
        parts = rows.data.astype(dtype), rows.indices.copy(), rows.indptr.copy()
        rows = sp.csr_matrix(parts, rows.shape)
        rows.sum_duplicates()
    check_finite(f"X in {dtype}", rows, before)
    rows.eliminate_zeros()
    return rows


def checked_labels(y: Any, n_rows: int, kind: str | None, before: int) -> tuple[np.ndarray, str]:
    """Return labels of one kind, and the kind.

    They are bool, int64, float64, or strings as objects.

    Shapes: `y` (n,).
    """
    refuse_masked("y", y, "remove the rows with a masked label, or fill them")
    found = np.asarray(y) if not isinstance(y, (list, tuple)) else np.array(y, dtype=object)
    if found.shape != (n_rows,):
        raise ValueError(f"y must have shape ({n_rows},), one label per row, got {found.shape}")
    # All labels of an array have the kind of the first.
    for row, label in enumerate(found if found.dtype == object else found[:1].tolist(), before):
        each = next((name for name, (types, _) in _KINDS.items() if isinstance(label, types)), None)
        if each is None:
            raise _refusal("strings, integers, booleans or floats", label, row)
        kind = kind or each
        if each != kind:
            raise _refusal("of one kind", label, row, f" after {kind}")
    assert kind is not None
    wrong, rule = np.zeros(0, dtype=bool), ""
    if kind == "integers":
        wrong, rule = (found < -(2**63)) | (found >= 2**63), "64-bit integers"
    elif kind == "floats":
        wrong, rule = ~np.isfinite(found.astype(np.float64)), "finite"
    if wrong.any():
        row = int(np.argmax(wrong))
        raise _refusal(rule, found[row : row + 1].tolist()[0], before + row)
    return found.astype(_KINDS[kind][1]), kind


def _refusal(rule: str, label: Any, row: int, more: str = "") -> ValueError:
    return ValueError(f"labels must be {rule}, got {shown(repr(label))} in row {row}{more}")
