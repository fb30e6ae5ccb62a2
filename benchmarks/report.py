"""Plain tables, JSON, and the test between two classifiers for the benchmarks."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binomtest


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
    """The exact two-sided p value from how many rows only one of two classifiers gets right."""
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
