"""Folders of rows: written rows are read again, in blocks."""

import copy
import os
import pickle
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from structinv.rows import RowFolder, RowSource, RowWriter
from structinv.rows.sources import MatrixRows

from .cases import same, some_rows, write


@pytest.fixture
def folder(tmp_path):
    write(tmp_path / "rows", some_rows(), np.arange(50))
    return tmp_path / "rows"


def blocks(folder, most_values):
    edges = folder.edges(most_values)
    return [folder.block(*pair) for pair in zip(edges[:-1], edges[1:], strict=True)]


class TestRoundTrip:
    @pytest.mark.parametrize(
        ("size", "dtype", "form"),
        [
            (1, np.float32, np.asarray),
            (9, np.float64, np.asarray),
            (9, np.float32, sp.csr_matrix),
            (50, np.float64, sp.csr_array),
            (1, np.float64, sp.coo_matrix),
        ],
    )
    def test_rows_are_read_as_they_were_written(self, tmp_path, size, dtype, form):
        X = some_rows().astype(dtype)
        with RowWriter(tmp_path / "rows", dtype=dtype) as into:
            for start in range(0, 50, size):
                into.append(form(X[start : start + size].toarray()))
        folder = RowFolder(tmp_path / "rows")
        assert isinstance(folder, RowSource)
        assert folder.shape == X.shape
        assert folder.dtype == dtype
        assert folder.sparse
        assert folder.n_entries == X.nnz
        assert folder.labels is None
        block = folder.block(0, 50)
        assert block.dtype == dtype
        assert block.indices.dtype == block.indptr.dtype == np.int32
        assert same(block, X)


class TestEdges:
    @pytest.mark.parametrize("most_values", [1, 20, 41, 10**9])
    def test_blocks_are_those_of_the_matrix(self, tmp_path, most_values):
        X = some_rows()
        folder = write(tmp_path / "rows", X)
        edges = folder.edges(most_values)
        np.testing.assert_array_equal(edges, MatrixRows(X).edges(most_values))
        assert same(sp.vstack(blocks(folder, most_values), format="csr"), X)

    @pytest.mark.parametrize("pair", [(-1, 2), (1, 1), (2, 1), (0, 4), (3, 4)])
    def test_rows_out_of_range_are_refused(self, tmp_path, pair):
        folder = write(tmp_path / "rows", np.eye(3))
        with pytest.raises(ValueError, match="0 <= start < stop <= 3, got"):
            folder.block(*pair)


def test_rows_left_out_of_a_block_are_checked_when_they_are_read(folder):
    first = int(np.load(folder / "indptr.npy")[10])
    indices = np.load(folder / "indices.npy", mmap_mode="r+")
    indices[first] = -1
    indices.flush()
    rows = RowFolder(folder)
    rows.blocks([slice(0, 10), slice(11, 20)])
    # Rows that were checked do not vouch for those beside them.
    alone, before, after = slice(10, 11), slice(0, 5), slice(12, 20)
    for cuts in ([alone], [before, alone], [alone, after], [slice(5, 15)]):
        with pytest.raises(ValueError, match="row 10"):
            rows.blocks(cuts)


class TestHandles:
    def test_pickles_open_the_folder_again(self, folder, monkeypatch):
        monkeypatch.chdir(folder.parent)
        rows = RowFolder("rows")
        assert rows.path == Path("rows")
        content = pickle.dumps(rows)
        assert len(content) < 1000
        monkeypatch.chdir(folder)
        for other in (pickle.loads(content), copy.deepcopy(rows)):
            assert same(other.block(0, 50), some_rows())
            assert other.path == folder

    def test_a_pickle_of_a_folder_that_was_replaced(self, folder):
        content = pickle.dumps(RowFolder(folder))
        shutil.rmtree(folder)
        write(folder, np.eye(3))
        with pytest.raises(OSError, match="was overwritten after this RowFolder was pickled"):
            pickle.loads(content)

    def test_threads_read_at_once(self, folder):
        X, rows = some_rows(), RowFolder(folder)
        pairs = [(start, min(50, start + 1 + start % 13)) for start in range(50)] * 20
        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(lambda pair: same(rows.block(*pair), X[slice(*pair)]), pairs))

    def test_files_are_closed(self, folder):
        before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
        for _ in range(20):
            RowFolder(folder).block(0, 50)
        after = len(os.listdir("/proc/self/fd")) if before else 0
        assert after == before

    def test_repr_has_size_and_labels(self, folder):
        entries = some_rows().nnz
        expected = f"50 rows, 30 features, {entries} entries of float64, int64 labels, 0.0 MB)"
        assert repr(RowFolder(folder)) == f"RowFolder({str(folder)!r}: {expected}"
