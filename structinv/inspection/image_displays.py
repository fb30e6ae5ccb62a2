"""Pictures of what invariances do: worst cases of images, and changes that became support vectors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ..oracles import InvarianceOracle
from ..oracles.checked_oracle import bind
from ..oracles.images.image_maps import ImageShape, image_shape
from ..oracles.listing import listed
from .figures import new_figure, written

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_worst_cases(
    originals: ArrayLike,
    changed: ArrayLike,
    path: Path | str | None = None,
    *,
    shape: ImageShape | tuple[int, ...] | None = None,
    titles: Sequence[str] | None = None,
) -> Figure:
    """Images in one line, and below each what the worst change made of it.

    The smallest and the largest value of all pictures (0, if nothing is below) are black and white.

    Parameters
    ----------
    originals, changed : (n, d), (n, height, width) or (n, height, width, channels) array-like
        Images, as rows or not, such as `X` and ``model.worst_case(X, y)``.
    path : Path or str, optional
        The picture to write; its ending says the format. None writes nothing.
    shape : ImageShape or tuple, optional
        ``(height, width)`` or ``(height, width, channels)`` with 1 (gray) or 3 (color) channels;
        None for that of the arrays, and for square gray images where they hold rows.
    titles : (n,) sequence of str, optional
        A caption for each column, of one line or several.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    TypeError, ValueError
        If the arrays do not have the same shape, hold no image or numbers that are not finite, or if
        `shape` or `titles` do not fit them.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv import InvariantSVC
    >>> from structinv.oracles import Shifts
    >>> X, y = np.eye(9)[:4], np.array([0, 0, 1, 1])
    >>> model = InvariantSVC(Shifts(1, shape=(3, 3)), random_state=0).fit(X, y)
    >>> figure = draw_worst_cases(X, model.worst_case(X, y))
    >>> len(figure.axes)
    8
    """
    rows = _images("originals", originals), _images("changed", changed)
    if rows[0].shape != rows[1].shape:
        raise ValueError(
            f"changed must have the shape of originals, {rows[0].shape}, got {rows[1].shape}"
        )
    count, n_features = rows[0].shape
    form = image_shape(_own_shape(originals) if shape is None else shape, n_features)
    if form is None or form.channels not in (1, 3):
        raise ValueError(f"shape must have 1 or 3 channels to be drawn, got {shape!r}")
    if titles is not None and len(titles) != count:
        raise ValueError(f"titles must have one entry for each of {count} images, got {len(titles)}")

    low, high = min(0.0, *(float(images.min()) for images in rows)), max(float(i.max()) for i in rows)
    scale = max(high - low, np.finfo(np.float64).tiny)
    titles = None if titles is None else [str(title) for title in titles]
    lines = 0 if titles is None else max(title.count("\n") + 1 for title in titles)
    tall = 1.25 * form.height / form.width
    figure = new_figure(1.25 * count + 0.5, 2 * tall + 0.17 * lines + 0.2)
    grid = figure.subplots(2, count, squeeze=False)
    for line, name, images in zip(grid, ("original", "worst case"), rows, strict=True):
        for axes, image in zip(line, images, strict=True):
            picture = ((image - low) / scale).reshape(form.height, form.width, form.channels)
            # One channel becomes three: imshow would choose colors of its own.
            axes.imshow(np.broadcast_to(picture, (form.height, form.width, 3)))
            axes.set(xticks=[], yticks=[])
        line[0].set_ylabel(name)
    for axes, title in zip(grid[0], titles or (), strict=False):
        axes.set_title(title, fontsize=8)
    return written(figure, path)


def draw_transforms(
    transforms: ArrayLike,
    labels: ArrayLike,
    path: Path | str | None = None,
    *,
    order: Sequence[str] | None = None,
    classes: ArrayLike | None = None,
) -> Figure:
    """Which changes became support vectors: a table of counts, a line a class, a column a change.

    Parameters
    ----------
    transforms : (m,) array-like of str
        The change of each support vector: ``model.support_transforms_`` of `InvariantSVC`.
    labels : (m,) array-like
        The class of each: ``y[model.support_]``.
    path : Path or str, optional
        The picture to write; its ending says the format. None writes nothing.
    order : sequence of str, optional
        All changes, as columns from the left, also those that never occur;
        ``oracle.changes(X).names`` has the order of the list. By default those that occur,
        "identity" first, then by their first appearance.
    classes : array-like, optional
        All classes, from the top; by default those that occur, sorted.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ValueError
        If there is no support vector, if the lengths differ, if `order` or `classes` repeat an entry, or
        if one is missing there.

    Examples
    --------
    >>> figure = draw_transforms(["identity", "flip"], [3, 8])
    >>> [text.get_text() for text in figure.axes[0].get_xticklabels()]
    ['identity', 'flip']
    """
    counts, names, groups = transform_counts(transforms, labels, order=order, classes=classes)
    n_classes, n_names = counts.shape
    lines = [str(group) for group in groups]
    width = 0.36 * n_names + 0.08 * max(map(len, lines)) + 1.8
    figure = new_figure(width, 0.3 * n_classes + 2.2)
    axes = figure.subplots()
    axes.imshow(counts, cmap="Blues", vmin=0, vmax=max(1, counts.max()), aspect="auto")
    axes.set_xticks(range(n_names), names, rotation=90, fontsize=8)
    axes.set_yticks(range(n_classes), lines)
    axes.set_ylabel("class")
    figure.suptitle("number of support vectors", fontsize=10)
    for (row, column), number in np.ndenumerate(counts):
        color = "white" if number > 0.6 * counts.max() else "black"
        axes.text(column, row, f"{number:d}", ha="center", va="center", color=color, fontsize=7)
    return written(figure, path)


def transform_counts(
    transforms: ArrayLike,
    labels: ArrayLike,
    *,
    order: Sequence[str] | None = None,
    classes: ArrayLike | None = None,
) -> tuple[np.ndarray, list[str], np.ndarray]:
    """The table of `draw_transforms`, (n_classes, n_transforms), its changes and its classes."""
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
    """The name of the change that turned each row into another, for captions.

    Parameters
    ----------
    oracle : InvarianceOracle
        With an orbit or a cover.
    X, changed : (n, d) array-like
        Rows, and members of their S(x), such as ``model.worst_case(X, y)``.
    y : (n,) array-like, optional
        Labels, for oracles that depend on them.

    Returns
    -------
    list of str
        The nearest member of each row's orbit or cover; the first of those that are equally near.

    Raises
    ------
    ValueError
        If `X` and `changed` do not have the same shape (n, d).
    NotImplementedError
        If the oracle has neither orbit nor cover.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.oracles import Shifts
    >>> X = np.array([[0.0, 1.0, 2.0, 0.0]])
    >>> name_changes(Shifts(1, shape=(1, 4)), X, np.array([[0.0, 0.0, 1.0, 2.0]]))
    ['shift (0, 1)']
    """
    rows, others = np.asarray(X), np.asarray(changed)
    if rows.ndim != 2 or rows.shape != others.shape:
        raise ValueError(
            f"X and changed must have one shape (n, d), got {rows.shape} and {others.shape}"
        )
    bound = bind(oracle, rows, None if y is None else np.asarray(y))
    changes = listed(bound)
    names, members = changes.names, changes.members()
    distances = np.sum(np.square(members - others[:, None]), axis=2)
    return [names[number] for number in np.argmin(distances, axis=1)]


def _places(name: str, other: str, entries: list[Any], wanted: list[Any]) -> list[int]:
    """Where each wanted value stands among the entries of an argument."""
    places = {entry: place for place, entry in enumerate(entries)}
    if len(places) < len(entries):
        raise ValueError(f"{name} must not repeat an entry, got {entries}")
    missing = [entry for entry in dict.fromkeys(wanted) if entry not in places]
    if missing:
        raise ValueError(f"{name} must hold all {other}, but lacks {missing[0]!r}: {entries}")
    return [places[entry] for entry in wanted]


def _own_shape(images: ArrayLike) -> tuple[int, ...] | None:
    """The shape of images that are not given as rows."""
    shape = np.shape(images)
    return shape[1:] if len(shape) > 2 else None


def _images(name: str, images: ArrayLike) -> np.ndarray:
    rows = np.asarray(images, dtype=np.float64)
    if rows.ndim > 2 and rows.size:
        rows = rows.reshape(len(rows), -1)
    if rows.ndim != 2 or not rows.size:
        raise ValueError(f"{name} must have shape (n, d), an image a row, got {rows.shape}")
    if not np.all(np.isfinite(rows)):
        raise ValueError(f"{name} must be finite")
    return rows
