"""Base class of structured SVMs: reading of examples and scores."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..oracles import InvarianceOracle
from ..oracles.columns import with_numbers
from ..structures import Layout, Structure
from ..structures.example_blocks import check_some, sorted_classes
from ..structures.label_codes import encode_labels
from ..utils.matrices import Matrix
from .example_inputs import Examples, RowReader, label_factors, read_examples
from .parameters import check_oracle_type
from .problem import Problem
from .row_shapes import for_oracle
from .support_vectors import SupportVectorMachine
from .tokens import TokenVectorizer


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
            fingerprinted=(examples.labels, layout.compared_fields(), examples.position_weight),
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
