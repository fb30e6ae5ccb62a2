"""Axes for displays: given ones, or those of a new pyplot figure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def single_axes(ax: Any, width: float, height: float) -> Axes:
    """Return `ax`, or the axes of a new figure of this size."""
    if ax is not None:
        _check_axes(ax)
        return ax
    return row_of_axes(None, 1, width, height)[0]


def row_of_axes(
    ax: Any,
    count: int,
    width: float,
    height: float = 3.6,
    *,
    sharey: bool = False,
    titles: Sequence[str] = (),
) -> list[Axes]:
    """Return the panels of `ax`, or those of a new figure, from left to right."""
    if not count:
        raise ValueError("panels must contain a panel, got none")
    if ax is None:
        import matplotlib.pyplot as plt

        figure = plt.figure(figsize=(width * count, height), layout="constrained")
        return list(np.ravel(figure.subplots(1, count, sharey=sharey, squeeze=False)))
    panels = list(np.ravel(np.asarray(ax, dtype=object)))
    for panel in panels:
        _check_axes(panel)
    if len(panels) != count:
        contents = f" ({', '.join(titles)})" if titles else ""
        raise ValueError(
            f"ax must contain {count} Axes{contents}, got {len(panels)}: make them with "
            f"plt.subplots(1, {count})"
        )
    return panels


def saved(figure: Any, path: Path | str) -> None:
    """Write a figure to a file and close it; the ending of `path` is the format."""
    import matplotlib.pyplot as plt

    figure.savefig(path, dpi=150)
    plt.close(figure)


def _check_axes(ax: Any) -> None:
    from matplotlib.axes import Axes

    if not isinstance(ax, Axes):
        raise TypeError(f"ax must be a matplotlib Axes, or None for a new figure, got {ax!r}")
