"""Options, tables, records and tests between classifiers for the benchmarks."""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from records import Record, Table
from scipy.stats import binomtest


def parser_of(
    description: str | None, rows: Sequence[str] = (), repeats: int | None = None, data: str = ""
) -> argparse.ArgumentParser:
    """A parser with ``--record``; with ``--rows``, ``--repeats`` and ``--data`` if there are such."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    if rows:
        parser.add_argument("--rows", nargs="+", choices=rows, default=list(rows))
    if repeats is not None:
        parser.add_argument("--repeats", type=int, default=repeats)
    if data:
        parser.add_argument(
            "--data",
            type=Path,
            default=Path(os.environ.get("STRUCTINV_DATA", "../shared/data")),
            help=f"folder with {data} (default: $STRUCTINV_DATA or ../shared/data)",
        )
    parser.add_argument("--record", type=Path, help="file, such as benchmarks/records/NAME.json")
    return parser


def require(folder: Path, *files: Path) -> None:
    """End the process with one line if a file that is needed is absent."""
    for file in files:
        if not (folder / file).is_file():
            print(f"skipped: {folder / file} is absent (set --data or STRUCTINV_DATA)")
            sys.exit(0)


@dataclass
class Line:
    """A row of the table; times are in seconds unless stated in the row."""

    work: str
    ours: float
    reference: float
    ratio: float
    note: str = ""

    def cells(self) -> list[str]:
        """The line as text."""
        numbers = [_short(self.ours), _short(self.reference), _short(self.ratio)]
        return [self.work, *numbers]


def _short(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def show(title: str, lines: Sequence[Line], path: Path | None, data: str, **points: Any) -> None:
    """Print rows as a table with their notes, and write a record to `path` if given."""
    head = ["work", "structinv", "reference", "ratio"]
    print(table(title, head, [line.cells() for line in lines], key="work"))
    notes = {line.work: line.note for line in lines if line.note}
    print("\n".join(f"{work}: {note}" for work, note in notes.items()))
    write_record(path, data, notes=notes, **points)


_printed: dict[str, Table] = {}


def table(title: str, headers: Sequence[str], rows: Sequence[Sequence[Any]], key: str = "") -> str:
    """Lay out a table as text, and keep it for the record of this run under `key`.

    The first column is to the left, the others to the right. The default key is made of the title.
    """
    cells = [[str(cell) for cell in row] for row in (headers, *rows)]
    _printed[key or "_".join(re.findall(r"[a-z0-9]+", title.lower()))] = Table.of_texts(
        " ".join(title.split()), headers, cells[1:]
    )
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(
            [row[0].ljust(widths[0])]
            + [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        )
        for row in cells
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join([title, "", *lines, ""])


def write_record(path: Path | None, data: str, seeds: str = "", **points: Any) -> None:
    """Write all tables of this run, with its command and versions, if a path is given."""
    if path is not None:
        options = sys.argv[1:]
        for file in ("--record", "--state"):
            if file in options:
                at = options.index(file)
                del options[at : at + 2]
        script = Path(sys.argv[0])
        command = ["python", f"{script.parent.name}/{script.name}", *options]
        Record(
            source="measured",
            command=" ".join(command),
            data=data,
            seeds=seeds,
            date=date.today().isoformat(),
            versions=versions(),
            machine=f"{os.cpu_count()} processors",
            tables=dict(_printed),
            points=points,
        ).write(path)


def mean_text(values: Any, form: str = ".1f") -> str:
    """Mean and standard error of runs, as text."""
    mean = f"{np.mean(values):{form}}"
    if len(values) < 2:
        return mean
    return f"{mean} ± {np.std(values, ddof=1) / np.sqrt(len(values)):{form.lstrip('+')}}"


def mcnemar(first_alone: int, second_alone: int) -> float:
    """Return the exact two-sided p value from the two counts of discordant pairs."""
    total = first_alone + second_alone
    return float(binomtest(first_alone, total).pvalue) if total else 1.0


def versions() -> str:
    """One line with the versions that the numbers depend on."""
    packages = ("numpy", "scipy", "numba", "scikit-learn")
    parts = [f"Python {platform.python_version()}", *(f"{one} {version(one)}" for one in packages)]
    return ", ".join(parts)


def write_json(path: Path, content: Any) -> None:
    """Write the state of a run that may be continued."""
    path.write_text(json.dumps(content, indent=1, default=_plain) + "\n", encoding="utf-8")


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else str(value)
