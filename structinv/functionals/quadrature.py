"""Gauss-Hermite nodes and weights for averages over normal distributions."""

from __future__ import annotations

import numpy as np

# Maximum number of Gauss-Hermite nodes.
MOST_NODES = 1000


def nodes(size: int, n_axes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return Gauss-Hermite nodes (m, n_axes) and weights (m,) of a standard normal."""
    along, factors = np.polynomial.hermite_e.hermegauss(size)
    grid = np.stack(np.meshgrid(*[along] * n_axes, indexing="ij"), axis=-1).reshape(-1, n_axes)
    weights = np.ones(1)
    for _ in range(n_axes):
        weights = np.outer(weights, factors / factors.sum()).ravel()
    return grid, weights
