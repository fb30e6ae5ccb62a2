"""Tables of pages, generated from the records of benchmarks.

    python benchmarks/tables.py            # write all marked tables again
    python benchmarks/tables.py --check    # only report what is wrong

A page marks the place of a table, and may choose from it by JSON:

    <!-- table: malware/detected {"rows": {"FAdd": "`FAdd`"}, "columns": ["K = 2", "K = 10"]} -->
    ...
    <!-- end -->

- rows, columns: a list of names, or an object from names in the record to names in the page; they
  select, order and rename. The first column is always shown; {"": "Method"} gives it a heading. If two
  columns have one name, the second is named with its unit, such as "features, s".
- where: an object from columns to cells, such as {"solver": "bmrm"}; other rows are left out.
- formats: an object from columns to formats, such as {"hinge": "{0:.1f}"} for the first of two numbers.
- bold: "max" or "min", the best of every column; or an object from columns to "max" or "min".
- sort: the name of a column, with a minus sign for descending order.

Three other marks have the same end. ``<!-- records: malware, text -->`` lists commands, data and
sources. ``<!-- text`` starts a text with references such as ``{malware/detected > FAdd > K = 10}``; a
format may follow, ``{malware/detected > FAdd > K = 10 :.0f}``, and applies to the first number.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from records import FOLDER, Cell, Column, Record, Table

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
# Pages whose sentences have no decimal numbers but those of their tables.
CHECKED = [
    *(DOCS.glob("evidence/*.md")),
    *(DOCS.glob("papers/*.md")),
    *(DOCS / f"{name}.md" for name in ("choose", "comparison", "faq", "limits")),
    *(
        DOCS / f"guide/{name}.md"
        for name in ("images", "malware", "molecules", "sequences", "texts", "words")
    ),
]
PUBLISHED = {"images.md": {"5.03", "2.28"}}  # errors of papers
DECIMAL = re.compile(r"(?<![\w.])\d+\.\d+(?![\w.]|-\d)")
MARK = re.compile(
    r"(?P<start><!-- (?P<kind>table|records|text)\b:?(?P<content>.*?)-->\n).*?(?P<end>\n?<!-- end -->)",
    flags=re.DOTALL,
)
REFERENCE = re.compile(
    r"\{(?P<table>[\w/]+) > (?P<row>[^{}>]+) > (?P<column>[^{}>]+?)(?P<spec> :[^{}]+)?\}"
)
NO_BREAK = "\N{NO-BREAK SPACE}"

record_of = cache(Record.read)


def table_of(path: str) -> Table:
    name, _, key = path.partition("/")
    tables = record_of(name).tables
    if key not in tables:
        raise KeyError(f"no table {key!r} in record {name!r}; its tables are {', '.join(tables)}")
    return tables[key]


def render(table: Table, options: dict[str, Any]) -> str:
    """Write a table as Markdown."""
    table = _sorted(_where(table, options.get("where", {})), options.get("sort", ""))
    rows = _chosen(options.get("rows"), table.names())
    columns = _chosen(options.get("columns"), table.headers())
    first = table.columns[0].name
    heading = columns.pop(first, first)
    shown = {name: table.column(name) for name in columns}
    formats = options.get("formats", {})
    kept = [row for name in rows for row in table.rows if row[0] == name]
    cells = [[rows[str(row[0])] for row in kept]]
    for name, (number, column) in shown.items():
        layout = Column(name, column.unit, formats.get(name, column.format))
        values = [row[number] for row in kept]
        best = _best(values, options.get("bold"), name)
        texts = [layout.text(value) for value in values]
        cells.append([f"**{text}**" if text in {texts[i] for i in best} else text for text in texts])
    heads = [
        heading,
        *(columns[name] + column.heading[len(name) :] for name, (_, column) in shown.items()),
    ]
    lines = [
        heads,
        ["---", *("--:" if c.format else "---" for _, c in shown.values())],
        *zip(*cells, strict=True),
    ]
    return "\n".join(f"| {' | '.join(_in_table(cell) for cell in line)} |" for line in lines)


def _chosen(wanted: Any, known: Sequence[str]) -> dict[str, str]:
    """Names of the record and their names in the page, in the order of the page."""
    if wanted is None:
        return {name: name for name in known}
    chosen = dict(wanted) if isinstance(wanted, dict) else {name: name for name in wanted}
    if unknown := [name for name in chosen if name not in known]:
        raise KeyError(f"no {unknown} in the table, which has {list(known)}")
    return chosen


def _best(values: Sequence[Cell], bold: Any, name: str) -> list[int]:
    """The places of the best value of a column, none if it has no numbers."""
    wanted = bold.get(name) if isinstance(bold, dict) else bold
    firsts = [value[0] if isinstance(value, list) else value for value in values]
    numbers = {i: one for i, one in enumerate(firsts) if isinstance(one, (int, float))}
    if not wanted or not numbers:
        return []
    best = {"max": max, "min": min}[wanted](numbers.values())
    return [i for i, one in numbers.items() if one == best]


def _where(table: Table, cells: dict[str, Cell]) -> Table:
    wanted = {table.column(name)[0]: cell for name, cell in cells.items()}
    kept = [row for row in table.rows if all(row[i] == cell for i, cell in wanted.items())]
    return Table(table.title, table.columns, kept)


def _sorted(table: Table, by: str) -> Table:
    if not by:
        return table
    number, _ = table.column(by.removeprefix("-"))
    firsts = {
        id(row): row[number][0] if isinstance(row[number], list) else row[number] for row in table.rows
    }
    rows = sorted(table.rows, key=lambda row: firsts[id(row)], reverse=by.startswith("-"))
    return Table(table.title, table.columns, rows)


def _in_table(text: str) -> str:
    """Escape bars, and keep "1.0 ± 0.1" and "K = 10" on one line."""
    return re.sub(r" ([±=/]) ", rf"{NO_BREAK}\1{NO_BREAK}", re.sub(r"(?<!\\)\|", r"\\|", text))


def sources(names: Sequence[str]) -> str:
    """Write a table of commands, data and sources of records."""
    lines = [["Command", "Data, seeds and origin"], ["---"] * 2]
    for name in names:
        record = record_of(name)
        measured = f"measured on {record.date}"
        transcribed = record.source.replace("from docs/results.md at ", "at ")
        parts = [
            record.data,
            record.seeds and f"seeds: {record.seeds}",
            measured if record.source == "measured" else transcribed,
            record.machine,
            record.versions,
        ]
        lines.append([f"`{record.command}`", "; ".join(part for part in parts if part)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def resolved(text: str) -> str:
    """Replace the references of a text by the cells, and keep percent signs on their lines."""
    return REFERENCE.sub(_referenced, text).replace(" %", f"{NO_BREAK}%")


def _referenced(match: re.Match[str]) -> str:
    table = table_of(match["table"])
    cell, (_, column) = table.cell(match["row"], match["column"]), table.column(match["column"])
    if match["spec"] is None:
        return _in_table(column.text(cell))
    return format(cell[0] if isinstance(cell, list) else cell, match["spec"].removeprefix(" :"))


def _content(kind: str, content: str) -> str:
    if kind == "records":
        return sources(content.replace(",", " ").split())
    if kind == "text":
        return resolved(content.strip("\n"))
    path, _, options = content.strip().partition(" ")
    path, options = content.split(None, 1) if len(content.split(None, 1)) == 2 else (content.strip(), "")
    return render(table_of(path), json.loads(options or "{}"))


def with_tables(page: str) -> str:
    """The text of a page with all marked tables written again."""
    return MARK.sub(lambda m: f"{m['start']}{_content(m['kind'], m['content'])}\n<!-- end -->", page)


def loose_numbers(path: Path) -> list[str]:
    """Decimal numbers in the sentences of a page that are neither in its tables nor filled in."""
    text = path.read_text(encoding="utf-8")
    filled = " ".join(resolved(match[0]) for match in REFERENCE.finditer(text))
    lines = re.sub(r"<!--.*?-->", "", text, flags=re.S).splitlines()
    shown = set(DECIMAL.findall("\n".join([filled, *(line for line in lines if line.startswith("|"))])))
    prose = "\n".join(line for line in lines if not line.startswith("|"))
    prose = re.sub(r"```.*?```|`[^`]*`|\]\([^)]*\)|[Ss]ection [\d.]+", "", prose, flags=re.S)
    return sorted(set(DECIMAL.findall(prose)) - shown - PUBLISHED.get(path.name, set()))


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


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="write nothing; exit with 1 if a page or a record is wrong",
    )
    options = parser.parse_args(arguments)
    differ = []
    for path in sorted(DOCS.rglob("*.md")):
        old = path.read_text(encoding="utf-8")
        if (new := with_tables(old)) != old:
            differ.append(path)
            if not options.check:
                path.write_text(new, encoding="utf-8")
    found = [f"{'differs' if options.check else 'written'}: {path}" for path in differ]
    if options.check:
        found += [
            f"{path}: {number} is in no table" for path in CHECKED for number in loose_numbers(path)
        ]
        names = sorted(path.stem for path in FOLDER.glob("*.json"))
        found += [f"{name}: {fault}" for name in names for fault in faults(name)]
    print("\n".join(found))
    return int(options.check and bool(found))


if __name__ == "__main__":
    sys.exit(main())
