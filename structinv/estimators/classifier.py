"""What classifiers of rows share: labels, what they cost, predictions and certificates."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin

from ..certificates import Certificate, WorstChange, warn_of_unit_length
from ..matrices import Matrix
from ..objective import Objective, WorstCase
from ..oracles import InvarianceOracle
from ..solvers import Solution, Solver
from ..structures import Binary, Multiclass, Structure
from ..structures.bound import BoundStructure, best_labels
from .base import InvariantEstimator, class_factors
from .estimates import checked_labels
from .labels import check_targets, one_label_a_row
from .truth import Truth
from .uninformative import Trained, seconds_left, warn_if_uninformative


class InvariantClassifier(ClassifierMixin, InvariantEstimator):
    """A classifier trained on the worst case of an oracle's changes, and certified against them.

    Subclasses store `class_weight`, too.
    """

    def _truth(self, X: Matrix, y: np.ndarray, oracle: InvarianceOracle, sample_weight: Any) -> Truth:
        check_targets(y)
        classes, codes = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            (only,) = classes.tolist()
            raise ValueError(f"y must hold at least two classes, got one class: {only!r}")
        oracle.check_labels(classes)
        cost = self._cost(len(classes))
        weights = self._weights(X, y, codes, classes, sample_weight)
        return Truth(y, self._structure(len(classes)), weights, cost, {"classes_": classes}, y)

    def _told(self, X: Matrix, y: Any) -> tuple[np.ndarray | None, int, int]:
        labels = checked_labels(X, y)
        n_classes = 2 if labels is None else len(np.unique(labels))
        return labels, 1 if n_classes == 2 else n_classes, n_classes

    def _structure(self, n_classes: int) -> Structure:
        return Binary() if n_classes == 2 else Multiclass()

    def _cost(self, n_classes: int) -> dict[str, Any]:
        """What labels cost, as `WorstCase` takes it, checked; by default every error costs 1."""
        return {}

    def _look_at_fit(
        self, X: Matrix, term: WorstCase, objective: Objective, solution: Solution, used: float
    ) -> None:
        """Warn where the oracle's changes leave next to nothing to learn."""

        def plain(unchanged: WorstCase) -> tuple[Objective, Solver]:
            space = self._new_space(X, unchanged)
            same = Objective(space, [unchanged, *self._penalties(space)])
            return same, self._best_solver(same)

        name = type(self).__name__
        left = seconds_left(self.max_seconds, used + solution.seconds)
        trained = Trained(name, term, objective, solution, lambda: self._scores(X), plain, left)
        warn_if_uninformative(trained, stacklevel=5)

    @abstractmethod
    def _worst_change(
        self, X: Matrix, labels: BoundStructure, oracle: InvarianceOracle, points: bool
    ) -> WorstChange:
        """The worst change of each row that the oracle finds, and bounds on all others."""

    def _weights(
        self, X: Matrix, y: np.ndarray, codes: np.ndarray, classes: np.ndarray, sample_weight: Any
    ) -> np.ndarray:
        """C times class weights times sample weights."""
        own = self._own_weights(X, sample_weight)
        factors = class_factors(self.class_weight, classes, y, own)
        weights = self.C * own * factors[codes]
        if not np.any(weights > 0):
            raise ValueError("sample_weight must leave a sample with a weight above 0")
        return weights

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores: (n,) for two classes, positive for ``classes_[1]``; (n, n_classes) for more."""
        scores = self._checked_scores(X)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> np.ndarray:
        """Predicted labels, (n,)."""
        scores = self._checked_scores(X)
        return self.classes_[self._best_labels(scores)]

    def _best_labels(self, scores: np.ndarray) -> np.ndarray:
        n_classes = len(self.classes_)
        return best_labels(self._structure(n_classes), n_classes, scores)

    def certify(self, X: Any, y: Any = None, *, oracle: InvarianceOracle | None = None) -> Certificate:
        """What no allowed change of the rows can turn.

        Parameters
        ----------
        X : (n, n_features) array-like, or sparse matrix where the estimator takes it
        y : (n,) array-like, optional
            True labels; without them it is certified that the prediction does not change, right or
            wrong: an oracle for rows of some labels is then asked about all rows.
        oracle : InvarianceOracle, optional
            What may change; by default what the model was trained for.

        Returns
        -------
        Certificate
            ``margins``, ``correct``, ``accuracy``, ``exact`` and ``attacked``. It speaks of changes
            in the feature space that the model was given, not of the raw input, and is as true as
            what the oracle says of its answers: ``structinv.oracles.check_oracle`` is the test of
            an oracle of your own.

        Warns
        -----
        UnitLengthWarning
            Of rows of length 1 whose single features are edited.
        """
        X, labels, oracle = self._labelled(X, y, oracle)
        if y is None:
            oracle = oracle.for_any_label()
        warn_of_unit_length(oracle, X, stacklevel=3)
        return self._worst_change(X, labels, oracle, points=False).certificate()

    def worst_case(self, X: Any, y: Any = None, *, oracle: InvarianceOracle | None = None) -> Matrix:
        """The rows after the allowed change that lowers the margin of their label most.

        Parameters
        ----------
        X : (n, n_features) array-like, or sparse matrix where the estimator takes it
        y : (n,) array-like, optional
            True labels; without them the predictions take their place.
        oracle : InvarianceOracle, optional
            What may change; by default what the model was trained for.

        Returns
        -------
        (n, n_features) array or CSR matrix
            Sparse if `X` is, and of the shape of `X` where that is a stack of images.
        """
        rows, labels, oracle = self._labelled(X, y, oracle)
        points: Any = self._worst_change(rows, labels, oracle, points=True).points
        return self._as_given(X, rows, points)

    def _labelled(
        self, X: Any, y: Any, oracle: InvarianceOracle | None
    ) -> tuple[Matrix, BoundStructure, InvarianceOracle]:
        """Checked rows, their labels in the structure trained for, and the oracle to ask."""
        X, oracle = self._rows_to_change(X, oracle)
        oracle.check_labels(self.classes_)
        return X, self._bound_labels(X, y), oracle

    def _bound_labels(self, X: Matrix, y: Any) -> BoundStructure:
        """The labels of checked rows, or where there are none the predictions, in the structure."""
        if y is None:
            y = self.classes_[self._best_labels(self._scores(X))]
        y = one_label_a_row(y, X.shape[0])
        return self._structure(len(self.classes_)).bind(y, self.classes_)
