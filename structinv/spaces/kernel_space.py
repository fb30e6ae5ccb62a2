"""Reproducing kernel Hilbert space: kernel expansions over atoms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ..kernels import Kernel
from ..kernels.kernel_values import kernel_diagonal
from ..oracles.listed_changes import listed
from ..oracles.query import Violations, WorstPoints, best_members
from ..oracles.whole_examples import SingleMember
from ..structures.competitors import Competitors
from ..utils.matrices import Rows, count, dense, pick
from ..utils.row_arrays import Arrays
from .atoms import AtomStore, MemberPool
from .base import NUMBERS_AT_ONCE, Space
from .kernel_tiles import SUMMED_AT_ONCE, expand, kernel_rounding, limited_blas
from .point_sums import PointSums

if TYPE_CHECKING:
    from ..oracles.base import BoundOracle
    from ..oracles.changes import Changes

# Expected number of planes of a block; their inner products share the cache.
PLANES_EXPECTED_OF_A_BLOCK = 12
# Twice the maximum number of entries of listed points to compute at once.
VALUES_AT_ONCE = 16_000_000


class Expansion:
    """Kernel expansion ``f(., k) = sum_j coefficients[j, k] k(atom_j, .)``.

    The values at the known points are computed on first use and cached. Sums and multiples update them,
    because they are linear in f.

    Shapes: `coefficients` (m, n_outputs), `pairwise` (n_pairwise,).
    """

    # NumPy scalars then use the multiplication of this class.
    __array_ufunc__ = None

    def __init__(
        self, atoms: AtomStore, coefficients: np.ndarray, pairwise: np.ndarray | None = None
    ) -> None:
        self.atoms = atoms
        self.coefficients = coefficients
        self.pairwise = np.zeros(0) if pairwise is None else pairwise
        self._values: np.ndarray | None = None

    def values(self) -> np.ndarray:
        """Return ``f(z, k)`` at all known points, (n_known, n_outputs)."""
        if self._values is None:
            self._values = self.atoms.apply(self.coefficients)
        elif len(self._values) < self.atoms.n_known:
            late = self.atoms.apply(self.coefficients, first=len(self._values))
            self._values = np.concatenate([self._values.T, late.T], axis=1).T
        return self._values

    def __getstate__(self) -> dict[str, Any]:
        """Omit the cached values."""
        return vars(self) | {"_values": None}

    def support(self) -> np.ndarray:
        """Return the atoms with a nonzero coefficient."""
        return np.flatnonzero(np.any(self.coefficients != 0, axis=1))

    def norm_sums(self) -> tuple[np.ndarray, int]:
        """Return ``sum_j |coefficients_jk| |k(atom_j, .)|`` per output, and its length.

        The length is the number of terms.
        """
        used = self.support()
        norms = np.sqrt(kernel_diagonal(self.atoms.kernel, self.atoms.points(used)).astype(np.float64))
        return norms @ np.abs(self.coefficients[used]), len(used)

    def function(self) -> Callable[[np.ndarray], np.ndarray]:
        """Return a function from points (n, n_features) to ``f(z, k)``, (n, n_outputs)."""
        used = self.support()
        centers, coefficients = self.atoms.points(used), self.coefficients[used]
        return lambda points: expand(self.atoms.kernel, points, centers, coefficients)

    def make_room(self, n_atoms: int) -> None:
        """Extend the coefficients to at least `n_atoms` atoms, with zeros."""
        n_missing = n_atoms - len(self.coefficients)
        if n_missing > 0:
            self.coefficients = np.pad(self.coefficients, ((0, n_missing), (0, 0)))

    def copy(self) -> Self:
        """Return an independent copy."""
        other = copy(self)
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray):
                setattr(other, name, value.copy(order="K"))
        return other

    def __iadd__(self, other: Expansion) -> Self:
        return self._add(other, 1.0)

    def __isub__(self, other: Expansion) -> Self:
        return self._add(other, -1.0)

    def _add(self, other: Expansion, sign: float) -> Self:
        if self._values is not None:
            values = self.values()
            values += other.values() if sign > 0 else -other.values()
        self.make_room(len(other.coefficients))
        self.coefficients[: len(other.coefficients)] += sign * other.coefficients
        self.pairwise += sign * other.pairwise
        return self

    def __imul__(self, factor: float) -> Self:
        self.coefficients *= factor
        self.pairwise *= factor
        if self._values is not None:
            self._values *= factor
        return self

    def __add__(self, other: Expansion) -> Self:
        return self.copy()._add(other, 1.0)

    def __sub__(self, other: Expansion) -> Self:
        return self.copy()._add(other, -1.0)

    def __mul__(self, factor: float) -> Self:
        return self.copy().__imul__(factor)

    __rmul__ = __mul__


class KernelSpace(Space):
    """Kernel expansions ``f(x, k) = sum_j beta_jk k(z_j, x)`` with the RKHS norm.

    The squared norm of an element is that of its functions plus that of its pairwise weights, such as
    transitions.

    If S(x) is a list, the worst case is found by enumeration. The kernel is computed only for points
    that are part of a plane. If S(x) is infinite and has a cover, the search starts at the best element
    of the cover. The upper bound is the best value in the cover plus ``|f| L mesh``, with the Lipschitz
    constant L of the kernel.
    """

    capabilities = frozenset(["kernel members"])
    planes_of_a_block = 1_000_000

    def __init__(
        self,
        kernel: Kernel,
        n_features: int,
        n_outputs: int = 1,
        *,
        cache_mb: float = 1000.0,
        n_pairwise: int = 0,
    ) -> None:
        self.kernel = kernel
        self.n_features = n_features
        self.n_outputs = n_outputs
        self.n_pairwise = n_pairwise
        self.cache_mb = cache_mb
        self.atoms = AtomStore(kernel, n_features, 1e6 * cache_mb)

    @property
    def blocks_in_a_set(self) -> int:  # type: ignore[override]
        """Number of blocks whose planes share a stored Gram matrix."""
        # It takes up to half of the cache size in addition.
        most_planes = np.sqrt(0.5e6 * self.cache_mb / 8)
        return max(16, int(most_planes / PLANES_EXPECTED_OF_A_BLOCK))

    def zeros(self) -> Expansion:
        return Expansion(self.atoms, np.zeros((0, self.n_outputs)), np.zeros(self.n_pairwise))

    def pairwise(self, f: Expansion) -> np.ndarray:
        return f.pairwise

    def dot(self, f: Expansion, g: Expansion) -> float:
        return float(np.sum(self.output_gram(f, g).diagonal()) + f.pairwise @ g.pairwise)

    def output_gram(self, f: Expansion, g: Expansion) -> np.ndarray:
        """Return the inner products between the functions of all outputs.

        Parameters
        ----------
        f, g : Expansion
            Functions.

        Returns
        -------
        ndarray of shape (n_outputs, n_outputs)
            Gram matrix.
        """
        places = self.atoms.places[: len(f.coefficients)]
        if len(places) == 0 or len(g.coefficients) == 0:
            return np.zeros((self.n_outputs, self.n_outputs))
        with limited_blas(f.coefficients.size * g.coefficients.shape[1]):
            return f.coefficients.T @ g.values()[places]

    def scores(self, f: Expansion, normals: PointSums) -> np.ndarray:
        slots = self.atoms.slots(normals.points)
        places = self.atoms.places[slots]
        scores = normals.by_normal(np.einsum("rk,rk->r", f.values()[places], normals.coefficients))
        return scores + normals.pairwise @ f.pairwise if self.n_pairwise else scores

    def combine(self, normals: PointSums, coefficients: np.ndarray) -> Expansion:
        # A normal with a zero coefficient adds no atom.
        used = np.flatnonzero(coefficients)
        if len(used) < len(coefficients):
            normals, coefficients = normals[used], coefficients[used]
        slots = self.atoms.slots(normals.points)
        total = np.zeros((len(self.atoms), self.n_outputs))
        np.add.at(total, slots, normals.spread(coefficients))
        return Expansion(self.atoms, total, normals.pairwise.T @ coefficients)

    def mix(self, normals: PointSums, coefficients: np.ndarray) -> PointSums:
        return self.element(self.combine(normals, coefficients))

    def gram(self, left: PointSums, right: PointSums) -> np.ndarray:
        first, second = self.atoms.slots(left.points), self.atoms.slots(right.points)
        if len(second) > 2 * len(right) ** 2:
            # A few sums over many atoms, for example in bundle methods, share most of their atoms.
            gram = self._gram_with_sums(left, first, right, second)
        else:
            products = self.atoms.block(first, second)
            products *= (left.coefficients @ right.coefficients.T).astype(products.dtype)
            gram = left.by_normal(right.by_normal(products.T).T)
        return gram + dense(left.pairwise @ right.pairwise.T) if self.n_pairwise else gram

    def _gram_with_sums(
        self, left: PointSums, first: np.ndarray, right: PointSums, second: np.ndarray
    ) -> np.ndarray:
        """Return inner products with long sums, each converted to a function; in blocks."""
        atoms, place = np.unique(first, return_inverse=True)
        centers, term = np.unique(second, return_inverse=True)
        functions = np.zeros((len(centers), len(right), self.n_outputs))
        owners = np.repeat(np.arange(len(right)), np.diff(right.start))
        np.add.at(functions, (term, owners), right.coefficients)
        flat, values = functions.reshape(len(centers), -1), []
        step = max(1, SUMMED_AT_ONCE // max(1, len(centers)))
        for start in range(0, len(atoms), step):
            values.append(self.atoms.block(atoms[start : start + step], centers) @ flat)
        table = np.concatenate([np.zeros((0, flat.shape[1])), *values])
        table = table.reshape(-1, len(right), self.n_outputs)
        return left.by_normal(np.einsum("trk,tk->tr", table[place], left.coefficients))

    def stack(self, parts: Sequence[PointSums]) -> PointSums:
        return parts[0] if len(parts) == 1 else PointSums.join(list(parts))

    def element(self, f: Expansion) -> PointSums:
        used = f.support()
        ends = np.array([0, len(used)])
        keys = self.atoms.keys[used]
        return PointSums(keys, f.coefficients[used], ends, f.pairwise[None].copy())

    def scaled(self, normals: PointSums, factors: np.ndarray) -> PointSums:
        return normals.scaled(factors)

    def accepts(self, f: Any) -> bool:
        # The kernel may differ.
        return type(f) is Expansion and self._same_widths(f)

    def _same_widths(self, f: Expansion) -> bool:
        widths = f.atoms.known.shape[1], f.coefficients.shape[1], len(f.pairwise)
        return widths == (self.n_features, self.n_outputs, self.n_pairwise)

    def adopted(self, f: Any, bounds: Sequence[BoundOracle]) -> Expansion:
        # Points that are members of their rows stay members.
        if f.atoms is self.atoms:
            return f
        used = f.support()
        points, (rows, members) = f.atoms.points(used), f.atoms.origins[used].T
        keys = np.full(len(used), -1)
        for bound in bounds:
            changes = listed(bound)
            pool = self.atoms.pool(changes)
            known = np.flatnonzero((rows < len(pool.numbers)) & (members < pool.size) & (keys < 0))
            equal = np.all(changes.points(rows[known], members[known]) == points[known], axis=1)
            known = known[equal]
            keys[known] = pool.keys(rows[known], members[known])
        others = np.flatnonzero(keys < 0)
        keys[others] = self.atoms.add_points(points[others], f.atoms.origins[used[others]])
        whole = PointSums(keys, f.coefficients[used], np.array([0, len(used)]), f.pairwise[None])
        return self.combine(whole, np.ones(1))

    def arrays_of(self, f: Expansion) -> Arrays:
        used = f.support()
        return {
            "points": f.atoms.points(used),
            "origins": f.atoms.origins[used],
            "coefficients": f.coefficients[used],
            "pairwise": f.pairwise,
        }

    def from_arrays(self, arrays: Arrays) -> Expansion:
        atoms = AtomStore.of_points(self.kernel, arrays["points"], arrays["origins"])
        return Expansion(atoms, arrays["coefficients"], arrays["pairwise"])

    def normals(
        self,
        points: np.ndarray,
        coefficients: np.ndarray,
        groups: np.ndarray | None = None,
        pairwise: Any = None,
    ) -> PointSums:
        # `points` are keys in this space. Terms whose coefficients are all zero add no atom.
        start = np.arange(len(points) + 1) if groups is None else groups
        pairwise = np.zeros((len(start) - 1, self.n_pairwise)) if pairwise is None else pairwise
        used = np.any(coefficients != 0, axis=1)
        start = np.r_[0, np.cumsum(used)][start]
        return PointSums(points[used], coefficients[used], start, pairwise)

    def worst(
        self,
        f: Expansion,
        bound: BoundOracle,
        rows: Rows,
        competitors: Competitors,
        points: bool = True,
        rounding: bool = False,
    ) -> Violations:
        # Enumerate a list, or a cover whose best element is then refined.
        source, numbers = _pooled(bound)
        pool = self.atoms.pool(source)
        values, mesh = self._members(f, pool, bound, rows, numbers)
        gains, costs, members = best_members(values, competitors, listed(bound).grades(rows))
        members = members if numbers is None else numbers[members]
        upper = gains + costs
        moved: tuple[np.ndarray, np.ndarray] | None = None
        if np.any(mesh > 0):
            upper = upper + self._slack(f, competitors, mesh)
            moved = _refine(f, bound, rows, competitors, gains, costs, members)
            upper = np.maximum(upper, gains + costs)
        row_numbers = np.arange(bound.X.shape[0])[rows]

        def points_of(places: np.ndarray, labels: np.ndarray) -> WorstPoints:
            member = members[places, labels]
            keys = pool.keys(row_numbers[places], member)
            if moved is not None:
                refined_points, refined_labels = moved
                refined = np.flatnonzero(refined_labels[places] == labels)
                origins = np.column_stack([row_numbers[places], member])[refined]
                keys[refined] = self.atoms.add_points(refined_points[places[refined]], origins)
            return WorstPoints(keys, gains[places, labels], costs[places, labels])

        errors = None
        if rounding:
            errors = kernel_rounding(self.kernel, f, listed(bound).members(rows), competitors)
        return Violations(gains, costs, upper, points_of, errors)

    def values(self, f: Expansion, X: np.ndarray) -> np.ndarray:
        return f.function()(X)

    def members(self, bound: BoundOracle, rows: Rows, index: np.ndarray) -> np.ndarray:
        # Points are given by keys in this space.
        numbers = np.arange(bound.X.shape[0])[rows]
        return self.atoms.pool(_pooled(bound)[0]).keys(numbers, index)

    def member_values(self, f: Expansion, bound: BoundOracle, rows: Rows) -> np.ndarray | None:
        source, numbers = _pooled(bound)
        values, mesh = self._members(f, self.atoms.pool(source), bound, rows, numbers)
        # A cover with a positive mesh omits elements of S(x).
        return None if np.any(mesh > 0) else values

    def rows_at_once(self, bound: BoundOracle) -> int:
        pool = self.atoms.pool(_pooled(bound)[0])
        if pool.mesh is not None:
            return super().rows_at_once(bound)
        return max(1, VALUES_AT_ONCE // (2 * pool.size * self.n_features))

    def certified_at_once(self, bound: BoundOracle, n_labels: int) -> int:
        return max(1, NUMBERS_AT_ONCE // (listed(bound).size * self.n_features))

    def _members(
        self,
        f: Expansion,
        pool: MemberPool,
        bound: BoundOracle,
        rows: Rows,
        numbers: np.ndarray | None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return f over the cover of each row, (n, s, n_outputs), and the meshes.

        If `numbers` is given, only variants with these numbers are returned.
        """
        if pool.mesh is not None:
            values = f.values()[pool.first : pool.first + len(pool.slots)]
            places = pool.numbers[rows]
            return values[places if numbers is None else places[:, numbers]], pool.mesh[rows]
        shape = (-1, pool.size if numbers is None else len(numbers), self.n_outputs)
        n_rows = count(rows, bound.X.shape[0])
        values, mesh = np.empty((n_rows, *shape[1:])), np.empty(n_rows)
        function, changes = f.function(), listed(bound)
        step = self.rows_at_once(bound)
        for first in range(0, n_rows, step):
            part = np.arange(first, min(first + step, n_rows))
            portion = pick(rows, part, n_rows)
            points = changes.members(portion).reshape(-1, self.n_features)
            values[part], mesh[part] = function(points).reshape(shape), changes.mesh(portion)
        return values, mesh

    def _slack(self, f: Expansion, competitors: Competitors, mesh: np.ndarray) -> np.ndarray:
        """Bound the error of each label's largest gain if only the cover is searched, (n, n_labels)."""
        gram = competitors.functions.scores(competitors.functions.scores(self.output_gram(f, f)).T)
        squared_norms = np.diagonal(gram)
        squares = squared_norms[:, None] + squared_norms[None, :] - gram - gram.T
        norms = np.sqrt(np.maximum(squares, 0.0))[competitors.codes]
        if competitors.slack:
            norms = norms * competitors.costs
        slack = np.zeros(norms.shape)
        # Factors may be infinite. Zero times infinity is 0 here.
        is_positive = (norms > 0) & (mesh > 0)[:, None]
        np.multiply(norms, self.kernel.lipschitz(self.n_features), out=slack, where=is_positive)
        np.multiply(slack, mesh[:, None], out=slack, where=is_positive)
        return slack

    def points(self, found: np.ndarray) -> np.ndarray:
        return self.atoms.points_of(found)

    def _over(self, atoms: AtomStore) -> Self:
        """Return the same space with only these atoms and without a cache."""
        space = copy(self)
        space.atoms, space.cache_mb = atoms, 0.0
        return space

    def compacted(self, f: Expansion) -> tuple[KernelSpace, Expansion]:
        """Return the same function in a new space with only its points.

        Parameters
        ----------
        f : Expansion
            Function.

        Returns
        -------
        space : KernelSpace
            New space.
        f : Expansion
            Function of the new space.
        """
        small = self.from_arrays(self.arrays_of(f))
        return self._over(small.atoms), small


