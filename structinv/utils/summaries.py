"""Readable summaries of results: the `repr`, and an HTML table for notebooks."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from textwrap import shorten
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Summary:
    """Title, named values and notes of a result.

    Parameters
    ----------
    title : str
        First line, such as "Certificate of 200 samples".
    values : dict of str
        Values by name, already formatted.
    notes : list of str, default=[]
        Sentences below the values, such as advice.

    Examples
    --------
    >>> print(Summary("Solution: converged", {"relative gap": "1e-04"}, ["No advice."]).text())
    Solution: converged
      relative gap  1e-04
    No advice.
    """

    title: str
    values: dict[str, str]
    notes: list[str] = field(default_factory=list)

    def text(self) -> str:
        """Return the lines of the `repr`."""
        width = max(map(len, self.values), default=0)
        lines = [f"  {name:<{width}}  {value}" for name, value in self.values.items()]
        return "\n".join([self.title, *lines, *self.notes])

    def html(self) -> str:
        """Return an HTML table with the title above it and the notes below."""
        rows = "".join(
            f'<tr><th style="text-align: left">{escape(name)}</th>'
            f'<td style="text-align: left">{escape(value)}</td></tr>'
            for name, value in self.values.items()
        )
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        return f"<div><strong>{escape(self.title)}</strong><table>{rows}</table>{notes}</div>"


class Summarized:
    """Mixin of results with a readable `repr` and an HTML one."""

    def _summary(self) -> Summary:
        raise NotImplementedError

    def __repr__(self) -> str:
        return self._summary().text()

    def _repr_html_(self) -> str:
        return self._summary().html()


class Tabulated:
    """Mixin of results whose `str` is a table: the `repr` is the same table."""

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


def number_of(number: int, one: str, several: str | None = None) -> str:
    """Format a number with its noun, such as "1 image" or "6 images".

    Examples
    --------
    >>> number_of(1, "image"), number_of(6, "image"), number_of(2, "class", "classes")
    ('1 image', '6 images', '2 classes')
    """
    return f"{number} {one if number == 1 else several or one + 's'}"


def share(which: np.ndarray) -> str:
    """Format the share of true values with their number, such as "0.75 (3 of 4)".

    Examples
    --------
    >>> share(np.array([True, True, False, True]))
    '0.75 (3 of 4)'
    """
    return f"{np.mean(which):.4g} ({how_many(which)})"


def how_many(which: np.ndarray) -> str:
    """Format the number of true values, such as "3 of 4".

    Examples
    --------
    >>> how_many(np.array([True, True, False, True]))
    '3 of 4'
    """
    return f"{np.count_nonzero(which)} of {len(which)}"


def one_line(value: Any) -> str:
    """Return the `repr` in one line of at most 80 characters.

    Examples
    --------
    >>> one_line(list(range(30)))
    '[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, ...'
    """
    return shorten(repr(value), 80, placeholder=" ...")
