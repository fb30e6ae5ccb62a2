"""Linear classifiers and regressors on a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from sklearn.metrics import accuracy_score

from ..certificates import PredictionBounds
from ..estimators import InvariantLinearSVC, InvariantLinearSVR
from ..estimators.base import Problem
from ..estimators.inputs import (
    check_one_kind,
    check_oracle_type,
    check_targets,
    class_factors,
    for_oracle,
    learn_shape,
)
from ..estimators.linear import LinearMachine
from ..estimators.regressor import as_targets, refuse_targets
from ..oracles import InvarianceOracle
from ..oracles.columns import with_numbers
from ..spaces import ExplicitSpace
from ..structures import Regression
from .collections import DistributedRows, refuse_bags, refuse_blocks
from .machine import DaskMachine, n_given, result_of
from .partition import Block, checked_block, checked_rows


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

    def worst_case(self, X: Any, y: Any = None, *, oracle: InvarianceOracle | None = None) -> Any:
        """Return the samples after their most damaging perturbations.

        Parameters
        ----------
        X : dask Array or DataFrame, list of Delayed or Future, or samples in memory
            Samples without labels.
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
        parts = self._each(partial(_worst_rows, oracle=oracle), X, y=y)
        return self._perturbed(parts, X)


def _worst_rows(model: Any, X: Any, y: Any, *, oracle: Any) -> Any:
    """Return the perturbed rows of a partition, which may be empty."""
    return model.worst_case(X, y, oracle=oracle) if n_given(X) else checked_rows(X)[0]


def summary_of_labels(block: Block) -> tuple[np.ndarray, np.ndarray]:
    """Return the classes of a block, and the sum of the weights of each class."""
    check_targets(block.y)
    classes, codes = np.unique(block.y, return_inverse=True)
    return classes, np.bincount(codes, block.weights, minlength=len(classes))


def problem_of_labels(estimator: Any, oracle: InvarianceOracle, learned: Any, block: Block) -> Problem:
    """Return the problem of a block, given all classes and their factors."""
    classes, factors = learned
    weights = estimator.C * block.weights * factors[np.searchsorted(classes, block.y)]
    return estimator._of_classes(for_oracle(block.X, oracle), block.y, classes, oracle, weights)


def summary_of_targets(block: Block) -> tuple[float, float]:
    """Return the sum of the weights and of the weighted targets of a block."""
    targets = as_targets(block.y, len(block.y))
    return float(block.weights.sum()), float(block.weights @ targets)


def problem_of_targets(estimator: Any, oracle: InvarianceOracle, mean: float, block: Block) -> Problem:
    """Return the problem of a block, given the mean of all targets."""
    targets = as_targets(block.y, len(block.y))
    weights = estimator.C * block.weights
    return estimator._of_targets(for_oracle(block.X, oracle), targets, mean, oracle, weights)


def _weight_sums(model: Any, X: Any, y: Any, weights: Any) -> np.ndarray:
    """Return the weight of a block, and of its correct predictions."""
    block = checked_block(X, y, weights)
    if not block.weights.any():
        return np.zeros(2)
    predicted, weights = model.predict(X), block.weights
    correct = accuracy_score(block.y, predicted, normalize=False, sample_weight=weights)
    return np.array([weights.sum(), correct])


