"""Bounded linear functionals of the learnt function, for penalties."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from .matrices import Matrix
from .spaces import ExplicitSpace, Space


class Functionals(ABC):
    """A finite family of bounded linear functionals ``L_j``, ready to be applied.

    Two products are all that an objective needs, so a family never has to form its representers.
    """

    @property
    @abstractmethod
    def size(self) -> int:
        """How many functionals the family has."""

    @abstractmethod
    def validate(self, space: Space) -> None:
        """Raise ValueError if the family cannot act on elements of the space."""

    @abstractmethod
    def apply(self, space: Space, f: np.ndarray) -> np.ndarray:
        """``L_j f`` for each j, (size,)."""

    @abstractmethod
    def combine(self, space: Space, coefficients: np.ndarray) -> np.ndarray:
        """The element ``sum_j coefficients_j z_j`` with ``z_j`` the representer of ``L_j``."""


class LinearFunctionals(Functionals):
    """``L_j f = <a_j, w>`` for a function with explicit weights w.

    Parameters
    ----------
    coefficients : (m, n_outputs * n_features) array or CSR matrix
        The a_j, against the weights of all outputs one after the other, constants left out.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.spaces import ExplicitSpace
    >>> family = LinearFunctionals(np.array([[1.0, -1.0]]))
    >>> family.apply(ExplicitSpace(2, intercept=True), np.array([3.0, 1.0, 9.0]))
    array([2.])
    """

    def __init__(self, coefficients: Matrix) -> None:
        self.coefficients = coefficients

    @property
    def size(self) -> int:
        """See `Functionals.size`."""
        return self.coefficients.shape[0]

    def validate(self, space: Space) -> None:
        """See `Functionals.validate`."""
        expected = _explicit(space).n_outputs * space.n_features
        if self.coefficients.ndim != 2 or self.coefficients.shape[1] != expected:
            raise ValueError(
                f"coefficients must have {expected} columns (outputs times features), "
                f"got shape {self.coefficients.shape}"
            )

    def apply(self, space: Space, f: np.ndarray) -> np.ndarray:
        """See `Functionals.apply`."""
        return self.coefficients @ _explicit(space).weights(f).ravel()

    def combine(self, space: Space, coefficients: np.ndarray) -> np.ndarray:
        """See `Functionals.combine`."""
        explicit = _explicit(space)
        element = explicit.zeros()
        weights = explicit.weights(element)
        weights[...] = (self.coefficients.T @ coefficients).reshape(weights.shape)
        return element


def _explicit(space: Space) -> ExplicitSpace:
    if not isinstance(space, ExplicitSpace):
        raise ValueError("LinearFunctionals need a space with explicit weights")
    return space
