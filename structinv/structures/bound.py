"""A structure with true labels, and the door through which its answers come in."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from .. import answers
from ..matrices import ALL_ROWS, Matrix, Rows, count
from .base import (
    Decoding,
    Separation,
    Structure,
    check_cost,
    check_decoding,
    check_rescaling,
    decoded,
    encode_labels,
)
from .rivals import LabelFunctions, Rivals


class BoundStructure:
    """What objectives and certificates ask: a structure with the true labels of given rows.

    What the structure answers is looked at once, by name.

    Parameters
    ----------
    structure : Structure
    y, classes, lengths, cost, rescaling
        See `Structure.bind`.

    Attributes
    ----------
    classes : (n_labels,) array, or None
        None where the truth of rows is a number.
    codes : (n_rows,) array of int
        Index of each row's true label in `classes`.
    starts : (n_blocks + 1,) array of int, or None
        Rows of each block, as boundaries; None where each row is a block.
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
        lengths: ArrayLike | None = None,
        cost: ArrayLike | None = None,
        rescaling: str = "margin",
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
        self.starts = None if lengths is None else boundaries(lengths, len(self.codes))
        if structure.rowwise and self.starts is not None:
            raise ValueError(f"lengths must be None for {name}, whose examples are single rows")
        self.slack = rescaling == "slack"
        self.functions = checked_functions(structure, n_labels)
        n_extra: Any = structure.n_extra(n_labels)
        source = answers.method(structure, "n_extra")
        self.n_extra = int(answers.number(source, "n_extra", n_extra, least=0))
        if self.starts is None and (self.n_extra or not structure.rowwise):
            # Examples of one row each, whose labels have features all the same.
            self.starts = np.arange(len(self.codes) + 1)

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
        return len(self.codes) if self.starts is None else len(self.starts) - 1

    def rows(self, blocks: Rows) -> tuple[Rows, np.ndarray | None]:
        """The rows of the blocks named, and their boundaries if examples have several rows."""
        if self.starts is None:
            return blocks, None
        if isinstance(blocks, slice):
            blocks = np.arange(self.n_blocks)[blocks]
        sizes = self.starts[blocks + 1] - self.starts[blocks]
        starts = np.r_[0, np.cumsum(sizes)]
        first = np.repeat(self.starts[blocks] - starts[:-1], sizes)
        return first + np.arange(starts[-1]), starts

    def portions(self, blocks: Rows, most_rows: int) -> list[Rows]:
        """The blocks in runs of at most so many rows, or of one block."""
        n_blocks = count(blocks, self.n_blocks)
        if self.starts is None:
            sizes = np.ones(n_blocks, dtype=np.int64)
        else:
            sizes = np.diff(self.starts)[blocks]
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
        return self.cost[self.codes[rows]]

    def rivals(self, rows: Rows = ALL_ROWS) -> Rivals:
        """All labels against the true ones of some rows."""
        return Rivals(self.functions, self.codes[rows], self.costs(rows), self.slack)

    def separate(
        self, rivals: Rivals, found: Any, extra: np.ndarray, starts: np.ndarray | None
    ) -> Separation:
        """The most violated labelling of each block, looked at; see `Structure.separate`.

        Raises
        ------
        TypeError, ValueError
            If the structure's answer is no `Separation`, an array has another shape, or a label is none.
        """
        n_rows = len(rivals)
        edges = np.arange(n_rows + 1) if starts is None else starts
        source = answers.method(self.structure, "separate")
        answer = self.structure.separate(rivals, found, extra, edges)
        if not isinstance(answer, Separation):
            raise TypeError(f"{source} must return a Separation, got {type(answer).__name__}")
        shape = (len(edges) - 1,)
        labels = answers.integers(source, "labels", answer.labels, (n_rows,), self.n_labels)
        upper = answers.numbers(source, "upper", answer.upper, shape, finite=False)
        if np.any(upper == -np.inf):
            raise ValueError(f"{source} must return upper above -infinity")
        scale = answer.scale
        if scale is not None:
            scale = answers.numbers(source, "scale", scale, shape)
        return Separation(labels, upper, scale)

    def moved(self, labels: np.ndarray, codes: np.ndarray, starts: np.ndarray) -> Matrix:
        """By how much features of labellings differ from those of the true one, (n_blocks, n_extra)."""
        return self._features(labels, starts) - self._features(codes, starts)

    def _features(self, labels: np.ndarray, starts: np.ndarray) -> Matrix:
        source, shape = answers.method(self.structure, "features"), (len(starts) - 1, self.n_extra)
        found: Any = self.structure.features(labels, starts, self.n_labels)
        if sp.issparse(found) and found.shape == shape and found.format == "csr":
            answers.places(source, "features", found)
            return found
        return answers.numbers(source, "features", found, shape)

    def predict(
        self, scores: np.ndarray, extra: np.ndarray | None = None, starts: np.ndarray | None = None
    ) -> np.ndarray:
        """Index of the label that each row has in the best labelling, from ``f(x, k)``.

        By default rows belong together as those that the structure is bound to; see `predicted`.
        """
        edges = self.starts if starts is None and len(scores) == len(self.codes) else starts
        return predicted(self.structure, self.n_labels, scores, extra, edges)

    def runner_up(
        self, potentials: np.ndarray, codes: np.ndarray, extra: np.ndarray, starts: np.ndarray | None
    ) -> Decoding:
        """The best labelling other than the one given, and a bound; see `Structure.runner_up`."""
        edges = np.arange(len(codes) + 1) if starts is None else starts
        found = self.structure.runner_up(potentials, codes, extra, edges)
        source = answers.method(self.structure, "runner_up")
        checked = check_decoding(source, found, potentials.shape, len(edges) - 1)
        if checked.upper is not None:
            return checked
        upper = self.structure.score(potentials, checked.labels, extra, edges)
        return Decoding(checked.labels, upper)


