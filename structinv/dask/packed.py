"""Vectors as they are sent: the numbers that are not zero, where that is shorter."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

# Bytes of a number by itself: its value, and its place.
BYTES_OF_ENTRY = 12


@dataclass(frozen=True)
class PackedVector:
    """A vector.

    Parameters
    ----------
    values : (m,) array
    places : (m,) array of int, optional
        Where the values are in a vector of zeros; all of the vector, by default.
    """

    values: np.ndarray
    places: np.ndarray | None = None

    @property
    def nbytes(self) -> int:
        """As it is sent."""
        return self.values.nbytes + (0 if self.places is None else self.places.nbytes)

    def written(self, size: int) -> np.ndarray:
        """All `size` numbers, in an array of its own."""
        if self.places is None:
            return self.values.copy()
        whole = np.zeros(size)
        whole[self.places] = self.values
        return whole


def pack(vector: np.ndarray) -> PackedVector:
    """A vector in its shorter form.

    Examples
    --------
    >>> pack(np.array([0.0, 0.0, 0.0, 2.0])).places
    array([3], dtype=int32)
    """
    places = np.flatnonzero(vector)
    if BYTES_OF_ENTRY * len(places) >= vector.nbytes:
        return PackedVector(vector)
    return PackedVector(vector[places], places.astype(np.int32))
