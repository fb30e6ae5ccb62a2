"""What classifiers of rows share: labels, what they cost, predictions and certificates."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin

from ..certificates.certificate import Certificate, WorstChange, warn_of_unit_length
from ..oracles import InvarianceOracle
from ..solvers import Solution
from ..structures import Binary, Multiclass, Structure
from ..structures.bound import BoundStructure, predicted
from ..structures.label_codes import check_cost, check_rescaling
from ..terms import Objective
from ..utils.matrices import Matrix
from .base import InvariantEstimator
from .parameters import check_oracle_type
from .problem import HINGE, Problem, check_margin_loss, check_two_classes
from .row_sources import sample_of
from .target_labels import check_targets, class_factors, one_label_a_row
from .uninformative_fits import warn_if_uninformative


class InvariantClassifier(ClassifierMixin, InvariantEstimator):
    """A classifier trained on the worst case of an oracle's changes, and certified against them."""

    loss: str
    class_weight: dict | str | None
    cost: ArrayLike | None = None
    rescaling: str = "margin"

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_rescaling(self.rescaling)
        check_margin_loss(self.loss, check_oracle_type(self.oracle), self.cost, self.rescaling)

    def _read(self, X: Any, y: Any, sample_weight: Any) -> Problem:
        rows, y, oracle = self._read_rows(X, y)
        return self._of_labels(rows, y, oracle, sample_weight)

    def _of_labels(
        self, rows: Matrix, y: np.ndarray, oracle: InvarianceOracle, sample_weight: Any
    ) -> Problem:
        """The problem in checked rows and their labels."""
        check_targets(y)
        classes, codes = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            (only,) = classes.tolist()
            raise ValueError(f"y must hold at least two classes, got one class: {only!r}")
        oracle.check_labels(classes)
        self._check_costs(len(classes))
        own = self._own_weights(rows, sample_weight)
        weights = self.C * own * class_factors(self.class_weight, classes, y, own)[codes]
        if not np.any(weights > 0):
            raise ValueError("sample_weight must leave a sample with a weight above 0")
        return self._of_classes(rows, y, classes, oracle, weights)

    def _check_costs(self, n_classes: int) -> None:
        """Raise ValueError unless loss and costs go with so many classes."""
        check_two_classes(self.loss, n_classes)
        check_cost(self.cost, n_classes)

    def _of_classes(
        self,
        rows: Matrix,
        y: np.ndarray,
        classes: np.ndarray,
        oracle: InvarianceOracle,
        weights: np.ndarray,
    ) -> Problem:
        """The problem in rows with labels of these classes, and with these weights, C included."""
        return Problem(
            rows,
            y,
            oracle,
            self._structure(len(classes)),
            weights,
            told=y,
            learned={"classes_": classes},
            loss=self.loss,
            classes=classes,
            cost=self.cost,
            rescaling=self.rescaling,
        )

    def _structure(self, n_classes: int) -> Structure:
        return Binary() if n_classes == 2 else Multiclass()

    def _look_at(self, problem: Problem, objective: Objective, solution: Solution, left: float) -> None:
        """Warn where the oracle's changes leave next to nothing to learn."""
        warn_if_uninformative(self, problem, objective, solution, left, stacklevel=5)

    @abstractmethod
    def _worst_change(
        self, X: Matrix, labels: BoundStructure, oracle: InvarianceOracle, points: bool
    ) -> WorstChange:
        """The worst change of each row that the oracle finds, and bounds on all others."""

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
        return predicted(self._structure(n_classes), n_classes, scores)

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
        X, labels, oracle = self._labeled(X, y, oracle)
        if y is None:
            oracle = oracle.for_any_label()
        warn_of_unit_length(oracle, sample_of(X), stacklevel=3)
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
        rows, labels, oracle = self._labeled(X, y, oracle)
        points: Any = self._worst_change(rows, labels, oracle, points=True).points
        return self._as_given(X, rows, points)

    def _labeled(
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

    def __sklearn_tags__(self) -> Any:
        """More than two classes with the hinge alone."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self.loss == HINGE
        return tags
