"""Records of benchmarks: what was run, and tables of numbers with their formats.

A benchmark writes ``benchmarks/records/NAME.json`` with ``--record PATH`` (`report.write_record`). Pages
show its tables (`tables.py`), and `pictures.py` draws it. A record has these entries:

- source: "measured", or the document from which older numbers were transcribed,
- command, date, versions, machine, data, seeds: what was run,
- tables: by key, each with a title, columns and rows,
- points: other numbers, for pictures.

A column has a name, a unit and a format such as "{:.1f} ± {:.1f}". A cell is a number, a list of numbers
if the format has several, a text, or null. The first cell of a row is its name.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).with_name("records")
NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
LINE = 160
UNITS = ("%", "s", "GB", "MB", "MiB", "points")

Cell = float | list[float] | str | None


@dataclass
class Column:
    """Name, unit and format of the cells of a column; the format is empty for texts."""

    name: str
    unit: str = ""
    format: str = ""

    @property
    def heading(self) -> str:
        """The name with the unit."""
        return f"{self.name}, {self.unit}" if self.unit else self.name

    def text(self, cell: Cell) -> str:
        """The cell as text."""
        if cell is None:
            return ""
        if isinstance(cell, str):
            return cell
        return self.format.format(*(cell if isinstance(cell, list) else [cell]))


@dataclass
class Table:
    """Named rows of cells."""

    title: str
    columns: list[Column]
    rows: list[list[Cell]]

    @classmethod
    def of_texts(cls, title: str, headers: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
        """Find the numbers and their formats in the texts of a printed table."""
        texts = [[str(cell).strip() for cell in row] for row in rows]
        first = Column(headers[0])
        columns, cells = [first], [[row[0] for row in texts]]
        for number, header in enumerate(headers[1:], 1):
            layout, found = _numbers([row[number] for row in texts])
            name, _, unit = header.rpartition(", ")
            named = (name, unit) if name and unit in UNITS else (header, "")
            columns.append(Column(*named, layout))
            cells.append(found)
        return cls(title, columns, [list(row) for row in zip(*cells, strict=True)])

    def names(self) -> list[str]:
        """The names of the rows."""
        return [str(row[0]) for row in self.rows]

    def headers(self) -> list[str]:
        """The names of the columns; with the unit if an earlier column has the same name."""
        names = [column.name for column in self.columns]
        return [
            name if name not in names[:number] else self.columns[number].heading
            for number, name in enumerate(names)
        ]

    def column(self, name: str) -> tuple[int, Column]:
        """The column of this name, and its number."""
        headers = self.headers()
        if name not in headers:
            known = ", ".join(map(repr, headers))
            raise KeyError(f"no column {name!r} in table {self.title!r}; its columns are {known}")
        number = headers.index(name)
        return number, self.columns[number]

    def row(self, name: str) -> list[Cell]:
        """The first row of this name."""
        for row in self.rows:
            if row[0] == name:
                return row
        raise KeyError(f"no row {name!r} in table {self.title!r}; its rows are {self.names()}")

    def cell(self, row: str, column: str) -> Any:
        """The value in this row and column."""
        return self.row(row)[self.column(column)[0]]


@dataclass
class Record:
    """Tables of a benchmark, and what was run."""

    source: str
    command: str
    data: str
    seeds: str = ""
    date: str = ""
    versions: str = ""
    machine: str = ""
    tables: dict[str, Table] = field(default_factory=dict)
    points: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, name: str) -> Record:
        """The record of this name."""
        content = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
        tables = {
            key: Table(one["title"], [Column(**each) for each in one["columns"]], one["rows"])
            for key, one in content.pop("tables").items()
        }
        return cls(**content, tables=tables)

    def write(self, path: Path) -> None:
        """Write the record as JSON, with one line per row of a table."""
        content = json.loads(json.dumps(asdict(self), default=_plain))
        path.write_text(_laid_out(content) + "\n", encoding="utf-8")


def _laid_out(value: Any, indent: str = "") -> str:
    """JSON with values of up to 160 characters on one line."""
    line = json.dumps(value, ensure_ascii=False)
    is_flat = isinstance(value, list) and not any(isinstance(one, (list, dict)) for one in value)
    if len(line) <= LINE or is_flat or not isinstance(value, (list, dict)):
        return line
    inner = indent + " "
    if isinstance(value, dict):
        parts = [
            f"{json.dumps(key, ensure_ascii=False)}: {_laid_out(one, inner)}"
            for key, one in value.items()
        ]
    else:
        parts = [_laid_out(one, inner) for one in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    body = f",\n{inner}".join(parts)
    return f"{opening}\n{inner}{body}\n{indent}{closing}"


def _numbers(texts: Sequence[str]) -> tuple[str, list[Cell]]:
    """The format of a column, and its cells; texts of another format stay texts."""
    plain = [re.sub(r"\(\s+", "(", re.sub(r"\s+", " ", text)) for text in texts]
    layouts = Counter(NUMBER.sub("{}", text) for text in plain if NUMBER.search(text))
    kept = [layout for layout, _ in layouts.most_common() if not re.search(r"[A-Za-z]", layout)]
    if not kept:
        return "", [text or None for text in texts]
    pattern = re.compile(re.escape(kept[0]).replace(r"\{\}", f"({NUMBER.pattern})"))
    matches = [pattern.fullmatch(text) for text in plain]
    parts = zip(*(match.groups() for match in matches if match), strict=True)
    column = Column("", format=kept[0].format(*(f"{{:{_spec(part)}}}" for part in parts)))
    cells: list[Cell] = []
    for text, match in zip(plain, matches, strict=True):
        values = [_number(part) for part in match.groups()] if match else []
        cell: Cell = values[0] if len(values) == 1 else values
        cells.append(cell if values and column.text(cell) == text else text or None)
    return column.format, cells


def _spec(texts: Sequence[str]) -> str:
    """The format that reproduces the most of these numbers."""
    digits = Counter(len(text.partition("e")[0].partition(".")[2]) for text in texts).most_common(1)[0][
        0
    ]
    kinds = [f"{sign}.{digits}{kind}" for sign in ("", "+") for kind in "fe"]
    kinds += [f"{sign}.{significant}g" for sign in ("", "+") for significant in range(2, 12)]
    return max(kinds, key=lambda kind: sum(format(float(text), kind) == text for text in texts))


def _number(text: str) -> float:
    return int(text) if re.fullmatch(r"[-+]?\d+", text) else float(text)


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)
