"""Writer of a folder of rows, in blocks."""

from __future__ import annotations

import json
import os
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from ..utils.files import named_errors, write_atomically
from ..utils.labels import columns_of
from ..utils.parameters import check_boolean, check_integer
from .appended import checked_labels, checked_rows
from .growing_array import GrowingArray
from .hidden_folder import HiddenFolder
from .manifest import CHUNK_VALUES, DATA, INDICES, INDPTR, LABELS, MANIFEST, Manifest

_SHORT = np.dtype(np.int32)
_LABEL_TYPES = {"b": np.bool_, "i": np.int64, "f": np.float64, "U": np.int32}


class RowWriter:
    """Writer of rows to a folder for `RowFolder`, in constant memory.

    The writer is a context manager. It writes to a hidden folder next to `path`. At the end the hidden
    folder is renamed to `path`, in one step. After an error or Ctrl-C the hidden folder is deleted, and
    an older folder stays unchanged. If a process was killed, the next writer to the same `path` deletes
    its files.

    Parameters
    ----------
    path : str or path-like
        Folder to write. Its parent must exist.
    n_features : int or None, default=None
        Number of features. By default the largest number of features of a block.
    dtype : dtype, default=`numpy.float64`
        Type of the stored values: float32 or float64.
    overwrite : bool, default=False
        If True, an older folder of rows is replaced. Other folders and files are never replaced.
    notes : dict or None, default=None
        Origin of the rows, stored in the manifest. It must be serializable as JSON.

    Attributes
    ----------
    n_rows : int
        Number of rows so far.
    n_entries : int
        Number of stored values so far.
    n_features : int
        Number of features so far.
    notes : dict
        Origin of the rows. Entries can be added until the end.

    Raises
    ------
    FileExistsError
        If `path` exists and cannot be replaced.
    FileNotFoundError
        If the parent folder does not exist.
    TypeError
        If `notes` is not serializable as JSON.

    See Also
    --------
    RowFolder : Reads the folder.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from structinv.rows import RowFolder, RowWriter
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with RowWriter(f"{folder}/train", dtype=np.float32) as writer:
    ...         for start in range(0, 6, 2):
    ...             writer.append(np.eye(6)[start : start + 2], [0, 1])
    ...     rows = RowFolder(f"{folder}/train")
    ...     rows.shape, rows.dtype.name, rows.labels.tolist()
    ((6, 6), 'float32', [0, 1, 0, 1, 0, 1])
    """

    def __init__(
        self,
        path: str | PathLike[str],
        n_features: int | None = None,
        dtype: Any = np.float64,
        overwrite: bool = False,
        notes: dict[str, Any] | None = None,
    ) -> None:
        check_integer("n_features", n_features, optional=True)
        check_boolean("overwrite", overwrite)
        self.dtype = np.dtype(dtype)
        if self.dtype not in (np.float32, np.float64):
            raise ValueError(f"dtype must be float32 or float64, got {dtype!r}")
        self.path = Path(path)
        self.n_rows, self.n_entries, self.n_features = 0, 0, n_features or 0
        self.notes = dict(notes or {})
        json.dumps(self.notes)
        self._given = n_features
        # A symbolic link stays, and its target is replaced.
        self._target, self._overwrite = Path(os.path.realpath(self.path)), overwrite
        _check_target(self.path, self._target, overwrite)
        self._files: dict[str, GrowingArray] = {}
        self._folder: HiddenFolder | None = None
        self._first_rows, self._first_entries = [0], [0]
        self._largest = -1  # index of a feature
        self._label_kind: str | None = None
        self._codes: dict[str, int] = {}
        self._broken = False
        self._columns: list[Any] | None = None

    def __enter__(self) -> Self:
        if self._folder is not None:
            raise RuntimeError("a RowWriter writes one folder: create another RowWriter")
        with named_errors(self.path):
            self._folder = HiddenFolder(self._target)
        try:
            self._files = {INDPTR: self._new(INDPTR, np.int64), INDICES: self._new(INDICES, _SHORT)}
            self._files[DATA] = self._new(DATA, self.dtype)
            self._files[INDPTR].add(np.zeros(1, dtype=np.int64))
        except BaseException:
            self._discard()
            raise
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        try:
            if kind is None:
                with named_errors(self.path):
                    self._finish()
        except BaseException:
            kind = True
            raise
        finally:
            if kind is not None:
                self._discard()

    def append(self, X: Any, y: Any = None) -> None:
        """Append rows to the folder.

        All rows are validated before the first is written. Stored zeros are dropped, and duplicates are
        summed.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            Finite values.
        y : array-like of shape (n,) or None, default=None
            Labels: strings, integers, booleans or floats, of one kind for all rows. Either all rows or
            no rows have labels.

        Raises
        ------
        ValueError
            If rows or labels are not valid. The message names the row.
        OSError
            If the disk is full or not writable. The writer cannot be used afterwards.
        """
        self._check_usable()
        columns = columns_of(X)
        if None not in (columns, self._columns) and columns != self._columns:
            raise ValueError(
                f"X must have the columns of the first rows in the same order, {self._columns}, got "
                f"{columns}"
            )
        rows = checked_rows(X, self.dtype, self._given, self.n_rows)
        labels = self._read_labels(y, rows.shape[0])
        if rows.shape[0] == 0:
            return
        self._broken = True
        if self._given is None:
            self.n_features = max(self.n_features, rows.shape[1])
        self._largest = max(self._largest, int(rows.indices.max(initial=-1)))
        with named_errors(self.path):
            self._shift(0)
            self._write(rows, labels)
        self._broken = False
        self._columns = self._columns or columns

    def shift_features(self, by: int) -> None:
        """Add `by` to the feature indices of all rows so far.

        Use it if a zero-based index appears after rows that were read as one-based. Later rows are not
        affected.

        Parameters
        ----------
        by : int
            Increment (>= 1).

        Raises
        ------
        ValueError
            If an index would exceed `n_features`.
        """
        self._check_usable()
        check_integer("by", by)
        if self._given is not None and self._largest + by >= self._given:
            raise ValueError(
                f"features must be from 0 to {self._given - 1} for n_features={self._given}, got "
                f"{self._largest + by} after feature numbers are increased by {by}"
            )
        self._broken = True
        with named_errors(self.path):
            self._shift(by)
        self._broken = False

    def _check_usable(self) -> None:
        if self._folder is None or not self._files:
            raise RuntimeError("a RowWriter must be used inside a with statement")
        if self._broken:
            raise RuntimeError(f"{self.path} cannot be written to, because an earlier write failed")

    def _read_labels(self, y: Any, n_rows: int) -> np.ndarray | None:
        if n_rows == 0:
            return None
        if self.n_rows and (y is None) != (LABELS not in self._files):
            state = "have none" if y is not None else "have labels"
            raise ValueError(
                f"either all rows or no rows must have labels: the first {self.n_rows} {state}"
            )
        if y is None:
            return None
        return checked_labels(y, n_rows, self._label_kind, self.n_rows)

    def _write(self, rows: sp.csr_matrix, labels: np.ndarray | None) -> None:
        if labels is not None:
            labels = self._stored_labels(labels)
        n_new = rows.shape[0]
        ends = rows.indptr.astype(np.int64) + self.n_entries
        # Number of entries plus rows up to each row of the folder.
        values = ends + np.arange(self.n_rows, self.n_rows + n_new + 1)
        start = 0
        while start < n_new:
            begun = self._first_rows[-1] + self._first_entries[-1]
            stop = int(np.searchsorted(values, begun + CHUNK_VALUES, side="right")) - 1
            is_empty = self.n_rows == self._first_rows[-1]
            stop = max(stop, start + is_empty)
            self._write_piece(rows, ends, labels, start, stop)
            start = stop
            if start < n_new:
                self._end_chunk()

    def _write_piece(
        self, rows: sp.csr_matrix, ends: np.ndarray, labels: np.ndarray | None, start: int, stop: int
    ) -> None:
        entries = slice(rows.indptr[start], rows.indptr[stop])
        self._files[INDPTR].add(ends[start + 1 : stop + 1])
        self._files[INDICES].add(rows.indices[entries])
        self._files[DATA].add(rows.data[entries])
        if labels is not None:
            self._files[LABELS].add(labels[start:stop])
        self.n_rows += stop - start
        self.n_entries = int(ends[stop])

    def _end_chunk(self) -> None:
        self._first_rows.append(self.n_rows)
        self._first_entries.append(self.n_entries)
        for name, each in self._files.items():
            each.end_chunk(np.array([self.n_entries], dtype=np.int64) if name == INDPTR else None)

    def _stored_labels(self, labels: np.ndarray) -> np.ndarray:
        """Return labels in the stored type; strings become codes.

        The first call creates the file.
        """
        if self._label_kind is None:
            self._label_kind = {"b": "b", "i": "i", "f": "f", "O": "U"}[labels.dtype.kind]
            self._files[LABELS] = self._new(LABELS, _LABEL_TYPES[self._label_kind])
        if self._label_kind != "U":
            return labels
        return np.array(
            [self._codes.setdefault(each, len(self._codes)) for each in labels], dtype=np.int32
        )

    def _shift(self, by: int) -> None:
        """Add a number to all indices so far, as 64-bit integers if necessary."""
        old, self._largest = self._files[INDICES], self._largest + by
        dtype = old.dtype if self._largest <= np.iinfo(np.int32).max else np.dtype(np.int64)
        if by or dtype != old.dtype:
            self._files[INDICES] = old.replaced(lambda some: some.astype(dtype) + dtype.type(by), dtype)
        if self._given is None and self.n_rows:
            self.n_features += by

    def _new(self, name: str, dtype: Any) -> GrowingArray:
        assert self._folder is not None
        return GrowingArray(self._folder.path / name, np.dtype(dtype))

    def _finish(self) -> None:
        self._check_usable()
        assert self._folder is not None
        if not self.n_rows:
            raise ValueError(f"{self.path} was not written: no rows were appended")
        if not self.n_features:
            raise ValueError(f"{self.path} was not written: no row has a feature")
        self._end_chunk()
        for each in self._files.values():
            each.finish()
        manifest = Manifest(
            n_rows=self.n_rows,
            n_features=self.n_features,
            n_entries=self.n_entries,
            dtypes={name: each.dtype for name, each in self._files.items()},
            first_rows=np.array(self._first_rows),
            first_entries=np.array(self._first_entries),
            checksums={name: each.checksums for name, each in self._files.items()},
            classes=list(self._codes) if self._label_kind == "U" else None,
            notes=self.notes,
        )
        write_atomically(self._folder.path / MANIFEST, manifest.content())
        # Another process may have created the folder in the meantime.
        _check_target(self.path, self._target, self._overwrite)
        self._folder.publish()
        self._files = {}

    def _discard(self) -> None:
        for each in self._files.values():
            each.close()
        self._files = {}
        if self._folder is not None:
            self._folder.discard()


def _check_target(path: Path, target: Path, overwrite: bool) -> None:
    """Raise an error unless a folder can be created here, or an older one replaced."""
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{path} cannot be written: the folder {target.parent} does not exist")
    if not target.exists():
        return
    if not overwrite:
        raise FileExistsError(f"{path} exists: pass overwrite=True to replace a folder of rows")
    written = {MANIFEST, INDPTR, INDICES, DATA, LABELS}
    if not target.is_dir() or {each.name for each in target.iterdir()} - written:
        raise FileExistsError(f"{path} exists and cannot be replaced: it is not a folder of rows")
