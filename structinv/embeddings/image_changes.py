"""Lists of transformations of images with one shape."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from sklearn.base import clone

from ..oracles import Identity, InvarianceOracle
from ..oracles.changes import Changes
from ..oracles.checked_lists import averaged
from ..oracles.image_shapes import with_shape
from ..oracles.images.image_maps import ImageShape


@dataclass(frozen=True)
class ImageChanges:
    """Transformations of images with one shape, or of their patches, as a list.

    - `oracle`: oracle of the transformations
    - `shape`: shape of the images
    - `n_draws`: number of randomly drawn transformations
    - `seed`: seed of the draws
    """

    oracle: InvarianceOracle
    shape: ImageShape
    n_draws: int | None
    seed: int

    @cached_property
    def changes(self) -> Changes:
        """The transformations, computed from the fields, also after loading."""
        return averaged(self.oracle, self.shape.size, self.n_draws, self.seed)

    def __reduce__(self) -> tuple[type[ImageChanges], tuple]:
        return ImageChanges, (self.oracle, self.shape, self.n_draws, self.seed)


def image_changes(
    oracle: InvarianceOracle | None,
    shape: ImageShape,
    n_draws: int | None,
    seed: int,
    *,
    names: tuple[str, str],
) -> ImageChanges:
    """Return transformations of images; image oracles without a shape get this one."""
    oracle = Identity() if oracle is None else clone(with_shape(oracle, shape))
    transformations = ImageChanges(oracle, shape, None if n_draws is None else int(n_draws), seed)
    try:
        transformations.changes  # noqa: B018
    except (TypeError, ValueError) as error:
        oracle_name, draws_name = names
        raise type(error)(
            f"{oracle_name} cannot list its transformations of images of {shape} with "
            f"{draws_name}={n_draws}: {error}"
        ) from error
    return transformations
