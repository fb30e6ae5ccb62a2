"""Files of a folder of rows: what is truncated, damaged or changed is refused."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from structinv.rows import RowFolder, RowWriter
from structinv.rows import format as files

from .cases import damage, some_rows, write


@pytest.fixture
def folder(tmp_path):
    write(tmp_path / "rows", some_rows(), np.arange(50))
    return tmp_path / "rows"


NAMES = pytest.mark.parametrize("name", ["indices.npy", "data.npy", "indptr.npy"])


class TestDamage:
    @pytest.mark.parametrize("name", ["indices.npy", "data.npy", "indptr.npy", "labels.npy"])
    @pytest.mark.parametrize("size", [0, 150])
    def test_truncated_file_raises(self, folder, name, size):
        os.truncate(folder / name, size)
        with pytest.raises(OSError, match=f"{name} is truncated: it must have .* bytes .* got {size}$"):
            RowFolder(folder)

    @NAMES
    def test_file_truncated_after_opening_raises(self, folder, name):
        rows = RowFolder(folder)
        rows.block(0, 50)
        os.truncate(folder / name, 150)
        message = f"{name} cannot be read: the file was truncated after it was opened"
        with pytest.raises(OSError, match=message):
            rows.block(20, 30)

    @pytest.mark.parametrize("name", ["indices.npy", "data.npy", "indptr.npy", "labels.npy"])
    def test_a_flipped_bit_is_found_by_verify(self, folder, name, monkeypatch):
        rows = RowFolder(folder)
        rows.verify()
        # Files are read in parts.
        monkeypatch.setattr(files, "_AT_ONCE", 64)
        rows.verify()
        damage(folder / name, 128 + 8 * 20)
        with pytest.raises(OSError, match=f"{name} is damaged: its checksum is wrong"):
            RowFolder(folder).verify()

    @NAMES
    def test_a_file_that_changed(self, folder, name):
        rows = RowFolder(folder)
        rows.block(0, 50)
        status = os.stat(folder / name)
        os.utime(folder / name, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
        with pytest.raises(OSError, match=f"{name} cannot be read: the file was changed"):
            rows.block(3, 5)

    @pytest.mark.parametrize(
        ("spoil", "error", "message"),
        [
            (
                lambda path: path.write_bytes(path.read_bytes() + b"1"),
                OSError,
                "data.npy is too long: it must have .* bytes",
            ),
            (
                lambda path: damage(path, 22),
                OSError,
                "data.npy must have the header of a .npy file of .* values of float64",
            ),
            (Path.unlink, FileNotFoundError, "data.npy"),
        ],
    )
    def test_other_files_are_refused(self, folder, spoil, error, message):
        spoil(folder / "data.npy")
        with pytest.raises(error, match=message):
            RowFolder(folder)


TYPES = {"indptr.npy": "int64", "indices.npy": "int32", "data.npy": "float64"}


class TestManifest:
    def test_no_folder(self, tmp_path):
        with pytest.raises(
            FileNotFoundError, match="absent must be a folder of rows, but does not exist"
        ):
            RowFolder(tmp_path / "absent")
        with pytest.raises(ValueError, match="must be a folder of rows, but has no manifest.json"):
            RowFolder(tmp_path)

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("{", "manifest.json is not JSON: "),
            ("[]", 'manifest.json must have "format": "structinv rows"'),
            ('{"format": "parquet"}', 'manifest.json must have "format": "structinv rows"'),
            ('{"format": "structinv rows", "version": 2}', "must have version 1 .* got 2"),
            ('{"format": "structinv rows", "version": 1}', "manifest.json is damaged: KeyError: 'rows'"),
        ],
    )
    def test_invalid_manifest_raises(self, folder, content, message):
        (folder / "manifest.json").write_text(content)
        with pytest.raises(ValueError, match=message):
            RowFolder(folder)

    @pytest.mark.parametrize(
        "change",
        [
            {"rows": 0},
            {"rows": "many"},
            {"features": 0},
            {"classes": 3},
            {"dtypes": {"data.npy": "float32"}},
            {"dtypes": TYPES | {"data.npy": "int64"}},
            {"dtypes": TYPES | {"x": "int8"}},
            {"crc32": {}},
            {"notes": 3},
        ],
    )
    def test_inconsistent_manifest_raises(self, folder, change):
        content = {**json.loads((folder / "manifest.json").read_text()), **change}
        (folder / "manifest.json").write_text(json.dumps(content))
        with pytest.raises(ValueError, match="manifest.json is damaged: (Key|Type|Value)Error"):
            RowFolder(folder)


def test_a_manifest_of_brackets_is_damaged(tmp_path):
    with RowWriter(tmp_path / "rows") as writer:
        writer.append(np.eye(3))
    (tmp_path / "rows" / "manifest.json").write_text("[" * 200_000)
    with pytest.raises(ValueError, match=r"manifest.json is not JSON"):
        RowFolder(tmp_path / "rows")


@pytest.mark.parametrize("name", ["indptr.npy", "indices.npy", "data.npy"])
def test_a_folder_in_the_place_of_a_file(tmp_path, name):
    with RowWriter(tmp_path / "rows") as writer:
        writer.append(np.eye(3))
    (tmp_path / "rows" / name).unlink()
    (tmp_path / "rows" / name).mkdir()
    with pytest.raises(OSError, match=name):
        RowFolder(tmp_path / "rows").block(0, 3)
