"""A reproducing kernel Hilbert space: functions are coefficients over a growing set of atoms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp

from ..kernels import Kernel
from ..kernels.checked_kernel import kernel_diagonal
from ..oracles.listing import listed
from ..oracles.query import Violations, WorstPoints, best_members
from ..structures.competitors import Competitors
from ..utils.matrices import Rows, count, dense, pick, scale_rows
from .atoms import LOOSE, VALUES_AT_ONCE, AtomRows, AtomStore, MemberPool, split_keys
from .base import NUMBERS_AT_ONCE, Space
from .kernel_tiles import SUMMED_AT_ONCE, expand, limited_blas
from .rounding import kernel_rounding

if TYPE_CHECKING:
    from ..oracles.base import BoundOracle

# Planes that a block is expected to have; their inner products share the cache.
PLANES_EXPECTED_OF_A_BLOCK = 12


class Expansion:
    """``f(., k) = sum_j coefficients[j, k] k(atom_j, .)``, and what it is at the known points.

    Values are computed when they are first asked for; from then on sums and multiples carry them
    along, since they are linear in f.

    Parameters
    ----------
    atoms : AtomStore
    coefficients : (m, n_outputs) array
        Of the first m atoms; the others have none.
    pairwise : (n_pairwise,) array, optional
        Parameters that no input multiplies.
    """

    # NumPy's numbers leave multiplication to this class.
    __array_ufunc__ = None

    def __init__(
        self, atoms: AtomStore, coefficients: np.ndarray, pairwise: np.ndarray | None = None
    ) -> None:
        self.atoms = atoms
        self.coefficients = coefficients
        self.pairwise = np.zeros(0) if pairwise is None else pairwise
        self._values: np.ndarray | None = None

    def values(self) -> np.ndarray:
        """``f(z, k)`` at all known points, (u, n_outputs)."""
        if self._values is None:
            self._values = self.atoms.apply(self.coefficients)
        elif len(self._values) < self.atoms.n_known:
            late = self.atoms.apply(self.coefficients, first=len(self._values))
            self._values = np.concatenate([self._values.T, late.T], axis=1).T
        return self._values

    def __getstate__(self) -> dict[str, Any]:
        """Without values at points."""
        return vars(self) | {"_values": None}

    def support(self) -> np.ndarray:
        """The atoms with a coefficient that is not zero."""
        return np.flatnonzero(np.any(self.coefficients != 0, axis=1))

    def heights(self) -> tuple[np.ndarray, int]:
        """``sum_j |coefficients_jk| |k(atom_j, .)|`` for each output, and how many terms that has."""
        used = self.support()
        norms = np.sqrt(kernel_diagonal(self.atoms.kernel, self.atoms.points(used)).astype(np.float64))
        return norms @ np.abs(self.coefficients[used]), len(used)

    def function(self) -> Callable[[np.ndarray], np.ndarray]:
        """From points (n, n_features) to ``f(z, k)``, (n, n_outputs); prepared once for many calls."""
        used = self.support()
        centers, coefficients = self.atoms.points(used), self.coefficients[used]
        return lambda points: expand(self.atoms.kernel, points, centers, coefficients)

    def make_room(self, n_atoms: int) -> None:
        """Have coefficients for at least so many atoms; zero for those that are new."""
        short = n_atoms - len(self.coefficients)
        if short > 0:
            self.coefficients = np.pad(self.coefficients, ((0, short), (0, 0)))

    def copy(self) -> Expansion:
        """An independent copy."""
        other = Expansion(self.atoms, self.coefficients.copy(), self.pairwise.copy())
        other._values = None if self._values is None else self._values.copy(order="K")
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

    def __add__(self, other: Expansion) -> Expansion:
        total = self.copy()
        total += other
        return total

    def __sub__(self, other: Expansion) -> Expansion:
        total = self.copy()
        total -= other
        return total

    def __mul__(self, factor: float) -> Expansion:
        product = self.copy()
        product *= factor
        return product

    __rmul__ = __mul__


class KernelSpace(Space):
    """Functions ``f(x, k) = sum_j beta_jk k(z_j, x)``, with the norm of the kernel's space.

    Parameters that no input multiplies (transitions between labels, for instance) stand beside it, in a
    direct sum: squares add up.

    Where S(x) is a list, a worst-case term asks for it once and the worst member is found by
    enumeration; the kernel is computed for members that have been part of a plane only. Where S(x) is
    a continuum with a cover, the best member of the cover is refined, and the upper bound adds
    ``|f| L mesh``, L being the kernel's Lipschitz constant.

    Parameters
    ----------
    kernel : Kernel
    n_features : int
    n_outputs : int, default=1
    cache_mb : float, default=1000.0
        Most memory, in units of 10^6 bytes, for values of the kernel; what does not fit is computed
        again when it is needed. The inner products of planes that solvers keep take up to half as
        much again.
    n_pairwise : int, default=0

    Examples
    --------
    >>> import numpy as np
    >>> from structinv.kernels import Gaussian
    >>> from structinv.terms import Objective
    >>> from structinv.terms import WorstCase
    >>> from structinv.oracles import Identity
    >>> from structinv.structures import Binary
    >>> from structinv.solvers import SVMStruct, solve
    >>> X, y = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]]), np.array([0, 0, 1, 1])
    >>> space = KernelSpace(Gaussian(0.5), 2)
    >>> solution = solve(Objective(space, [WorstCase(X, y, Identity(), Binary(), 10.0)]), SVMStruct())
    >>> np.round(solution.f.function()(X)[:, 0], 2).tolist()
    [-1.0, -1.0, 1.0, 1.0]
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
        # Half of the cache once more, for the inner products of the planes of a set.
        most_planes = np.sqrt(0.5e6 * cache_mb / 8)
        self.blocks_in_a_set = max(16, int(most_planes / PLANES_EXPECTED_OF_A_BLOCK))

    def zeros(self) -> Expansion:
        return Expansion(self.atoms, np.zeros((0, self.n_outputs)), np.zeros(self.n_pairwise))

    def pairwise(self, f: Expansion) -> np.ndarray:
        """See `Space.pairwise`; a view."""
        return f.pairwise

    def dot(self, f: Expansion, g: Expansion) -> float:
        return float(np.sum(self.output_gram(f, g).diagonal()) + f.pairwise @ g.pairwise)

    def output_gram(self, f: Expansion, g: Expansion) -> np.ndarray:
        """Inner products of the functions of each output, (n_outputs, n_outputs)."""
        places = self.atoms.places[: len(f.coefficients)]
        if len(places) == 0 or len(g.coefficients) == 0:
            return np.zeros((self.n_outputs, self.n_outputs))
        with limited_blas(f.coefficients.size * g.coefficients.shape[1]):
            return f.coefficients.T @ g.values()[places]

    def scores(self, f: Expansion, normals: AtomRows) -> np.ndarray:
        slots = self.atoms.slots(normals.keys)
        places = self.atoms.places[slots]
        found = normals.by_row(np.einsum("rk,rk->r", f.values()[places], normals.coefficients))
        return found if normals.pairwise is None else found + normals.pairwise @ f.pairwise

    def combine(self, normals: AtomRows, coefficients: np.ndarray) -> Expansion:
        # A normal that counts nothing leaves no atom.
        used = np.flatnonzero(coefficients)
        if len(used) < len(coefficients):
            normals, coefficients = normals[used], coefficients[used]
        slots = self.atoms.slots(normals.keys)
        spread = normals.coefficients * np.repeat(coefficients, np.diff(normals.start))[:, None]
        total = np.zeros((len(self.atoms), self.n_outputs))
        np.add.at(total, slots, spread)
        pairwise = (
            np.zeros(self.n_pairwise) if normals.pairwise is None else normals.pairwise.T @ coefficients
        )
        return Expansion(self.atoms, total, pairwise)

    def mix(self, normals: AtomRows, coefficients: np.ndarray) -> AtomRows:
        return self.element(self.combine(normals, coefficients))

    def gram(self, left: AtomRows, right: AtomRows) -> np.ndarray:
        products = self._gram_over_atoms(left, right)
        if left.pairwise is None or right.pairwise is None:
            return products
        return products + dense(left.pairwise @ right.pairwise.T)

    def _gram_over_atoms(self, left: AtomRows, right: AtomRows) -> np.ndarray:
        """Inner products of the parts over atoms."""
        first, second = self.atoms.slots(left.keys), self.atoms.slots(right.keys)
        if len(second) > 2 * len(right) ** 2:
            # A few sums of many atoms, as of a bundle: their terms share most atoms.
            return self._gram_with_sums(left, first, right, second)
        products = self.atoms.block(first, second)
        products *= (left.coefficients @ right.coefficients.T).astype(products.dtype)
        return left.by_row(right.by_row(products.T).T)

    def _gram_with_sums(
        self, left: AtomRows, first: np.ndarray, right: AtomRows, second: np.ndarray
    ) -> np.ndarray:
        """Inner products with long sums, each of which becomes a function first; in blocks."""
        own, place = np.unique(first, return_inverse=True)
        centers, term = np.unique(second, return_inverse=True)
        functions = np.zeros((len(centers), len(right), self.n_outputs))
        owners = np.repeat(np.arange(len(right)), np.diff(right.start))
        np.add.at(functions, (term, owners), right.coefficients)
        flat, values = functions.reshape(len(centers), -1), []
        step = max(1, SUMMED_AT_ONCE // max(1, len(centers)))
        for start in range(0, len(own), step):
            values.append(self.atoms.block(own[start : start + step], centers) @ flat)
        table = np.concatenate([np.zeros((0, flat.shape[1])), *values])
        table = table.reshape(-1, len(right), self.n_outputs)
        return left.by_row(np.einsum("trk,tk->tr", table[place], left.coefficients))

    def stack(self, parts: Sequence[AtomRows]) -> AtomRows:
        return parts[0] if len(parts) == 1 else AtomRows.join(list(parts))

    def element(self, f: Expansion) -> AtomRows:
        used = f.support()
        ends = np.array([0, len(used)])
        pairwise = f.pairwise[None].copy() if self.n_pairwise else None
        return AtomRows(self.atoms, self.atoms.keys[used], f.coefficients[used], ends, pairwise)

    def times(self, normals: AtomRows, factors: np.ndarray) -> AtomRows:
        each = np.repeat(factors, np.diff(normals.start))[:, None]
        pairwise = None if normals.pairwise is None else scale_rows(normals.pairwise, factors)
        return AtomRows(
            normals.atoms, normals.keys, normals.coefficients * each, normals.start, pairwise
        )

    def apart(self, normals: AtomRows) -> tuple[AtomRows, np.ndarray] | None:
        """See `Space.apart`: a factor is the sum of a row's coefficients."""
        if self.n_outputs > 1 or self.n_pairwise:
            return None
        factors = np.abs(normals.by_row(normals.coefficients)[:, 0])
        return self.times(normals, 1.0 / np.where(factors > 0, factors, 1.0)), factors

    def owns(self, normals: Any) -> bool:
        return isinstance(normals, AtomRows) and normals.atoms is self.atoms

    def related(self, f: Any) -> bool:
        """See `Space.related`; of the kernel nothing is asked."""
        return type(f) is Expansion and self._same_widths(f)

    def _same_widths(self, f: Expansion) -> bool:
        found = f.atoms.known.shape[1], f.coefficients.shape[1], len(f.pairwise)
        return found == (self.n_features, self.n_outputs, self.n_pairwise)

    def translated(self, f: Expansion, keys: np.ndarray) -> Expansion:
        """A function of a related space in this one.

        Parameters
        ----------
        f : element
        keys : (m,) array of int
            The keys here of the atoms that f has a coefficient of, in order.
        """
        ends = np.array([0, len(keys)])
        own = AtomRows(self.atoms, keys, f.coefficients[f.support()], ends, f.pairwise[None])
        return self.combine(own, np.ones(1))

    def over_atoms(self, normals: Any) -> AtomRows:
        """The part of normals, here or in a related space, that lies on atoms."""
        return normals

    def translated_rows(self, normals: Any, keys: np.ndarray) -> Any:
        """Normals of a related space in this one, by the keys here of the terms `over_atoms`."""
        return AtomRows(self.atoms, keys, normals.coefficients, normals.start, normals.pairwise)

    def normals(
        self,
        points: np.ndarray,
        coefficients: np.ndarray,
        groups: np.ndarray | None = None,
        pairwise: Any = None,
    ) -> AtomRows:
        """See `Space.normals`; `points` are keys, and a row without a coefficient leaves no atom."""
        start = np.arange(len(points) + 1) if groups is None else groups
        return AtomRows(self.atoms, points, coefficients, start, pairwise).without_zeros()

    def worst(
        self,
        f: Expansion,
        bound: BoundOracle,
        rows: Rows,
        competitors: Competitors,
        points: bool = True,
        rounding: bool = False,
    ) -> Violations:
        """See `Space.worst`: by enumeration of a list, or of a cover that is then refined."""
        source, numbers = listed(bound).listed_in()
        pool = self.atoms.pool(source)
        values, mesh = self._members(f, pool, bound, rows, numbers)
        gains, costs, members = best_members(values, competitors, listed(bound).grades(rows))
        members = members if numbers is None else numbers[members]
        upper = gains + costs
        moved: MovedPoints | None = None
        if np.any(mesh > 0):
            upper = upper + self._slack(f, competitors, mesh)
            moved = _refine(f, bound, rows, competitors, gains, costs, members)
            upper = np.maximum(upper, gains + costs)
        chosen = np.arange(bound.X.shape[0])[rows]

        def points_of(places: np.ndarray, labels: np.ndarray) -> WorstPoints:
            member = members[places, labels]
            keys = pool.keys(chosen[places], member)
            if moved is not None:
                off = np.flatnonzero(moved.labels[places] == labels)
                origins = np.column_stack([chosen[places], member])[off]
                keys[off] = self.atoms.add_points(moved.points[places[off]], origins)
            return WorstPoints(keys, gains[places, labels], costs[places, labels])

        allowed = None
        if rounding:
            allowed = kernel_rounding(self.kernel, f, listed(bound).members(rows), competitors)
        return Violations(gains, costs, upper, points_of, allowed)

    def values(self, f: Expansion, X: np.ndarray) -> np.ndarray:
        return f.function()(X)

    def members(self, bound: BoundOracle, rows: Rows, index: np.ndarray) -> np.ndarray:
        """See `Space.members`; they are keys."""
        numbers = np.arange(bound.X.shape[0])[rows]
        return self.atoms.pool(listed(bound).listed_in()[0]).keys(numbers, index)

    def member_values(self, f: Expansion, bound: BoundOracle, rows: Rows) -> np.ndarray | None:
        """See `Space.member_values`; None where the members known leave out others."""
        source, numbers = listed(bound).listed_in()
        values, mesh = self._members(f, self.atoms.pool(source), bound, rows, numbers)
        return None if np.any(mesh > 0) else values

    def rows_at_once(self, bound: BoundOracle) -> int:
        """See `Space.rows_at_once`; all where the members are known points."""
        pool = self.atoms.pool(listed(bound).listed_in()[0])
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
        """What f is at the members of each row's cover, (n, s, n_outputs), and the covers' meshes.

        Those of the pool, or only the members with the numbers given.
        """
        if pool.mesh is not None:
            values = f.values()[pool.first : pool.first + len(pool.slots)]
            known = pool.numbers[rows]
            return values[known if numbers is None else known[:, numbers]], pool.mesh[rows]
        shape = (-1, pool.size if numbers is None else len(numbers), self.n_outputs)
        n_rows = count(rows, bound.X.shape[0])
        values, mesh = np.empty((n_rows, *shape[1:])), np.empty(n_rows)
        function, changes = f.function(), listed(bound)
        step = self.rows_at_once(bound)
        for first in range(0, n_rows, step):
            part = np.arange(first, min(first + step, n_rows))
            some = pick(rows, part, n_rows)
            points = changes.members(some).reshape(-1, self.n_features)
            values[part], mesh[part] = function(points).reshape(shape), changes.mesh(some)
        return values, mesh

    def _slack(self, f: Expansion, competitors: Competitors, mesh: np.ndarray) -> np.ndarray:
        """How much more a label can win between the members of a cover than at them, (n, n_labels)."""
        gram = competitors.functions.scores(competitors.functions.scores(self.output_gram(f, f)).T)
        heights = np.diagonal(gram)
        squares = heights[:, None] + heights[None, :] - gram - gram.T
        norms = np.sqrt(np.maximum(squares, 0.0))[competitors.codes]
        if competitors.slack:
            norms = norms * competitors.costs
        slack = np.zeros(norms.shape)
        # Either factor may be infinite, and counts nothing where another one is zero.
        matters = (norms > 0) & (mesh > 0)[:, None]
        np.multiply(norms, self.kernel.lipschitz(self.n_features), out=slack, where=matters)
        np.multiply(slack, mesh[:, None], out=slack, where=matters)
        return slack

    def points(self, found: np.ndarray) -> np.ndarray:
        """See `Space.points`; of keys, whose members are made anew."""
        return self.atoms.points_of(found)

    def packed(self, f: Expansion, normals: Any) -> dict[str, np.ndarray]:
        """A function and normals as arrays.

        Returns
        -------
        dict of str to array
            For each atom ``pools``, 0 for a point that is no member, and ``origins``, its row and
            member; ``points``, those that are no members; ``terms``, the atoms of the function and of
            the normals one after the other, ``coefficients`` and ``start`` as in `AtomRows`, and
            ``pairwise``, (3, n): row, column and size of what is not zero.
        """
        rows = self.over_atoms(self.stack([self.element(f), normals]))
        atoms, terms = np.unique(self.atoms.slots(rows.keys), return_inverse=True)
        pools, _ = split_keys(self.atoms.keys[atoms])
        return {
            "pools": pools,
            "origins": self.atoms.origins[atoms],
            "points": self.atoms.points(atoms[pools == LOOSE]),
            "terms": terms,
            "coefficients": rows.coefficients,
            "start": rows.start,
            "extra": np.zeros((3, 0)) if rows.pairwise is None else np.array(sp.find(rows.pairwise)),
        }

    def unpacked(self, arrays: dict[str, np.ndarray], points: np.ndarray) -> tuple[Expansion, Any]:
        """What `packed` was given, in a space that holds its points only: those of all atoms."""
        space = self._over(AtomStore.of_points(self.kernel, points, arrays["origins"]))
        keys = space.atoms.keys[arrays["terms"]]
        pairwise = None
        if self.n_pairwise:
            places, sizes = arrays["extra"][:2].astype(np.int64), arrays["extra"][2]
            pairwise = sp.csr_matrix((sizes, places), (len(arrays["start"]) - 1, self.n_pairwise))
        over_atoms = AtomRows(space.atoms, keys, arrays["coefficients"], arrays["start"], pairwise)
        rows = space._from_arrays(over_atoms, arrays)
        return space.combine(rows[:1], np.ones(1)), rows[1:]

    def _from_arrays(self, rows: AtomRows, arrays: dict[str, np.ndarray]) -> Any:
        """Normals, all of which are over atoms here."""
        return rows

    def _over(self, atoms: AtomStore) -> KernelSpace:
        """The same space with these points only, and without room for tables."""
        space = self._empty()
        space.atoms = atoms
        return space

    def _empty(self) -> KernelSpace:
        sizes = self.n_features, self.n_outputs
        return KernelSpace(self.kernel, *sizes, cache_mb=0.0, n_pairwise=self.n_pairwise)

    def compacted(self, normals: AtomRows) -> tuple[KernelSpace, AtomRows]:
        """The same normals in a space that holds their points, and nothing else."""
        slots, terms = np.unique(self.atoms.slots(normals.keys), return_inverse=True)
        points = self.atoms.points(slots)
        space = self._over(AtomStore.of_points(self.kernel, points, self.atoms.origins[slots]))
        keys = space.atoms.keys[terms]
        return space, AtomRows(space.atoms, keys, normals.coefficients, normals.start, normals.pairwise)


@dataclass(frozen=True)
class MovedPoints:
    """Members of S(x) off its cover: a point for each row, and the label it was moved for, or -2."""

    points: np.ndarray
    labels: np.ndarray


def _refine(
    f: Expansion,
    bound: BoundOracle,
    rows: Rows,
    competitors: Competitors,
    gains: np.ndarray,
    costs: np.ndarray,
    members: np.ndarray,
) -> MovedPoints:
    """Improve the worst member of each row for its worst label; its gain is updated in place."""
    every = np.arange(len(competitors))
    reached = gains + costs
    reached[every, competitors.codes] = -np.inf
    labels = np.argmax(reached, axis=1)
    function = f.function()

    def score(points: np.ndarray) -> np.ndarray:
        return competitors.lead(function(points), labels)

    points = listed(bound).refine(rows, members[every, labels], score)
    found = score(points)
    before = gains[every, labels]
    # A point that is better by rounding only would be one more atom for nothing.
    better = found > before + 1e-9 * (1.0 + np.abs(before))
    gains[every, labels] = np.where(better, found, before)
    return MovedPoints(points, np.where(better, labels, -2))
