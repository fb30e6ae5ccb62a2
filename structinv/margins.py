"""What labels win at worst against given ones, label by label: of linear and of kernel machines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from .kernels import Kernel
from .kernels.questions import kernel_diagonal, kernel_lipschitz
from .kernels.values import precision, squared_norms
from .matrices import Matrix, Rows, products, row_dots, row_sizes, take
from .oracles.base import BoundOracle
from .spaces import Expansion, Furthest, KernelSpace
from .structures import Decoding, Layout
from .structures.bound import BoundStructure
from .structures.rivals import Rivals

# Entries of members of S(x) that are held at once.
ENTRIES_AT_ONCE = 4_000_000


class Margins:
    """What labels win at worst against the true ones of some rows, label by label.

    Attributes
    ----------
    reached, highest : (n, n_labels) arrays
        At the changes found, and at most; 0 for the true label.
    rounding : (n, n_labels) array
        How far a prediction's rounding can move either.
    """

    def __init__(self, reached: np.ndarray, highest: np.ndarray, rounding: np.ndarray) -> None:
        self.reached, self.highest, self.rounding = reached, highest, rounding

    @classmethod
    def zeros(cls, n_rows: int, n_labels: int) -> Margins:
        """Of labels that win nothing."""
        return cls(*np.zeros((3, n_rows, n_labels)))

    @classmethod
    def of_levels(cls, each: Sequence[Margins]) -> Margins:
        """Those of several levels, with a third axis; themselves of a single one."""
        if len(each) == 1:
            return each[0]
        names = "reached", "highest", "rounding"
        return cls(*(np.stack([getattr(one, name) for one in each], axis=2) for name in names))

    def take(self, rows: np.ndarray) -> Margins:
        """Of some of the rows."""
        return Margins(self.reached[rows], self.highest[rows], self.rounding[rows])

    def rounding_of(self, layout: Layout, extra: np.ndarray, several: bool) -> np.ndarray:
        """How far rounding can move the margin of a labelling, (n_blocks,)."""
        rounding = layout.sums(self.rounding.reshape(layout.n_rows, -1).max(axis=1))
        if not several:
            return rounding
        # Sums over the rows round as well; a score's own rounding is some of at least 8 terms.
        terms = layout.sizes + 1.0
        largest = np.abs(extra).max(initial=0.0)
        return rounding * (1.0 + terms / 4) + 4 * np.finfo(float).eps * terms**2 * largest

    def nearest(
        self, labels: BoundStructure, codes: np.ndarray, extra: np.ndarray, layout: Layout
    ) -> tuple[Decoding, np.ndarray, np.ndarray]:
        """The labelling other than the codes that comes nearest to them, the margin there, and a bound.

        Infinite where there is no other labelling.
        """
        own = labels.structure.score(self.reached, codes, extra, layout)
        found = labels.runner_up(self.reached, codes, extra, layout)
        above: Any = labels.runner_up(self.highest, codes, extra, layout).upper
        reached = labels.structure.score(self.reached, found.labels, extra, layout, found.levels)
        none = found.upper == -np.inf
        # What was found bounds the margin as well, however badly a structure answers for the bounds.
        above = np.maximum(above, reached)
        return found, np.where(none, np.inf, own - reached), np.where(none, np.inf, own - above)


class Scorer(ABC):
    """A model that is asked about labels of rows at worst.

    Attributes
    ----------
    bound : BoundOracle
        What may happen to the rows.
    """

    bound: BoundOracle

    def at(self, bound: BoundOracle) -> Self:
        """The same model with other changes of the rows."""
        other = copy(self)
        other.bound = bound
        return other

    @property
    def at_one_point(self) -> bool:
        """Whether a single member of each row's list is asked about."""
        _, numbers = self.bound.listed_in()
        return numbers is not None and len(numbers) == 1

    @abstractmethod
    def scores(self, rows: Rows) -> np.ndarray:
        """What the functions are at the unchanged rows, (n, n_outputs)."""

    @abstractmethod
    def rows_at_once(self, n_labels: int) -> int:
        """Of how many rows to ask together."""

    @abstractmethod
    def margins(self, rows: Rows, rivals: Rivals, points: bool) -> tuple[Margins, Any]:
        """What labels win, and what `points` needs if these are wanted."""

    @abstractmethod
    def some(self, kept: Any, rows: np.ndarray) -> Any:
        """Of what `margins` kept the part of some rows."""

    @abstractmethod
    def points(self, rows: Rows, rivals: Rivals, labels: np.ndarray, kept: Any) -> Matrix:
        """The worst members for a label of each row, after `margins`."""


