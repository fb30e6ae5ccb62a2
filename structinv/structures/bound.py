"""A structure with true labels, and the door through which its answers come in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .. import answers
from ..matrices import ALL_ROWS, Matrix, Rows, count
from .base import Structure
from .decodings import (
    Decoding,
    Separation,
    check_decoding,
    check_features,
    check_levels,
    check_shares,
    decoded,
    without_infinities,
)
from .labels import check_cost, check_rescaling, encode_labels
from .layout import Layout, laid_out
from .rivals import LabelFunctions, Rivals


class BoundStructure:
    """What objectives and certificates ask: a structure with the true labels of given rows.

    What the structure answers is looked at once, by name.

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
    n_extra : int
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
        self.functions = checked_functions(structure, n_labels)
        n_extra: Any = structure.n_extra(n_labels)
        source = answers.method(structure, "n_extra")
        self.n_extra = int(answers.number(source, "n_extra", n_extra, least=0))
        if layout is None and (self.n_extra or not structure.rowwise):
            # Examples of one row each, whose labels have features all the same.
            self.layout = Layout.of_rows(len(self.codes))

    def _take_truth(self, y: np.ndarray, classes: np.ndarray | None, cost: ArrayLike | None) -> int:
        """Keep what is true of each row and what errors cost, checked; how many labels there are."""
        self.classes, self.codes = encode_labels(y, classes)
        self.structure.check_classes(self.classes)
        self.cost = check_cost(cost, len(self.classes))
        return len(self.classes)

    @property
    def n_outputs(self) -> int:
        """How many functions ``f(., k)`` are learnt."""
        return self.functions.n_outputs

    @property
    def n_labels(self) -> int:
        """How many labels there are."""
        return len(self.functions)

    @property
    def rowwise(self) -> bool:
        """Whether every row is a block of its own, and its loss the largest over its labels."""
        return self.structure.rowwise

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
        sizes = each if self.layout is None else self.layout.sizes[blocks]
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
        """Whether the structure has the true labelling of each block, (n_blocks,) of bool."""
        layout = laid_out(self.layout, len(self.codes))
        found: Any = self.structure.allows(self.codes, layout, self.n_labels)
        source = answers.method(self.structure, "allows")
        return answers.numbers(source, "allows", np.asarray(found, np.float64), (len(layout),)) > 0

    def rivals(self, rows: Rows = ALL_ROWS) -> Rivals:
        """All labels against the true ones of some rows."""
        return Rivals(self.functions, self.codes[rows], self.costs(rows), self.slack)

    def separate(
        self, rivals: Rivals, found: Any, extra: np.ndarray, layout: Layout | None
    ) -> Separation:
        """The most violated labelling of each block, looked at; see `Structure.separate`.

        Raises
        ------
        TypeError, ValueError
            If the structure's answer is no `Separation`, an array has another shape, or a label is none.
        """
        n_rows = len(rivals)
        known = laid_out(layout, n_rows)
        source = answers.method(self.structure, "separate")
        answer = self.structure.separate(rivals, found, extra, known)
        if not isinstance(answer, Separation):
            raise TypeError(f"{source} must return a Separation, got {type(answer).__name__}")
        shape = (len(known),)
        labels = answers.integers(source, "labels", answer.labels, (n_rows,), self.n_labels)
        upper = answers.numbers(source, "upper", answer.upper, shape, finite=False)
        if np.any(upper == -np.inf):
            raise ValueError(f"{source} must return upper above -infinity")
        scale = answer.scale
        if scale is not None:
            scale = answers.numbers(source, "scale", scale, shape)
        of_features = (len(known), self.n_extra)
        levels = check_levels(source, answer.levels, np.shape(found.gains), known)
        shares = check_shares(source, answer, (n_rows, self.n_labels), of_features)
        return Separation(labels, upper, scale, levels, *shares)

    def as_shares(self, chosen: Separation, layout: Layout) -> Separation:
        """What was chosen as shares of labels, of which whole labellings have one each."""
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
        """By how much features of labellings differ from those of the true one, (n_blocks, n_extra)."""
        return self._features(labels, layout) - self._features(codes, layout)

    def moved_by(self, chosen: Separation, codes: np.ndarray, layout: Layout) -> Matrix:
        """`moved` of what was chosen, labels or shares of them."""
        if chosen.shares is None:
            return self.moved(chosen.labels, codes, layout)
        return chosen.features - self._features(codes, layout)

    def extra_gain(
        self, chosen: Separation, codes: np.ndarray, extra: np.ndarray, layout: Layout
    ) -> np.ndarray:
        """How much more `extra` adds to what was chosen than to the true labellings, (n_blocks,)."""
        own = self._extra_score(codes, extra, layout)
        if chosen.shares is None:
            return self._extra_score(chosen.labels, extra, layout) - own
        return chosen.features @ extra - own

    def _extra_score(self, labels: np.ndarray, extra: np.ndarray, layout: Layout) -> np.ndarray:
        source, shape = answers.method(self.structure, "extra_score"), (len(layout),)
        found = self.structure.extra_score(labels, extra, layout, self.n_labels)
        return answers.numbers(source, "extra_score", found, shape)

    def _features(self, labels: np.ndarray, layout: Layout) -> Matrix:
        source, shape = answers.method(self.structure, "features"), (len(layout), self.n_extra)
        return check_features(source, self.structure.features(labels, layout, self.n_labels), shape)

    def predict(
        self, scores: np.ndarray, extra: np.ndarray | None = None, layout: Layout | None = None
    ) -> np.ndarray:
        """Index of the label that each row has in the best labelling, from ``f(x, k)``.

        By default rows belong together as those that the structure is bound to; see `predicted`.
        """
        known = self.layout if layout is None and len(scores) == len(self.codes) else layout
        return predicted(self.structure, self.n_labels, scores, extra, known)

    def runner_up(
        self, potentials: np.ndarray, codes: np.ndarray, extra: np.ndarray, layout: Layout | None
    ) -> Decoding:
        """The best labelling other than the one given, and a bound; see `Structure.runner_up`."""
        known = laid_out(layout, len(codes))
        asked, unbounded = without_infinities(potentials, known)
        found = self.structure.runner_up(asked, codes, extra, known)
        source = answers.method(self.structure, "runner_up")
        checked = check_decoding(source, found, potentials.shape, known, len(extra))
        upper = checked.upper
        if upper is None:
            upper = self.structure.score(asked, checked.labels, extra, known, checked.levels)
        if unbounded is not None:
            # Where there is another labelling at all.
            upper = np.where(unbounded & (upper > -np.inf), np.inf, upper)
        return Decoding(checked.labels, upper, checked.levels)

    def most_wrong(
        self,
        potentials: np.ndarray,
        codes: np.ndarray,
        floors: np.ndarray,
        extra: np.ndarray,
        layout: Layout,
    ) -> np.ndarray:
        """How many rows of each block differ at most; see `Structure.most_wrong`."""
        found = self.structure.most_wrong(potentials, codes, floors, extra, layout)
        most: Any = int(layout.sizes.max()) + 1
        source = answers.method(self.structure, "most_wrong")
        return answers.integers(source, "counts", found, (len(layout),), most)


