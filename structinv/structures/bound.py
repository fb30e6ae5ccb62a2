"""Output structure with the true labels of one fit, and codes of labels."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ..utils.matrices import ALL_ROWS, Matrix, Rows, count, refuse_masked
from ..utils.parameters import brief, places_of
from . import inference
from .competitors import Competitors
from .decodings import Decoding, Layout, laid_out
from .third_party import checked

if TYPE_CHECKING:
    from .base import Structure


class BoundStructure:
    """Output structure with true labels, used by objectives and certificates.

    Shapes: `classes` (n_labels,), `codes` (n_rows,).
    """

    def __init__(
        self,
        structure: Structure,
        y: np.ndarray,
        classes: np.ndarray | None = None,
        *,
        layout: Layout | None = None,
        cost: ArrayLike | None = None,
        rescaling: str = "margin",
        position_weight: ArrayLike | None = None,
    ) -> None:
        check_rescaling(rescaling)
        name = type(structure).__name__
        if rescaling not in structure.rescalings:
            raise ValueError(
                f"rescaling must be one of {structure.rescalings} for {name}, got {rescaling!r}"
            )
        self.structure = structure
        self.classes: Any = None
        n_labels = self._take_truth(y, classes, cost, position_weight)
        self.layout = layout
        if layout is not None:
            check_layout(layout, len(self.codes))
            if structure.rowwise:
                raise ValueError(f"layout must be None for {name}, whose examples are single rows")
        structure = self.structure = structure.prepared(self.classes, self.codes, layout)
        self.slack = rescaling == "slack"
        self._checked = checked(structure)
        self.functions = self._checked.functions(n_labels)
        self.n_outputs, self.n_labels = self.functions.n_outputs, len(self.functions)
        self.n_pairwise = self._checked.n_pairwise(n_labels)
        if layout is None and (self.n_pairwise or not structure.rowwise):
            # Each row is an example, and its labeling has features.
            self.layout = Layout.of_rows(len(self.codes))

    def _take_truth(
        self, y: np.ndarray, classes: Any, cost: ArrayLike | None, position_weight: ArrayLike | None
    ) -> int:
        """Store the validated targets, costs and weights, and return the number of labels."""
        self.classes, self.codes = encode_labels(y, classes)
        self.structure.check_classes(self.classes)
        self.cost = check_cost(cost, self.classes)
        self.position_weight = check_position_weight(position_weight, len(self.codes))
        return len(self.classes)

    @property
    def n_blocks(self) -> int:
        """Number of examples."""
        return len(self.codes) if self.layout is None else len(self.layout)

    def rows(self, blocks: Rows) -> tuple[Rows, Layout | None]:
        """Return the rows of blocks, and their layout if examples have several rows."""
        if self.layout is None:
            return blocks, None
        return self.layout.rows(blocks), self.layout.take(blocks)

    def portions(self, blocks: Rows, most_rows: int) -> list[Rows]:
        """Split the blocks into runs of at most `most_rows` rows, or of one block."""
        n_blocks = count(blocks, self.n_blocks)
        each = np.ones(n_blocks, dtype=np.int64)
        lengths = each if self.layout is None else self.layout.lengths[blocks]
        if lengths.sum() <= most_rows:
            return [blocks]
        edges = [0]
        ends = np.cumsum(lengths)
        while edges[-1] < n_blocks:
            before = ends[edges[-1] - 1] if edges[-1] else 0
            edges.append(max(edges[-1] + 1, int(np.searchsorted(ends, before + most_rows, "right"))))
        parts = list(zip(edges[:-1], edges[1:], strict=True))
        if isinstance(blocks, slice):
            start, step = blocks.start or 0, blocks.step or 1
            return [slice(start + first * step, start + last * step, step) for first, last in parts]
        return [blocks[first:last] for first, last in parts]

    @property
    def unit(self) -> float:
        """Typical magnitude of the scores: 1 for labels."""
        return 1.0

    def costs(self, rows: Rows) -> np.ndarray:
        """Return the cost of each label for each row, (n, n_labels)."""
        costs = self.cost[self.codes[rows]]
        return costs if self.position_weight is None else costs * self.position_weight[rows, None]

    def allowed(self) -> np.ndarray:
        """Return True for each block whose true labeling is allowed, (n_blocks,)."""
        layout = laid_out(self.layout, len(self.codes))
        return self._checked.allows(self.codes, layout, self.n_labels)

    def competitors(self, rows: Rows = ALL_ROWS) -> Competitors:
        """Return the true labels and costs of some rows."""
        alone = self.layout is None and self.structure.rowwise
        return Competitors(self.functions, self.codes[rows], self.costs(rows), self.slack, alone)

    def separate(
        self, competitors: Competitors, found: Any, pairwise: np.ndarray, layout: Layout | None
    ) -> Decoding:
        """Return the loss-augmented argmax of each block."""
        known = laid_out(layout, len(competitors))
        return self._checked.separate(competitors, found, pairwise, known)

    @property
    def relaxed(self) -> bool:
        """True if the loss is the relaxed loss."""
        known = laid_out(self.layout, len(self.codes))
        return bool(self.structure.relaxes(self.n_labels, known))

    def moved(self, labels: np.ndarray, codes: np.ndarray, layout: Layout) -> Matrix:
        """Return features of labelings minus the true ones, (n_blocks, n_pairwise)."""
        return self._features(labels, layout) - self._features(codes, layout)

    def moved_by(self, chosen: Decoding, codes: np.ndarray, layout: Layout) -> Matrix:
        """Return `moved` for chosen labelings, whole or fractional."""
        if chosen.fractions is None:
            return self.moved(chosen.labels, codes, layout)
        return chosen.features - self._features(codes, layout)

    def pairwise_gain(
        self, chosen: Decoding, codes: np.ndarray, pairwise: np.ndarray, layout: Layout
    ) -> np.ndarray:
        """Return the pairwise score of chosen labelings minus the true ones, (n_blocks,)."""
        true_score = self.pairwise_score(codes, pairwise, layout)
        if chosen.fractions is None:
            return self.pairwise_score(chosen.labels, pairwise, layout) - true_score
        return chosen.features @ pairwise - true_score

    def pairwise_score(self, labels: np.ndarray, pairwise: np.ndarray, layout: Layout) -> np.ndarray:
        """Return the pairwise part of each block's score."""
        return self._checked.pairwise_score(labels, pairwise, layout, self.n_labels)

    def _features(self, labels: np.ndarray, layout: Layout) -> Matrix:
        return self._checked.features(labels, layout, self.n_labels)

    def predict(
        self, scores: np.ndarray, pairwise: np.ndarray | None = None, layout: Layout | None = None
    ) -> np.ndarray:
        """Return the index of each row's label in the best labeling.

        The scores are ``f(x, k)``. By default the layout is that of the bound rows; see `predicted`.
        """
        known = self.layout if layout is None and len(scores) == len(self.codes) else layout
        return predicted(self.structure, self.n_labels, scores, pairwise, known)

    def runner_up(
        self, potentials: np.ndarray, codes: np.ndarray, pairwise: np.ndarray, layout: Layout | None
    ) -> Decoding:
        """Return the best labeling other than `codes`, and an upper bound of its score."""
        known = laid_out(layout, len(codes))
        return inference.runner_up(self.structure, potentials, codes, pairwise, known)

    def most_wrong(
        self,
        potentials: np.ndarray,
        codes: np.ndarray,
        thresholds: np.ndarray,
        pairwise: np.ndarray,
        layout: Layout,
    ) -> np.ndarray:
        """Bound the number of wrong rows in a sufficient labeling of each block."""
        return self._checked.most_wrong(potentials, codes, thresholds, pairwise, layout)