@dataclass(eq=False, repr=False)
class DaskInvariantLinearSVC(DaskLinearMachine, InvariantLinearSVC):
    """Robust linear classifier, trained on a Dask cluster.

    The objective, the bounds and the duality gap are those of the classifier on all samples. The other
    parameters and attributes are those of :class:`structinv.InvariantLinearSVC`.

    Parameters
    ----------
    solver : {"auto", "bundle", "bmrm"}, default="auto"
        "bundle" updates the dual variables of all groups of partitions in parallel, and stores planes of
        each group. "bmrm" stores one plane of the sum of all losses per round. "auto" is "bundle".
    warm_start : bool, default=False
        Whether a fit starts from the weights of the last fit.
    checkpoint : str or path-like, optional
        File with the best weights, from which a later fit continues. A checkpoint of another number of
        samples or features raises an error.
    memory_limit : None
        Ignored.
    client : distributed.Client, optional
        Client of the cluster; the client of the process by default. `clone` and pickle omit it.

    Attributes
    ----------
    solution_ : Solution
        Weights, bounds and history.

    See Also
    --------
    structinv.InvariantLinearSVC : The same classifier for samples in memory or in files.
    DaskInvariantLinearSVR : Robust linear regressor on a Dask cluster.

    Notes
    -----
    All methods also take Dask arrays and DataFrames, and lists of Delayed or Future. Only `fit` accepts
    pairs of samples and labels. `predict`, `decision_function` and `worst_case` return lazy Dask arrays
    for collections. The workers compute `score` and `certify`, which return the results of
    `InvariantLinearSVC`.

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from structinv.dask import DaskInvariantLinearSVC
    >>> from structinv.oracles import Box
    >>> rng = da.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 20), chunks=(250, 20))
    >>> y = X[:, 0] + X[:, 1] > 0
    >>> with Client(processes=False, dashboard_address=":0") as client:
    ...     model = DaskInvariantLinearSVC(Box(0.1), random_state=0).fit(X, y)
    ...     accurate = model.score(X, y) > 0.9
    >>> accurate, model.solution_.status.value
    (True, 'converged')
    """

    _: KW_ONLY
    client: Any = None
    solver: str = "auto"

    _local_type = InvariantLinearSVC
    _summarize = staticmethod(summary_of_labels)
    _of_block = staticmethod(problem_of_labels)
    _sums_of_block = staticmethod(_weight_sums)

    def _read(self, X: Any, y: Any, sample_weight: Any) -> Problem:
        oracle = self._read_partitions(X)
        parts = [each.summary for each in X.facts]
        check_one_kind(np.array([label for each, _ in parts for label in each.tolist()], dtype=object))
        classes, codes = np.unique(np.concatenate([each for each, _ in parts]), return_inverse=True)
        if len(classes) < 2:
            (only,) = classes.tolist()
            raise ValueError(f"y must contain at least two classes, got one class: {only!r}")
        oracle.check_labels(classes)
        self._check_costs(classes)
        counts = np.bincount(codes, np.concatenate([each for _, each in parts]))
        factors = class_factors(self.class_weight, classes, classes, counts)
        return Problem(
            X,
            (classes, factors),
            oracle,
            self._structure(len(classes)),
            np.ones(len(parts)),
            learned={"classes_": classes},
            loss=self.loss,
            classes=classes,
            cost=self.cost,
            rescaling=self.rescaling,
        )

    def decision_function(self, X: Any) -> Any:
        return self._answers("decision_function", X)


def _squares(model: Any, X: Any, y: Any, weights: Any) -> np.ndarray:
    """Return weight, squared error, and sum and sum of squares of the centered targets."""
    block = checked_block(X, y, weights)
    targets = as_targets(block.y, len(block.y)) - model.target_mean_
    errors = result_of(model, X, method="predict") - model.target_mean_ - targets
    moments = np.stack([np.ones(len(targets)), errors**2, targets, targets**2])
    return moments @ block.weights


@dataclass(eq=False, repr=False)
class DaskInvariantLinearSVR(DaskLinearMachine, InvariantLinearSVR):
    """Robust linear regressor, trained on a Dask cluster.

    The objective, the bounds and the duality gap are those of the regressor on all samples. The other
    parameters and attributes are those of :class:`structinv.InvariantLinearSVR`.

    Parameters
    ----------
    solver, warm_start, checkpoint, memory_limit, client : object
        Same as in `DaskInvariantLinearSVC`.

    Attributes
    ----------
    solution_ : Solution
        Weights, bounds and history.

    See Also
    --------
    structinv.InvariantLinearSVR : The same regressor for samples in memory or in files.
    DaskInvariantLinearSVC : Robust linear classifier on a Dask cluster.

    Notes
    -----
    All methods also take Dask arrays and DataFrames, and lists of Delayed or Future. Only `fit` accepts
    pairs of samples and targets. `predict` and `worst_case` return lazy Dask arrays for collections. The
    workers compute `score` and `certify`, which return the results of `InvariantLinearSVR`.

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from structinv.dask import DaskInvariantLinearSVR
    >>> rng = da.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 5), chunks=(250, 5))
    >>> y = 2 * X[:, 0] + 1
    >>> with Client(processes=False, dashboard_address=":0") as client:
    ...     model = DaskInvariantLinearSVR(random_state=0).fit(X, y)
    ...     accurate = model.score(X, y) > 0.9
    >>> accurate, model.solution_.status.value
    (True, 'converged')
    """

    _: KW_ONLY
    client: Any = None
    solver: str = "auto"

    _local_type = InvariantLinearSVR
    _summarize = staticmethod(summary_of_targets)
    _of_block = staticmethod(problem_of_targets)
    _sums_of_block = staticmethod(_squares)

    def _read(self, X: Any, y: Any, sample_weight: Any) -> Problem:
        oracle = self._read_partitions(X)
        weight, total = np.sum([each.summary for each in X.facts], axis=0)
        mean = float(total / weight) if self.fit_intercept else 0.0
        return Problem(
            X,
            mean,
            oracle,
            Regression(float(self.epsilon)),
            np.ones(len(X.facts)),
            learned={"target_mean_": mean},
            target_mean=mean,
        )

    def _score(self, X: Any, y: Any, sample_weight: Any) -> float:
        weight, error, total, square = self._sums(X, y, sample_weight)
        spread = square - total**2 / weight
        return float(1.0 - error / spread) if spread > 0 else float(error == 0)

    def certify(
        self, X: Any, y: None = None, *, oracle: InvarianceOracle | None = None
    ) -> PredictionBounds:
        refuse_targets(y)
        bounds: PredictionBounds = super().certify(X, oracle=oracle)
        return bounds
