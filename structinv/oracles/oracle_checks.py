"""A public check of the oracle contract, for the oracles here and for those of users."""

from __future__ import annotations

import pickle
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from ..utils.exceptions import CheckError
from ..utils.matrices import ALL_ROWS, Matrix
from .base import BoundOracle, InvarianceOracle, Support, as_oracle
from .change_checks import check_draws, check_list
from .listing import listed
from .trials import Trial, bound_of, fail_where, inside, optional, refused, untouched, value_of
from .witnesses import Witnesses

# Rows that are checked, of those given.
_ROW_LIMIT = 12


def check_oracle(
    oracle: InvarianceOracle,
    X: Matrix,
    y: np.ndarray | None = None,
    *,
    n_directions: int = 8,
    random_state: int | None = 0,
) -> None:
    """Raise if an oracle breaks the contract of `InvarianceOracle` on rows like these.

    No single property reveals a wrong oracle, so many are tried: answers are finite, of the right
    shape, inside S(x), no worse than x itself and no better than their own `upper`; no member of
    S(x) that comes to light, as the answer for another direction, in a sample or in the orbit,
    beats an `upper`, nor does any point that `contains` admits among those made from the answers;
    members, their names, scores and grades belong together; answers do not depend on the other
    rows of a block, their order, storage or precision, nor on earlier calls; inputs stay
    untouched; clones and pickles answer alike. Drawn changes have weights and, for every row by
    itself, members of S(x); maps that a list gives lead to its members.

    Parameters
    ----------
    oracle : InvarianceOracle
    X : (n, d) array-like or CSR matrix
        Rows to try, a dozen at most; a row of zeros is added.
    y : (n,) array-like, optional
        Their labels, for oracles that depend on them.
    n_directions : int
        How many independent directions to try; each has three neighbors, and a few special
        directions are added.
    random_state : int, optional
        Seed of the directions, costs and samples.

    Raises
    ------
    CheckError
        Names the property that fails and the first row of `X` and direction where it does.
    TypeError, ValueError
        If `oracle` is none (a class, say), or `X` and `y` are no rows and labels.

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.oracles import Box, check_oracle
    >>> check_oracle(Box(0.5), np.array([[1.0, 2.0], [3.0, 4.0]]))
    """
    dense, labels = _checked_rows(oracle, X, y)
    oracle.validate(dense.shape[1])
    trial = Trial.start(oracle, dense, labels, n_directions, np.random.default_rng(random_state))
    for check in _CHECKS:
        check(trial)


def _checked_rows(oracle: InvarianceOracle, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """The first rows, dense, and their labels."""
    as_oracle(oracle)
    try:
        rows = np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"X must be an array of real numbers, an input a row, got {X!r}") from None
    if rows.ndim != 2 or len(rows) == 0 or rows.shape[1] == 0:
        raise ValueError(f"X must have shape (n, d), an input a row, got {rows.shape}")
    if not np.all(np.isfinite(rows)):
        raise ValueError("X must be finite, got NaN or infinity")
    labels = None if y is None else np.asarray(y)
    if labels is not None and labels.shape != (len(rows),):
        raise ValueError(f"y must have shape ({len(rows)},), one label a row, got {labels.shape}")
    return rows[:_ROW_LIMIT], None if labels is None else labels[:_ROW_LIMIT]


def _check_identity(trial: Trial) -> None:
    grades = np.stack(
        [
            np.zeros(len(r)) if a.rho is None else r
            for a, r in zip(trial.answers, trial.costs, strict=True)
        ]
    )
    identity = trial.V @ trial.X.T + grades
    tolerance = trial.tolerance(trial.V.T, trial.X).T
    fail_where(
        trial,
        trial.values < identity - tolerance,
        "an answer is worse than the unchanged row: S(x) must contain x",
    )


def _check_membership(trial: Trial) -> None:
    contains = optional(trial.bound.contains)
    for question in trial.questions:
        for row, z in enumerate(trial.points[question]):
            if contains(row, z) is False:
                raise CheckError(f"an answer lies outside S(x) ({trial.where(row, trial.V[question])})")
    for row, x in enumerate(trial.X):
        if contains(row, x) is False:
            raise CheckError(f"contains must hold for the unchanged row ({trial.where(row)})")
        # Further out than any answer went.
        far = x + 10.0 * (1.0 + np.max(np.abs(trial.points[:, row] - x)))
        if np.all(np.isfinite(trial.upper)) and contains(row, far):
            raise CheckError(f"contains holds for a point far outside ({trial.where(row)})")


