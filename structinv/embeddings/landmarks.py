"""Landmarks of Nyström features: selection of rows or centers, inverse root."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..kernels import Kernel
from ..kernels.checked_kernel import kernel_diagonal, kernel_matrix

Landmarks = tuple[np.ndarray, np.ndarray]

# Number of rows per landmark in the uniform sample for leverage scores.
SAMPLED = 4
# Number of rows whose scores are computed at once.
_AT_ONCE = 4096


def _random(X: np.ndarray, size: int, kernel: Kernel, rng: np.random.Generator) -> Landmarks:
    chosen = np.sort(rng.choice(len(X), size, replace=False))
    return np.array(X[chosen]), chosen


def _kmeans(X: np.ndarray, size: int, kernel: Kernel, rng: np.random.Generator) -> Landmarks:
    from sklearn.cluster import MiniBatchKMeans  # takes a while to import

    seed = int(rng.integers(2**31 - 1))
    batch = max(1024, 2 * size)
    means = MiniBatchKMeans(size, random_state=seed, n_init=1, batch_size=batch).fit(X)
    return means.cluster_centers_.astype(X.dtype, copy=False), np.zeros(0, dtype=np.intp)


def _leverage(X: np.ndarray, size: int, kernel: Kernel, rng: np.random.Generator) -> Landmarks:
    scores = leverage_scores(X, size, kernel, rng)
    chosen = np.sort(rng.choice(len(X), size, replace=False, p=scores / np.sum(scores)))
    return np.array(X[chosen]), chosen


def leverage_scores(X: np.ndarray, size: int, kernel: Kernel, rng: np.random.Generator) -> np.ndarray:
    """Estimate ridge leverage scores of rows from a uniform sample of them, (n,).

    The score of row i is ``(K (K + ridge I)^-1)_ii``. The ridge is the sum of the eigenvalues beyond the
    first `size`, divided by `size`. The sum of the scores is then at most ``2 * size`` (Musco and Musco
    2017, eq. 4).

    Shapes: `X` (n, d); returns (n,).
    """
    n = len(X)
    sample = np.sort(rng.choice(n, min(n, SAMPLED * size), replace=False))
    points = np.asarray(X[sample], dtype=np.float64)
    inner = kernel_matrix(kernel, points, points)
    fraction = len(sample) / n
    values, vectors = np.linalg.eigh(0.5 * (inner + inner.T))
    values = np.maximum(values, 0.0)
    tail = float(np.sum(values[:-size])) / fraction
    least = np.finfo(np.float64).eps * n * float(np.max(values, initial=0.0)) / fraction
    ridge = max(tail / size, least, np.finfo(np.float64).tiny)
    # A row of ``K_iS`` times this has the squared length ``K_iS (K_SS + fraction * ridge I)^-1 K_Si``.
    roots = vectors / np.sqrt(values + fraction * ridge)
    scores = np.empty(n)
    for first in range(0, n, _AT_ONCE):
        rows = np.asarray(X[first : first + _AT_ONCE], dtype=np.float64)
        seen = kernel_matrix(kernel, rows, points) @ roots
        rest = kernel_diagonal(kernel, rows) - np.einsum("ij,ij->i", seen, seen)
        scores[first : first + _AT_ONCE] = rest / ridge
    return np.clip(scores, 1e-3 * size / n, 1.0)


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


LANDMARKS: dict[str, Callable[[np.ndarray, int, Kernel, np.random.Generator], Landmarks]] = {
    "random": _random,
    "kmeans": _kmeans,
    "leverage": _leverage,
}
