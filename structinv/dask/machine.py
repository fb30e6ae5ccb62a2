"""Base class of estimators on Dask: fits on partitions, lazy predictions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import contextmanager
from copy import copy
from functools import partial
from typing import Any, ClassVar, Self

import dask.array as da
import numpy as np
import scipy.sparse as sp
from dask.delayed import Delayed, delayed
from distributed import Client
from sklearn.utils.validation import check_is_fitted

from ..estimators.advice import linear_functions
from ..estimators.base import InvariantEstimator, Problem
from ..estimators.fit_progress import with_callbacks
from ..estimators.inputs import check_suits
from ..oracles import InvarianceOracle
from ..solvers import BMRM, Solution, Solver
from ..spaces import ExplicitSpace
from ..terms import Objective
from ..utils.parameters import learned_attributes
from ..utils.resources import check_memory
from .bundle import MultiCutBundle, PartitionedTerm
from .cluster import find_client
from .collections import (
    DistributedRows,
    as_array,
    check_collection,
    check_width,
    cut_alike,
    in_partitions,
    partitions_of,
    precision,
)
from .partition import Recipe, errors_of, refuse_other_indices, widened


class DaskMachine(InvariantEstimator):
    """Base class of linear estimators on Dask.

    Partitions are fitted on a cluster, data in memory without Dask.
    """

    client: Any
    n_features_in_: int

    _solvers: ClassVar[Mapping[str, Callable[[], Solver]]] = {"bmrm": BMRM, "bundle": MultiCutBundle}
    # The estimator without Dask.
    _local_type: ClassVar[Any]
    # Function that returns a problem, from an estimator, an oracle, facts of all partitions and a block.
    _of_block: ClassVar[Callable[..., Problem]]
    # Function that returns sums of the score of a block, from an estimator and the content of the block.
    _sums_of_block: ClassVar[Callable[..., np.ndarray]]

    @classmethod
    def _get_param_names(cls) -> list[str]:
        # A client can neither be cloned nor pickled.
        return [name for name in super()._get_param_names() if name != "client"]

    def __getstate__(self) -> Any:
        return {**super().__getstate__(), "client": None}

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if isinstance(self.solver, Solver):
            raise ValueError(f"solver must be 'auto', 'bundle' or 'bmrm', got {self.solver!r}")

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the model to samples in partitions.

        Parameters
        ----------
        X : dask Array or DataFrame, or list of Delayed or Future
            Samples in partitions of arrays, CSR matrices or DataFrames of numbers. Without `y`, each
            item of a list is a tuple of samples, labels and optional sample weights. Samples in memory
            are fitted in this process by the estimator without Dask.
        y : dask Array or Series, or list of Delayed or Future
            Labels or targets, in as many partitions as `X`.
        sample_weight : dask Array or Series, or list of Delayed or Future, optional
            Factors of C (>= 0), in as many partitions as `X`.

        Returns
        -------
        object
            Fitted estimator.

        Raises
        ------
        ValueError, TypeError
            If a parameter or the data are invalid, before any training. The message names the
            partition.
        ConnectionError
            If the connection to the scheduler is lost.
        KeyboardInterrupt
            After Ctrl-C, if `on_interrupt` is "raise". The estimator has the best model so far.
        """
        return self._fit_partitions(X, y, sample_weight=sample_weight)

    def _fit_partitions(self, X: Any, y: Any, **weights: Any) -> Self:
        """Fit to partitions with weights of any kind, or to data in memory without Dask."""
        self._check_parameters()
        if not self._in_partitions(X):
            local = self._in_memory().fit(X, y, **weights)
            for name, value in learned_attributes(local).items():
                setattr(self, name, value)
            return self
        self._check_collection(X)
        partitions = partitions_of(X, y, **weights)
        with _note_on_lost_data(), DistributedRows(self._running_client(), partitions) as rows:
            self._fit(rows, None, None)
        return self

    def _in_partitions(self, X: Any) -> bool:
        """Return True for partitions, False for data in memory; raise TypeError otherwise."""
        return in_partitions(X)

    def _running_client(self) -> Client:
        """Return the client of the parameter, or that of this process."""
        if self.client is not None and not isinstance(self.client, Client):
            raise TypeError(
                f"client must be a distributed.Client, got {self.client!r}: pass "
                "client=distributed.Client(address)"
            )
        return find_client(self.client)

    def _check_collection(self, X: Any) -> None:
        """Raise ValueError for parameters that partitions do not support."""

    def _in_memory(self) -> Any:
        """Return the unfitted estimator without Dask, with the same parameters."""
        solver = "bmrm" if self.solver == "bmrm" else "auto"
        return self._local_type(**{**self.get_params(deep=False), "solver": solver})

    def to_local(self) -> Any:
        """Convert to the fitted estimator without Dask, for `structinv.save`.

        Returns
        -------
        InvariantLinearSVC, InvariantLinearSVR or InvariantStructuredSVC
            Fitted estimator for data in memory.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        """
        check_is_fitted(self)
        local = self._in_memory()
        vars(local).update(learned_attributes(self))
        return local

    def _check_rows(self, rows: DistributedRows, oracle: InvarianceOracle, n_features: int) -> None:
        """Raise an error if all weights are 0, or if the oracle does not support the rows."""
        check_suits(oracle, rows.sparse, n_features, "dense blocks")
        check_positive(sum(each.weight for each in rows.facts))

    @abstractmethod
    def _space(self, problem: Problem) -> ExplicitSpace:
        """Return the space of the weights."""

    def _objective(self, problem: Problem) -> Objective:
        rows: DistributedRows = problem.rows
        space = self._space(problem)
        n_groups = min(len(rows.facts), rows.cluster.n_threads)
        planes = 8.0 * 2 * n_groups * space.size
        if self.solver != "bmrm":
            planes = MultiCutBundle().memory(n_groups, space.size)
        check_memory(
            f"planes of {space.size} weights for {n_groups} groups of partitions",
            linear_functions(space.size, 1) + planes,
            "use solver='bmrm', or fewer features",
        )
        recipe = Recipe(type(self)._of_block, self._in_memory(), problem.oracle, problem.labels, space)
        n_rows = np.array([each.shape[0] for each in rows.facts])
        sizes = np.array([n_rows[group].sum() for group in rows.bind(recipe, n_groups)])
        return Objective(space, [PartitionedTerm(rows.cluster, space.n_outputs, sizes, rows.dtype)])

    def _best_solver(self, objective: Any) -> tuple[Solver, str]:
        return MultiCutBundle(), "rows are in partitions"

    def _look_at(self, problem: Problem, objective: Objective, solution: Solution) -> None:
        """Omit the check of the predictions, which would read all rows."""

    def _each(self, function: Callable[..., Any], X: Any, **others: Any) -> list[Delayed]:
        """Call ``function(local_estimator, X, *others)`` for each partition, lazily."""
        model = delayed(self.to_local(), traverse=False, pure=False)
        check_width(X, self.n_features_in_)
        call = delayed(partial(_call_for_partition, function), pure=False)
        return [call(p, model, *part) for p, part in enumerate(cut_alike(X, **others))]

    def predict(self, X: Any) -> Any:
        """Predict the label or target of each sample, or the labels of each example.

        Parameters
        ----------
        X : as in `fit`
            Samples or examples without labels.

        Returns
        -------
        dask Array or Bag, or predictions as of the estimator without Dask
            Predictions; lazy for collections.
        """
        return self._answers("predict", X)

    def _answers(self, method: str, X: Any) -> Any:
        """Return the results of a method for all samples, lazily for partitions."""
        return self._lazily(method, X) if self._in_partitions(X) else getattr(super(), method)(X)

    def _lazily(self, method: str, X: Any) -> Any:
        """Return the results of a method for all rows, as a lazy array."""
        # The result for no rows has the dtype and the width.
        meta = empty_result(self.to_local(), method)
        return as_array(self._each(partial(result_of, method=method), X), X, meta)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Compute the accuracy or R² of predictions, on the workers for collections.

        Parameters
        ----------
        X : as in `fit`
            Samples or examples without labels.
        y : as in `fit`
            True labels or targets.
        sample_weight : as in `fit`, optional
            Sample weights.

        Returns
        -------
        float
            Weighted fraction of correct labels, or coefficient of determination of targets.
        """
        if self._in_partitions(X):
            return self._score(X, y, sample_weight)
        local: Any = super()
        return float(local.score(X, y, sample_weight))

    def _score(self, X: Any, y: Any, sample_weight: Any) -> float:
        """Compute the weighted accuracy on the workers."""
        weight, correct = self._sums(X, y, sample_weight)
        return float(correct / weight)

    def _sums(self, X: Any, y: Any, sample_weight: Any) -> np.ndarray:
        """Return the sums that `score` requires over all partitions; the first is the weight."""
        check_collection("y", y)
        parts = self._each(type(self)._sums_of_block, X, y=y, sample_weight=sample_weight)
        total: np.ndarray = np.sum(self._computed(parts), axis=0)
        check_positive(total[0])
        return total

    def certify(self, X: Any, y: Any = None, *, oracle: InvarianceOracle | None = None) -> Any:
        """Certify predictions against all perturbations, on the workers for collections.

        Parameters
        ----------
        X : as in `fit`
            Samples or examples without labels.
        y : as in `fit`, optional
            True labels. Default: the predictions.
        oracle : InvarianceOracle, optional
            Allowed perturbations. Default: those of the training.

        Returns
        -------
        Certificate or PredictionBounds
            Result of the estimator without Dask for all samples or examples, in order.
        """
        if not self._in_partitions(X):
            local: Any = super()
            return local.certify(X, y, oracle=oracle)
        parts = self._each(partial(_certificate, oracle=oracle), X, y=y)
        found = [each for each in self._computed(parts) if each is not None]
        if not found:
            raise ValueError(f"X must have rows, got {len(parts)} empty partitions")
        return type(found[0]).join(found)

    def _perturbed(self, parts: list[Delayed], X: Any) -> da.Array:
        """Join blocks of perturbed rows to a lazy array, sparse if the collection is."""
        sparse = isinstance(X, da.Array) and sp.issparse(X._meta)
        shape, dtype = (0, self.n_features_in_), precision(X)
        meta = sp.csr_matrix(shape, dtype=dtype) if sparse else np.zeros(shape, dtype)
        return as_array([part.astype(dtype, copy=False) for part in parts], X, meta)

    def _computed(self, parts: list[Delayed]) -> list[Any]:
        """Compute delayed objects on the workers."""
        client = self._running_client()
        with _note_on_lost_data():
            results: list[Any] = client.gather(client.compute(parts))
        return results


def check_positive(weight: float) -> None:
    """Raise ValueError unless the sum of all sample weights is above 0."""
    if not weight > 0:
        raise ValueError("sample_weight must be above 0 for at least one sample")


@contextmanager
def _note_on_lost_data() -> Iterator[None]:
    """Add a note to the error of lost data that cannot be computed again."""
    try:
        yield
    except CancelledError as error:
        error.add_note(
            "scattered data are lost with their worker: pass delayed blocks, which are computed again, "
            "or call scatter with broadcast=True"
        )
        raise


def n_given(X: Any) -> int:
    """Return the number of rows or examples of a partition."""
    return int(X.shape[0]) if sp.issparse(X) else len(X)


def _call_for_partition(
    function: Callable[..., Any], number: int, model: Any, X: Any, *others: Any
) -> Any:
    """Call a function for a partition, whose sparse rows may lack features at the end."""
    with errors_of(number):
        if isinstance(X, tuple):
            raise TypeError(
                f"X must contain samples without labels, got a tuple of {len(X)}: only fit accepts "
                "pairs, pass labels as y"
            )
        refuse_other_indices(X, *others)
        return function(model, widened(X, model.n_features_in_), *others)


def result_of(model: Any, X: Any, *, method: str) -> Any:
    """Call a method for the rows of a partition, which may be empty."""
    return getattr(model, method)(X) if n_given(X) else empty_result(model, method)


def empty_result(model: Any, method: str) -> Any:
    """Return the result of a method for no rows."""
    nameless = copy(model)
    vars(nameless).pop("feature_names_in_", None)
    return getattr(nameless, method)(np.zeros((1, model.n_features_in_)))[:0]


def _certificate(model: Any, X: Any, y: Any, *, oracle: Any) -> Any:
    """Return the certificate of a partition; None if the partition is empty."""
    return model.certify(X, y, oracle=oracle) if n_given(X) else None
