"""Displays of worst-case images and names of their transformations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ..oracles import Identity, InvarianceOracle
from ..oracles.columns import with_numbers
from ..oracles.images.image_maps import ImageShape, image_shape
from ..oracles.listed_changes import listed
from ..oracles.third_party import bind
from ..utils.matrices import dense, first_best, refuse_masked
from ..utils.parameters import columns_of, in_order
from ..utils.summaries import number_of
from ..utils.texts import visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Most pairs of images in a row of the plot.
_PAIRS_A_ROW = 6
# Width of an image with its space, and height of a line of captions, in inches.
_INCHES, _LINE = 1.2, 0.15
# Number of characters in a line of captions.
_CHARACTERS = 20
# Color of captions of wrong predictions.
_WRONG = "#D55E00"


@dataclass(repr=False)
class WorstCasesDisplay:
    """Images with their worst-case perturbations below them.

    All images have the same gray scale. The smallest value (0 if none is negative) is black, and the
    largest value is white. A row of the plot has at most six images. A caption has the name of the
    transformation and the margins before and after it. It is red if the margin after it is negative.

    Parameters
    ----------
    originals, worst : array-like of shape (n, d), (n, height, width) or (n, height, width, channels)
        Original images, and for each image the perturbed image with the smallest margin. Images as rows
        may be sparse matrices.
    shape : ImageShape or tuple of int, default=None
        ``(height, width)`` or ``(height, width, channels)`` with 1 (gray) or 3 (color) channels. None
        takes the shape of the arrays, or square gray images if they are rows.
    titles : sequence of str of length n, default=None
        First lines of the caption of each image.
    changes : sequence of str of length n, default=None
        Name of the transformation of each image, for its caption.
    margins : array-like of shape (n, 2), default=None
        Margins before and after the perturbation, for the captions.

    Attributes
    ----------
    axes_ : ndarray of matplotlib.axes.Axes of shape (2 * n_lines, n_columns)
        Axes of the last plot; each line of originals is above their worst cases.
    figure_ : matplotlib.figure.Figure
        Figure of the last plot.

    Raises
    ------
    ValueError
        If the arrays differ in shape, are empty, contain NaN or infinity, or if another argument does
        not fit them.

    See Also
    --------
    name_changes : Names of the transformations, for captions.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from structinv import InvariantSVC
    >>> from structinv.inspection import WorstCasesDisplay
    >>> from structinv.oracles import Shifts
    >>> X, y = load_digits(n_class=2, return_X_y=True)
    >>> X, y = X[:20] / 16, y[:20]
    >>> model = InvariantSVC(Shifts(1), random_state=0).fit(X, y)
    >>> display = WorstCasesDisplay.from_estimator(model, X[:6], y[:6])
    >>> display
    WorstCasesDisplay(6 images, 8x8)
    >>> [panel.get_ylabel() for panel in display.axes_[:, 0]]
    ['original', 'worst case']
    """

    originals: ArrayLike
    worst: ArrayLike
    shape: ImageShape | tuple[int, ...] | None = None
    titles: Sequence[str] | None = None
    changes: Sequence[str] | None = None
    margins: ArrayLike | None = None

    def __post_init__(self) -> None:
        worst = in_order("worst", dense(self.worst), known=columns_of(self.originals))
        rows = _images("originals", self.originals), _images("worst", worst)
        if rows[0].shape != rows[1].shape:
            raise ValueError(
                f"worst must have the shape of originals, {rows[0].shape}, got {rows[1].shape}"
            )
        count, n_features = rows[0].shape
        shape = self.shape
        if shape is None and np.ndim(self.originals) > 2:
            shape = np.shape(self.originals)[1:]
        form = image_shape(shape, n_features)
        if form is None or form.channels not in (1, 3):
            raise ValueError(f"shape must have 1 or 3 channels, got {self.shape!r}")
        for name in ("titles", "changes"):
            entries = getattr(self, name)
            if entries is not None and len(entries) != count:
                raise ValueError(
                    f"{name} must have one entry for each of {count} images, got {len(entries)}"
                )
        if self.margins is not None and np.shape(self.margins) != (count, 2):
            raise ValueError(
                f"margins must have shape ({count}, 2), before and after, got {np.shape(self.margins)}"
            )
        self._form, self._rows = form, rows

    def __repr__(self) -> str:
        form = self._form
        color = f"x{form.channels}" if form.channels > 1 else ""
        images = number_of(len(self._rows[0]), "image")
        return f"{type(self).__name__}({images}, {form.height}x{form.width}{color})"

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: ArrayLike,
        y: ArrayLike,
        *,
        shape: ImageShape | tuple[int, ...] | None = None,
        titles: Sequence[str] | None = None,
    ) -> WorstCasesDisplay:
        """Plot images and their worst-case perturbations for a fitted estimator.

        Parameters
        ----------
        estimator : fitted estimator
            Estimator with ``worst_case(X, y)``, such as `InvariantSVC`.
        X : array-like of shape (n, d), (n, height, width) or (n, height, width, channels)
            Images. Images as rows may be a sparse matrix.
        y : array-like of shape (n,)
            True labels.
        shape : ImageShape or tuple of int, default=None
            Shape of the images, ``(height, width)`` or ``(height, width, channels)``. None takes the
            shape of the arrays, or square gray images if they are rows.
        titles : sequence of str of length n, default=None
            First lines of the caption of each image.

        Returns
        -------
        display : WorstCasesDisplay
            Display with `axes_` and `figure_`.

        Raises
        ------
        ValueError
            As in `WorstCasesDisplay`, before the search of the perturbations.
        """
        return worst_cases(estimator, X, y, shape, titles).plot()

    def plot(self, figure: Figure | None = None) -> WorstCasesDisplay:
        """Plot the images.

        Parameters
        ----------
        figure : matplotlib.figure.Figure, default=None
            Empty figure or subfigure to plot on; None makes a new figure.

        Returns
        -------
        WorstCasesDisplay
            The display itself, with `axes_` and `figure_`.
        """
        captions, (columns, n_lines) = self._captions(), self._grid
        if figure is None:
            import matplotlib.pyplot as plt

            figure = plt.figure(figsize=self.inches, layout="constrained")
        panels = figure.subplots(2 * n_lines, columns, squeeze=False)
        for place, pair in enumerate(zip(*self._scaled(), strict=True)):
            line, column = divmod(place, columns)
            for panel, pixels in zip(panels[2 * line :, column], pair, strict=False):
                panel.imshow(pixels, interpolation="nearest")
            title = panels[2 * line, column].set_title(captions[place], fontsize=7)
            if self.margins is not None and np.asarray(self.margins)[place, 1] < 0:
                title.set_color(_WRONG)
        for panel in panels.flat:
            panel.set(xticks=[], yticks=[])
            panel.spines[:].set_visible(False)
        for number, panel in enumerate(panels[:, 0]):
            panel.set_ylabel(("original", "worst case")[number % 2], fontsize=8)
        self.axes_, self.figure_ = panels, figure
        return self

    @property
    def inches(self) -> tuple[float, float]:
        """Width and height of a new figure."""
        columns, n_lines = self._grid
        above = _LINE * max(caption.count("\n") + 1 for caption in self._captions())
        images = 2 * _INCHES * self._form.height / self._form.width
        return _INCHES * columns + 0.4, n_lines * (images + above) + 0.2

    @property
    def _grid(self) -> tuple[int, int]:
        """Pairs of images beside each other, and below each other."""
        count = len(self._rows[0])
        return min(count, _PAIRS_A_ROW), -(-count // _PAIRS_A_ROW)

    def _captions(self) -> list[str]:
        """Return the captions of all images, in short lines."""
        captions = []
        for place in range(len(self._rows[0])):
            lines = [] if self.titles is None else str(self.titles[place]).split("\n")
            lines += [] if self.changes is None else [self.changes[place]]
            lines = ["\n".join(wrap(visible(line), _CHARACTERS)) for line in lines]
            if self.margins is not None:
                pair = np.asarray(self.margins)[place]
                before, after = (f"{each:.{2 if abs(each) < 1 else 3}g}" for each in pair)
                lines.append(f"margin {before} to {after}")
            captions.append("\n".join(lines))
        return captions

    def _scaled(self) -> list[np.ndarray]:
        """Return originals and worst variants as colors in [0, 1], (n, height, width, 3) each."""
        form = self._form
        low = min(0.0, *(float(images.min()) for images in self._rows))
        high = max(float(images.max()) for images in self._rows)
        scale = max(high - low, np.finfo(np.float64).tiny)
        shape = (-1, form.height, form.width)
        # One channel becomes three: imshow would apply a color map.
        return [
            np.broadcast_to(
                ((images - low) / scale).reshape(*shape, form.channels), (len(images), *shape[1:], 3)
            )
            for images in self._rows
        ]


def worst_cases(estimator: Any, X: Any, y: Any, shape: Any, titles: Any) -> WorstCasesDisplay:
    """Return the display of `WorstCasesDisplay.from_estimator` without a plot."""
    # A display of the originals alone checks all arguments.
    WorstCasesDisplay(X, X, shape, titles)
    worst = np.asarray(dense(estimator.worst_case(X, y))).reshape(np.shape(X))
    changes, margins = _named(estimator, X, worst, y), _margins(estimator, X, worst, y)
    return WorstCasesDisplay(X, worst, shape, titles, changes, margins)


def name_changes(
    oracle: InvarianceOracle, X: ArrayLike, changed: ArrayLike, y: ArrayLike | None = None
) -> list[str]:
    """Return the names of the transformations of perturbed samples, for captions.

    Parameters
    ----------
    oracle : InvarianceOracle
        Oracle with an orbit or a cover.
    X : array-like of shape (n_samples, n_features)
        Original samples.
    changed : array-like of shape (n_samples, n_features)
        Perturbed samples, such as ``model.worst_case(X, y)``.
    y : array-like of shape (n_samples,), default=None
        Labels, for oracles that depend on labels.

    Returns
    -------
    list of str
        Name of the transformation in the orbit or cover whose result is nearest to the perturbed
        sample. In ties it is the first.

    Raises
    ------
    ValueError
        If `X` and `changed` do not have the same shape (n_samples, n_features).
    NotImplementedError
        If the oracle has neither orbit nor cover.

    See Also
    --------
    WorstCasesDisplay : Plot of images and their worst variants.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.inspection import name_changes
    >>> from structinv.oracles import Shifts
    >>> X = np.array([[0.0, 1.0, 2.0, 0.0]])
    >>> name_changes(Shifts(1, shape=(1, 4)), X, np.array([[0.0, 0.0, 1.0, 2.0]]))
    ['shift (0, 1)']
    """
    columns = columns_of(X)
    oracle = with_numbers(oracle, columns)
    rows, others = in_order("X", X, known=columns), in_order("changed", changed, known=columns)
    if rows.ndim != 2 or rows.shape != others.shape:
        raise ValueError(
            f"X and changed must have the same shape (n_samples, n_features), got {rows.shape} and "
            f"{others.shape}"
        )
    refuse_masked("y", y)
    bound = bind(oracle, rows, None if y is None else np.asarray(y))
    changes = listed(bound)
    names, members = changes.names, changes.members()
    distances = np.sum(np.square(members - others[:, None]), axis=2)
    return [names[number] for number in first_best(-distances)]


def _named(estimator: Any, X: Any, worst: np.ndarray, y: ArrayLike) -> list[str] | None:
    """Return the names of the transformations, or None for an oracle without a list of them."""
    oracle = getattr(estimator, "oracle", None)
    rows, others = (np.asarray(dense(each)).reshape(np.shape(X)[0], -1) for each in (X, worst))
    if oracle is None or bind(oracle, rows[:1], np.asarray(y)[:1]).changes() is None:
        return None
    return name_changes(oracle, rows, others, y)


def _margins(estimator: Any, X: Any, worst: np.ndarray, y: ArrayLike) -> np.ndarray | None:
    """Return the margins of both images, or None for an estimator without certificates."""
    if not hasattr(estimator, "certify"):
        return None
    images = np.concatenate([np.asarray(dense(X)), worst])
    certificate = estimator.certify(images, np.tile(np.asarray(y), 2), oracle=Identity())
    return certificate.attacked.reshape(2, -1).T


def _images(name: str, images: ArrayLike) -> np.ndarray:
    refuse_masked(name, images)
    rows = np.asarray(dense(images), dtype=np.float64)
    if rows.ndim > 2 and rows.size:
        rows = rows.reshape(len(rows), -1)
    if rows.ndim != 2 or not rows.size:
        raise ValueError(
            f"{name} must have shape (n_samples, n_features), one image per row, got {rows.shape}"
        )
    if not np.all(np.isfinite(rows)):
        raise ValueError(f"{name} must be finite")
    return rows
