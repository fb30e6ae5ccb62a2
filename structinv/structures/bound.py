"""A structure with the true labels of given rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ..utils.matrices import ALL_ROWS, Matrix, Rows, count
from . import checked_structure
from .competitors import Competitors
from .decodings import Decoding, Separation
from .label_codes import check_cost, check_rescaling, encode_labels
from .layout import Layout, laid_out

if TYPE_CHECKING:
    from .base import Structure


class BoundStructure:
    """A structure with the true labels of given rows, as objectives and certificates ask it.

    Parameters
    ----------
    structure : Structure
    y, classes, layout, cost, rescaling, position_weight
        See `Structure.bind`.

    Attributes
    ----------
    classes : (n_labels,) array, or None
        None where the truth of rows is a number.
    codes : (n_rows,) array of int
        Index of each row's true label in `classes`.
    layout : Layout, or None
        Which rows belong to which block; None where each row is one.
    slack : bool
    functions : LabelFunctions
    n_outputs : int
        How many functions ``f(., k)`` are learned.
    n_labels : int
        How many labels there are.
    n_pairwise : int
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
        n_labels = self._take_truth(y, classes, cost)
        self.position_weight = check_position_weight(position_weight, len(self.codes))
        self.layout = layout
        if layout is not None:
            check_layout(layout, len(self.codes))
            if structure.rowwise:
                raise ValueError(f"layout must be None for {name}, whose examples are single rows")
        structure = self.structure = structure.prepared(self.classes, self.codes, layout)
        self.slack = rescaling == "slack"
        self.functions = checked_structure.functions(structure, n_labels)
        self.n_outputs, self.n_labels = self.functions.n_outputs, len(self.functions)
        self.n_pairwise = checked_structure.n_pairwise(structure, n_labels)
        if layout is None and (self.n_pairwise or not structure.rowwise):
            # Examples of one row each, whose labels have features all the same.
            self.layout = Layout.of_rows(len(self.codes))

    def _take_truth(self, y: np.ndarray, classes: np.ndarray | None, cost: ArrayLike | None) -> int:
        """Keep what is true of each row and what errors cost, checked; how many labels there are."""
        self.classes, self.codes = encode_labels(y, classes)
        self.structure.check_classes(self.classes)
        self.cost = check_cost(cost, len(self.classes))
        return len(self.classes)

    @property
    def n_blocks(self) -> int:
        """How many examples there are."""
        return len(self.codes) if self.layout is None else len(self.layout)

    def rows(self, blocks: Rows) -> tuple[Rows, Layout | None]:
        """The rows of the blocks named, and their layout if examples have several rows."""
        if self.layout is None:
            return blocks, None
        return self.layout.rows(blocks), self.layout.take(blocks)

    def portions(self, blocks: Rows, most_rows: int) -> list[Rows]:
        """The blocks in runs of at most so many rows, or of one block."""
        n_blocks = count(blocks, self.n_blocks)
        each = np.ones(n_blocks, dtype=np.int64)
        sizes = each if self.layout is None else self.layout.lengths[blocks]
        if sizes.sum() <= most_rows:
            return [blocks]
        edges = [0]
        ends = np.cumsum(sizes)
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
        """How large scores are that losses ask for: 1 for labels, as large as targets are for these."""
        return 1.0

    def costs(self, rows: Rows) -> np.ndarray:
        """The cost of each label for each row, (n, n_labels)."""
        costs = self.cost[self.codes[rows]]
        return costs if self.position_weight is None else costs * self.position_weight[rows, None]

    def allowed(self) -> np.ndarray:
        """Whether the structure has the true labeling of each block, (n_blocks,) of bool."""
        layout = laid_out(self.layout, len(self.codes))
        return checked_structure.allowed(self.structure, self.codes, layout, self.n_labels)

    def competitors(self, rows: Rows = ALL_ROWS) -> Competitors:
        """All labels against the true ones of some rows."""
        alone = self.layout is None and self.structure.rowwise
        return Competitors(self.functions, self.codes[rows], self.costs(rows), self.slack, alone)

    def separate(
        self, competitors: Competitors, found: Any, pairwise: np.ndarray, layout: Layout | None
    ) -> Separation:
        """The most violated labeling of each block; see `Structure.separate`."""
        known = laid_out(layout, len(competitors))
        return checked_structure.separated(self.structure, competitors, found, pairwise, known)

    def as_shares(self, chosen: Separation, layout: Layout) -> Separation:
        """What was chosen as shares of labels, of which whole labelings have one each."""
        if chosen.shares is not None:
            return chosen
        shares = np.eye(self.n_labels)[chosen.labels]
        return replace(chosen, shares=shares, features=self._features(chosen.labels, layout))

    @property
    def relaxed(self) -> bool:
        """Whether the loss is that of a relaxed maximum; see `Structure.relaxes`."""
        known = laid_out(self.layout, len(self.codes))
        return bool(self.structure.relaxes(self.n_labels, known))

    def moved(self, labels: np.ndarray, codes: np.ndarray, layout: Layout) -> Matrix:
        """Features of labelings less those of the true ones, (n_blocks, n_pairwise)."""
        return self._features(labels, layout) - self._features(codes, layout)

    def moved_by(self, chosen: Separation, codes: np.ndarray, layout: Layout) -> Matrix:
        """`moved` of what was chosen, labels or shares of them."""
        if chosen.shares is None:
            return self.moved(chosen.labels, codes, layout)
        return chosen.features - self._features(codes, layout)

    def extra_gain(
        self, chosen: Separation, codes: np.ndarray, pairwise: np.ndarray, layout: Layout
    ) -> np.ndarray:
        """How much more `pairwise` adds to what was chosen than to the true labelings, (n_blocks,)."""
        own = self._pairwise_score(codes, pairwise, layout)
        if chosen.shares is None:
            return self._pairwise_score(chosen.labels, pairwise, layout) - own
        return chosen.features @ pairwise - own

    def _pairwise_score(self, labels: np.ndarray, pairwise: np.ndarray, layout: Layout) -> np.ndarray:
        return checked_structure.pairwise_score(self.structure, labels, pairwise, layout, self.n_labels)

    def _features(self, labels: np.ndarray, layout: Layout) -> Matrix:
        return checked_structure.features(self.structure, labels, layout, self.n_labels, self.n_pairwise)

    def predict(
        self, scores: np.ndarray, pairwise: np.ndarray | None = None, layout: Layout | None = None
    ) -> np.ndarray:
        """Index of the label that each row has in the best labeling, from ``f(x, k)``.

        By default rows belong together as those that the structure is bound to; see `predicted`.
        """
        known = self.layout if layout is None and len(scores) == len(self.codes) else layout
        return predicted(self.structure, self.n_labels, scores, pairwise, known)

    def runner_up(
        self, potentials: np.ndarray, codes: np.ndarray, pairwise: np.ndarray, layout: Layout | None
    ) -> Decoding:
        """The best labeling other than the one given, and a bound; see `Structure.runner_up`."""
        known = laid_out(layout, len(codes))
        return checked_structure.runner_up(self.structure, potentials, codes, pairwise, known)

    def most_wrong(
        self,
        potentials: np.ndarray,
        codes: np.ndarray,
        floors: np.ndarray,
        pairwise: np.ndarray,
        layout: Layout,
    ) -> np.ndarray:
        """How many rows of each block differ at most; see `Structure.most_wrong`."""
        return checked_structure.most_wrong(self.structure, potentials, codes, floors, pairwise, layout)


