"""What estimators on Dask share: a fit on partitions, and answers for one after the other."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

import dask.array as da
import numpy as np
import scipy.sparse as sp
from dask.delayed import Delayed, delayed
from distributed import Client
from sklearn.utils.validation import check_is_fitted

from ..estimators.base import InvariantEstimator
from ..estimators.callbacks import with_callbacks
from ..estimators.earlier_fit import OF_THE_WEIGHTS
from ..estimators.problem import Problem
from ..estimators.resource_estimates import linear_functions
from ..estimators.row_shapes import check_suits
from ..oracles import InvarianceOracle
from ..solvers import BMRM, Solution, Solver
from ..solvers.checkpoint import blocks_of
from ..spaces import ExplicitSpace
from ..terms import Objective
from ..terms.planes import PlaneSet
from ..utils.fitted_state import learned_attributes
from ..utils.resources import check_memory
from .bundle import MultiCutBundle
from .cluster import find_client
from .collections import (
    as_array,
    check_width,
    cut_like,
    heights,
    in_partitions,
    partitions_of,
    pieces,
    precision,
)
from .partition import Recipe, errors_of, refuse_other_indices, widened
from .rows import FAN_IN, DistributedRows
from .term import PartitionedTerm


class DaskMachine(InvariantEstimator):
    """An estimator with weights that is trained on partitions, and on data in memory without Dask."""

    client: Any
    n_features_in_: int

    _solvers: ClassVar[Mapping[str, Callable[[], Solver]]] = {"bmrm": BMRM, "bundle": MultiCutBundle}
    # The estimator without Dask.
    _local_type: ClassVar[Any]
    # From what is known of all partitions, and a block, to a problem.
    _of_block: ClassVar[Callable[..., Problem]]

    @classmethod
    def _get_param_names(cls) -> list[str]:
        # A client can neither be cloned nor pickled.
        return [name for name in super()._get_param_names() if name != "client"]

    def __getstate__(self) -> Any:
        return {**super().__getstate__(), "client": None}

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if isinstance(self.solver, Solver) and not isinstance(self.solver, (MultiCutBundle, BMRM)):
            raise ValueError(
                "solver must be 'auto', 'bundle', 'bmrm', a MultiCutBundle or a BMRM, got "
                f"{self.solver!r}"
            )

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Train on the worst case of the oracle's changes.

        Parameters
        ----------
        X : dask Array or DataFrame, or list of Delayed or Future
            Rows in partitions. Blocks are arrays, CSR matrices, or DataFrames of numbers. Without `y`,
            each item of a list is a pair of rows and labels, or has sample weights as a third. Rows in
            memory are trained on in this process by the estimator without Dask.
        y : dask Array or Series, or list of Delayed or Future
            Labels or targets in as many partitions.
        sample_weight : dask Array or Series, or list of Delayed or Future, optional
            Non-negative factors of C in as many partitions.

        Returns
        -------
        object
            This estimator.

        Raises
        ------
        ValueError, TypeError
            For parameters or data that cannot be used, before any training. The message names the
            partition.
        SchedulerLostError
            If the connection to the scheduler is lost.
        KeyboardInterrupt
            After Ctrl-C, with the best model so far; see `on_interrupt`.
        """
        return self._fit_partitions(X, y, sample_weight=sample_weight)

    def _fit_partitions(self, X: Any, y: Any, **weights: Any) -> Self:
        """`fit` on partitions with weights of any kind; on data in memory without Dask."""
        self._check_parameters()
        if not self._in_partitions(X):
            return self._learn_from(self._in_memory().fit(X, y, **weights))
        self._check_collection(X)
        partitions = partitions_of(X, y, **weights)
        with _told_of_lost_data(), DistributedRows(self._running_client(), partitions) as rows:
            self._fit(rows, None, None)
        return self

    def _in_partitions(self, X: Any) -> bool:
        """Whether these are partitions, and not data in memory; TypeError for what is neither."""
        return in_partitions(X)

    def _running_client(self) -> Client:
        """The client that was given, or that of this process."""
        if self.client is not None and not isinstance(self.client, Client):
            raise TypeError(
                f"client must be a distributed.Client, got {self.client!r}: pass "
                "client=distributed.Client(address)"
            )
        return find_client(self.client)

    def _check_collection(self, X: Any) -> None:
        """Raise where a collection, or a parameter that only data in memory can have, is of no use."""

    def _in_memory(self) -> Any:
        """The estimator without Dask, with the same parameters; not fitted."""
        parameters = self.get_params(deep=False)
        if not isinstance(self.solver, Solver) or isinstance(self.solver, MultiCutBundle):
            parameters["solver"] = {"bmrm": "bmrm"}.get(str(self.solver), "auto")
        return self._local_type(**parameters)

    def _learn_from(self, fitted: Any) -> Self:
        for name, value in learned_attributes(fitted).items():
            setattr(self, name, value)
        return self

    def to_local(self) -> Any:
        """The fitted estimator without Dask: it predicts, certifies, and can be saved.

        Returns
        -------
        InvariantLinearSVC, InvariantLinearSVR or InvariantStructuredSVC

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        check_is_fitted(self)
        local = self._in_memory()
        vars(local).update(learned_attributes(self))
        return local

    def _planes_ignore(self) -> frozenset[str]:
        # Planes of partitions have weights in them.
        return OF_THE_WEIGHTS & {"solver"}

    def _check_rows(self, rows: DistributedRows, oracle: InvarianceOracle, n_features: int) -> None:
        """Raise unless some rows count, and an oracle is one of such rows."""
        check_suits(oracle, rows.sparse, n_features, "dense blocks")
        if not any(each.weight > 0 for each in rows.facts):
            raise ValueError("sample_weight must leave a sample with a weight above 0")

    @abstractmethod
    def _space(self, problem: Problem) -> ExplicitSpace:
        """Where the functions are."""

    def _objective(self, problem: Problem) -> Objective:
        rows: DistributedRows = problem.rows
        space = self._space(problem)
        n_groups = min(len(rows.facts), self._groups_before() or rows.cluster.n_threads)
        needed = linear_functions(space.size, 1) + self._memory_of_planes(n_groups, space.size)
        check_memory(
            f"planes of {space.size} weights for {n_groups} groups of partitions",
            needed,
            "take a smaller max_planes of MultiCutBundle, solver='bmrm', or fewer features",
        )
        recipe = Recipe(type(self)._of_block, self._in_memory(), problem.oracle, problem.labels, space)
        n_rows = np.array([each.shape[0] for each in rows.facts])
        sizes = np.array([n_rows[own].sum() for own in rows.bind(recipe, n_groups)])
        return Objective(space, [PartitionedTerm(rows.cluster, space.n_outputs, sizes, rows.dtype)])

    def _memory_of_planes(self, n_groups: int, size: int) -> float:
        """Bytes of the planes that the driver keeps."""
        if self.solver == "bmrm" or isinstance(self.solver, BMRM):
            return 8.0 * 2 * n_groups * size
        solver = self.solver if isinstance(self.solver, MultiCutBundle) else MultiCutBundle()
        return solver.memory(n_groups, size)

    def _groups_before(self) -> int | None:
        """How many groups the planes are of that a checkpoint or the last fit has left."""
        if self.checkpoint is not None and Path(self.checkpoint).exists():
            return blocks_of(self.checkpoint)
        earlier = getattr(self, "solution_", None) if self.warm_start else None
        if earlier is None or earlier.planes is None or len(earlier.planes) == 0:
            return None
        summed = earlier.planes.summed
        return int(earlier.planes.blocks.max()) + 1 if summed is None else len(summed)

    def _best_solver(self, objective: Any) -> tuple[Solver, str]:
        return MultiCutBundle(), "rows are in partitions"

    def _keep(self, problem: Problem, objective: Objective, solution: Solution) -> None:
        super()._keep(problem, objective, solution)  # type: ignore[safe-super]
        if not self.warm_start:
            total = solution.planes.total(objective.space, objective.weights, objective.floors)
            planes = PlaneSet.of_sum(objective.space, *total, objective.weights)
            self.solution_ = replace(solution, planes=planes)

    def _look_at(self, problem: Problem, objective: Objective, solution: Solution, left: float) -> None:
        """Nothing is warned of: to look at what was learned takes all rows."""

    def _each(
        self, ask: Callable[..., Any], X: Any, *beside: list[Any], **options: Any
    ) -> list[Delayed]:
        """What a function of the local estimator and a partition says of each of them."""
        model = delayed(self.to_local(), traverse=False, pure=False)
        check_width(X, self.n_features_in_)
        asked = delayed(partial(_asked_of_partition, partial(ask, **options)), pure=False)
        parts = zip(pieces("X", X), *beside, strict=True)
        return [asked(p, model, *own) for p, own in enumerate(parts)]

    def _lazily(self, method: str, X: Any) -> da.Array:
        """What a method says of rows, as an array that is computed when it is asked for."""
        # The answer about no rows tells the type and the width.
        meta = about_no_rows(self.to_local(), method)
        return as_array(self._each(partial(answer, method=method), X), X, meta)

    def _changed(self, parts: list[Delayed], X: Any) -> da.Array:
        """Blocks of changed rows as an array, of the kind of a collection of rows."""
        sparse = isinstance(X, da.Array) and sp.issparse(X._meta)
        shape, dtype = (0, self.n_features_in_), precision(X)
        meta = sp.csr_matrix(shape, dtype=dtype) if sparse else np.zeros(shape, dtype)
        cast = delayed(_cast, pure=False)
        return as_array([cast(part, dtype) for part in parts], X, meta)

    def _certified(self, kind: Any, X: Any, *beside: list[Any], oracle: InvarianceOracle | None) -> Any:
        """The certificates of all partitions, as one of a kind."""
        ask = partial(_certificate, oracle=oracle, nothing=kind.nothing)
        return kind.of_parts(self._each(ask, X, *beside), heights(X))

    def _beside(self, X: Any, **given: Any) -> list[list[Any]]:
        """Collections beside the rows, cut like these, without those that are None."""
        n = len(pieces("X", X))
        return [cut_like(name, each, X, n) for name, each in given.items() if each is not None]

    def _share_right(self, ask: Callable[..., Any], X: Any, y: Any, sample_weight: Any) -> float:
        """The share of the weight that is predicted right, given a function that sums both."""
        weight, right = self._summed(ask, X, y, sample_weight)
        return float(right / weight)

    def _summed(self, ask: Callable[..., Any], X: Any, y: Any, sample_weight: Any) -> np.ndarray:
        """The sum over all partitions of what a function says of them, added up on the workers."""
        n = len(pieces("X", X))
        labels = cut_like("y", y, X, n)
        weights = [None] * n if sample_weight is None else cut_like("sample_weight", sample_weight, X, n)
        parts = self._each(ask, X, labels, weights)
        while len(parts) > 1:
            parts = [delayed(sum)(parts[i : i + FAN_IN]) for i in range(0, len(parts), FAN_IN)]
        with _told_of_lost_data():
            found: np.ndarray = self._running_client().compute(parts[0]).result()
        return found


@contextmanager
def _told_of_lost_data() -> Iterator[None]:
    """Say of data that are lost, and cannot be made again, how that comes."""
    try:
        yield
    except CancelledError as error:
        error.add_note(
            "data that were scattered are lost with their worker: pass delayed blocks, which are made "
            "again, or scatter with broadcast=True"
        )
        raise


def n_given(X: Any) -> int:
    """How many rows or examples a partition has."""
    return int(X.shape[0]) if sp.issparse(X) else len(X)


def _asked_of_partition(ask: Callable[..., Any], number: int, model: Any, X: Any, *beside: Any) -> Any:
    """What a function says of a partition, which may lack features at the end."""
    with errors_of(number):
        if isinstance(X, tuple):
            raise TypeError(
                f"X must hold rows or examples alone, got a tuple of {len(X)}: pairs with labels are "
                "for fit only, and other methods take labels as y"
            )
        refuse_other_indices(X, *beside)
        return ask(model, widened(X, model.n_features_in_), *beside)


def _cast(X: Any, dtype: np.dtype) -> Any:
    """Rows of a type."""
    return X.astype(dtype, copy=False)


def answer(model: Any, X: Any, *, method: str) -> Any:
    """What a method says of the rows of a partition, which may be none."""
    return getattr(model, method)(X) if n_given(X) else about_no_rows(model, method)


def about_no_rows(model: Any, method: str) -> Any:
    """What a method says of no rows."""
    nameless = copy(model)
    vars(nameless).pop("feature_names_in_", None)
    return getattr(nameless, method)(np.zeros((1, model.n_features_in_)))[:0]


def _certificate(model: Any, X: Any, *y: Any, oracle: Any, nothing: Any) -> Any:
    """The certificate of a partition; `nothing` of one that is empty."""
    return model.certify(X, *y, oracle=oracle) if n_given(X) else nothing
