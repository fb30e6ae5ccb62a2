"""Types of the public classes and functions, as a type checker of a user reads them."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import structinv

FOLDER = Path(__file__).with_name("typing")
PROGRAM = FOLDER / "user_code.py"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("mypy") is None, reason="requires mypy, of the extra dev"),
]


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Folder of what mypy knows of all libraries, for both programs."""
    return Path(os.devnull) if os.name == "nt" else tmp_path_factory.mktemp("cache")


def checked(program, tmp_path, cache):
    """Check a program outside the checkout, and return the output of mypy."""
    command = [sys.executable, "-m", "mypy", "--config-file", FOLDER / "mypy.ini", program]
    command += ["--cache-dir", cache]
    environment = {**os.environ, "MYPYPATH": str(Path(structinv.__file__).parents[1])}
    return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True).stdout


def test_a_strict_type_checker_accepts_a_program_of_a_user(tmp_path, cache):
    assert "Success: no issues found" in checked(PROGRAM, tmp_path, cache)


def test_the_type_checker_finds_wrong_types(tmp_path, cache):
    """A program with other types is not accepted, so results are not `Any`."""
    text = PROGRAM.read_text(encoding="utf-8")
    changed = text.replace("assert_type(certificate.accuracy, float)", "certificate.accuracy.upper()")
    changed = changed.replace("assert_type(model.solution_, Solution)", "model.solution_.gaps")
    changed = changed.replace("FDrop(max_changes=5)", 'FDrop(max_changes="5")')
    program = tmp_path / "wrong.py"
    program.write_text(changed, encoding="utf-8")
    found = checked(program, tmp_path, cache)
    assert '"float" has no attribute "upper"' in found
    assert '"Solution" has no attribute "gaps"' in found
    assert 'Argument "max_changes" to "FDrop" has incompatible type "str"' in found
    assert "Found 3 errors" in found
