"""Warnings of fits that learned almost nothing, though the data are informative."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..oracles import Identity
from ..rows import RowSource
from ..solvers import Gap, Seconds, Solution, Status, solve
from ..spaces.base import Element
from ..terms import Objective, WorstCase
from ..utils.exceptions import UninformativeFitWarning
from ..utils.matrices import dense
from ..utils.printing import warn
from .problem import Problem
from .row_sources import sample_of
from .target_labels import label_name

# Minimum relative improvement over the zero function of a fit that ended early.
NOTHING_GAINED = 1e-3
# Minimum improvement over the zero function, relative to that without perturbations. It is ten times
# the default gap, so that it is above the error of the fit.
LEAST_SHARE = 0.01
# A fit without perturbations is informative if it makes at most this fraction of the errors of a
# constant prediction.
ERRORS_LEFT = 0.9
# The fit without perturbations is only a test, so its gap can be large.
ROUGH_GAP = 0.01
LEAST_SECONDS = 0.1
# Minimum and maximum number of rows for the least-squares test.
LEAST_ROWS, MOST_ROWS = 5, 300
# Weights of the norm in this test, relative to the mean eigenvalue of the centered kernel matrix.
ALPHAS = np.array([1e-3, 1e-1, 10.0])
# Lower bound of the factor of leave-one-out residuals.
ROUNDING = 1e-12
# Relative size of negligible errors.
NEAR = 1e-3
# Largest absolute value of X, or its inverse, above which messages mention the scale.
FAR = 1e3
OF_THE_SCALE = (Status.STALLED, Status.TIME_LIMIT, Status.NOT_FINITE, Status.INCONSISTENT)


def nothing_learned(objective: Objective, solution: Solution) -> str:
    """Return a sentence if the function is not better than zero, else ""."""
    at_zero = objective.at_zero.upper
    # With a coarse oracle the objective is an upper bound only.
    bound_only = solution.status is Status.ORACLE_TOO_COARSE
    no_better = not bound_only and solution.primal > (1.0 - NOTHING_GAINED) * at_zero
    if not no_better and objective.space.dot(solution.f, solution.f) > 0:
        return ""
    return (
        f" The objective is {solution.primal:.6g}, and {at_zero:.6g} if all scores are 0, so the "
        "predictions are meaningless."
    )


def scale_of_columns(rows: Any, solution: Solution) -> str:
    """Return advice on very large or small columns, which hinder solvers, else ""."""
    if solution.status not in OF_THE_SCALE:
        return ""
    what = "the first rows of X" if isinstance(rows, RowSource) else "X"
    rows = sample_of(rows)
    if not (isinstance(rows, np.ndarray) or sp.issparse(rows)):
        return ""
    columns = np.maximum(dense(rows.max(axis=0)), -dense(rows.min(axis=0))).ravel()
    number = int(np.argmax(columns))
    if 1.0 / FAR <= columns[number] <= FAR:
        return ""
    with np.errstate(over="ignore"):
        spread = np.std(dense(rows[:, [number]]).astype(np.float64))
    scaler = "MaxAbsScaler" if sp.issparse(rows) else "StandardScaler"
    return (
        f" The largest absolute value of {what} is {columns[number]:.2g}, in column {number} with a "
        f"standard deviation of {spread:.2g}: scale the columns, for example by {scaler}."
    )


def warn_if_uninformative(
    estimator: Any,
    problem: Problem,
    objective: Objective,
    solution: Solution,
    left: float,
    stacklevel: int,
) -> None:
    """Warn if the perturbations leave a classifier almost nothing to learn.

    A fit is suspect if it predicts one class for all labeled rows. It is also suspect if no function can
    reduce the objective F by 1 %: ``F(0) - dual < 0.01 F(0)``. Other fits cost one prediction of the
    rows.

    For a suspect fit, the problem is solved without perturbations, roughly and in no more time than the
    fit took. The function warns if that solution corrects a tenth of the errors of a fit with one class.
    Otherwise it warns if that solution reduces F(0) by 1 %, and by more than 100 times the reduction
    with perturbations. A small C or a rare class thus gives no warning, since a model without
    perturbations fails as well.
    """
    if isinstance(problem.oracle, Identity):
        return
    if solution.status not in (Status.CONVERGED, Status.WITHIN_PLANE_TOL):
        # Such a fit has raised a ConvergenceWarning.
        return
    term: Any = objective.terms[0]
    at_zero = objective.at_zero.upper
    reduction = max(0.0, at_zero - solution.dual)
    predicted = _predicted(objective, solution.f)
    constant = bool(np.all(predicted == predicted[0]))
    if not constant and reduction >= LEAST_SHARE * at_zero:
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
            f"({1 - wrong:.0%} correct; about {1 - still_wrong:.0%} without perturbations"
            f"{', by weight' if np.ptp(term.weights) > 0 else ''})"
        )
    elif not constant and possible >= LEAST_SHARE * at_zero and reduction < LEAST_SHARE * possible:
        what = (
            f"the objective improves by less than {LEAST_SHARE:.0%} of its improvement in a fit without "
            "perturbations"
        )
    else:
        return
    # Both a plane tolerance and perturbations can make a fit uninformative.
    within = solution.status is Status.WITHIN_PLANE_TOL and solution.relative_gap > ROUGH_GAP
    changes = f"{term.oracle}{', with this plane_tol,' if within else ''}"
    warn(
        f"{type(estimator).__name__}: the perturbations of {changes} leave almost nothing to learn: "
        f"{what}. Try {'a smaller plane_tol, ' if within else ''}fewer or smaller perturbations, a "
        "larger C, or class_weight='balanced' if one class is rare; "
        "structinv.select_changes compares such settings on held-out samples",
        UninformativeFitWarning,
        stacklevel=stacklevel + 1,
    )


def _predicted(objective: Objective, f: Element) -> np.ndarray:
    """Return the predicted label of each unperturbed row, as an index of the classes."""
    term: Any = objective.terms[0]
    scores = term.scores(objective.space, f).reshape(len(term.labels.codes), -1)
    predicted: np.ndarray = term.labels.predict(scores, objective.space.pairwise(f))
    return predicted


def _errors(term: WorstCase, predicted: np.ndarray) -> float:
    """Return the weighted fraction of wrong predictions."""
    layout, weights = term.labels.layout, term.weights
    each = weights if layout is None else np.repeat(weights, layout.lengths)
    return float(each @ (predicted != term.labels.codes) / each.sum())


@dataclass(frozen=True)
class FittedRegression:
    """Fitted regression for the test of `warn_if_unexplained`.

    - `name`: name of the estimator
    - `targets` (n,): training targets
    - `predictions` (n,): predictions of the training rows
    - `weights` (n,): weights of the rows
    - `gram`: function of row indices that returns their kernel matrix
    - `remedies`: advice for the warning, in addition to other units of the targets
    - `epsilon`: half-width of the tube: smaller errors cost nothing
    """

    name: str
    targets: np.ndarray
    predictions: np.ndarray
    weights: np.ndarray
    gram: Callable[[np.ndarray], np.ndarray]
    remedies: Sequence[str]
    epsilon: float = 0.0


def warn_if_unexplained(fit: FittedRegression, stacklevel: int) -> bool:
    """Warn if predictions of training targets are not better than a constant.

    Errors are compared with those of the mean and of the median of the targets. A fit close to one of
    these is only suspect: it explains less than 1 % of the variance. The warning then requires that the
    data are informative. A least-squares fit of at most 300 rows with the same kernel and a constant
    must explain a tenth of the variance. This variance is that of rows that were left out.
    """
    # Squares of very large targets would overflow. A power of 2 has no rounding errors.
    unit = 2.0 ** int(np.frexp(np.abs(fit.targets).max())[1])
    fit = replace(
        fit,
        targets=fit.targets / unit,
        predictions=fit.predictions / unit,
        epsilon=fit.epsilon / unit,
    )
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
            f"the root mean square error of training targets is {unit * np.sqrt(squared):.3g}, but only "
            f"{unit * np.sqrt(variance):.3g} for their mean {unit * mean:.3g}"
        )
    elif squared >= (1 - LEAST_SHARE) * variance and variance > (ROUNDING * mean) ** 2:
        share = _explainable(fit, used)
        if share < 1 - ERRORS_LEFT:
            return False
        what = (
            f"the predictions explain less than {LEAST_SHARE:.0%} of the variance of the training "
            f"targets, but least squares explain about {share:.0%} for rows left out"
        )
    else:
        return False
    warn(
        f"{fit.name} has learned almost nothing: {what}. Try {', '.join(fit.remedies)}, or targets in "
        f"other units (their standard deviation is {unit * np.sqrt(variance):.3g})",
        UninformativeFitWarning,
        stacklevel=stacklevel + 1,
    )
    return True


def _median(values: np.ndarray, weights: np.ndarray) -> float:
    order = np.argsort(values)
    middle = np.searchsorted(np.cumsum(weights[order]), 0.5)
    return float(values[order[min(int(middle), len(order) - 1)]])


def _explainable(fit: FittedRegression, weighted_rows: np.ndarray) -> float:
    """Return the fraction of variance that leave-one-out predictions of least squares explain."""
    rows = weighted_rows[np.unique(np.linspace(0, len(weighted_rows) - 1, MOST_ROWS).astype(int))]
    targets = fit.targets[rows] - fit.targets[rows].mean()
    gram = np.array(fit.gram(rows), dtype=np.float64)
    if len(rows) < LEAST_ROWS or not np.any(targets) or not np.all(np.isfinite(gram)):
        return 0.0
    targets /= np.abs(targets).max()
    # Centering the matrix removes the constant, which has no penalty.
    gram = gram - gram.mean(axis=0) - gram.mean(axis=1)[:, None] + gram.mean()
    values, vectors = np.linalg.eigh((gram + gram.T) / 2)
    values, errors = np.maximum(values, 0.0), []
    for alpha in ALPHAS * values.mean():
        shrinkage = np.divide(values, values + alpha, out=np.zeros(len(values)), where=values > 0)
        leverages = 1.0 / len(rows) + vectors**2 @ shrinkage
        residuals = targets - vectors @ (shrinkage * (vectors.T @ targets))
        errors.append(np.mean((residuals / np.maximum(1.0 - leverages, ROUNDING)) ** 2))
    return float(1.0 - min(errors) / np.mean(targets**2))
