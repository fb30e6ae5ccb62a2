"""Readable results: one description for the `repr` and for the HTML of notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from textwrap import shorten
from typing import Any

import numpy as np

from . import html
from .visible import shown, visible

# Longer cells of a printed table, such as names of features, lose their middle.
_MOST_OF_A_CELL = 100


@dataclass(frozen=True)
class Summary:
    """Title, named values and notes of a result.

    - `title`: first line, such as "Certificate of 200 samples"
    - `values`: values by name, already formatted
    - `notes`: sentences below the values, such as advice
    """

    title: str
    values: dict[str, str]
    notes: list[str] = field(default_factory=list)

    def text(self) -> str:
        """Return the lines of the `repr`."""
        width = max(map(len, self.values), default=0)
        lines = [f"  {name:<{width}}  {value}" for name, value in self.values.items()]
        return visible("\n".join([self.title, *lines, *self.notes]))

    def html(self, *figures: str) -> str:
        """Return an HTML table with the title above it, and notes and figures below."""
        rows = html.table(self.values.items(), left=(0, 1), row_names=True) if self.values else ""
        return _titled(self.title, rows, html.paragraphs(self.notes), *figures)


@dataclass(frozen=True)
class Table:
    """Title, columns and rows of a result, with notes.

    - `title`: first line
    - `columns`: header; empty for none
    - `rows`: cells, already formatted
    - `notes`: lines below the rows
    - `left` (0,): numbers of the columns that are aligned left; the others are aligned right
    - `indent`: blanks in front of each row of the `repr`
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: list[str] = field(default_factory=list)
    left: tuple[int, ...] = (0,)
    indent: str = "  "

    def text(self) -> str:
        """Return the lines of the `repr`."""
        rows = [*([self.columns] if self.columns else []), *self.rows]
        cells = [[shown(cell, _MOST_OF_A_CELL) for cell in row] for row in rows]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = [self.indent + "  ".join(self._padded(row, widths)).rstrip() for row in cells]
        return "\n".join([visible(self.title), *lines, *map(visible, self.notes)])

    def _padded(self, row: Sequence[str], widths: list[int]) -> list[str]:
        return [
            cell.ljust(width) if place in self.left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]

    def html(self, *figures: str) -> str:
        """Return an HTML table with the title above it, and notes and figures below."""
        rows = [[cell.strip() for cell in row] for row in self.rows]
        columns = [name.strip() for name in self.columns]
        content = html.table(rows, columns, left=self.left) if rows else ""
        return _titled(self.title, content, html.paragraphs(self.notes), *figures)


def _titled(title: str, *content: str) -> str:
    return f"<div><strong>{html.escaped(title)}</strong>{''.join(content)}</div>"


class Summarized:
    """Mixin of results with a readable `repr` and an HTML one."""

    def _summary(self) -> Summary:
        raise NotImplementedError

    def __repr__(self) -> str:
        return self._summary().text()

    def _repr_html_(self) -> str:
        return self._summary().html()


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


def share(which: np.ndarray) -> str:
    """Format the share of true values with their number, such as "0.75 (3 of 4)"."""
    return f"{np.mean(which):.4g} ({how_many(which)})"


def how_many(which: np.ndarray) -> str:
    """Format the number of true values, such as "3 of 4"."""
    return f"{np.count_nonzero(which)} of {len(which)}"


def one_line(value: Any) -> str:
    """Return the `repr` in one line of at most 80 characters."""
    return shorten(repr(value), 80, placeholder=" ...")
