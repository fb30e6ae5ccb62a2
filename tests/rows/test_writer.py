"""Folders of rows are written whole, or not at all."""

import errno
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from structinv.rows import RowFolder, RowWriter
from structinv.rows import format as files

from ..platforms import posix_only
from .cases import same, some_rows, write

ROOT = Path(__file__).resolve().parents[2]


class TestRows:
    def test_numpy_opens_every_file(self, tmp_path):
        X = some_rows()
        write(tmp_path / "rows", X, np.arange(50))
        names = ("indptr", "indices", "data", "labels")
        found = [np.load(tmp_path / "rows" / f"{name}.npy", mmap_mode="r") for name in names]
        for stored, given in zip(found, (X.indptr, X.indices, X.data, range(50)), strict=True):
            np.testing.assert_array_equal(stored, given)
        assert [each.dtype for each in found] == [np.int64, np.int32, np.float64, np.int64]

    def test_rows_may_all_be_empty(self, tmp_path):
        folder = write(tmp_path / "rows", sp.csr_matrix((100, 5)), n_features=5)
        assert folder.shape == (100, 5)
        assert same(folder.block(30, 100), sp.csr_matrix((70, 5)))

    def test_large_indices_have_64_bits(self, tmp_path):
        wide = sp.csr_matrix((np.ones(2), np.array([0, 2**33]), np.array([0, 2])), (1, 2**33 + 1))
        X = some_rows()
        with RowWriter(tmp_path / "rows", n_features=2**33 + 1) as into:
            into.append(X)
            into.append(wide)
        folder = RowFolder(tmp_path / "rows")
        narrow = folder.block(0, 50)
        assert narrow.indices.dtype == np.int64
        assert same(narrow[:, :30], X)
        assert folder.block(50, 51).indices.tolist() == [0, 2**33]
        with pytest.raises(ValueError, match="must have indices from 0 to 2147483647, got 8589934592"):
            write(tmp_path / "more", wide)

    def test_the_widest_sparse_block_gives_the_number_of_features(self, tmp_path):
        with RowWriter(tmp_path / "rows") as into:
            for width in (2, 4, 3):
                into.append(sp.csr_matrix(np.ones((1, width))))
        assert RowFolder(tmp_path / "rows").block(0, 3).sum(axis=1).ravel().tolist() == [[2.0, 4.0, 3.0]]

    @pytest.mark.parametrize(
        ("settings", "first", "width"),
        [({}, np.ones((1, 3)), 2), ({}, np.ones((1, 3)), 4), ({"n_features": 3}, None, 2)],
    )
    def test_dense_blocks_have_one_width(self, tmp_path, settings, first, width):
        with RowWriter(tmp_path / "rows", **settings) as into:
            if first is not None:
                into.append(first)
            with pytest.raises(ValueError, match=f"X must have 3 features in dense rows, got {width}"):
                into.append(np.ones((1, width)))
            into.append(np.ones((1, 3)))

    def test_zeros_are_dropped_and_duplicates_summed_in_a_copy(self, tmp_path):
        parts = np.array([1.0, 2.0, 0.0, 3.0]), np.array([3, 1, 2, 3]), np.array([0, 4])
        X = sp.csr_matrix(parts, (1, 4))
        folder = write(tmp_path / "rows", X)
        assert folder.block(0, 1).indices.tolist() == [1, 3]
        assert folder.block(0, 1).data.tolist() == [2.0, 4.0]
        assert X.indices.tolist() == [3, 1, 2, 3]

    @posix_only
    def test_others_may_read_the_folder(self, tmp_path):
        (tmp_path / "other").mkdir()
        write(tmp_path / "rows", np.eye(3))
        assert (tmp_path / "rows").stat().st_mode == (tmp_path / "other").stat().st_mode

    def test_the_manifest_has_notes(self, tmp_path):
        folder = write(tmp_path / "rows", np.eye(3), notes={"source": "train.svm"})
        assert folder.notes == {"source": "train.svm"}
        with pytest.raises(TypeError, match="not JSON serializable"):
            RowWriter(tmp_path / "more", notes={"source": RowWriter})


