"""Advice before and after a fit: memory, scales of columns, uninformative fits."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from ..oracles import Identity, InvarianceOracle
from ..oracles.base import BoundOracle
from ..oracles.listed_changes import listed
from ..rows import RowSource
from ..solvers import Solution, Status
from ..terms import Objective, WorstCase
from ..utils.exceptions import UninformativeFitWarning
from ..utils.matrices import Matrix, dense
from ..utils.printing import warn
from .inputs import label_name, sample_of

if TYPE_CHECKING:
    from .base import Problem

# Expected planes per row, and functions in memory, for linear models.
LINEAR_PLANES_OF_A_ROW = 4
LINEAR_PLANES_OF_A_CLASS = 16
LINEAR_FUNCTIONS_AT_ONCE = 8
# Number of rows whose listed perturbed samples are computed together, in linear models.
LINEAR_ROWS_AT_ONCE = 4096


class ResourceEstimateMixin:
    """Mixin of estimators with `estimate_memory`."""

    def estimate_memory(self, X: Any, y: Any = None) -> int:
        """Estimate the maximum memory of a fit in bytes, before the fit.

        The estimate includes memory that grows with samples, perturbed samples and functionals:

        - Linear models: 4 cutting planes per sample, and 8 copies of the weights. With several classes
          and an oracle that is not finite, 16 planes per sample and class. With a finite oracle, also
          the perturbed samples of one block of samples (or transformed weights) and their scores.
        - Kernel SVMs: the stored points, and kernel values between support vectors and points (at most
          `cache_mb`). The points are all perturbed samples if the cache is large enough for their kernel
          values, otherwise support vectors. Also scores of some functions at the points, 12 planes per
          sample, and inner products of planes (at most half of `cache_mb`). With `invariances`, also the
          Gram matrix of the functionals (at most `cache_mb`) and coefficients of their representers.
        - Models with smoothness penalties: a copy of `X`, and the Gram matrix of all functionals with
          its factors (at most five times `cache_mb`). For many functionals, matrices for fast products
          instead. Also some vectors with one coefficient per functional, and with an oracle the memory
          of a kernel SVM. All samples count as labeled.
        - Models of virtual samples: three copies of all virtual samples, and the cache of libsvm or the
          whole kernel matrix.

        `X` itself is only included for models with smoothness penalties. Temporary memory of oracles and
        kernels is not included.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples, in a form that `fit` supports.
        y : array-like of shape (n_samples,) or None, default=None
            Labels or targets. Without labels the estimate assumes two classes. Oracles that depend on
            labels require them.

        Returns
        -------
        int
            Estimated bytes.

        Examples
        --------
        >>> import numpy as np
        >>> from structinv import InvariantLinearSVC, InvariantSVC
        >>> InvariantLinearSVC().estimate_memory(np.zeros((1000, 10))) < 1_000_000
        True
        >>> InvariantSVC(cache_mb=8.0).estimate_memory(np.zeros((1000, 10))) <= 8e6 * 1.5 + 1e6
        True
        """
        self._check_parameters()
        return int(self._memory(X, y))

    @abstractmethod
    def _check_parameters(self) -> None:
        """Check all parameters that can be checked without data."""

    @abstractmethod
    def _memory(self, X: Any, y: Any) -> float:
        """Return the estimate of `estimate_memory` as a float."""


def named(bound: BoundOracle, size: int, n_rows: int) -> str:
    """Describe an oracle and its number of perturbed samples, for messages."""
    name = type(bound.oracle).__name__
    return (
        f"oracle {name}: {size} perturbed samples for each of {n_rows} rows, {size * n_rows} in total,"
    )


def linear_functions(n_features: int, n_outputs: int) -> float:
    """Return the bytes of all functions in the memory of a solver."""
    return LINEAR_FUNCTIONS_AT_ONCE * 8.0 * (n_features + 1) * n_outputs


def linear_memory(X: Matrix, bound: BoundOracle, n_outputs: int) -> tuple[float, int]:
    """Return the bytes of listed perturbed samples, and their number per row.

    If all perturbations are linear maps, the weights are transformed. Otherwise perturbed samples are
    listed for one portion of rows. Oracles without a list count as one perturbed sample.
    """
    oracle: InvarianceOracle = bound.oracle
    if not oracle.finite or not isinstance(X, np.ndarray):
        return 0.0, 1
    changes = listed(bound)
    size = changes.size
    rows = min(X.shape[0], LINEAR_ROWS_AT_ONCE)
    scores = 8.0 * rows * size * n_outputs
    if changes.adjoint(np.zeros((1, X.shape[1]))) is None:
        return 2 * scores + float(rows) * size * X.shape[1] * X.dtype.itemsize, size
    return 2 * scores + 3 * 8.0 * size * X.shape[1] * n_outputs, size


def virtual_memory(n_rows: int, size: int, n_features: int, itemsize: int) -> float:
    """Return the bytes of virtual samples: two copies here, and the copy of libsvm."""
    return float(n_rows) * size * n_features * (2 * itemsize + 8)


# Minimum relative improvement over the zero function of a fit that ended early.
NOTHING_GAINED = 1e-3
# Minimum explained part of the variance.
LEAST_SHARE = 0.01
# Relative gap above which a plane tolerance may be the cause.
ROUGH_GAP = 0.01
# Relative rounding error of targets.
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
    estimator: Any, problem: Problem, objective: Objective, solution: Solution, stacklevel: int
) -> None:
    """Warn if a classifier with perturbations predicts one class for all rows."""
    if isinstance(problem.oracle, Identity):
        return
    if solution.status not in (Status.CONVERGED, Status.WITHIN_PLANE_TOL):
        # Such a fit has raised a ConvergenceWarning.
        return
    term: Any = objective.terms[0]
    scores = term.scores(objective.space, solution.f).reshape(len(term.bound_structure.codes), -1)
    predicted = term.bound_structure.predict(scores, objective.space.pairwise(solution.f))
    if np.any(predicted != predicted[0]):
        return
    right = _share(term, predicted == term.bound_structure.codes)
    what = (
        f"all {len(predicted)} training rows are predicted "
        f"{label_name(term.bound_structure.classes[predicted[0]])} ({right:.0%} correct"
        f"{', by weight' if np.ptp(term.weights) > 0 else ''})"
    )
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


def _share(term: WorstCase, rows: np.ndarray) -> float:
    """Return the fraction of some rows, by weight."""
    layout, weights = term.bound_structure.layout, term.weights
    each = weights if layout is None else np.repeat(weights, layout.lengths)
    return float(each @ rows / each.sum())


def warn_if_unexplained(
    estimator: Any,
    targets: np.ndarray,
    predictions: np.ndarray,
    weights: np.ndarray,
    remedies: Sequence[str],
    *,
    stacklevel: int,
    epsilon: float = 0.0,
) -> bool:
    """Warn if predictions of training targets are not better than a constant.

    Errors are compared with those of the mean and of the median of the targets. The function also warns
    if the predictions explain less than 1 % of the variance. Errors up to `epsilon` cost nothing.

    Shapes: `targets` (n,), `predictions` (n,), `weights` (n,).
    """
    # Squares of very large targets would overflow. A power of 2 has no rounding errors.
    unit = 2.0 ** int(np.frexp(np.abs(targets).max())[1])
    used = np.flatnonzero(weights > 0)
    y, weights = targets[used] / unit, weights[used] / weights[used].sum()
    off = y - predictions[used] / unit
    mean, median = float(weights @ y), _median(y, weights)
    squared, absolute = float(weights @ off**2), float(weights @ np.abs(off))
    variance, deviation = float(weights @ (y - mean) ** 2), float(weights @ np.abs(y - median))
    near = max(NEAR * abs(mean), epsilon / unit)
    more = 1 + LEAST_SHARE
    if squared > more * variance + near**2 and absolute > more * deviation + near:
        what = (
            f"the root mean square error of training targets is {unit * np.sqrt(squared):.3g}, but only "
            f"{unit * np.sqrt(variance):.3g} for their mean {unit * mean:.3g}"
        )
    elif squared >= (1 - LEAST_SHARE) * variance and variance > (ROUNDING * mean) ** 2:
        what = (
            f"the predictions explain less than {LEAST_SHARE:.0%} of the variance of the training "
            "targets"
        )
    else:
        return False
    warn(
        f"{type(estimator).__name__} has learned almost nothing: {what}. Try {', '.join(remedies)}, or "
        f"targets in other units (their standard deviation is {unit * np.sqrt(variance):.3g})",
        UninformativeFitWarning,
        stacklevel=stacklevel + 1,
    )
    return True


def _median(values: np.ndarray, weights: np.ndarray) -> float:
    order = np.argsort(values)
    middle = np.searchsorted(np.cumsum(weights[order]), 0.5)
    return float(values[order[min(int(middle), len(order) - 1)]])
