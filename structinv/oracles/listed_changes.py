"""Lists of perturbed samples, validated if they are from third-party classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from ..regions import Points, Region
from ..regions.curve_regions import CoverRegion, Score
from ..utils import plugins
from ..utils.matrices import ALL_ROWS, Matrix, Rows, dense_rows, floating, refuse_masked, take
from ..utils.parameters import check_integer
from .arguments import check_needs_no_label
from .changes import MOST_CHANGES, Changes, LinearChanges, draw_names

if TYPE_CHECKING:
    from .base import BoundOracle, InvarianceOracle

# Number of rows of which the first member of a third-party list is compared with the row.
_CHECKED_ROWS = 64


class ListedChanges(Changes):
    """The members of S(x) that `orbit` of an oracle returns.

    Shapes: `X` (n_samples, n_features).
    """

    def __init__(
        self, oracle: InvarianceOracle, X: Matrix, *, scored: bool = True, keep: bool = False
    ) -> None:
        super().__init__(X)
        self.oracle = oracle
        self.scored = scored
        self.keep = keep
        self._cached_members: np.ndarray | None = None
        # Number of members; copies of this list for other rows share the dict.
        self._known: dict[str, int] = {}

    def _moved_to(self, X: Matrix, y: np.ndarray | None) -> None:
        self.keep, self._cached_members = False, None

    @property
    def size(self) -> int:
        if not self._known:
            first = self.X[:1] if self.X.shape[0] else np.zeros((1, self.X.shape[1]))
            self._orbit_of(first)
        return self._known["size"]

    @property
    def names(self) -> list[str]:
        source = plugins.method(self.oracle, "member_names")
        return _checked_names(source, self.oracle.member_names(self.size), self.size)

    def members(self, rows: Rows = ALL_ROWS, numbers: np.ndarray | None = None) -> np.ndarray:
        if self.keep and self._cached_members is None:
            self._cached_members = self._orbit_of(self.X)
        members = (
            self._orbit_of(take(self.X, rows))
            if self._cached_members is None
            else self._cached_members[rows]
        )
        return members if numbers is None else members[:, numbers]

    def _orbit_of(self, X: Matrix) -> np.ndarray:
        """Return the validated orbit of some rows."""
        source, X = plugins.method(self.oracle, "orbit"), floating(X)
        found = plugins.ask(self.oracle, source, self.oracle.orbit, X)
        members = plugins.members(source, found, dense_rows(X))
        known = self._known.setdefault("size", members.shape[1])
        if members.shape[1] != known:
            raise ValueError(
                f"{source} must return the same number of members in every call and for every row, "
                f"got {members.shape[1]} after {known}"
            )
        return members

    def _member_scores(self, rows: Rows, V: np.ndarray) -> np.ndarray | None:
        if not self.scored:
            return None
        members = self.members(rows)
        return members @ V.astype(members.dtype).T

    def grades(self, rows: Rows = ALL_ROWS) -> np.ndarray | None:
        if self._rho is None and self.oracle.graded:
            raise self.oracle._absent("grades of its members")
        return super().grades(rows)


class DrawnChanges(Changes):
    """Random members of S(x) from `sample`, with the same seed for every row.

    Shapes: `X` (n_samples, n_features).
    """

    def __init__(self, oracle: InvarianceOracle, X: Matrix, size: int, random_state: int) -> None:
        super().__init__(X)
        self.oracle = oracle
        self.n_draws = size
        self.random_state = random_state

    @property
    def size(self) -> int:
        return self.n_draws

    @property
    def names(self) -> list[str]:
        return draw_names(self.size)

    def members(self, rows: Rows = ALL_ROWS, numbers: np.ndarray | None = None) -> np.ndarray:
        source, X = plugins.method(self.oracle, "sample"), floating(take(self.X, rows))
        found = []
        # One row per call, because the members of a row must not depend on other rows.
        for number in range(X.shape[0]):
            generator = np.random.default_rng(self.random_state)
            row = X[number : number + 1]
            part = plugins.ask(self.oracle, source, self.oracle.sample, row, self.size, generator)
            found.append(plugins.numbers(source, "members", part, (1, self.size, X.shape[1])))
        table = np.concatenate(found) if found else np.zeros((0, self.size, X.shape[1]))
        return table if numbers is None else table[:, numbers]


class ThirdPartyChanges(Changes):
    """A list of a third-party class, with validated results.

    Scores and maps of such a class are not used. A list of linear maps is a `LinearChanges`.
    """

    scored = False

    def __init__(self, inner: Changes) -> None:
        super().__init__(inner.X, inner.y)
        self.inner = inner
        self.source = inner.source

    def _moved_to(self, X: Matrix, y: np.ndarray | None) -> None:
        self.inner = self.inner.on(X, y)

    def _ask(self, name: str, *arguments: Any) -> tuple[str, Any]:
        """Call a method of the third-party class; return its name for messages and its result."""
        source = plugins.method(self.inner, name)
        return source, plugins.ask_third_party(source, getattr(self.inner, name), *arguments)

    @property
    def size(self) -> int:
        source = plugins.method(self.inner, "size")
        return int(plugins.number(source, "a size", self.inner.size, least=1))

    @property
    def names(self) -> list[str]:
        return _checked_names(plugins.method(self.inner, "names"), self.inner.names, self.size)

    def _own_weights(self) -> np.ndarray:
        source = plugins.method(self.inner, "weights")
        weights = plugins.numbers(source, "weights", self.inner.weights, (self.size,))
        if np.min(weights) < 0 or not np.sum(weights) > 0:
            raise ValueError(f"{source} must be at least 0, with one above 0, got {weights}")
        return weights

    def members(self, rows: Rows = ALL_ROWS, numbers: np.ndarray | None = None) -> np.ndarray:
        size = self.size if numbers is None else len(numbers)
        source, found = self._ask("members", rows, numbers)
        return plugins.numbers(source, "members", found, (self.count(rows), size, self.X.shape[1]))

    def points(self, rows: Rows, index: np.ndarray) -> Any:
        source, found = self._ask("points", rows, index)
        return plugins.rows(source, found, self.X, (self.count(rows), self.X.shape[1]))

    def grades(self, rows: Rows = ALL_ROWS) -> np.ndarray | None:
        if self._rho is not None:
            return super().grades(rows)
        source, found = self._ask("grades", rows)
        return None if found is None else plugins.grades(source, found, (self.count(rows), self.size))

    def mesh(self, rows: Rows = ALL_ROWS) -> np.ndarray:
        source, found = self._ask("mesh", rows)
        mesh = plugins.numbers(source, "a mesh", found, (self.count(rows),), finite=False)
        if np.any(mesh < 0):
            raise ValueError(f"{source} must return a mesh of at least 0, got {mesh.min():g}")
        return mesh

    def refine(self, rows: Rows, index: np.ndarray, score: Score) -> np.ndarray:
        source, found = self._ask("refine", rows, index, score)
        return plugins.numbers(source, "points", found, (self.count(rows), self.X.shape[1]))


def checked_changes(source: str, found: Any) -> Changes:
    """Return the list; one of a third-party class becomes `ThirdPartyChanges`."""
    if not isinstance(found, Changes):
        raise TypeError(f"{source} must return Changes, got {type(found).__name__}")
    return ThirdPartyChanges(found) if plugins.is_third_party(found) else found


def changes_of(oracle: InvarianceOracle, X: Matrix, y: np.ndarray | None = None) -> Changes | None:
    """Call ``oracle.changes(X, y)`` and validate the result of third-party classes."""
    found = oracle.changes(X, y)
    if found is None or not plugins.is_third_party(oracle):
        return found
    source = plugins.method(oracle, "changes")
    changes = checked_changes(source, found)
    if not isinstance(found, ListedChanges):
        _check_first(source, changes, X)
    return changes


def _check_first(source: str, changes: Changes, X: Matrix) -> None:
    """Raise ValueError unless a list begins with the rows themselves and its maps are finite."""
    linear = changes.linear()
    if linear is not None:
        _check_maps(source, linear, X.shape[1])
    some = slice(0, _CHECKED_ROWS)
    plugins.members(source, changes.members(some, np.array([0])), dense_rows(X, some))


def _check_maps(source: str, linear: LinearChanges, n_features: int) -> None:
    """Raise ValueError or TypeError unless maps are finite square CSR matrices."""
    wanted = n_features, n_features
    for each in linear.maps:
        if not sp.issparse(each) or each.format != "csr" or each.shape != wanted:
            raise ValueError(f"{source} must return maps as CSR of shape {wanted}, got {each!r}")
        plugins.places(source, "maps", each)
        plugins.numbers(source, "maps", each.data, each.indices.shape)


def _checked_names(source: str, names: Any, size: int) -> list[str]:
    """Validate the names of members."""
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"{source} must return a list of names, got {names!r}")
    if len(names) != size:
        raise ValueError(f"{source} must return one name per member, {size} names, got {len(names)}")
    return list(names)


def draws_of(oracle: InvarianceOracle, X: Matrix, n_draws: int, random_state: int) -> Changes:
    """Draw random perturbations, the same for every sample, for averages over S(x).

    The draws have equal weights and depend on the seed alone.
    """
    oracle._check_rows(X)
    if most_derived(oracle, "_draws", "changes", "orbit", "sample") == "_draws":
        return oracle._draws(X, n_draws, random_state)
    return draws_of_list(oracle, X, n_draws, random_state)


def most_derived(oracle: InvarianceOracle, *names: str) -> str:
    """Return the first of the methods that the most derived class defines."""
    return next(name for kind in type(oracle).__mro__ for name in names if name in vars(kind))


def draws_of_list(oracle: InvarianceOracle, X: Matrix, n_draws: int, random_state: int) -> Changes:
    """Draw listed members by their probabilities, with replacement, or use `sample`."""
    found = changes_of(oracle, X) if oracle.finite else None
    if found is None:
        return DrawnChanges(oracle, X, n_draws, random_state)
    numbers = np.random.default_rng(random_state).choice(found.size, n_draws, p=found.weights)
    return found.take(numbers, np.ones(n_draws))


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
    return found if np.all(found.weights) else found.take(np.flatnonzero(found.weights))


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
