"""Errors name the path that a user gave, and printed results have no hostile text."""

import errno
import os

import numpy as np
import pytest

import structinv
from structinv import InvariantLinearSVC, InvariantTextClassifier, report
from structinv.datasets import write_conll
from structinv.inspection import explain_edit
from structinv.oracles import Box, TokenEdits
from structinv.rows import RowWriter
from structinv.utils import files

from ..hostile import EVIL, is_visible


def test_printed_results_are_escaped_and_cut():
    X, y = np.array([[2.0, 1.0], [0.0, 1.0]]), np.array([EVIL, "b"])
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=[EVIL, "second"])
    model = InvariantLinearSVC(Box(0.1), random_state=0).fit(frame, y)
    text = repr(explain_edit(model, frame[:1]))
    assert is_visible(text)
    assert "a\\x1b[2J" in text
    assert len(text) < 1000


class TestErrorsNameThePath:
    def full(self, *_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def test_on_a_full_disk(self, tmp_path, monkeypatch):
        X, y = np.eye(4), np.arange(4) % 2
        model = InvariantLinearSVC(random_state=0).fit(X, y)
        monkeypatch.setattr(files.os, "fsync", self.full)

        def rows(path):
            with RowWriter(path) as writer:
                writer.append(X)

        for name, write in {
            "model": lambda path: structinv.save(model, path),
            "page": lambda path: report.write(path, model, X, y),
            "tags": lambda path: write_conll(path, [["a"]]),
            "rows": rows,
        }.items():
            with pytest.raises(OSError, match=f"No space left on device: .*/{name}'$"):
                write(tmp_path / name)
        assert list(tmp_path.iterdir()) == []

    def test_where_a_temporary_file_cannot_be_made(self, tmp_path, monkeypatch):
        def refused(*_, dir, prefix):
            raise PermissionError(errno.EACCES, "Permission denied", f"{dir}/{prefix}x1y2")

        monkeypatch.setattr(files.tempfile, "mkstemp", refused)
        with pytest.raises(PermissionError, match="Permission denied: .*/model'$"):
            files.write_atomically(tmp_path / "model", b"")

    def test_errors_about_other_files_are_unchanged(self, tmp_path):
        with (
            pytest.raises(FileNotFoundError, match="elsewhere"),
            files.written_atomically(tmp_path / "model"),
        ):
            (tmp_path / "elsewhere").read_bytes()


@pytest.mark.parametrize("edit", ["drop", "add", "replace"])
def test_the_kind_of_edit_is_always_printed(edit):
    assert repr(TokenEdits(edit, 5)) == f"TokenEdits(edit='{edit}', max_changes=5)"
    assert f"edit='{edit}'" in repr(TokenEdits(edit, 1).only_for("spam"))
    model = InvariantTextClassifier(edit, 5, C=1.0).fit(["free money", "see you"], ["spam", "ham"])
    assert f"TokenEdits(edit='{edit}', max_changes=5)" in repr(model.certify(["free"]))
