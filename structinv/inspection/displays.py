"""Plots of certificates and of convergence; they need the extra "plot"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullFormatter, PercentFormatter

Curves = Mapping[str, tuple[Sequence[int], Sequence[float]]]


def draw_certified(panels: Mapping[str, Curves], path: Path) -> Path:
    """Certified accuracy against the number of edits: a panel per test set, a line per model."""

    figure, row = _row_of_axes(len(panels), sharey=True)
    for axes, (title, curves) in zip(row, panels.items(), strict=True):
        for name, (edits, shares) in curves.items():
            axes.plot(edits, shares, marker="o", markersize=3, label=name)
        axes.set(title=title, xlabel="words (pixels) dropped", ylim=(-0.02, 1.02))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
        axes.legend()
    row[0].set_ylabel("certified accuracy")
    figure.savefig(path, dpi=150)
    return path


def draw_gaps(panels: Mapping[str, Mapping[str, Sequence[Any]]], path: Path) -> Path:
    """Relative gap against time: a panel per group of runs, a line per run's history."""
    figure, row = _row_of_axes(len(panels), sharey=True)
    for axes, (title, histories) in zip(row, panels.items(), strict=True):
        for name, records in histories.items():
            seconds, gaps = gap_curve(records)
            axes.plot(seconds, gaps, marker=".", markersize=4, label=name)
        axes.set(title=title, xlabel="seconds", xscale="log", yscale="log")
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.legend(fontsize="small")
    row[0].set_ylabel("relative gap")
    figure.savefig(path, dpi=150)
    return path


def gap_curve(records: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Seconds and relative gap of the best primal and dual values so far."""
    seconds = np.array([record.seconds for record in records])
    primal = np.minimum.accumulate([record.primal for record in records])
    dual = np.maximum.accumulate([record.dual for record in records])
    return seconds, np.maximum(primal - dual, 1e-12 * primal) / primal


def _row_of_axes(count: int, sharey: bool) -> tuple[Figure, list[Axes]]:
    from matplotlib.figure import Figure

    # A figure of its own, not pyplot: no display and no global state.
    figure = Figure(figsize=(4.2 * count, 3.6), layout="constrained")
    return figure, list(np.ravel(figure.subplots(1, count, sharey=sharey, squeeze=False)))
