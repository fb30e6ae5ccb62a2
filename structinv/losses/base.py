"""Base class of scalar convex losses, and the Moreau envelope."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from ..utils.parameters import check_number
from .piecewise_linear import Pieces


class ScalarLoss(BaseEstimator, ABC):
    """Convex function r of a real number, applied elementwise.

    Constructors only store parameters, so losses support cloning, pickling and grid search. `validate`
    checks the parameters.

    Attributes
    ----------
    lower_bound : float
        Lower bound of r. A subclass must set it.
    smooth : bool
        True if r' is Lipschitz continuous. A smooth loss implements `curvature`.
    of_margins : bool
        True if classifiers apply r to the margin ``y f(x)`` with labels y of -1 and 1. False, the
        default, if r is a loss of an error ``f(x) - y``.

    See Also
    --------
    CvxpyLoss : Loss defined by a cvxpy expression.
    Hinge : Loss of a margin.
    Squared : Loss of an error.

    Examples
    --------
    A custom loss has a lower bound and four methods.

    >>> import numpy as np
    >>> from structinv.losses import ScalarLoss
    >>> class Quadratic(ScalarLoss):
    ...     lower_bound = 0.0
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

    lower_bound: float = -np.inf
    smooth: bool = False
    of_margins: bool = False
    # True if `derivative` is implemented; planes require it.
    has_slopes: bool = True

    def validate(self) -> None:
        """Raise ValueError or TypeError if a parameter is not valid."""

    @abstractmethod
    def value(self, u: np.ndarray) -> np.ndarray:
        """Return ``r(u)``.

        Parameters
        ----------
        u : ndarray
            Arguments.

        Returns
        -------
        ndarray
            Values.
        """

    @abstractmethod
    def derivative(self, u: np.ndarray) -> np.ndarray:
        """Return ``r'(u)``, or a subgradient.

        Parameters
        ----------
        u : ndarray
            Arguments.

        Returns
        -------
        ndarray
            Derivatives.
        """

    @abstractmethod
    def conjugate(self, p: np.ndarray) -> np.ndarray:
        """Return ``r*(p) = max_u p u - r(u)``.

        Parameters
        ----------
        p : ndarray
            Slopes.

        Returns
        -------
        ndarray
            Values; infinity outside the domain.
        """

    @abstractmethod
    def prox(self, u: np.ndarray, step: float) -> np.ndarray:
        """Return the minimizer of ``step * r(t) + 1/2 (t - u)^2`` over t.

        Parameters
        ----------
        u : ndarray
            Arguments.
        step : float
            Step size (> 0).

        Returns
        -------
        ndarray
            Minimizers.
        """

    def domain(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the limits of the conjugate's domain.

        Returns
        -------
        low : ndarray
            Limit of r' at minus infinity.
        high : ndarray
            Limit of r' at infinity.
        """
        return self.derivative(np.array(-np.inf)), self.derivative(np.array(np.inf))

    def conjugate_prox(self, p: np.ndarray, step: float) -> np.ndarray:
        """Return the minimizer of ``step * r*(t) + 1/2 (t - p)^2`` over t.

        The default uses Moreau's identity.

        Parameters
        ----------
        p : ndarray
            Slopes.
        step : float
            Step size (> 0).

        Returns
        -------
        ndarray
            Minimizers.
        """
        # For a large p, rounding errors could leave the domain.
        return np.clip(p - step * self.prox(p / step, 1.0 / step), *self.domain())

    def curvature(self, u: np.ndarray) -> np.ndarray:
        """Return ``r''(u)`` of a smooth loss.

        At a kink of r', the result is the second derivative on one side.

        Parameters
        ----------
        u : ndarray
            Arguments.

        Returns
        -------
        ndarray
            Second derivatives.

        Raises
        ------
        NotImplementedError
            If the loss is not smooth.
        """
        raise NotImplementedError(f"{type(self).__name__} has no curvature; `smoothed` may have one")

    def pieces(self) -> Pieces | None:
        """Return the derivative as a table of linear pieces.

        Returns
        -------
        Pieces or None
            The pieces; None if the derivative is not piecewise linear.
        """
        return None

    def smoothed(self, width: float) -> ScalarLoss:
        """Return the loss itself if it is smooth, otherwise its Moreau envelope.

        Parameters
        ----------
        width : float
            Width of the envelope (> 0).

        Returns
        -------
        ScalarLoss
            Smooth loss.
        """
        return self if self.smooth else MoreauEnvelope(self, width)

    def expression(self, u: Any) -> Any:
        """Return the loss as an elementwise cvxpy expression.

        Parameters
        ----------
        u : cvxpy.Expression
            Arguments.

        Returns
        -------
        cvxpy.Expression
            Values.

        Raises
        ------
        NotImplementedError
            If the loss has no cvxpy expression.
        """
        raise NotImplementedError(f"{type(self).__name__} has no cvxpy expression")

    def take(self, indices: Any) -> ScalarLoss:
        """Return the loss of some elements.

        Parameters
        ----------
        indices : slice or ndarray
            Elements, as an index of NumPy.

        Returns
        -------
        ScalarLoss
            The loss itself if it is the same for all elements.
        """
        return self


class MoreauEnvelope(ScalarLoss):
    """Smooth approximation ``r_w(u) = min_t r(t) + (u - t)^2 / (2 width)`` of a loss.

    It is convex, and ``r - width L^2 / 2 <= r_w <= r`` if L bounds ``|r'|``.
    """

    smooth = True

    def __init__(self, loss: ScalarLoss, width: float) -> None:
        self.loss = loss
        self.width = width

    @property
    def lower_bound(self) -> float:  # type: ignore[override]
        return self.loss.lower_bound

    @property
    def of_margins(self) -> bool:  # type: ignore[override]
        return self.loss.of_margins

    def validate(self) -> None:
        validate_loss("loss", self.loss)
        check_number("width", self.width, strict=True)

    def value(self, u):
        near = self.loss.prox(u, self.width)
        return self.loss.value(near) + (u - near) ** 2 / (2.0 * self.width)

    def derivative(self, u):
        # With a small width, rounding errors exceed the tolerance of the domain.
        return np.clip((u - self.loss.prox(u, self.width)) / self.width, *self.loss.domain())

    def domain(self):
        return self.loss.domain()

    def conjugate(self, p):
        return self.loss.conjugate(p) + 0.5 * self.width * p * p

    def prox(self, u, step):
        both = step + self.width
        return u + step / both * (self.loss.prox(u, both) - u)

    def conjugate_prox(self, p, step):
        factor = 1.0 + step * self.width
        return self.loss.conjugate_prox(p / factor, step / factor)

    def curvature(self, u):
        pieces = self.pieces()
        if pieces is not None:
            return pieces.curvature(u)
        if not self.loss.smooth:
            raise NotImplementedError(f"the envelope of {type(self.loss).__name__} has no curvature")
        curvature = self.loss.curvature(self.loss.prox(u, self.width))
        return curvature / (1.0 + self.width * curvature)

    def pieces(self):
        pieces = self.loss.pieces()
        return None if pieces is None else pieces.envelope(self.width)

    def take(self, indices):
        return MoreauEnvelope(self.loss.take(indices), self.width)


def validate_loss(name: str, loss: Any) -> None:
    """Raise TypeError unless `loss` is a ScalarLoss, and validate its parameters."""
    if not isinstance(loss, ScalarLoss):
        raise TypeError(f"{name} must be a ScalarLoss, got {loss!r}")
    loss.validate()
