"""What is fitted and counted on folds: rows with a label each, or examples of several positions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
from sklearn.model_selection import check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, indexable
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from ..estimators import CustomStructuredSVC, InvariantLinearSVC, InvariantStructuredSVC
from ..estimators.row_sources import refuse_sources
from ..foreign import certify
from ..oracles import InvarianceOracle
from ..rows import RowSource, SomeRows
from ..structures.example_blocks import as_list

Fold = tuple[np.ndarray, np.ndarray]


class HeldOutRows:
    """Rows, each with its label; shares are those of rows."""

    def checked(self, X: Any, y: Any) -> tuple[Any, Any]:
        """X and y, of one length, so that parts of them can be taken."""
        X, y = indexable(X, column_or_1d(y))
        check_classification_targets(y)
        return X, y

    def folds(self, cv: Any, X: Any, y: Any) -> list[Fold]:
        """Row numbers of training and test parts; a number stands for stratified folds."""
        return list(check_cv(cv, y, classifier=True).split(X, y))

    def labels(self, y: Any, rows: np.ndarray) -> set[Any]:
        """All labels of some rows."""
        return set(np.unique(y[rows]).tolist())

    def part(self, X: Any, y: Any, rows: np.ndarray) -> tuple[Any, Any]:
        """Some rows, and their labels."""
        return _safe_indexing(X, rows), _safe_indexing(y, rows)

    def shares(
        self, model: Any, X: Any, y: Any, oracles: Sequence[InvarianceOracle]
    ) -> tuple[float, list[float]]:
        """How many are right, and certified against each of the oracles."""
        clean = float(np.mean(model.predict(X) == y))
        return clean, [certify(model, each, X, y).accuracy for each in oracles]


class HeldOutInBlocks(HeldOutRows):
    """Rows that are read in blocks; folds are those of the same rows in memory."""

    def checked(self, X: RowSource, y: Any) -> tuple[RowSource, Any]:
        y = column_or_1d(y)
        if len(y) != X.shape[0]:
            raise ValueError(f"y must have a label for each of the {X.shape[0]} rows, got {len(y)}")
        check_classification_targets(y)
        return X, y

    def folds(self, cv: Any, X: RowSource, y: Any) -> list[Fold]:
        # Splitters look at nothing but the number of rows.
        shown = np.broadcast_to(0.0, (len(y), 1))
        kind = np.int32 if len(y) <= np.iinfo(np.int32).max else np.int64
        found = check_cv(cv, y, classifier=True).split(shown, y)
        return [(np.sort(train).astype(kind), np.sort(test).astype(kind)) for train, test in found]

    def part(self, X: RowSource, y: Any, rows: np.ndarray) -> tuple[Any, Any]:
        return SomeRows(X, rows), y[rows]

    def shares(
        self, model: Any, X: Any, y: Any, oracles: Sequence[InvarianceOracle]
    ) -> tuple[float, list[float]]:
        certificates = (model.certify(X, y, oracle=each) for each in oracles)
        return float(model.score(X, y)), [each.accuracy for each in certificates]


class HeldOutExamples(HeldOutRows):
    """Examples, each with the labels of its positions; shares are those of positions."""

    def checked(self, X: Any, y: Any) -> tuple[Any, Any]:
        as_list("y", y, "labels")
        return tuple(indexable(X, y))

    def folds(self, cv: Any, X: Any, y: Any) -> list[Fold]:
        """See `HeldOutRows.folds`: a number stands for folds in the order of the examples."""
        return list(check_cv(cv).split(X, y))

    def labels(self, y: Any, rows: np.ndarray) -> set[Any]:
        try:
            return set(chain.from_iterable(_safe_indexing(y, rows)))
        except TypeError:
            # What is no list of labels, the fit refuses by its place.
            return set()

    def shares(
        self, model: Any, X: Any, y: Any, oracles: Sequence[InvarianceOracle]
    ) -> tuple[float, list[float]]:
        rows, last = X, model
        while isinstance(last, Pipeline):
            rows, last = last[:-1].transform(rows) if len(last) > 1 else rows, last[-1]
        found = [last.certify(rows, y, oracle=each).position_accuracy for each in oracles]
        return float(last.score(rows, y)), found


def held_out(model: Any, X: Any) -> HeldOutRows:
    """How a model is held against rows or examples that it has not seen; TypeError if it cannot be."""
    if isinstance(X, RowSource):
        if not isinstance(model, InvariantLinearSVC):
            refuse_sources(model, X)
        return HeldOutInBlocks()
    last = model
    while isinstance(last, Pipeline):
        last = last.steps[-1][1]
    if isinstance(last, CustomStructuredSVC):
        raise TypeError("model must have certificates, and CustomStructuredSVC has none")
    return HeldOutExamples() if isinstance(last, InvariantStructuredSVC) else HeldOutRows()
