"""Options, tables, JSON and tests between classifiers for the benchmarks."""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binomtest


def parser_of(
    description: str | None, rows: Sequence[str] = (), repeats: int | None = None
) -> argparse.ArgumentParser:
    """A parser with ``--json``; with ``--rows`` and ``--repeats`` if there are such."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    if rows:
        parser.add_argument("--rows", nargs="+", choices=rows, default=list(rows))
    if repeats is not None:
        parser.add_argument("--repeats", type=int, default=repeats)
    parser.add_argument("--json", type=Path, help="write the results to this file")
    return parser


@dataclass
class Line:
    """A row of the table; times are in seconds unless stated in the row."""

    work: str
    target: str
    aim: str
    ours: float
    reference: float
    ratio: float
    note: str = ""

    def cells(self) -> list[str]:
        """The line as text."""
        numbers = [_short(self.ours), _short(self.reference), _short(self.ratio)]
        return [self.work, self.target, self.aim, *numbers]


def _short(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def show(title: str, lines: Sequence[Line], path: Path | None, **content: Any) -> None:
    """Print rows as a table with their notes, and write them to `path` if given."""
    head = ["work", "target", "aim", "structinv", "reference", "ratio"]
    print(table(title, head, [line.cells() for line in lines]))
    print("\n".join(f"{line.work}: {line.note}" for line in lines if line.note))
    write_json(path, {"versions": versions(), **content, "lines": [asdict(line) for line in lines]})


def table(title: str, headers: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Lay out a table as text: the first column to the left, the others to the right."""
    cells = [[str(cell) for cell in row] for row in (headers, *rows)]
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


def mcnemar(first_alone: int, second_alone: int) -> float:
    """Return the exact two-sided p value from the two counts of discordant pairs."""
    total = first_alone + second_alone
    return float(binomtest(first_alone, total).pvalue) if total else 1.0


def versions() -> str:
    """One line with the versions that the numbers depend on."""
    packages = ("numpy", "scipy", "numba", "scikit-learn")
    parts = [f"Python {platform.python_version()}", *(f"{one} {version(one)}" for one in packages)]
    return ", ".join(parts)


def write_json(path: Path | None, content: Mapping[str, Any]) -> None:
    """Write results to a file, if one is wanted."""
    if path is not None:
        path.write_text(json.dumps(content, indent=1, default=_plain) + "\n", encoding="utf-8")


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else str(value)
