"""Bounds of rounding errors in predictions of kernel expansions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..kernels import Kernel
from ..kernels.kernel_values import kernel_diagonal, precision, squared_norms
from ..structures.decodings import Competitors

if TYPE_CHECKING:
    from .kernel_space import Expansion


def output_rounding(kernel: Kernel, f: Expansion, members: np.ndarray) -> np.ndarray:
    """Bound the rounding error of each function over S(x), (n, n_outputs).

    Shapes: `members` (n, s, d).

    An output at z is a sum of m terms ``beta_j k(z_j, z)`` with ``|k(z_j, z)| <=
    sqrt(k(z_j, z_j) k(z, z))``. Each kernel value is computed from d products. The bound is

        eps (8 + sqrt(d) + sqrt(m)) sum_j |beta_j| sqrt(k(z_j, z_j)) max_z sqrt(k(z, z))
        + eps L^2 sum_j |beta_j| |z_j| max_z |z|

    Here eps is that of the precision of predictions, and L is the kernel's Lipschitz constant. Maxima
    are over z in S(x). The second line is the cancellation error of a squared distance. It is omitted if
    L is infinite.
    """
    n, s, d = members.shape
    flat, used = members.reshape(n * s, d), f.support()
    centers, sizes = f.atoms.points(used), np.abs(f.coefficients[used])
    per_height, n_terms = f.norm_sums()
    slope = kernel.lipschitz(d)
    slope = slope if np.isfinite(slope) else 0.0
    eps = float(np.finfo(precision(members, centers)).eps)
    per_height = eps * (8.0 + np.sqrt(d) + np.sqrt(n_terms)) * per_height
    per_length = eps * slope**2 * (np.sqrt(squared_norms(centers)) @ sizes)
    values = kernel_diagonal(kernel, flat).reshape(n, s).astype(np.float64)
    lengths = np.sqrt(squared_norms(flat).reshape(n, s).max(axis=1))
    return np.outer(np.sqrt(values.max(axis=1)), per_height) + np.outer(lengths, per_length)


def kernel_rounding(
    kernel: Kernel, f: Expansion, members: np.ndarray, competitors: Competitors
) -> np.ndarray:
    """Bound the rounding error of score differences to the true label, (n, n_labels)."""
    each = competitors.functions.sizes(output_rounding(kernel, f, members))
    rounding = each + np.take_along_axis(each, competitors.codes[:, None], axis=1)
    rounding[np.arange(len(competitors)), competitors.codes] = 0.0
    return rounding
