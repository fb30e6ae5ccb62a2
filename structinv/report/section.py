"""Sections of a report: titles with paragraphs, tables and pictures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..utils import html
from ..utils.html import Html

# Quantile of the normal distribution for intervals with a coverage of 95 %.
_QUANTILE = 1.959963984540054


@dataclass(frozen=True)
class Section:
    """Part of a report.

    - `key`: anchor of links to the section
    - `title`: heading
    - `content`: paragraphs as text, and tables or pictures as HTML
    """

    key: str
    title: str
    content: Sequence[str | Html]


def table(
    rows: Iterable[Sequence[object]], columns: Sequence[str] = (), *, left: Iterable[int] = (0,)
) -> Html:
    """Return a table; see `structinv.utils.html.table`."""
    return Html(html.table(rows, columns, left=left, row_names=True))


def facts(values: Mapping[str, object]) -> Html:
    """Return a table of names and values."""
    return table(values.items(), left=(0, 1))


def bullets(texts: Iterable[tuple[str, str]]) -> Html:
    """Return a list of texts, each with a heading; an empty heading is left out."""
    items = []
    for heading, text in texts:
        bold = f"<strong>{html.escaped(heading)}.</strong> " if heading else ""
        items.append(f"<li>{bold}{html.escaped(text)}</li>")
    return Html(f"<ul>{''.join(items)}</ul>")


def percent(fraction: float) -> str:
    """Format a fraction as a percentage with one digit."""
    return f"{100 * fraction:.1f} %"


def share(which: np.ndarray) -> str:
    """Format the fraction of true values, or a dash if there are no values."""
    return percent(float(np.mean(which))) if len(which) else "-"


def interval(which: np.ndarray) -> str:
    """Format the 95 % interval of Wilson (1927) of a fraction."""
    n, mean, z = len(which), float(np.mean(which)), _QUANTILE
    middle = (mean + z * z / (2 * n)) / (1 + z * z / n)
    reach = z / (1 + z * z / n) * np.sqrt(mean * (1 - mean) / n + z * z / (4 * n * n))
    return f"{percent(max(0.0, middle - reach))} to {percent(min(1.0, middle + reach))}"
