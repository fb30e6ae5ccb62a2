"""Conversion of files to folders of rows, in blocks."""

from __future__ import annotations

import shutil
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
from .conversion import Conversion, RowFile, refuse_unused, word_counts
from .messages import progress_of, say
from .parquet import ParquetRows
from .row_files import FORMAT_NAMES
from .writing import is_standard


class _TextFile(RowFile):
    """File read once from start to end."""

    def __init__(self, stream: BinaryIO) -> None:
        self.stream, self.notes = stream, {}
        path = Path(name_of(stream))
        self.total = path.stat().st_size if path.is_file() else None

    def done(self) -> int:
        return self.stream.tell()


class _SVMlightFile(_TextFile):
    options = frozenset({"zero_based", "n_features"})

    def __init__(self, stream: BinaryIO, given: Conversion) -> None:
        super().__init__(stream)
        self.zero_based, self.n_features = given.zero_based, given.n_features
        self.largest = float(np.finfo(given.dtype).max)

    def blocks(self, writer: RowWriter) -> Iterator[tuple[Matrix, Any]]:
        first = 0 if self.zero_based else 1
        for X, y in svmlight_blocks(self.stream, self.zero_based is not False):
            if self.zero_based is None:
                # Feature numbers start at 1 unless a row has feature 0.
                if first == 1 and X.indices.min(initial=1) == 0:
                    first = 0
                    self._refuse_shift(writer)
                X = sp.csr_matrix(
                    (X.data, X.indices - first, X.indptr), (X.shape[0], X.shape[1] - first)
                )
            self._check(X, first, writer.n_rows)
            yield X, y
        writer._notes["first_feature"] = first

    def _check(self, X: sp.csr_matrix, first: int, before: int) -> None:
        """Raise ValueError for entries that cannot be written; messages count features as the file."""
        most = np.inf if self.n_features is None else self.n_features
        wrong = (X.indices >= most) | (abs(X.data) > self.largest)
        if not wrong.any():
            return
        entry = int(np.argmax(wrong))
        place = self._place(before + int(np.searchsorted(X.indptr, entry, side="right")) - 1)
        number = X.indices[entry] + first
        if X.indices[entry] >= most:
            raise ValueError(
                f"{place} has feature {number}; features must be between {first} and {most - 1 + first} "
                f"for --n-features {most}"
            )
        raise ValueError(
            f"{place} has the value {X.data[entry]} for feature {number}; values must be finite in "
            "float32: pass --dtype float64"
        )

    def _place(self, row: int) -> str:
        """Return the file and the line of a row; its number if the file cannot be read again."""
        path = Path(name_of(self.stream))
        return f"{path}, line {line_of_row(path, row)}" if path.is_file() else f"{path}, row {row}"

    def _refuse_shift(self, writer: RowWriter) -> None:
        """Raise ValueError if rows were already written with features from 1."""
        if writer.n_rows:
            raise ValueError(
                f"{name_of(self.stream)} has the feature number 0 only after {writer.n_rows} rows: pass "
                "--zero-based"
            )


class _JSONFile(_TextFile):
    options = frozenset({"n_features", "vocabulary", "text_key", "label_key", "unlabeled"})

    def __init__(self, stream: BinaryIO, given: Conversion) -> None:
        super().__init__(stream)
        self.keys = (given.text_key, given.label_key)
        self.vectorizer, self.n_features, self.notes = word_counts(given)

    def blocks(self, writer: RowWriter) -> Iterator[tuple[Matrix, Any]]:
        for texts, labels in text_blocks(self.stream, *self.keys):
            yield self.vectorizer.transform(texts), labels


def row_file(stream: BinaryIO, given: Conversion) -> RowFile:
    """Open a file of rows in the format of its content."""
    name = name_of(stream)
    start = stream.read(4)
    stream.seek(0)
    if start == b"PAR1":
        return ParquetRows(name, given)
    kind = kind_of(stream)
    readers: dict[str, Any] = {"svmlight": _SVMlightFile, "json": _JSONFile}
    if kind not in readers or (kind == "svmlight" and in_columns(stream)):
        content = FORMAT_NAMES[kind if kind not in readers else "conll"]
        raise ValueError(
            f"SOURCE must be SVMlight rows, JSON lines of texts or Parquet, but {name} looks like "
            f"{content}"
        )
    refuse_unused(readers[kind], name, given)
    return readers[kind](stream, given)


def convert_file(source: Path, folder: Path, given: Conversion, overwrite: bool) -> RowFolder:
    """Write the rows of a file to a folder, and return the folder."""
    if source.is_dir():
        raise ValueError(f"SOURCE must be a file, got the folder {source}")
    if is_standard(folder):
        raise ValueError(f"FOLDER must be a folder, got {folder} for standard output")
    if folder.exists() and not overwrite:
        raise ValueError(f"{folder} exists: pass --overwrite to replace a folder of rows")
    with opened_once(source) as stream:
        rows, name = row_file(stream, given), name_of(stream)
        notes = {"source": name, "structinv": __version__, **rows.notes}
        # The older folder stays until the new one is complete.
        older = RowFolder(folder).path if folder.exists() else None
        new = folder if older is None else folder.with_name(f"{folder.name}.new")
        writer = RowWriter(new, rows.n_features, np.dtype(given.dtype), notes)
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
                raise ValueError(f"{name} contains only labels: at least one row must have a feature")
    if 2 * n_empty > writer.n_rows:
        say(f"warning: {n_empty} of {writer.n_rows} rows have no entries{_why_empty(rows.notes)}")
    if older is not None:
        shutil.rmtree(older)
        new.rename(older)
    return RowFolder(folder)


def _n_empty(X: Matrix) -> int:
    """Return the number of rows with zeros only."""
    if not sp.issparse(X):
        return int((~X.any(axis=1)).sum())
    return X.shape[0] - len(np.unique(X.nonzero()[0]))


def _why_empty(notes: dict[str, Any]) -> str:
    """Return the reason for rows without entries, for a warning."""
    if "vectorizer" not in notes:
        return ""
    listed = f" and are in {notes['vocabulary']}" if "vocabulary" in notes else ""
    return (
        f". Words are counted if they have at least two letters or digits{listed}. To count shorter "
        "words, write rows of a custom vectorizer with structinv.rows.RowWriter"
    )
