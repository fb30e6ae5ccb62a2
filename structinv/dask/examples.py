"""Examples of several rows in partitions: how workers read them, and what the driver has to know."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..estimators.example_inputs import Examples, read_examples
from ..estimators.problem import Problem
from ..estimators.tokens import TokenVectorizer
from ..oracles import InvarianceOracle
from ..structures import Layout, Structure
from ..structures.example_blocks import flat_labels, sorted_classes
from ..structures.label_codes import encode_labels
from ..utils.matrices import Matrix
from .machine import n_given
from .partition import Block, Recipe
from .rows import DistributedRows


@dataclass(frozen=True)
class ExampleBlock(Block):
    """Checked examples of a partition.

    Parameters
    ----------
    X, y, weights, names
        See `Block`; `X` has the rows of all examples, `y` the labels of all positions, and `weights` are
        those of examples.
    layout : Layout
        Of the positions.
    position_weight : (n_positions,) array, optional
    vectorizer : TokenVectorizer, optional
        Of the tokens of this partition alone.
    """

    layout: Layout | None = None
    position_weight: np.ndarray | None = None
    vectorizer: TokenVectorizer | None = None

    @classmethod
    def join(cls, blocks: Sequence[Any]) -> Any:
        layouts = [block.layout for block in blocks]
        weights = None
        if any(block.position_weight is not None for block in blocks):
            weights = np.concatenate([block.own_weights for block in blocks])
        return replace(
            super().join(blocks),
            y=flat_labels([block.y for block in blocks], np.array([len(block.y) for block in blocks])),
            layout=type(layouts[0]).join(layouts),
            position_weight=weights,
        )

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of features; 0 features for tokens, whose columns all of them tell."""
        n_rows, n_features = self.X.shape
        return n_rows, n_features if self.vectorizer is None else 0

    @property
    def own_weights(self) -> np.ndarray:
        """Of the positions, 1 without any."""
        return np.ones(len(self.y)) if self.position_weight is None else self.position_weight

    @property
    def columns(self) -> list[str] | None:
        """The names of the columns of tokens."""
        known = None if self.vectorizer is None else self.vectorizer.vocabulary_
        return None if known is None else list(known)

    @property
    def nbytes(self) -> int:
        """Of all its arrays."""
        parts = [] if self.layout is None else self.layout.told()
        return super().nbytes + sum(each.nbytes for each in parts)

    def head(self, n: int) -> ExampleBlock:
        """The first examples, n at most."""
        assert self.layout is not None
        layout = self.layout.take(slice(0, n))
        # Positions that look at one row have one in all.
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
        """The block with the columns that all partitions have together."""
        known, columns = recipe.learned, self.columns
        own = replace(self, vectorizer=None)
        if columns is None or known.vocabulary is None:
            return own
        return replace(own, X=with_columns(self.X, columns, known.vocabulary))

    def told(self) -> list[Any]:
        layout = None if self.layout is None else self.layout.told()
        return [*super().told(), layout, self.position_weight, self.columns]

    def examples(self, X: Matrix) -> Examples:
        """The examples with rows in the form that an oracle takes."""
        assert self.layout is not None
        return Examples(X, self.layout, self.y, self.weights, self.position_weight, None, None)


@dataclass(frozen=True)
class Summary:
    """What the driver has to know of the examples of a partition.

    Parameters
    ----------
    classes : (m,) array
        Its labels.
    counts, weights : (m,) arrays
        For each label how many positions have it, times the weights of examples, and times those of
        positions, too.
    n_positions : int
        How many positions each row has, if all look at one row.
    structure : object
        What the structure tells of them.
    tokens : bool
    """

    classes: np.ndarray
    counts: np.ndarray
    weights: np.ndarray
    n_positions: int
    structure: Any
    tokens: bool


@dataclass(frozen=True)
class ExampleFacts:
    """What is known of all examples before a fit.

    Parameters
    ----------
    classes : (n_labels,) array
    factors : (n_labels,) array, optional
        By `class_weight`.
    structure : Structure
        As it is for these labels.
    vocabulary : dict of str to int, optional
        The columns of tokens.
    """

    classes: np.ndarray
    factors: np.ndarray | None
    structure: Structure
    vocabulary: dict[str, int] | None


