"""Examples of several rows: how they are read, and which solver suits them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils import check_array

from ..solvers import FrankWolfe, InteriorPoint, Solver
from ..structures.example_blocks import Reader, check_no_mask, stacked
from ..terms import Objective
from ..utils.matrices import ALL_ROWS, Matrix, squared_lengths
from .tokens import are_tokens, can_be_tokens

# Planes that an example comes to have.
PLANES_OF_AN_EXAMPLE = 10
# First-order steps crawl where C times the squared length of a row, over what a position costs, is above
# this on average; Newton's method then costs less up to these sizes.
LONG = 100.0
MOST_WEIGHTS, MOST_EXAMPLES = 1000, 10_000

Tokens = Callable[[Any], tuple[Matrix, np.ndarray]]


class RowReader(Reader):
    """Makes checked rows of examples, with the features of `fit` where these are known.

    Parameters
    ----------
    estimator : estimator
        For messages; of a fitted one, with what it knows.
    fitted : bool
        Whether rows must be like those of `fit`.
    of_tokens : callable, optional
        Makes rows and sizes of tokens with named features.

    Attributes
    ----------
    names : list of str or None
        The columns of data frames, if such were read.
    """

    def __init__(self, estimator: BaseEstimator, fitted: bool, of_tokens: Tokens | None = None) -> None:
        super().__init__(self._examples, self._matrix)
        self.estimator = estimator
        self.of_tokens = of_tokens
        self.known: int | None = estimator.n_features_in_ if fitted else None
        known: Any = getattr(estimator, "feature_names_in_", None) if fitted else None
        self.names: list[str] | None = None if known is None else list(known)
        self.origin = "as in fit" if self.names is not None else "as X[0] has"

    def _examples(self, blocks: Sequence[Any]) -> tuple[Matrix, np.ndarray]:
        of_tokens = self.known is not None and self.of_tokens is not None
        if not are_tokens(blocks) and not (of_tokens and can_be_tokens(blocks)):
            for i, block in enumerate(blocks):
                self._check_names(f"X[{i}]", block)
            return stacked(blocks, self.known)
        if self.of_tokens is None:
            raise TypeError("X must hold rows of numbers, as in fit, got tokens with named features")
        return self.of_tokens(blocks)

    def _matrix(self, rows: Any) -> Matrix:
        self._check_names("X", rows)
        check_no_mask("X", rows)
        # Infinities of both signs have no sum.
        with np.errstate(invalid="ignore"):
            found = check_array(
                rows,
                accept_sparse="csr",
                dtype=[np.float64, np.float32],
                estimator=self.estimator,
                input_name="X",
            )
        if self.known is not None and found.shape[1] != self.known:
            raise ValueError(f"X must have {self.known} features, as in fit, got {found.shape[1]}")
        if sp.issparse(found) and not found.has_canonical_format:
            found = found.copy()
            found.sum_duplicates()
        return found

    def _check_names(self, place: str, block: Any) -> None:
        """Raise ValueError if a data frame has other columns than those before it, or in `fit`."""
        columns = list(getattr(block, "columns", ()))
        if not columns or not all(isinstance(name, str) for name in columns):
            return
        if self.names is None:
            self.names = columns
        if columns != self.names:
            raise ValueError(
                f"{place} must have the columns {self.names}, {self.origin}, in their order, "
                f"got {columns}"
            )


def solver_for(objective: Objective, length: float) -> tuple[Solver, str]:
    """`InteriorPoint` for few weights and rows that are long for their C, `FrankWolfe` else; and why.

    Parameters
    ----------
    objective : Objective
        In an explicit space.
    length : float
        The mean of ``C |x|^2``, where a position costs 1.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.terms import Objective
    >>> from structinv.oracles import Identity
    >>> from structinv.spaces import ExplicitSpace
    >>> from structinv.structures import Multiclass
    >>> from structinv.terms import WorstCase
    >>> term = WorstCase(np.eye(3), np.arange(3), Identity(), Multiclass())
    >>> objective = Objective(ExplicitSpace(3, 3), [term])
    >>> solver_for(objective, 1.0)
    (FrankWolfe(), 'rows are not long for their C')
    >>> solver_for(objective, 1e4)
    (InteriorPoint(), 'the mean of C |x|^2 is above 100')
    """
    space: Any = objective.space
    if space.size > MOST_WEIGHTS:
        return FrankWolfe(), f"there are more than {MOST_WEIGHTS} weights"
    if objective.n_blocks > MOST_EXAMPLES:
        return FrankWolfe(), f"there are more than {MOST_EXAMPLES} examples"
    if length > LONG:
        return InteriorPoint(), f"the mean of C |x|^2 is above {LONG:g}"
    return FrankWolfe(), "rows are not long for their C"


def length_of_rows(term: Any) -> float:
    """The mean of ``C |x|^2`` over the examples' rows, divided by the mean of what a position costs."""
    labels, layout = term.labels, term.labels.layout
    squares = squared_lengths(term.X)
    # Positions that look at one row have its length.
    means = squares if labels.structure.one_row else layout.sums(squares) / layout.sizes
    dearest = float(np.mean(labels.costs(ALL_ROWS).max(axis=1)))
    return float(np.mean(term.weights * means)) / dearest if dearest > 0 else 0.0
