"""Smoothness penalties: scalar losses of linear functionals, such as derivatives."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ..functionals.families import Functionals
from ..losses import ScalarLoss
from ..spaces.base import Element, Space
from ..utils.matrices import ALL_ROWS, Rows
from .objective import Coordinates, Term, check_weights
from .planes import Planes


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
    >>> from structinv.functionals.families import FamilyFunctionals
    >>> from structinv.functionals.representers import Representers
    >>> from structinv.kernels import Gaussian
    >>> from structinv.losses import Squared
    >>> from structinv.spaces import RepresenterSpace
    >>> from structinv.terms import Objective, Penalty
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
