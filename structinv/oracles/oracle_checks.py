"""Test of the requirements of oracles, for built-in and custom classes."""

from __future__ import annotations

import logging
import pickle
from threading import Timer
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from ..utils.exceptions import CheckError
from ..utils.matrices import ALL_ROWS, Matrix, dense, refuse_masked
from ..utils.parameters import brief
from .base import BoundOracle, InvarianceOracle, Support, as_oracle
from .change_checks import check_draws, check_largest, check_list, check_orbits
from .trials import (
    Trial,
    fail_where,
    inside,
    optional,
    untouched,
    values_and_bounds,
)

# Maximum number of rows that are checked.
_ROW_LIMIT = 12
_LOG = logging.getLogger("structinv")
_SILENT_SECONDS = 3.0
_SLOW = (
    "structinv: check_oracle takes longer than 3 seconds: methods of {} are slow, or functions compile "
    "for the first time. It ends after a few thousand calls. Pass fewer samples or a smaller "
    "n_directions for a shorter check."
)


def check_oracle(
    oracle: InvarianceOracle,
    X: Matrix,
    y: np.ndarray | None = None,
    *,
    n_directions: int = 8,
    random_state: int | None = 0,
) -> None:
    """Check that an oracle fulfills the requirements of `InvarianceOracle`.

    The check tries samples, random directions and costs, and tests the following:

    - Answers are finite, have the right shape and lie in S(x).
    - An answer is not worse than x and does not exceed its `upper`.
    - No known member of S(x) exceeds an `upper`: answers for other directions, random members, and the
      orbit.
    - An `orbit` is not random, and an exact answer is the largest of its members.
    - Members, names, scores and grades of a list are consistent.
    - Answers do not depend on other rows, their order, storage or precision, nor on earlier calls.
    - Arguments are not modified, and clones and pickles return the same answers.
    - Random draws have weights and lie in S(x), and maps of a list match its members.

    Parameters
    ----------
    oracle : InvarianceOracle
        Oracle to check.
    X : array-like or CSR matrix of shape (n_samples, n_features)
        Samples; the first 12 are used, and a row of zeros is added.
    y : array-like of shape (n_samples,), optional
        True labels, for oracles that depend on them.
    n_directions : int, default=8
        Number of random directions (>= 1). The check adds three variants of each, with rescaled entries,
        and some special directions.
    random_state : int or None, default=0
        Seed of directions, costs and random members; None for a random seed.

    Raises
    ------
    CheckError
        If a requirement is violated. The message contains the number of the row of `X`, and the
        direction.
    TypeError, ValueError
        If `oracle` is not an oracle (for instance a class), or if `X` or `y` is invalid.

    See Also
    --------
    InvarianceOracle : Base class with these requirements.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.oracles import Box, check_oracle
    >>> check_oracle(Box(0.5), np.array([[1.0, 2.0], [3.0, 4.0]]))
    """
    dense, labels = _checked_rows(oracle, X, y)
    oracle.validate(dense.shape[1])
    notice = Timer(_SILENT_SECONDS, _LOG.warning, [_SLOW.format(type(oracle).__name__)])
    notice.daemon = True
    notice.start()
    try:
        trial = Trial(oracle, dense, labels, n_directions, np.random.default_rng(random_state))
        for check in _CHECKS:
            check(trial)
    finally:
        notice.cancel()


