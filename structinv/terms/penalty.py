"""Smoothness penalties: scalar losses of linear functionals, such as derivatives."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import ArrayLike

from ..functionals.representers import Representers
from ..losses import ScalarLoss
from ..spaces import RepresenterSpace
from ..spaces.base import Element, Space
from ..utils.matrices import ALL_ROWS, Rows
from .objective import Coordinates, Term, check_weights
from .planes import Planes


class Functionals(ABC):
    """A finite family of bounded linear functionals ``L_j`` of elements of a space.

    An objective requires only two products, so a family never forms its representers.
    """

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of functionals."""

    @abstractmethod
    def validate(self, space: Space) -> None:
        """Raise ValueError if the family is not defined on elements of the space."""

    @abstractmethod
    def apply(self, space: Space, f: Element) -> np.ndarray:
        """Return ``L_j f`` for each j, (size,)."""

    @abstractmethod
    def combine(self, space: Space, coefficients: np.ndarray) -> Element:
        """Return ``sum_j coefficients_j z_j`` with the representers ``z_j`` of ``L_j``."""

    def places(self) -> slice | None:
        """Return the slice of the family in a `RepresenterSpace`, or None.

        The slice counts each output of a functional separately.
        """
        return None


class FamilyFunctionals(Functionals):
    """One family of a `RepresenterSpace`.

    Functional ``j * n_outputs + k`` is ``L_j f(., k)``.
    """

    def __init__(self, representers: Representers, number: int, n_outputs: int = 1) -> None:
        self.representers = representers
        self.rows = representers.slices[number]
        self.n_outputs = n_outputs

    @property
    def size(self) -> int:
        return (self.rows.stop - self.rows.start) * self.n_outputs

    def validate(self, space: Space) -> None:
        if not isinstance(space, RepresenterSpace) or space.system is not self.representers:
            raise ValueError("space must be the RepresenterSpace of the representers of this family")
        if space.n_outputs != self.n_outputs:
            raise ValueError(
                f"space must have the {self.n_outputs} outputs of the family, got {space.n_outputs}"
            )

    def apply(self, space: Space, f: Element) -> np.ndarray:
        return f.functionals()[self.rows].ravel()

    def combine(self, space: Space, coefficients: np.ndarray) -> Element:
        assert isinstance(space, RepresenterSpace)
        representers = np.zeros((self.representers.size, self.n_outputs))
        representers[self.rows] = coefficients.reshape(-1, self.n_outputs)
        return space.of_representers(representers)

    def places(self) -> slice:
        return slice(self.rows.start * self.n_outputs, self.rows.stop * self.n_outputs)


class Penalty(Term):
    """Penalty ``sum_j weights_j r(L_j f)`` on a family of linear functionals.

    The whole family is one block, so a plane needs one product with the family. The weight of the block
    is the sum of the weights. Planes therefore stay valid if all weights are multiplied by a factor.

    Parameters
    ----------
    functionals : Functionals
        Family of functionals L_j.
    loss : ScalarLoss
        Loss r, with a finite lower bound.
    weights : float or ndarray of shape (n_functionals,), default=1.0
        Weight of each functional (>= 0), including the smoothness penalty nu.

    See Also
    --------
    WorstCase : Worst-case loss of samples.
    structinv.RepresenterClassifier : Classifier with smoothness penalties.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.functionals import Gradient
    >>> from structinv.functionals.representers import Representers
    >>> from structinv.kernels import Gaussian
    >>> from structinv.losses import Squared
    >>> from structinv.spaces import RepresenterSpace
    >>> from structinv.terms import Objective, Penalty
    >>> from structinv.terms.penalty import FamilyFunctionals
    >>> representers = Representers(Gaussian(), [Gradient().bind(np.eye(2)).parts(Gaussian())])
    >>> penalty = Penalty(FamilyFunctionals(representers, 0), Squared())
    >>> space = RepresenterSpace(representers, 2)
    >>> Objective(space, [penalty]).value(space.zeros())
    Value(upper=0.0, attained=0.0)
    """

    def __init__(self, functionals: Functionals, loss: ScalarLoss, weights: ArrayLike = 1.0) -> None:
        loss.validate()
        self.functionals = functionals
        self.loss = loss
        self.has_planes = loss.has_slopes
        checked = check_weights(weights, functionals.size)
        total = checked.sum()
        self.shares = checked / total if total > 0 else checked
        self.weights = np.array([total])
        self.lower_bounds = np.array([self.shares.sum() * loss.lower_bound])

    def validate(self, space: Space) -> None:
        if not np.all(np.isfinite(self.lower_bounds)):
            raise ValueError(
                f"loss must have a finite lower_bound, got {self.loss!r} with "
                f"lower_bound={self.loss.lower_bound}"
            )
        self.functionals.validate(space)

    def planes(self, space: Space, f: Element, blocks: Rows = ALL_ROWS) -> Planes:
        u = self.functionals.apply(space, f)
        slopes = self.loss.derivative(u)
        value = self.shares @ self.loss.value(u)
        normal = self.functionals.combine(space, -self.shares * slopes)
        offset = value - self.shares @ (slopes * u)
        return Planes(space.element(normal), np.array([offset]), np.array([value]), np.array([value]))

    def values(self, space: Space, f: Element) -> tuple[np.ndarray, np.ndarray]:
        value = self.shares @ self.loss.value(self.functionals.apply(space, f))
        return np.array([value]), np.array([value])

    def rows_of(self, blocks: Rows) -> int:
        # A penalty has no oracle.
        return 0

    def coordinates(self) -> Coordinates | None:
        places = self.functionals.places()
        return None if places is None else Coordinates(places, self.loss, self.weights[0] * self.shares)
