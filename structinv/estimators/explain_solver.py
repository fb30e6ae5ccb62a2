"""Explain the automatic choice of the solver and its dual states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sklearn.base import clone

from ..dual import TABLE as STATES
from ..dual import refusals
from ..solvers import FrankWolfe, Solver
from ..terms import WorstCase
from ..terms.blockwise_term import BlockwiseTerm
from ..utils.summaries import Table, paragraphs
from .base import InvariantEstimator


@dataclass(frozen=True, repr=False)
class SolverExplanation:
    """Solver of a fit with the reasons for its choice, from `explain_solver`.

    Print it for a table.

    - `solver`: solver of the fit
    - `reason`: reason for the choice of "auto", or a note that the solver was given
    - `terms`: name of each term of the objective
    - `states`: names of all dual states for each term, in the sequence of preference
    """

    solver: Solver
    reason: str
    terms: tuple[str, ...]
    states: tuple[dict[str, str], ...]

    def _tables(self) -> list[Table]:
        tables = []
        for term, states in zip(self.terms, self.states, strict=False):
            used = next(name for name, reason in states.items() if not reason)
            rows = [
                (
                    f"{name:<14}",
                    "no " if reason else "yes",
                    reason or ("used" if name == used else "supported, but a state above is used"),
                )
                for name, reason in states.items()
            ]
            tables.append(Table(f"Dual states of {term}:", [], rows, left=(0, 1, 2)))
        return tables

    def _title(self) -> str:
        return f"{self.solver}: {self.reason}"

    def _notes(self) -> list[str]:
        meaning = "A dual state is a form in which the solver stores the dual variables."
        return [f"{meaning} The first supported one is used."] if self.states else []

    def __str__(self) -> str:
        tables = (table.text() for table in self._tables())
        return "\n".join([self._title(), *tables, *self._notes()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        tables = (table.html() for table in self._tables())
        return paragraphs([self._title()]) + "".join(tables) + paragraphs(self._notes())


def explain_solver(model: Any, X: Any, y: Any) -> SolverExplanation:
    """Explain which solver `fit` would use, without fitting.

    Parameters
    ----------
    model : estimator
        Estimator of this package with a parameter `solver`; it remains unchanged.
    X : array-like or sparse matrix of shape (n_samples, n_features)
        Samples, in a form that `fit` supports.
    y : array-like of shape (n_samples,)
        Labels or targets, as in `fit`.

    Returns
    -------
    SolverExplanation
        Selected solver with the reasons; `print` writes a table of the dual states (forms of the dual
        variables) that it can use.

    Raises
    ------
    TypeError
        If the model has no parameter `solver`.
    ValueError
        If parameters or data are not valid for `fit`.

    See Also
    --------
    structinv.solvers.FrankWolfe : Default solver of most models.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv import InvariantLinearSVC, explain_solver
    >>> from structinv.oracles import FDrop
    >>> X, y = np.eye(20), np.arange(20) % 2
    >>> explanation = explain_solver(InvariantLinearSVC(FDrop(2)), X, y)
    >>> explanation.solver
    FrankWolfe()
    >>> explanation.reason
    'there are more than 16 weights'
    >>> print(str(explanation).splitlines()[2])
      additions       no   FDrop does not declare edits that add features
    """
    if not isinstance(model, InvariantEstimator):
        raise TypeError(
            f"model must be an estimator with a parameter solver, got {type(model).__name__}"
        )
    own: Any = clone(model)._in_memory()
    own._check_parameters()
    objective = own._objective(own._read(X, y, None))
    solver = own._solver(objective)
    reason = (
        own._best_solver(objective)[1]
        if own.solver == "auto"
        else "it was given as the parameter solver"
    )
    with_oracle = (WorstCase, BlockwiseTerm)
    terms = [
        type(term).__name__ + (f"({term.oracle})" if isinstance(term, with_oracle) else "")
        for term in objective.terms
    ]
    states = []
    for term in objective.terms if isinstance(solver, FrankWolfe) else ():
        reasons = refusals(term, objective.space, solver.plane_tol)
        states.append({name: reasons.get(name, "") for name in STATES})
    return SolverExplanation(solver, reason, tuple(terms), tuple(states))
