"""Checks of lists of perturbations and of random draws, for `check_oracle`."""

from __future__ import annotations

import numpy as np
from sklearn.base import clone

from ..utils import plugins
from ..utils.exceptions import CheckError
from ..utils.matrices import ALL_ROWS, resolution
from .base import InvarianceOracle
from .changes import Changes
from .listed_changes import averaged
from .third_party import bind, tangents_of
from .trials import (
    Trial,
    fail_where,
    inside,
    optional,
    orbits_of,
    raising_check_error,
    untouched,
)

# Number of draws in each check.
_DRAWS = 5
# Number of repeated calls of `orbit`. A random order of few members can be the same by chance.
_REPEATS = 4


def check_orbits(trial: Trial) -> None:
    """Check that an `orbit` is not random, and does not depend on the other rows."""
    for part in orbits_of(trial.oracle):
        source = plugins.method(part, "orbit")
        members = _orbit(part, trial.X)
        for _ in range(_REPEATS):
            message = f"{source} must not be random: another call returns other members"
            _same(trial, message, _orbit(part, trial.X), members)
        message = f"{source} must not depend on the other rows: a call with one row differs"
        for row in range(len(trial.X)):
            alone = _orbit(part, trial.X[[row]])
            if alone.shape[1:] != members.shape[1:]:
                raise CheckError(f"{message} ({trial.where(row)})")
            found = members.copy()
            found[row] = alone[0]
            _same(trial, message, found, members)


def _orbit(part: InvarianceOracle, X: np.ndarray) -> np.ndarray:
    """Return the validated result of `orbit`."""
    with untouched("orbit", X=X):
        found = raising_check_error(part.orbit)(X)
    return raising_check_error(plugins.members)(plugins.method(part, "orbit"), found, X)


def check_largest(trial: Trial) -> None:
    """Check that answers of a finite oracle are members, and exact ones the largest."""
    bound = bind(trial.stored, trial.X, trial.y)
    changes = raising_check_error(bound.changes)() if trial.oracle.finite else None
    if changes is None:
        return
    members = np.moveaxis(raising_check_error(changes.members)(), 1, 0)
    for direction in trial.directions:
        answer, v = trial.answers[direction], trial.V[direction]
        if answer.upper is None and answer.rho is None:
            reached = np.max(members @ v - trial.tolerance(v, members), axis=0)
            source = plugins.method(trial.oracle, "support")
            message = f"{source} must return the largest of the members, but another one is larger"
            fail_where(trial, reached > trial.values[direction], message, v)
    distance = np.abs(trial.points[:, None] - members).max(axis=3).min(axis=1)
    size = np.abs(trial.points).max(axis=2) + np.abs(trial.X).max(axis=1)
    fail_where(trial, distance > trial.rtol * size, "an answer is not a member of the orbit")


