"""Figures that stand alone: no display, and nothing that other plots could see."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def new_figure(width: float, height: float) -> Figure:
    """A figure of so many inches, of its own and not of pyplot."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def row_of_axes(count: int, *, sharey: bool) -> tuple[Figure, list[Axes]]:
    """A figure of panels in a row.

    Raises
    ------
    ValueError
        If there is no panel.
    """
    if not count:
        raise ValueError("panels must hold a panel, got none")
    figure = new_figure(4.2 * count, 3.6)
    return figure, list(np.ravel(figure.subplots(1, count, sharey=sharey, squeeze=False)))


def written(figure: Figure, path: Path | str | None) -> Figure:
    """The figure, written to a file if one is named."""
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure
