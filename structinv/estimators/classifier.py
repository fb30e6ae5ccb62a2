"""Base class of classifiers: classes, costs, predictions and certificates."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin

from ..certificates.certificate import Certificate, WorstChange, warn_of_row_lengths
from ..oracles import InvarianceOracle
from ..solvers import Solution
from ..structures import Binary, Multiclass, Structure
from ..structures.bound import BoundStructure, check_cost, check_rescaling
from ..structures.example_blocks import check_some
from ..terms import Objective
from ..utils.matrices import Matrix
from .advice import warn_if_uninformative
from .base import HINGE, InvariantEstimator, Problem, check_margin_loss, check_two_classes
from .inputs import (
    check_oracle_type,
    check_targets,
    checked_weights,
    class_factors,
    one_label_a_row,
    sample_of,
)


class LabelingEstimator(ClassifierMixin, InvariantEstimator):
    """Base class of classifiers: scores and labels."""

    classes_: np.ndarray

    def _structure(self, n_classes: int) -> Structure:
        return Binary() if n_classes == 2 else Multiclass()

    def decision_function(self, X: Any) -> np.ndarray:
        """Compute the scores of samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples, in a form that `fit` supports.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            One score per sample for two classes; it is positive for ``classes_[1]``. One score per class
            for more classes.
        """
        scores = self._checked_scores(X)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> np.ndarray:
        """Predict the labels of samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples, in a form that `fit` supports.

        Returns
        -------
        ndarray of shape (n_samples,)
            Predicted labels.
        """
        scores = self._checked_scores(X)
        return self.classes_[self._best_labels(scores)]

    def _best_labels(self, scores: np.ndarray) -> np.ndarray:
        """Return the index of the label with the highest score for each row."""
        if len(self.classes_) == 2:
            return (scores[:, 0] > 0).astype(np.intp)
        return np.argmax(scores, axis=1)


class InvariantClassifier(LabelingEstimator):
    """Base class of classifiers with worst-case training and certificates."""

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
        """Return the problem for checked rows and labels."""
        check_targets(y)
        classes = np.unique(y)
        if len(classes) < 2:
            (only,) = classes.tolist()
            raise ValueError(f"y must contain at least two classes, got one class: {only!r}")
        oracle.check_labels(classes)
        self._check_costs(classes)
        own = checked_weights(sample_weight, rows)
        factors = class_factors(self.class_weight, classes, y, own)
        weights = self.C * own * factors[np.searchsorted(classes, y)]
        check_some("sample_weight", weights, "sample")
        return self._of_classes(rows, y, classes, oracle, weights)

    def _check_costs(self, classes: np.ndarray) -> None:
        """Raise ValueError unless loss and costs suit the classes."""
        check_two_classes(self.loss, len(classes))
        check_cost(self.cost, classes)

    def _of_classes(
        self,
        rows: Matrix,
        y: np.ndarray,
        classes: np.ndarray,
        oracle: InvarianceOracle,
        weights: np.ndarray,
    ) -> Problem:
        """Return the problem for given classes, and weights that include C."""
        return Problem(
            rows,
            y,
            oracle,
            self._structure(len(classes)),
            weights,
            learned={"classes_": classes},
            loss=self.loss,
            classes=classes,
            cost=self.cost,
            rescaling=self.rescaling,
        )

    def _look_at(self, problem: Problem, objective: Objective, solution: Solution) -> None:
        """Warn if the oracle leaves almost nothing to learn."""
        warn_if_uninformative(self, problem, objective, solution, stacklevel=5)

    @abstractmethod
    def _worst_change(
        self, X: Matrix, labels: BoundStructure, oracle: InvarianceOracle, points: bool
    ) -> WorstChange:
        """Return the worst perturbation that the oracle finds for each row, with bounds."""

    def certify(self, X: Any, y: Any = None, *, oracle: InvarianceOracle | None = None) -> Certificate:
        """Certify predictions against all perturbations of the samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples, in a form that `fit` supports.
        y : array-like of shape (n_samples,) or None, default=None
            True labels. Without labels the certificate proves that predictions do not change, whether
            they are correct or not. An oracle with `only_for` then perturbs all samples.
        oracle : InvarianceOracle or None, default=None
            Oracle with the perturbations. By default it is the oracle of the training.

        Returns
        -------
        Certificate
            Margins, certified and attacked accuracy; without labels, the fraction of unchanged
            predictions. The certificate holds in the feature space of the model, not for its raw input.
            It holds also if the search for attacks misses the worst perturbation: its margins are then
            lower bounds. It is valid only if the oracle is correct; test your own oracle with
            `structinv.oracles.check_oracle`.

        Warns
        -----
        TextEditsWarning
            If the oracle edits single features and all samples have Euclidean length 1.
        """
        X, labels, oracle = self._labeled(X, y, oracle)
        if y is None:
            oracle = oracle.for_any_label()
        warn_of_row_lengths(oracle, sample_of(X), stacklevel=3)
        worst = self._worst_change(X, labels, oracle, points=False)
        return worst.certificate(oracle, labels_given=y is not None)

    def worst_case(self, X: Any, y: Any = None, *, oracle: InvarianceOracle | None = None) -> Matrix:
        """Return the perturbed samples with the smallest margins found.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples, in a form that `fit` supports.
        y : array-like of shape (n_samples,) or None, default=None
            True labels; the predictions by default.
        oracle : InvarianceOracle or None, default=None
            Oracle with the perturbations. By default it is the oracle of the training.

        Returns
        -------
        ndarray or CSR matrix of shape (n_samples, n_features)
            Perturbed samples. They are sparse if `X` is sparse, and a stack of images if `X` is one.
            A DataFrame results in an ndarray without column names. Where the margin of `certify` is not
            tight, a worse perturbation may exist.
        """
        rows, labels, oracle = self._labeled(X, y, oracle)
        points: Any = self._worst_change(rows, labels, oracle, points=True).points
        return self._as_given(X, rows, points)

    def _labeled(
        self, X: Any, y: Any, oracle: InvarianceOracle | None
    ) -> tuple[Matrix, BoundStructure, InvarianceOracle]:
        """Return checked rows, their labels in the output structure, and the oracle."""
        X, oracle = self._rows_to_change(X, oracle)
        oracle.check_labels(self.classes_)
        return X, self._bound_labels(X, y), oracle

    def _bound_labels(self, X: Matrix, y: Any) -> BoundStructure:
        """Bind labels to the output structure; the predictions if y is None."""
        if y is None:
            y = self.classes_[self._best_labels(self._scores(X))]
        y = one_label_a_row(y, X.shape[0])
        return self._structure(len(self.classes_)).bind(y, self.classes_)

    def __sklearn_tags__(self) -> Any:
        """Declare that only the hinge loss supports more than two classes."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self.loss == HINGE
        return tags
