"""Kernel regression that is told how the function should behave around every row."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import column_or_1d, validate_data

from ..kernels.checked_kernel import kernel_matrix
from ..oracles import Identity
from ..solvers import Solution, Status
from ..structures import Regression
from ..terms import Objective
from .callbacks import labeled_alone
from .problem import Problem
from .representer_machine import RepresenterMachine
from .row_shapes import flat_rows, learn_shape
from .target_labels import labels_equal, one_a_row
from .uninformative_fits import FittedRegression, warn_if_unexplained

REGRESSOR_LOSSES = ("squared", "epsilon_insensitive", "absolute", "huber")


@dataclass(eq=False, repr=False)
class RepresenterRegressor(RegressorMixin, RepresenterMachine):
    """Kernel regression that is told how its function should behave around every row.

    Minimizes ``1/2 |f|^2 + C sum_i l(f(x_i) - y_i) + sum over families nu_k sum_j r_k(L_j f)``; see
    `RepresenterClassifier`, whose parameters it shares.

    Parameters
    ----------
    kernel, invariances, invariance_loss, C, nu, loss_params, invariance_loss_params, gamma, \
degree, coef0, solver, tol, cache_mb, max_seconds, random_state, verbose, \
warm_start, checkpoint, checkpoint_seconds, on_interrupt, losses_on
        See `RepresenterClassifier`.
    bias : bool, default=True
        Whether a constant that the norm does not see is added. Without it predictions far from the rows
        go to 0, and so they do everywhere if targets are far from 0 for their spread. Only solver="auto"
        and the methods of `Representer` fit the constant.
    loss : {"squared", "epsilon_insensitive", "absolute", "huber"}, default="squared"
    unlabeled : float, optional
        The target of rows without one, such as ``np.nan``; none by default.

    Attributes
    ----------
    alpha_ : (1, n_functionals) array
    intercept_ : (1,) array
    kernel_ : Kernel
    min_eigenvalue_ : float or None
        Of the kernel's table of at most 2000 training rows, before a `spectrum` mends it;
        None for kernels that are positive semi-definite by construction.
    solution_ : Solution
    n_iter_ : int
    n_features_in_ : int

    Warns
    -----
    ConvergenceWarning
        If the fit ended before the gap was reached.
    UninformativeFitWarning
        If predictions of the training rows are no better than a constant.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv import RepresenterRegressor
    >>> from structinv.functionals import SecondDerivative
    >>> X = np.linspace(0, 3, 20)[:, None]
    >>> straight = RepresenterRegressor(invariances=[SecondDerivative(0, 0)], C=100.0)
    >>> straight.fit(X, 2 * X[:, 0]).predict([[1.5]]).round(1)
    array([3.])

    Some targets are not known:

    >>> y = np.where(abs(X[:, 0] - 1.5) > 0.5, 2 * X[:, 0], np.nan)
    >>> straight.set_params(unlabeled=np.nan).fit(X, y).predict([[1.5]]).round(1)
    array([3.])
    """

    _: KW_ONLY
    bias: bool = True
    unlabeled: float | None = None

    _losses = REGRESSOR_LOSSES

    def _read(self, X: Any, y: Any, sample_weight: Any) -> Problem:
        given = X
        learn_shape(self, X)
        X, y, labeled = self._checked_targets(flat_rows(X), y)
        if len(labeled) == 0:
            raise ValueError("y must hold a target, got none")
        targets = y[labeled].astype(np.float64)
        return Problem(
            X,
            targets,
            Identity(),
            Regression(),
            self.C * self._sample_weights(sample_weight, X, labeled),
            told=y,
            learned={},
            labeled=labeled,
            targets=targets[:, None],
            shown=labeled_alone(given, y, sample_weight, labeled),
        )

    def _sizes(self, X: Any, y: Any) -> tuple[np.ndarray | None, int, int]:
        if y is not None:
            one_a_row(y, len(X))
        return None, 1, 2

    def _look_at(self, problem: Problem, objective: Objective, solution: Solution, left: float) -> None:
        """Warn where the predictions are no better than a constant."""
        try:
            if solution.status in (Status.CONVERGED, Status.WITHIN_PLANE_TOL):
                # Other fits have a warning of their own.
                self._warn_if_unexplained(problem)
        finally:
            self._forget_tables()

    def _warn_if_unexplained(self, problem: Problem) -> None:
        remedies = ["a larger C"]
        if self.loss == "epsilon_insensitive":
            remedies.append("a smaller epsilon in loss_params")
        if len(self.invariances):
            remedies.append("a smaller nu")
        if not self.bias:
            remedies.insert(0, "bias=True")
        X = problem.labeled_rows
        fitted = FittedRegression(
            type(self).__name__,
            problem.labels,
            self._scores(X)[:, 0],
            problem.weights,
            lambda rows: kernel_matrix(self.kernel_, X[rows], X[rows]),
            remedies,
            float(self._loss().get_params().get("epsilon", 0.0)),
        )
        warn_if_unexplained(fitted, stacklevel=6)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.unlabeled is not None and not isinstance(self.unlabeled, Real):
            raise TypeError(f"unlabeled must be a number or None, got {self.unlabeled!r}")
        if self.unlabeled is not None and np.isinf(float(self.unlabeled)):
            raise ValueError(f"unlabeled must be finite or NaN, got {self.unlabeled!r}")

    def _checked_targets(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Checked rows, a copy since the functionals keep them, targets, and which rows have one."""
        marked = self.unlabeled is not None and np.isnan(float(self.unlabeled))
        missing: Any = False
        given = y
        if marked and y is not None:
            given = np.array(column_or_1d(y, dtype=np.float64, warn=True))
            missing = np.isnan(given)
            # scikit-learn is to look at all others.
            given[missing] = 0.0
        try:
            X, given = validate_data(self, X, given, y_numeric=True, copy=True, **self._rows)
        except ValueError as error:
            if marked or "y contains NaN" not in str(error):
                raise
            raise ValueError(f"{error} For rows without a target pass unlabeled=np.nan") from None
        if marked:
            given[missing] = np.nan
        labeled = ~labels_equal(given, self.unlabeled) if self.unlabeled is not None else None
        rows = np.arange(len(given)) if labeled is None else np.flatnonzero(labeled)
        return X, given, rows

    def predict(self, X: Any) -> np.ndarray:
        """Predicted targets, (n,)."""
        return self._checked_scores(X)[:, 0]
