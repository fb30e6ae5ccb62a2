"""Base class of linear classifiers and regressors on Dask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from ..estimators.linear_machine import LinearMachine
from ..estimators.parameters import check_oracle_type
from ..estimators.problem import Problem
from ..estimators.row_inputs import learn_shape
from ..oracles import InvarianceOracle
from ..oracles.columns import with_numbers
from ..spaces import ExplicitSpace
from .collections import refuse_bags, refuse_blocks
from .machine import DaskMachine, n_given
from .partition import checked_block, checked_rows
from .rows import DistributedRows


class DaskLinearMachine(DaskMachine, LinearMachine):
    """Base class of linear estimators that are trained on partitions of rows."""

    # Function that summarizes the labels of a block.
    _summarize: ClassVar[Callable[..., Any]]

    def _in_partitions(self, X: Any) -> bool:
        refuse_bags(X)
        if super()._in_partitions(X):
            return True
        refuse_blocks(X)
        return False

    def _read_partitions(self, rows: DistributedRows) -> InvarianceOracle:
        """Check all partitions; return the oracle for their rows."""
        rows.read(checked_block, type(self)._summarize)
        names = rows.facts[0].names
        learn_shape(self, rows)
        self.n_features_in_ = rows.shape[1]
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)
        oracle = with_numbers(check_oracle_type(self.oracle), getattr(self, "feature_names_in_", None))
        self._check_rows(rows, oracle, rows.shape[1])
        return oracle

    def _space(self, problem: Problem) -> ExplicitSpace:
        n_features, intercept = problem.rows.shape[1], bool(self.fit_intercept)
        return ExplicitSpace(n_features, problem.n_outputs, intercept=intercept)

    def predict(self, X: Any) -> Any:
        """Predict the label or target of each sample.

        Parameters
        ----------
        X : dask Array or DataFrame, list of Delayed or Future, or samples in memory
            Samples without labels; only `fit` accepts pairs of samples and labels.

        Returns
        -------
        dask Array or array of shape (n_samples,)
            Predictions; lazy for collections.
        """
        return self._lazily("predict", X) if self._in_partitions(X) else super().predict(X)

    def worst_case(self, X: Any, y: Any = None, *, oracle: InvarianceOracle | None = None) -> Any:
        """Return the samples after their most damaging perturbations.

        Parameters
        ----------
        X : dask Array or DataFrame, list of Delayed or Future, or samples in memory
            Samples without labels; only `fit` accepts pairs of samples and labels.
        y : as in `fit`, optional
            True labels or targets. Default: the predictions.
        oracle : InvarianceOracle, optional
            Allowed perturbations. Default: those of the training.

        Returns
        -------
        dask Array, array or CSR matrix of shape (n_samples, n_features)
            Perturbed samples; lazy for collections.
        """
        if not self._in_partitions(X):
            return super().worst_case(X, y, oracle=oracle)
        parts = self._each(_worst_rows, X, *self._cut_like(X, y=y), oracle=oracle)
        return self._perturbed(parts, X)


def _worst_rows(model: Any, X: Any, *y: Any, oracle: Any) -> Any:
    """Return the perturbed rows of a partition, which may be empty."""
    return model.worst_case(X, *y, oracle=oracle) if n_given(X) else checked_rows(X)[0]
