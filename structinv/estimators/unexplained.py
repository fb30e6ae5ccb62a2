"""A warning where a regressor predicts no better than a constant, though there is something to learn."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ..exceptions import UninformativeFitWarning
from .uninformative import ERRORS_LEFT, LEAST_SHARE

# Rows of the least-squares fit that shows whether there is something to learn.
LEAST_ROWS, MOST_ROWS = 5, 300
# Weights of its norm, in units of the mean eigenvalue of the centered kernel matrix.
ALPHAS = np.array([1e-3, 1e-1, 10.0])
# A row that determines its own prediction up to this says nothing of rows left out.
ROUNDING = 1e-12
# Errors that are this share of the targets' size do not count.
NEAR = 1e-3


@dataclass(frozen=True)
class Fitted:
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


def warn_if_unexplained(fit: Fitted, stacklevel: int) -> bool:
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
        f"{fit.name} has learnt next to nothing: {what}. Try {', '.join(fit.remedies)}, or targets in "
        f"other units (their standard deviation is {np.sqrt(variance):.3g})",
        UninformativeFitWarning,
        stacklevel=stacklevel + 1,
    )
    return True


def _median(values: np.ndarray, weights: np.ndarray) -> float:
    order = np.argsort(values)
    middle = np.searchsorted(np.cumsum(weights[order]), 0.5)
    return float(values[order[min(int(middle), len(order) - 1)]])


def _explainable(fit: Fitted, used: np.ndarray) -> float:
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
