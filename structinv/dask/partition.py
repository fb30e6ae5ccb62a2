"""Rows of one partition: validation, summaries for the driver, and losses."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_array
from sklearn.utils.validation import _get_feature_names

from ..estimators.base import Problem
from ..estimators.inputs import canonical, checked_weights, one_a_row
from ..oracles import InvarianceOracle
from ..spaces import ExplicitSpace
from ..terms import WorstCase
from ..utils.matrices import Matrix, check_indices, refuse_masked, stack

# Content of a partition, in this order.
ARGUMENTS = ("X", "y", "sample_weight", "position_weight")
# Part of scikit-learn's message about NaN before its advice to use other estimators.
ADVICE = "does not accept missing values encoded as NaN"

# Start of NumPy's message about strings, which does not name the argument.
STRINGS = "could not convert string to float"


@dataclass(frozen=True)
class Block:
    """Validated rows of a partition, with labels or targets and sample weights.

    - `X` (n, d): rows
    - `y` (n,): labels or targets
    - `weights` (n,): sample weights
    - `names`: column names of a DataFrame
    """

    X: Matrix
    y: np.ndarray
    weights: np.ndarray
    names: tuple[str, ...] | None = None

    @classmethod
    def join(cls, blocks: Sequence[Any]) -> Any:
        """Join blocks with the same features to one block."""
        return replace(
            blocks[0],
            X=stack([block.X for block in blocks]),
            y=np.concatenate([block.y for block in blocks]),
            weights=np.concatenate([block.weights for block in blocks]),
        )

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and number of features."""
        n_rows, n_features = self.X.shape
        return n_rows, n_features

    @property
    def nbytes(self) -> int:
        """Number of bytes of all arrays."""
        X = self.X
        parts = [X.data, X.indices, X.indptr] if sp.issparse(X) else [X]
        return sum(each.nbytes for each in [*parts, self.y, self.weights])

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.nbytes

    def head(self, n: int) -> Block:
        """Return the first rows, at most n."""
        return replace(self, X=self.X[:n], y=self.y[:n], weights=self.weights[:n])

    def ready(self, recipe: Recipe) -> Block:
        """Return the block with all features, which sparse rows may lack at the end."""
        return replace(self, X=widened(self.X, recipe.space.n_features))


def numbered_block(number: int, read: Callable[..., Block], given: Any) -> Block:
    """Return the block of a partition; errors name the partition."""
    with errors_of(number):
        refuse_other_indices(*given)
        return read(*given)


@contextmanager
def errors_of(number: int) -> Iterator[None]:
    """Add the number of the partition to errors, and shorten them."""
    try:
        yield
    except (ValueError, TypeError) as error:
        text = str(error)
        if text.startswith(STRINGS):
            # Of other arguments the messages begin with the name.
            text = f"X must contain numbers, but {text}: encode columns, and use a vectorizer for texts"
        lines = text.split("\n")
        end = next((i for i, line in enumerate(lines) if ADVICE in line), len(lines))
        raise type(error)(f"partition {number}: " + "\n".join(lines[:end])) from None


def refuse_other_indices(*given: Any) -> None:
    """Raise ValueError for pandas objects with different indices."""
    # Without an import of pandas there are no pandas objects.
    pandas = sys.modules.get("pandas")
    if pandas is None:
        return
    indexed = [
        (name, each.index)
        for name, each in zip(ARGUMENTS, given, strict=False)
        if isinstance(each, (pandas.DataFrame, pandas.Series))
    ]
    for name, index in indexed[1:]:
        first, reference = indexed[0]
        if not index.equals(reference):
            raise ValueError(
                f"{name} must have the same index as {first}, because both are joined by position: sort "
                f"both in the same way, or pass {name} as an array if its order is correct"
            )


