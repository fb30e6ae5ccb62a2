"""The rows of one partition: their checks, the facts about them, and what makes losses of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_array
from sklearn.utils.validation import _check_sample_weight, _get_feature_names

from ..estimators.fingerprint import digest
from ..estimators.problem import Problem
from ..estimators.row_shapes import canonical
from ..estimators.target_labels import one_a_row
from ..oracles import InvarianceOracle
from ..spaces import ExplicitSpace
from ..terms import WorstCase
from ..utils.matrices import Matrix, stack

# What a partition holds, in this order.
ARGUMENTS = ("X", "y", "sample_weight", "position_weight")
# A line of scikit-learn's message about NaN that names other estimators has this.
ADVICE = "does not accept missing values encoded as NaN"


@dataclass(frozen=True)
class Block:
    """Checked rows of a partition, with labels or targets and sample weights.

    Parameters
    ----------
    X : (n, d) array or CSR matrix
    y : (n,) array
    weights : (n,) array
    names : tuple of str, optional
        Of the columns of a DataFrame.
    """

    X: Matrix
    y: np.ndarray
    weights: np.ndarray
    names: tuple[str, ...] | None = None

    @classmethod
    def join(cls, blocks: Sequence[Any]) -> Any:
        """Several blocks of this class as one; they have the same features."""
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
        """Of all its arrays."""
        X = self.X
        parts = [X.data, X.indices, X.indptr] if sp.issparse(X) else [X]
        return sum(each.nbytes for each in [*parts, self.y, self.weights])

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.nbytes

    def head(self, n: int) -> Block:
        """The first rows, n at most."""
        return replace(self, X=self.X[:n], y=self.y[:n], weights=self.weights[:n])

    def ready(self, recipe: Recipe) -> Block:
        """The block with all features, some of which sparse rows may lack at the end."""
        return replace(self, X=widened(self.X, recipe.space.n_features))

    def told(self) -> list[Any]:
        """All that tells it from other blocks."""
        return [self.X, self.y, self.weights]


def numbered_block(number: int, read: Callable[..., Block], given: Any) -> Block:
    """The block that `read` makes of what a partition holds; errors name the partition."""
    with errors_of(number):
        refuse_other_indices(*given)
        return read(*given)


@contextmanager
def errors_of(number: int) -> Iterator[None]:
    """Errors of the data of a partition name it, without advice about other estimators."""
    try:
        yield
    except (ValueError, TypeError) as error:
        said = str(error).split("\n")
        end = next((i for i, line in enumerate(said) if ADVICE in line), len(said))
        raise type(error)(f"partition {number}: " + "\n".join(said[:end])) from None


def refuse_other_indices(*given: Any) -> None:
    """Raise ValueError for rows, labels and weights of pandas whose indices differ.

    Parameters
    ----------
    *given : object
        Rows, labels, and weights of samples and of positions; only the first may be given.
    """
    # Objects of pandas exist only where it is loaded.
    pandas = sys.modules.get("pandas")
    if pandas is None:
        return
    known = [
        (name, each.index)
        for name, each in zip(ARGUMENTS, given, strict=False)
        if isinstance(each, (pandas.DataFrame, pandas.Series))
    ]
    for name, index in known[1:]:
        first, reference = known[0]
        if not index.equals(reference):
            raise ValueError(
                f"{name} must have the same index as {first}, since they are joined by position: bring "
                f"them into the same order, or pass {name} as an array if its order is right"
            )


def checked_rows(X: Any) -> tuple[Matrix, tuple[str, ...] | None]:
    """Finite rows, which may be none, and the names of their columns."""
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
    """Sparse rows that lack features at the end with these, as CSR; others as they are."""
    if not sp.issparse(X) or X.shape[1] >= n_features:
        return X
    rows = sp.csr_matrix(X)
    return sp.csr_matrix((rows.data, rows.indices, rows.indptr), shape=(rows.shape[0], n_features))


def checked_block(X: Any, y: Any, weights: Any = None) -> Block:
    """The block of a partition of what its collections hold.

    Raises
    ------
    ValueError, TypeError
        If they cannot be used.
    """
    rows, names = checked_rows(X)
    n = rows.shape[0]
    labels = one_a_row(y, n)
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise ValueError("y must hold finite numbers, got NaN or infinity")
    own = np.ones(n)
    if weights is not None and n > 0:
        own = _check_sample_weight(weights, rows, dtype=np.float64, ensure_non_negative=True)
    return Block(rows, labels, own, names)


@dataclass(frozen=True)
class Facts:
    """What the driver has to know of a block.

    Parameters
    ----------
    shape : tuple of two ints
    dtype : dtype
    sparse : bool
    names : tuple of str or None
    weight : float
        The sum of the sample weights.
    summary : object
        Of the labels or targets.
    nbytes : int, default=0
    """

    shape: tuple[int, int]
    dtype: np.dtype
    sparse: bool
    names: tuple[str, ...] | None
    weight: float
    summary: Any
    nbytes: int = 0


def facts(number: int, block: Block, summarize: Callable[[Block], Any]) -> Facts:
    """The facts about the block of a partition, whose number errors name."""
    X = block.X
    with errors_of(number):
        summary = summarize(block)
    weight = float(block.weights.sum())
    return Facts(block.shape, X.dtype, sp.issparse(X), block.names, weight, summary, block.nbytes)


def alike(found: Sequence[Facts]) -> dict[int, Facts]:
    """The facts about partitions that have rows, by their numbers.

    Raises
    ------
    ValueError
        If there are no rows, or partitions have different features. Sparse rows may lack some at the
        end.
    """
    kept = {p: each for p, each in enumerate(found) if each.shape[0]}
    if not kept:
        raise ValueError(f"X must have rows, got {len(found)} partitions without any")
    first, reference = next(iter(kept.items()))
    widest = max(kept, key=lambda p: kept[p].shape[1])
    most = kept[widest].shape[1]
    for p, each in kept.items():
        if each.shape[1] != most and not each.sparse:
            raise ValueError(
                "X must have as many features in all partitions, unless rows are sparse: partition "
                f"{widest} has {most}, partition {p} has {each.shape[1]}"
            )
        if each.names != reference.names:
            raise ValueError(
                f"X must have the same columns in all partitions: partition {p} has others than "
                f"partition {first}"
            )
    return kept


def fingerprint(block: Block) -> str:
    """A text that is the same for equal blocks."""
    return digest(block.told())


@dataclass(frozen=True)
class Recipe:
    """From the rows of any partition to their losses.

    Parameters
    ----------
    problem : callable
        From an estimator, an oracle, what is learned and a block to a `Problem`.
    estimator : InvariantEstimator
        Has the parameters; it is not fitted.
    oracle : InvarianceOracle
        For rows of this shape.
    learned : object
        What is known of all rows.
    space : ExplicitSpace
    """

    problem: Callable[..., Problem]
    estimator: Any
    oracle: InvarianceOracle
    learned: Any
    space: ExplicitSpace

    def term(self, block: Block) -> WorstCase:
        """The losses of a block."""
        return self.problem(self.estimator, self.oracle, self.learned, block).worst_case()
