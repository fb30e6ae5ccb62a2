"""Readable results: tables for the `repr`, for notebooks and for reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import shorten
from typing import Any

import numpy as np

from . import html
from .texts import shown, visible

# Longer cells of a printed table, such as names of features, lose their middle.
_MOST_OF_A_CELL = 160


@dataclass(frozen=True)
class Table:
    """Title, columns and rows of a result, with notes.

    - `title`: first line; empty for none
    - `columns`: header; empty for none
    - `rows`: cells, already formatted
    - `notes`: lines below the rows
    - `left` (0,): numbers of the columns that are aligned left; the others are aligned right
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
    left: tuple[int, ...] = (0,)

    def text(self) -> str:
        """Return the lines of the `repr`."""
        rows = [*([self.columns] if self.columns else []), *self.rows]
        cells = [[shown(cell, _MOST_OF_A_CELL) for cell in row] for row in rows]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = ["  " + "  ".join(self._padded(row, widths)).rstrip() for row in cells]
        title = [visible(self.title)] if self.title else []
        return "\n".join([*title, *lines, *map(visible, self.notes)])

    def _padded(self, row: Sequence[str], widths: list[int]) -> list[str]:
        return [
            cell.ljust(width) if place in self.left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]

    def html(self, *more: str) -> str:
        """Return an HTML table with the title above it, and notes and more HTML below."""
        rows = [[cell.strip() for cell in row] for row in self.rows]
        columns = [name.strip() for name in self.columns]
        title = f"<strong>{html.escaped(self.title)}</strong>" if self.title else ""
        table = html.table(rows, columns, self.left) if rows else ""
        return f"<div>{title}{table}{html.paragraphs(self.notes)}{''.join(more)}</div>"

    def __html__(self) -> str:
        """Return the table for templates."""
        return self.html()


def named_values(title: str, values: Mapping[str, str], notes: Sequence[str] = ()) -> Table:
    """Return a table with one line for each named value."""
    return Table(title, (), list(values.items()), notes, left=(0, 1))


class Tabulated:
    """Mixin of results whose `repr`, `str` and HTML are a table."""

    def _table(self) -> Table:
        raise NotImplementedError

    def __str__(self) -> str:
        return self._table().text()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return self._table().html()


def number_of(number: int, one: str, several: str | None = None) -> str:
    """Format a number with its noun, such as "1 image" or "6 images"."""
    return f"{number} {one if number == 1 else several or one + 's'}"


def percent(fraction: float) -> str:
    """Format a fraction as a percentage with one digit, such as "75.9 %"."""
    return f"{100 * fraction:.1f} %"


def share(which: np.ndarray) -> str:
    """Format the share of true values with their number, such as "0.75 (3 of 4)"."""
    return f"{np.mean(which):.4g} ({how_many(which)})"


def how_many(which: np.ndarray) -> str:
    """Format the number of true values, such as "3 of 4"."""
    return f"{np.count_nonzero(which)} of {len(which)}"


def one_line(value: Any) -> str:
    """Return the `repr` in one line of at most 80 characters."""
    return shorten(repr(value), 80, placeholder=" ...")
