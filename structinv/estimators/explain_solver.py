"""Which solver a fit takes, which dual variables it keeps, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sklearn.base import clone

from ..dual import TABLE as STATES
from ..dual import refusals
from ..solvers import FrankWolfe, Solver
from ..terms import WorstCase
from ..terms.blockwise_term import BlockwiseTerm
from ..utils.summaries import Tabulated
from .base import InvariantEstimator


@dataclass(frozen=True, repr=False)
class SolverExplanation(Tabulated):
    """The solver of a fit with the reasons for it, as `explain_solver` gives them.

    Printing it gives a table.

    Parameters
    ----------
    solver : Solver
    reason : str
        Why "auto" stands for this solver, or that it was given.
    terms : tuple of str
        Name of each term of the objective.
    states : tuple of dict
        For each term the dual states in the order in which they are asked. The value is the reason why
        one does not suit the term, and empty where it does. The first that suits is taken. There are no
        dicts for solvers without dual states.
    """

    solver: Solver
    reason: str
    terms: tuple[str, ...]
    states: tuple[dict[str, str], ...]

    def __str__(self) -> str:
        lines = [f"{self.solver}: {self.reason}"]
        for term, states in zip(self.terms, self.states, strict=False):
            taken = next(name for name, reason in states.items() if not reason)
            lines.append(f"Dual states of {term}:")
            for name, reason in states.items():
                answer = "no " if reason else "yes"
                why = reason or ("taken" if name == taken else "a state before it is taken")
                lines.append(f"  {name:<15} {answer}  {why}")
        return "\n".join(lines)


def explain_solver(model: Any, X: Any, y: Any) -> SolverExplanation:
    """Which solver a fit of `model` takes on given rows, and why; nothing is fitted.

    Parameters
    ----------
    model : estimator
        Any estimator of this package with a parameter `solver`. It is not changed.
    X : (n_samples, n_features) array-like or sparse matrix
        As for `fit`.
    y : (n_samples,) array-like
        As for `fit`.

    Returns
    -------
    SolverExplanation
        To be printed.

    Raises
    ------
    TypeError
        If the model has no parameter `solver`.
    ValueError
        For parameters or data that `fit` refuses.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv import InvariantLinearSVC, explain_solver
    >>> from structinv.oracles import FDrop
    >>> X, y = np.eye(20), np.arange(20) % 2
    >>> told = explain_solver(InvariantLinearSVC(FDrop(2)), X, y)
    >>> told.solver
    FrankWolfe()
    >>> told.reason
    'there are more than 16 weights'
    >>> print(str(told).splitlines()[2])
      additions       no   FDrop does not declare edits that add features
    """
    if not isinstance(model, InvariantEstimator):
        raise TypeError(f"explain_solver needs a model with a solver, got {type(model).__name__}")
    own: Any = clone(model)._in_memory()
    own._check_parameters()
    objective = own._objective(own._read(X, y, None))
    solver = own._solver(objective)
    reason = own._best_solver(objective)[1] if own.solver == "auto" else "it is the parameter solver"
    asked = (WorstCase, BlockwiseTerm)
    terms = [
        type(term).__name__ + (f"({term.oracle})" if isinstance(term, asked) else "")
        for term in objective.terms
    ]
    states = []
    for term in objective.terms if isinstance(solver, FrankWolfe) else ():
        reasons = refusals(term, objective.space, solver.plane_tol)
        states.append({name: reasons.get(name, "") for name in STATES})
    return SolverExplanation(solver, reason, tuple(terms), tuple(states))
