"""Families of functionals for objectives: values, sums of representers."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from ..spaces import RepresenterSpace
from ..spaces.base import Element, Space
from .representers import Representers


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
