"""What regressors that are trained on worst cases share: targets, predictions and their bounds."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from ..certificates.predictions import PredictionBounds, furthest_members, prediction_bounds
from ..oracles import Identity, InvarianceOracle
from ..oracles.checked_oracle import bind
from ..rows import RowSource
from ..solvers import Solution, Status
from ..spaces import Space
from ..structures import Regression
from ..terms import Objective
from ..utils.matrices import Matrix
from ..utils.parameters import check_boolean, check_number
from .base import InvariantEstimator
from .problem import Problem
from .row_sources import in_blocks
from .target_labels import one_a_row
from .uninformative_fits import FittedRegression, warn_if_unexplained


class InvariantRegressor(RegressorMixin, InvariantEstimator):
    """A regressor trained on the worst case of an oracle's changes, whose predictions have bounds."""

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
        own = self._own_weights(rows, sample_weight)
        weights = self.C * own
        if not np.any(weights > 0):
            raise ValueError("sample_weight must leave a sample with a weight above 0")
        mean = float(np.average(targets, weights=own)) if self.fit_intercept else 0.0
        return replace(self._of_targets(rows, targets, mean, oracle, weights), told=y)

    def _of_targets(
        self,
        rows: Matrix,
        targets: np.ndarray,
        mean: float,
        oracle: InvarianceOracle,
        weights: np.ndarray,
    ) -> Problem:
        """The problem in rows with these targets, their mean, and weights, C included."""
        return Problem(
            rows,
            targets - mean,
            oracle,
            Regression(float(self.epsilon)),
            weights,
            told=targets,
            learned={"target_mean_": mean},
            target_mean=mean,
        )

    def _sizes(self, X: Matrix, y: Any) -> tuple[np.ndarray | None, int, int]:
        """No labels for oracles; one function, and three labels: above, within and below the tube."""
        if y is not None:
            as_targets(y, X.shape[0])
        return None, 1, 3

    def _planes_ignore(self) -> frozenset[str]:
        # Targets, and so planes, lie around a mean by weight.
        needed = {"epsilon", "sample_weight"} if self.fit_intercept else {"epsilon"}
        return super()._planes_ignore() - needed

    def predict(self, X: Any) -> np.ndarray:
        """Predicted targets, (n,)."""
        return self._checked_scores(X)[:, 0]

    def certify(self, X: Any, *, oracle: InvarianceOracle | None = None) -> PredictionBounds:
        """Between which numbers predictions stay under all allowed changes.

        Parameters
        ----------
        X : (n, n_features) array-like, or sparse matrix where the estimator takes it
        oracle : InvarianceOracle, optional
            What may change; by default what the model was trained for.

        Returns
        -------
        PredictionBounds
            ``lowest``, ``highest`` and ``exact``, (n,) each. It speaks of changes in the feature space
            that the model was given, not of the raw input, and is as true as what the oracle says of
            its answers: ``structinv.oracles.check_oracle`` is the test of an oracle of your own.
        """
        rows, oracle = self._rows_to_change(X, oracle)
        space, f, constant, eps = self._predictor(rows, oracle)
        if isinstance(rows, RowSource):
            parts = in_blocks(
                rows, lambda some, _: prediction_bounds(space, f, bind(oracle, some), constant, eps)
            )
            return PredictionBounds.join(list(parts))
        return prediction_bounds(space, f, bind(oracle, rows), constant, eps)

    def worst_case(self, X: Any, y: Any = None, *, oracle: InvarianceOracle | None = None) -> Matrix:
        """The rows after the allowed change whose prediction is furthest from their target.

        Parameters
        ----------
        X : (n, n_features) array-like, or sparse matrix where the estimator takes it
        y : (n,) array-like, optional
            True targets; without them the predictions take their place.
        oracle : InvarianceOracle, optional
            What may change; by default what the model was trained for.

        Returns
        -------
        (n, n_features) array or CSR matrix
            Sparse if `X` is, and of the shape of `X` where that is a stack of images.
        """
        rows, oracle = self._rows_to_change(X, oracle)
        targets = self._scores(rows)[:, 0] if y is None else as_targets(y, rows.shape[0])
        space, f, constant, _ = self._predictor(rows, oracle)
        moved = furthest_members(space, f, bind(oracle, rows), targets, constant)
        return self._as_given(X, rows, moved)

    @abstractmethod
    def _table(self, X: Matrix, rows: np.ndarray) -> np.ndarray:
        """The kernel matrix of some of the checked rows."""

    def _look_at(self, problem: Problem, objective: Objective, solution: Solution, left: float) -> None:
        """Warn where the predictions are no better than a constant."""
        if solution.status not in (Status.CONVERGED, Status.WITHIN_PLANE_TOL):
            # Such a fit has a warning of its own.
            return
        X = problem.rows
        remedies = ["a larger C", "a smaller epsilon"]
        if not isinstance(problem.oracle, Identity):
            remedies.insert(0, "fewer or smaller changes")
        if not self.fit_intercept:
            remedies.insert(0, "fit_intercept=True")
        fitted = FittedRegression(
            type(self).__name__,
            problem.labels + problem.target_mean,
            self._scores(X)[:, 0],
            problem.weights,
            lambda rows: self._table(X, rows),
            remedies,
            float(self.epsilon),
        )
        warn_if_unexplained(fitted, stacklevel=5)

    @abstractmethod
    def _predictor(self, X: Matrix, oracle: InvarianceOracle) -> tuple[Space, Any, float, float]:
        """The function in its space, the constant that predictions add, and its relative error."""


def as_targets(y: Any, n_rows: int) -> np.ndarray:
    """Finite numbers, one a row, (n_rows,) of float64; a column of them is taken, with a warning.

    Raises
    ------
    ValueError
        For anything else.
    """
    given = one_a_row(y, n_rows)
    if given.dtype.kind == "O":
        try:
            given = given.astype(np.float64)
        except (TypeError, ValueError):
            raise ValueError(f"y must hold numbers, got {given[:3].tolist()}") from None
    if given.dtype.kind not in "biuf":
        raise ValueError(f"y must hold numbers, got {given[:3].tolist()}")
    if not np.all(np.isfinite(given)):
        raise ValueError("y must hold finite numbers, got NaN or infinity")
    return given.astype(np.float64)