def _check_upper(trial: Trial) -> None:
    tolerance = np.einsum("qnd,qd->qn", np.abs(trial.points), np.abs(trial.V)) * trial.rtol
    fail_where(trial, trial.upper < trial.values - tolerance, "upper is below what the answer reaches")


def _check_cross(trial: Trial) -> None:
    ungraded = np.array([answer.rho is None for answer in trial.answers])
    rho = np.stack(
        [np.ones(len(trial.X)) if answer.rho is None else answer.rho for answer in trial.answers]
    )
    for question in trial.questions:
        v = trial.V[question]
        reached = trial.points @ v
        if not ungraded[question]:
            reached = reached + rho * trial.costs[question]
        fail_where(
            trial,
            reached > trial.upper[question] + trial.tolerance(v, trial.points),
            "the answer for another direction beats the upper",
            v,
        )


def _check_members(trial: Trial) -> None:
    """Samples: their form, membership, and that none beats an upper."""
    n, d = trial.X.shape
    sample = optional(trial.bound.sample)(ALL_ROWS, 20, np.random.default_rng(0))
    if sample is None:
        return
    if sample.ndim != 3 or (sample.shape[0], sample.shape[2]) != (n, d):
        raise CheckError(f"sample must have shape (n, size, d), got {sample.shape}")
    inside(trial, "sample", sample)
    if sample.shape[1] != 20:
        raise CheckError("sample must have as many members as asked for")


def _check_witnesses(trial: Trial) -> None:
    """No point that `contains` admits beats an upper, in any row."""
    if optional(trial.bound.contains)(0, trial.X[0]) is None:
        return
    moves = trial.points - trial.X
    for row, x in enumerate(trial.X):
        others = np.delete(moves, row, axis=1).reshape(-1, len(x))
        found = Witnesses(
            x,
            trial.points[:, row],
            others[np.any(others != 0, axis=1)],
            trial.V,
            trial.upper[:, row],
            partial(refused(trial.bound.contains), row),
            np.random.default_rng(row),
        ).find()
        if found is not None:
            raise CheckError(
                f"contains admits a point that beats upper: {found[0]} "
                f"({trial.where(row, trial.V[found[1]])})"
            )


def _check_brute_force(trial: Trial) -> None:
    if not trial.oracle.finite:
        return
    members = listed(trial.bound).members()
    distance = np.abs(trial.points[:, :, None, :] - members[None]).max(axis=3).min(axis=2)
    size = np.abs(trial.points).max(axis=2) + np.abs(trial.X).max(axis=1)
    fail_where(trial, distance > trial.rtol * size, "an answer is not a member of the orbit")


def _check_blocks(trial: Trial) -> None:
    """Answers of one row at a time, of permuted rows and of many directions at once."""
    n = len(trial.X)
    order = trial.rng.permutation(n)
    V = np.ascontiguousarray(trial.V)
    question = trial.rng.integers(len(V), size=n)
    cost = trial.costs[question, np.arange(n)]
    wanted = trial.values[question, np.arange(n)], trial.upper[question, np.arange(n)]

    def compare(name: str, bound: BoundOracle, rows: Any, ids: np.ndarray) -> None:
        assign = question[ids]
        answer = trial.ask(bound, V, cost[ids], rows, assign)
        _same(trial, answer, V, cost[ids], assign, [w[ids] for w in wanted], ids, name)

    each = np.arange(n)
    compare("a call in which every row has a direction of its own", trial.bound, ALL_ROWS, each)
    compare("a call with permuted row numbers", trial.bound, order, order)
    compare("a call for some of the rows", trial.bound, slice(1, n), each[1:])
    labels = None if trial.y is None else trial.y[order]
    compare("permuted rows", trial.oracle.bind(trial.X[order], labels), ALL_ROWS, order)
    for row in range(n):
        rows = np.array([row])
        compare("a call for one row", trial.bound, rows, rows)
        labels = None if trial.y is None else trial.y[rows]
        compare("a row on its own", trial.oracle.bind(trial.X[rows], labels), ALL_ROWS, rows)


