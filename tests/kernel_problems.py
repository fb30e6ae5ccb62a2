"""Small problems in a kernel's space, and their optima over listed members written in cvxpy."""

from functools import cache

import cvxpy as cp
import numpy as np
import pytest

from structinv.kernels import Gaussian, Polynomial
from structinv.spaces.kernel_space import KernelSpace
from structinv.terms import Objective, WorstCase

from .oracle_cases import D
from .orbit_cases import ORBIT_CASE
from .problems import SETTING, minimum

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
    """Rows whose inner products are the kernel's, (n, rank)."""
    values, vectors = np.linalg.eigh(kernel.matrix(points, points))
    kept = values > 1e-13 * values[-1]
    return vectors[:, kept] * np.sqrt(values[kept])


@cache
def optimum(case_name, setting_name, kernel_name, factor=1.0):
    """The optimal value, and what f is at all members, by cvxpy."""
    case, setting = ORBIT_CASE[case_name], SETTING[setting_name]
    members, grades = (view(setting.X, setting.y) for view in (case.members, case.grades))
    n, s, _ = members.shape
    points, place = np.unique(members.reshape(n * s, D), axis=0, return_inverse=True)
    phi = features(KERNELS[kernel_name], points)[place.ravel()]
    W = cp.Variable((phi.shape[1], setting.n_outputs))
    values = phi @ W
    total = 0.5 * cp.sum_squares(W)
    for i, (label, weight) in enumerate(zip(setting.y, setting.weights, strict=True)):
        mine = values[i * s : (i + 1) * s]
        parts = [0.0]
        for other in range(setting.n_classes):
            cost = float(setting.cost[label][other])
            if other == label:
                continue
            if setting.n_outputs == 1:
                gain = (1.0 if other == 1 else -1.0) * mine[:, 0]
            else:
                gain = mine[:, other] - mine[:, label]
            parts.append(cp.max((cost if setting.slack else 1.0) * gain + cost * grades[i]))
        total = total + factor * weight * cp.maximum(*parts)
    best = minimum(total)
    return best, phi @ W.value


def values_at_members(solution, case, setting):
    """What a solution's f is at all members, in the order of `optimum`."""
    members = case.members(setting.X, setting.y).reshape(-1, D)
    return solution.f.function()(members)
