"""The command line: the demonstration."""

from pathlib import Path

import pytest
from matplotlib.image import imread

from structinv.cli.output import check_folder

from ..commands import fail, run, succeed


class TestDemo:
    def test_prints_a_table_and_draws_a_picture(self, tmp_path):
        out = succeed("demo", "--out", tmp_path / "plots")
        for name in ("LinearSVC", "InvariantLinearSVC", "SVC", "InvariantSVC", "97.5%", "75.9%"):
            assert name in out
        # All numbers of the screen are accuracies, under two names.
        header = next(line for line in out.splitlines() if line.startswith("  data"))
        assert header.endswith("  clean accuracy  certified accuracy")
        (path,) = (tmp_path / "plots").iterdir()
        assert f"Open {path}" in out
        assert imread(path).std() > 0.05

    def test_demo_without_matplotlib_prints_a_note(self, tmp_path, monkeypatch):
        monkeypatch.setattr("structinv.cli.demo.find_spec", lambda name: None)
        result = run("demo", "--out", tmp_path / "plots")
        assert result.exit_code == 0
        assert "structinv[plot]" in result.stderr
        assert "InvariantSVC" in result.stdout
        assert not (tmp_path / "plots").exists()

    def test_a_file_in_its_place(self, tmp_path, monkeypatch):
        monkeypatch.setattr("structinv.cli.demo._mail_models", None)
        (tmp_path / "file").touch()
        line = fail("demo", "--out", tmp_path / "file" / "more" / "plots")
        assert f"--out must be a new or existing folder, but {tmp_path / 'file'} is a file" in line

    @pytest.mark.skipif(
        not Path("/proc/self").exists(), reason="needs a folder that nobody can write to"
    )
    def test_a_folder_that_cannot_be_written(self, tmp_path):
        line = fail("demo", "--out", "/proc/plots")
        assert "--out must be a writable folder, but /proc is not writable" in line
        check_folder(tmp_path / "a" / "b")
        assert not any(tmp_path.iterdir())
