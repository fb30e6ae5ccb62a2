"""Landmarks of Nystroem's features: which rows, or points between them, stand for all; their root."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..kernels import Kernel
from ..kernels.checked_kernel import kernel_diagonal, kernel_matrix

Landmarks = tuple[np.ndarray, np.ndarray]

# Rows of the uniform sample that leverage scores come from, for each landmark.
SAMPLED = 4
# Rows whose scores are worked on at once.
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
    """Ridge leverage scores of rows, estimated from a uniform sample of them, (n,).

    The score of row i is ``(K (K + ridge I)^-1)_ii``, with a ridge of the eigenvalues beyond the first
    `size`, their sum over `size`: then the scores have a sum of at most ``2 * size`` (Musco and Musco
    2017, eq. 4).

    Parameters
    ----------
    X : (n, d) array
    size : int
    kernel : Kernel
    rng : numpy.random.Generator

    Returns
    -------
    (n,) array
        Above 0, at most 1.
    """
    n = len(X)
    sample = np.sort(rng.choice(n, min(n, SAMPLED * size), replace=False))
    points = np.asarray(X[sample], dtype=np.float64)
    inner = kernel_matrix(kernel, points, points)
    share = len(sample) / n
    values, vectors = np.linalg.eigh(0.5 * (inner + inner.T))
    values = np.maximum(values, 0.0)
    tail = float(np.sum(values[:-size])) / share
    least = np.finfo(np.float64).eps * n * float(np.max(values, initial=0.0)) / share
    ridge = max(tail / size, least, np.finfo(np.float64).tiny)
    # A row of ``K_iS`` times this has the squared length ``K_iS (K_SS + share * ridge I)^-1 K_Si``.
    roots = vectors / np.sqrt(values + share * ridge)
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
    """``K(Z, Z)^(-1/2)`` of landmarks Z, (m, d), and its rank.

    Parameters
    ----------
    kernel : Kernel
    landmarks : (m, d) array
    precision : dtype
        Of the kernel's values that are multiplied by it, at the least: eigenvalues that rounding them
        could have made, below ``m * eps`` times the largest, count as 0, and so do their inverses.

    Returns
    -------
    root : (m, m) array
        Symmetric, of float64.
    rank : int
        How many eigenvalues count.
    """
    # The points are as many as columns, so that precision is cheap here, and what counts.
    points = landmarks.astype(np.float64)
    matrix = kernel_matrix(kernel, points, points)
    values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
    kept = values > len(values) * np.finfo(precision).eps * max(values[-1], 0.0)
    roots = vectors[:, kept] / np.sqrt(values[kept])
    return roots @ vectors[:, kept].T, int(np.sum(kept))


LANDMARKS: dict[str, Callable[[np.ndarray, int, Kernel, np.random.Generator], Landmarks]] = {
    "random": _random,
    "kmeans": _kmeans,
    "leverage": _leverage,
}
