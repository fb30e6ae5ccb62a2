"""What may change in images of one shape."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from sklearn.base import clone

from ..oracles import Identity, ImageShape, InvarianceOracle
from ..oracles.changes import Changes
from ..oracles.listing import averaged
from ..oracles.shapes import with_shape


@dataclass(frozen=True)
class ImageChanges:
    """What may change in images of one shape, or in their patches, as a list.

    Parameters
    ----------
    oracle : InvarianceOracle
    shape : ImageShape
    n_draws : int or None
        How many changes to draw.
    seed : int
    """

    oracle: InvarianceOracle
    shape: ImageShape
    n_draws: int | None
    seed: int

    @cached_property
    def changes(self) -> Changes:
        """Made from what is above alone, also by whoever loads this."""
        return averaged(self.oracle, self.shape.size, self.n_draws, self.seed)


def image_changes(
    oracle: InvarianceOracle | None,
    shape: ImageShape,
    n_draws: int | None,
    seed: int,
    *,
    names: tuple[str, str],
) -> ImageChanges:
    """Changes of images of a shape, which image oracles without one are given.

    Parameters
    ----------
    oracle : InvarianceOracle or None
    shape : ImageShape
    n_draws : int or None
    seed : int
    names : tuple of str
        What users call `oracle` and `n_draws`.

    Raises
    ------
    TypeError, ValueError
        Where they cannot be listed.
    """
    oracle = Identity() if oracle is None else clone(with_shape(oracle, shape))
    found = ImageChanges(oracle, shape, None if n_draws is None else int(n_draws), seed)
    try:
        found.changes  # noqa: B018
    except (TypeError, ValueError) as error:
        called, counted = names
        raise type(error)(
            f"{called} must list its changes on images of {shape}, {counted}={n_draws} being its size: "
            f"{error}"
        ) from error
    return found
