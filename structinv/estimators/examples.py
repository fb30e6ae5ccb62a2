"""Examples of structured SVMs: reading, weights of labels, choice of the solver."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils import check_array

from ..solvers import FrankWolfe, InteriorPoint, Solver
from ..structures import Layout
from ..structures.bound import check_named_labels
from ..structures.example_blocks import (
    Reader,
    check_no_mask,
    flat_numbers,
    part_of_weights,
    stacked,
)
from ..terms import Objective
from ..utils.matrices import ALL_ROWS, Matrix, check_indices, squared_lengths
from ..utils.parameters import check_number
from .inputs import class_factors
from .tokens import TokenVectorizer, are_tokens, can_be_tokens

# Expected number of planes per example.
PLANES_OF_AN_EXAMPLE = 10
# Above this mean of C |x|^2 per cost of a position, first-order steps are slow. Up to these sizes
# Newton's method is faster.
LONG = 100.0
MOST_WEIGHTS, MOST_EXAMPLES = 1000, 10_000

Tokens = Callable[[Any], tuple[Matrix, np.ndarray]]


@dataclass(frozen=True)
class Examples:
    """Checked examples of a fit.

    - `rows` (n_rows, n_features): rows of all examples
    - `layout`: assignment of positions to examples
    - `labels` (n_positions,): labels of all positions
    - `weights` (n_examples,): sample weights
    - `position_weight` (n_positions,): factors of the costs at each position
    - `names`: columns of data frames
    - `vectorizer`: transformer of tokens to rows
    """

    rows: Matrix
    layout: Layout
    labels: np.ndarray
    weights: np.ndarray
    position_weight: np.ndarray | None
    names: list[str] | None
    vectorizer: TokenVectorizer | None

    @property
    def position_weights(self) -> np.ndarray:
        """Weight of each position, including that of its example."""
        own: np.ndarray = self.weights[self.layout.owners]
        return own if self.position_weight is None else own * self.position_weight


def read_examples(
    estimator: Any, X: Any, y: Any, sample_weight: Any = None, position_weight: Any = None
) -> Examples:
    """Return checked examples in the form of the output structure."""
    structure, vectorizer = estimator.structure, TokenVectorizer(estimator.n_hashed)
    reader = RowReader(estimator, False, vectorizer.fit_rows)
    rows, layout = structure.read(X, reader)
    labels = structure.read_labels(y, layout)
    layout = structure.positions(layout, len(labels))
    weights = part_of_weights(sample_weight, len(layout))
    own = position_weight
    if own is not None:
        own = flat_numbers("position_weight", position_weight, layout.lengths)
    made = vectorizer if hasattr(vectorizer, "n_columns_") else None
    return Examples(rows, layout, labels, weights, own, reader.names, made)


class RowReader(Reader):
    """Reader of rows of examples, with checks of the features of `fit`."""

    def __init__(self, estimator: BaseEstimator, fitted: bool, of_tokens: Tokens | None = None) -> None:
        self.estimator = estimator
        self.of_tokens = of_tokens
        self.known: int | None = estimator.n_features_in_ if fitted else None
        known: Any = getattr(estimator, "feature_names_in_", None) if fitted else None
        self.names: list[str] | None = None if known is None else list(known)
        self.origin = "as in fit" if self.names is not None else "as X[0] has"

    def examples(self, blocks: Sequence[Any]) -> tuple[Matrix, np.ndarray]:
        of_tokens = self.known is not None and self.of_tokens is not None
        if not are_tokens(blocks) and not (of_tokens and can_be_tokens(blocks)):
            for i, block in enumerate(blocks):
                self._check_names(f"X[{i}]", block)
            return stacked(blocks, self.known)
        if self.of_tokens is None:
            raise TypeError("X must contain rows of numbers, as in fit, got tokens with named features")
        return self.of_tokens(blocks)

    def matrix(self, X: Any) -> Matrix:
        self._check_names("X", X)
        check_no_mask("X", X)
        check_indices("X", X)
        # The check sums all values, and infinities of both signs have no sum.
        with np.errstate(invalid="ignore"):
            found = check_array(
                X,
                accept_sparse="csr",
                dtype=[np.float64, np.float32],
                estimator=self.estimator,
                input_name="X",
            )
        if self.known is not None and found.shape[1] != self.known:
            raise ValueError(f"X must have {self.known} features, as in fit, got {found.shape[1]}")
        if sp.issparse(found) and not found.has_canonical_format:
            found = found.copy()
            found.sum_duplicates()
        return found

    def _check_names(self, place: str, block: Any) -> None:
        """Raise ValueError if a data frame has other columns than those before it, or in `fit`."""
        columns = list(getattr(block, "columns", ()))
        if not columns or not all(isinstance(name, str) for name in columns):
            return
        if self.names is None:
            self.names = columns
        if columns != self.names:
            raise ValueError(
                f"{place} must have the columns {self.names} in this order, {self.origin}, got {columns}"
            )


def solver_for(objective: Objective, length: float) -> tuple[Solver, str]:
    """Return the automatic solver for linear structured models, and the reason."""
    space: Any = objective.space
    if space.size > MOST_WEIGHTS:
        return FrankWolfe(), f"there are more than {MOST_WEIGHTS} weights"
    if objective.n_blocks > MOST_EXAMPLES:
        return FrankWolfe(), f"there are more than {MOST_EXAMPLES} examples"
    if length > LONG:
        return InteriorPoint(), f"the mean of C |x|^2 is above {LONG:g}"
    return FrankWolfe(), f"the mean of C |x|^2 is at most {LONG:g}"


def length_of_rows(term: Any) -> float:
    """Return the mean of ``C |x|^2`` over rows, per mean cost of a position."""
    bound_structure = term.bound_structure
    layout = bound_structure.layout
    squares = squared_lengths(term.X)
    # Several positions of one row have the same |x|^2.
    means = squares if bound_structure.structure.one_row else layout.sums(squares) / layout.lengths
    mean_largest_cost = float(np.mean(bound_structure.costs(ALL_ROWS).max(axis=1)))
    return float(np.mean(term.weights * means)) / mean_largest_cost if mean_largest_cost > 0 else 0.0


def label_factors(
    class_weight: Any, classes: np.ndarray, codes: np.ndarray, own: np.ndarray
) -> np.ndarray | None:
    """Return the factor of each label by `class_weight`; None if all are 1.

    Shapes: `classes` (n_labels,), `codes` (n,), `own` (n,); returns (n_labels,).
    """
    if class_weight is None:
        return None
    if isinstance(class_weight, dict):
        check_named_labels("class_weight", class_weight, classes)
        places = {label: place for place, label in enumerate(classes.tolist())}
        for label, factor in class_weight.items():
            check_number(f"class_weight[{label!r}]", factor)
        class_weight = {places[label]: factor for label, factor in class_weight.items()}
    return class_factors(class_weight, np.arange(len(classes)), codes, own)
