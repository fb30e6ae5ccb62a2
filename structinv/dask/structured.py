"""Structured classifier on a Dask cluster, and its partitions of examples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import Any, Self

import dask.bag
import numpy as np
import scipy.sparse as sp

from ..estimators import InvariantStructuredSVC
from ..estimators.base import Problem
from ..estimators.examples import Examples, label_factors, read_examples
from ..estimators.fit_progress import with_callbacks
from ..estimators.tokens import TokenVectorizer
from ..oracles import InvarianceOracle
from ..spaces import ExplicitSpace
from ..structures import Layout, Structure
from ..structures.bound import encode_labels
from ..structures.example_blocks import flat_labels, sorted_classes
from ..terms import Objective
from ..utils.matrices import Matrix
from .collections import DistributedRows, as_array, has_rows
from .machine import DaskMachine, empty_result, n_given
from .partition import Block, Recipe


@dataclass(frozen=True)
class ExampleBlock(Block):
    """Validated examples of a partition.

    - `X` (n_rows, d): rows of all examples
    - `y` (n_positions,): labels of all positions
    - `weights` (n_examples,): weights of examples
    - `names`: column names of a DataFrame
    - `layout`: assignment of positions to examples
    - `position_weight` (n_positions,): weights of positions
    - `vectorizer`: vectorizer of the tokens in this partition
    """

    layout: Layout | None = None
    position_weight: np.ndarray | None = None
    vectorizer: TokenVectorizer | None = None

    @classmethod
    def join(cls, blocks: Sequence[Any]) -> Any:
        layouts = [block.layout for block in blocks]
        weights = None
        if any(block.position_weight is not None for block in blocks):
            weights = np.concatenate([block.position_weights for block in blocks])
        return replace(
            super().join(blocks),
            y=flat_labels([block.y for block in blocks], np.array([len(block.y) for block in blocks])),
            layout=type(layouts[0]).join(layouts),
            position_weight=weights,
        )

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and features; 0 features for tokens."""
        n_rows, n_features = self.X.shape
        return n_rows, n_features if self.vectorizer is None else 0

    @property
    def position_weights(self) -> np.ndarray:
        """Weights of positions, 1 by default."""
        return np.ones(len(self.y)) if self.position_weight is None else self.position_weight

    @property
    def columns(self) -> list[str]:
        """Names of the columns of tokens; none for rows of numbers and hashed tokens."""
        vocabulary = None if self.vectorizer is None else self.vectorizer.vocabulary_
        return [] if vocabulary is None else list(vocabulary)

    @property
    def nbytes(self) -> int:
        """Number of bytes of all arrays."""
        parts = [] if self.layout is None else self.layout.compared_fields()
        return super().nbytes + sum(each.nbytes for each in parts)

    def head(self, n: int) -> ExampleBlock:
        """Return the first examples, at most n."""
        assert self.layout is not None
        layout = self.layout.take(slice(0, n))
        # Structures with one row per example have fewer rows than positions.
        one_row = self.X.shape[0] == len(self.layout)
        weights = self.position_weight
        return replace(
            self,
            X=self.X[: len(layout) if one_row else layout.n_rows],
            y=self.y[: layout.n_rows],
            weights=self.weights[:n],
            layout=layout,
            position_weight=None if weights is None else weights[: layout.n_rows],
        )

    def ready(self, recipe: Recipe) -> ExampleBlock:
        """Return the block with the joint columns of all partitions."""
        block, vocabulary = replace(self, vectorizer=None), recipe.learned.vocabulary
        if vocabulary is None:
            return block
        return replace(block, X=with_columns(self.X, self.columns, vocabulary))

    def examples(self, X: Matrix) -> Examples:
        """Return the examples, with rows in the form of the oracle."""
        assert self.layout is not None
        return Examples(X, self.layout, self.y, self.weights, self.position_weight, None, None)


