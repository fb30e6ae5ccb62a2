"""What linear classifiers share, of rows or of texts: losses, costs, solvers and certificates."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..certificates import WorstChange, worst_change
from ..matrices import Matrix
from ..objective import WorstCase
from ..oracles import Identity, InvarianceOracle
from ..solvers import FrankWolfe, InteriorPoint, Solver
from ..structures.bound import BoundStructure
from ..structures.labels import check_cost, check_rescaling
from .classifier import InvariantClassifier
from .linear_machine import FEW_WEIGHTS, MOST_ROWS, LinearMachine
from .margin_losses import HINGE, check_margin_loss, check_two_classes, worst_cases


class InvariantLinearClassifier(LinearMachine, InvariantClassifier):
    """A classifier whose functions are weights of features and a constant.

    Subclasses store `loss`, `cost` and `rescaling`, too.
    """

    def rows_of(self, X: Any) -> Any:
        """What the weights multiply: X itself, where that is rows."""
        return X

    def column_names(self) -> np.ndarray:
        """Names of the features, (n_features,): those of fit, "x0", "x1", ... if they had none."""
        known = getattr(self, "feature_names_in_", None)
        n_features = self.coef_.shape[1]
        return np.array([f"x{j}" for j in range(n_features)]) if known is None else known

    def _check_parameters(self) -> InvarianceOracle:
        oracle = super()._check_parameters()
        check_rescaling(self.rescaling)
        check_margin_loss(self.loss, oracle, self.cost, self.rescaling)
        return oracle

    def _worst_cases(self, *problem: Any, **labels: Any) -> WorstCase:
        return worst_cases(self.loss, *problem, **labels)

    def _cost(self, n_classes: int) -> dict[str, Any]:
        check_two_classes(self.loss, n_classes)
        check_cost(self.cost, n_classes)
        return {"cost": self.cost, "rescaling": self.rescaling}

    def _best_solver(self, objective: Any) -> Solver:
        if self.loss == HINGE:
            return super()._best_solver(objective)
        if isinstance(objective.terms[0].oracle, Identity):
            # One point a row: Newton's method on their slopes sees neither scale nor weight.
            return FrankWolfe()
        # What bends takes many planes: with few weights those of single rows.
        few = objective.space.size <= FEW_WEIGHTS and len(objective.weights) <= MOST_ROWS
        if few:
            return InteriorPoint()
        # Levels of all rows and what they add are solved for together, whatever bends.
        found = objective.terms[0].bound.additions()
        adds_alone = found is not None and not found.multiplies
        return FrankWolfe() if adds_alone else super()._best_solver(objective)

    def _worst_change(
        self, X: Matrix, labels: BoundStructure, oracle: InvarianceOracle, points: bool
    ) -> WorstChange:
        return worst_change(self.coef_, self.intercept_, oracle, labels, X, points)

    def __sklearn_tags__(self) -> Any:
        """More than two classes with the hinge alone."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self.loss == HINGE
        return tags