def predicted(
    structure: Structure,
    n_labels: int,
    scores: np.ndarray,
    extra: np.ndarray | None = None,
    layout: Layout | None = None,
) -> np.ndarray:
    """Index of the label that each row has in the labelling of highest score.

    Parameters
    ----------
    structure : Structure
    n_labels : int
    scores : (n_rows, n_outputs) array
        What the functions are at the rows.
    extra : (n_extra,) array, optional
    layout : Layout, optional
        By default each row is an example.

    Raises
    ------
    ValueError
        If the arrays do not fit one another.
    """
    functions = checked_functions(structure, n_labels)
    found, n_extra = np.asarray(scores), structure.n_extra(n_labels)
    if found.ndim != 2 or found.shape[1] != functions.n_outputs:
        wanted = functions.n_outputs
        raise ValueError(
            f"scores must have shape (n_rows, {wanted}), one function each, got {found.shape}"
        )
    if found.dtype.kind not in "fiu" or not np.all(np.isfinite(found)):
        raise ValueError("scores must hold finite numbers")
    own = np.zeros(0) if extra is None else np.asarray(extra)
    if own.shape != (n_extra,):
        raise ValueError(f"extra must have shape ({n_extra},) for {structure!r}, got {own.shape}")
    known = laid_out(layout, len(found))
    check_layout(known, len(found))
    return decoded(structure, functions.scores(found), own, known).labels


def best_labels(structure: Structure, n_labels: int, scores: np.ndarray) -> np.ndarray:
    """`predicted` of single rows whose scores have been looked at."""
    layout, extra = Layout.of_rows(len(scores)), np.zeros(0)
    if answers.of_a_stranger(structure):
        potentials = checked_functions(structure, n_labels).scores(scores)
        return decoded(structure, potentials, extra, layout).labels
    # To look at answers of our own would be most of the time of one row's prediction.
    potentials, _ = without_infinities(structure.functions(n_labels).scores(scores), layout)
    return structure.decode(potentials, extra, layout).labels


def checked_functions(structure: Structure, n_labels: int) -> LabelFunctions:
    """``structure.functions(n_labels)``, looked at."""
    source, found = answers.method(structure, "functions"), structure.functions(n_labels)
    if not isinstance(found, LabelFunctions):
        raise TypeError(f"{source} must return LabelFunctions, got {type(found).__name__}")
    outputs: Any = found.outputs
    outputs = answers.integers(source, "outputs", outputs, (n_labels,), n_labels)
    return LabelFunctions(outputs, answers.numbers(source, "signs", found.signs, (n_labels,)))


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
