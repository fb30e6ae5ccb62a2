"""Displays of sequence models: transition weights, and margins by position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ..estimators.target_labels import label_name
from ..utils.summaries import number_of
from .figures import single_axes
from .positions import position_margins, transition_weights

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Maximum number of labels for which the cells show their weights as text.
_MOST_NUMBERS = 12
_RIGHT, _WRONG, _WORST = "tab:blue", "tab:red", "black"


@dataclass(repr=False)
class TransitionDisplay:
    """Transition weights of a sequence model, as a matrix.

    Each matrix row is a previous label, and each column a next label. The first row is the start of a
    sequence, and the last column is its end. Positive weights are blue, and negative weights are red.
    Forbidden transitions are gray.

    Parameters
    ----------
    transitions : array-like of shape (n_classes, n_classes)
        Weights from the label of the row to the label of the column; -inf forbids a transition.
    start : array-like of shape (n_classes,)
        Weights of the first label.
    end : array-like of shape (n_classes,)
        Weights of the last label.
    classes : sequence of length n_classes
        Labels.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
        Axes of the last plot.
    figure_ : matplotlib.figure.Figure
        Figure of the last plot.

    Raises
    ------
    ValueError
        If the shapes do not fit.

    See Also
    --------
    MarginsDisplay : Margins of one sequence by position.

    Examples
    --------
    >>> from structinv.inspection import TransitionDisplay
    >>> display = TransitionDisplay([[1.0, -1.0], [0.5, 0.0]], [1.0, 0.0], [0.0, 0.5], ["B", "O"])
    >>> [text.get_text() for text in display.plot().ax_.get_yticklabels()]
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

    def __repr__(self) -> str:
        return f"{type(self).__name__}({number_of(len(self.classes), 'label')})"

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Axes | None = None) -> TransitionDisplay:
        """Plot the transition weights of a fitted estimator.

        Parameters
        ----------
        estimator : fitted estimator
            Estimator with `transitions_`, `start_`, `end_` and `classes_`, such as
            `InvariantStructuredSVC` with `Sequence`.
        ax : matplotlib.axes.Axes, default=None
            Axes to plot on; None makes a new figure.

        Returns
        -------
        display : TransitionDisplay
            Display with `ax_` and `figure_`.

        Raises
        ------
        TypeError
            If the estimator lacks one of these attributes.
        """
        return cls(*transition_weights(estimator)).plot(ax=ax)

    def plot(self, *, ax: Axes | None = None) -> TransitionDisplay:
        """Plot the matrix.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            Axes to plot on; None makes a new figure.

        Returns
        -------
        TransitionDisplay
            The display itself, with `ax_` and `figure_`.
        """
        count = len(self.classes)
        table = np.full((count + 1, count + 1), np.nan)
        table[0, :-1], table[1:, -1] = self.start, self.end
        table[1:, :-1] = self.transitions
        table[~np.isfinite(table)] = np.nan
        names = [_plain(label_name(label)) for label in self.classes]
        largest = float(np.nanmax(np.abs(table), initial=0.0)) or 1.0
        axes = single_axes(ax, 2.4 + 0.36 * count, 1.8 + 0.36 * count)
        axes.set_facecolor("0.8")
        picture = axes.imshow(table, cmap="RdBu", vmin=-largest, vmax=largest)
        axes.set_xticks(range(count + 1), [*names, "end"], rotation=90)
        axes.set_yticks(range(count + 1), ["start", *names])
        axes.set(xlabel="label after", ylabel="label before")
        # Lines separate the start and the end from the transitions.
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
        axes.figure.colorbar(picture, ax=axes, label="weight", shrink=0.8)
        self.ax_, self.figure_ = axes, axes.figure
        return self


