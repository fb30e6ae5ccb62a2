"""Examples of several rows in partitions, read and summarized on workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..estimators.example_machine import Examples, read_examples
from ..estimators.problem import Problem
from ..estimators.tokens import TokenVectorizer
from ..oracles import InvarianceOracle
from ..structures import Layout, Structure
from ..structures.bound import encode_labels
from ..structures.example_blocks import flat_labels, sorted_classes
from ..utils.matrices import Matrix
from .machine import n_given
from .partition import Block, Recipe
from .rows import DistributedRows


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
    def columns(self) -> list[str] | None:
        """Names of the columns of tokens, or None."""
        vocabulary = None if self.vectorizer is None else self.vectorizer.vocabulary_
        return None if vocabulary is None else list(vocabulary)

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
        learned, columns = recipe.learned, self.columns
        block = replace(self, vectorizer=None)
        if columns is None or learned.vocabulary is None:
            return block
        return replace(block, X=with_columns(self.X, columns, learned.vocabulary))

    def content(self) -> list[Any]:
        layout = None if self.layout is None else self.layout.compared_fields()
        return [*super().content(), layout, self.position_weight, self.columns]

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


def joint_labels(summaries: Sequence[Summary]) -> np.ndarray:
    """Concatenate the labels of all partitions."""
    sizes = np.array([len(each.classes) for each in summaries])
    return flat_labels([each.classes for each in summaries], sizes)


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
    vectorizer.learn([] if n_hashed is not None else rows.reduced(columns_of, joint_columns))
    return vectorizer


def columns_of(block: Any) -> list[str]:
    """Return the names of the columns of tokens of a block."""
    columns: list[str] = block.columns or []
    return columns


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
