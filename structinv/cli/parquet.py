"""Rows of Parquet files, by pyarrow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..rows import RowWriter
from ..utils.matrices import Matrix
from .conversion import Conversion, RowFile, refuse_idle, word_counts

# Numbers, or texts, that are read at a time.
_NUMBERS, _TEXTS = 2**20, 4096


class ParquetRows(RowFile):
    """Columns of numbers, or a column of texts; and a column of labels."""

    options = frozenset({"text_key", "label_key", "unlabeled"})

    def __init__(self, path: str, asked: Conversion) -> None:
        self.path, self.label_key, self._n_done = path, asked.label_key, 0
        try:
            from pyarrow.parquet import ParquetFile
        except ImportError:
            raise ValueError(
                f"{path} is a Parquet file, which pyarrow reads: pip install 'structinv[parquet]'"
            ) from None
        if not Path(path).is_file():
            raise ValueError(f"Parquet must come in a file, and {path} can be read once only")
        try:
            self._file = ParquetFile(path, pre_buffer=False, buffer_size=1 << 16)
        except (ValueError, OSError) as error:
            raise self._broken(error) from None
        self.total = self._file.metadata.num_rows
        if not self.total:
            raise ValueError(f"{path} holds no rows")
        self._kinds = {each.name: each.type for each in self._file.schema_arrow}
        self._check_label()
        self._learn_columns(asked)

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
                f"{self.path} has no column {self.label_key!r} of labels, only "
                f"{', '.join(self._kinds)}; --label-key names another, and --unlabeled reads none"
            )

    def _learn_columns(self, asked: Conversion) -> None:
        """Which columns are read: that of texts, if it is there, or all numbers."""
        self._vectorizer = None
        if _is_text(self._kinds.get(asked.text_key)):
            refuse_idle(type(self), self.path, asked, {"n_features", "vocabulary"})
            self._columns = [asked.text_key]
            self._vectorizer, self.n_features, self.notes = word_counts(asked)
            return
        if "text_key" in asked.told:
            raise ValueError(f"{self.path} has no column {asked.text_key!r} of texts")
        refuse_idle(type(self), self.path, asked)
        self._columns = [name for name in self._kinds if name != self.label_key]
        wrong = [name for name in self._columns if not _is_number(self._kinds[name])]
        if wrong:
            raise ValueError(
                f"{self.path} has columns that hold no numbers: {', '.join(wrong)}; a column of texts "
                "is named by --text-key, that of labels by --label-key"
            )
        if not self._columns:
            raise ValueError(f"{self.path} has labels only: no column is a feature")
        self.n_features, self.notes = len(self._columns), {"columns": self._columns}

    def _values(self, batch: Any, name: str) -> Any:
        """A column of some rows; ValueError for a value that is missing."""
        column = batch.column(name)
        if column.null_count:
            row = self._n_done + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
            raise ValueError(f"{self.path}, row {row}: column {name!r} has no value")
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
