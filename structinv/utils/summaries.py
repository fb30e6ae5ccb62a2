"""Readable results: tables and HTML for `repr`, notebooks and reports."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from textwrap import shorten
from typing import Any

import numpy as np

from .texts import Part, shortened, shown, visible

# On narrow screens texts wrap, also within long words; names and numbers do not.
_TEXT = "; min-width: 5em; overflow-wrap: anywhere"
# Tables scroll in their own box, so that a page never does.
_BOX = "overflow-x: auto; max-width: 100%"
_CELL = "padding: 0.15em 0.6em; vertical-align: top"
# An edit differs from other text in its line, its weight and its brackets, also without colors.
_MARKS = {
    "deleted": ('<del style="text-decoration: line-through 0.12em">[-', "-]</del>"),
    "rescaled": ('<u style="text-decoration: underline dotted 0.12em">[~', "~]</u>"),
    "inserted": ('<ins style="text-decoration: underline 0.12em; font-weight: bold">{+', "+}</ins>"),
}
# Longer texts between edits lose their middle.
_MOST_KEPT = 600


class Html(str):
    """HTML that is already escaped; `escaped` and templates leave it unchanged."""

    def __html__(self) -> str:
        """Return the text, as the protocol of template engines requires."""
        return self


def escaped(text: object) -> str:
    """Escape text for HTML, and show invisible characters as escape sequences.

    Control characters, and characters that hide or reorder text, appear as in a string of Python.
    Attackers use them to make an edit invisible.
    """
    return text if isinstance(text, Html) else escape(visible(str(text)))


def html_table(rows: Iterable[Sequence[str]], columns: Sequence[str], left: Collection[int]) -> str:
    """Return an HTML table in a box that scrolls, with `left` columns aligned left."""

    def cells(tag: str, texts: Sequence[str]) -> str:
        found = []
        for place, text in enumerate(texts):
            name = "td" if tag == "td" and place else "th"
            scope = f' scope="{"col" if tag == "th" else "row"}"' if name == "th" else ""
            style = f"text-align: {'left' if place in left else 'right'}; {_CELL}"
            style += _TEXT if name == "td" and place in left else ""
            found.append(f'<{name}{scope} style="{style}">{escaped(text)}</{name}>')
        return f"<tr>{''.join(found)}</tr>"

    head = f"<thead>{cells('th', columns)}</thead>" if columns else ""
    body = "".join(cells("td", row) for row in rows)
    return f'<div style="{_BOX}"><table>{head}<tbody>{body}</tbody></table></div>'


def paragraphs(texts: Iterable[str]) -> str:
    """Return one paragraph for each text."""
    return "".join(f"<p>{escaped(text)}</p>" for text in texts)


def marked(parts: Iterable[Part]) -> Html:
    """Return a text with its edits marked.

    Shapes: `parts` (kind, text).
    """
    pieces = []
    for kind, text in parts:
        before, after = _MARKS.get(kind, ("", ""))
        pieces.append(f"{before}{escaped(shortened(text, _MOST_KEPT))}{after}" if text else "")
    style = "white-space: pre-wrap; overflow-wrap: anywhere"
    return Html(f'<p dir="auto" style="{style}">{"".join(pieces)}</p>')


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
        title = f"<strong>{escaped(self.title)}</strong>" if self.title else ""
        table = html_table(rows, columns, self.left) if rows else ""
        return f"<div>{title}{table}{paragraphs(self.notes)}{''.join(more)}</div>"

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
