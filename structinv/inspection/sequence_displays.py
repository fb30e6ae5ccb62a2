"""Pictures of sequences: which label follows which, and how sure each position is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ..estimators.target_labels import label_name
from .figures import new_figure, written

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Up to so many labels the cells have their numbers.
_MOST_NUMBERS = 12
_RIGHT, _WRONG, _WORST = "tab:blue", "tab:red", "black"


@dataclass(frozen=True)
class TransitionDisplay:
    """The weights of labels that follow one another, as a matrix.

    A line for the label before and a column for the label after, with a first line for the start of a
    sequence and a last column for its end. Blue is likely, red unlikely, gray forbidden.

    Attributes
    ----------
    transitions : (K, K) array-like
        From the label of the row to that of the column; what is not finite is forbidden.
    start, end : (K,) array-like
        Of the first and of the last label.
    classes : (K,) sequence
        The labels.

    Raises
    ------
    ValueError
        If shapes do not fit.

    Examples
    --------
    >>> display = TransitionDisplay([[1.0, -1.0], [0.5, 0.0]], [1.0, 0.0], [0.0, 0.5], ["B", "O"])
    >>> [text.get_text() for text in display.plot().axes[0].get_yticklabels()]
    ['start', 'B', 'O']
    """

    transitions: ArrayLike
    start: ArrayLike
    end: ArrayLike
    classes: Sequence[Any] | np.ndarray

    def __post_init__(self) -> None:
        count = len(self.classes)
        for name, shape in (("transitions", (count, count)), ("start", (count,)), ("end", (count,))):
            found = np.shape(getattr(self, name))
            if not count or found != shape:
                raise ValueError(f"{name} must have shape {shape} for {count} classes, got {found}")

    @classmethod
    def from_estimator(cls, estimator: Any) -> TransitionDisplay:
        """Those of a fitted estimator of sequences.

        Parameters
        ----------
        estimator : fitted estimator
            With `transitions_`, `start_`, `end_` and `classes_`; if its structure forbids transitions,
            these are gray.

        Raises
        ------
        TypeError
            If it lacks one of these.
        """
        names = ("transitions_", "start_", "end_", "classes_")
        missing = [name for name in names if getattr(estimator, name, None) is None]
        if missing:
            raise TypeError(
                f"estimator must be fitted to sequences, and {type(estimator).__name__} has no "
                f"{', '.join(missing)}"
            )
        transitions, start, end, classes = (getattr(estimator, name) for name in names)
        follows = getattr(getattr(estimator, "structure_", None), "follows_", None)
        if follows is not None:
            transitions = np.where(follows[:-1], transitions, -np.inf)
            start = np.where(follows[-1], start, -np.inf)
        return cls(transitions, start, end, classes)

    def plot(self, path: Path | str | None = None) -> Figure:
        """Draw the matrix.

        Parameters
        ----------
        path : Path or str, optional
            The picture to write; its ending says the format. None writes nothing.

        Returns
        -------
        matplotlib.figure.Figure
        """
        count = len(self.classes)
        table = np.full((count + 1, count + 1), np.nan)
        table[0, :-1], table[1:, -1] = self.start, self.end
        table[1:, :-1] = self.transitions
        table[~np.isfinite(table)] = np.nan
        names = [_plain(label_name(label)) for label in self.classes]
        largest = float(np.nanmax(np.abs(table), initial=0.0)) or 1.0
        figure = new_figure(2.4 + 0.36 * count, 1.8 + 0.36 * count)
        axes = figure.subplots()
        axes.set_facecolor("0.8")
        picture = axes.imshow(table, cmap="RdBu", vmin=-largest, vmax=largest)
        axes.set_xticks(range(count + 1), [*names, "end"], rotation=90)
        axes.set_yticks(range(count + 1), ["start", *names])
        axes.set(xlabel="label after", ylabel="label before")
        # What is no transition, from the start or to the end, stands apart.
        axes.axhline(0.5, color="black", linewidth=0.8)
        axes.axvline(count - 0.5, color="black", linewidth=0.8)
        if count <= _MOST_NUMBERS:
            for (line, column), value in np.ndenumerate(table):
                if np.isfinite(value):
                    color = "white" if abs(value) > 0.6 * largest else "black"
                    style: dict[str, Any] = {
                        "ha": "center",
                        "va": "center",
                        "fontsize": 7,
                        "color": color,
                    }
                    axes.text(column, line, f"{value:z.1f}", **style)
        figure.colorbar(picture, ax=axes, label="weight", shrink=0.8)
        return written(figure, path)


def draw_margins(
    tokens: Sequence[Any] | np.ndarray,
    labels: Sequence[Any] | np.ndarray,
    margins: ArrayLike,
    path: Path | str | None = None,
    *,
    worst: ArrayLike | None = None,
) -> Figure:
    """Margins of a sequence by position: above 0 the label is predicted, blue; below 0 red.

    Parameters
    ----------
    tokens, labels : (T,) sequences
        What stands at each position, and its label.
    margins : (T,) array-like
        By how much the best labeling with this label there is above the best one without, such as
        of `position_margins`.
    path : Path or str, optional
        The picture to write; its ending says the format. None writes nothing.
    worst : (T,) array-like, optional
        Margins under the worst changes, drawn as lines across.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ValueError
        If there is no position, if lengths differ, or a margin is NaN or infinite.

    Examples
    --------
    >>> figure = draw_margins(["He", "reckons"], ["B-NP", "B-VP"], [2.0, -0.5])
    >>> [text.get_text() for text in figure.axes[0].get_xticklabels()]
    ['He\\nB-NP', 'reckons\\nB-VP']
    """
    count = len(tokens)
    if not count:
        raise ValueError("tokens must hold a token, got none")
    if len(labels) != count:
        raise ValueError(f"labels must have one entry for each of {count} tokens, got {len(labels)}")
    heights = _margins("margins", margins, count)
    lines = None if worst is None else _margins("worst", worst, count)

    figure = new_figure(max(3.6, 1.2 + 0.55 * count), 3.2)
    axes = figure.subplots()
    places = np.arange(count)
    for color, which, name in (
        (_RIGHT, heights > 0, "predicted"),
        (_WRONG, heights <= 0, "not predicted"),
    ):
        if np.any(which):
            axes.bar(places[which], heights[which], 0.7, color=color, label=name)
    if lines is not None:
        axes.hlines(lines, places - 0.45, places + 0.45, color=_WORST, label="worst case")
    axes.axhline(0.0, color="black", linewidth=0.8)
    names = [
        _plain(f"{token}\n{label_name(label)}") for token, label in zip(tokens, labels, strict=True)
    ]
    axes.set_xticks(places, names, rotation=60 if count > 6 else 0, fontsize=8)
    axes.set(ylabel="margin", xlim=(-0.6, count - 0.4))
    figure.legend(fontsize="small", loc="outside upper right", ncols=3)
    return written(figure, path)


def _plain(text: str) -> str:
    """Text in which dollars are dollars, and no formulas."""
    return text.replace("$", r"\$")


def _margins(name: str, values: ArrayLike, count: int) -> np.ndarray:
    found = np.asarray(values, dtype=np.float64)
    if found.shape != (count,):
        raise ValueError(f"{name} must have shape ({count},), as tokens, got {found.shape}")
    if not np.all(np.isfinite(found)):
        raise ValueError(f"{name} must be finite, got {values!r}")
    return found
