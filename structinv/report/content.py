"""Parts of sections: tables of labels, fractions and pictures."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from io import StringIO
from typing import Any, TypeAlias

import numpy as np
from scipy.stats import binomtest

from ..estimators.inputs import label_name
from ..utils.matrices import best_first
from ..utils.summaries import Html, Table, escaped, how_many, percent

# Paragraphs as text, tables, and pictures as HTML.
Content: TypeAlias = Sequence[str | Table | Html]

# Columns of tables, in this order, for the worst perturbation found and for every perturbation.
MEASURES = "attacked", "certified"
# Features in a list of decisive features.
MOST_FEATURES = 12
# An effect below this share of the largest one counts as none.
_NO_EFFECT = 1e-6
# A fit within its tolerance leaves small weights that the optimum does not have.
_SMALL_EFFECT = 0.01

# Each color is readable on white and on black.
COLORS = ("#0072B2", "#D55E00")
# It stands for the color of the page's text, which matplotlib does not know.
_INK = "#010203"
_STYLE: dict[str, Any] = {
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor"), _INK),
    **dict.fromkeys(("xtick.color", "ytick.color"), _INK),
    **dict.fromkeys(("figure.facecolor", "axes.facecolor"), "none"),
    **dict.fromkeys(("axes.spines.top", "axes.spines.right", "legend.frameon"), False),
    **{"svg.fonttype": "none", "image.composite_image": False, "savefig.dpi": 200},
    # Dollar signs of labels are no formulas.
    "text.parse_math": False,
}
# Without them, the file depends on the data only.
_NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))


def label_table(labels: np.ndarray, counts: np.ndarray, noun: str) -> Table:
    """Return the number and the share of each label."""
    rows = [
        (label_name(label), str(count), percent(count / counts.sum()))
        for label, count in zip(labels, counts, strict=True)
    ]
    return Table("", ["label", noun, "share"], rows)


def feature_table(
    column: str, names: Sequence[str], effects: np.ndarray, name: Callable[[int], str]
) -> Table:
    """Return the features with the largest effects on the score of each class.

    Shapes: `effects` (n_classes, n_features).
    """
    rows = []
    for label, row in zip(names, effects, strict=True):
        # Rounding errors of weights are not effects.
        least = _NO_EFFECT * np.abs(row).max(initial=0.0)
        best = [int(k) for k in best_first(row)[:MOST_FEATURES] if row[k] > least]
        rows.append((label, ", ".join(f"{name(k)} ({row[k]:.3g})" for k in best) or "none"))
    return Table("", ["class", column], rows, left=(0, 1))


def features_with_effect(effects: np.ndarray) -> str:
    """Return a sentence on the number of features with effects that are not small.

    Shapes: `effects` (n_classes, n_features).
    """
    largest = np.abs(effects).max(axis=0)
    which = (largest > 0) & (largest >= _SMALL_EFFECT * largest.max(initial=0.0))
    verb = "has" if np.count_nonzero(which) == 1 else "have"
    least = f"at least {100 * _SMALL_EFFECT:.0f} % of the largest one"
    return f"{how_many(which)} features {verb} an effect of {least}."


def without_equal_columns(table: Table, noun: str) -> list[str | Table]:
    """Return a table without the column "attacked" if it equals "certified".

    A sentence then follows, which has the noun of the values.
    """
    attacked, certified = (list(table.columns).index(name) for name in MEASURES)
    if any(row[attacked] != row[certified] for row in table.rows):
        return [table]
    columns, *rows = (
        [cell for place, cell in enumerate(row) if place != attacked]
        for row in (table.columns, *table.rows)
    )
    return [replace(table, columns=columns, rows=rows), f"The attacked {noun} equal the certified ones."]


def share(which: np.ndarray) -> str:
    """Format the fraction of true values, or a dash if there are no values."""
    return percent(float(np.mean(which))) if len(which) else "-"


def interval(which: np.ndarray) -> str:
    """Format the 95 % interval of Wilson (1927) of a fraction."""
    found = binomtest(np.count_nonzero(which), len(which)).proportion_ci(method="wilson")
    return f"{percent(found.low)} to {percent(found.high)}"


def picture(draw: Callable[[Any], object], alt: str, width: float = 5.0, height: float = 3.0) -> Html:
    """Return the figure that `draw` fills, as an SVG element of this size in inches."""
    import matplotlib.style
    from matplotlib.figure import Figure

    stream = StringIO()
    style = matplotlib.style.context(["default", _STYLE, {"svg.hashsalt": alt}])
    with style, warnings.catch_warnings():
        # Browsers have the letters that a font of matplotlib lacks.
        warnings.filterwarnings("ignore", "Glyph")
        figure = Figure(figsize=(width, height), layout="constrained")
        draw(figure)
        figure.savefig(stream, format="svg", metadata=_NO_METADATA)
    _, start, rest = stream.getvalue().partition("<svg ")
    # Identifiers of groups would repeat in the next picture.
    content = re.sub(r'<g id="\w+_\d+">', "<g>", rest).replace(_INK, "currentColor")
    return Html(f'{start}role="img" aria-label="{escaped(alt)}" {content}')
