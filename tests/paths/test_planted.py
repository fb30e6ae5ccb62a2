"""Planted bugs fit the lines of the package, which changes with them."""

import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_patches_change_lines_that_are_there():
    patches = sorted((ROOT / "tests" / "planted").glob("*/*.patch"))
    assert len(patches) >= 90
    packages = {path.parent.name for path in (ROOT / "structinv").glob("*/__init__.py")}
    number = Counter(patch.parent.name for patch in patches)
    assert set(number) == packages
    assert min(number.values()) >= 3
    stale = []
    for patch in patches:
        header, *hunks = re.split(r"^@@.*@@.*\n", patch.read_text(encoding="utf-8"), flags=re.M)
        source = (ROOT / re.search(r"^\+\+\+ b/(.*)$", header, flags=re.M)[1]).read_text(
            encoding="utf-8"
        )
        for hunk in hunks:
            lines = [line for line in hunk.splitlines() if not line.startswith(("+", "\\"))]
            if "\n".join(line[1:] for line in lines) not in source:
                stale.append(patch.stem)
    assert stale == []
