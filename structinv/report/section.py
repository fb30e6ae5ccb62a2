"""Sections of a report: titles with paragraphs, tables and pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from ..estimators.target_labels import label_name
from ..utils.html import Html, escaped
from ..utils.summaries import Table, percent

# Quantile of the normal distribution for intervals with a coverage of 95 %.
_QUANTILE = 1.959963984540054

# Paragraphs as text, tables, and pictures as HTML.
Content: TypeAlias = Sequence[str | Table | Html]


@dataclass(frozen=True)
class Section:
    """Part of a report.

    - `key`: anchor of links to the section
    - `title`: heading
    - `content`: paragraphs, tables and pictures
    """

    key: str
    title: str
    content: Content


def heading(text: str) -> Html:
    """Return a heading inside a section."""
    return Html(f"<h3>{escaped(text)}</h3>")


def label_table(labels: np.ndarray, counts: np.ndarray, noun: str) -> Table:
    """Return the number and the share of each label."""
    rows = [
        (label_name(label), str(count), percent(count / counts.sum()))
        for label, count in zip(labels, counts, strict=True)
    ]
    return Table("", ["label", noun, "share"], rows)


def share(which: np.ndarray) -> str:
    """Format the fraction of true values, or a dash if there are no values."""
    return percent(float(np.mean(which))) if len(which) else "-"


def interval(which: np.ndarray) -> str:
    """Format the 95 % interval of Wilson (1927) of a fraction."""
    n, mean, z = len(which), float(np.mean(which)), _QUANTILE
    middle = (mean + z * z / (2 * n)) / (1 + z * z / n)
    reach = z / (1 + z * z / n) * np.sqrt(mean * (1 - mean) / n + z * z / (4 * n * n))
    return f"{percent(max(0.0, middle - reach))} to {percent(min(1.0, middle + reach))}"
