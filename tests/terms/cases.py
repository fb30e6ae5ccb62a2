"""The program over planes, written in cvxpy."""

import cvxpy as cp
import numpy as np


def best(points, offsets, blocks, weights):
    """The largest dual value over planes, by cvxpy."""
    alphas, weight = cp.Variable(len(offsets), nonneg=True), weights[blocks]
    member = (blocks[None, :] == np.arange(len(weights))[:, None]).astype(float)
    f = (points * weight[:, None]).T @ alphas
    dual = (weight * offsets) @ alphas - 0.5 * cp.sum_squares(f)
    problem = cp.Problem(cp.Maximize(dual), [member @ alphas <= 1])
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    return problem.value


def assert_feasible(working, alphas=None):
    """Masses of planes, of a working set by default its own, are at most 1 in each block."""
    alphas = working.alphas if alphas is None else alphas
    assert np.all(alphas >= 0)
    per_block = np.bincount(working.blocks, alphas, minlength=len(working.weights))
    assert np.all(per_block <= 1 + 1e-12)