class LinearMargins(Scorer):
    """A linear model that is asked about labels of rows at worst.

    Parameters
    ----------
    coef : (n_outputs, d) array
    intercept : (n_outputs,) array
    bound : BoundOracle
    """

    def __init__(self, coef: np.ndarray, intercept: np.ndarray, bound: BoundOracle) -> None:
        self.coef = np.asarray(coef, dtype=np.float64)
        self.intercept = np.asarray(intercept, dtype=np.float64)
        self.bound = bound

    def scores(self, rows: Rows) -> np.ndarray:
        return products(take(self.bound.X, rows), self.coef.T) + self.intercept

    def rows_at_once(self, n_labels: int) -> int:
        return max(1, ENTRIES_AT_ONCE // n_labels)

    def margins(self, rows: Rows, rivals: Rivals, points: bool) -> tuple[Margins, Matrix | None]:
        """See `Scorer.margins`; keeps points that are wanted where there is only one rival a row."""
        if self.at_one_point:
            return self._at_only_member(rows, rivals)
        margins, moved = Margins.zeros(len(rivals), rivals.n_labels), None
        every = np.arange(len(rivals))
        for shift in range(1, rivals.n_labels):
            labels = (rivals.codes + shift) % rivals.n_labels
            where = every, labels
            reached, highest, rounding, moved = self._ask(rows, rivals, labels, points)
            margins.reached[where], margins.highest[where] = reached, highest
            margins.rounding[where] = rounding
        return margins, moved if points and rivals.n_labels == 2 else None

    def _at_only_member(self, rows: Rows, rivals: Rivals) -> tuple[Margins, Matrix]:
        """What labels win where all of them face the same point, and these points."""
        every = np.arange(len(rivals))
        points = self.bound.members(rows, np.zeros(len(rivals), dtype=np.intp))
        values = rivals.functions.scores(products(points, self.coef.T) + self.intercept)
        sizes = products(abs(points), np.abs(self.coef).T) + np.abs(self.intercept)
        sizes = rivals.functions.sizes(sizes)
        rounding = rounding_error(points) * (sizes + sizes[every, rivals.codes][:, None])
        rounding[every, rivals.codes] = 0.0
        reached = values - values[every, rivals.codes][:, None]
        return Margins(reached, reached, rounding), points

    def some(self, kept: Matrix | None, rows: np.ndarray) -> Matrix | None:
        return None if kept is None else kept[rows]

    def points(self, rows: Rows, rivals: Rivals, labels: np.ndarray, kept: Matrix | None) -> Matrix:
        if kept is not None:
            return kept
        theirs, own, assign = rivals.facing(self.coef, labels)
        return self.bound.support(rows, theirs - own, assign, None).points

    def _ask(
        self, rows: Rows, rivals: Rivals, labels: np.ndarray, points: bool
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, Matrix | None]:
        """What one label for each row wins at worst, a bound of that, and its rounding."""
        theirs, own, assign = rivals.facing(self.coef, labels)
        above, below, _ = rivals.facing(self.intercept[:, None], labels)
        V, constants = theirs - own, (above - below)[assign, 0]
        # Predictions round each score by itself, however much of them cancels in a margin.
        sizes, height = np.abs(theirs) + np.abs(own), (np.abs(above) + np.abs(below))[assign, 0]
        alone = not points and np.array_equal(np.abs(V), sizes)
        known = self.bound.maximum(rows, V, assign) if alone else None
        if known is not None:
            moved: Matrix = take(self.bound.X, rows)
            highest = reached = known[0] + constants
            size = known[1]
        else:
            answer = self.bound.support(rows, V, assign, None)
            moved = answer.points
            reached = row_dots(moved, V, assign) + constants
            bounded = reached if answer.upper is None else answer.upper + constants
            highest = np.maximum(reached, bounded)
            size = row_sizes(moved, sizes, assign)
        rounding = rounding_error(moved) * (size + height)
        return reached, highest, rounding, moved if points else None


class KernelMargins(Scorer):
    """A kernel expansion that is asked about labels of rows at worst; see `kernel_worst_change`.

    Parameters
    ----------
    space : KernelSpace
    f : Expansion
    bound : BoundOracle
        With orbits or covers.
    """

    def __init__(self, space: KernelSpace, f: Expansion, bound: BoundOracle) -> None:
        self.space, self.f, self.bound = space, f, bound
        self.allowance = _KernelRounding(space.kernel, f, bound.X)

    def scores(self, rows: Rows) -> np.ndarray:
        return self.f.function()(take(self.bound.X, rows))

    def rows_at_once(self, n_labels: int) -> int:
        return max(1, ENTRIES_AT_ONCE // (len(self.bound.member_names()) * self.bound.X.shape[1]))

    def margins(self, rows: Rows, rivals: Rivals, points: bool) -> tuple[Margins, Furthest]:
        """See `Scorer.margins`; keeps what was found."""
        found = self.space.furthest(self.f, self.bound, rows, rivals, points)
        each = rivals.functions.sizes(self.allowance.of(self.bound.cover(rows).points))
        rounding = each + np.take_along_axis(each, rivals.codes[:, None], axis=1)
        rounding[np.arange(len(rivals)), rivals.codes] = 0.0
        return Margins(found.gains, found.upper, rounding), found

    def some(self, kept: Furthest, rows: np.ndarray) -> Furthest:
        return kept.take(rows)

    def points(self, rows: Rows, rivals: Rivals, labels: np.ndarray, found: Furthest) -> np.ndarray:
        reached = self.space.reach(self.f, self.bound, rows, rivals, found, labels)
        return self.space.points(reached.points)


class _KernelRounding:
    """The allowance of `kernel_worst_change`."""

    def __init__(self, kernel: Kernel, f: Expansion, X: np.ndarray) -> None:
        used = f.support()
        centres, sizes = f.atoms.points(used), np.abs(f.coefficients[used])
        heights, n_terms = f.heights()
        slope = kernel_lipschitz(kernel, X.shape[1])
        slope = slope if np.isfinite(slope) else 0.0
        eps = float(np.finfo(precision(X, centres)).eps)
        terms = 8.0 + np.sqrt(X.shape[1]) + np.sqrt(n_terms)
        self.kernel = kernel
        self.per_height = eps * terms * heights
        self.per_length = eps * slope**2 * (np.sqrt(squared_norms(centres)) @ sizes)

    def of(self, members: np.ndarray) -> np.ndarray:
        """The allowance for each output at rows with these members of S(x), (n, n_outputs)."""
        n, s, d = members.shape
        flat = members.reshape(n * s, d)
        values = kernel_diagonal(self.kernel, flat).reshape(n, s).astype(np.float64)
        heights = np.sqrt(values.max(axis=1))
        lengths = np.sqrt(squared_norms(flat).reshape(n, s).max(axis=1))
        return np.outer(heights, self.per_height) + np.outer(lengths, self.per_length)


def rounding_error(points: Matrix) -> float:
    """Relative error of an inner product of a row, in the precision that predictions use."""
    terms = np.diff(points.indptr).max(initial=0) if sp.issparse(points) else points.shape[1]
    # Points in single precision are rounded themselves, however exactly they are multiplied.
    kind = points.dtype if points.dtype.kind == "f" else np.float64
    return float((int(terms) + 8) * np.finfo(kind).eps)
