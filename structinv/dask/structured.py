"""Structured classifier on a Dask cluster."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, Self

import dask.bag
import numpy as np

from ..certificates import Certificate
from ..estimators import InvariantStructuredSVC
from ..estimators.fit_progress import with_callbacks
from ..estimators.problem import Problem
from ..oracles import InvarianceOracle
from ..spaces import ExplicitSpace
from ..structures import Structure
from ..structures.bound import encode_labels
from ..terms import Objective
from .collections import as_array, has_rows
from .examples import (
    ExampleFacts,
    check_consistent,
    joint_labels,
    joint_vectorizer,
    problem_of_examples,
    read_block,
    summary_of_examples,
)
from .machine import DaskMachine, empty_result, n_given
from .rows import DistributedRows


@dataclass(eq=False, repr=False)
class DaskInvariantStructuredSVC(DaskMachine, InvariantStructuredSVC):
    """Robust structured classifier, trained on a Dask cluster.

    The objective, the bounds and the duality gap are those of `InvariantStructuredSVC` on all examples.
    Labels, vocabulary and learned attributes of the structure come from all partitions.

    Parameters
    ----------
    structure : Structure
        Output structure, such as ``Sequence()``, ``Graph()`` or ``Multilabel()``. A custom structure
        with a method `prepared` also needs `summary` and `prepared_by`.
    C : object
        Same as in `InvariantStructuredSVC`.
    solver : {"auto", "bundle", "bmrm"}, default="auto"
        "bundle" updates the dual variables of all groups of partitions in parallel, and stores planes of
        each group. "bmrm" stores one plane of the sum of all losses per round. "auto" is "bundle".
    tol, max_seconds, random_state, verbose : object
        Same as in `InvariantStructuredSVC`.
    warm_start : bool, default=False
        Whether a fit starts from the planes of the last fit. A fit with other examples, labels, weights
        or partitions starts from zero, with at most as many groups as the last fit.
    checkpoint : str or path-like, optional
        File with the planes of each group of partitions, from which a later fit continues. The later
        fit has the same number of groups. A checkpoint of other data raises an error.
    checkpoint_seconds, on_interrupt, oracle : object
        Same as in `InvariantStructuredSVC`.
    kernel : "linear", default="linear"
        Other kernels require examples in memory.
    gamma, degree, coef0 : object
        Ignored.
    cost, class_weight : object
        Same as in `InvariantStructuredSVC`.
    plane_tol : float, default=0.0
        Plane tolerance, which must be 0 for examples in partitions.
    cache_mb : object
        Ignored.
    n_hashed : object
        Same as in `InvariantStructuredSVC`.
    client : distributed.Client, optional
        Client of the cluster; the client of the process by default. `clone` and pickle omit it.

    Attributes
    ----------
    coef_, transitions_, start_, end_, pairwise_, pairs_, classes_, structure_, vectorizer_, n_iter_, \
