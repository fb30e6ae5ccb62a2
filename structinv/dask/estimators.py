"""Linear classifiers and regressors that are trained on partitions of rows on a Dask cluster."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.metrics import accuracy_score

from ..estimators import InvariantLinearSVC, InvariantLinearSVR
from ..estimators.problem import Problem
from ..estimators.regressor import as_targets
from ..estimators.row_shapes import for_oracle
from ..estimators.target_labels import check_one_kind, check_targets, class_factors
from ..oracles import InvarianceOracle
from ..solvers import Solver
from ..structures import Regression
from .certificates import DaskCertificate, DaskPredictionBounds
from .linear import DaskLinearMachine
from .machine import answer
from .partition import Block, checked_block


def summary_of_labels(block: Block) -> tuple[np.ndarray, np.ndarray]:
    """The classes of a block, and the sum of the weights of each."""
    check_targets(block.y)
    classes, codes = np.unique(block.y, return_inverse=True)
    return classes, np.bincount(codes, block.weights, minlength=len(classes))


def problem_of_labels(estimator: Any, oracle: InvarianceOracle, learned: Any, block: Block) -> Problem:
    """The problem in a block, given all classes and their weights."""
    classes, factors = learned
    own = estimator.C * block.weights * factors[np.searchsorted(classes, block.y)]
    return estimator._of_classes(for_oracle(block.X, oracle), block.y, classes, oracle, own)


def summary_of_targets(block: Block) -> tuple[float, float]:
    """The sum of the weights of a block, and that of the weighted targets."""
    targets = as_targets(block.y, len(block.y))
    return float(block.weights.sum()), float(block.weights @ targets)


def problem_of_targets(estimator: Any, oracle: InvarianceOracle, mean: float, block: Block) -> Problem:
    """The problem in a block, given the mean of all targets."""
    targets = as_targets(block.y, len(block.y))
    own = estimator.C * block.weights
    return estimator._of_targets(for_oracle(block.X, oracle), targets, mean, oracle, own)


@dataclass(eq=False, repr=False)
class DaskInvariantLinearSVC(DaskLinearMachine, InvariantLinearSVC):
    """`InvariantLinearSVC` that is trained on partitions of rows on a Dask cluster.

    The objective, the bounds and the gap are those of `InvariantLinearSVC` on all rows together.

    Parameters
    ----------
    oracle : InvarianceOracle, optional
        What may change in an input; nothing by default.
    client : distributed.Client, optional
        The client of the process by default. It is not copied by `clone`, and not pickled.
    solver : {"auto", "bundle", "bmrm"}, MultiCutBundle or BMRM, default="auto"
        "bundle" sweeps the rows of all groups of partitions at once, and keeps planes of each group.
        "bmrm" takes one plane of the sum of all losses a round. "auto" is "bundle".
    C, loss, tol, max_seconds, cost, rescaling, fit_intercept, class_weight, random_state, verbose
        See `InvariantLinearSVC`.
    warm_start, checkpoint, checkpoint_seconds, on_interrupt
        See `InvariantLinearSVC`. A warm start with other rows, labels, weights or partitions starts
        afresh, with as many groups as the fit before it at most. A checkpoint of others is refused. It
        has the planes of each group of partitions, and a fit that starts from it has as many groups.
    memory_limit : None
        Not used.

    Attributes
    ----------
    coef_, intercept_, classes_, solution_, n_iter_, n_features_in_, feature_names_in_
        See `InvariantLinearSVC`. ``solution_.planes`` is the sum of all planes.

    Warns
    -----
    ConvergenceWarning
        If the fit ended before the gap was reached.

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
    solver: str | Solver = "auto"

    _local_type = InvariantLinearSVC
    _summarize = staticmethod(summary_of_labels)
    _of_block = staticmethod(problem_of_labels)

    def _read(self, X: Any, y: Any, sample_weight: Any) -> Problem:
        oracle = self._read_partitions(X)
        parts = [each.summary for each in X.facts]
        check_one_kind(np.array([label for own, _ in parts for label in own.tolist()], dtype=object))
        classes, codes = np.unique(np.concatenate([own for own, _ in parts]), return_inverse=True)
        if len(classes) < 2:
            (only,) = classes.tolist()
            raise ValueError(f"y must hold at least two classes, got one class: {only!r}")
        oracle.check_labels(classes)
        self._check_costs(len(classes))
        counts = np.bincount(codes, np.concatenate([each for _, each in parts]))
        factors = class_factors(self.class_weight, classes, classes, counts)
        return Problem(
            X,
            (classes, factors),
            oracle,
            self._structure(len(classes)),
            np.ones(len(parts)),
            told=classes,
            learned={"classes_": classes},
            loss=self.loss,
            classes=classes,
            cost=self.cost,
            rescaling=self.rescaling,
        )

    def decision_function(self, X: Any) -> Any:
        """Scores as of `InvariantLinearSVC`; of a collection a Dask array."""
        if self._in_partitions(X):
            return self._lazily("decision_function", X)
        return super().decision_function(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy; of a collection it is summed on the workers.

        Rows and labels are two collections: pairs of them are for `fit` only.
        """
        if not self._in_partitions(X):
            return float(super().score(X, y, sample_weight))
        return self._share_right(_right, X, y, sample_weight)

    def certify(self, X: Any, y: Any = None, *, oracle: InvarianceOracle | None = None) -> Any:
        """What no allowed change of the rows can turn.

        Parameters
        ----------
        X : dask Array or DataFrame, list of Delayed or Future, or rows in memory
            Rows alone: pairs of rows and labels are for `fit` only.
        y : as in `fit`, optional
            Without labels it is certified that predictions do not change.
        oracle : InvarianceOracle, optional
            What may change; by default what the model was trained for.

        Returns
        -------
        DaskCertificate or Certificate
            For collections its arrays stay on the cluster.
        """
        if not self._in_partitions(X):
            return super().certify(X, y, oracle=oracle)
        return self._certified(DaskCertificate, X, *self._beside(X, y=y), oracle=oracle)


@dataclass(eq=False, repr=False)
class DaskInvariantLinearSVR(DaskLinearMachine, InvariantLinearSVR):
    """`InvariantLinearSVR` that is trained on partitions of rows on a Dask cluster.

    The objective, the bounds and the gap are those of `InvariantLinearSVR` on all rows together.

    Parameters
    ----------
    oracle : InvarianceOracle, optional
        What may change in an input; nothing by default.
    client, solver, memory_limit, warm_start, checkpoint, checkpoint_seconds
        See `DaskInvariantLinearSVC`.
    C, epsilon, tol, max_seconds, fit_intercept, random_state, verbose, on_interrupt
        See `InvariantLinearSVR`.

    Attributes
    ----------
    coef_, intercept_, target_mean_, solution_, n_iter_, n_features_in_, feature_names_in_
        See `InvariantLinearSVR`. ``solution_.planes`` is the sum of all planes.

    Warns
    -----
    ConvergenceWarning
        If the fit ended before the gap was reached.

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
    solver: str | Solver = "auto"

    _local_type = InvariantLinearSVR
    _summarize = staticmethod(summary_of_targets)
    _of_block = staticmethod(problem_of_targets)

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
            told=mean,
            learned={"target_mean_": mean},
            target_mean=mean,
        )

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Coefficient of determination; of a collection it is summed on the workers.

        Rows and targets are two collections: pairs of them are for `fit` only.
        """
        if not self._in_partitions(X):
            return float(super().score(X, y, sample_weight))
        sums = self._summed(_squares, X, y, sample_weight)
        weight, off, total, square = sums[:4]
        spread = square - total**2 / weight
        return float(1.0 - off / spread) if spread > 0 else float(off == 0)

    def certify(self, X: Any, *, oracle: InvarianceOracle | None = None) -> Any:
        """Between which numbers predictions stay under all allowed changes.

        Parameters
        ----------
        X : dask Array or DataFrame, list of Delayed or Future, or rows in memory
            Rows alone: pairs of rows and labels are for `fit` only.
        oracle : InvarianceOracle, optional
            What may change; by default what the model was trained for.

        Returns
        -------
        DaskPredictionBounds or PredictionBounds
            For collections its arrays stay on the cluster.
        """
        if not self._in_partitions(X):
            return super().certify(X, oracle=oracle)
        return self._certified(DaskPredictionBounds, X, oracle=oracle)


def _right(model: Any, X: Any, y: Any, weights: Any) -> np.ndarray:
    """The weight of a block, and that of its rows that are predicted right."""
    block = checked_block(X, y, weights)
    if len(block.y) == 0:
        return np.zeros(2)
    found, weights = model.predict(X), block.weights
    right = accuracy_score(block.y, found, normalize=False, sample_weight=weights)
    return np.array([weights.sum(), right])


def _squares(model: Any, X: Any, y: Any, weights: Any) -> np.ndarray:
    """Weight, squared error, sum and sum of squares of the targets of a block, less the mean of fit."""
    block = checked_block(X, y, weights)
    targets = as_targets(block.y, len(block.y)) - model.target_mean_
    off = answer(model, X, method="predict") - model.target_mean_ - targets
    moments = np.stack([np.ones(len(targets)), off**2, targets, targets**2])
    return moments @ block.weights
