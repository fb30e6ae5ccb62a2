"""Rows of a folder for a model: the number of columns that it was trained on, and the same columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..rows import RowFolder, RowSource

# Notes of a folder that say what its columns stand for, and what messages call them.
COLUMN_NOTES = {
    "first_feature": "a first feature of number",
    "vectorizer": "words by",
    "columns": "the columns",
}


class ResizedRows(RowSource):
    """Sparse rows of another source with another number of features.

    Features beyond it are dropped, and missing ones are zero.

    Parameters
    ----------
    rows : RowSource
        With sparse blocks.
    n_features : int

    Examples
    --------
    >>> from structinv.rows.matrix_rows import MatrixRows
    >>> rows = ResizedRows(MatrixRows(sp.csr_matrix(np.eye(3))), 2)
    >>> rows.shape, rows.block(1, 3).toarray().tolist()
    ((3, 2), [[0.0, 1.0], [0.0, 0.0]])
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
    """What is known of the columns of a folder."""
    return {name: rows.notes[name] for name in COLUMN_NOTES if name in rows.notes}


def rows_for(n_features: int, columns: dict[str, Any], rows: RowFolder, ignore_new: bool) -> RowSource:
    """The rows of a folder with the columns of a model.

    Parameters
    ----------
    n_features : int
        Of the model.
    columns : dict
        What is known of its columns; see `column_notes`.
    rows : RowFolder
    ignore_new : bool
        Whether features that the model does not know are dropped.

    Raises
    ------
    ValueError
        If the columns of the folder are known to be others.
    """
    found = column_notes(rows)
    for name, said in COLUMN_NOTES.items():
        if name in found and name in columns and found[name] != columns[name]:
            raise ValueError(
                f"{rows.path} has {said} {_listed(found[name])}, and the model was trained on "
                f"{_listed(columns[name])}: convert both files with the same options"
            )
    if rows.shape[1] == n_features:
        return rows
    # Numbers of features mean the same in files of different width; other columns need not.
    numbered = "first_feature" in found and "first_feature" in columns
    if rows.shape[1] > n_features and not ignore_new:
        more = "--ignore-new-features drops the others" if numbered else _SAME_WIDTH
    elif not numbered:
        more = _SAME_WIDTH
    else:
        return ResizedRows(rows, n_features)
    raise ValueError(
        f"{rows.path} has {rows.shape[1]} features, and the model knows {n_features}: {more}"
    )


_SAME_WIDTH = "both folders must have the same columns"


def _listed(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
