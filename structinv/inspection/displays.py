"""Plots of certificates, of convergence and of errors; they need the extra "plot"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .figures import row_of_axes, written

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Numbers = Sequence[float] | np.ndarray
Curves = Mapping[str, tuple[Sequence[int], Sequence[float]]]


@dataclass(frozen=True)
class Curve:
    """Error and number of support vectors of one method, against the size of the training set.

    Attributes
    ----------
    sizes : (k,) sequence or array of int
        Training rows.
    errors, error_sems : (k,) sequences or arrays of float
        Share of test rows predicted wrongly, in [0, 1]: the mean over draws of the training set, and
        its standard error.
    supports, support_sems : (k,) sequences or arrays of float
        Number of support vectors: mean and standard error.

    Raises
    ------
    ValueError
        If there are no sizes or one is not above 0, if lengths differ, or if a standard error is
        below 0 or none.

    Examples
    --------
    >>> Curve([50, 100], [0.2, 0.1], [0.02, 0.01], [45.0, 80.0], [1.0, 2.0]).sizes
    [50, 100]
    """

    sizes: Numbers
    errors: Numbers
    error_sems: Numbers
    supports: Numbers
    support_sems: Numbers

    def __post_init__(self) -> None:
        count = len(self.sizes)
        if not count:
            raise ValueError("sizes must hold a number, got none")
        if not np.all(np.asarray(self.sizes) > 0):
            raise ValueError(f"sizes must be above 0, got {self.sizes!r}")
        for name in ("errors", "error_sems", "supports", "support_sems"):
            values = np.asarray(getattr(self, name), dtype=np.float64)
            if values.shape != (count,):
                raise ValueError(f"{name} must have shape ({count},), as sizes, got {values.shape}")
            if name.endswith("sems") and not np.all(values >= 0):
                raise ValueError(f"{name} must be at least 0, got {getattr(self, name)!r}")


def draw_certified(panels: Mapping[str, Curves], path: Path | str | None = None) -> Figure:
    """Certified accuracy against the number of edits: a panel per test set, a line per model.

    Parameters
    ----------
    panels : mapping of str to mapping of str to (edits, shares)
        Test sets by name, and for each the curves of models by name: numbers of edits, and the share of
        rows that no so many edits can turn.
    path : Path or str, optional
        The picture to write; its ending says the format. None writes nothing.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ValueError
        If there are no panels.

    Examples
    --------
    >>> figure = draw_certified({"mail": {"plain": ([0, 1, 2], [0.9, 0.5, 0.1])}})
    >>> [axes.get_title() for axes in figure.axes]
    ['mail']
    """
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    figure, row = row_of_axes(len(panels), sharey=True)
    for axes, (title, curves) in zip(row, panels.items(), strict=True):
        for name, (edits, shares) in curves.items():
            axes.plot(edits, shares, marker="o", markersize=3, label=name)
        axes.set(title=title, xlabel="words (pixels) dropped", ylim=(-0.02, 1.02))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
        axes.legend()
    row[0].set_ylabel("certified accuracy")
    return written(figure, path)


def draw_gaps(
    panels: Mapping[str, Mapping[str, Sequence[Any]]], path: Path | str | None = None
) -> Figure:
    """Relative gap against time: a panel per group of runs, a line per run's history.

    Parameters
    ----------
    panels : mapping of str to mapping of str to sequence of Record
        Groups of runs by name, and for each the ``solution_.history`` of runs by name.
    path : Path or str, optional
        The picture to write; its ending says the format. None writes nothing.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ValueError
        If there are no panels.

    Examples
    --------
    >>> from structinv.solvers.base import Record
    >>> history = [Record(1, 10, 0.1, 2.0, 1.0), Record(2, 20, 0.2, 1.5, 1.4)]
    >>> figure = draw_gaps({"mail": {"frank_wolfe": history}})
    >>> figure.axes[0].get_ylabel()
    'relative gap'
    """
    from matplotlib.ticker import NullFormatter

    figure, row = row_of_axes(len(panels), sharey=True)
    for axes, (title, histories) in zip(row, panels.items(), strict=True):
        for name, records in histories.items():
            seconds, gaps = gap_curve(records)
            axes.plot(seconds, gaps, marker=".", markersize=4, label=name)
        axes.set(title=title, xlabel="seconds", xscale="log", yscale="log")
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.legend(fontsize="small")
    row[0].set_ylabel("relative gap")
    return written(figure, path)


def draw_errors(curves: Mapping[str, Curve], path: Path | str | None = None) -> Figure:
    """Error and number of support vectors against the size of the training set.

    Two panels, a line for each method, with bars of one standard error: the layout of Teo, Globerson,
    Roweis and Smola (2007), figure 1.

    Parameters
    ----------
    curves : mapping of str to Curve
        The methods by name, in the order of the legend; their sizes may differ.
    path : Path or str, optional
        The picture to write; its ending says the format. None writes nothing.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ValueError
        If there are no curves.

    Examples
    --------
    >>> curve = Curve([50, 100], [0.2, 0.1], [0.02, 0.01], [45.0, 80.0], [1.0, 2.0])
    >>> [axes.get_ylabel() for axes in draw_errors({"plain": curve}).axes]
    ['test error', 'support vectors']
    """
    from matplotlib.ticker import NullLocator, PercentFormatter

    if not curves:
        raise ValueError("curves must hold a curve, got none")
    figure, (left, right) = row_of_axes(2, sharey=False)
    for number, (name, curve) in enumerate(curves.items()):
        # A little to the side of each other, or equal curves would hide their bars.
        places = np.asarray(curve.sizes) * 1.02 ** (number - 0.5 * (len(curves) - 1))
        style: dict[str, Any] = {"marker": "osD^vP"[number % 6], "markersize": 4, "capsize": 2}
        left.errorbar(places, curve.errors, yerr=curve.error_sems, label=name, **style)
        right.errorbar(places, curve.supports, yerr=curve.support_sems, **style)
    sizes = sorted({float(size) for curve in curves.values() for size in curve.sizes})
    for axes, what in ((left, "test error"), (right, "support vectors")):
        axes.set(xlabel="training rows", ylabel=what, xscale="log")
        axes.set_xticks(sizes, [f"{size:g}" for size in sizes], rotation=45 if len(sizes) > 6 else 0)
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
    left.yaxis.set_major_formatter(PercentFormatter(1.0))
    figure.legend(
        *left.get_legend_handles_labels(), loc="outside lower center", ncols=min(len(curves), 4)
    )
    return written(figure, path)


def gap_curve(records: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Seconds and relative gap of the best primal and dual values so far.

    Parameters
    ----------
    records : sequence of Record
        History of a `Solution`.
    """
    seconds = np.array([record.seconds for record in records])
    primal = np.minimum.accumulate([record.primal for record in records])
    dual = np.maximum.accumulate([record.dual for record in records])
    return seconds, np.maximum(primal - dual, 1e-12 * primal) / primal