n_features_in_, feature_names_in_
        Fitted attributes of `InvariantStructuredSVC`.
    solution_ : Solution
        Weights, bounds and history; ``solution_.planes`` is the sum of all planes.

    Warns
    -----
    ConvergenceWarning
        If the fit ended with a larger gap than `tol`.

    See Also
    --------
    structinv.InvariantStructuredSVC : The same classifier for examples in memory.
    DaskInvariantLinearSVC : Robust linear classifier of single samples on a Dask cluster.

    Notes
    -----
    All methods also take Dask bags, arrays and DataFrames, and lists of Delayed or Future. Only `fit`
    accepts examples with labels. `predict`, `decision_function` and `worst_case` return lazy results for
    collections: Dask arrays for an array or DataFrame, bags with one item per example for a bag or a
    list. The workers compute `score` and `certify`, which return the results of
    `InvariantStructuredSVC`.

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
    solver: str = "auto"

    _local_type = InvariantStructuredSVC
    _of_block = staticmethod(problem_of_examples)

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, position_weight: Any = None) -> Self:
        """Fit the model to examples in partitions.

        Parameters
        ----------
        X : dask Bag, Array or DataFrame, or list of Delayed or Future
            Examples in partitions, in the form of the structure: lists of examples, or matrices for
            `Multilabel`. Without `y`, each item of a bag is a tuple of an example and its labels. Each
            item of a list is then a tuple for a partition. Both may have `sample_weight` and
            `position_weight` as third and fourth. Examples in memory are fitted in this process by the
            estimator without Dask.
        y : dask Bag or Array, or list of Delayed or Future
            Labelings, in as many partitions as `X`.
        sample_weight : as y, optional
            Factors of C (>= 0), one per example.
        position_weight : as y, optional
            Factors of the cost of a wrong label (>= 0), one per position.

        Returns
        -------
        DaskInvariantStructuredSVC
            Fitted estimator.

        Raises
        ------
        ValueError, TypeError
            If a parameter or the data are invalid, before any training. The message names the partition
            and the example.
        SchedulerLostError
            If the connection to the scheduler is lost.
        KeyboardInterrupt
            After Ctrl-C, if `on_interrupt` is "raise". The estimator has the best model so far.
        """
        return self._fit_partitions(X, y, sample_weight=sample_weight, position_weight=position_weight)

    def predict(self, X: Any) -> Any:
        return self._of_each("predict", X) if self._in_partitions(X) else super().predict(X)

    def decision_function(self, X: Any) -> Any:
        if self._in_partitions(X):
            return self._of_each("decision_function", X)
        return super().decision_function(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        if not self._in_partitions(X):
            return super().score(X, y, sample_weight)
        return self._accuracy(_weight_sums, X, y, sample_weight)

    def certify(self, X: Any, y: Any = None, *, oracle: InvarianceOracle | None = None) -> Certificate:
        if not self._in_partitions(X):
            return super().certify(X, y, oracle=oracle)
        return Certificate.join(self._certificates(X, *self._cut_like(X, y=y), oracle=oracle))

    def worst_case(self, X: Any, y: Any = None, *, oracle: InvarianceOracle | None = None) -> Any:
        if not self._in_partitions(X):
            return super().worst_case(X, y, oracle=oracle)
        pairs: list[Any] = self._each(_worst, X, *self._cut_like(X, y=y), oracle=oracle)
        changed, labels = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        if not has_rows(X):
            return dask.bag.from_delayed(changed), dask.bag.from_delayed(labels)
        meta = empty_result(self.to_local(), "predict")
        return self._perturbed(changed, X), as_array(labels, X, meta)

    def _of_each(self, method: str, X: Any) -> Any:
        """Return the results of a method for all examples, lazily."""
        if has_rows(X):
            return self._lazily(method, X)
        return dask.bag.from_delayed(self._each(partial(_listed, method=method), X))

    def _check_collection(self, X: Any) -> None:
        if not self._linear:
            raise ValueError(
                f"kernel must be 'linear' for examples in partitions, got {self.kernel!r}: use "
                "InvariantStructuredSVC on examples in memory"
            )
        if self.plane_tol > 0:
            raise ValueError(f"plane_tol must be 0 for examples in partitions, got {self.plane_tol!r}")

    def _read(
        self, X: DistributedRows, y: Any, sample_weight: Any, position_weight: Any = None
    ) -> Problem:
        rows = X
        rows.read(partial(read_block, self._in_memory()), partial(summary_of_examples, self.structure))
        parts = [each.summary for each in rows.facts]
        vectorizer = joint_vectorizer(self.n_hashed, rows, parts)
        check_consistent(self.structure, [each.shape[1] for each in rows.facts], parts)
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
            fingerprinted=classes,
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
    """Call a method for the examples of a partition; return a list."""
    return getattr(model, method)(X) if n_given(X) else []


def _worst(model: Any, X: Any, *y: Any, oracle: Any) -> tuple[Any, Any]:
    """Return the perturbed examples of a partition, and their labelings."""
    if n_given(X) == 0:
        return X, []
    worst: tuple[Any, Any] = model.worst_case(X, *y, oracle=oracle)
    return worst


def _weight_sums(model: Any, X: Any, y: Any, weights: Any) -> np.ndarray:
    """Return the weight of all positions of a partition, and of the correct ones."""
    if n_given(X) == 0:
        return np.zeros(2)
    sums: np.ndarray = model._right(X, y, weights)
    return sums
