"""Tables and plots of the settings of a grid."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from ..inspection.figures import row_of_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANELS = {"clean": "clean accuracy", "certified": "certified accuracy"}


def columns_of(settings: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a table with ``params``, and ``param_<name>`` or None for each name."""
    table: dict[str, Any] = {"params": settings}
    for name in dict.fromkeys(name for setting in settings for name in setting):
        table[f"param_{name}"] = np.empty(len(settings), dtype=object)
        table[f"param_{name}"][:] = [setting.get(name) for setting in settings]
    return table


def plot_settings(
    table: dict[str, Any],
    best: int,
    panels: dict[str, str] = PANELS,
    shares: bool = True,
    ax: Any = None,
) -> list[Axes]:
    """Plot panels over the oracle's parameter, with one line per other setting."""
    from matplotlib.ticker import PercentFormatter

    names = [name.removeprefix("param_") for name in table if name.startswith("param_")]
    along = next((name for name in names if "oracle" in name.split("__")), names[0])
    values = [_short(value) for value in table[f"param_{along}"]]
    ticks = list(dict.fromkeys(values))
    others = [name for name in names if name != along]
    shown = {name.rpartition("oracle__")[2]: table[f"param_{name}"] for name in others}
    labels = np.array([
        ", ".join(f"{name}={_short(column[n])}" for name, column in shown.items())
        for n in range(len(values))
    ])  # fmt: skip
    lines = list(dict.fromkeys(labels.tolist()))
    row = row_of_axes(ax, len(panels), 4.2, sharey=True, titles=list(panels.values()))
    for axes, (column, title) in zip(row, panels.items(), strict=True):
        for number, line in enumerate(lines):
            chosen = np.flatnonzero(labels == line)
            # Small offsets keep the bars of equal lines visible.
            aside = 0.06 * (number - 0.5 * (len(lines) - 1)) / max(1, len(lines) / 6)
            places = np.array([ticks.index(values[n]) for n in chosen]) + aside
            heights, errors = table[column][chosen], table[f"{column}_error"][chosen]
            style: dict[str, Any] = {"marker": "osD^vP"[number % 6], "markersize": 4, "capsize": 2}
            axes.errorbar(places, heights, yerr=errors, label=line, color=f"C{number % 10}", **style)
            if best in chosen:
                here = int(np.flatnonzero(chosen == best)[0])
                star: dict[str, Any] = {"marker": "*", "markersize": 14, "markerfacecolor": "none"}
                star["color"] = "black"
                axes.plot(places[here], heights[here], linestyle="none", label="best", **star)
        axes.set(title=title, xlabel=along, xticks=range(len(ticks)), xticklabels=ticks)
        if shares:
            axes.yaxis.set_major_formatter(PercentFormatter(1.0))
        axes.grid(alpha=0.3)
    handles = dict(zip(*row[0].get_legend_handles_labels()[::-1], strict=True))
    handles.pop("", None)
    if ax is not None:
        row[-1].legend(handles.values(), handles, fontsize="small")
        return row
    figure: Any = row[0].figure
    # Widths in inches: about 1/12 for a letter, and 1/2 for the line in front of a name.
    width = figure.get_figwidth() - 0.5
    names = [fill(name, int(12 * width) - 6) for name in handles]
    longest = max(len(part) for name in names for part in name.split("\n"))
    columns = int(np.clip(width / (0.5 + longest / 12), 1, min(len(names), 5)))
    figure.legend(handles.values(), names, loc="outside lower center", ncols=columns)
    return row


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 24 else text[:21] + "..."
