"""Sparse rows in a folder on disk, read in blocks."""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..utils.parameters import check_integer
from .base import RowSource
from .checked_blocks import check_cuts
from .manifest import DATA, INDICES, INDPTR, LABELS, read_manifest
from .stored_array import HEADER_BYTES, StoredArray


class RowFolder(RowSource):
    """Sparse rows in a folder written by `RowWriter` or ``structinv convert``.

    The folder contains the arrays of a CSR matrix, ``indptr.npy``, ``indices.npy`` and ``data.npy``, and
    optionally ``labels.npy``. ``numpy.load(..., mmap_mode="r")`` opens each of them. The file
    ``manifest.json`` has the shape, types, classes and checksums. Rows form chunks of about 131,000
    stored values. Each chunk of a file has a checksum.

    Blocks are read into new arrays. The checksums, indices and values of a chunk are verified when its
    rows are first read. Several threads may read at the same time. A pickle stores the path, not the
    rows.

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
        # A pickle may be opened in another working directory.
        self._place = os.path.abspath(path)
        manifest, content = read_manifest(self.path)
        self._manifest, self._checksum = manifest, zlib.crc32(content)
        self.shape = (manifest.n_rows, manifest.n_features)
        self.dtype, self.n_entries = manifest.dtypes[DATA], manifest.n_entries
        self.classes, self.notes = manifest.classes, manifest.notes
        self._files = {name: self._opened(name) for name in manifest.dtypes}
        self.n_bytes = sum(
            HEADER_BYTES + each.count * each.dtype.itemsize for each in self._files.values()
        )
        self._verified = np.zeros(len(manifest.first_rows) - 1, dtype=bool)

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
        return {"path": self._place, "checksum": self._checksum}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["path"])  # type: ignore[misc]
        if self._checksum != state["checksum"]:
            raise OSError(f"{self.path} was overwritten after this RowFolder was pickled")

    @property
    def labels(self) -> np.ndarray | None:
        """Label of each row, (n,), read from disk at each access; None without labels."""
        if LABELS not in self._files:
            return None
        n_rows = self.shape[0]
        values = self._files[LABELS].read(0, n_rows, _named(0, n_rows))
        for chunk in range(len(self._verified)):
            first, last = self._rows_of(chunk)
            self._check(LABELS, chunk, values[first:last])
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

    def block(self, start: int, stop: int) -> sp.csr_matrix:
        return self.blocks([slice(start, stop)])

    def blocks(self, cuts: Sequence[slice]) -> sp.csr_matrix:
        ranges = [self._ends(cut.start, cut.stop) for cut in cuts]
        sizes = [int(ends[-1] - ends[0]) for _, ends in ranges]
        places = np.concatenate([[0], np.cumsum(sizes)])
        arrays = {name: np.empty(places[-1], self._manifest.dtypes[name]) for name in (INDICES, DATA)}
        for cut, (whole, ends), place, size in zip(cuts, ranges, places[:-1], sizes, strict=True):
            first = int(ends[0])
            for name, array in arrays.items():
                part = array[place : place + size]
                self._files[name].read_into(part, first, _named(cut.start, cut.stop))
                self._check_all(name, whole, part, self._manifest.first_entries - first, 0)
            ends += place - first
        rows = sp.csr_matrix((sum(len(ends) - 1 for _, ends in ranges), self.shape[1]), dtype=self.dtype)
        rows.data, rows.indices = arrays[DATA], arrays[INDICES]
        # SciPy requires one dtype for both index arrays.
        if len(rows.data) > np.iinfo(np.int32).max:
            rows.indices = rows.indices.astype(np.int64, copy=False)
        indptr = np.concatenate([[0], *(ends[1:] for _, ends in ranges)])
        rows.indptr = indptr.astype(rows.indices.dtype, copy=False)
        rows.has_canonical_format = True
        unverified = [chunk for whole, _ in ranges for chunk in whole]
        if unverified:
            # Another writer may have stored wrong numbers with correct checksums.
            check_cuts(str(self.path), rows, cuts)
            self._verified[unverified] = True
        return rows

    def _ends(self, start: int, stop: int) -> tuple[list[int], np.ndarray]:
        """Return the chunks to verify, and the start and end of each row's entries."""
        if not 0 <= start < stop <= self.shape[0]:
            raise ValueError(
                f"start and stop must satisfy 0 <= start < stop <= {self.shape[0]}, got {start} and "
                f"{stop}"
            )
        whole = self._chunks_to_verify(start, stop)
        ends = self._files[INDPTR].read(start, stop + 1, _named(start, stop))
        self._check_all(INDPTR, whole, ends, self._manifest.first_rows - start, 1)
        if ends[0] < 0 or ends[-1] > self.n_entries or np.any(ends[1:] < ends[:-1]):
            raise ValueError(
                f"{self._files[INDPTR].path} must have increasing numbers from 0 to {self.n_entries}, "
                f"got others for {_named(start, stop)}"
            )
        return whole, ends

    def edges(self, most_values: int) -> np.ndarray:
        """Return the first row of each block, and the number of rows.

        Blocks consist of whole chunks, unless a chunk exceeds the limit.

        Parameters
        ----------
        most_values : int
            Maximum number of stored values plus rows per block (>= 1). A single row may exceed it.

        Returns
        -------
        ndarray of int64 of shape (n_blocks + 1,)
            Increasing row numbers from 0 to the number of rows.
        """
        check_integer("most_values", most_values)
        first_rows = self._manifest.first_rows
        values = self._manifest.first_entries + first_rows
        edges, chunk = [0], 0
        while chunk < len(values) - 1:
            after = int(np.searchsorted(values, values[chunk] + most_values, side="right")) - 1
            if after > chunk:
                edges.append(int(first_rows[after]))
            else:
                edges += self._split(chunk, most_values)
                after = chunk + 1
            chunk = after
        return np.array(edges, dtype=np.int64)

    def _split(self, chunk: int, most_values: int) -> list[int]:
        """Return the ends of the parts of a chunk that exceeds the size of a block."""
        first, last = self._rows_of(chunk)
        ends = self._files[INDPTR].read(first, last + 1, _named(first, last))
        self._check(INDPTR, chunk, ends)
        values = ends + np.arange(len(ends))
        split, row = [], 0
        while row < last - first:
            row = max(row + 1, int(np.searchsorted(values, values[row] + most_values, side="right")) - 1)
            split.append(first + row)
        return split

    def _opened(self, name: str) -> StoredArray:
        """Open a file of the folder; OSError names the missing rows of a truncated file."""
        stored = StoredArray(self.path / name, self._manifest.dtypes[name], self._manifest.counts[name])
        if stored.missing:
            starts = (
                self._manifest.first_entries if name in (INDICES, DATA) else self._manifest.first_rows
            )
            chunk = int(np.searchsorted(starts, stored.count - stored.missing, side="right")) - 1
            first, _ = self._rows_of(min(chunk, len(starts) - 2))
            raise OSError(
                f"{_named(first, self.shape[0])} of {stored.path} cannot be read: the file is "
                f"truncated and has {stored.count - stored.missing} of {stored.count} values"
            )
        return stored

    def _rows_of(self, chunk: int) -> tuple[int, int]:
        first, last = self._manifest.first_rows[chunk : chunk + 2]
        return int(first), int(last)

    def _chunks_to_verify(self, start: int, stop: int) -> list[int]:
        """Return the unverified chunks inside a block; other chunks of the block are verified here."""
        first = int(np.searchsorted(self._manifest.first_rows, start, side="right")) - 1
        last = int(np.searchsorted(self._manifest.first_rows, stop, side="left"))
        unverified = []
        for chunk in range(first, last):
            if self._verified[chunk]:
                continue
            begin, end = self._rows_of(chunk)
            if start <= begin and end <= stop:
                unverified.append(chunk)
            else:
                self.block(begin, end)
        return unverified

    def _check_all(
        self, name: str, chunks: list[int], values: np.ndarray, starts: np.ndarray, more: int
    ) -> None:
        for chunk in chunks:
            self._check(name, chunk, values[starts[chunk] : starts[chunk + 1] + more])

    def _check(self, name: str, chunk: int, values: np.ndarray) -> None:
        """Raise OSError unless the checksum of a chunk is correct."""
        if zlib.crc32(values.data) != self._manifest.checksums[name][chunk]:
            raise OSError(
                f"{_named(*self._rows_of(chunk))} of {self._files[name].path} cannot be used: the "
                "checksum is wrong, so the file is damaged"
            )


def _named(start: int, stop: int) -> str:
    return f"row {start}" if stop == start + 1 else f"rows {start} to {stop - 1}"
