"""Numbers of pages: whole tables of records, and a check of the numbers that pages quote.

    python benchmarks/tables.py            # report what is wrong

The pages of evidence show whole tables, which the build of the site renders
(`docs/_ext/record_tables.py`):

    ```{record} malware/detected
    ```

Other pages quote few numbers, as plain text. ``records/quotes.toml`` lists these texts by page, with
references to the records, such as ``{malware/detected > FAdd > K = 10}``. A format may follow,
``{malware/detected > FAdd > K = 10 :.0f}``, and applies to the first number of the cell. Several columns
are the cells of a row, ``{malware/detected > FAdd > K = 2 | K = 10}``. Each text must
stand in its page. A decimal number of a listed page, outside code, must be in one of these texts, in a
table of a record on the page, or among the "others" of the page.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from records import FOLDER, Record, Table

ROOT = Path(__file__).parents[1]
QUOTES = FOLDER / "quotes.toml"
COLUMNS = 6
LONG = 24  # rows of a table that the site folds
DECIMAL = re.compile(r"(?<![\w.])\d+\.\d+(?![\w.]|-\d)")
REFERENCE = re.compile(
    r"\{(?P<table>[\w/]+) > (?P<row>[^{}>]+) > (?P<column>[^{}>]+?)(?P<spec> :[^{}]+)?\}"
)

record_of = cache(Record.read)


def table_of(path: str) -> Table:
    """The table of a record, by names such as "malware/detected"."""
    name, _, key = path.partition("/")
    tables = record_of(name).tables
    if key not in tables:
        raise KeyError(f"no table {key!r} in record {name!r}; its tables are {', '.join(tables)}")
    return tables[key]


def markdown(table: Table, written: Callable[[str], str] = str) -> list[str]:
    """Write a table in Markdown, as several if it has more columns than a page can show.

    `written` changes the texts of headings and of names.
    """
    first, others = table.columns[0], list(enumerate(table.columns))[1:]
    parts = -(-len(others) // (COLUMNS - 1))
    sizes = [len(others) // parts + (part < len(others) % parts) for part in range(parts)]
    names = [written(str(row[0] or "")) for row in table.rows]
    found = []
    for part, size in enumerate(sizes):
        shown = others[sum(sizes[:part]) : sum(sizes[:part]) + size]
        heads = [_capital(written(one)) for one in (first.heading, *(c.heading for _, c in shown))]
        lines = [heads, ["---", *("--:" if c.format else "---" for _, c in shown)]]
        for name, row in zip(names, table.rows, strict=True):
            lines.append([name, *(column.text(row[number]) for number, column in shown)])
        found.append("\n".join(f"| {' | '.join(map(_in_table, line))} |" for line in lines))
    return found


def _capital(text: str) -> str:
    name = re.match(r"\w*", text)[0]  # type: ignore[index]
    return text if name == "structinv" or "_" in name else text[:1].upper() + text[1:]


def _in_table(text: str) -> str:
    return re.sub(r"(?<!\\)\|", r"\\|", text)


def sources(names: Sequence[str]) -> str:
    """Write a table of commands, data and sources of records."""
    lines = [["Command", "Data, seeds and origin"], ["---"] * 2]
    for name in names:
        record = record_of(name)
        measured = f"measured on {record.date}"
        parts = [
            record.data,
            record.seeds and f"seeds: {record.seeds}",
            measured if record.source == "measured" else record.source,
            record.machine,
            record.versions,
        ]
        lines.append([f"`{record.command}`", "; ".join(part for part in parts if part)])
    return "\n".join(f"| {' | '.join(map(_in_table, line))} |" for line in lines)


def resolved(text: str) -> str:
    """Replace the references of a text by the cells."""
    return REFERENCE.sub(_referenced, text)


def _referenced(match: re.Match[str]) -> str:
    table = table_of(match["table"])
    return " | ".join(
        _cell(table, match["row"], name, match["spec"]) for name in match["column"].split(" | ")
    )


def _cell(table: Table, row: str, name: str, spec: str | None) -> str:
    cell, (_, column) = table.cell(row, name), table.column(name)
    if spec is None:
        return column.text(cell)
    return format(cell[0] if isinstance(cell, list) else cell, spec.removeprefix(" :"))


def plain(text: str) -> str:
    """A text on one line."""
    return " ".join(text.split())


def wrong_numbers(page: str, quotes: Sequence[str], others: Sequence[str]) -> list[str]:
    """Quoted texts that a page does not contain, and its other decimal numbers."""
    path = ROOT / page
    if not path.exists():
        return [f"{page} in {QUOTES.name} does not exist"]
    page_text = path.read_text(encoding="utf-8")
    text = plain(page_text)
    found = [plain(resolved(quote)) for quote in quotes]
    missing = [f"{page} does not contain: {quote}" for quote in found if quote not in text]
    prose = re.sub(r"```.*?```|`[^`]*`|\]\([^)]*\)|[Ss]ection [\d.]+", "", page_text, flags=re.S)
    tables = [table_of(name) for name in re.findall(r"```\{record\} (\S+)", text)]
    shown = [part for table in tables for part in [table.title, *markdown(table)]]
    known = {*DECIMAL.findall(" ".join([*found, *shown])), *others}
    loose = sorted(set(DECIMAL.findall(prose)) - known)
    return [*missing, *(f"{page}: {number} is in no quoted text or table" for number in loose)]


def faults(name: str) -> list[str]:
    """Entries of a record that are missing, or cells that do not fit their columns."""
    record, found = record_of(name), []
    if not record.data or not (record.tables or record.points):
        found.append("no data, or neither tables nor points")
    if record.source != "measured" and not record.source.startswith("transcribed from "):
        found.append(f"source {record.source!r}")
    script = re.match(r"python (benchmarks/\w+\.py)\b", record.command)
    if script is None or not (ROOT / script[1]).exists():
        found.append(f"command {record.command!r}")
    for key, table in record.tables.items():
        for row in table.rows:
            for column, cell in zip(table.columns, row, strict=True):
                try:
                    column.text(cell)
                except (IndexError, ValueError) as error:
                    found.append(f"{key}, {column.heading}: {error}")
    return found


def main() -> int:
    """Print what is wrong in pages and records; 1 if there is anything."""
    listed = tomllib.loads(QUOTES.read_text(encoding="utf-8"))
    found = [
        fault
        for page, quotes in listed["quotes"].items()
        for fault in wrong_numbers(page, quotes, listed["others"].get(page, []))
    ]
    names = sorted(path.stem for path in FOLDER.glob("*.json"))
    found += [f"{name}: {fault}" for name in names for fault in faults(name)]
    print("\n".join(found))
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
