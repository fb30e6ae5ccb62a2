"""Folds and accuracies for samples in memory, samples in blocks, and examples."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing, indexable
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from ..estimators import CustomStructuredSVC, InvariantLinearSVC, InvariantStructuredSVC
from ..estimators.row_sources import refuse_sources
from ..estimators.target_labels import as_labels
from ..oracles import InvarianceOracle
from ..other_models import certify
from ..other_models.layers import opened, transformed
from ..rows import RowSource, SomeRows
from ..structures.example_blocks import as_list

Fold = tuple[np.ndarray, np.ndarray]


class HeldOutRows:
    """Folds and accuracies of samples with one label each."""

    def checked(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Return X and y in an indexable form, of equal length."""
        X, y = indexable(X, column_or_1d(as_labels(y)))
        check_classification_targets(y)
        return X, y

    def folds(self, cv: Any, X: Any, y: Any) -> list[Fold]:
        """Return the sample indices of all folds; a number means stratified folds."""
        return list(check_cv(cv, y, classifier=True).split(X, y))

    def labels(self, y: Any, rows: np.ndarray) -> set[Any]:
        """Return all labels of some samples."""
        return set(np.unique(y[rows]).tolist())

    def part(self, X: Any, y: Any, rows: np.ndarray) -> tuple[Any, Any]:
        """Return some samples and their labels."""
        return _safe_indexing(X, rows), _safe_indexing(y, rows)

    def accuracies(
        self, model: Any, X: Any, y: Any, oracles: Sequence[InvarianceOracle]
    ) -> tuple[float, list[float]]:
        """Return the accuracy, and the certified accuracy against each oracle."""
        clean = float(np.mean(model.predict(X) == y))
        return clean, [certify(model, each, X, y).accuracy for each in oracles]


class HeldOutInBlocks(HeldOutRows):
    """Folds of samples in blocks; they equal the folds of the same samples in memory."""

    def checked(self, X: RowSource, y: Any) -> tuple[RowSource, Any]:
        y = column_or_1d(as_labels(y))
        if len(y) != X.shape[0]:
            raise ValueError(f"y must have a label for each of the {X.shape[0]} rows, got {len(y)}")
        check_classification_targets(y)
        return X, y

    def folds(self, cv: Any, X: RowSource, y: Any) -> list[Fold]:
        # Splitters use only the number of samples.
        shown = np.broadcast_to(0.0, (len(y), 1))
        kind = np.int32 if len(y) <= np.iinfo(np.int32).max else np.int64
        found = check_cv(cv, y, classifier=True).split(shown, y)
        return [(np.sort(train).astype(kind), np.sort(test).astype(kind)) for train, test in found]

    def part(self, X: RowSource, y: Any, rows: np.ndarray) -> tuple[Any, Any]:
        return SomeRows(X, rows), y[rows]

    def accuracies(
        self, model: Any, X: Any, y: Any, oracles: Sequence[InvarianceOracle]
    ) -> tuple[float, list[float]]:
        certificates = (model.certify(X, y, oracle=each) for each in oracles)
        return float(model.score(X, y)), [each.accuracy for each in certificates]


class HeldOutExamples(HeldOutRows):
    """Folds of examples with several positions, and accuracies of positions."""

    def checked(self, X: Any, y: Any) -> tuple[Any, Any]:
        as_list("y", y, "labels")
        return tuple(indexable(X, y))

    def folds(self, cv: Any, X: Any, y: Any) -> list[Fold]:
        """Return the example indices of all folds; a number means consecutive folds."""
        return list(check_cv(cv).split(X, y))

    def labels(self, y: Any, rows: np.ndarray) -> set[Any]:
        try:
            return set(chain.from_iterable(_safe_indexing(y, rows)))
        except TypeError:
            # The fit raises an error with the position.
            return set()

    def accuracies(
        self, model: Any, X: Any, y: Any, oracles: Sequence[InvarianceOracle]
    ) -> tuple[float, list[float]]:
        steps, last = opened(model)
        rows = transformed(X, steps)
        found = [last.certify(rows, y, oracle=each).position_accuracy for each in oracles]
        return float(last.score(rows, y)), found


def held_out(model: Any, X: Any) -> HeldOutRows:
    """Return the kind of folds for a model; TypeError without certificates."""
    if isinstance(X, RowSource):
        if not isinstance(model, InvariantLinearSVC):
            refuse_sources(model, X)
        return HeldOutInBlocks()
    _, last = opened(model)
    if isinstance(last, CustomStructuredSVC):
        raise TypeError("model must have certify, got CustomStructuredSVC, which has no certificates")
    return HeldOutExamples() if isinstance(last, InvariantStructuredSVC) else HeldOutRows()