def _check_storage(trial: Trial) -> None:
    """Fortran order and strides, float32, and CSR with both widths of indices if declared."""
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
        bound = trial.oracle.bind(X, trial.y)
    for k in trial.questions:
        answer = trial.ask(bound, V[k], trial.costs[k])
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
    """Values and bounds agree; points may differ where several are best."""
    sizes = np.einsum("nd,nd->n", np.abs(trial.X[ids]), np.abs(V[assign])) + np.abs(wanted[0])
    rtol = max(rtol, trial.rtol)
    sizes += np.max(np.abs(trial.points), initial=0.0) * np.abs(V[assign]).sum(axis=1) + cost
    got = value_of(answer, V, cost, assign), bound_of(answer, V, cost, assign)
    for part, new, old in zip(("value", "upper"), got, wanted, strict=True):
        finite = np.isfinite(old) & np.isfinite(new)
        bad = np.where(finite, np.abs(new - np.where(finite, old, 0.0)) > rtol * sizes, new != old)
        message = f"{name}: the {part} of the answer differs"
        fail_where(trial, bad, message, V[assign], ids)


def _check_copies(trial: Trial) -> None:
    """The same call again, a clone, a pickle, and the unbound oracle where labels are no matter."""
    _compare_all(trial, "the same call again", trial.X, trial.V)
    again = trial.ask(trial.bound, trial.V[0], trial.costs[0])
    if not np.array_equal(again.points, trial.points[0]):
        raise CheckError("the same call again must give the same points")
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
        answer = trial.ask(copy.bind(trial.X, trial.y), trial.V[0], trial.costs[0])
        if not np.array_equal(answer.points, trial.points[0]):
            raise CheckError(f"{name} must answer as the oracle itself does")


def _check_scaling(trial: Trial) -> None:
    """Without grades the best value is homogeneous in the direction."""
    for k in trial.questions:
        answer = trial.answers[k]
        if answer.upper is not None or answer.rho is not None:
            continue
        for factor in (1e-3, 7.0):
            scaled = trial.ask(trial.bound, factor * trial.V[k], trial.costs[k])
            bad = np.abs(value_of(scaled, trial.V[k], None) - trial.values[k])
            bad = bad > trial.tolerance(trial.V[k], trial.points[k])
            message = "the best value must scale with the direction"
            fail_where(trial, bad, message, trial.V[k])


def _check_flags(trial: Trial) -> None:
    """Sets declared additive do not depend on x; sets declared convex contain middles."""
    exact = [k for k in trial.questions if trial.answers[k].upper is None]
    if trial.oracle.additive:
        shift = trial.rng.standard_normal(trial.X.shape)
        bound = trial.oracle.bind(trial.X + shift, trial.y)
        for k in exact:
            answer = trial.ask(bound, trial.V[k], trial.costs[k])
            moved = value_of(answer, trial.V[k], trial.costs[k])
            gap = np.abs(moved - shift @ trial.V[k] - trial.values[k])
            sizes = trial.tolerance(trial.V[k], trial.points[k]) + trial.rtol * np.abs(moved)
            sizes += trial.rtol * np.abs(shift) @ np.abs(trial.V[k])
            message = "declared additive, but the set depends on x"
            fail_where(trial, gap > sizes, message, trial.V[k])
    contains = optional(trial.bound.contains)
    if trial.oracle.convex:
        for k in range(1, len(trial.points)):
            for row, middle in enumerate((trial.points[k - 1] + trial.points[k]) / 2):
                if contains(row, middle) is False:
                    raise CheckError(
                        f"declared convex, but a middle of two answers is outside ({trial.where(row)})"
                    )


_CHECKS = (
    _check_identity,
    _check_upper,
    _check_membership,
    _check_cross,
    _check_members,
    check_list,
    _check_witnesses,
    _check_brute_force,
    _check_blocks,
    _check_storage,
    _check_copies,
    _check_scaling,
    _check_flags,
    check_draws,
)