@dataclass(frozen=True)
class Summary:
    """Facts about the examples of a partition for the driver.

    - `classes` (m,): labels in the partition
    - `counts` (m,): number of positions of each label, weighted by the weights of examples
    - `weights` (m,): number of positions of each label, weighted by the weights of examples and
      positions
    - `n_positions`: number of positions per row, for structures with one row per example
    - `structure`: summary of the labelings by the structure
    - `tokens`: whether the examples are tokens with named features
    """

    classes: np.ndarray
    counts: np.ndarray
    weights: np.ndarray
    n_positions: int
    structure: Any
    tokens: bool


@dataclass(frozen=True)
class ExampleFacts:
    """Facts about all examples before a fit.

    - `classes` (n_labels,): all labels
    - `factors` (n_labels,): factors of the labels from `class_weight`
    - `structure`: structure prepared for these labels
    - `vocabulary`: columns of token features
    """

    classes: np.ndarray
    factors: np.ndarray | None
    structure: Structure
    vocabulary: dict[str, int] | None


def read_block(
    estimator: Any, X: Any, y: Any, sample_weight: Any = None, position_weight: Any = None
) -> ExampleBlock:
    """Validate the content of a partition, which may be empty, and return a block."""
    if n_given(X) == 0:
        return ExampleBlock(np.zeros((0, 0)), np.zeros(0), np.zeros(0))
    examples = read_examples(estimator, X, y, sample_weight, position_weight)
    return ExampleBlock(
        examples.rows,
        examples.labels,
        examples.weights,
        None if examples.names is None else tuple(examples.names),
        examples.layout,
        examples.position_weight,
        examples.vectorizer,
    )


def summary_of_examples(structure: Structure, block: ExampleBlock) -> Summary | None:
    """Return the facts about a block for the driver; None for an empty block."""
    if block.layout is None:
        return None
    classes = sorted_classes(block.y)
    codes = encode_labels(block.y, classes)[1]
    of_examples = block.weights[block.layout.owners]
    of_positions = block.examples(block.X).position_weights
    return Summary(
        classes,
        np.bincount(codes, of_examples, len(classes)),
        np.bincount(codes, of_positions, len(classes)),
        len(block.y) // block.X.shape[0],
        structure.summary(block.y, block.layout),
        block.vectorizer is not None,
    )


def check_consistent(structure: Structure, widths: Sequence[int], summaries: Sequence[Summary]) -> None:
    """Raise ValueError if partitions differ in features or in labels per row."""
    what, sizes = "features", list(widths)
    if structure.one_row and len(set(sizes)) == 1:
        what, sizes = "labels per row", [each.n_positions for each in summaries]
    if len(set(sizes)) > 1:
        raise ValueError(f"X and y must have the same number of {what} in all partitions, got {sizes}")


def joint_vectorizer(
    n_hashed: int | None, rows: DistributedRows, summaries: Sequence[Summary]
) -> TokenVectorizer | None:
    """Return a vectorizer of the tokens of all partitions; None for rows of numbers."""
    kinds = {each.tokens for each in summaries}
    if kinds == {False}:
        return None
    if len(kinds) > 1:
        raise TypeError("X must have tokens with named features in all partitions, or in no partition")
    vectorizer = TokenVectorizer(n_hashed)
    vectorizer.learn([] if n_hashed is not None else rows.reduced(attrgetter("columns"), joint_columns))
    return vectorizer


def joint_columns(parts: list[list[str]]) -> list[str]:
    """Join the column names of several parts, without repetition."""
    return list(dict.fromkeys(chain.from_iterable(parts)))


def with_columns(X: Any, columns: Sequence[str], vocabulary: dict[str, int]) -> sp.csr_matrix:
    """Convert CSR rows with named columns to the columns of a larger vocabulary."""
    places = np.array([vocabulary[name] for name in columns], dtype=X.indices.dtype)
    parts = X.data.copy(), places[X.indices], X.indptr
    rows = sp.csr_matrix(parts, shape=(X.shape[0], len(vocabulary)))
    rows.sort_indices()
    return rows


