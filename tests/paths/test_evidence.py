"""Evidence pages: their tables are those of the records, and their numbers stand in these tables."""

import importlib
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
EVIDENCE = sorted([*(ROOT / "docs/evidence").glob("*.md"), *(ROOT / "docs/papers").glob("*.md")])
GUIDES = [
    ROOT / f"docs/{name}.md"
    for name in [
        "choose",
        "comparison",
        "faq",
        "guide/images",
        "guide/malware",
        "guide/molecules",
        "guide/sequences",
        "guide/texts",
        "guide/words",
        "limits",
    ]
]
PUBLISHED = {"docs/guide/images.md": {"5.03", "2.28"}}  # errors of papers, not of runs
RECORDS = sorted(path.stem for path in (ROOT / "benchmarks/records").glob("*.json"))
DECIMAL = re.compile(r"(?<![\w.])\d+\.\d+(?![\w.]|-\d)")


@pytest.fixture(scope="module")
def tables():
    sys.path.insert(0, str(ROOT / "benchmarks"))
    yield importlib.import_module("tables")
    sys.path.remove(str(ROOT / "benchmarks"))


@pytest.fixture(scope="module")
def records(tables):
    return importlib.import_module("records")


def relative(path):
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_tables_of_pages_are_those_of_the_records(page, tables):
    text = page.read_text(encoding="utf-8")
    assert tables.with_tables(text) == text, "run python benchmarks/tables.py"


@pytest.mark.parametrize("name", RECORDS)
def test_records_describe_the_run_and_have_cells_of_their_columns(name, records):
    record = records.Record.read(name)
    assert record.data
    assert record.source == "measured" or record.source.startswith("transcribed from ")
    script = re.match(r"python (benchmarks/\w+\.py)\b", record.command)
    assert script, record.command
    assert (ROOT / script[1]).exists()
    assert record.tables or record.points
    for table in record.tables.values():
        for row in table.rows:
            assert len(row) == len(table.columns)
            assert all(
                column.text(cell) is not None for column, cell in zip(table.columns, row, strict=True)
            )


@pytest.mark.parametrize("page", [*EVIDENCE, *GUIDES], ids=relative)
def test_decimal_numbers_of_prose_stand_in_a_table_of_the_page(page, tables):
    """A number of a sentence is in a table of its page, or filled in: it changes with the record."""
    text = page.read_text(encoding="utf-8")
    filled = " ".join(tables.resolved(match[0]) for match in tables.REFERENCE.finditer(text))
    text = re.sub(r"<!--.*?-->", "", text, flags=re.S)
    lines = text.splitlines()
    shown = set(DECIMAL.findall("\n".join([filled, *(line for line in lines if line.startswith("|"))])))
    prose = "\n".join(line for line in lines if not line.startswith("|"))
    prose = re.sub(r"```.*?```|`[^`]*`|\]\([^)]*\)|[Ss]ection [\d.]+", "", prose, flags=re.S)
    assert not sorted(set(DECIMAL.findall(prose)) - shown - PUBLISHED.get(relative(page), set()))


HEADERS = ["method", "error, %", "seconds", "p", "note"]
PRINTED = [
    ["plain", "10.42 ± 0.14", "38", "1e-03", "tol 1"],
    ["robust", "3.14 ± 0.08", "221", "2e-05", ""],
]


def test_tables_of_a_run_are_kept_for_its_record(records, tables, tmp_path, monkeypatch):
    report = importlib.import_module("report")
    monkeypatch.setattr(report, "_printed", {})
    monkeypatch.setattr(sys, "argv", ["benchmarks/text.py", "--splits", "2", "--record", "text.json"])
    report.table("errors, %", HEADERS, PRINTED, key="errors")
    report.table("Other numbers: 2", HEADERS, PRINTED)
    report.write_record(None, "mail")
    report.write_record(tmp_path / "text.json", "mail", seeds="0", curve=[1, 2])
    monkeypatch.setattr(records, "FOLDER", tmp_path)
    record = records.Record.read("text")
    assert (record.command, record.data) == ("python benchmarks/text.py --splits 2", "mail")
    assert list(record.tables) == ["errors", "other_numbers_2"]
    assert record.tables["errors"].cell("robust", "error") == [3.14, 0.08]
    assert record.points == {"curve": [1, 2]}
