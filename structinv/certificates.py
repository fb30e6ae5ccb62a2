"""Worst-case margins of a linear model: how many rows no allowed change can turn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from .matrices import ALL_ROWS, Matrix, row_dots, row_sizes, select
from .objective import check_answer, check_reached
from .oracles.base import InvarianceOracle
from .outputs.base import EncodedOutput


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

    @property
    def accuracy(self) -> float:
        """Share of rows that no allowed change can turn: certified accuracy."""
        return float(np.mean(self.correct))

    @property
    def attacked_accuracy(self) -> float:
        """Share of rows that the changes found by the oracle do not turn."""
        return float(np.mean(self.attacked > 0))


@dataclass(frozen=True)
class WorstCase:
    """The worst change of each row that an oracle finds against its label."""

    attacked: np.ndarray
    bounds: np.ndarray
    rounding: np.ndarray
    points: Matrix | None


def certify(
    coef: np.ndarray,
    intercept: np.ndarray,
    oracle: InvarianceOracle,
    output: EncodedOutput,
    X: Matrix,
) -> Certificate:
    """Certify rows: ``min over y' of (b_y - b_y') - sigma_S(w_y' - w_y)``, from upper bounds.

    Parameters
    ----------
    coef : (n_outputs, d) array
    intercept : (n_outputs,) array
    oracle : InvarianceOracle
    output : EncodedOutput
        Bound to the labels that are certified.
    X : (n, d) array or CSR matrix

    Returns
    -------
    Certificate
    """
    worst = worst_case(coef, intercept, oracle, output, X, points=False)
    margins = worst.bounds - worst.rounding
    exact = np.abs(worst.attacked - worst.bounds) <= worst.rounding
    return Certificate(margins=margins, attacked=worst.attacked, exact=exact)


def worst_case(
    coef: np.ndarray,
    intercept: np.ndarray,
    oracle: InvarianceOracle,
    output: EncodedOutput,
    X: Matrix,
    points: bool = True,
) -> WorstCase:
    """The change of each row that lowers the margin of its label most, over all other labels.

    Parameters are those of `certify`; `points` says whether the changed rows are wanted.
    """
    n_rows = X.shape[0]
    labels = output.classes[output.codes]
    bound = oracle.bind(X, labels)
    attacked, bounds = np.full(n_rows, np.inf), np.full(n_rows, np.inf)
    rounding = np.zeros(n_rows)
    answers, chosen = [], np.zeros(n_rows, dtype=np.int64)
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
            check_answer(answer, n_rows, X.shape[1], oracle)
            moved = answer.points
            reached = row_dots(moved, V, output.codes) + constants
            check_reached(reached, oracle)
            bounded = reached if answer.upper is None else answer.upper + constants
            highest = np.maximum(reached, bounded)
            size = row_sizes(moved, sizes, output.codes)
        size = size + (np.abs(table) @ np.abs(intercept))[output.codes]
        rounding = np.maximum(rounding, rounding_error(moved, coef.dtype) * size)
        worse = rival & (-reached < attacked)
        attacked[worse], chosen[worse] = -reached[worse], number
        bounds = np.where(rival, np.minimum(bounds, -highest), bounds)
        if points:
            answers.append(moved)
    return WorstCase(attacked, bounds, rounding, select(chosen, answers) if points else None)


def rounding_error(points: Matrix, dtype: np.dtype) -> float:
    """Relative error of an inner product of a row, in the precision that predictions use."""
    terms = np.diff(points.indptr).max(initial=0) if sp.issparse(points) else points.shape[1]
    precision = np.finfo(np.promote_types(points.dtype, dtype)).eps
    return float((int(terms) + 8) * precision)
