"""Nodes and weights for averages over normal laws."""

from __future__ import annotations

import numpy as np

# Gauss-Hermite nodes in all, beyond which an average is refused.
MOST_NODES = 1000


def nodes(size: int, n_axes: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Hermite nodes of a standard normal law and their weights: (m, n_axes) and (m,) arrays.

    Examples
    --------
    >>> grid, shares = nodes(2, 1)
    >>> grid.round(3), shares
    (array([[-1.],
           [ 1.]]), array([0.5, 0.5]))
    """
    along, weights = np.polynomial.hermite_e.hermegauss(size)
    grid = np.stack(np.meshgrid(*[along] * n_axes, indexing="ij"), axis=-1).reshape(-1, n_axes)
    shares = np.ones(1)
    for _ in range(n_axes):
        shares = np.outer(shares, weights / weights.sum()).ravel()
    return grid, shares
