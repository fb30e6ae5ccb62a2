"""Validated lists of perturbed samples: members, random draws, averages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..regions import Points, Region
from ..regions.curve_regions import CoverRegion, Score
from ..utils import plugins
from ..utils.matrices import ALL_ROWS, Matrix, dense_rows, floating, refuse_masked
from ..utils.parameters import check_integer
from .arguments import check_needs_no_label
from .changes import MOST_CHANGES, Changes
from .checked_changes import check_maps, checked_changes
from .listed_changes import ListedChanges

if TYPE_CHECKING:
    from .base import BoundOracle, InvarianceOracle

# Number of rows of which the first member of a third-party list is compared with the row.
CHECKED_ROWS = 64


def changes_of(oracle: InvarianceOracle, X: Matrix, y: np.ndarray | None = None) -> Changes | None:
    """Call ``oracle.changes(X, y)`` and validate the result of third-party classes."""
    found = oracle.changes(X, y)
    if found is None:
        return None
    source = plugins.method(oracle, "changes")
    changes = checked_changes(source, found)
    if plugins.is_third_party(oracle) and not isinstance(found, ListedChanges):
        _check_first(source, changes, X)
    return changes


def _check_first(source: str, changes: Changes, X: Matrix) -> None:
    """Raise ValueError unless a list begins with the rows themselves and its maps are finite."""
    linear = changes.linear()
    if linear is not None:
        check_maps(source, linear.maps, X.shape[1])
    some = slice(0, CHECKED_ROWS)
    plugins.members(source, changes.members(some, np.array([0])), dense_rows(X, some))


def draws_of(oracle: InvarianceOracle, X: Matrix, n_draws: int, random_state: int) -> Changes:
    """Call ``oracle.draws(X, n_draws, random_state)`` and validate the result."""
    source = plugins.method(oracle, "draws")
    found = checked_changes(source, oracle.draws(X, n_draws, random_state))
    if found.size != n_draws:
        raise ValueError(f"{source} must return a list of n_draws = {n_draws} changes, got {found.size}")
    return found


def listed(bound: BoundOracle) -> Changes:
    """Return the list of a bound oracle; raise if it has none."""
    found = bound.changes()
    if found is None:
        raise bound.oracle._absent("an orbit or a cover")
    return found


def averaged(
    oracle: InvarianceOracle, n_features: int, n_draws: int | None = None, random_state: int = 0
) -> Changes:
    """Return the perturbations of an average over S(x), as a list on 0 rows.

    `Changes.on` binds the list to rows. Every block, call and clone uses the same perturbations, so an
    average over random draws is a kernel.
    """
    check_n_draws(n_draws)
    check_seed(random_state)
    oracle.validate(n_features)
    check_needs_no_label(oracle)
    nothing = np.zeros((0, n_features))
    if n_draws is not None:
        return draws_of(oracle, nothing, n_draws, random_state)
    found = changes_of(oracle, nothing) if oracle.finite else None
    if found is None:
        raise ValueError(
            f"n_draws must be an integer, because {type(oracle).__name__} has no finite list of "
            "perturbed samples to average"
        )
    return found.likely()


def check_n_draws(n_draws: Any) -> None:
    """Raise unless the value equals None or an integer from 1 to `MOST_CHANGES`."""
    check_integer("n_draws", n_draws, 1, MOST_CHANGES, "perturbed samples in memory", optional=True)


def check_seed(random_state: Any) -> None:
    """Raise unless the value is an integer of at least 0: draws must be repeatable."""
    check_integer("random_state", random_state, least=0)


def listed_region(oracle: InvarianceOracle, X: np.ndarray) -> Region:
    """Return the list of a finite oracle, or the cover of another one, as a region."""
    refuse_masked("X", X)
    rows = floating(dense_rows(X))
    found = changes_of(oracle, rows)
    if found is None:
        raise NotImplementedError(
            f"{type(oracle).__name__} does not define a region, which set distances require: it has "
            "neither a finite list of perturbed samples nor a cover. Draw perturbed samples with "
            "structinv.oracles.Sampled, or define `region` in a subclass"
        )
    points = np.ascontiguousarray(found.members(), dtype=rows.dtype)
    if oracle.finite:
        return Points(points)
    changes = found

    def refine(points: np.ndarray, index: np.ndarray, score: Score) -> np.ndarray:
        return changes.on(points).refine(ALL_ROWS, index, score)

    return CoverRegion(rows, points, found.mesh(), refine)
