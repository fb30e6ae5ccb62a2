"""Writer of a folder of rows, in blocks."""

from __future__ import annotations

import json
import os
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_array

from ..utils.files import named_errors, write_atomically
from ..utils.matrices import check_indices, refuse_half_or_masked, refuse_masked
from ..utils.parameters import check_integer, columns_of
from ..utils.texts import shown
from .format import DATA, INDICES, INDPTR, LABELS, MANIFEST, GrowingArray, content_of
from .reading import check_finite


class RowWriter:
    """Writer of rows to a folder for `RowFolder`, in constant memory.

    The writer is a context manager. It writes to a hidden folder next to `path`. At the end the hidden
    folder is renamed to `path`, in one step. After an error or Ctrl-C it is deleted. Only a killed
    process leaves it behind.

    Parameters
    ----------
    path : str or path-like
        New folder. Its parent must exist.
    n_features : int or None, default=None
        Number of features. By default the largest number of features of a block. Pass it if features
        have numbers of at least 2^31, which take 64 bits.
    dtype : dtype, default=`numpy.float64`
        Type of the stored values: float32 or float64.
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

    Raises
    ------
    FileExistsError
        If `path` exists.
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
        notes: dict[str, Any] | None = None,
    ) -> None:
        check_integer("n_features", n_features, optional=True)
        self.dtype = np.dtype(dtype)
        if self.dtype not in (np.float32, np.float64):
            raise ValueError(f"dtype must be float32 or float64, got {dtype!r}")
        self.path = Path(path)
        self.n_rows, self.n_entries, self.n_features = 0, 0, n_features or 0
        self._notes = dict(notes or {})
        json.dumps(self._notes)
        self._given = n_features
        self._check_path()
        self._files: dict[str, GrowingArray] = {}
        self._hidden: TemporaryDirectory[str] | None = None
        self._label_kind: str | None = None
        self._codes: dict[str, int] = {}
        self._broken = False
        self._columns: list[Any] | None = None

    def __enter__(self) -> Self:
        if self._hidden is not None:
            raise RuntimeError("a RowWriter writes one folder: create another RowWriter")
        with named_errors(self.path):
            self._hidden = TemporaryDirectory(prefix=f".{self.path.name}.", dir=self.path.parent)
            try:
                # The hidden folder is only for its owner; the new folder is for all.
                self._folder.mkdir()
                self._add(INDPTR, np.int64, np.zeros(1))
                self._add(INDICES, np.int32 if self.n_features <= SHORT else np.int64)
                self._add(DATA, self.dtype)
            except BaseException:
                self._discard()
                raise
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        try:
            if kind is None:
                with named_errors(self.path):
                    self._finish()
        finally:
            self._discard()

    def append(self, X: Any, y: Any = None) -> None:
        """Append rows to the folder.

        All rows are validated before the first is written. Stored zeros are dropped, and duplicates are
        summed.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
            Finite values. Dense rows must have the number of features of the earlier rows. Sparse rows,
            such as those of SVMlight files, may lack features at the end.
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
        rows = checked_rows(X, self.dtype, self._given, self.n_rows, self.n_features)
        n_new = rows.shape[0]
        labels = self._read_labels(y, n_new)
        if n_new == 0:
            return
        self._broken = True
        with named_errors(self.path):
            self._write(rows, labels)
        self._broken = False
        if self._given is None:
            self.n_features = max(self.n_features, rows.shape[1])
        self.n_rows, self.n_entries = self.n_rows + n_new, self.n_entries + rows.nnz
        self._columns = self._columns or columns

    def _check_usable(self) -> None:
        if not self._files:
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
        labels, self._label_kind = checked_labels(y, n_rows, self._label_kind, self.n_rows)
        return labels

    def _write(self, rows: sp.csr_matrix, labels: np.ndarray | None) -> None:
        self._files[INDPTR].add(rows.indptr[1:].astype(np.int64) + self.n_entries)
        self._files[INDICES].add(rows.indices)
        self._files[DATA].add(rows.data)
        if labels is None:
            return
        if LABELS not in self._files:
            self._add(LABELS, np.int32 if self._label_kind == "strings" else labels.dtype)
        if self._label_kind == "strings":
            labels = np.array([self._codes.setdefault(each, len(self._codes)) for each in labels])
        self._files[LABELS].add(labels)

    @property
    def _folder(self) -> Path:
        assert self._hidden is not None
        return Path(self._hidden.name) / self.path.name

    def _add(self, name: str, dtype: Any, values: Any = ()) -> None:
        """Create a file of the folder, with its first values."""
        self._files[name] = GrowingArray(self._folder / name, np.dtype(dtype))
        self._files[name].add(values)

    def _finish(self) -> None:
        self._check_usable()
        if not self.n_rows:
            raise ValueError(f"{self.path} was not written: no rows were appended")
        if not self.n_features:
            raise ValueError(f"{self.path} was not written: no row has a feature")
        for each in self._files.values():
            each.finish()
        manifest = {
            "rows": self.n_rows,
            "features": self.n_features,
            "entries": self.n_entries,
            "classes": list(self._codes) or None,
            "notes": self._notes,
            "dtypes": {name: each.dtype.name for name, each in self._files.items()},
            "crc32": {name: each.checksum for name, each in self._files.items()},
        }
        write_atomically(self._folder / MANIFEST, content_of(manifest))
        # Another process may have created the folder in the meantime.
        self._check_path()
        os.replace(self._folder, self.path)

    def _discard(self) -> None:
        for each in self._files.values():
            each.close()
        self._files = {}
        assert self._hidden is not None
        self._hidden.cleanup()

    def _check_path(self) -> None:
        """Raise an error unless a folder can be created here."""
        if not self.path.parent.is_dir():
            raise FileNotFoundError(
                f"{self.path} cannot be written: the folder {self.path.parent} does not exist"
            )
        if self.path.exists():
            raise FileExistsError(f"{self.path} exists: write to a new folder, or delete the old one")


