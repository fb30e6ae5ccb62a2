"""Rows of a folder with the columns of a trained model."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..rows import RowFolder, RowSource
from ..utils.visible import listed, shown

# Notes of a folder on its columns, and their description in messages.
COLUMN_NOTES = {
    "first_feature": "the first feature number",
    "vectorizer": "the vectorizer",
    "columns": "the columns",
}


class ResizedRows(RowSource):
    """Sparse rows of a source, cut or extended to a number of features.

    Missing features are zero.
    """

    sparse = True

    def __init__(self, rows: RowSource, n_features: int) -> None:
        self.rows = rows
        self.shape = (rows.shape[0], n_features)
        self.dtype = rows.dtype

    @property
    def labels(self) -> np.ndarray | None:
        return self.rows.labels

    def block(self, start: int, stop: int) -> sp.csr_matrix:
        block = sp.csr_matrix(self.rows.block(start, stop))
        block.resize(stop - start, self.shape[1])
        return block

    def edges(self, most_values: int) -> np.ndarray:
        return self.rows.edges(most_values)


def column_notes(rows: RowFolder) -> dict[str, Any]:
    """Return the notes on the columns of a folder."""
    return {name: rows.notes[name] for name in COLUMN_NOTES if name in rows.notes}


def rows_for(n_features: int, columns: dict[str, Any], rows: RowFolder, ignore_new: bool) -> RowSource:
    """Return the rows of a folder with the columns of a model."""
    notes = column_notes(rows)
    for name, description in COLUMN_NOTES.items():
        if name in notes and name in columns and notes[name] != columns[name]:
            raise ValueError(
                f"{rows.path} has {description} {_listed(notes[name])}, but MODEL was trained with "
                f"{_listed(columns[name])}: convert both files with the same options"
            )
    if rows.shape[1] == n_features:
        return rows
    # Feature numbers have the same meaning in files with more or fewer columns.
    numbered = "first_feature" in notes and "first_feature" in columns
    if rows.shape[1] > n_features and not ignore_new:
        advice = "pass --ignore-new-features to ignore the others" if numbered else _SAME_COLUMNS
    elif not numbered:
        advice = _SAME_COLUMNS
    else:
        return ResizedRows(rows, n_features)
    raise ValueError(f"{rows.path} has {rows.shape[1]} features, but MODEL has {n_features}: {advice}")


_SAME_COLUMNS = "both folders must have the same columns"


def _listed(value: Any) -> str:
    return listed(value) if isinstance(value, list) else shown(value)