def checked_rows(X: Any) -> tuple[Matrix, tuple[str, ...] | None]:
    """Validate rows, which may be empty; return them and their column names."""
    refuse_masked("X", X)
    check_indices("X", X)
    columns = _get_feature_names(X)
    if np.ndim(X) != 2 and not sp.issparse(X):
        raise ValueError(f"X must have two dimensions, got shape {np.shape(X)}")
    rows = check_array(
        X,
        accept_sparse="csr",
        accept_large_sparse=True,
        dtype=[np.float64, np.float32],
        ensure_min_samples=0,
        input_name="X",
    )
    return canonical(rows), None if columns is None else tuple(columns)


def widened(X: Any, n_features: int) -> Any:
    """Add missing features at the end of sparse rows; return other rows unchanged."""
    if not sp.issparse(X) or X.shape[1] >= n_features:
        return X
    rows = sp.csr_matrix(X)
    return sp.csr_matrix((rows.data, rows.indices, rows.indptr), shape=(rows.shape[0], n_features))


def checked_block(X: Any, y: Any, weights: Any = None) -> Block:
    """Validate the content of a partition, and return a block."""
    rows, names = checked_rows(X)
    n = rows.shape[0]
    labels = one_a_row(y, n)
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise ValueError("y must contain finite numbers, got NaN or infinity")
    checked = np.ones(n)
    if weights is not None and n > 0:
        checked = checked_weights(weights, rows, part=True)
    return Block(rows, labels, checked, names)


@dataclass(frozen=True)
class Facts:
    """Facts about a block for the driver.

    - `shape`: numbers of rows and features
    - `dtype`: dtype of the rows
    - `sparse`: whether the rows are sparse
    - `names`: column names
    - `weight`: sum of the sample weights
    - `summary`: summary of the labels or targets
    - `nbytes`: size of the block
    """

    shape: tuple[int, int]
    dtype: np.dtype
    sparse: bool
    names: tuple[str, ...] | None
    weight: float
    summary: Any
    nbytes: int = 0


def facts(number: int, block: Block, summarize: Callable[[Block], Any]) -> Facts:
    """Return the facts about the block of a partition; errors name the partition."""
    X = block.X
    with errors_of(number):
        summary = summarize(block)
    weight = float(block.weights.sum())
    return Facts(block.shape, X.dtype, sp.issparse(X), block.names, weight, summary, block.nbytes)


def check_consistent(facts_by_partition: Sequence[Facts]) -> dict[int, Facts]:
    """Return the facts about nonempty partitions by number, after consistency checks."""
    filled = {p: each for p, each in enumerate(facts_by_partition) if each.shape[0]}
    if not filled:
        raise ValueError(f"X must have rows, got {len(facts_by_partition)} empty partitions")
    first, reference = next(iter(filled.items()))
    widest = max(filled, key=lambda p: filled[p].shape[1])
    most = filled[widest].shape[1]
    for p, each in filled.items():
        if each.shape[1] != most and not each.sparse:
            raise ValueError(
                "X must have the same number of features in all partitions if rows are dense: partition "
                f"{widest} has {most}, partition {p} has {each.shape[1]}"
            )
        if each.names != reference.names:
            raise ValueError(
                f"X must have the same columns in all partitions: those of partition {p} differ from "
                f"those of partition {first}"
            )
    return filled


@dataclass(frozen=True)
class Recipe:
    """Construction of the losses of a partition.

    - `problem`: function of an estimator, an oracle, `learned` and a block that returns a `Problem`
    - `estimator`: unfitted estimator with the parameters
    - `oracle`: oracle for rows of this shape
    - `learned`: facts about all rows, such as the classes
    - `space`: space of the weights
    """

    problem: Callable[..., Problem]
    estimator: Any
    oracle: InvarianceOracle
    learned: Any
    space: ExplicitSpace

    def term(self, block: Block) -> WorstCase:
        """Return the losses of a block."""
        return self.problem(self.estimator, self.oracle, self.learned, block).worst_case()
