"""Files that are there as a whole or not at all."""

import os
import stat

import pytest

from structinv.utils.files import write_atomically

from ..platforms import posix_only


@posix_only
def test_an_old_file_is_replaced_and_keeps_its_permissions(tmp_path):
    path = tmp_path / "model"
    path.write_bytes(b"old")
    path.chmod(0o640)
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert list(tmp_path.iterdir()) == [path]


@posix_only
def test_a_pipe_is_written_to(tmp_path):
    read, write = os.pipe()
    write_atomically(f"/dev/fd/{write}", b"all")
    os.close(write)
    os.mkfifo(tmp_path / "pipe")
    named = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_atomically(tmp_path / "pipe", b"all")
    for end in (read, named):
        assert os.read(end, 9) == b"all"
        os.close(end)
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, error):
    path = tmp_path / "model"
    path.write_bytes(b"old")

    def fail(descriptor):
        raise error

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(error):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@posix_only
def test_a_link_is_followed(tmp_path):
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_bytes(b"old")
    link.symlink_to(real)
    write_atomically(link, b"new")
    assert link.is_symlink()
    assert real.read_bytes() == b"new"


def test_a_missing_folder_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        write_atomically(tmp_path / "absent" / "model", b"new")


@posix_only
def test_a_device_is_written_to():
    write_atomically("/dev/null", b"new")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
