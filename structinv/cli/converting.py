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
from ..datasets.readers import line_of_row
from ..rows import RowFolder, RowWriter
from ..utils.matrices import Matrix
from .conversion import Conversion, RowFile, refuse_idle, word_counts
from .messages import progress_of, say
from .parquet import ParquetRows
from .row_files import SAID
from .writing import is_standard


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
        self.largest = float(np.finfo(asked.dtype).max)

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
            self._check(X, first, writer.n_rows)
            yield X, y
        writer.notes["first_feature"] = first

    def _check(self, X: sp.csr_matrix, first: int, before: int) -> None:
        """Raise ValueError for what cannot be written, with numbers as the file has them."""
        most = np.inf if self.n_features is None else self.n_features
        wrong = (X.indices >= most) | (abs(X.data) > self.largest)
        if not wrong.any():
            return
        entry = int(np.argmax(wrong))
        place = self._place(before + int(np.searchsorted(X.indptr, entry, side="right")) - 1)
        number = X.indices[entry] + first
        if X.indices[entry] >= most:
            raise ValueError(
                f"{place} has feature {number}, and features must lie in {first} to {most - 1 + first} "
                f"for --n-features {most}"
            )
        raise ValueError(
            f"{place} has {X.data[entry]} as feature {number}, and values must be finite in float32"
        )

    def _place(self, row: int) -> str:
        """The line of a row, in a file that can be read again."""
        path = Path(name_of(self.stream))
        return f"{path}, line {line_of_row(path, row)}" if path.is_file() else f"{path}, row {row}"

    def _shift(self, writer: RowWriter) -> None:
        """Move what is written by one column."""
        if not writer.n_rows:
            return
        try:
            writer.shift_features(1)
        except ValueError:
            most = self.n_features or 0
            raise ValueError(
                f"{name_of(self.stream)} uses the number 0, and --n-features {most} is too small: a "
                f"line before has feature {most}, and features must lie in 0 to {most - 1}"
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
    if is_standard(folder):
        raise ValueError(f"FOLDER must be a folder, and {folder} stands for standard output")
    if folder.exists() and not overwrite:
        raise ValueError(f"{folder} exists; --overwrite replaces an older folder of rows")
    with opened_once(source) as stream:
        rows, name = row_file(stream, asked), name_of(stream)
        notes = {"source": name, "structinv": __version__, **rows.notes}
        writer = RowWriter(folder, rows.n_features, np.dtype(asked.dtype), overwrite, notes)
        n_empty = 0
        with progress_of(f"converting {name}", rows.total) as show, writer:
            for X, y in rows.blocks(writer):
                n_empty += _n_empty(X)
                try:
                    writer.append(X, y)
                except ValueError as error:
                    raise ValueError(f"{name}: {error}") from None
                show(rows.done())
            if not writer.n_features:
                raise ValueError(f"{name} has labels only: no row has a feature")
    if 2 * n_empty > writer.n_rows:
        say(f"warning: {n_empty} of {writer.n_rows} rows have no entries{_why_empty(rows.notes)}")
    return RowFolder(folder)


def _n_empty(X: Matrix) -> int:
    """How many rows have zeros only."""
    if not sp.issparse(X):
        return int((~X.any(axis=1)).sum())
    return X.shape[0] - len(np.unique(X.nonzero()[0]))


def _why_empty(notes: dict[str, Any]) -> str:
    """What of a text is not counted."""
    if "vectorizer" not in notes:
        return ""
    known = f", if {notes['vocabulary']} has them" if "vocabulary" in notes else ""
    return (
        f": words of two and more letters or digits are counted{known}; to keep shorter ones, write "
        "rows of a vectorizer of your own with structinv.rows.RowWriter"
    )
