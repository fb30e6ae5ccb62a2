"""Labelings of examples in partitions on a Dask cluster."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, Self

import dask.bag
import numpy as np

from ..estimators import InvariantStructuredSVC
from ..estimators.callbacks import with_callbacks
from ..estimators.problem import Problem
from ..oracles import InvarianceOracle
from ..solvers import Solver
from ..spaces import ExplicitSpace
from ..structures import Structure
from ..structures.label_codes import encode_labels
from ..terms import Objective
from .certificates import DaskExampleCertificate
from .collections import as_array, has_rows
from .examples import (
    ExampleFacts,
    check_alike,
    joint_labels,
    joint_vectorizer,
    problem_of_examples,
    read_block,
    summary_of_examples,
)
from .machine import DaskMachine, about_no_rows, n_given
from .rows import DistributedRows


@dataclass(eq=False, repr=False)
class DaskInvariantStructuredSVC(DaskMachine, InvariantStructuredSVC):
    """`InvariantStructuredSVC` that is trained on partitions of examples on a Dask cluster.

    The objective, the bounds and the gap are those of `InvariantStructuredSVC` on all examples together.
    Labels, vocabulary, and what the structure learns of labels come from all partitions.

    Parameters
    ----------
    structure : Structure
        A structure of one's own that has a method `prepared` has `summary` and `prepared_by`, too.
    oracle : InvarianceOracle, optional
        What may change in a row; nothing by default.
    client, solver
        See `DaskInvariantLinearSVC`.
    kernel : "linear"
        Others take examples in memory.
    plane_tol : 0.0
        Others take examples in memory.
    C, cost, class_weight, n_hashed, tol, max_seconds, random_state, verbose
        See `InvariantStructuredSVC`.
    warm_start, checkpoint, checkpoint_seconds, on_interrupt
        See `DaskInvariantLinearSVC`.
    gamma, degree, coef0, cache_mb
        Not used.

    Attributes
    ----------
    coef_, transitions_, start_, end_, pairwise_, pairs_, classes_, structure_, vectorizer_, solution_, \
