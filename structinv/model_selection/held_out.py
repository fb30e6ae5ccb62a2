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

from ..estimators import CustomStructuredSVC, InvariantStructuredSVC
from ..foreign import certify
from ..oracles import InvarianceOracle
from ..structures.example_blocks import as_list

Fold = tuple[np.ndarray, np.ndarray]


class HeldOutRows:
    """Rows, each with its label; shares are those of rows."""

    def checked(self, X: Any, y: Any) -> tuple[Any, Any]:
        """X and y, of one length, so that parts of them can be taken."""
        X, y = indexable(X, column_or_1d(y))
        check_classification_targets(y)
        return X, y

    def splitter(self, cv: Any, y: Any) -> Any:
        """What makes folds: a number stands for stratified ones."""
        return check_cv(cv, y, classifier=True)

    def labels(self, y: Any, rows: np.ndarray) -> set[Any]:
        """All labels of some rows."""
        return set(y[rows].tolist())

    def shares(
        self, model: Any, X: Any, y: Any, oracles: Sequence[InvarianceOracle]
    ) -> tuple[float, list[float]]:
        """How many are right, and certified against each of the oracles."""
        clean = float(np.mean(model.predict(X) == y))
        return clean, [certify(model, each, X, y).accuracy for each in oracles]


class HeldOutExamples(HeldOutRows):
    """Examples, each with the labels of its positions; shares are those of positions."""

    def checked(self, X: Any, y: Any) -> tuple[Any, Any]:
        as_list("y", y, "labels")
        return tuple(indexable(X, y))

    def splitter(self, cv: Any, y: Any) -> Any:
        """See `HeldOutRows.splitter`: a number stands for folds in the order of the examples."""
        return check_cv(cv)

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


def held_out(model: Any) -> HeldOutRows:
    """How a model is held against rows or examples that it has not seen; TypeError if it cannot be."""
    last = model
    while isinstance(last, Pipeline):
        last = last.steps[-1][1]
    if isinstance(last, CustomStructuredSVC):
        raise TypeError("model must have certificates, and CustomStructuredSVC has none")
    return HeldOutExamples() if isinstance(last, InvariantStructuredSVC) else HeldOutRows()
