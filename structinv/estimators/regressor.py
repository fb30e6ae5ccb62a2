"""Base class of regressors with worst-case training: targets and bounds."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from ..certificates.predictions import PredictionBounds, furthest_members, prediction_bounds
from ..oracles import Identity, InvarianceOracle
from ..oracles.third_party import bind
from ..rows import RowSource
from ..solvers import Solution, Status
from ..spaces.base import Space
from ..structures import Regression
from ..structures.example_blocks import check_some
from ..terms import Objective
from ..utils.matrices import Matrix
from ..utils.parameters import check_boolean, check_number
from .advice import warn_if_unexplained
from .base import InvariantEstimator, Problem
from .inputs import checked_weights, in_blocks, one_a_row


class InvariantRegressor(RegressorMixin, InvariantEstimator):
    """Base class of regressors with worst-case training and prediction bounds."""

    epsilon: float
    fit_intercept: bool
    target_mean_: float

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number("epsilon", self.epsilon)
        check_boolean("fit_intercept", self.fit_intercept)

    def _read(self, X: Any, y: Any, sample_weight: Any) -> Problem:
        rows, y, oracle = self._read_rows(X, y)
        targets = as_targets(y, rows.shape[0])
        own = checked_weights(sample_weight, rows)
        weights = self.C * own
        check_some("sample_weight", weights, "sample")
        mean = float(np.average(targets, weights=own)) if self.fit_intercept else 0.0
        return self._of_targets(rows, targets, mean, oracle, weights)

    def _of_targets(
        self,
        rows: Matrix,
        targets: np.ndarray,
        mean: float,
        oracle: InvarianceOracle,
        weights: np.ndarray,
    ) -> Problem:
        """Return the problem for targets with a given mean, and weights that include C."""
        return Problem(
            rows,
            targets - mean,
            oracle,
            Regression(float(self.epsilon)),
            weights,
            learned={"target_mean_": mean},
            target_mean=mean,
        )

    def _sizes(self, X: Matrix, y: Any) -> tuple[np.ndarray | None, int, int]:
        """Return no labels, one function and three labels: above, in and below the tube."""
        if y is not None:
            as_targets(y, X.shape[0])
        return None, 1, 3

    def predict(self, X: Any) -> np.ndarray:
        """Predict the targets of samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples, in a form that `fit` supports.

        Returns
        -------
        ndarray of shape (n_samples,)
            Predicted targets.
        """
        return self._checked_scores(X)[:, 0]

    def certify(
        self, X: Any, y: None = None, *, oracle: InvarianceOracle | None = None
    ) -> PredictionBounds:
        """Bound the predictions over all perturbations of the samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples, in a form that `fit` supports.
        y : None
            Not supported: bounds of predictions do not depend on targets. Other values raise TypeError.
        oracle : InvarianceOracle or None, default=None
            Oracle with the perturbations. By default it is the oracle of the training.

        Returns
        -------
        PredictionBounds
            Smallest and largest prediction per sample. The bounds hold in the feature space of the
            model, not for its raw input. They are valid only if the oracle is correct; test your own
            oracle with `structinv.oracles.check_oracle`.
        """
        refuse_targets(y)
        rows, oracle = self._rows_to_change(X, oracle)
        space, f, constant, eps = self._predictor(rows, oracle)
        if isinstance(rows, RowSource):
            parts = in_blocks(
                rows, lambda some, _: prediction_bounds(space, f, bind(oracle, some), constant, eps)
            )
            return PredictionBounds.join(list(parts))
        return prediction_bounds(space, f, bind(oracle, rows), constant, eps)

    def worst_case(self, X: Any, y: Any = None, *, oracle: InvarianceOracle | None = None) -> Matrix:
        """Return the perturbed samples with the largest prediction error found.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples, in a form that `fit` supports.
        y : array-like of shape (n_samples,) or None, default=None
            True targets; the predictions by default.
        oracle : InvarianceOracle or None, default=None
            Oracle with the perturbations. By default it is the oracle of the training.

        Returns
        -------
        ndarray or CSR matrix of shape (n_samples, n_features)
            Perturbed samples. They are sparse if `X` is sparse, and a stack of images if `X` is one.
            A DataFrame results in an ndarray without column names.
        """
        rows, oracle = self._rows_to_change(X, oracle)
        targets = self._scores(rows)[:, 0] if y is None else as_targets(y, rows.shape[0])
        space, f, constant, _ = self._predictor(rows, oracle)
        worst = furthest_members(space, f, bind(oracle, rows), targets, constant)
        return self._as_given(X, rows, worst)

    def _look_at(self, problem: Problem, objective: Objective, solution: Solution) -> None:
        """Warn if the predictions are no better than a constant."""
        if solution.status not in (Status.CONVERGED, Status.WITHIN_PLANE_TOL):
            # Such a fit has raised a ConvergenceWarning.
            return
        remedies = ["a larger C", "a smaller epsilon"]
        if not isinstance(problem.oracle, Identity):
            remedies.insert(0, "fewer or smaller perturbations")
        if not self.fit_intercept:
            remedies.insert(0, "fit_intercept=True")
        warn_if_unexplained(
            self,
            problem.labels + problem.target_mean,
            self._scores(problem.rows)[:, 0],
            problem.weights,
            remedies,
            stacklevel=5,
            epsilon=float(self.epsilon),
        )

    @abstractmethod
    def _predictor(self, X: Matrix, oracle: InvarianceOracle) -> tuple[Space, Any, float, float]:
        """Return a space, the function in it, the constant of predictions and the rounding error."""


def refuse_targets(y: Any) -> None:
    """Raise TypeError for targets, which `certify` of a regressor does not use."""
    if y is not None:
        raise TypeError(
            f"y must be None, got {type(y).__name__}: bounds of predictions do not depend on targets. "
            "Call certify(X) or certify(X, oracle=...)"
        )


def as_targets(y: Any, n_rows: int) -> np.ndarray:
    """Return finite targets of shape (n_rows,) as float64.

    A column of targets is also allowed, with a warning.
    """
    given = one_a_row(y, n_rows)
    if given.dtype.kind == "O":
        try:
            given = given.astype(np.float64)
        except (TypeError, ValueError):
            raise ValueError(f"y must contain numbers, got {given[:3].tolist()}") from None
    if given.dtype.kind not in "biuf":
        raise ValueError(f"y must contain numbers, got {given[:3].tolist()}")
    if not np.all(np.isfinite(given)):
        raise ValueError("y must contain finite numbers, got NaN or infinity")
    return given.astype(np.float64)
