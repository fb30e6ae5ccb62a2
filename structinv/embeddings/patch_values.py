"""Kernel values of patches, pooled while a core's cache holds them."""

from __future__ import annotations

import numpy as np

from ..kernels import Kernel
from ..kernels.checked_kernel import kernel_table
from ..kernels.values import half_norms
from ..utils.jit import njit
from ..utils.matrices import in_threads, one_blas_thread

# Values of the kernel that each thread holds at once: 1 MB of float32.
VALUES = 2**18
# Patches that are worth a product.
LEAST = 64


def add_kernel_values(
    kernel: Kernel,
    patches: np.ndarray,
    landmarks: np.ndarray,
    pooling: np.ndarray,
    factors: np.ndarray,
    found: np.ndarray,
) -> None:
    """Add pooled values of a kernel between patches and landmarks to features of images, in place.

    Images are worked on one by one, so that features of one depend neither on others nor on the number
    of threads: several, if the kernel allows that, see `Kernel.thread_safe`. That values are finite is
    left to the caller, who has fewer numbers to look at.

    Parameters
    ----------
    kernel : Kernel
    patches : (n * count, d) array
        Those of one image after those of another.
    landmarks : (k, d) array
    pooling : (cells, count) array
    factors : (n, count) array
        What the values of each patch are multiplied by.
    found : (n, cells, k) array
        Changed.
    """
    n, count = factors.shape
    x, y = half_norms(patches), half_norms(landmarks)
    step = max(LEAST, VALUES // len(landmarks))
    parts = [slice(first, min(first + step, count)) for first in range(0, count, step)]
    weights = [np.ascontiguousarray(pooling[:, part]) for part in parts]

    def work(images: slice) -> None:
        for i in range(images.start, images.stop):
            for part, shares in zip(parts, weights, strict=True):
                these = slice(i * count + part.start, i * count + part.stop)
                values = kernel_table(kernel, patches[these], landmarks, (x[these], y))
                _add_pooled(shares, factors[i, part], values, found[i])

    if not kernel.thread_safe:
        work(slice(0, n))
        return
    with one_blas_thread():
        in_threads(work, n, len(patches) * len(landmarks))


@njit(cache=True, nogil=True, fastmath={"contract"})
def _add_pooled(pooling, factors, values, found):
    # BLAS is slow where cells are few, and knows nothing of weights that are 0.
    for p in range(values.shape[0]):
        for c in range(pooling.shape[0]):
            weight = pooling[c, p] * factors[p]
            if weight != 0:
                for k in range(values.shape[1]):
                    found[c, k] += weight * values[p, k]