def predicted(
    structure: Structure,
    n_labels: int,
    scores: np.ndarray,
    pairwise: np.ndarray | None = None,
    layout: Layout | None = None,
) -> np.ndarray:
    """Return the index of each row's label in the highest-scoring labeling.

    Shapes: `scores` (n_rows, n_outputs), `pairwise` (n_pairwise,).
    """
    if layout is not None:
        check_layout(layout, len(scores))
    known = laid_out(layout, len(scores))
    potentials = checked(structure).functions(n_labels).scores(scores)
    weights = np.zeros(0) if pairwise is None else pairwise
    return inference.decoded(structure, potentials, weights, known).labels


def check_layout(layout: Layout, n_rows: int) -> None:
    """Raise TypeError or ValueError unless the layout has `n_rows` rows."""
    if not isinstance(layout, Layout):
        raise TypeError(f"layout must be a Layout, got {layout!r}")
    edges: Any = np.asarray(layout.starts)
    if edges.ndim != 1 or edges.dtype.kind not in "iu" or len(edges) == 0:
        raise ValueError(f"layout.starts must contain integers, got {layout.starts!r}")
    if edges[0] != 0 or edges[-1] != n_rows or np.any(np.diff(edges) <= 0):
        raise ValueError(
            f"layout.starts must increase from 0 to the number of rows, {n_rows}, got {layout.starts!r}"
        )


def check_position_weight(position_weight: ArrayLike | None, n_rows: int) -> np.ndarray | None:
    """Return finite, nonnegative weights of rows, or raise ValueError."""
    if position_weight is None:
        return None
    weights = np.asarray(position_weight, dtype=np.float64)
    if weights.shape != (n_rows,):
        raise ValueError(f"position_weight must have shape ({n_rows},), got {weights.shape}")
    if not np.all(np.isfinite(weights)) or np.any(weights < 0):
        raise ValueError("position_weight must be finite and non-negative")
    return weights


