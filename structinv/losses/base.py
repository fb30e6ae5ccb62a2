"""What every scalar loss is, and the smooth envelope of one that has kinks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from ..utils.parameters import check_number
from .pieces import Pieces


class ScalarLoss(BaseEstimator, ABC):
    """A convex function r of a real number, applied elementwise.

    Constructors store their parameters, so that losses clone, pickle and can be searched over;
    `validate` checks them.

    Attributes
    ----------
    floor : float
        A lower bound of r, which a subclass has to declare.
    smooth : bool
        Whether r' is Lipschitz continuous. A smooth loss has a `curvature`.

    Examples
    --------
    A loss needs a floor and four functions.

    >>> class Quadratic(ScalarLoss):
    ...     floor = 0.0
    ...     def value(self, u):
    ...         return u * u / 2
    ...     def derivative(self, u):
    ...         return u
    ...     def conjugate(self, p):
    ...         return p * p / 2
    ...     def prox(self, u, step):
    ...         return u / (1 + step)
    >>> Quadratic().conjugate_prox(np.array([3.0]), 0.5)
    array([2.])
    """

    floor: float = -np.inf
    smooth: bool = False
    # Whether there is a derivative, which planes are made of.
    has_slopes: bool = True

    def validate(self) -> None:
        """Raise ValueError or TypeError if a parameter is out of its range."""

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
        """The minimizer of ``step * r(t) + 1/2 (t - u)^2`` over t."""

    def domain(self) -> tuple[np.ndarray, np.ndarray]:
        """The ends of the conjugate's domain: r' at minus and plus infinity."""
        return self.derivative(np.array(-np.inf)), self.derivative(np.array(np.inf))

    def conjugate_prox(self, p: np.ndarray, step: float) -> np.ndarray:
        """The minimizer of ``step * r*(t) + 1/2 (t - p)^2``, by Moreau's identity."""
        # Rounding of a large p alone could leave the domain.
        return np.clip(p - step * self.prox(p / step, 1.0 / step), *self.domain())

    def curvature(self, u: np.ndarray) -> np.ndarray:
        """``r''(u)``, where r' has a kink that of one of its sides; for smooth losses."""
        raise NotImplementedError(f"{type(self).__name__} has no curvature; `smoothed` may have one")

    def pieces(self) -> Pieces | None:
        """The derivative as a table, or None if it is not piecewise linear."""
        return None

    def smoothed(self, width: float) -> ScalarLoss:
        """The loss itself if it is smooth, else its `MoreauEnvelope`."""
        return self if self.smooth else MoreauEnvelope(self, width)

    def expression(self, u: Any) -> Any:
        """The loss as a cvxpy expression, elementwise; NotImplementedError if there is none."""
        raise NotImplementedError(f"{type(self).__name__} is not written in cvxpy")

    def take(self, indices: Any) -> ScalarLoss:
        """The loss of some of the elements, where it is not the same for all."""
        return self


class MoreauEnvelope(ScalarLoss):
    """A loss with its kinks rounded off: ``r_w(u) = min_t r(t) + (u - t)^2 / (2 width)``.

    It is convex and smooth, and ``r - width L^2 / 2 <= r_w <= r`` where L bounds ``|r'|``.

    Parameters
    ----------
    loss : ScalarLoss
    width : float
        How far it smooths; r_w' has Lipschitz constant ``1 / width``.

    Examples
    --------
    >>> from structinv.losses import Hinge
    >>> rounded = MoreauEnvelope(Hinge(), 0.5)
    >>> rounded.value(np.array([-1.0, 0.75, 2.0]))
    array([1.75  , 0.0625, 0.    ])
    >>> rounded.curvature(np.array([-1.0, 0.75, 2.0]))
    array([0., 2., 0.])
    """

    smooth = True

    def __init__(self, loss: ScalarLoss, width: float) -> None:
        self.loss = loss
        self.width = width

    @property
    def floor(self) -> float:  # type: ignore[override]
        """That of the loss."""
        return self.loss.floor

    def validate(self) -> None:
        check_loss("loss", self.loss)
        check_number("width", self.width, strict=True)

    def value(self, u):
        near = self.loss.prox(u, self.width)
        return self.loss.value(near) + (u - near) ** 2 / (2.0 * self.width)

    def derivative(self, u):
        """See `ScalarLoss.derivative`; always in the domain of the conjugate."""
        # The quotient of a small width has rounding beyond the tolerance of the domain.
        return np.clip((u - self.loss.prox(u, self.width)) / self.width, *self.loss.domain())

    def domain(self):
        return self.loss.domain()

    def conjugate(self, p):
        return self.loss.conjugate(p) + 0.5 * self.width * p * p

    def prox(self, u, step):
        both = step + self.width
        return u + step / both * (self.loss.prox(u, both) - u)

    def conjugate_prox(self, p, step):
        stretch = 1.0 + step * self.width
        return self.loss.conjugate_prox(p / stretch, step / stretch)

    def curvature(self, u):
        """See `ScalarLoss.curvature`; of a loss that has pieces or is smooth."""
        pieces = self.pieces()
        if pieces is not None:
            return pieces.curvature(u)
        if not self.loss.smooth:
            raise NotImplementedError(f"the envelope of {type(self.loss).__name__} has no curvature")
        bend = self.loss.curvature(self.loss.prox(u, self.width))
        return bend / (1.0 + self.width * bend)

    def pieces(self):
        pieces = self.loss.pieces()
        return None if pieces is None else pieces.envelope(self.width)

    def take(self, indices):
        return MoreauEnvelope(self.loss.take(indices), self.width)


def check_loss(name: str, loss: Any) -> None:
    """Raise TypeError unless it is a scalar loss, or what its own parameters deserve."""
    if not isinstance(loss, ScalarLoss):
        raise TypeError(f"{name} must be a ScalarLoss, got {loss!r}")
    loss.validate()