def _checked_rows(oracle: InvarianceOracle, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the first rows as a dense array, and their labels."""
    as_oracle(oracle)
    refuse_masked("X", X)
    refuse_masked("y", y)
    try:
        rows = np.asarray(dense(X), dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(
            f"X must be an array of real numbers with one sample per row, got {brief(X)}"
        ) from None
    if rows.ndim != 2 or len(rows) == 0 or rows.shape[1] == 0:
        raise ValueError(f"X must have shape (n_samples, n_features), got {rows.shape}")
    if not np.all(np.isfinite(rows)):
        raise ValueError("X must be finite, got NaN or infinity")
    labels = None if y is None else np.asarray(y)
    if labels is not None and labels.shape != (len(rows),):
        raise ValueError(f"y must have shape ({len(rows)},), one label per row, got {labels.shape}")
    return rows[:_ROW_LIMIT], None if labels is None else labels[:_ROW_LIMIT]


def _check_identity(trial: Trial) -> None:
    identity = trial.V @ trial.X.T + trial.graded_costs
    tolerance = trial.tolerance(trial.V.T, trial.X).T
    fail_where(
        trial,
        trial.values < identity - tolerance,
        "an answer is worse than the unperturbed row, but S(x) must contain x",
    )


def _check_membership(trial: Trial) -> None:
    contains = optional(trial.bound.contains)
    for direction in trial.directions:
        for row, z in enumerate(trial.points[direction]):
            if contains(row, z) is False:
                raise CheckError(f"an answer lies outside S(x) ({trial.where(row, trial.V[direction])})")
    for row, x in enumerate(trial.X):
        if contains(row, x) is False:
            raise CheckError(f"contains must return True for the unperturbed row ({trial.where(row)})")
        # Farther from the row than all answers.
        far = x + 10.0 * (1.0 + np.max(np.abs(trial.points[:, row] - x)))
        if np.all(np.isfinite(trial.upper)) and contains(row, far):
            raise CheckError(f"contains must return False far outside S(x) ({trial.where(row)})")


def _check_upper(trial: Trial) -> None:
    tolerance = np.einsum("qnd,qd->qn", np.abs(trial.points), np.abs(trial.V)) * trial.rtol
    fail_where(trial, trial.upper < trial.values - tolerance, "upper is below the value of the answer")


def _check_cross(trial: Trial) -> None:
    ones = np.ones(len(trial.X))
    rho = np.stack([ones if answer.rho is None else answer.rho for answer in trial.answers])
    for direction in trial.directions:
        v = trial.V[direction]
        reached = trial.points @ v + rho * trial.graded_costs[direction]
        fail_where(
            trial,
            reached > trial.upper[direction] + trial.tolerance(v, trial.points),
            "the answer for another direction exceeds upper",
            v,
        )


def _check_members(trial: Trial) -> None:
    """Check the shape of random members and their membership, also against upper bounds."""
    n, d = trial.X.shape
    sample = optional(trial.bound.sample)(ALL_ROWS, 20, np.random.default_rng(0))
    if sample is None:
        return
    if sample.ndim != 3 or (sample.shape[0], sample.shape[2]) != (n, d):
        raise CheckError(f"sample must return shape ({n}, 20, {d}), got {sample.shape}")
    inside(trial, "sample", sample)
    if sample.shape[1] != 20:
        raise CheckError(f"sample must return n_draws = 20 members per row, got {sample.shape[1]}")


def _check_blocks(trial: Trial) -> None:
    """Compare with answers for single rows, permuted rows and many directions at once."""
    n = len(trial.X)
    order = trial.rng.permutation(n)
    V = np.ascontiguousarray(trial.V)
    direction = trial.rng.integers(len(V), size=n)
    cost = trial.costs[direction, np.arange(n)]
    wanted = trial.values[direction, np.arange(n)], trial.upper[direction, np.arange(n)]

    def compare(name: str, bound: BoundOracle, rows: Any, ids: np.ndarray) -> None:
        assign = direction[ids]
        answer = trial.answer(bound, V, cost[ids], rows, assign)
        _same(trial, answer, V, cost[ids], assign, [w[ids] for w in wanted], ids, name)

    each = np.arange(n)
    compare("a call with one direction per row", trial.bound, ALL_ROWS, each)
    compare("a call with permuted row numbers", trial.bound, order, order)
    compare("a call for some of the rows", trial.bound, slice(1, n), each[1:])
    labels = None if trial.y is None else trial.y[order]
    compare("permuted rows", trial.stored.bind(trial.X[order], labels), ALL_ROWS, order)
    for row in range(n):
        rows = np.array([row])
        compare("a call for one row", trial.bound, rows, rows)
        labels = None if trial.y is None else trial.y[rows]
        compare(
            "an oracle bound to a single row", trial.stored.bind(trial.X[rows], labels), ALL_ROWS, rows
        )


def _check_storage(trial: Trial) -> None:
    """Compare with strided, Fortran-ordered, float32 and (if supported) CSR rows."""
    n, d = trial.X.shape
    wide = np.zeros((2 * n, 2 * d))
    wide[::2, ::2] = trial.X
    V = np.zeros((len(trial.V), 2 * d))
    V[:, ::2] = trial.V
    _compare_all(trial, "strided rows", wide[::2, ::2], V[:, ::2])
    _compare_all(trial, "rows in Fortran order", np.asfortranarray(trial.X), trial.V)
    _compare_all(trial, "rows in float32", trial.X.astype(np.float32), trial.V, 1e-4)
    if trial.oracle.supports_sparse:
        _compare_all(trial, "CSR rows", sp.csr_matrix(trial.X), trial.V)
        long = sp.csr_matrix(trial.X)
        long.indices, long.indptr = long.indices.astype(np.int64), long.indptr.astype(np.int64)
        _compare_all(trial, "CSR rows with 64-bit indices", long, trial.V)


def _compare_all(trial: Trial, name: str, X: Matrix, V: np.ndarray, rtol: float = 1e-9) -> None:
    with untouched("bind", X=X, y=trial.y):
        bound = trial.stored.bind(X, trial.y)
    for k in trial.directions:
        answer = trial.answer(bound, V[k], trial.costs[k])
        wanted = [trial.values[k], trial.upper[k]]
        ids = np.arange(len(trial.X))
        _same(trial, answer, V[k : k + 1], trial.costs[k], 0 * ids, wanted, ids, name, rtol)


def _same(
    trial: Trial,
    answer: Support,
    V: np.ndarray,
    cost: np.ndarray,
    assign: np.ndarray,
    wanted: list[np.ndarray],
    ids: np.ndarray,
    name: str,
    rtol: float = 1e-9,
) -> None:
    """Compare values and bounds; points may differ if several are best."""
    sizes = np.einsum("nd,nd->n", np.abs(trial.X[ids]), np.abs(V[assign])) + np.abs(wanted[0])
    rtol = max(rtol, trial.rtol)
    sizes += np.max(np.abs(trial.points), initial=0.0) * np.abs(V[assign]).sum(axis=1) + cost
    got = values_and_bounds(answer, V, cost, assign)
    for part, new, old in zip(("value", "upper"), got, wanted, strict=True):
        finite = np.isfinite(old) & np.isfinite(new)
        bad = np.where(finite, np.abs(new - np.where(finite, old, 0.0)) > rtol * sizes, new != old)
        message = f"{name}: the {part} of the answer differs"
        fail_where(trial, bad, message, V[assign], ids)


def _check_copies(trial: Trial) -> None:
    """Compare with a repeated call, a clone, a pickle, and a copy by `get_params`."""
    _compare_all(trial, "a repeated call", trial.X, trial.V)
    again = trial.answer(trial.bound, trial.V[0], trial.costs[0])
    if not np.array_equal(again.points, trial.points[0]):
        raise CheckError("a repeated call must return the same points")
    try:
        copies = {
            "a clone": clone(trial.oracle),
            "a pickle": pickle.loads(pickle.dumps(trial.oracle)),
            "get_params": type(trial.oracle)(**trial.oracle.get_params(deep=False)),
        }
    except Exception as error:
        raise CheckError(f"clone, pickle and get_params must work: {error}") from error
    for name, copy in copies.items():
        if type(copy) is not type(trial.oracle):
            raise CheckError(f"{name} must have the same class")
        answer = trial.answer(copy.bind(trial.X, trial.y), trial.V[0], trial.costs[0])
        if not np.array_equal(answer.points, trial.points[0]):
            raise CheckError(f"{name} must return the same points as the oracle")


def _check_scaling(trial: Trial) -> None:
    """Check that the maximum without grades is homogeneous in the direction."""
    for k in trial.directions:
        answer = trial.answers[k]
        if answer.upper is not None or answer.rho is not None:
            continue
        for factor in (1e-3, 7.0):
            scaled = trial.answer(trial.bound, factor * trial.V[k], trial.costs[k])
            bad = np.abs(values_and_bounds(scaled, trial.V[k], None)[0] - trial.values[k])
            bad = bad > trial.tolerance(trial.V[k], trial.points[k])
            message = "the maximum must be proportional to the length of the direction"
            fail_where(trial, bad, message, trial.V[k])


def _check_flags(trial: Trial) -> None:
    """Check the attributes `additive` and `convex`."""
    exact = [k for k in trial.directions if trial.answers[k].upper is None]
    if trial.oracle.additive:
        shift = trial.rng.standard_normal(trial.X.shape)
        bound = trial.stored.bind(trial.X + shift, trial.y)
        for k in exact:
            answer = trial.answer(bound, trial.V[k], trial.costs[k])
            moved = values_and_bounds(answer, trial.V[k], trial.costs[k])[0]
            gap = np.abs(moved - shift @ trial.V[k] - trial.values[k])
            sizes = trial.tolerance(trial.V[k], trial.points[k]) + trial.rtol * np.abs(moved)
            sizes += trial.rtol * np.abs(shift) @ np.abs(trial.V[k])
            message = "an oracle with additive = True must have a set that does not depend on x"
            fail_where(trial, gap > sizes, message, trial.V[k])
    contains = optional(trial.bound.contains)
    if trial.oracle.convex:
        for k in range(1, len(trial.points)):
            for row, middle in enumerate((trial.points[k - 1] + trial.points[k]) / 2):
                if contains(row, middle) is False:
                    raise CheckError(
                        "an oracle with convex = True must contain the midpoint of two answers "
                        f"({trial.where(row)})"
                    )


_CHECKS = (
    check_orbits,
    _check_identity,
    _check_upper,
    check_largest,
    _check_membership,
    _check_cross,
    _check_members,
    check_list,
    _check_blocks,
    _check_storage,
    _check_copies,
    _check_scaling,
    _check_flags,
    check_draws,
)
