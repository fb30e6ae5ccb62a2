"""A word where the changes allowed leave next to nothing to learn."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..exceptions import UninformativeFitWarning
from ..objective import Objective, WorstCase
from ..oracles import Identity
from ..solvers import Gap, Seconds, Solution, Solver, Status, solve
from .labels import label_name

# What a fit may win over no function at all, as a share of what it wins without changes. Ten times
# the usual gap, so that it can be told from nothing.
LEAST_SHARE = 0.01
# Which share of a constant's errors a fit without changes may leave, to have learnt something.
ERRORS_LEFT = 0.9
# The fit without changes only has to show that there is something to learn.
ROUGH_GAP = 0.01
LEAST_SECONDS = 0.1


@dataclass(frozen=True)
class Trained:
    """A fit that is to be looked at.

    Parameters
    ----------
    name : str
        Of the estimator.
    term : WorstCase
        The losses of the labelled rows.
    objective : Objective
    solution : Solution
    scores : callable
        Gives the scores of the labelled rows, (n, n_outputs).
    plain : callable
        Makes the same objective with another term in the place of `term`, and a solver for it.
    left : float, default=inf
        Seconds that the fit has left of its time; see `seconds_left`.
    """

    name: str
    term: WorstCase
    objective: Objective
    solution: Solution
    scores: Callable[[], np.ndarray]
    plain: Callable[[WorstCase], tuple[Objective, Solver]]
    left: float = np.inf


def warn_if_uninformative(fit: Trained, stacklevel: int) -> None:
    """Warn where changes leave next to nothing to learn.

    F being the objective, a fit is suspect if it predicts one class for all labelled rows, or if no
    function can win 1 % of F(0), ``F(0) - dual < 0.01 F(0)``. Only then the problem is solved without
    changes, roughly and in no more time than the fit took. The warning is given if that solution puts a
    tenth of the errors right where the fit predicts one class, or else wins 1 % of F(0), and more than a
    hundred times what any function wins with changes. So nothing is said of a small C or of rare
    classes, with which a model without changes does the same, and a fit that is not suspect costs no
    more than one prediction of its rows.
    """
    term, solution = fit.term, fit.solution
    if isinstance(term.oracle, Identity):
        return
    if solution.status not in (Status.CONVERGED, Status.WITHIN_EPSILON):
        # Such a fit has a warning of its own.
        return
    at_zero = fit.objective.value(fit.objective.space.zeros()).upper
    won = max(0.0, at_zero - solution.dual)
    predicted = term.labels.predict(fit.scores())
    constant = bool(np.all(predicted == predicted[0]))
    if not constant and won >= LEAST_SHARE * at_zero:
        return
    classes, codes = term.labels.classes, term.labels.codes
    unchanged = term.with_oracle(Identity())
    objective, solver = fit.plain(unchanged)
    stop = Gap(ROUGH_GAP) | Seconds(max(LEAST_SECONDS, min(solution.seconds, fit.left)))
    plain = solve(objective, solver, stop, random_state=0)
    if plain.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    possible = at_zero - plain.primal
    without = term.labels.predict(unchanged.scores(objective.space, plain.f))
    wrong, still_wrong = (_errors(term, each) for each in (predicted, without))
    if constant and not np.all(without == without[0]) and still_wrong <= ERRORS_LEFT * wrong:
        what = (
            f"all {len(codes)} training rows are predicted {label_name(classes[predicted[0]])} "
            f"({1 - wrong:.0%} right; about {1 - still_wrong:.0%} without changes"
            f"{', by weight' if np.ptp(term.weights) > 0 else ''})"
        )
    elif not constant and possible >= LEAST_SHARE * at_zero and won < LEAST_SHARE * possible:
        what = f"the function wins less than {LEAST_SHARE:.0%} of what one without changes wins"
    else:
        return
    # A run within epsilon leaves out planes as well as the changes leave out functions.
    within = solution.status is Status.WITHIN_EPSILON and solution.relative_gap > ROUGH_GAP
    warnings.warn(
        f"{fit.name}: the changes of {term.oracle}{', with this epsilon,' if within else ''} leave next "
        f"to nothing to learn: {what}. Try {'a smaller epsilon, ' if within else ''}fewer "
        "or smaller changes, a larger C, or class_weight='balanced' if one class is rare; "
        "structinv.select_changes compares such settings on held-out rows",
        UninformativeFitWarning,
        stacklevel=stacklevel + 1,
    )


def _errors(term: WorstCase, predicted: np.ndarray) -> float:
    """The share of the rows' weight that is predicted wrongly."""
    return float(term.weights @ (predicted != term.labels.codes) / term.weights.sum())


def seconds_left(limit: float | None, used: float) -> float:
    """What is left of a time limit, if there is one, after so many seconds in all."""
    return np.inf if limit is None else limit - used
