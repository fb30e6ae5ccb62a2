"""Evidence pages: their tables are those of the records, and their numbers stand in these tables."""

import importlib
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
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


def texts_of(table, row):
    return [column.text(cell) for column, cell in zip(table.columns, row, strict=True)]


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


@pytest.fixture
def table(records):
    return records.Table.of_texts("title", HEADERS, PRINTED)


def test_numbers_and_formats_of_printed_tables_are_found(table):
    assert [column.format for column in table.columns] == ["", "{:.2f} ± {:.2f}", "{:.0f}", "{:.0e}", ""]
    assert [column.unit for column in table.columns] == ["", "%", "", "", ""]
    assert table.rows[1] == ["robust", [3.14, 0.08], 221, 2e-05, None]
    assert table.cell("plain", "error") == [10.42, 0.14]
    again = [
        [column.text(cell) for column, cell in zip(table.columns, row, strict=True)]
        for row in table.rows
    ]
    assert again == PRINTED


def test_texts_of_another_format_stay_texts(records):
    table = records.Table.of_texts(
        "", ["", "x"], [["a", "1.5"], ["b", "-"], ["c", "2.25"], ["d", "3.0"]]
    )
    assert [row[1] for row in table.rows] == [1.5, "-", "2.25", 3.0]


def test_unknown_rows_and_columns_are_named(table):
    with pytest.raises(KeyError, match="plain"):
        table.cell("other", "error")
    with pytest.raises(KeyError, match="seconds"):
        table.cell("plain", "other")


def test_records_are_the_same_after_a_round_trip(table, records, tmp_path, monkeypatch):
    monkeypatch.setattr(records, "FOLDER", tmp_path)
    record = records.Record("measured", "python x.py", "data", tables={"a": table}, points={"x": [1.0]})
    record.write(tmp_path / "run.json")
    assert records.Record.read("run") == record


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            {"columns": ["seconds"]},
            "| method | seconds |\n| --- | --: |\n| plain | 38 |\n| robust | 221 |",
        ),
        (
            {"rows": {"robust": "`FDrop`"}, "columns": {"method": "Method", "error": "Error"}},
            "| Method | Error, % |\n| --- | --: |\n| `FDrop` | 3.14\u00a0±\u00a00.08 |",
        ),
        (
            {"columns": ["error"], "formats": {"error": "{0:.1f}"}, "sort": "error", "bold": "min"},
            "| method | error, % |\n| --- | --: |\n| robust | **3.1** |\n| plain | 10.4 |",
        ),
        (
            {"columns": ["p"], "where": {"seconds": 221}},
            "| method | p |\n| --- | --: |\n| robust | 2e-05 |",
        ),
        (
            {"columns": ["p"], "sort": "-seconds", "bold": {"p": "max"}},
            "| method | p |\n| --- | --: |\n| robust | 2e-05 |\n| plain | **1e-03** |",
        ),
    ],
)
def test_tables_select_rename_sort_and_mark_the_best(options, expected, table, tables):
    assert tables.render(table, options) == expected


def test_columns_of_one_name_are_distinguished_by_the_unit(records, tables):
    table = records.Table.of_texts("", ["", "features", "features, s"], [["two layers", "3000", "334"]])
    assert (table.cell("two layers", "features"), table.cell("two layers", "features, s")) == (3000, 334)
    assert tables.render(table, {}).startswith("|  | features | features, s |\n")
    only_seconds = tables.render(table, {"columns": {"features, s": "Seconds"}})
    assert only_seconds.startswith("|  | Seconds |\n")
    assert only_seconds.endswith("| two layers | 334 |")


def test_unknown_choices_of_a_page_are_refused(table, tables):
    with pytest.raises(KeyError, match="other"):
        tables.render(table, {"rows": ["other"]})


def test_marks_of_a_page_are_replaced(table, records, tables, monkeypatch):
    record = records.Record("measured", "python x.py", "mail", date="2026-01-02", tables={"a": table})
    monkeypatch.setattr(tables, "record_of", {"run": record}.__getitem__)
    page = (
        'A\n\n<!-- table: run/a {"columns": ["seconds"], "rows": ["plain"]} -->\nold\n<!-- end -->\n'
        "<!-- text\n{run/a > robust > error :.1f} %, {run/a > plain > error}.\n-->\n<!-- end -->\n"
        "<!-- records: run -->\nold\n<!-- end -->\nB\n"
    )
    written = tables.with_tables(page)
    assert "| plain | 38 |\n<!-- end -->" in written
    assert "\n3.1\u00a0%, 10.42\u00a0±\u00a00.14.\n<!-- end -->" in written
    assert "| `python x.py` | mail; measured on 2026-01-02 |" in written
    assert "old" not in written
    assert tables.with_tables(written) == written


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
