"""Pooled kernel values of image patches, in blocks that fit in the cache."""

from __future__ import annotations

import numpy as np

from ..kernels import Kernel
from ..kernels.checked_kernel import kernel_table
from ..kernels.kernel_utils import half_norms
from ..utils.jit import njit
from ..utils.matrices import in_threads, one_blas_thread

# Number of kernel values in a block of a thread: 1 MB of float32.
VALUES = 2**18
# Minimum number of patches in a block.
LEAST = 64


def add_kernel_values(
    kernel: Kernel,
    patches: np.ndarray,
    landmarks: np.ndarray,
    pooling: np.ndarray,
    factors: np.ndarray,
    features: np.ndarray,
) -> None:
    """Add pooled kernel values of patches and landmarks to features of images.

    Images are processed one by one, so the features of an image depend neither on other images nor on
    the number of threads. Several threads are used if `Kernel.thread_safe` is True. The caller checks
    that features are finite.

    Shapes: `patches` (n * count, d), `landmarks` (k, d), `pooling` (cells, count), `factors` (n, count),
    `features` (n, cells, k).
    """
    n, count = factors.shape
    x, y = half_norms(patches), half_norms(landmarks)
    step = max(LEAST, VALUES // len(landmarks))
    parts = [slice(first, min(first + step, count)) for first in range(0, count, step)]
    weights = [np.ascontiguousarray(pooling[:, part]) for part in parts]

    def work(images: slice) -> None:
        for i in range(images.start, images.stop):
            for part, cell_weights in zip(parts, weights, strict=True):
                these = slice(i * count + part.start, i * count + part.stop)
                values = kernel_table(kernel, patches[these], landmarks, (x[these], y))
                _add_pooled(cell_weights, factors[i, part], values, features[i])

    if not kernel.thread_safe:
        work(slice(0, n))
        return
    with one_blas_thread():
        in_threads(work, n, len(patches) * len(landmarks))


@njit(cache=True, nogil=True, fastmath={"contract"})
def _add_pooled(pooling, factors, values, features):
    # BLAS is slow for few cells, and does not skip weights of 0.
    for p in range(values.shape[0]):
        for c in range(pooling.shape[0]):
            weight = pooling[c, p] * factors[p]
            if weight != 0:
                for k in range(values.shape[1]):
                    features[c, k] += weight * values[p, k]
