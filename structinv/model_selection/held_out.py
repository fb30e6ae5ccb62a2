"""Folds and scores for samples in memory, samples in blocks, and examples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Scores:
    """Scores of one fit on held-out samples.

    - `clean`: score without perturbations
    - `certified`: score after every perturbation, for each oracle
    - `constant`: whether all predictions are the same label
    """

    clean: float
    certified: list[float]
    constant: bool


class HeldOutRows:
    """Folds and scores of samples with one label each."""

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

    def check_scoring(self, scoring: Any, y: Any, folds: Sequence[Fold]) -> None:
        """Raise ValueError unless a scorer of detection rates supports the labels."""
        if scoring is None:
            return
        labels = np.unique(y)
        if len(labels) != 2:
            raise ValueError(
                f"y must have two labels for the detection rates of scoring, got {len(labels)}: leave "
                "scoring out"
            )
        for _, test in folds:
            found = self.labels(y, test)
            if len(found) < 2:
                raise ValueError(
                    "cv must return test folds with both labels for detection rates, got only "
                    f"{', '.join(map(repr, found))}: use fewer folds, or shuffle the samples"
                )

    def part(self, X: Any, y: Any, rows: np.ndarray) -> tuple[Any, Any]:
        """Return some samples and their labels."""
        return _safe_indexing(X, rows), _safe_indexing(y, rows)

    def scores(
        self, model: Any, X: Any, y: Any, oracles: Sequence[InvarianceOracle], scoring: Any = None
    ) -> Scores:
        """Return accuracies, or the scores of a scorer, of a fitted model."""
        predicted = model.predict(X)
        constant = len(np.unique(predicted)) == 1
        if scoring is not None:
            clean = scoring(model, X, y, oracle=oracles[0], measure="clean")
            return Scores(clean, [scoring(model, X, y, oracle=each) for each in oracles], constant)
        certified = [self._certified(model, each, X, y) for each in oracles]
        return Scores(float(np.mean(predicted == y)), certified, constant)

    def _certified(self, model: Any, oracle: InvarianceOracle, X: Any, y: Any) -> float:
        return certify(model, oracle, X, y).accuracy


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

    def _certified(self, model: Any, oracle: InvarianceOracle, X: Any, y: Any) -> float:
        return model.certify(X, y, oracle=oracle).accuracy


class HeldOutExamples(HeldOutRows):
    """Folds of examples with several positions, and accuracies of positions."""

    def checked(self, X: Any, y: Any) -> tuple[Any, Any]:
        as_list("y", y, "labels")
        return tuple(indexable(X, y))

    def folds(self, cv: Any, X: Any, y: Any) -> list[Fold]:
        """Return the example indices of all folds; a number means consecutive folds."""
        return list(check_cv(cv).split(X, y))

    def check_scoring(self, scoring: Any, y: Any, folds: Sequence[Fold]) -> None:
        if scoring is not None:
            raise TypeError("scoring must be None for InvariantStructuredSVC: leave it out")

    def labels(self, y: Any, rows: np.ndarray) -> set[Any]:
        try:
            return set(chain.from_iterable(_safe_indexing(y, rows)))
        except TypeError:
            # The fit raises an error with the position.
            return set()

    def scores(
        self, model: Any, X: Any, y: Any, oracles: Sequence[InvarianceOracle], scoring: Any = None
    ) -> Scores:
        steps, last = opened(model)
        rows = transformed(X, steps)
        found = [last.certify(rows, y, oracle=each).position_accuracy for each in oracles]
        labels = {label for each in last.predict(rows) for label in np.ravel(each).tolist()}
        return Scores(float(last.score(rows, y)), found, len(labels) == 1)


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
