"""Scalar convex losses of one real argument: value, derivative, conjugate, proximal step, floor."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from sklearn.base import BaseEstimator


class ScalarLoss(BaseEstimator, ABC):
    """A convex function r of a real number, applied elementwise.

    Attributes
    ----------
    floor : float
        A lower bound of r, which a subclass has to declare.
    """

    floor: float = -np.inf

    @abstractmethod
    def value(self, u: np.ndarray) -> np.ndarray:
        """``r(u)``."""

    @abstractmethod
    def derivative(self, u: np.ndarray) -> np.ndarray:
        """``r'(u)``, or a subgradient."""

    @abstractmethod
    def conjugate(self, p: np.ndarray) -> np.ndarray:
        """``r*(p) = max_u p u - r(u)``, infinity outside its domain."""

    @abstractmethod
    def prox(self, u: np.ndarray, step: float) -> np.ndarray:
        """The minimiser of ``step * r(t) + 1/2 (t - u)^2`` over t."""

    def conjugate_prox(self, p: np.ndarray, step: float) -> np.ndarray:
        """The minimiser of ``step * r*(t) + 1/2 (t - p)^2``, by Moreau's identity."""
        return p - step * self.prox(p / step, 1.0 / step)


class Squared(ScalarLoss):
    """``r(u) = u^2``, without a half.

    Examples
    --------
    >>> Squared().value(3.0), Squared().derivative(3.0), Squared().conjugate(2.0)
    (9.0, 6.0, 1.0)
    """

    floor = 0.0

    def value(self, u):
        """See `ScalarLoss.value`."""
        return u * u

    def derivative(self, u):
        """See `ScalarLoss.derivative`."""
        return 2.0 * u

    def conjugate(self, p):
        """See `ScalarLoss.conjugate`."""
        return p * p / 4.0

    def prox(self, u, step):
        """See `ScalarLoss.prox`."""
        return u / (1.0 + 2.0 * step)


class EpsilonInsensitive(ScalarLoss):
    """``r(u) = max(0, |u| - epsilon)``.

    Parameters
    ----------
    epsilon : float, default=0.1
        Half the width of the interval that costs nothing.
    """

    floor = 0.0

    def __init__(self, epsilon: float = 0.1) -> None:
        self.epsilon = epsilon

    def value(self, u):
        """See `ScalarLoss.value`."""
        return np.maximum(0.0, np.abs(u) - self.epsilon)

    def derivative(self, u):
        """See `ScalarLoss.derivative`."""
        return np.where(np.abs(u) > self.epsilon, np.sign(u), 0.0)

    def conjugate(self, p):
        """See `ScalarLoss.conjugate`."""
        return np.where(np.abs(p) <= 1.0 + 1e-12, self.epsilon * np.abs(p), np.inf)

    def prox(self, u, step):
        """See `ScalarLoss.prox`."""
        excess = np.abs(u) - self.epsilon
        return u - np.sign(u) * np.clip(excess, 0.0, step)


class Absolute(EpsilonInsensitive):
    """``r(u) = |u|``."""

    def __init__(self) -> None:
        self.epsilon = 0.0


class Huber(ScalarLoss):
    """``r(u) = u^2`` up to `width`, continued by its tangent: ``2 width |u| - width^2``.

    Parameters
    ----------
    width : float, default=1.0
        Where the parabola ends.
    """

    floor = 0.0

    def __init__(self, width: float = 1.0) -> None:
        self.width = width

    def value(self, u):
        """See `ScalarLoss.value`."""
        inside = np.minimum(np.abs(u), self.width)
        return inside * (2.0 * np.abs(u) - inside)

    def derivative(self, u):
        """See `ScalarLoss.derivative`."""
        return 2.0 * np.clip(u, -self.width, self.width)

    def conjugate(self, p):
        """See `ScalarLoss.conjugate`."""
        return np.where(np.abs(p) <= 2.0 * self.width * (1.0 + 1e-12), p * p / 4.0, np.inf)

    def prox(self, u, step):
        """See `ScalarLoss.prox`."""
        shrunk = u / (1.0 + 2.0 * step)
        return np.where(np.abs(shrunk) <= self.width, shrunk, u - 2.0 * step * self.width * np.sign(u))


REGISTRY: dict[str, type[ScalarLoss]] = {
    "squared": Squared,
    "absolute": Absolute,
    "epsilon_insensitive": EpsilonInsensitive,
    "huber": Huber,
}