# Types of labels, and their dtype as an array.
_KINDS: dict[str, tuple[tuple[type, ...], type]] = {
    "booleans": ((bool, np.bool_), np.bool_),
    "integers": ((int, np.integer), np.int64),
    "floats": ((float, np.floating), np.float64),
    "strings": ((str,), object),
}
# Number of features whose indices are 32-bit integers.
SHORT = 2**31


def checked_rows(
    X: Any, dtype: np.dtype, n_features: int | None, before: int, width: int
) -> sp.csr_matrix:
    """Return a validated copy of the rows as a canonical CSR matrix.

    There are `before` earlier rows, with `width` features, or 0 if the number is unknown.

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
    if width and not sp.issparse(X) and X.shape[1] != width:
        raise ValueError(f"X must have {width} features in dense rows, got {X.shape[1]}")
    rows = sp.csr_matrix(X)
    most = SHORT if n_features is None else n_features
    if rows.shape[1] > most:
        rows = sp.csr_matrix((rows.data, rows.indices, rows.indptr), (rows.shape[0], most))
        check_indices("X", rows, before)
    with np.errstate(over="ignore"):
        # A copy, because it is changed in place.
        rows = rows.astype(dtype, copy=True)
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
    labels = np.asarray(y) if not isinstance(y, (list, tuple)) else np.array(y, dtype=object)
    if labels.shape != (n_rows,):
        raise ValueError(f"y must have shape ({n_rows},), one label per row, got {labels.shape}")
    # All labels of an array have the kind of the first.
    for row, label in enumerate(labels if labels.dtype == object else labels[:1].tolist(), before):
        its_kind = next((name for name, (types, _) in _KINDS.items() if isinstance(label, types)), None)
        if its_kind is None:
            raise _refusal("strings, integers, booleans or floats", label, row)
        kind = kind or its_kind
        if its_kind != kind:
            raise _refusal("of one kind", label, row, f" after {kind}")
    assert kind is not None
    wrong, rule = np.zeros(0, dtype=bool), ""
    if kind == "integers":
        wrong, rule = (labels < -(2**63)) | (labels >= 2**63), "64-bit integers"
    elif kind == "floats":
        wrong, rule = ~np.isfinite(labels.astype(np.float64)), "finite"
    if wrong.any():
        row = int(np.argmax(wrong))
        raise _refusal(rule, labels[row : row + 1].tolist()[0], before + row)
    return labels.astype(_KINDS[kind][1]), kind


def _refusal(rule: str, label: Any, row: int, more: str = "") -> ValueError:
    return ValueError(f"labels must be {rule}, got {shown(repr(label))} in row {row}{more}")