# Number of labels in messages.
_MOST_SHOWN = 10


def encode_labels(y: np.ndarray, classes: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return the classes and the index of each row's label among them.

    Classes are sorted. Classes that are given as objects keep their order. Raises ValueError for a label
    outside the given classes.
    """
    y = np.asarray(y)
    if y.ndim != 1:
        raise ValueError(f"y must have shape (n,), one label per row, got {y.shape}")
    if classes is None:
        if y.dtype.kind == "f" and np.any(np.isnan(y)):
            raise ValueError("y must contain labels, got NaN")
        try:
            return np.unique(y, return_inverse=True)
        except TypeError as error:
            raise TypeError(f"y must contain labels of one sortable type: {error}") from None
    classes = np.asarray(classes)
    if classes.dtype == object:
        return classes, _places_of(y, classes)
    if len(classes) > 1 and not np.all(classes[:-1] < classes[1:]):
        raise ValueError(f"classes must be sorted, without duplicates, got {classes}")
    codes = np.searchsorted(classes, y)
    known = classes[np.minimum(codes, len(classes) - 1)] == y
    if not np.all(known):
        raise _unknown(np.unique(np.asarray(y)[~known]).tolist(), classes)
    return classes, codes


def _places_of(y: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Return the index of each label among hashable classes, which need no order."""
    places = {label: place for place, label in enumerate(classes)}
    if len(places) < len(classes):
        raise ValueError(f"classes must be without duplicates, got {classes}")
    codes = np.array([places.get(label, -1) for label in y], dtype=np.int64)
    if np.any(codes < 0):
        raise _unknown(list(dict.fromkeys(y[codes < 0].tolist())), classes)
    return codes


def _unknown(labels: list[Any], classes: np.ndarray) -> ValueError:
    """Return the error for labels that are no classes; it has the first classes."""
    listed = classes[:_MOST_SHOWN].tolist()
    more = f" and {len(classes) - len(listed)} more" if len(classes) > len(listed) else ""
    return ValueError(
        f"y contains labels that are not among the classes: {labels[:_MOST_SHOWN]}; classes are "
        f"{listed}{more}"
    )


def check_named_labels(argument: str, named: Iterable[Any], classes: np.ndarray) -> None:
    """Raise ValueError if a parameter names a label that is not a class.

    Some meta-estimators fit a model on codes 0, 1, ... instead of the labels. The message mentions it if
    the classes are such codes.
    """
    classes = np.asarray(classes)
    known = classes.tolist()
    # A comparison of lists distinguishes 1 and "1", and needs no hash.
    unknown = [label for label in named if label not in known]
    if not unknown:
        return
    message = f"{argument}: labels must be among the classes {known}, got {unknown[0]!r}"
    same = [label for label in known if str(label) == str(unknown[0])]
    if same:
        message += f": pass {same[0]!r}, which has the type of y"
    elif classes.dtype.kind in "iu" and known == list(range(len(known))):
        message += (
            ". A meta-estimator has probably encoded y as 0, 1, ..., as cross_val_predict and "
            "CalibratedClassifierCV(ensemble=False) do: pass y with the labels 0, 1, ... and name them, "
            "or use CalibratedClassifierCV(ensemble=True)"
        )
    raise ValueError(message)


def check_cost(cost: ArrayLike | None, classes: np.ndarray) -> np.ndarray:
    """Return a cost matrix with a zero diagonal, in the order of the classes."""
    n_classes = len(classes)
    if cost is None:
        return 1.0 - np.eye(n_classes)
    refuse_masked("cost", cost)
    try:
        table = np.asarray(cost, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"cost must be a matrix of numbers, got {brief(cost)}") from None
    if table.shape != (n_classes, n_classes):
        raise ValueError(
            f"cost must have shape ({n_classes}, {n_classes}), one row and one column per class, "
            f"got {table.shape}"
        )
    for axis in (0, -1):
        places = places_of("cost", cost, axis, classes.tolist(), "class of y")
        table = table if places is None else np.take(table, places, axis=axis)
    if not np.all(np.isfinite(table)) or np.any(table < 0):
        raise ValueError("cost must contain finite non-negative numbers")
    if np.any(np.diag(table) != 0):
        raise ValueError("cost must have a zero diagonal: a correct prediction has no cost")
    return table


def check_rescaling(rescaling: str) -> None:
    """Raise ValueError unless the name of a rescaling is valid."""
    if rescaling not in ("margin", "slack"):
        raise ValueError(f"rescaling must be 'margin' or 'slack', got {rescaling!r}")
