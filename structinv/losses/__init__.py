"""Convex loss functions of one real argument, with conjugates and proximal steps."""

from .base import ScalarLoss
from .cvxpy_loss import CvxpyLoss
from .margin_losses import Hinge, Logistic, SquaredHinge
from .piecewise_linear import Pieces
from .regression_losses import Absolute, EpsilonInsensitive, Huber, Squared

REGISTRY: dict[str, type[ScalarLoss]] = {
    "squared": Squared,
    "absolute": Absolute,
    "epsilon_insensitive": EpsilonInsensitive,
    "huber": Huber,
    "logistic": Logistic,
    "hinge": Hinge,
    "squared_hinge": SquaredHinge,
}

__all__ = [
    "Absolute",
    "CvxpyLoss",
    "EpsilonInsensitive",
    "Hinge",
    "Huber",
    "Logistic",
    "Pieces",
    "ScalarLoss",
    "Squared",
    "SquaredHinge",
]
