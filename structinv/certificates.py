"""Worst-case margins of a model: how many rows no allowed change can turn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from .kernels import Kernel, kernel_diagonal, kernel_lipschitz, precision, squared_norms
from .matrices import ALL_ROWS, Matrix, row_dots, row_sizes, select
from .objective import OracleQuestion
from .oracles.base import InvarianceOracle
from .oracles.checked import bind
from .outputs.base import EncodedOutput
from .spaces import Expansion, KernelSpace

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


class _Margins:
    """The smallest margins so far, as the alternatives to the true labels come in one by one."""

    def __init__(self, n_rows: int) -> None:
        self.attacked = np.full(n_rows, np.inf)
        self.bounds = np.full(n_rows, np.inf)
        self.rounding = np.zeros(n_rows)
        self.chosen = np.zeros(n_rows, dtype=np.int64)

    def add(
        self,
        number: int,
        rival: np.ndarray,
        reached: np.ndarray,
        highest: np.ndarray,
        rounding: np.ndarray,
    ) -> None:
        """By how much an alternative beats the label where it is a rival: found, and at most."""
        self.rounding = np.maximum(self.rounding, rounding)
        worse = rival & (-reached < self.attacked)
        self.attacked[worse], self.chosen[worse] = -reached[worse], number
        self.bounds = np.where(rival, np.minimum(self.bounds, -highest), self.bounds)

    def result(self, points: Matrix | None) -> WorstChange:
        return WorstChange(self.attacked, self.bounds, self.rounding, points)


def worst_change(
    coef: np.ndarray,
    intercept: np.ndarray,
    oracle: InvarianceOracle,
    output: EncodedOutput,
    X: Matrix,
    points: bool = True,
) -> WorstChange:
    """The change of each row that lowers the margin of its label most, over all other labels.

    The margin of a linear model at the worst change is
    ``min over y' of (b_y - b_y') - sigma_S(w_y' - w_y)``, bounded by the oracle's upper bounds.

    Parameters
    ----------
    coef : (n_outputs, d) array
    intercept : (n_outputs,) array
    oracle : InvarianceOracle
    output : EncodedOutput
        Bound to the labels that are certified.
    X : (n, d) array or CSR matrix
    points : bool, default=True
        Whether the changed rows are wanted.

    Returns
    -------
    WorstChange
    """
    n_rows = X.shape[0]
    labels = output.classes[output.codes]
    bound = bind(oracle, X, labels)
    margins = _Margins(n_rows)
    answers = []
    for number, table in enumerate(output.margin_directions):
        V = np.ascontiguousarray(table @ coef, dtype=np.float64)
        # Predictions round each score by itself, however much of them cancels in a margin.
        sizes = np.ascontiguousarray(np.abs(table) @ np.abs(coef), dtype=np.float64)
        constants = (table @ intercept)[output.codes].astype(np.float64)
        rival = np.any(table != 0, axis=1)[output.codes]
        alone = not points and np.array_equal(np.abs(V), sizes)
        known = bound.maximum(ALL_ROWS, V, output.codes) if alone else None
        if known is not None:
            reached, size, moved = known[0] + constants, known[1], X
            highest = reached
        else:
            answer = bound.support(ALL_ROWS, V, output.codes, None)
            moved = answer.points
            reached = row_dots(moved, V, output.codes) + constants
            bounded = reached if answer.upper is None else answer.upper + constants
            highest = np.maximum(reached, bounded)
            size = row_sizes(moved, sizes, output.codes)
        size = size + (np.abs(table) @ np.abs(intercept))[output.codes]
        margins.add(number, rival, reached, highest, rounding_error(moved, coef.dtype) * size)
        if points:
            answers.append(moved)
    return margins.result(select(margins.chosen, answers) if points else None)


def kernel_worst_change(
    space: KernelSpace,
    f: Expansion,
    oracle: InvarianceOracle,
    output: EncodedOutput,
    X: np.ndarray,
    points: bool = True,
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
    output : EncodedOutput
        Bound to the labels that are certified.
    X : (n, d) array
    points : bool, default=True
        Whether the changed rows are wanted.

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
    n_rows = X.shape[0]
    bound = bind(oracle, X, output.classes[output.codes])
    allowance = _KernelRounding(space.kernel, f, X)
    parts, moved = [], []
    step = max(1, ENTRIES_AT_ONCE // (len(bound.member_names()) * X.shape[1]))
    for first in range(0, n_rows, step):
        rows = slice(first, min(first + step, n_rows))
        codes = output.codes[rows]
        question = OracleQuestion(bound, rows)
        tables = output.margin_directions
        worst = space.furthest(f, question, tables, codes, np.zeros(tables.shape[:2]), points)
        rounding = allowance.of(question.cover().points)
        margins = _Margins(len(codes))
        for number, table in enumerate(tables):
            rival = np.any(table != 0, axis=1)[codes]
            total = np.einsum("nk,nk->n", np.abs(table)[codes], rounding)
            margins.add(number, rival, worst.gains[:, number], worst.upper[:, number], total)
        parts.append(margins)
        if worst.points is not None:
            moved.append(space.points(worst.points(margins.chosen)))
    return WorstChange(
        np.concatenate([part.attacked for part in parts]),
        np.concatenate([part.bounds for part in parts]),
        np.concatenate([part.rounding for part in parts]),
        np.concatenate(moved) if points else None,
    )


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