n_iter_, n_features_in_, feature_names_in_
        See `InvariantStructuredSVC`. ``solution_.planes`` is the sum of all planes.

    Warns
    -----
    ConvergenceWarning
        If the fit ended before the gap was reached.

    Examples
    --------
    >>> import dask.bag
    >>> from distributed import Client
    >>> from structinv.dask import DaskInvariantStructuredSVC
    >>> from structinv.datasets import conll_features, make_tagged_text
    >>> from structinv.structures import Sequence
    >>> sentences, y = make_tagged_text(40, random_state=0)
    >>> X = dask.bag.from_sequence(conll_features(sentences), npartitions=2)
    >>> y = dask.bag.from_sequence(y, npartitions=2)
    >>> with Client(processes=False, dashboard_address=":0") as client:
    ...     model = DaskInvariantStructuredSVC(Sequence(), C=0.1, random_state=0).fit(X, y)
    ...     accurate, n_labelings = model.score(X, y) > 0.9, len(model.predict(X).compute())
    >>> accurate, n_labelings, model.solution_.status.value
    (True, 40, 'converged')
    """

    _: KW_ONLY
    client: Any = None
    solver: str | Solver = "auto"

    _local_type = InvariantStructuredSVC
    _of_block = staticmethod(problem_of_examples)

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, position_weight: Any = None) -> Self:
        """Train on the worst case of the oracle's changes, jointly with that over labelings.

        Parameters
        ----------
        X : dask Bag, Array or DataFrame, or list of Delayed or Future
            Examples in partitions, each of the form that the structure reads: lists of examples, or
            matrices for `Multilabel`. Without `y`, each item of a bag is a tuple of an input and its
            labels, and each item of a list holds the inputs and the labels of a partition; either may
            have `sample_weight` and `position_weight` as third and fourth. Examples in memory are
            trained on in this process by the estimator without Dask.
        y : dask Bag or Array, or list of Delayed or Future
            Labelings in as many partitions.
        sample_weight : as y, optional
            Non-negative factors of C, one for each example.
        position_weight : as y, optional
            Non-negative factors of what a wrong label costs at each position.

        Returns
        -------
        DaskInvariantStructuredSVC
            This estimator.

        Raises
        ------
        ValueError, TypeError
            For parameters or data that cannot be used, before any training. The message names the
            partition and the example.
        SchedulerLostError
            If the connection to the scheduler is lost.
        KeyboardInterrupt
            After Ctrl-C, with the best model so far; see `on_interrupt`.
        """
        return self._fit_partitions(X, y, sample_weight=sample_weight, position_weight=position_weight)

    def predict(self, X: Any) -> Any:
        """The best labeling of each example.

        Parameters
        ----------
        X : dask Bag, Array or DataFrame, list of Delayed or Future, or examples in memory
            Inputs alone: inputs with their labels are for `fit` only.

        Returns
        -------
        dask Bag or Array, or what `InvariantStructuredSVC` returns of examples in memory
            Of a bag or a list a Bag with an item for each example: its `compute` gives the list that
            `predict` of all examples gives, and its `to_delayed` a list for each partition. Of an array
            or DataFrame a Dask array.
        """
        return self._of_each("predict", X) if self._in_partitions(X) else super().predict(X)

    def decision_function(self, X: Any) -> Any:
        """What each label's weights give for each row of each example; in the form of `predict`."""
        if self._in_partitions(X):
            return self._of_each("decision_function", X)
        return super().decision_function(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of positions with the right label; of a collection it is summed on the workers.

        Inputs and labels are two collections: pairs of them are for `fit` only.
        """
        if not self._in_partitions(X):
            return super().score(X, y, sample_weight)
        return self._share_right(_right, X, y, sample_weight)

    def certify(self, X: Any, y: Any = None, *, oracle: InvarianceOracle | None = None) -> Any:
        """What no allowed change of the rows can turn, for whole labelings.

        Parameters
        ----------
        X : dask Bag, Array or DataFrame, list of Delayed or Future, or examples in memory
            Inputs alone: inputs with their labels are for `fit` only.
        y : as in `fit`, optional
            Without labels it is certified that predictions do not change.
        oracle : InvarianceOracle, optional
            What may change; by default what the model was trained for.

        Returns
        -------
        DaskExampleCertificate or Certificate
            For collections its arrays stay on the cluster.
        """
        if not self._in_partitions(X):
            return super().certify(X, y, oracle=oracle)
        return self._certified(DaskExampleCertificate, X, *self._beside(X, y=y), oracle=oracle)

    def worst_case(self, X: Any, y: Any = None, *, oracle: InvarianceOracle | None = None) -> Any:
        """The examples after the change that lowers the margin of their labeling most.

        Parameters
        ----------
        X : dask Bag, Array or DataFrame, list of Delayed or Future, or examples in memory
            Inputs alone: inputs with their labels are for `fit` only.
        y : as in `fit`, optional
            Without labels the predictions take their place.
        oracle : InvarianceOracle, optional
            What may change; by default what the model was trained for.

        Returns
        -------
        changed, labels
            The changed examples and the labelings that they lead to, each in the form of `predict`.
        """
        if not self._in_partitions(X):
            return super().worst_case(X, y, oracle=oracle)
        pairs: list[Any] = self._each(_worst, X, *self._beside(X, y=y), oracle=oracle)
        changed, labels = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        if not has_rows(X):
            return dask.bag.from_delayed(changed), dask.bag.from_delayed(labels)
        meta = about_no_rows(self.to_local(), "predict")
        return self._changed(changed, X), as_array(labels, X, meta)

    def _of_each(self, method: str, X: Any) -> Any:
        """What a method says of each example, computed when it is asked for."""
        if has_rows(X):
            return self._lazily(method, X)
        return dask.bag.from_delayed(self._each(partial(_listed, method=method), X))

    def _check_collection(self, X: Any) -> None:
        if not self._linear:
            raise ValueError(
                f"kernel must be 'linear' for examples in partitions, got {self.kernel!r}: "
                "InvariantStructuredSVC takes kernels, of examples in memory"
            )
        if self.plane_tol > 0:
            raise ValueError(f"plane_tol must be 0 for examples in partitions, got {self.plane_tol!r}")

    def _read(
        self, X: DistributedRows, y: Any, sample_weight: Any, position_weight: Any = None
    ) -> Problem:
        rows = X
        rows.look(partial(read_block, self._in_memory()), partial(summary_of_examples, self.structure))
        parts = [each.summary for each in rows.facts]
        vectorizer = joint_vectorizer(self.n_hashed, rows, parts)
        check_alike(self.structure, [each.shape[1] for each in rows.facts], parts)
        labels, names = joint_labels(parts), rows.facts[0].names
        classes = self._classes(labels)
        codes = encode_labels(labels, classes)[1]
        counts, weights = (
            np.bincount(codes, np.concatenate([getattr(each, name) for each in parts]))
            for name in ("counts", "weights")
        )
        factors = self._label_factors(classes, np.arange(len(classes)), counts)
        self._check_weights(weights if factors is None else factors * weights)
        n_features = rows.shape[1] if vectorizer is None else vectorizer.n_columns_
        oracle = self._oracle_of(classes, None if names is None else list(names))
        self._check_rows(rows, oracle, n_features)
        structure = self.structure.prepared_by(classes, [each.structure for each in parts])
        vocabulary = None if vectorizer is None else vectorizer.vocabulary_
        return Problem(
            rows,
            ExampleFacts(classes, factors, structure, vocabulary),
            oracle,
            structure,
            np.ones(len(parts)),
            told=classes,
            learned=self._known(classes, n_features, None if names is None else list(names), vectorizer),
            classes=classes,
        )

    def _space(self, problem: Problem) -> ExplicitSpace:
        structure, n_labels = problem.structure, len(problem.labels.classes)
        n_outputs = structure.functions(n_labels).n_outputs
        if structure.one_row:
            n_outputs *= problem.rows.facts[0].summary.n_positions
        n_features = problem.learned["n_features_in_"]
        return ExplicitSpace(n_features, n_outputs, n_pairwise=structure.n_pairwise(n_labels))

    def _learned_structure(self, problem: Problem, objective: Objective) -> Structure:
        structure: Structure = problem.structure
        return structure


def _listed(model: Any, X: Any, *, method: str) -> Any:
    """What a method says of the examples of a partition, one after the other."""
    return getattr(model, method)(X) if n_given(X) else []


def _worst(model: Any, X: Any, *y: Any, oracle: Any) -> tuple[Any, Any]:
    """The worst examples of a partition, and their labelings."""
    if n_given(X) == 0:
        return X, []
    found: tuple[Any, Any] = model.worst_case(X, *y, oracle=oracle)
    return found


def _right(model: Any, X: Any, y: Any, weights: Any) -> np.ndarray:
    """The weight of the positions of a partition, and that of those with the right label."""
    if n_given(X) == 0:
        return np.zeros(2)
    found: np.ndarray = model._right(X, y, weights)
    return found