class TestLabels:
    @pytest.mark.parametrize(
        "labels",
        [
            np.array(["spam", "ham", "a longer one"] * 16 + ["spam", "ham"]),
            np.arange(50) - 7,
            np.arange(50, dtype=np.uint8),
            np.arange(50) % 2 == 0,
            np.linspace(-1, 1, 50),
            list(map(str, range(50))),
            np.array(["a", "b"] * 25, dtype=object),
            np.array([True, False] * 25, dtype=object),
        ],
        ids=["strings", "ints", "bytes", "bools", "floats", "list", "objects", "bool objects"],
    )
    def test_labels_come_back(self, tmp_path, labels):
        for size in (1, 9, 50):
            folder = write(tmp_path / f"rows{size}", some_rows(), labels, size)
            assert folder.labels.shape == (50,)
            assert folder.labels.tolist() == list(labels)

    def test_strings_are_stored_as_codes(self, tmp_path):
        folder = write(tmp_path / "rows", np.eye(3), ["spam", "ham", "spam"])
        assert folder.classes == ["spam", "ham"]
        assert np.load(tmp_path / "rows" / "labels.npy").tolist() == [0, 1, 0]
        assert write(tmp_path / "numbers", np.eye(3), [1, 0, 1]).classes is None

    def test_pandas_columns(self, tmp_path):
        pandas = pytest.importorskip("pandas")
        labels = pandas.Series(["spam", "ham", "spam"], dtype="category")
        frame = pandas.DataFrame({"a": [1.0, 0.0, 2.0], "b": [0, 1, 0]})
        folder = write(tmp_path / "rows", frame, labels)
        assert folder.labels.tolist() == ["spam", "ham", "spam"]
        assert same(folder.block(0, 3), frame.to_numpy())

    @pytest.mark.parametrize(
        ("first", "second", "message"),
        [
            (["a"], [1], "must be of one kind, got 1 in row 1 after strings"),
            ([1], [1.5], "must be of one kind, got 1.5 in row 1 after integers"),
            ([True], [1], "must be of one kind, got 1 in row 1 after booleans"),
            ([1], np.array([True]), "must be of one kind, got True in row 1 after integers"),
            ([1.0], [np.nan], "must be finite, got nan in row 1"),
            ([1], [2**70], f"must be 64-bit integers, got {2**70} in row 1"),
            (
                [1],
                np.array([2**63], dtype=np.uint64),
                "64-bit integers, got 9223372036854775808",
            ),
            (["a"], [None], "strings, integers, booleans or floats, got None in row 1"),
            ([1], np.array([1j]), "strings, integers, booleans or floats, got .* in row 1"),
            ([1], [1, 2], r"shape \(1,\), one label per row, got \(2,\)"),
            ([1], None, "all rows or no rows must have labels: the first 1 have labels"),
            (None, [1], "all rows or no rows must have labels: the first 1 have none"),
        ],
    )
    def test_labels_of_another_kind_raise(self, tmp_path, first, second, message):
        with RowWriter(tmp_path / "rows") as into:
            into.append(np.eye(1), first)
            with pytest.raises(ValueError, match=message):
                into.append(np.eye(1), second)
            into.append(np.eye(1), first)
        assert RowFolder(tmp_path / "rows").shape == (2, 1)

    def test_kinds_mixed_in_one_list(self, tmp_path):
        with pytest.raises(ValueError, match="got 'b' in row 1 after integers"):
            write(tmp_path / "rows", np.eye(2), [1, "b"])
        assert list(tmp_path.iterdir()) == []


def broken_indices(index):
    X = sp.csr_matrix(np.eye(5))
    X.indices[1] = index
    return X


class TestRefusedRows:
    @pytest.mark.parametrize(
        ("X", "message"),
        [
            (
                np.vstack([np.ones(5), [3.0, np.nan, 0, 0, 0]]),
                "X in float32: row 6 must contain finite numbers",
            ),
            (np.full((1, 5), np.inf), "X in float32: row 5 must contain finite numbers"),
            (np.full((1, 5), 1e300), "X in float32: row 5 must contain finite numbers"),
            (np.ones((1, 9)), "X must have 5 features in dense rows, got 9"),
            (sp.csr_matrix(np.ones((1, 9))), "X must have indices from 0 to 4, got 5 in row 5$"),
            (broken_indices(-1), "X must have indices from 0 to 4, got -1 in row 6$"),
            (broken_indices(5), "X must have indices from 0 to 4, got 5 in row 6$"),
            (np.ones((1, 9), dtype=np.float16), "got float16"),
            (np.ones(4), "2D array"),
            (np.array([["a"]]), "compatible with arrays of bytes/strings"),
        ],
    )
    def test_errors_name_the_row_and_keep_written_rows(self, tmp_path, X, message):
        with RowWriter(tmp_path / "rows", n_features=5, dtype=np.float32) as into:
            into.append(np.eye(5))
            with pytest.raises((ValueError, TypeError), match=message):
                into.append(X)
        assert same(RowFolder(tmp_path / "rows").block(0, 5), np.eye(5))

    def test_wider_blocks_without_large_indices_fit(self, tmp_path):
        assert write(tmp_path / "rows", sp.csr_matrix((2, 9)), n_features=5).shape == (2, 5)

    def test_nothing_is_written_without_rows_or_features(self, tmp_path):
        with pytest.raises(ValueError, match="rows was not written: no rows were appended"):
            write(tmp_path / "rows", np.ones((0, 3)))
        with pytest.raises(ValueError, match="rows was not written: no row has a feature"):
            write(tmp_path / "rows", sp.csr_matrix((3, 0)))
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"dtype": np.int64}, "dtype must be float32 or float64"),
            ({"n_features": 0}, "n_features must be None or an integer of at least 1, got 0"),
        ],
    )
    def test_parameters_are_checked(self, tmp_path, settings, message):
        with pytest.raises((ValueError, TypeError), match=message):
            RowWriter(tmp_path / "rows", **settings)


