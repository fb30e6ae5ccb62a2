"""Sparse rows in a folder on disk, read in blocks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from .base import RowSource
from .format import DATA, INDICES, INDPTR, LABELS, StoredArray, read_manifest
from .reading import check_cuts
from .sources import cut_by_entries


class RowFolder(RowSource):
    """Sparse rows in a folder written by `RowWriter` or ``structinv convert``.

    The folder contains the arrays of a CSR matrix, ``indptr.npy``, ``indices.npy`` and ``data.npy``, and
    optionally ``labels.npy``. ``numpy.load(..., mmap_mode="r")`` opens each of them. The file
    ``manifest.json`` has the shape, types and classes, and a checksum of each file.

    Blocks are read into new arrays. Indices and values of a row are checked when it is first read.
    Several threads may read at the same time. A pickle stores the path, not the rows.

    Parameters
    ----------
    path : str or path-like
        Folder of rows.

    Attributes
    ----------
    path : Path
        Folder of rows.
    shape : tuple of two ints
        Number of rows and number of features.
    dtype : dtype
        float32 or float64.
    sparse : bool
        True.
    n_entries : int
        Number of stored values of all rows.
    n_bytes : int
        Size of the arrays on disk.
    classes : list of str or None
        All labels, in the order of their codes; None if labels are numbers or absent.
    notes : dict
        Origin of the rows, as stored by the writer.

    Raises
    ------
    FileNotFoundError
        If the folder or one of its files is absent.
    NotADirectoryError
        If the path is that of a file.
    ValueError
        If the folder has no valid manifest.
    OSError
        If the size or type of a file does not match the manifest.

    See Also
    --------
    RowWriter : Writes such a folder.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from structinv.rows import RowFolder, RowWriter
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with RowWriter(f"{folder}/train") as writer:
    ...         writer.append(np.eye(3), ["ham", "spam", "ham"])
    ...     rows = RowFolder(f"{folder}/train")
    ...     rows.shape, rows.block(1, 3).toarray().tolist(), rows.labels.tolist()
    ((3, 3), [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], ['ham', 'spam', 'ham'])
    """

    sparse = True

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)
        # The working directory may change.
        self._place = Path(os.path.abspath(path))
        self._manifest = manifest = read_manifest(self._place)
        n_rows, self.n_entries = manifest["rows"], manifest["entries"]
        self.shape = (n_rows, manifest["features"])
        self.dtype = np.dtype(manifest["dtypes"][DATA])
        self.classes, self.notes = manifest["classes"], manifest["notes"]
        counts = {INDPTR: n_rows + 1, INDICES: self.n_entries, DATA: self.n_entries, LABELS: n_rows}
        self._files = {
            name: StoredArray(self._place / name, np.dtype(dtype), counts[name])
            for name, dtype in manifest["dtypes"].items()
        }
        self.n_bytes = sum(each.n_bytes for each in self._files.values())
        self._checked = np.zeros(n_rows, dtype=bool)

    def __repr__(self) -> str:
        n_rows, n_features = self.shape
        labels = "no labels" if LABELS not in self._files else f"{self._files[LABELS].dtype} labels"
        if self.classes is not None:
            labels = f"{len(self.classes)} classes"
        return (
            f"RowFolder({str(self.path)!r}: {n_rows} rows, {n_features} features, {self.n_entries} "
            f"entries of {self.dtype}, {labels}, {self.n_bytes / 1e6:.1f} MB)"
        )

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self._place, "manifest": self._manifest}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["path"])  # type: ignore[misc]
        if self._manifest != state["manifest"]:
            raise OSError(f"{self.path} was overwritten after this RowFolder was pickled")

    @property
    def labels(self) -> np.ndarray | None:
        """Label of each row, (n,), read from disk at each access; None without labels."""
        if LABELS not in self._files:
            return None
        values = self._files[LABELS].read(0, self.shape[0])
        if self.classes is None:
            return values
        wrong = (values < 0) | (values >= len(self.classes))
        if wrong.any():
            row = int(np.argmax(wrong))
            raise ValueError(
                f"{self._files[LABELS].path} must have codes from 0 to {len(self.classes) - 1}, got "
                f"{values[row]} in row {row}"
            )
        return np.array(self.classes)[values]

    def verify(self) -> None:
        """Compare all values with the checksums of the manifest.

        Raises
        ------
        OSError
            If a checksum is wrong. The message names the file.
        """
        for name, each in self._files.items():
            if each.checksum() != self._manifest["crc32"][name]:
                raise OSError(f"{each.path} is damaged: its checksum is wrong")

    def block(self, start: int, stop: int) -> sp.csr_matrix:
        return self.blocks([slice(start, stop)])

    def blocks(self, cuts: Sequence[slice]) -> sp.csr_matrix:
        ranges = [self._ends(cut.start, cut.stop) for cut in cuts]
        size, at = sum(int(ends[-1] - ends[0]) for ends in ranges), 0
        indices, data = (np.empty(size, self._files[name].dtype) for name in (INDICES, DATA))
        for ends in ranges:
            first, part = int(ends[0]), slice(at, at + int(ends[-1] - ends[0]))
            self._files[INDICES].read_into(indices[part], first)
            self._files[DATA].read_into(data[part], first)
            ends += at - first
            at = part.stop
        indptr = np.concatenate([[0], *(ends[1:] for ends in ranges)])
        # SciPy requires one dtype for both index arrays.
        if size > np.iinfo(np.int32).max:
            indices = indices.astype(np.int64, copy=False)
        rows = sp.csr_matrix((len(indptr) - 1, self.shape[1]), dtype=self.dtype)
        rows.data, rows.indices = data, indices
        rows.indptr = indptr.astype(indices.dtype, copy=False)
        rows.has_canonical_format = True
        if not all(self._checked[cut].all() for cut in cuts):
            # Compiled functions do not check indices.
            check_cuts(str(self.path), rows, cuts)
            for cut in cuts:
                self._checked[cut] = True
        return rows

    def _ends(self, start: int, stop: int) -> np.ndarray:
        """Return the start of the entries of each row, and the end of the last."""
        if not 0 <= start < stop <= self.shape[0]:
            raise ValueError(
                f"start and stop must satisfy 0 <= start < stop <= {self.shape[0]}, got {start} and "
                f"{stop}"
            )
        ends = self._files[INDPTR].read(start, stop + 1)
        if ends[0] < 0 or ends[-1] > self.n_entries or np.any(ends[1:] < ends[:-1]):
            raise ValueError(
                f"{self._files[INDPTR].path} must have increasing numbers from 0 to {self.n_entries}, "
                f"got others for rows {start} to {stop - 1}"
            )
        return ends

    def edges(self, most_values: int) -> np.ndarray:
        return cut_by_entries(self._ends(0, self.shape[0]), most_values)