def read_block(
    estimator: Any, X: Any, y: Any, sample_weight: Any = None, position_weight: Any = None
) -> ExampleBlock:
    """The block of what a partition holds, which may have no examples."""
    if n_given(X) == 0:
        return ExampleBlock(np.zeros((0, 0)), np.zeros(0), np.zeros(0))
    found = read_examples(estimator, X, y, sample_weight, position_weight)
    return ExampleBlock(
        found.rows,
        found.labels,
        found.weights,
        None if found.names is None else tuple(found.names),
        found.layout,
        found.position_weight,
        found.vectorizer,
    )


def summary_of_examples(structure: Structure, block: ExampleBlock) -> Summary | None:
    """What the driver has to know of a block; None of one without examples."""
    if block.layout is None:
        return None
    classes = sorted_classes(block.y)
    codes = encode_labels(block.y, classes)[1]
    own, each = block.weights[block.layout.owners], block.examples(block.X).position_weights
    return Summary(
        classes,
        np.bincount(codes, own, len(classes)),
        np.bincount(codes, each, len(classes)),
        len(block.y) // block.X.shape[0],
        structure.summary(block.y, block.layout),
        block.vectorizer is not None,
    )


def check_alike(structure: Structure, widths: Sequence[int], summaries: Sequence[Summary]) -> None:
    """Raise ValueError unless partitions have as many features, and rows as many labels."""
    what, sizes = "features", list(widths)
    if structure.one_row and len(set(sizes)) == 1:
        what, sizes = "labels for each row", [each.n_positions for each in summaries]
    if len(set(sizes)) > 1:
        raise ValueError(f"X and y must have as many {what} in all partitions, got {sizes}")


def joint_labels(summaries: Sequence[Summary]) -> np.ndarray:
    """The labels of all partitions, one behind the other."""
    sizes = np.array([len(each.classes) for each in summaries])
    return flat_labels([each.classes for each in summaries], sizes)


def joint_vectorizer(
    n_hashed: int | None, rows: DistributedRows, summaries: Sequence[Summary]
) -> TokenVectorizer | None:
    """What makes rows of the tokens of all partitions; None without tokens.

    Raises
    ------
    TypeError
        If some partitions hold tokens, and others rows of numbers.
    """
    kinds = {each.tokens for each in summaries}
    if kinds == {False}:
        return None
    if len(kinds) > 1:
        raise TypeError("X must hold tokens with named features in all partitions, or in none")
    vectorizer = TokenVectorizer(n_hashed)
    vectorizer.learn([] if n_hashed is not None else rows.reduced(columns_of, joint_columns))
    return vectorizer


def columns_of(block: Any) -> list[str]:
    """The names of the columns of tokens of a block."""
    found: list[str] = block.columns or []
    return found


def joint_columns(parts: list[list[str]]) -> list[str]:
    """The names of the columns of several parts, each once, in the order of their appearance."""
    return list(dict.fromkeys(chain.from_iterable(parts)))


def with_columns(X: Any, columns: Sequence[str], vocabulary: dict[str, int]) -> sp.csr_matrix:
    """CSR rows whose columns have names, with the columns of a larger vocabulary.

    Examples
    --------
    >>> X = sp.csr_matrix([[1.0, 2.0]])
    >>> with_columns(X, ["b", "a"], {"a": 0, "b": 1, "c": 2}).toarray().tolist()
    [[2.0, 1.0, 0.0]]
    """
    places = np.array([vocabulary[name] for name in columns], dtype=X.indices.dtype)
    parts = X.data.copy(), places[X.indices], X.indptr
    found = sp.csr_matrix(parts, shape=(X.shape[0], len(vocabulary)))
    found.sort_indices()
    return found


def problem_of_examples(
    estimator: Any, oracle: InvarianceOracle, known: ExampleFacts, block: ExampleBlock
) -> Problem:
    """The problem in a block that is ready, given what is known of all examples."""
    found = block.examples(estimator._for_oracle(block.X, oracle))
    problem: Problem = estimator._of_examples(
        found, known.classes, known.factors, oracle, known.structure, {}
    )
    return problem
