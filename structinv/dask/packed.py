"""Compact vectors for transfer: nonzero values only, if that is shorter."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

# Bytes of one nonzero value with its position.
BYTES_OF_ENTRY = 12


@dataclass(frozen=True)
class PackedVector:
    """Vector in a compact form.

    - `values` (m,): values
    - `places` (m,): positions of the values; by default `values` is the whole vector
    """

    values: np.ndarray
    places: np.ndarray | None = None

    @property
    def nbytes(self) -> int:
        """Number of bytes of the compact form."""
        return self.values.nbytes + (0 if self.places is None else self.places.nbytes)

    def written(self, size: int) -> np.ndarray:
        """Return the vector of `size` numbers as a new array."""
        if self.places is None:
            return self.values.copy()
        whole = np.zeros(size)
        whole[self.places] = self.values
        return whole


def pack(vector: np.ndarray) -> PackedVector:
    """Convert a vector to its compact form."""
    places = np.flatnonzero(vector)
    if BYTES_OF_ENTRY * len(places) >= vector.nbytes:
        return PackedVector(vector)
    return PackedVector(vector[places], places.astype(np.int32))
