"""Converting files of rows, a block at a time, to a folder of rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import scipy.sparse as sp

from .. import __version__
from ..datasets.in_blocks import svmlight_blocks, text_blocks
from ..datasets.opening import in_columns, kind_of, name_of, opened_once
from ..rows import RowFolder, RowWriter
from ..utils.matrices import Matrix
from .conversion import Conversion, RowFile, refuse_idle, word_counts
from .messages import progress_of
from .parquet import ParquetRows
from .row_files import SAID


class _TextFile(RowFile):
    """A file that is read from its start to its end."""

    def __init__(self, stream: BinaryIO) -> None:
        self.stream, self.notes = stream, {}
        path = Path(name_of(stream))
        self.total = path.stat().st_size if path.is_file() else None

    def done(self) -> int:
        return self.stream.tell()


class _SVMlightFile(_TextFile):
    options = frozenset({"zero_based", "n_features"})

    def __init__(self, stream: BinaryIO, asked: Conversion) -> None:
        super().__init__(stream)
        self.zero_based, self.n_features = asked.zero_based, asked.n_features

    def blocks(self, writer: RowWriter) -> Iterator[tuple[Matrix, Any]]:
        first = 0 if self.zero_based else 1
        for X, y in svmlight_blocks(self.stream, self.zero_based is not False):
            if self.zero_based is None:
                # They start at 1 until the number 0 is seen.
                if first == 1 and X.indices.min(initial=1) == 0:
                    first = 0
                    self._shift(writer)
                X = sp.csr_matrix(
                    (X.data, X.indices - first, X.indptr), (X.shape[0], X.shape[1] - first)
                )
            yield X, y
        writer.notes["first_feature"] = first

    def _shift(self, writer: RowWriter) -> None:
        """Move what is written by one column."""
        if not writer.n_rows:
            return
        try:
            writer.shift_features(1)
        except ValueError as error:
            raise ValueError(
                f"{name_of(self.stream)} uses the number 0, and --n-features {self.n_features} is too "
                f"small: {error}"
            ) from None


class _JSONFile(_TextFile):
    options = frozenset({"n_features", "vocabulary", "text_key", "label_key", "unlabeled"})

    def __init__(self, stream: BinaryIO, asked: Conversion) -> None:
        super().__init__(stream)
        self.keys = (asked.text_key, asked.label_key)
        self.vectorizer, self.n_features, self.notes = word_counts(asked)

    def blocks(self, writer: RowWriter) -> Iterator[tuple[Matrix, Any]]:
        for texts, labels in text_blocks(self.stream, *self.keys):
            yield self.vectorizer.transform(texts), labels


def row_file(stream: BinaryIO, asked: Conversion) -> RowFile:
    """A file of rows, its kind told by its content.

    Raises
    ------
    ValueError
        For other kinds of files, and for options that have no say about this kind.
    """
    name = name_of(stream)
    start = stream.read(4)
    stream.seek(0)
    if start == b"PAR1":
        return ParquetRows(name, asked)
    kind = kind_of(stream)
    readers: dict[str, Any] = {"svmlight": _SVMlightFile, "json": _JSONFile}
    if kind not in readers or (kind == "svmlight" and in_columns(stream)):
        held = SAID[kind if kind not in readers else "conll"]
        raise ValueError(
            f"convert reads SVMlight rows, JSON lines of texts and Parquet, and {name} looks like {held}"
        )
    refuse_idle(readers[kind], name, asked)
    return readers[kind](stream, asked)


def convert_file(source: Path, folder: Path, asked: Conversion, overwrite: bool) -> RowFolder:
    """Write the rows of a file to a folder."""
    if source.is_dir():
        raise ValueError(f"SOURCE must be a file, and {source} is a folder")
    if folder.exists() and not overwrite:
        raise ValueError(f"{folder} exists; --overwrite replaces an older folder of rows")
    with opened_once(source) as stream:
        rows, name = row_file(stream, asked), name_of(stream)
        notes = {"source": name, "structinv": __version__, **rows.notes}
        writer = RowWriter(folder, rows.n_features, np.dtype(asked.dtype), overwrite, notes)
        with progress_of(f"converting {name}", rows.total) as show, writer:
            for X, y in rows.blocks(writer):
                try:
                    writer.append(X, y)
                except ValueError as error:
                    raise ValueError(f"{name}: {error}") from None
                show(rows.done())
    return RowFolder(folder)