def problem_of_examples(
    estimator: Any, oracle: InvarianceOracle, learned: ExampleFacts, block: ExampleBlock
) -> Problem:
    """Return the problem of a block, given facts about all examples."""
    examples = block.examples(estimator._for_oracle(block.X, oracle))
    problem: Problem = estimator._of_examples(
        examples, learned.classes, learned.factors, oracle, learned.structure, {}
    )
    return problem


def _weight_sums(model: Any, X: Any, y: Any, weights: Any) -> np.ndarray:
    """Return the weight of all positions of a partition, and of the correct ones."""
    if n_given(X) == 0:
        return np.zeros(2)
    sums: np.ndarray = model._right(X, y, weights)
    return sums


@dataclass(eq=False, repr=False)
class DaskInvariantStructuredSVC(DaskMachine, InvariantStructuredSVC):
    """Robust structured classifier, trained on a Dask cluster.

    The objective, the bounds and the duality gap are those of the classifier on all examples. Labels,
    vocabulary and learned attributes of the structure come from all partitions. The other parameters and
    attributes are those of :class:`structinv.InvariantStructuredSVC`.

    Parameters
    ----------
    structure : Structure
        Output structure, such as ``Sequence()``, ``Graph()`` or ``Multilabel()``. A custom structure
        with a method `prepared` also needs `summary` and `prepared_by`.
    solver, warm_start, checkpoint, client : object
        Same as in `DaskInvariantLinearSVC`.
    kernel : "linear", default="linear"
        Other kernels require examples in memory.
    gamma, degree, coef0, cache_mb : object
        Ignored.
    plane_tol : float, default=0.0
        Plane tolerance, which must be 0 for examples in partitions.

    Attributes
    ----------
    solution_ : Solution
        Weights, bounds and history.

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
    _sums_of_block = staticmethod(_weight_sums)

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
        ValueError, TypeError, ConnectionError, KeyboardInterrupt
            As in `DaskInvariantLinearSVC.fit`. The message names the partition and the example.
        """
        return self._fit_partitions(X, y, sample_weight=sample_weight, position_weight=position_weight)

    def decision_function(self, X: Any) -> Any:
        return self._answers("decision_function", X)

    def worst_case(self, X: Any, y: Any = None, *, oracle: InvarianceOracle | None = None) -> Any:
        if not self._in_partitions(X):
            return super().worst_case(X, y, oracle=oracle)
        pairs: list[Any] = self._each(partial(_worst, oracle=oracle), X, y=y)
        changed, labels = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        if not has_rows(X):
            return dask.bag.from_delayed(changed), dask.bag.from_delayed(labels)
        meta = empty_result(self.to_local(), "predict")
        return self._perturbed(changed, X), as_array(labels, X, meta)

    def _lazily(self, method: str, X: Any) -> Any:
        """Return the results of a method for all examples, as a lazy array or bag."""
        if has_rows(X):
            return super()._lazily(method, X)
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
        sizes = np.array([len(each.classes) for each in parts])
        labels = flat_labels([each.classes for each in parts], sizes)
        names = rows.facts[0].names
        classes = self._classes(labels)
        codes = encode_labels(labels, classes)[1]
        counts, weights = (
            np.bincount(codes, np.concatenate([getattr(each, name) for each in parts]))
            for name in ("counts", "weights")
        )
        factors = label_factors(self.class_weight, classes, np.arange(len(classes)), counts)
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


def _worst(model: Any, X: Any, y: Any, *, oracle: Any) -> tuple[Any, Any]:
    """Return the perturbed examples of a partition, and their labelings."""
    if n_given(X) == 0:
        return X, []
    worst: tuple[Any, Any] = model.worst_case(X, y, oracle=oracle)
    return worst