def _pooled(bound: BoundOracle) -> tuple[Changes, np.ndarray | None]:
    """Return the list of the points, and the numbers of the members in it; None for all."""
    found = listed(bound)
    # Single members share the points of the complete list. Other selections are lists of their own.
    return found.listed_in() if isinstance(bound, SingleMember) else (found, None)


def _refine(
    f: Expansion,
    bound: BoundOracle,
    rows: Rows,
    competitors: Competitors,
    gains: np.ndarray,
    costs: np.ndarray,
    members: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Refine the worst point of each row for its worst label, and update `gains`.

    Returns the refined points, and the label of each; -2 without an improvement.
    """
    every = np.arange(len(competitors))
    reached = gains + costs
    reached[every, competitors.codes] = -np.inf
    labels = np.argmax(reached, axis=1)
    function = f.function()

    def score(points: np.ndarray) -> np.ndarray:
        return competitors.gain_of(function(points), labels)

    points = listed(bound).refine(rows, members[every, labels], score)
    refined = score(points)
    before = gains[every, labels]
    # An improvement below rounding errors is not worth another atom.
    is_better = refined > before + 1e-9 * (1.0 + np.abs(before))
    gains[every, labels] = np.where(is_better, refined, before)
    return points, np.where(is_better, labels, -2)
