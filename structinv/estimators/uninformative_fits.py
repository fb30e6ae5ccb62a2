"""Warnings of fits that have learned next to nothing, though there was something to learn."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..oracles import Identity
from ..solvers import Gap, Seconds, Solution, Status, solve
from ..spaces.base import Element
from ..terms import Objective, WorstCase
from ..utils.exceptions import UninformativeFitWarning
from .problem import Problem
from .target_labels import label_name

# A fit that ended early and gained less than this share of the objective at zero has learned nothing.
NOTHING_GAINED = 1e-3
# What a fit may win over no function at all, as a share of what it wins without changes. Ten times
# the usual gap, so that it can be told from nothing.
LEAST_SHARE = 0.01
# Which share of a constant's errors a fit without changes may leave, to have learned something.
ERRORS_LEFT = 0.9
# The fit without changes only has to show that there is something to learn.
ROUGH_GAP = 0.01
LEAST_SECONDS = 0.1
# Rows of the least-squares fit that shows whether there is something to learn.
LEAST_ROWS, MOST_ROWS = 5, 300
# Weights of its norm, in units of the mean eigenvalue of the centered kernel matrix.
ALPHAS = np.array([1e-3, 1e-1, 10.0])
# A row that determines its own prediction up to this says nothing of rows left out.
ROUNDING = 1e-12
# Errors that are this share of the targets' size do not count.
NEAR = 1e-3


def nothing_learned(objective: Objective, solution: Solution) -> str:
    """A sentence if a run ended with a function that is no better than zero; nothing otherwise."""
    at_zero = objective.at_zero.upper
    # Where an oracle is too coarse, the objective is a bound, and says little about the function.
    bound_only = solution.status is Status.ORACLE_TOO_COARSE
    no_better = not bound_only and solution.primal > (1.0 - NOTHING_GAINED) * at_zero
    if not no_better and objective.space.dot(solution.f, solution.f) > 0:
        return ""
    return (
        f" So far the model is no better than the zero function (objective {solution.primal:.6g}, "
        f"{at_zero:.6g} at zero): it has learned nothing, and its predictions mean nothing."
    )


def warn_if_uninformative(
    estimator: Any,
    problem: Problem,
    objective: Objective,
    solution: Solution,
    left: float,
    stacklevel: int,
) -> None:
    """Warn where the changes of a classifier's oracle leave next to nothing to learn.

    F being the objective, a fit is suspect if it predicts one class for all labeled rows, or if no
    function can win 1 % of F(0), ``F(0) - dual < 0.01 F(0)``. Only then the problem is solved without
    changes, roughly and in no more time than the fit took. The warning is given if that solution puts a
    tenth of the errors right where the fit predicts one class, or else wins 1 % of F(0), and more than a
    hundred times what any function wins with changes. So nothing is said of a small C or of rare
    classes, with which a model without changes does the same, and a fit that is not suspect costs no
    more than one prediction of its rows.

    Parameters
    ----------
    estimator : InvariantEstimator
        Fitted.
    problem : Problem
    objective : Objective
        Its first term is a `WorstCase`.
    solution : Solution
    left : float
        Seconds that the fit has left of its time; infinity without a limit.
    stacklevel : int
        Of the warning, counted from the caller.
    """
    if isinstance(problem.oracle, Identity):
        return
    if solution.status not in (Status.CONVERGED, Status.WITHIN_PLANE_TOL):
        # Such a fit has a warning of its own.
        return
    term: Any = objective.terms[0]
    at_zero = objective.at_zero.upper
    won = max(0.0, at_zero - solution.dual)
    predicted = _predicted(objective, solution.f)
    constant = bool(np.all(predicted == predicted[0]))
    if not constant and won >= LEAST_SHARE * at_zero:
        return
    classes, codes = term.labels.classes, term.labels.codes
    same = estimator._objective(replace(problem, oracle=Identity()))
    stop = Gap(ROUGH_GAP) | Seconds(max(LEAST_SECONDS, min(solution.seconds, left)))
    plain = solve(same, estimator._best_solver(same)[0], stop, random_state=0)
    if plain.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    possible = at_zero - plain.primal
    without = _predicted(same, plain.f)
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
    # A run within plane_tol leaves out planes as well as the changes leave out functions.
    within = solution.status is Status.WITHIN_PLANE_TOL and solution.relative_gap > ROUGH_GAP
    changes = f"{term.oracle}{', with this plane_tol,' if within else ''}"
    warnings.warn(
        f"{type(estimator).__name__}: the changes of {changes} leave next to nothing to learn: {what}. "
        f"Try {'a smaller plane_tol, ' if within else ''}fewer or smaller changes, a larger C, or "
        "class_weight='balanced' if one class is rare; "
        "structinv.select_changes compares such settings on held-out rows",
        UninformativeFitWarning,
        stacklevel=stacklevel + 1,
    )


def _predicted(objective: Objective, f: Element) -> np.ndarray:
    """The label of each row without changes, as a place among the classes."""
    term: Any = objective.terms[0]
    scores = term.scores(objective.space, f).reshape(len(term.labels.codes), -1)
    predicted: np.ndarray = term.labels.predict(scores, objective.space.pairwise(f))
    return predicted


def _errors(term: WorstCase, predicted: np.ndarray) -> float:
    """The share of the rows' weight that is predicted wrongly."""
    layout, weights = term.labels.layout, term.weights
    each = weights if layout is None else np.repeat(weights, layout.lengths)
    return float(each @ (predicted != term.labels.codes) / each.sum())


