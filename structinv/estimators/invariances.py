"""The families of functionals that an estimator is given, with their weights and losses."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..functionals import Functional
from ..functionals.acting import FamilyFunctionals
from ..functionals.base import BoundFunctional
from ..functionals.representers import Representers
from ..oracles import InvarianceOracle
from ..terms import Penalty
from ..utils.parameters import check_number
from .parameters import loss_of_name
from .row_shapes import shaped

INVARIANCE_LOSSES = ("squared", "absolute", "epsilon_insensitive", "huber")


class Invariances:
    """Families of functionals with a weight and a loss each, checked.

    Parameters
    ----------
    families : sequence of Functional or BoundFunctional
    nu : float or sequence of float
    losses : str or sequence of str
    parameters : dict or sequence of dict, optional
        Of the losses.

    Raises
    ------
    ValueError, TypeError
        Naming the argument of the estimator.
    """

    def __init__(self, families: Any, nu: Any, losses: Any, parameters: Any) -> None:
        if isinstance(families, (Functional, BoundFunctional)) or not np.iterable(families):
            hint = _hint(families)
            raise TypeError(
                f"invariances must be a list of families of functionals, got {families!r}{hint}"
            )
        self.families = list(families)
        for family in self.families:
            if not isinstance(family, (Functional, BoundFunctional)):
                hint = _hint(family)
                raise TypeError(f"invariances must hold Functional or bound ones, got {family!r}{hint}")
        size = len(self.families)
        weights = _one_each("nu", nu, size)
        names = _one_each("invariance_loss", losses, size)
        settings = _one_each("invariance_loss_params", parameters, size)
        for number in weights:
            check_number("nu", number)
        # Values for all families are checked even if there is none.
        found = [
            loss_of_name("invariance_loss", name, own, INVARIANCE_LOSSES, "a list of them")
            for name, own in zip(names, settings, strict=False)
        ]
        self.nu, self.losses = weights[:size], found[:size]

    def bound(self, X: np.ndarray, estimator: Any) -> list[BoundFunctional]:
        """The families, bound to an estimator's rows if they are not bound yet."""
        found = [
            each if isinstance(each, BoundFunctional) else shaped(each, estimator, X).bind(X)
            for each in self.families
        ]
        for own, family in zip(self.families, found, strict=True):
            if not isinstance(family, BoundFunctional):
                raise TypeError(
                    f"{type(own).__name__}.bind must return a BoundFunctional, got "
                    f"{type(family).__name__}"
                )
            if family.X.shape[1] != X.shape[1]:
                raise ValueError(
                    f"invariances hold a family bound to rows of {family.X.shape[1]} features; "
                    f"X has {X.shape[1]}"
                )
        return found

    def penalties(self, representers: Representers, first: int, n_outputs: int) -> list[Penalty]:
        """The penalty of each family; those of the representers begin at family number `first`."""
        return [
            Penalty(FamilyFunctionals(representers, first + number, n_outputs), loss, float(nu))
            for number, (nu, loss) in enumerate(zip(self.nu, self.losses, strict=True))
        ]


def _hint(given: Any) -> str:
    """What to write for an oracle, whose changes functionals compare f along."""
    if not isinstance(given, InvarianceOracle):
        return ""
    return (
        f"; write functionals.TransformDifference({given!r}) for differences of f between a row and its "
        f"changes, functionals.Tangents({given!r}) for derivatives along them, or give a classifier "
        "the oracle as oracle="
    )


def _one_each(name: str, value: Any, size: int) -> list[Any]:
    """A list with one value for each family, from a list, or from one for all: then one at least."""
    if isinstance(value, (str, dict)) or not np.iterable(value):
        return [value] * max(size, 1)
    values = list(value)
    if len(values) != size:
        raise ValueError(f"{name} must be one value or {size}, one for each family, got {len(values)}")
    return values
