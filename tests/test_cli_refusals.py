"""The command line: what it refuses before any work, and how it names the place."""

import gzip
import lzma
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from structinv import InvariantLinearSVC
from structinv.cli.model_file import load_model
from structinv.cli.writing import check_folder
from structinv.datasets import load_jsonlines, load_svmlight, load_table
from structinv.datasets.readers import line_of_row
from structinv.estimators.resource_estimates import LINEAR_FUNCTIONS_AT_ONCE

from .test_cli import fail, run, succeed


class TestDemoFolder:
    @pytest.fixture(autouse=True)
    def no_work(self, monkeypatch):
        def work(*_):
            raise AssertionError("work has begun")

        monkeypatch.setattr("structinv.cli.demo._mail_models", work)

    @pytest.mark.parametrize("out", ["file", "file/plots", "file/more/plots"])
    def test_a_file_in_its_place(self, tmp_path, out):
        (tmp_path / "file").touch()
        line = fail("demo", "--out", tmp_path / out)
        assert f"--out must be a new or existing folder, but {tmp_path / 'file'} is a file" in line

    @pytest.mark.skipif(
        not Path("/proc/self").exists(), reason="needs a folder that nobody can write to"
    )
    def test_a_folder_that_cannot_be_written(self):
        line = fail("demo", "--out", "/proc/plots")
        assert "--out must be a writable folder, but /proc is not writable" in line

    def test_checking_leaves_nothing(self, tmp_path):
        check_folder(tmp_path / "a" / "b")
        assert not any(tmp_path.iterdir())


class TestIndicesThatNoMemoryHolds:
    """One line with an index far beyond all others asks for as many weights."""

    ROWS = "# rows\n\n" + "1 1:2 3:1 # good\n-1 2:1\n" * 5

    def write(self, folder, last_line):
        path = folder / "rows.svm"
        path.write_text(self.ROWS + last_line + "\n1 1:3\n")
        return path

    @pytest.fixture
    def small_machine(self, monkeypatch):
        """Less than 1 GB is free, whatever runs the tests."""
        for module in ("structinv.utils.resources", "structinv.cli.row_files"):
            monkeypatch.setattr(f"{module}.free_memory", lambda: 9e8)

    @pytest.fixture
    def no_work(self, monkeypatch):
        def work(*_):
            raise AssertionError("training has begun")

        monkeypatch.setattr(InvariantLinearSVC, "fit", work)

    @pytest.mark.parametrize("base", [(), ("--one-based",), ("--zero-based",)])
    def test_the_line_and_the_index_are_named(self, tmp_path, small_machine, no_work, base):
        path = self.write(tmp_path, "1 1:1 2000000000:1")
        line = fail("fit", path, "--oracle", "identity", *base, "-o", tmp_path / "m")
        assert f"{path}, line 13 has feature number 2000000000, the largest" in line
        assert f"weights for {2_000_000_000 + (base == ('--zero-based',))} features" in line
        assert "0.9 GB are free" in line
        assert "hash the features, or number them without gaps" in line
        assert not (tmp_path / "m").exists()

    def test_every_class_has_weights(self, tmp_path, small_machine, no_work):
        # Two classes share one function; the intercept has a weight, too.
        fits = int(9e8 / 8 / LINEAR_FUNCTIONS_AT_ONCE) - 1
        path = self.write(tmp_path, f"2 {fits}:1")
        assert "line 13 has feature" in fail("fit", path, "--oracle", "identity", "-o", tmp_path / "m")
        path = self.write(tmp_path, f"1 {fits}:1")
        result = run("fit", path, "--oracle", "identity", "-o", tmp_path / "m")
        assert "training has begun" in str(result.exception)

    def test_gaps_that_fit_are_trained_on(self, tmp_path, small_machine):
        path = self.write(tmp_path, "-1 200000:1")
        succeed("fit", path, "--oracle", "identity", "-o", tmp_path / "m")
        assert load_model(tmp_path / "m").features.n_features == 200_000


@given(
    st.lists(st.sampled_from([b"1 1:2", b"", b"  ", b"# no row", b"-1 2:1 # row", b"1"]), max_size=12)
)
def test_lines_of_rows(lines):
    source = BytesIO(b"\n".join(lines) + b"\n")
    places = [k for k, line in enumerate(lines, start=1) if line.strip() and line[:1] != b"#"]
    assert [line_of_row(source, row) for row in range(len(places))] == places
    with pytest.raises(IndexError, match="too few rows"):
        line_of_row(source, len(places))


@pytest.mark.parametrize("kind", ["json", "svmlight", "table"])
@pytest.mark.parametrize("compress", [bytes, gzip.compress, lzma.compress])
class TestEncodings:
    CONTENT = {
        "json": '{"text": "cheap pills", "label": "spam"}\n{"text": "notes", "label": "ham"}\n' * 5,
        "svmlight": "1 1:2 3:1\n-1 2:1\n" * 5,
        "table": "a,b,label\n" + "1,2,x\n2,1,y\n" * 5,
    }
    LOADERS = {"json": load_jsonlines, "svmlight": load_svmlight, "table": load_table}

    def refused(self, path, kind):
        """The error of the reader, which is that of the command."""
        with pytest.raises(ValueError, match="must be text in UTF-8") as caught:
            self.LOADERS[kind](path)
        line = fail("fit", path, "--oracle", "identity", "-o", path.with_name("m"))
        assert line == f"structinv: error: {caught.value}"
        assert str(path) in line
        return line

    @pytest.mark.parametrize("mark", ["UTF-16", "UTF-32"])
    @pytest.mark.parametrize("order", ["LE", "BE"])
    def test_byte_order_marks(self, tmp_path, kind, compress, mark, order):
        path = tmp_path / "data"
        path.write_bytes(compress(f"\ufeff{self.CONTENT[kind]}".encode(mark + order)))
        line = self.refused(path, kind)
        assert f"its byte-order mark is that of {mark}: convert it" in line
        assert f"iconv -f {mark} -t UTF-8" in line

    @pytest.mark.parametrize("encoding", ["UTF-16LE", "UTF-16BE", "UTF-32LE"])
    def test_without_a_mark(self, tmp_path, kind, compress, encoding):
        path = tmp_path / "data"
        path.write_bytes(compress(self.CONTENT[kind].encode(encoding)))
        assert "it has NUL bytes" in self.refused(path, kind)

    def test_in_utf_8_it_is_read(self, tmp_path, kind, compress):
        path = tmp_path / "data"
        path.write_bytes(compress(self.CONTENT[kind].encode()))
        succeed("fit", path, "--oracle", "identity", "-o", tmp_path / "m")
