"""Which solver suits examples of several rows, by how large C is against their rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..matrices import ALL_ROWS, squared_lengths
from ..objective import Objective
from ..solvers import FrankWolfe, InteriorPoint, Solver

# First-order steps crawl where C times the squared length of a row, over what a position costs, is above
# this on average; Newton's method then costs less up to these sizes.
LONG = 100.0
MOST_WEIGHTS, MOST_EXAMPLES = 1000, 10_000


def solver_for(objective: Objective, length: float) -> Solver:
    """`InteriorPoint` for few weights and rows that are long for their C, `FrankWolfe` else.

    Parameters
    ----------
    objective : Objective
        In an explicit space.
    length : float
        The mean of ``C |x|^2``, where a position costs 1.

    Examples
    --------
    >>> from structinv.oracles import Identity
    >>> from structinv.spaces import ExplicitSpace
    >>> from structinv.structures import Multiclass
    >>> from structinv.terms import WorstCase
    >>> term = WorstCase(np.eye(3), np.arange(3), Identity(), Multiclass())
    >>> objective = Objective(ExplicitSpace(3, 3), [term])
    >>> solver_for(objective, 1.0), solver_for(objective, 1e4)
    (FrankWolfe(), InteriorPoint())
    """
    space: Any = objective.space
    few = space.size <= MOST_WEIGHTS and objective.n_blocks <= MOST_EXAMPLES
    return InteriorPoint() if few and length > LONG else FrankWolfe()


def length_of_rows(term: Any) -> float:
    """The mean of ``C |x|^2`` over the examples' rows, divided by the mean of what a position costs."""
    labels, layout = term.labels, term.labels.layout
    squares = squared_lengths(term.X)
    # Positions that look at one row have its length.
    means = squares if labels.structure.one_row else layout.sums(squares) / layout.sizes
    dearest = float(np.mean(labels.costs(ALL_ROWS).max(axis=1)))
    return float(np.mean(term.weights * means)) / dearest if dearest > 0 else 0.0
