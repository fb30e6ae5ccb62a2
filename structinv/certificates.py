"""Worst-case margins of a model: how many rows no allowed change can turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from .kernels import Kernel, kernel_diagonal, kernel_lipschitz, precision, squared_norms
from .matrices import ALL_ROWS, Matrix, Rows, row_dots, row_sizes, stack, take
from .oracles.base import InvarianceOracle
from .oracles.checked import CheckedOracle, bind
from .spaces import Expansion, Furthest, KernelSpace
from .structures import BoundStructure, Layout, Rivals

# Entries of members of S(x) that are held at once.
ENTRIES_AT_ONCE = 4_000_000
# An oracle's own rounding, which it adds to its bound, is some times that of a prediction.
SAME = 100.0


@dataclass(frozen=True)
class Certificate:
    """What is proven about rows under all allowed changes.

    A certificate speaks of changes in the feature space that the model was given.

    Attributes
    ----------
    margins : (n,) array
        Lower bounds of the margin of the true class over every other, at the worst member of S(x),
        rounding subtracted; minus infinity where the oracle knows no bound.
    correct : (n,) array of bool
        ``margins > 0``, strictly: no allowed change turns the row.
    attacked : (n,) array
        Margins at the changes that the oracle found; never below the true worst case.
    exact : (n,) array of bool
        Whether both agree up to rounding, so that the margin is the worst one.
    """

    margins: np.ndarray
    attacked: np.ndarray
    exact: np.ndarray

    @property
    def correct(self) -> np.ndarray:
        """Rows that no allowed change can turn."""
        return self.margins > 0

    def __str__(self) -> str:
        n, exact = len(self.margins), float(np.mean(self.exact)) if len(self.margins) else 1.0
        return (
            f"certified accuracy {self.accuracy:.4g} of {n} rows, {self.attacked_accuracy:.4g} at the "
            f"changes found, {exact:.0%} of the margins exact"
        )

    @property
    def accuracy(self) -> float:
        """Share of rows that no allowed change can turn: certified accuracy."""
        return float(np.mean(self.correct))

    @property
    def attacked_accuracy(self) -> float:
        """Share of rows that the changes found by the oracle do not turn."""
        return float(np.mean(self.attacked > 0))


@dataclass(frozen=True)
class WorstChange:
    """The worst change of each row that an oracle finds against its label.

    Attributes
    ----------
    attacked : (n,) array
        Margins at the changes found.
    bounds : (n,) array
        Lower bounds of the margins at all allowed changes.
    rounding : (n,) array
        How far a prediction's rounding can move either.
    points : (n, d) array or CSR matrix, or None
        The changed rows, if they were wanted.
    """

    attacked: np.ndarray
    bounds: np.ndarray
    rounding: np.ndarray
    points: Matrix | None

    def certificate(self) -> Certificate:
        """What this proves, rounding subtracted."""
        margins = self.bounds - self.rounding
        exact = np.abs(self.attacked - self.bounds) <= SAME * self.rounding
        return Certificate(margins=margins, attacked=self.attacked, exact=exact)


class Margins:
    """What labels win at worst against the true ones of some rows, label by label.

    Attributes
    ----------
    reached, highest : (n, n_labels) arrays
        At the changes found, and at most; 0 for the true label.
    rounding : (n, n_labels) array
        How far a prediction's rounding can move either.
    """

    def __init__(self, n_rows: int, n_labels: int) -> None:
        shape = (n_rows, n_labels)
        self.reached, self.highest, self.rounding = np.zeros(shape), np.zeros(shape), np.zeros(shape)

    def worst(
        self, labels: BoundStructure, blocks: Rows, extra: np.ndarray
    ) -> tuple[np.ndarray, WorstChange]:
        """The labelling other than the true one that comes nearest to it, and how near; of blocks."""
        rows, layout = labels.rows(blocks)
        codes = labels.codes[rows]
        known = Layout.of_rows(len(codes)) if layout is None else layout
        own = labels.structure.score(np.zeros(self.reached.shape), codes, extra, known)
        found = labels.runner_up(self.reached, codes, extra, known)
        above = labels.runner_up(self.highest, codes, extra, known)
        reached = labels.structure.score(self.reached, found.labels, extra, known) - own
        # Where there is no other labelling, none can win.
        none = found.upper == -np.inf
        highest = above.upper - own
        rounding = known.sums(self.rounding.max(axis=1))
        if layout is not None:
            # Sums over the rows round as well; a score's own rounding is some of at least 8 terms.
            terms = known.sizes + 1.0
            largest = np.abs(extra).max(initial=0.0)
            rounding = rounding * (1.0 + terms / 4) + 4 * np.finfo(float).eps * terms**2 * largest
        attacked, bounds = np.where(none, np.inf, -reached), np.where(none, np.inf, -highest)
        return found.labels, WorstChange(attacked, bounds, rounding, None)


def worst_change(
    coef: np.ndarray,
    intercept: np.ndarray,
    oracle: InvarianceOracle,
    labels: BoundStructure,
    X: Matrix,
    points: bool = True,
    extra: np.ndarray | None = None,
) -> WorstChange:
    """The changes that lower the margin of each example's labelling most, over all other labellings.

    The margin of a linear model at the worst change is, for a single row,
    ``min over y' of (b_y - b_y') - sigma_S(w_y' - w_y)``, bounded by the oracle's upper bounds.

    Parameters
    ----------
    coef : (n_outputs, d) array
    intercept : (n_outputs,) array
    oracle : InvarianceOracle
    labels : BoundStructure
        With the labels that are certified.
    X : (n, d) array or CSR matrix
    points : bool, default=True
        Whether the changed rows are wanted.
    extra : (n_extra,) array, optional
        Parameters that no input multiplies.

    Returns
    -------
    WorstChange
        Of the examples; points are those of all rows.

    Raises
    ------
    TypeError, ValueError
        If the arrays do not fit one another.
    """
    if not isinstance(labels, BoundStructure):
        raise TypeError(f"labels must be a structure bound to labels, got {type(labels).__name__}")
    bound = bind(oracle, X, labels.classes[labels.codes])
    if np.shape(coef) != (labels.n_outputs, X.shape[1]) or np.shape(intercept) != (labels.n_outputs,):
        raise ValueError(
            f"coef and intercept must have shapes {(labels.n_outputs, X.shape[1])} and "
            f"{(labels.n_outputs,)}, got {np.shape(coef)} and {np.shape(intercept)}"
        )
    return _worst(LinearMargins(coef, intercept, bound), labels, points, extra)


def _worst(
    scorer: LinearMargins | KernelMargins,
    labels: BoundStructure,
    points: bool,
    extra: np.ndarray | None = None,
) -> WorstChange:
    """The worst changes of all examples, a portion of rows at a time."""
    extra = np.zeros(0) if extra is None else np.asarray(extra)
    if extra.shape != (labels.n_extra,):
        raise ValueError(f"extra must have shape ({labels.n_extra},), got {extra.shape}")
    parts, moved = [], []
    for blocks in labels.portions(ALL_ROWS, scorer.rows_at_once(labels.n_labels)):
        rows, _ = labels.rows(blocks)
        # Margins know of no cost, and of no rescaling by it.
        rivals = labels.rivals(rows)
        rivals = replace(rivals, costs=np.zeros(rivals.costs.shape), slack=False)
        kept: Any
        margins, kept = scorer.margins(rows, rivals, points)
        chosen, found = margins.worst(labels, blocks, extra)
        parts.append(found)
        if points:
            moved.append(scorer.points(rows, rivals, chosen, kept))
    return joined(parts, stack(moved) if points else None)


class LinearMargins:
    """A linear model that is asked about labels of rows at worst.

    Parameters
    ----------
    coef : (n_outputs, d) array
    intercept : (n_outputs,) array
    bound : CheckedOracle
    """

    def __init__(self, coef: np.ndarray, intercept: np.ndarray, bound: CheckedOracle) -> None:
        self.coef = np.asarray(coef, dtype=np.float64)
        self.intercept = np.asarray(intercept, dtype=np.float64)
        self.dtype = coef.dtype
        self.bound = bound

    def rows_at_once(self, n_labels: int) -> int:
        """Of how many rows to ask together."""
        return max(1, ENTRIES_AT_ONCE // n_labels)

    def margins(self, rows: Rows, rivals: Rivals, points: bool) -> tuple[Margins, Matrix | None]:
        """What labels win, and where there is only one rival a row and points are wanted, these."""
        margins, moved = Margins(len(rivals), rivals.n_labels), None
        every = np.arange(len(rivals))
        for shift in range(1, rivals.n_labels):
            labels = (rivals.codes + shift) % rivals.n_labels
            where = every, labels
            reached, highest, rounding, moved = self._ask(rows, rivals, labels, points)
            margins.reached[where], margins.highest[where] = reached, highest
            margins.rounding[where] = rounding
        return margins, moved if points and rivals.n_labels == 2 else None

    def points(self, rows: Rows, rivals: Rivals, labels: np.ndarray, kept: Matrix | None) -> Matrix:
        """The worst members for a label of each row, after `margins`, which may have kept them."""
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
        rounding = rounding_error(moved, self.dtype) * (size + height)
        return reached, highest, rounding, moved if points else None


def joined(parts: Sequence[WorstChange], points: Matrix | None) -> WorstChange:
    """Several parts as one, with the points of all."""
    return WorstChange(
        np.concatenate([part.attacked for part in parts]),
        np.concatenate([part.bounds for part in parts]),
        np.concatenate([part.rounding for part in parts]),
        points,
    )


def kernel_worst_change(
    space: KernelSpace,
    f: Expansion,
    oracle: InvarianceOracle,
    labels: BoundStructure,
    X: np.ndarray,
    points: bool = True,
    extra: np.ndarray | None = None,
) -> WorstChange:
    """`worst_change` of a kernel expansion: members of S(x) are enumerated, its hull says nothing.

    The margins are exact where S(x) is a list. Of a continuum with a cover the best member of the
    cover is improved, and the bound adds ``|f| L mesh``, L being the kernel's Lipschitz constant.

    Parameters
    ----------
    space : KernelSpace
    f : Expansion
    oracle : InvarianceOracle
        With an orbit or a cover.
    labels : BoundStructure
        With the labels that are certified.
    X : (n, d) array
    points : bool, default=True
        Whether the changed rows are wanted.
    extra : (n_extra,) array, optional
        Parameters that no input multiplies.

    Returns
    -------
    WorstChange

    Notes
    -----
    An output at a member z is a sum of m terms ``beta_j k(z_j, z)`` with ``|k(z_j, z)| <=
    sqrt(k(z_j, z_j) k(z, z))``, and each kernel value comes from d products. The allowance for its
    rounding, which margins add up over the two outputs that they compare, is

        eps (8 + sqrt(d) + sqrt(m)) sum_j |beta_j| sqrt(k(z_j, z_j)) max_z sqrt(k(z, z))
        + eps L^2 sum_j |beta_j| |z_j| max_z |z|

    with eps that of the precision in which predictions are computed, and maxima over the members. The
    second line, left out where L is infinite, is what a squared distance loses to cancellation.
    """
    bound = bind(oracle, X, labels.classes[labels.codes])
    return _worst(KernelMargins(space, f, bound), labels, points, extra)


class KernelMargins:
    """A kernel expansion that is asked about labels of rows at worst; see `kernel_worst_change`.

    Parameters
    ----------
    space : KernelSpace
    f : Expansion
    bound : CheckedOracle
        With orbits or covers.
    """

    def __init__(self, space: KernelSpace, f: Expansion, bound: CheckedOracle) -> None:
        self.space, self.f, self.bound = space, f, bound
        self.allowance = _KernelRounding(space.kernel, f, bound.X)

    def rows_at_once(self, n_labels: int) -> int:
        """Of how many rows to ask together."""
        return max(1, ENTRIES_AT_ONCE // (len(self.bound.member_names()) * self.bound.X.shape[1]))

    def margins(self, rows: Rows, rivals: Rivals, points: bool) -> tuple[Margins, Furthest]:
        """What labels win, and where."""
        found = self.space.furthest(self.f, self.bound, rows, rivals, points)
        margins = Margins(len(rivals), rivals.n_labels)
        margins.reached, margins.highest = found.gains, found.upper
        each = rivals.functions.sizes(self.allowance.of(self.bound.cover(rows).points))
        margins.rounding = each + np.take_along_axis(each, rivals.codes[:, None], axis=1)
        margins.rounding[np.arange(len(rivals)), rivals.codes] = 0.0
        return margins, found

    def points(self, rows: Rows, rivals: Rivals, labels: np.ndarray, found: Furthest) -> np.ndarray:
        """The worst members for a label of each row, after `margins`."""
        reached = self.space.reach(self.f, self.bound, rows, rivals, found, labels)
        return self.space.points(reached.points)


class _KernelRounding:
    """The allowance of `kernel_worst_change`."""

    def __init__(self, kernel: Kernel, f: Expansion, X: np.ndarray) -> None:
        used = f.support()
        centres, sizes = f.atoms.points(used), np.abs(f.coefficients[used])
        heights, n_terms = f.heights()
        slope = kernel_lipschitz(kernel)
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


def rounding_error(points: Matrix, dtype: np.dtype) -> float:
    """Relative error of an inner product of a row, in the precision that predictions use."""
    terms = np.diff(points.indptr).max(initial=0) if sp.issparse(points) else points.shape[1]
    # Points in single precision are rounded themselves, however exactly they are multiplied.
    return float((int(terms) + 8) * np.finfo(points.dtype).eps)
