"""Displays of worst-case images and of transformations of support vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ..oracles import Identity, InvarianceOracle
from ..oracles.checked_lists import listed
from ..oracles.checked_oracle import bind
from ..oracles.columns import with_numbers
from ..oracles.images.image_maps import ImageShape, image_shape
from ..utils.html import escaped, image
from ..utils.labels import columns_of, in_order
from ..utils.matrices import dense, refuse_masked
from ..utils.summaries import number_of
from ..utils.ties import first_best
from .figures import single_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Space around an image, as a fraction of its width.
_GAP = 0.08
# Most pairs of images in a row of the plot.
_PAIRS_A_ROW = 10
# Width of an image with its space, and height of a line of captions, in inches.
_INCHES, _LINE = 1.2, 0.15
# Height of an image with its name along the side, in inches.
_NAME = 0.8
# Number of characters in a line of captions.
_CHARACTERS = 20
# Color of captions of wrong predictions.
_WRONG = "#B33A00"


@dataclass(repr=False)
class WorstCasesDisplay:
    """Images with their worst-case perturbations below them.

    All images have the same gray scale. The smallest value (0 if none is negative) is black, and the
    largest value is white. A row of the plot has at most ten images. A caption has the name of the
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
    ax_ : matplotlib.axes.Axes
        Axes of the last plot.
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
    SupportTransformsDisplay : Number of support vectors by transformation.

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
    >>> [label.get_text() for label in display.ax_.get_yticklabels()]
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
        form = image_shape(_own_shape(self.originals) if self.shape is None else self.shape, n_features)
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
        ax: Axes | None = None,
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
        ax : matplotlib.axes.Axes, default=None
            Axes to plot on; None makes a new figure.

        Returns
        -------
        display : WorstCasesDisplay
            Display with `ax_` and `figure_`.

        Raises
        ------
        ValueError
            As in `WorstCasesDisplay`, before the search of the perturbations.
        """
        return worst_cases(estimator, X, y, shape=shape, titles=titles).plot(ax=ax)

    def plot(self, *, ax: Axes | None = None) -> WorstCasesDisplay:
        """Plot the images.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            Axes to plot on; None makes a new figure.

        Returns
        -------
        WorstCasesDisplay
            The display itself, with `ax_` and `figure_`.
        """
        form, captions = self._form, [self._caption(place) for place in range(len(self._rows[0]))]
        columns = min(len(captions), _PAIRS_A_ROW)
        n_rows = -(-len(captions) // columns)
        # Positions are in pixels.
        gap = max(1.0, _GAP * form.width)
        across, down = form.width + gap, form.height + gap
        line = _LINE * across / _INCHES
        above = line * max(caption.count("\n") + bool(caption) for caption in captions)
        block = above + 2 * down
        height = _INCHES * (n_rows * block - gap) / across
        axes = single_axes(ax, _INCHES * columns + 0.5, height + 0.2)
        for number, images in enumerate(self._scaled()):
            for place, pixels in enumerate(images):
                left = place % columns * across
                top = place // columns * block + above + number * down
                extent = (left, left + form.width, top + form.height, top)
                axes.imshow(pixels, extent=extent, interpolation="nearest")
        for place, caption in enumerate(captions):
            middle = place % columns * across + 0.5 * form.width
            bottom = place // columns * block + above - 0.3 * line
            color = _WRONG if self._is_wrong(place) else "black"
            axes.text(middle, bottom, caption, ha="center", va="bottom", fontsize=7, color=color)
        axes.set(xlim=(0, columns * across - gap), ylim=(n_rows * block - gap, 0), xticks=[])
        middles = [above + 0.5 * form.height + number * down for number in (0, 1)]
        places = [row * block + middle for row in range(n_rows) for middle in middles]
        axes.set_yticks(places, ["original", "worst case"] * n_rows)
        # Flat images have no place for names along their sides.
        is_flat = _INCHES * form.height / across < _NAME
        axes.tick_params(axis="y", length=0, labelrotation=0 if is_flat else 90)
        for label in axes.get_yticklabels():
            label.set_verticalalignment("center")
        axes.spines[:].set_visible(False)
        self.ax_, self.figure_ = axes, axes.figure
        return self

    def _caption(self, place: int) -> str:
        """Return the caption of a sample in a plot, in short lines."""
        lines = [] if self.titles is None else str(self.titles[place]).split("\n")
        lines += [] if self.changes is None else wrap(self.changes[place], _CHARACTERS)
        return "\n".join([*lines, *self._margin(place)])

    def _margin(self, place: int) -> list[str]:
        """Return the margins of a sample as one line, or no line."""
        if self.margins is None:
            return []
        before, after = (
            f"{each:.{2 if abs(each) < 1 else 3}g}" for each in np.asarray(self.margins)[place]
        )
        return [f"margin {before} to {after}"]

    def _is_wrong(self, place: int) -> bool:
        """Return True if the worst variant has a negative margin."""
        return self.margins is not None and bool(np.asarray(self.margins)[place, 1] < 0)

    def _repr_html_(self) -> str:
        pairs = zip(*self._scaled(), strict=True)
        figures = [self._figure(place, *pair) for place, pair in enumerate(pairs)]
        return f'<div style="display: flex; flex-wrap: wrap; gap: 1.5em">{"".join(figures)}</div>'

    def _figure(self, place: int, original: np.ndarray, worst: np.ndarray) -> str:
        """Return both images of a sample with their captions."""
        number = f"image {place + 1} of {len(self._rows[0])}"
        lines = [] if self.titles is None else str(self.titles[place]).split("\n")
        change = "" if self.changes is None else f": {self.changes[place]}"
        lines += [f"worst case{change}", *self._margin(place)]
        images = image(original, f"{number}, original"), image(worst, f"{number}, worst case{change}")
        caption = "<br/>".join(map(escaped, lines))
        return f'<figure style="margin: 0">{" ".join(images)}<figcaption>{caption}</figcaption></figure>'

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


def worst_cases(
    estimator: Any,
    X: ArrayLike,
    y: ArrayLike,
    *,
    shape: ImageShape | tuple[int, ...] | None = None,
    titles: Sequence[str] | None = None,
) -> WorstCasesDisplay:
    """Return the display of `WorstCasesDisplay.from_estimator` without a plot."""
    # A display of the originals alone checks all arguments.
    WorstCasesDisplay(X, X, shape, titles)
    worst = np.asarray(dense(estimator.worst_case(X, y))).reshape(np.shape(X))
    changes, margins = _named(estimator, X, worst, y), _margins(estimator, X, worst, y)
    return WorstCasesDisplay(X, worst, shape, titles, changes, margins)


@dataclass(repr=False)
class SupportTransformsDisplay:
    """Number of support vectors by class and transformation, as a matrix.

    Parameters
    ----------
    counts : array-like of int of shape (n_classes, n_transforms)
        Number of support vectors of each class with each transformation.
    transforms : sequence of str of length n_transforms
        Names of the transformations, from left to right.
    classes : sequence of length n_classes
        Labels, from top to bottom.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
        Axes of the last plot.
    figure_ : matplotlib.figure.Figure
        Figure of the last plot.

    Raises
    ------
    ValueError
        If the shape of `counts` does not fit `transforms` and `classes`.

    See Also
    --------
    WorstCasesDisplay : Images with their worst-case perturbations.

    Examples
    --------
    >>> from structinv.inspection import SupportTransformsDisplay
    >>> display = SupportTransformsDisplay.from_transforms(["identity", "flip"], [3, 8])
    >>> [text.get_text() for text in display.ax_.get_xticklabels()]
    ['identity', 'flip']
    """

    counts: ArrayLike
    transforms: Sequence[str]
    classes: Sequence[Any] | np.ndarray

    def __post_init__(self) -> None:
        shape = len(self.classes), len(self.transforms)
        if np.shape(self.counts) != shape or 0 in shape:
            raise ValueError(
                f"counts must have shape {shape}, one line per class and one column per transform, got "
                f"{np.shape(self.counts)}"
            )

    def __repr__(self) -> str:
        classes = number_of(len(self.classes), "class", "classes")
        return f"{type(self).__name__}({classes}, {number_of(len(self.transforms), 'transformation')})"

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        y: ArrayLike,
        *,
        order: Sequence[str] | None = None,
        ax: Axes | None = None,
    ) -> SupportTransformsDisplay:
        """Plot the transformations of the support vectors of a fitted kernel SVM.

        Parameters
        ----------
        estimator : fitted estimator
            Estimator with `support_`, `support_transforms_` and `classes_`, such as `InvariantSVC`.
        y : array-like of shape (n_samples,)
            Labels of the training samples.
        order : sequence of str, default=None
            All transformations, from left to right, such as ``oracle.changes(X).names``. By default
            those that occur, with "identity" first.
        ax : matplotlib.axes.Axes, default=None
            Axes to plot on; None makes a new figure.

        Returns
        -------
        display : SupportTransformsDisplay
            Display with `ax_` and `figure_`.
        """
        return cls.from_transforms(
            estimator.support_transforms_,
            np.asarray(y)[estimator.support_],
            order=order,
            classes=estimator.classes_,
            ax=ax,
        )

    @classmethod
    def from_transforms(
        cls,
        transforms: ArrayLike,
        labels: ArrayLike,
        *,
        order: Sequence[str] | None = None,
        classes: ArrayLike | None = None,
        ax: Axes | None = None,
    ) -> SupportTransformsDisplay:
        """Plot the transformations of given support vectors.

        Parameters
        ----------
        transforms : array-like of str of shape (m,)
            Name of the transformation of each support vector.
        labels : array-like of shape (m,)
            Label of each support vector.
        order : sequence of str, default=None
            All transformations, from left to right. By default those that occur, in the order of their
            first occurrence, with "identity" first.
        classes : array-like, default=None
            All labels, from top to bottom. By default those that occur, sorted.
        ax : matplotlib.axes.Axes, default=None
            Axes to plot on; None makes a new figure.

        Returns
        -------
        display : SupportTransformsDisplay
            Display with `ax_` and `figure_`.

        Raises
        ------
        ValueError
            If there is no support vector, if lengths differ, or if `order` or `classes` contains an
            entry twice or lacks one.
        """
        counts, names, groups = transform_counts(transforms, labels, order=order, classes=classes)
        return cls(counts, names, groups).plot(ax=ax)

    def plot(self, *, ax: Axes | None = None) -> SupportTransformsDisplay:
        """Plot the counts.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            Axes to plot on; None makes a new figure.

        Returns
        -------
        SupportTransformsDisplay
            The display itself, with `ax_` and `figure_`.
        """
        counts, lines = np.asarray(self.counts), [str(label) for label in self.classes]
        n_classes, n_names = counts.shape
        width = 0.36 * n_names + 0.08 * max(map(len, lines)) + 1.8
        axes = single_axes(ax, width, 0.3 * n_classes + 2.2)
        axes.imshow(counts, cmap="Blues", vmin=0, vmax=max(1, counts.max()), aspect="auto")
        axes.set_xticks(range(n_names), self.transforms, rotation=90, fontsize=8)
        axes.set_yticks(range(n_classes), lines)
        axes.set(ylabel="class", title="number of support vectors")
        for (row, column), number in np.ndenumerate(counts):
            color = "white" if number > 0.6 * counts.max() else "black"
            axes.text(column, row, f"{number:d}", ha="center", va="center", color=color, fontsize=7)
        self.ax_, self.figure_ = axes, axes.figure
        return self


def transform_counts(
    transforms: ArrayLike,
    labels: ArrayLike,
    *,
    order: Sequence[str] | None = None,
    classes: ArrayLike | None = None,
) -> tuple[np.ndarray, list[str], np.ndarray]:
    """Count support vectors by class and transformation.

    The result has the counts, the names of the transformations and the classes.
    """
    names, groups = np.asarray(transforms), np.asarray(labels)
    if names.ndim != 1 or not len(names):
        raise ValueError(f"transforms must name one support vector or more, got shape {names.shape}")
    if groups.shape != names.shape:
        raise ValueError(f"labels must have shape {names.shape}, as transforms, got {groups.shape}")
    # Python's sort is stable, and dict keeps the order of appearance.
    columns = sorted(dict.fromkeys(names.tolist()), key=lambda name: name != "identity")
    columns = columns if order is None else list(order)
    lines = np.unique(groups) if classes is None else np.asarray(classes)
    column_of = _places("order", "transforms", columns, names.tolist())
    line_of = _places("classes", "labels", lines.tolist(), groups.tolist())
    counts = np.zeros((len(lines), len(columns)), dtype=np.int64)
    np.add.at(counts, (line_of, column_of), 1)
    return counts, columns, lines


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


def _places(name: str, other: str, entries: list[Any], wanted: list[Any]) -> list[int]:
    """Return the index of each wanted value among the entries of an argument."""
    places = {entry: place for place, entry in enumerate(entries)}
    if len(places) < len(entries):
        raise ValueError(f"{name} must not repeat an entry, got {entries}")
    missing = [entry for entry in dict.fromkeys(wanted) if entry not in places]
    if missing:
        raise ValueError(f"{name} must contain all {other}, but {missing[0]!r} is missing in {entries}")
    return [places[entry] for entry in wanted]


def _own_shape(images: ArrayLike) -> tuple[int, ...] | None:
    """Return the shape of one image, or None if the images are flat rows."""
    shape = np.shape(images)
    return shape[1:] if len(shape) > 2 else None


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
