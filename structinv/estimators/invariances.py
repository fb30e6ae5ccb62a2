"""Smoothness penalties: families of functionals with weights and losses."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..functionals import Functional
from ..functionals.applied_families import FamilyFunctionals
from ..functionals.base import BoundFunctional, check_same_columns
from ..functionals.representers import Representers
from ..oracles import InvarianceOracle
from ..oracles.images.image_borders import warn_of_fill
from ..terms import Penalty
from ..utils.parameters import check_number
from .parameters import as_loss
from .row_shapes import shaped

INVARIANCE_LOSSES = ("squared", "absolute", "epsilon_insensitive", "huber")


class Invariances:
    """Checked families of functionals with their weights and losses."""

    def __init__(self, families: Any, nu: Any, losses: Any, parameters: Any) -> None:
        if isinstance(families, (Functional, BoundFunctional)) or not np.iterable(families):
            hint = _hint(families)
            raise TypeError(
                f"invariances must be a list of Functional or BoundFunctional, got {families!r}{hint}"
            )
        self.families = list(families)
        for family in self.families:
            if not isinstance(family, (Functional, BoundFunctional)):
                hint = _hint(family)
                raise TypeError(
                    f"invariances must contain Functional or BoundFunctional, got {family!r}{hint}"
                )
        size = len(self.families)
        weights = _one_each("nu", nu, size)
        names = _one_each("invariance_loss", losses, size)
        settings = _one_each("invariance_loss_params", parameters, size)
        for number in weights:
            check_number("nu", number)
        # A single value is checked even without families.
        found = [
            as_loss("invariance_loss", name, own, INVARIANCE_LOSSES, "a list of them")
            for name, own in zip(names, settings, strict=False)
        ]
        self.nu, self.losses = weights[:size], found[:size]

    def bound(self, X: np.ndarray, estimator: Any) -> list[BoundFunctional]:
        """Return the families, bound to the rows unless they are already bound."""
        unbound = [
            each if isinstance(each, BoundFunctional) else shaped(each, estimator, X)
            for each in self.families
        ]
        for each in unbound:
            warn_of_fill(each, X)
        found = [each if isinstance(each, BoundFunctional) else each.bind(X) for each in unbound]
        for own, family in zip(self.families, found, strict=True):
            if not isinstance(family, BoundFunctional):
                raise TypeError(
                    f"{type(own).__name__}.bind must return a BoundFunctional, got "
                    f"{type(family).__name__}"
                )
            check_same_columns("invariances", family, getattr(estimator, "feature_names_in_", None))
            if family.X.shape[1] != X.shape[1]:
                raise ValueError(
                    f"invariances must be bound to rows with the {X.shape[1]} features of X, got one "
                    f"bound to {family.X.shape[1]} features: bind it again, or pass an unbound "
                    "Functional"
                )
        return found

    def penalties(self, representers: Representers, first: int, n_outputs: int) -> list[Penalty]:
        """Return the penalty of each family; `first` is its number in the representers."""
        return [
            Penalty(FamilyFunctionals(representers, first + number, n_outputs), loss, float(nu))
            for number, (nu, loss) in enumerate(zip(self.nu, self.losses, strict=True))
        ]


def _hint(given: Any) -> str:
    """Return advice for an oracle instead of a family of functionals."""
    if not isinstance(given, InvarianceOracle):
        return ""
    return (
        f"; use functionals.TransformDifference({given!r}) for differences between a sample and its "
        f"perturbations, functionals.Tangents({given!r}) for derivatives along them, or pass the oracle "
        "to a classifier as oracle="
    )


def _one_each(name: str, value: Any, size: int) -> list[Any]:
    """Return one value per family, or a list with a single value without families."""
    if isinstance(value, (str, dict)) or not np.iterable(value):
        return [value] * max(size, 1)
    values = list(value)
    if len(values) != size:
        raise ValueError(
            f"{name} must be one value or {size} values, one per entry of invariances, got {len(values)}"
        )
    return values