@dataclass(repr=False)
class MarginsDisplay:
    """Margins of one sequence by position.

    Positive margins are blue bars; the prediction then has this label. Negative margins are red bars.

    Parameters
    ----------
    tokens : sequence of length n_positions
        Token at each position.
    labels : sequence of length n_positions
        Label at each position.
    margins : array-like of shape (n_positions,)
        Score of the best labeling with this label at the position, minus that of the best labeling with
        another label there.
    worst : array-like of shape (n_positions,), default=None
        Margins under the worst perturbations, plotted as horizontal lines.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
        Axes of the last plot.
    figure_ : matplotlib.figure.Figure
        Figure of the last plot.

    Raises
    ------
    ValueError
        If there is no position, if lengths differ, or if a margin is NaN or infinite.

    See Also
    --------
    position_margins : Margins of a sequence by position.
    TransitionDisplay : Transition weights as a matrix.

    Examples
    --------
    >>> from structinv.inspection import MarginsDisplay
    >>> display = MarginsDisplay(["He", "reckons"], ["B-NP", "B-VP"], [2.0, -0.5]).plot()
    >>> [text.get_text() for text in display.ax_.get_xticklabels()]
    ['He\\nB-NP', 'reckons\\nB-VP']
    """

    tokens: Sequence[Any] | np.ndarray
    labels: Sequence[Any] | np.ndarray
    margins: ArrayLike
    worst: ArrayLike | None = None

    def __post_init__(self) -> None:
        count = len(self.tokens)
        if not count:
            raise ValueError("tokens must contain a token, got none")
        if len(self.labels) != count:
            raise ValueError(
                f"labels must have one entry for each of {count} tokens, got {len(self.labels)}"
            )
        _margins("margins", self.margins, count)
        if self.worst is not None:
            _margins("worst", self.worst, count)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({number_of(len(self.tokens), 'token')})"

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        x: Any,
        labels: Sequence[Any] | np.ndarray | None = None,
        *,
        tokens: Sequence[Any] | np.ndarray | None = None,
        worst: ArrayLike | None = None,
        ax: Axes | None = None,
    ) -> MarginsDisplay:
        """Plot the margins of one sequence for a fitted estimator.

        Parameters
        ----------
        estimator : fitted estimator
            Sequence model, such as `InvariantStructuredSVC` with `Sequence`.
        x : array-like of shape (n_positions, n_features), or list of tokens
            One example, in the form that the estimator supports.
        labels : sequence of length n_positions, default=None
            Labels; the predicted labels by default.
        tokens : sequence of length n_positions, default=None
            Names of the positions; by default their numbers.
        worst : array-like of shape (n_positions,), default=None
            Margins under the worst perturbations.
        ax : matplotlib.axes.Axes, default=None
            Axes to plot on; None makes a new figure.

        Returns
        -------
        display : MarginsDisplay
            Display with `ax_` and `figure_`.

        Raises
        ------
        TypeError, ValueError
            As in `position_margins` and `MarginsDisplay`.
        """
        shown = estimator.predict([x])[0] if labels is None else labels
        margins = position_margins(estimator, x, shown)
        names = np.arange(len(margins)) if tokens is None else tokens
        return cls(names, shown, margins, worst).plot(ax=ax)

    def plot(self, *, ax: Axes | None = None) -> MarginsDisplay:
        """Plot the margins.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            Axes to plot on; None makes a new figure.

        Returns
        -------
        MarginsDisplay
            The display itself, with `ax_` and `figure_`.
        """
        count = len(self.tokens)
        margins, places = _margins("margins", self.margins, count), np.arange(count)
        axes = single_axes(ax, max(3.6, 1.2 + 0.55 * count), 3.2)
        for color, which, name in (
            (_RIGHT, margins > 0, "predicted"),
            (_WRONG, margins <= 0, "not predicted"),
        ):
            if np.any(which):
                axes.bar(places[which], margins[which], 0.7, color=color, label=name)
        if self.worst is not None:
            lines = _margins("worst", self.worst, count)
            axes.hlines(lines, places - 0.45, places + 0.45, color=_WORST, label="worst case")
        axes.axhline(0.0, color="black", linewidth=0.8)
        names = [
            _plain(f"{token}\n{label_name(label)}")
            for token, label in zip(self.tokens, self.labels, strict=True)
        ]
        axes.set_xticks(places, names, rotation=60 if count > 6 else 0, fontsize=8)
        axes.set(ylabel="margin", xlim=(-0.6, count - 0.4))
        axes.legend(fontsize="small", loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3)
        self.ax_, self.figure_ = axes, axes.figure
        return self


def _plain(text: str) -> str:
    """Escape dollar signs, which would start formulas."""
    return text.replace("$", r"\$")


def _margins(name: str, values: ArrayLike, count: int) -> np.ndarray:
    found = np.asarray(values, dtype=np.float64)
    if found.shape != (count,):
        raise ValueError(f"{name} must have shape ({count},), as tokens, got {found.shape}")
    if not np.all(np.isfinite(found)):
        raise ValueError(f"{name} must be finite, got {values!r}")
    return found