def check_list(trial: Trial) -> None:
    """Check that members, names, grades, scores and maps of a list are consistent."""
    optional(tangents_of)(trial.oracle, trial.X)
    bound = bind(trial.stored, trial.X, trial.y)
    changes = raising_check_error(bound.changes)()
    if trial.oracle.finite and changes is None:
        raise CheckError("an oracle with finite = True must define orbit")
    if changes is None:
        return
    members = raising_check_error(changes.members)()
    n, d = trial.X.shape
    if members.ndim != 3 or members.shape != (n, changes.size, d):
        raise CheckError(f"members must have shape {(n, changes.size, d)}, got {members.shape}")
    inside(trial, "the list", members)
    if not np.array_equal(members[:, 0], trial.X.astype(members.dtype)):
        raise CheckError("the list must begin with the unperturbed sample")
    if len(raising_check_error(lambda: changes.names)()) != changes.size:
        raise CheckError(f"names must have one name for each of the {changes.size} members")
    _check_weights(changes, "the list")
    mesh = raising_check_error(changes.mesh)()
    if mesh.shape != (n,) or not np.all(mesh >= 0):
        raise CheckError(f"mesh must return {n} numbers of at least 0, got {mesh}")
    optional(changes.grades)()
    _check_scores(trial, changes, members)
    for member in {0, changes.size // 2, changes.size - 1}:
        index = np.full(n, member)
        off = np.abs(raising_check_error(changes.points)(ALL_ROWS, index) - members[:, member]).max(
            axis=1
        )
        off = off - 1e-6 * np.abs(members).max(axis=(1, 2))
        fail_where(trial, off > 0, f"points and members differ for member {member}")
        raising_check_error(changes.refine)(ALL_ROWS, index, lambda points: points @ trial.V[0])
    moved = raising_check_error(changes.adjoint)(trial.V)
    if moved is not None:
        _check_moved(trial, "the adjoint maps do not match the members", moved, members)


def check_draws(trial: Trial) -> None:
    """Check lists for averages: same for all rows, with members of S(x)."""
    if trial.oracle.depends_on_label:
        return
    for size in (None, _DRAWS) if trial.oracle.finite else (_DRAWS,):
        name = "the list of all changes" if size is None else "the list of draws"
        changes = optional(averaged)(trial.stored, trial.X.shape[1], size)
        members = None if changes is None else optional(changes.on(trial.X).members)()
        if changes is None or members is None:
            continue
        wanted = (len(trial.X), changes.size, trial.X.shape[1])
        if members.shape != wanted:
            raise CheckError(f"{name} must have members of shape {wanted}, got {members.shape}")
        if size is not None and changes.size != size:
            raise CheckError(f"{name} must have {size} changes, got {changes.size}")
        _check_weights(changes, name)
        inside(trial, name, members)
        _check_rows(trial, name, changes, members)
        again = averaged(clone(trial.oracle), trial.X.shape[1], size).on(trial.X)
        _same(trial, f"{name}: a clone has other members", again.members(), members)
        moved = optional(changes.adjoint)(trial.V)
        if moved is not None:
            _check_moved(trial, f"{name}: the adjoint maps do not match the members", moved, members)


def _check_weights(changes: Changes, name: str) -> None:
    weights = raising_check_error(lambda: changes.weights)()
    good = weights.shape == (changes.size,) and np.all(weights >= 0)
    if not good or not abs(np.sum(weights) - 1.0) <= 1e-6:
        raise CheckError(f"{name} must have weights of at least 0 with sum 1, got {weights}")


def _check_scores(trial: Trial, changes: Changes, members: np.ndarray) -> None:
    scores = raising_check_error(changes.scores)(ALL_ROWS, trial.V)
    if scores is None:
        return
    wanted = np.einsum("nsd,qd->nsq", members, trial.V)
    if scores.shape != wanted.shape:
        raise CheckError(f"scores must have shape {wanted.shape}, got {scores.shape}")
    off = np.abs(scores - wanted) - 1e-6 * (np.abs(members) @ np.abs(trial.V.T)) - 1e-300
    fail_where(trial, off.max(axis=1).T > 0, "scores and members do not match")


def _check_rows(trial: Trial, name: str, changes: Changes, members: np.ndarray) -> None:
    """Check that the members of a row do not depend on other rows."""
    order = trial.rng.permutation(len(trial.X))
    found = np.empty_like(members)
    found[order] = changes.on(trial.X[order]).members()
    _same(trial, f"{name}: members differ if the rows are reordered", found, members)
    for row in range(len(trial.X)):
        found[row] = changes.on(trial.X[row : row + 1]).members()[0]
    _same(trial, f"{name}: members differ in a call with a single row", found, members)


def _same(trial: Trial, message: str, found: np.ndarray, wanted: np.ndarray) -> None:
    if found.shape != wanted.shape:
        raise CheckError(f"{message}: shape {found.shape} instead of {wanted.shape}")
    sizes = np.max(np.abs(wanted), axis=(1, 2), initial=0.0)
    off = np.max(np.abs(found - wanted), axis=(1, 2), initial=0.0)
    fail_where(trial, off > max(trial.rtol, resolution(found)) * sizes + 1e-300, message)


def _check_moved(trial: Trial, message: str, moved: np.ndarray, members: np.ndarray) -> None:
    if moved.shape != (members.shape[1], *trial.V.shape):
        wanted = (members.shape[1], *trial.V.shape)
        raise CheckError(f"{message}: the shape must be {wanted}, got {moved.shape}")
    along = np.einsum("spd,nd->psn", moved, trial.X)
    off = np.abs(along - np.einsum("pd,nsd->psn", trial.V, members))
    sizes = np.einsum("spd,nd->psn", np.abs(moved), np.abs(trial.X))
    sizes += np.einsum("pd,nsd->psn", np.abs(trial.V), np.abs(members))
    bad = off > max(trial.rtol, resolution(members)) * sizes + 1e-300
    fail_where(trial, np.any(bad, axis=1), message)
