"""Rows of Parquet files, read by pyarrow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..rows import RowWriter
from ..utils.matrices import Matrix
from ..utils.visible import listed
from .conversion import Conversion, RowFile, refuse_unused, word_counts

# Numbers or texts per block.
_NUMBERS, _TEXTS = 2**20, 4096


class ParquetRows(RowFile):
    """Parquet file with columns of numbers or one column of texts."""

    options = frozenset({"text_key", "label_key", "unlabeled"})

    def __init__(self, path: str, given: Conversion) -> None:
        self.path, self.label_key, self._n_done = path, given.label_key, 0
        try:
            from pyarrow.parquet import ParquetFile
        except ImportError:
            raise ValueError(
                f"{path} is a Parquet file, which requires pyarrow: pip install 'structinv[parquet]'"
            ) from None
        if not Path(path).is_file():
            raise ValueError(
                f"Parquet data must be in a file, but {path} can be read only once: save it to a file "
                "first"
            )
        try:
            self._file = ParquetFile(path, pre_buffer=False, buffer_size=1 << 16)
        except (ValueError, OSError) as error:
            raise self._broken(error) from None
        self.total = self._file.metadata.num_rows
        if not self.total:
            raise ValueError(f"{path} has no rows: at least one is required")
        self._kinds = {each.name: each.type for each in self._file.schema_arrow}
        self._check_label()
        self._learn_columns(given)

    def blocks(self, writer: RowWriter) -> Iterator[tuple[Matrix, Any]]:
        names = [*self._columns, *([] if self.label_key is None else [self.label_key])]
        at_once = _TEXTS if self._vectorizer is not None else max(1, _NUMBERS // len(self._columns))
        batches = self._file.iter_batches(at_once, columns=names)
        while (batch := self._next(batches)) is not None:
            labels = None if self.label_key is None else self._values(batch, self.label_key)
            columns = [self._values(batch, name) for name in self._columns]
            if self._vectorizer is not None:
                yield self._vectorizer.transform(columns[0]), labels
            else:
                yield np.column_stack(columns).astype(np.float64), labels
            self._n_done += batch.num_rows

    def done(self) -> int:
        return self._n_done

    def _next(self, batches: Any) -> Any:
        try:
            return next(batches, None)
        except (ValueError, OSError) as error:
            raise self._broken(error) from None

    def _broken(self, error: Exception) -> ValueError:
        return ValueError(f"{self.path} is not an intact Parquet file: {error}")

    def _check_label(self) -> None:
        if self.label_key is not None and self.label_key not in self._kinds:
            raise ValueError(
                f"{self.path} has no label column {self.label_key!r}, only {listed(self._kinds)}: "
                "pass --label-key, or --unlabeled if there are no labels"
            )

    def _learn_columns(self, given: Conversion) -> None:
        """Select the columns: the column of texts if present, otherwise all columns of numbers."""
        self._vectorizer = None
        if _is_text(self._kinds.get(given.text_key)):
            refuse_unused(type(self), self.path, given, {"n_features", "vocabulary"})
            self._columns = [given.text_key]
            self._vectorizer, self.n_features, self.notes = word_counts(given)
            return
        if "text_key" in given.passed:
            raise ValueError(
                f"--text-key must be a column of texts in {self.path}, got {given.text_key!r}"
            )
        refuse_unused(type(self), self.path, given)
        self._columns = [name for name in self._kinds if name != self.label_key]
        wrong = [name for name in self._columns if not _is_number(self._kinds[name])]
        if wrong:
            raise ValueError(
                f"{self.path} has columns without numbers: {listed(wrong)}. Pass --text-key for a "
                "column of texts, and --label-key for the column of labels"
            )
        if not self._columns:
            raise ValueError(
                f"{self.path} contains only labels: at least one column of features is required"
            )
        self.n_features, self.notes = len(self._columns), {"columns": self._columns}

    def _values(self, batch: Any, name: str) -> Any:
        """Return a column of some rows; raise ValueError for a missing value."""
        column = batch.column(name)
        if column.null_count:
            row = self._n_done + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
            raise ValueError(
                f"{self.path}, row {row}: the value of column {name!r} is missing. Fill in or remove "
                "missing values"
            )
        if _is_coded(column.type):
            column = column.dictionary_decode()
        return column.to_numpy(zero_copy_only=False)


def _is_number(kind: Any) -> bool:
    from pyarrow import types

    return types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    if kind is not None and _is_coded(kind):
        kind = kind.value_type
    return kind is not None and (types.is_string(kind) or types.is_large_string(kind))


def _is_coded(kind: Any) -> bool:
    from pyarrow import types

    return types.is_dictionary(kind)
