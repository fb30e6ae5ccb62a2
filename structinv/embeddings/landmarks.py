"""Landmarks of Nyström features: selection of rows or centers, inverse root."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..kernels import Kernel
from ..kernels.checked_kernel import kernel_matrix

Landmarks = tuple[np.ndarray, np.ndarray]


def _random(X: np.ndarray, size: int, rng: np.random.Generator) -> Landmarks:
    chosen = np.sort(rng.choice(len(X), size, replace=False))
    return np.array(X[chosen]), chosen


def _kmeans(X: np.ndarray, size: int, rng: np.random.Generator) -> Landmarks:
    from sklearn.cluster import MiniBatchKMeans  # takes a while to import

    seed = int(rng.integers(2**31 - 1))
    batch = max(1024, 2 * size)
    means = MiniBatchKMeans(size, random_state=seed, n_init=1, batch_size=batch).fit(X)
    return means.cluster_centers_.astype(X.dtype, copy=False), np.zeros(0, dtype=np.intp)


def inverse_root(
    kernel: Kernel, landmarks: np.ndarray, precision: np.dtype | type[np.floating]
) -> tuple[np.ndarray, int]:
    """Compute ``K(Z, Z)^(-1/2)`` of landmarks Z, (m, d), and its rank.

    Shapes: `landmarks` (m, d); returns `root` (m, m).
    """
    # There are few landmarks, so float64 is cheap here.
    points = landmarks.astype(np.float64)
    matrix = kernel_matrix(kernel, points, points)
    values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
    nonzero = values > len(values) * np.finfo(precision).eps * max(values[-1], 0.0)
    roots = vectors[:, nonzero] / np.sqrt(values[nonzero])
    return roots @ vectors[:, nonzero].T, int(np.sum(nonzero))


LANDMARKS: dict[str, Callable[[np.ndarray, int, np.random.Generator], Landmarks]] = {
    "random": _random,
    "kmeans": _kmeans,
}