def predicted(
    structure: Structure,
    n_labels: int,
    scores: np.ndarray,
    pairwise: np.ndarray | None = None,
    layout: Layout | None = None,
) -> np.ndarray:
    """Index of the label that each row has in the labeling of highest score.

    Parameters
    ----------
    structure : Structure
    n_labels : int
    scores : (n_rows, n_outputs) array
        The values of the functions at the rows, finite.
    pairwise : (n_pairwise,) array, optional
        None where there are none.
    layout : Layout, optional
        By default each row is an example.

    Raises
    ------
    ValueError
        If the layout is not one of these rows.
    """
    if layout is not None:
        check_layout(layout, len(scores))
    known = laid_out(layout, len(scores))
    potentials = checked_structure.functions(structure, n_labels).scores(scores)
    own = np.zeros(0) if pairwise is None else pairwise
    return checked_structure.decoded(structure, potentials, own, known).labels


def check_layout(layout: Layout, n_rows: int) -> None:
    """Raise TypeError or ValueError unless the layout is one of so many rows."""
    if not isinstance(layout, Layout):
        raise TypeError(f"layout must be a Layout, got {layout!r}")
    edges: Any = np.asarray(layout.starts)
    if edges.ndim != 1 or edges.dtype.kind not in "iu" or len(edges) == 0:
        raise ValueError(f"layout.starts must hold integers, got {layout.starts!r}")
    if edges[0] != 0 or edges[-1] != n_rows or np.any(np.diff(edges) <= 0):
        raise ValueError(
            f"layout.starts must rise from 0 to the number of rows, {n_rows}, got {layout.starts!r}"
        )


def check_position_weight(position_weight: ArrayLike | None, n_rows: int) -> np.ndarray | None:
    """Finite, non-negative weights of rows, or a ValueError; None for none."""
    if position_weight is None:
        return None
    weights = np.asarray(position_weight, dtype=np.float64)
    if weights.shape != (n_rows,):
        raise ValueError(f"position_weight must have shape ({n_rows},), got {weights.shape}")
    if not np.all(np.isfinite(weights)) or np.any(weights < 0):
        raise ValueError("position_weight must be finite and non-negative")
    return weights
