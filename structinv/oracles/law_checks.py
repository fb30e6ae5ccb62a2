"""What `check_oracle` asks of a distribution over changes, and of maps that keep inner products."""

from __future__ import annotations

import numpy as np
from sklearn.base import clone

from ..matrices import ALL_ROWS, resolution
from .base import pulled_back
from .laws import Law, law_of
from .trials import OracleCheckError, Trial, fail_where, inside, optional, refused

_DRAWS = 5


def check_law(trial: Trial) -> None:
    """The law is one list of changes for all rows, and they lead to members of S(x)."""
    if trial.oracle.depends_on_label:
        return
    for size in (None, _DRAWS) if trial.oracle.finite else (_DRAWS,):
        name = "the law of all members" if size is None else "the law of draws"
        law = optional(law_of)(trial.oracle, trial.X.shape[1], size)
        members = None if law is None else optional(law.members)(trial.X)
        if law is None or members is None:
            continue
        if members.shape != (len(trial.X), law.size, trial.X.shape[1]):
            wanted = (len(trial.X), law.size, trial.X.shape[1])
            raise OracleCheckError(f"{name} must have members of shape {wanted}, got {members.shape}")
        inside(trial, name, members)
        _check_rows(trial, name, law, members)
        again = law_of(clone(trial.oracle), trial.X.shape[1], size)
        _same(trial, f"{name}: that of a clone has other members", again.members(trial.X), members)
        pulled = optional(law.pull_back)(trial.V)
        if pulled is not None:
            _check_pulled(trial, f"{name}: pull_back does not tell its members", pulled, members)


def check_isometric(trial: Trial) -> None:
    """What `pullback` tells are the members, and these keep inner products if that is declared."""
    orbit = optional(trial.bound.orbit)(ALL_ROWS)
    pulled = refused(pulled_back)(trial.oracle, trial.V)
    if trial.oracle.isometric and (orbit is None or pulled is None):
        raise OracleCheckError("an oracle that declares itself isometric must define orbit and pullback")
    if orbit is not None and pulled is not None:
        _check_pulled(trial, "pullback does not tell the members of the orbit", pulled, orbit)
    if orbit is not None and trial.oracle.isometric:
        products = np.einsum("nsd,msd->smn", orbit, orbit)
        sizes = np.einsum("nsd,msd->smn", np.abs(orbit), np.abs(orbit))
        off = np.abs(products - trial.X @ trial.X.T) - max(trial.rtol, resolution(orbit)) * sizes
        message = "declared isometric, but a member changes inner products of rows"
        fail_where(trial, np.any(off > 1e-300, axis=(0, 1)), message)


def _check_rows(trial: Trial, name: str, law: Law, members: np.ndarray) -> None:
    """A row has the same members whatever rows are beside it."""
    order = trial.rng.permutation(len(trial.X))
    found = np.empty_like(members)
    found[order] = law.members(trial.X[order])
    _same(trial, f"{name}: in another order rows have other members", found, members)
    for row in range(len(trial.X)):
        found[row] = law.members(trial.X[row : row + 1])[0]
    _same(trial, f"{name}: a row on its own has other members", found, members)


def _same(trial: Trial, message: str, found: np.ndarray, wanted: np.ndarray) -> None:
    if found.shape != wanted.shape:
        raise OracleCheckError(f"{message}: shape {found.shape}, not {wanted.shape}")
    sizes = np.max(np.abs(wanted), axis=(1, 2), initial=0.0)
    off = np.max(np.abs(found - wanted), axis=(1, 2), initial=0.0)
    fail_where(trial, off > max(trial.rtol, resolution(found)) * sizes + 1e-300, message)


def _check_pulled(trial: Trial, message: str, pulled: np.ndarray, members: np.ndarray) -> None:
    if pulled.shape != (members.shape[1], *trial.V.shape):
        wanted = (members.shape[1], *trial.V.shape)
        raise OracleCheckError(f"{message}: it must have shape {wanted}, got {pulled.shape}")
    along = np.einsum("spd,nd->psn", pulled, trial.X)
    off = np.abs(along - np.einsum("pd,nsd->psn", trial.V, members))
    sizes = np.einsum("spd,nd->psn", np.abs(pulled), np.abs(trial.X))
    sizes += np.einsum("pd,nsd->psn", np.abs(trial.V), np.abs(members))
    bad = off > max(trial.rtol, resolution(members)) * sizes + 1e-300
    fail_where(trial, np.any(bad, axis=1), message)