def predicted(
    structure: Structure,
    n_labels: int,
    scores: np.ndarray,
    extra: np.ndarray | None = None,
    starts: np.ndarray | None = None,
) -> np.ndarray:
    """Index of the label that each row has in the labelling of highest score.

    Parameters
    ----------
    structure : Structure
    n_labels : int
    scores : (n_rows, n_outputs) array
        What the functions are at the rows.
    extra : (n_extra,) array, optional
    starts : (n_blocks + 1,) array of int, optional
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
    edges = np.arange(len(found) + 1) if starts is None else np.asarray(starts)
    whole = edges.ndim == 1 and edges.dtype.kind in "iu" and len(edges) > 0
    if not whole or edges[0] != 0 or edges[-1] != len(found) or np.any(np.diff(edges) <= 0):
        raise ValueError(f"starts must rise from 0 to the number of rows, {len(found)}, got {starts!r}")
    return decoded(structure, functions.scores(found), own, edges).labels


def best_labels(structure: Structure, n_labels: int, scores: np.ndarray) -> np.ndarray:
    """`predicted` of single rows whose scores have been looked at."""
    potentials = checked_functions(structure, n_labels).scores(scores)
    return decoded(structure, potentials, np.zeros(0), np.arange(len(scores) + 1)).labels


def checked_functions(structure: Structure, n_labels: int) -> LabelFunctions:
    """``structure.functions(n_labels)``, looked at."""
    source, found = answers.method(structure, "functions"), structure.functions(n_labels)
    if not isinstance(found, LabelFunctions):
        raise TypeError(f"{source} must return LabelFunctions, got {type(found).__name__}")
    outputs: Any = found.outputs
    outputs = answers.integers(source, "outputs", outputs, (n_labels,), n_labels)
    return LabelFunctions(outputs, answers.numbers(source, "signs", found.signs, (n_labels,)))


def boundaries(lengths: ArrayLike, n_rows: int) -> np.ndarray:
    """Where each example's rows begin and end, from how many it has; ValueError if they do not fit."""
    sizes = np.asarray(lengths)
    if sizes.ndim != 1 or sizes.dtype.kind not in "iu" or len(sizes) == 0 or np.any(sizes < 1):
        raise ValueError(f"lengths must be integers of at least 1, one an example, got {lengths!r}")
    if sizes.sum() != n_rows:
        raise ValueError(f"lengths must sum to the number of rows, {n_rows}, got {sizes.sum()}")
    return np.r_[0, np.cumsum(sizes)]