@dataclass(frozen=True)
class FittedRegression:
    """A regression that is to be looked at.

    Parameters
    ----------
    name : str
        Of the estimator.
    targets, predictions : (n,) arrays
        Of the training rows.
    weights : (n,) array
        Of the rows.
    gram : callable
        Gives the kernel matrix of some rows, by their numbers.
    remedies : sequence of str
        What to try, beside other units of the targets.
    epsilon : float, default=0.0
        Errors up to this cost nothing.
    """

    name: str
    targets: np.ndarray
    predictions: np.ndarray
    weights: np.ndarray
    gram: Callable[[np.ndarray], np.ndarray]
    remedies: Sequence[str]
    epsilon: float = 0.0


def warn_if_unexplained(fit: FittedRegression, stacklevel: int) -> bool:
    """Warn if a fit predicts its training targets no better than a constant; whether it has warned.

    Errors are compared with those of the mean and of the median, so that a fit that predicts either one
    is not called worse than a constant. Such a fit is suspect: it explains less than 1% of the variance.
    The warning needs proof that there was something to learn. A least-squares fit of at most 300 rows in
    the same kernel, with a constant, must explain a tenth of the variance of rows that it leaves out.
    """
    used = np.flatnonzero(fit.weights > 0)
    y, weights = fit.targets[used], fit.weights[used] / fit.weights[used].sum()
    off = y - fit.predictions[used]
    mean, median = float(weights @ y), _median(y, weights)
    squared, absolute = float(weights @ off**2), float(weights @ np.abs(off))
    variance, deviation = float(weights @ (y - mean) ** 2), float(weights @ np.abs(y - median))
    near = max(NEAR * abs(mean), fit.epsilon)
    more = 1 + LEAST_SHARE
    if squared > more * variance + near**2 and absolute > more * deviation + near:
        what = (
            f"training targets are {np.sqrt(squared):.3g} away from their predictions (root mean "
            f"square), and only {np.sqrt(variance):.3g} from their mean {mean:.3g}"
        )
    elif squared >= (1 - LEAST_SHARE) * variance and variance > (ROUNDING * mean) ** 2:
        share = _explainable(fit, used)
        if share < 1 - ERRORS_LEFT:
            return False
        what = (
            f"the predictions explain less than {LEAST_SHARE:.0%} of the variance of the training "
            f"targets, of which least squares explain about {share:.0%} on rows left out"
        )
    else:
        return False
    warnings.warn(
        f"{fit.name} has learned next to nothing: {what}. Try {', '.join(fit.remedies)}, or targets in "
        f"other units (their standard deviation is {np.sqrt(variance):.3g})",
        UninformativeFitWarning,
        stacklevel=stacklevel + 1,
    )
    return True


def _median(values: np.ndarray, weights: np.ndarray) -> float:
    order = np.argsort(values)
    middle = np.searchsorted(np.cumsum(weights[order]), 0.5)
    return float(values[order[min(int(middle), len(order) - 1)]])


def _explainable(fit: FittedRegression, used: np.ndarray) -> float:
    """The share of the variance that least squares explain on rows left out, with the best weight."""
    some = used[np.unique(np.linspace(0, len(used) - 1, MOST_ROWS).astype(int))]
    targets = fit.targets[some] - fit.targets[some].mean()
    gram = np.array(fit.gram(some), dtype=np.float64)
    if len(some) < LEAST_ROWS or not np.any(targets) or not np.all(np.isfinite(gram)):
        return 0.0
    targets /= np.abs(targets).max()
    # Rows and columns without their means: the constant costs nothing.
    gram = gram - gram.mean(axis=0) - gram.mean(axis=1)[:, None] + gram.mean()
    values, vectors = np.linalg.eigh((gram + gram.T) / 2)
    values, errors = np.maximum(values, 0.0), []
    for alpha in ALPHAS * values.mean():
        shares = np.divide(values, values + alpha, out=np.zeros(len(values)), where=values > 0)
        own = 1.0 / len(some) + vectors**2 @ shares
        residuals = targets - vectors @ (shares * (vectors.T @ targets))
        errors.append(np.mean((residuals / np.maximum(1.0 - own, ROUNDING)) ** 2))
    return float(1.0 - min(errors) / np.mean(targets**2))
