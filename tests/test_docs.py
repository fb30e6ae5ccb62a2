"""The code in pages of docs runs, block after block as it is read."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGES = ["objects.md", "malware.md", "text.md"]


def blocks(text):
    """The fenced blocks of Python of a page."""
    return re.findall(r"^```python\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_code_runs(page):
    known = {}
    found = blocks((DOCS / page).read_text(encoding="utf-8"))
    assert len(found) > 2
    for number, block in enumerate(found, 1):
        exec(compile(block, f"{page}, block {number}", "exec"), known)


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    text = (DOCS / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (DOCS / target).is_file(), target
