"""Small problems in a kernel's space, and their optima over listed members written in cvxpy."""

import cvxpy as cp
import numpy as np
import pytest

from structinv.kernels import Gaussian, Polynomial
from structinv.spaces.kernel_space import KernelSpace
from structinv.terms import Objective, WorstCase

from .oracles.cases import D
from .problems import minimum

KERNELS = {"gaussian": Gaussian(2.0), "polynomial": Polynomial(2, 1.0, 0.1)}
# In units of 10^6 bytes: all members known; a table of some atoms; of a few; of none.
CACHES = [100.0, 0.004, 0.0005, 0.0]
every_cache = pytest.mark.parametrize("cache_mb", CACHES)


def problem(oracle, setting, kernel, *, space=None, factor=1.0, cache_mb=100.0):
    """The problem of a setting, without its intercept, all weights times `factor`."""
    space = space or KernelSpace(kernel, D, setting.n_outputs, cache_mb=cache_mb)
    weights = factor * np.array(setting.weights)
    return Objective(
        space, [WorstCase(setting.X, setting.y, oracle, setting.structure, weights, **setting.losses)]
    )


def features(kernel, points):
    """Rows whose inner products are those of a kernel, or of a function of two matrices; (n, rank)."""
    values, vectors = np.linalg.eigh(getattr(kernel, "matrix", kernel)(points, points))
    kept = values > 1e-13 * values[-1]
    return vectors[:, kept] * np.sqrt(values[kept])


def over_members(kernel, members, n_outputs, loss, least=minimum):
    """The least ``1/2 |f|^2 + sum_i loss(i, f at the members of row i)``, and f at all members.

    `members` has shape (n, s, d), and a loss takes a number and an expression of shape (s, n_outputs).
    """
    n, s, d = members.shape
    points, place = np.unique(members.reshape(n * s, d), axis=0, return_inverse=True)
    phi = features(kernel, points)[place.ravel()]
    W = cp.Variable((phi.shape[1], n_outputs))
    values = phi @ W
    losses = [loss(i, values[i * s : (i + 1) * s]) for i in range(n)]
    best = least(0.5 * cp.sum_squares(W) + sum(losses))
    return best, phi @ W.value


def values_at_members(solution, case, setting):
    """What a solution's f is at all members, in the order of `optimum`."""
    members = case.members(setting.X, setting.y).reshape(-1, D)
    return solution.f.function()(members)
