"""Base class of structured SVMs: reading of examples, scores and the solver."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils import check_array

from ..oracles import InvarianceOracle
from ..oracles.columns import with_numbers
from ..solvers import FrankWolfe, InteriorPoint, Solver
from ..structures import Layout, Structure
from ..structures.bound import check_named_labels, encode_labels
from ..structures.example_blocks import (
    Reader,
    check_no_mask,
    check_some,
    flat_numbers,
    part_of_weights,
    sorted_classes,
    stacked,
)
from ..terms import Objective
from ..utils.matrices import ALL_ROWS, Matrix, check_indices, squared_lengths
from ..utils.parameters import check_number
from .base import Problem
from .inputs import check_oracle_type, class_factors, for_oracle
from .support_vectors import SupportVectorMachine
from .tokens import TokenVectorizer, are_tokens, can_be_tokens

# Expected number of planes per example.
PLANES_OF_AN_EXAMPLE = 10
# Above this mean of C |x|^2 per cost of a position, first-order steps are slow. Up to these sizes
# Newton's method is faster.
LONG = 100.0
MOST_WEIGHTS, MOST_EXAMPLES = 1000, 10_000

Tokens = Callable[[Any], tuple[Matrix, np.ndarray]]


class ExampleMachine(SupportVectorMachine):
    """Base class of estimators that label all rows of an example jointly."""

    structure: Structure
    cost: Any
    class_weight: dict | str | None
    n_hashed: int | None
    structure_: Structure
    vectorizer_: TokenVectorizer | None
    classes_: np.ndarray
    coef_: np.ndarray

    @property
    def _linear(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == "linear"

    def _read(self, X: Any, y: Any, sample_weight: Any, position_weight: Any = None) -> Problem:
        found = read_examples(self, X, y, sample_weight, position_weight)
        check_some("sample_weight", found.weights, "example")
        if found.position_weight is not None:
            check_some("position_weight", found.position_weight, "position")
        classes = self._classes(found.labels)
        oracle = self._oracle_of(classes, found.names)
        rows = self._for_oracle(found.rows, oracle)
        codes = encode_labels(found.labels, classes)[1]
        own = found.position_weights
        factors = self._label_factors(classes, codes, self.C * found.weights[found.layout.owners])
        self._check_weights(own if factors is None else factors[codes] * own)
        learned = self._known(classes, rows.shape[1], found.names, found.vectorizer)
        found = replace(found, rows=rows)
        return self._of_examples(found, classes, factors, oracle, self.structure, learned)

    def _classes(self, labels: np.ndarray) -> np.ndarray:
        """Return the distinct labels; ValueError for fewer than two."""
        classes = sorted_classes(labels)
        if len(classes) < 2:
            raise ValueError(
                f"y must contain at least two classes, got one class: {classes.tolist()[0]!r}"
            )
        return classes

    def _oracle_of(self, classes: np.ndarray, names: list[str] | None) -> InvarianceOracle:
        """Return the oracle for rows with these labels and columns."""
        oracle = check_oracle_type(self.oracle)
        oracle.check_labels(classes)
        return with_numbers(oracle, names)

    def _label_factors(
        self, classes: np.ndarray, codes: np.ndarray, own: np.ndarray
    ) -> np.ndarray | None:
        """Return the factor of each label by `class_weight`; None if all are 1."""
        if self.class_weight is None:
            return None
        return label_factors(self.class_weight, classes, codes, own)

    def _check_weights(self, each: np.ndarray) -> None:
        """Raise ValueError unless some position has a weight above 0."""
        if not np.any(each > 0):
            raise ValueError(
                "the product of class_weight, position_weight and sample_weight must be above 0 for "
                f"at least one position, got class_weight={self.class_weight!r}"
            )

    def _known(
        self,
        classes: np.ndarray,
        n_features: int,
        names: list[str] | None,
        vectorizer: TokenVectorizer | None,
    ) -> dict[str, Any]:
        """Return attributes of the fitted estimator; names of an earlier fit are removed."""
        if hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        learned = {"classes_": classes, "n_features_in_": n_features, "vectorizer_": vectorizer}
        if names is not None:
            learned["feature_names_in_"] = np.array(names, dtype=object)
        return learned

    def _of_examples(
        self,
        examples: Examples,
        classes: np.ndarray,
        factors: np.ndarray | None,
        oracle: InvarianceOracle,
        structure: Structure,
        learned: dict[str, Any],
    ) -> Problem:
        """Return the problem for some or all examples.

        Shapes: `classes` (n_labels,), `factors` (n_labels,).
        """
        layout, weights = examples.layout, np.ones(examples.layout.n_rows)
        if examples.position_weight is not None:
            weights *= examples.position_weight
        if factors is not None:
            weights *= factors[encode_labels(examples.labels, classes)[1]]
        if isinstance(self.cost, str) and self.cost == "mean_hamming":
            weights /= layout.lengths[layout.owners]
        return Problem(
            examples.rows,
            examples.labels,
            oracle,
            structure,
            self.C * examples.weights,
            learned=learned,
            classes=classes,
            layout=layout,
            cost=None if isinstance(self.cost, str) else self.cost,
            position_weight=None if np.all(weights == 1.0) else weights,
        )

    def _for_oracle(self, X: Matrix, oracle: InvarianceOracle) -> Matrix:
        """Return checked rows in a form that oracle and kernel support."""
        if sp.issparse(X) and not self._linear:
            raise TypeError(
                f"kernel={self.kernel!r} does not support sparse rows: pass each X[i] as a dense array"
            )
        return for_oracle(X, oracle, "each X[i] as a dense array")

    def _known_examples(self, X: Any) -> tuple[Matrix, Layout]:
        """Return checked rows with the features of `fit`, and their layout."""
        of_tokens = None if self.vectorizer_ is None else self.vectorizer_.rows
        return self.structure.read(X, RowReader(self, True, of_tokens))

    def _known_labels(self, y: Any, layout: Layout) -> np.ndarray:
        """Return checked labels, as many per row as in `fit`."""
        labels = self.structure_.read_labels(y, layout)
        each = len(self.coef_ if self._linear else self.dual_coef_)
        if self.structure_.one_row and len(labels) != each * len(layout):
            given = len(labels) // len(layout)
            raise ValueError(f"y must have {each} labels per row, as in fit, got {given}")
        return labels

    def _of_those_with_rows(self, X: Any, answer: Any, empty: np.ndarray) -> Any:
        """Return results of examples with rows, and an empty result for the others."""
        if getattr(X, "dtype", None) == np.dtype(object) and X.ndim == 1:
            X = list(X)
        if not isinstance(X, (list, tuple)):
            return answer(X)
        lengths = [self._length(each) for each in X]
        if all(lengths):
            return answer(X)
        if not any(lengths):
            return [empty for _ in lengths]
        found = iter(answer([each for each, length in zip(X, lengths, strict=True) if length]))
        return [next(found) if length else empty for length in lengths]

    def _length(self, example: Any) -> int:
        """Return the number of rows of an example; 1 for objects that later raise an error."""
        can_be_one = sp.issparse(example) or hasattr(example, "__len__")
        return self.structure.length(example) if can_be_one else 1


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
) -> np.ndarray:
    """Return the factor of each label by `class_weight`, (n_labels,).

    Shapes: `classes` (n_labels,), `codes` (n,), `own` (n,).
    """
    if isinstance(class_weight, dict):
        check_named_labels("class_weight", class_weight, classes)
        places = {label: place for place, label in enumerate(classes.tolist())}
        for label, factor in class_weight.items():
            check_number(f"class_weight[{label!r}]", factor)
        class_weight = {places[label]: factor for label, factor in class_weight.items()}
    return class_factors(class_weight, np.arange(len(classes)), codes, own)