class TestWhereItIsWritten:
    @pytest.mark.parametrize("make", [Path.mkdir, Path.touch])
    def test_existing_folders_and_files_are_refused(self, tmp_path, make):
        make(tmp_path / "rows")
        with pytest.raises(FileExistsError, match="rows exists: write to a new folder"):
            RowWriter(tmp_path / "rows")

    def test_folder_of_another_process_is_not_replaced(self, tmp_path):
        into = RowWriter(tmp_path / "rows").__enter__()
        into.append(np.eye(3))
        write(tmp_path / "rows", np.eye(4))
        with pytest.raises(FileExistsError):
            into.__exit__(None, None, None)
        assert RowFolder(tmp_path / "rows").shape == (4, 4)
        assert [path.name for path in tmp_path.iterdir()] == ["rows"]

    def test_the_parent_must_exist(self, tmp_path):
        with pytest.raises(FileNotFoundError, match="the folder .*absent does not exist"):
            RowWriter(tmp_path / "absent" / "rows")

    def test_writer_requires_a_with_statement(self, tmp_path):
        into = RowWriter(tmp_path / "rows")
        with pytest.raises(RuntimeError, match="with statement"):
            into.append(np.eye(3))
        with into:
            into.append(np.eye(3))
        with pytest.raises(RuntimeError, match="with statement"):
            into.append(np.eye(3))
        with pytest.raises(RuntimeError, match="one folder"):
            into.__enter__()


class TestNothingIsLeftBehind:
    @pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, SystemExit])
    def test_after_an_error(self, tmp_path, error):
        with suppress(error), RowWriter(tmp_path / "rows") as into:
            into.append(np.eye(5))
            raise error
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("place", range(10))
    def test_on_a_full_disk(self, tmp_path, place, monkeypatch):
        """The disk is full at any write, including the last ones."""
        left = [place]

        class Full:
            def __init__(self, stream):
                self.stream = stream

            def __getattr__(self, name):
                return getattr(self.stream, name)

            def write(self, content):
                if left[0] == 0:
                    raise OSError(errno.ENOSPC, "No space left on device")
                left[0] -= 1
                return self.stream.write(content)

        def full(*arguments, **settings):
            return Full(open(*arguments, **settings))

        monkeypatch.setattr(files, "open", full, raising=False)
        with pytest.raises(OSError, match="No space left on device: .*rows'$") as caught:
            write(tmp_path / "rows", np.eye(5))
        assert caught.value.errno == errno.ENOSPC
        assert list(tmp_path.iterdir()) == []

    def test_writer_cannot_be_used_after_an_error(self, tmp_path, monkeypatch):
        def full(self, values):
            raise OSError(errno.ENOSPC, "No space left on device")

        into = RowWriter(tmp_path / "rows").__enter__()
        into.append(np.eye(5))
        with monkeypatch.context() as patched:
            patched.setattr(files.GrowingArray, "add", full)
            with pytest.raises(OSError, match="No space left"):
                into.append(np.eye(5))
        with pytest.raises(RuntimeError, match="an earlier write failed"):
            into.append(np.eye(5))
        with pytest.raises(RuntimeError, match="an earlier write failed"):
            into.__exit__(None, None, None)
        assert list(tmp_path.iterdir()) == []

    # In this process an error of this kind is raised above.
    @pytest.mark.slow
    @posix_only
    def test_ctrl_c(self, tmp_path):
        command = [sys.executable, "-c", INTERRUPTED, str(tmp_path / "rows")]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        process = subprocess.run(command, env=environment, check=False, **pipes)
        assert process.stdout == b"written\n"
        assert process.returncode in (-signal.SIGINT, 128 + signal.SIGINT, 1)
        assert list(tmp_path.iterdir()) == []


INTERRUPTED = """
import signal, sys
import numpy as np
from structinv.rows import RowWriter
with RowWriter(sys.argv[1]) as writer:
    writer.append(np.ones((100, 200)))
    print("written", flush=True)
    signal.raise_signal(signal.SIGINT)
    sys.stdin.read()
"""
