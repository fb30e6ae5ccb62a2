"""Scalar convex losses of one real argument: value, derivative, conjugate, proximal step, floor."""

from .base import MoreauEnvelope, ScalarLoss
from .combined import Affine, Joined
from .margin import Hinge, Logistic, SquaredHinge
from .pieces import Pieces
from .regression import Absolute, EpsilonInsensitive, Huber, Squared
from .written import CvxpyLoss

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
    "REGISTRY",
    "Absolute",
    "Affine",
    "CvxpyLoss",
    "EpsilonInsensitive",
    "Hinge",
    "Huber",
    "Joined",
    "Logistic",
    "MoreauEnvelope",
    "Pieces",
    "ScalarLoss",
    "Squared",
    "SquaredHinge",
]
