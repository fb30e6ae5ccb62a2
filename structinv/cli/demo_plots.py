"""Plots of the demonstration; they require the extra "plot"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..inspection.figures import row_of_axes, saved, single_axes
from ..solvers.base import Record


class Errors(NamedTuple):
    """Test error and number of support vectors for each size of the training set."""

    sizes: list[int]
    errors: np.ndarray
    error_sems: np.ndarray
    supports: np.ndarray
    support_sems: np.ndarray


def plot_certified(
    panels: Mapping[str, Mapping[str, tuple[list[int], list[float]]]], path: Path
) -> None:
    """Plot certified accuracy against the number of edits.

    Each test set has a panel, each model a line.
    """
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    row = row_of_axes(None, len(panels), 4.2, sharey=True)
    for axes, (title, curves) in zip(row, panels.items(), strict=True):
        for name, (edits, accuracies) in curves.items():
            axes.plot(edits, accuracies, marker="o", markersize=3, label=name)
        axes.set(title=title, xlabel="removed words (pixels)", ylim=(-0.02, 1.02))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
        axes.legend()
    row[0].set_ylabel("certified accuracy")
    saved(row[0].figure, path)


def plot_gaps(title: str, histories: Mapping[str, Sequence[Record]], path: Path) -> None:
    """Plot the relative gap of the best values so far against time, one line per run."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axes = single_axes(None, 4.2, 3.6)
    for name, records in histories.items():
        primal = np.minimum.accumulate([record.primal for record in records])
        dual = np.maximum.accumulate([record.dual for record in records])
        gaps = np.maximum(primal - dual, 1e-12 * primal) / primal
        axes.plot([record.seconds for record in records], gaps, marker=".", markersize=4, label=name)
    axes.set(title=title, xlabel="seconds", ylabel="relative gap", xscale="log", yscale="log")
    # Short runs may contain no power of ten.
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.legend(fontsize="small")
    saved(axes.figure, path)


def plot_errors(curves: Mapping[str, Errors], path: Path) -> None:
    """Plot error and number of support vectors against the size of the training set.

    Each method has a line, with bars of one standard error. The layout follows figure 1 of Teo,
    Globerson, Roweis and Smola (2007).
    """
    from matplotlib.ticker import NullLocator, PercentFormatter

    left, right = row_of_axes(None, 2, 4.2)
    for number, (name, curve) in enumerate(curves.items()):
        # Small offsets keep the bars of equal curves visible.
        places = np.asarray(curve.sizes) * 1.02 ** (number - 0.5 * (len(curves) - 1))
        style: dict[str, Any] = {"marker": "osD^vP"[number % 6], "markersize": 4, "capsize": 2}
        left.errorbar(places, curve.errors, yerr=curve.error_sems, label=name, **style)
        right.errorbar(places, curve.supports, yerr=curve.support_sems, **style)
    sizes = sorted({float(size) for curve in curves.values() for size in curve.sizes})
    for axes, what in ((left, "test error"), (right, "support vectors")):
        axes.set(xlabel="training samples", ylabel=what, xscale="log")
        axes.set_xticks(sizes, [f"{size:g}" for size in sizes])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
    left.yaxis.set_major_formatter(PercentFormatter(1.0))
    left.figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    saved(left.figure, path)
