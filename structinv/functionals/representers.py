"""Representers of families of functionals: products with their Gram matrix."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from ..kernels import Kernel
from .fast_products import VALUES_AT_ONCE, JetGram
from .gram import gram_of_atoms
from .parts import Atoms, Part, Values

# Forming an entry of a Gram matrix takes the memory of about ten numbers.
ENTRIES_AT_ONCE = 500_000
DEFAULT_CACHE_MB = 1000.0

# Rows of a Gram matrix, and their entries.
_Blocks: TypeAlias = Iterable[tuple[np.ndarray, np.ndarray]]
# Numbers for values (u,) and gradients (u, d) at the points of a site; None for zeros.
_Jets: TypeAlias = tuple[np.ndarray | None, np.ndarray | None]


@dataclass
class _Member:
    """A part of a family, and the numbers of the family's functionals."""

    part: Part
    rows: slice


@dataclass
class _Site:
    """Parts with values and gradients at the same points, with the same noise `blur`."""

    points: np.ndarray
    blur: float
    members: list[_Member] = field(default_factory=list)

    @property
    def order(self) -> int:
        """The highest order of a derivative at these points."""
        return max((member.part.order for member in self.members), default=0)

    def holds(self, part: Part) -> bool:
        """Return True if a part has these points and this blur."""
        same = part.points is self.points or np.array_equal(part.points, self.points)
        return part.blur == self.blur and same


class Representers:
    """Representers ``z_j = L_j k(x, .)`` of several families of functionals.

    Products with their Gram matrix G do not form it, except for second derivatives. Their entries are
    cached if they fit. For gradients at l points with d features, products take O(l^2 d) time and
    O(l d + l^2) memory, less with a small cache. `table` forms G if it is small enough for that to be
    faster.
    """

    def __init__(
        self,
        kernel: Kernel,
        families: Sequence[Sequence[Part]],
        cache_mb: float = DEFAULT_CACHE_MB,
    ) -> None:
        self.kernel = kernel
        self.families = [list(parts) for parts in families]
        for parts in self.families:
            kernel.validate(parts[0].points.shape[1])
        self.cache_bytes = 1e6 * cache_mb
        edges = np.cumsum([0, *(parts[0].size for parts in self.families)])
        self.slices = [slice(int(a), int(b)) for a, b in zip(edges[:-1], edges[1:], strict=True)]
        self.size = int(edges[-1])
        self._sites: list[_Site] = []
        self._formed: list[_Member] = []
        for parts, rows in zip(self.families, self.slices, strict=True):
            for part in parts:
                self._place(_Member(part, rows))
        self._grams: dict[tuple[int, int], JetGram] = {}
        self._kept_blocks: dict[tuple[int, int], _Blocks] = {}
        self._table: np.ndarray | None = None
        self.n_products = 0

    def forget(self) -> None:
        """Free the memory of cached kernel values; products compute them again."""
        self._grams, self._kept_blocks, self._table = {}, {}, None

    def __reduce__(self) -> tuple[type[Representers], tuple]:
        # Copies and files have no cached kernel values.
        return Representers, (self.kernel, self.families, 1e-6 * self.cache_bytes)

    def emptied(self) -> Representers:
        """Return the same representers without cached kernel values."""
        return copy.copy(self)

    def _place(self, member: _Member) -> None:
        part = member.part
        smoothness = self.kernel.smoothness
        if part.order > smoothness:
            raise ValueError(
                f"{type(part).__name__} requires derivatives of order {part.order} in each argument, "
                f"but {self.kernel!r} has them up to order {smoothness:g}"
            )
        if part.order > 1:
            self._formed.append(member)
            return
        site = next((site for site in self._sites if site.holds(part)), None)
        if site is None:
            site = _Site(part.points, part.blur)
            self._sites.append(site)
        site.members.append(member)

    # -- products ---------------------------------------------------------------------------------

    def apply(self, coefficients: np.ndarray) -> np.ndarray:
        """Compute ``L_i f`` of all functionals for ``f = sum_j coefficients_j z_j``.

        This is the product with G.

        Shapes: `coefficients` (size, k).
        """
        if coefficients.ndim == 2:
            columns = [self.apply(column) for column in coefficients.T]
            return np.column_stack([np.zeros((self.size, 0)), *columns])
        self.n_products += 1
        if self._table is not None:
            return self._table @ coefficients
        total = np.zeros(self.size)
        for number, site in enumerate(self._sites):
            jets = _spread(site, coefficients)
            if jets is not None:
                for other, target in enumerate(self._sites):
                    gram = self._gram_of_sites(other, number)
                    _collect(target, gram.product(*jets, *_wanted(target)), total)
        self._apply_formed(coefficients, total)
        return total

    def _apply_formed(self, coefficients: np.ndarray, total: np.ndarray) -> None:
        """Add products that involve second derivatives: their Gram matrix is formed in blocks."""
        members = [member for site in self._sites for member in site.members]
        for number, member in enumerate(self._formed):
            own = member.part
            for place, other in enumerate([*members, *self._formed]):
                left, right = coefficients[member.rows], coefficients[other.rows]
                for rows, block in self._blocks_between((number, place), own, other.part):
                    if place < len(members):
                        mixed = own.to_atoms(left)[rows] @ block
                        total[other.rows] += other.part.from_atoms(mixed)
                    part = np.zeros(own.n_atoms)
                    part[rows] = block @ other.part.to_atoms(right)
                    total[member.rows] += own.from_atoms(part)

    def _blocks_between(self, key: tuple[int, int], left: Part, right: Part) -> _Blocks:
        """Return the blocks between two parts, cached if they fit."""
        if key not in self._kept_blocks:
            blocks = _blocks(self.kernel, left, right)
            if left.n_atoms * right.n_atoms * self.dtype.itemsize > self._room:
                return blocks
            self._kept_blocks[key] = list(blocks)
        return self._kept_blocks[key]

    @property
    def _room(self) -> float:
        """The bytes that are left for cached kernel values."""
        blocks = [block for kept in self._kept_blocks.values() for _, block in kept]
        used = sum(block.nbytes for block in blocks)
        return self.cache_bytes - used - sum(gram.kept_bytes for gram in self._grams.values())

    def _gram_of_sites(self, left: int, right: int) -> JetGram:
        if (left, right) not in self._grams:
            first, second = self._sites[left], self._sites[right]
            kernel = _blurred(self.kernel, first.blur + second.blur, first.points.shape[1])
            order = first.order + second.order
            self._grams[left, right] = JetGram(kernel, first.points, second.points, order, self._room)
        return self._grams[left, right]

    def values(self, coefficients: np.ndarray, points: np.ndarray) -> np.ndarray:
        """Compute ``f(z)`` of ``f = sum_j coefficients_j z_j`` at points.

        Shapes: `coefficients` (size, k), `points` (m, d); returns (m, k).
        """
        columns = np.atleast_2d(coefficients.T)
        total = np.zeros((len(columns), len(points)))
        for site in self._sites:
            # Kernel values of the first column are cached for the others.
            gram = self._passing(points, site.points, site, len(columns))
            for column, own in zip(columns, total, strict=True):
                jets = _spread(site, column)
                if jets is not None:
                    own += np.asarray(gram.product(*jets, gradients=False)[0])
        for member in self._formed:
            weights = member.part.to_atoms(columns.T[member.rows])
            for rows, block in _blocks(self.kernel, Values(points), member.part):
                total[:, rows] += (block @ weights).T
        return total.T.reshape(len(points), *coefficients.shape[1:])

    def on_points(self, points: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        """Compute ``L_j f`` of all functionals for a kernel expansion.

        The function is ``f = sum_i coefficients_i k(point_i, .)``.

        Shapes: `points` (m, d), `coefficients` (m, k); returns (size, k).
        """
        columns = np.atleast_2d(coefficients.T)
        total = np.zeros((len(columns), self.size))
        for site in self._sites:
            gram = self._passing(site.points, points, site, len(columns))
            for column, own in zip(columns, total, strict=True):
                _collect(site, gram.product(column, None, *_wanted(site)), own)
        for member in self._formed:
            part = np.zeros((member.part.n_atoms, len(columns)))
            for rows, block in _blocks(self.kernel, member.part, Values(points)):
                part[rows] = block @ columns.T
            total[:, member.rows] += member.part.from_atoms(part).T
        return total.T.reshape(self.size, *coefficients.shape[1:])

    def _passing(self, X: np.ndarray, Y: np.ndarray, site: _Site, n_columns: int) -> JetGram:
        """Return the Gram matrix between a site and points, for one product per column."""
        kernel = _blurred(self.kernel, site.blur, X.shape[1])
        return JetGram(kernel, X, Y, site.order, self.cache_bytes if n_columns > 1 else 0.0)

    # -- formed -----------------------------------------------------------------------------------

    @property
    def product_cost(self) -> float:
        """The approximate number of multiplications of a product without the Gram matrix."""
        cost = 0.0
        for site in self._sites:
            for other in self._sites:
                widest = 1 + 3 * site.points.shape[1] * min(site.order + other.order, 1)
                cost += len(site.points) * len(other.points) * widest
        # Without a cache, second derivatives are formed in every product: about ten numbers per entry.
        return cost + 10.0 * self.size * sum(member.part.n_atoms for member in self._formed)

    @property
    def dtype(self) -> np.dtype:
        """The precision of the points, and of the kernel's values between them."""
        points = [part.points for parts in self.families for part in parts]
        return np.result_type(*points) if points else np.dtype(np.float64)

    @property
    def fits(self) -> bool:
        """True if the Gram matrix fits in `cache_mb`."""
        return 8.0 * self.size**2 <= self.cache_bytes

    def table(self) -> np.ndarray:
        """Return the Gram matrix of all functionals; later products use it."""
        if self._table is None:
            self._table = self.gram()
        return self._table

    def gram(self, rows: np.ndarray | None = None, columns: np.ndarray | None = None) -> np.ndarray:
        """Compute the Gram matrix between some functionals and others, by default all.

        Returns shape (n_rows, n_columns).
        """
        if self._table is not None:
            own, other = (slice(None) if each is None else each for each in (rows, columns))
            return self._table[own][:, other]
        left = _pieces(self.families, self.slices, rows)
        right = left if columns is rows else _pieces(self.families, self.slices, columns)
        shape = tuple(self.size if each is None else len(each) for each in (rows, columns))
        total = np.zeros(shape)
        for places, part, chosen in left:
            for other_places, other_part, other_chosen in right:
                sides = part.chosen(chosen), other_part.chosen(other_chosen)
                if chosen is None and other_chosen is None:
                    # A view, because a copy of a large block would not fit in memory as well.
                    where = (
                        slice(places[0], places[-1] + 1),
                        slice(other_places[0], other_places[-1] + 1),
                    )
                    _add_block(self.kernel, *sides, total[where])
                else:
                    block = np.zeros((len(places), len(other_places)))
                    _add_block(self.kernel, *sides, block)
                    total[np.ix_(places, other_places)] += block
        return total

    def diagonal(self, rows: np.ndarray | None = None) -> np.ndarray:
        """Compute ``|z_j|^2`` of every functional, or of some, (number of rows,)."""
        rows = np.arange(self.size) if rows is None else rows
        if self._table is not None:
            return self._table[rows, rows]
        total = np.empty(len(rows))
        # Only the diagonals of Gram matrices are used, so small matrices save work.
        step = 64
        for first in range(0, len(rows), step):
            some = rows[first : first + step]
            total[first : first + step] = np.diagonal(self.gram(some, some))
        return total

    def monomials(self, degree: int) -> np.ndarray:
        """Apply the functionals to 1, and for degree 1 also to each coordinate.

        The shape is (size, 1) or (size, 1 + d)."""
        if not self.families:
            return np.zeros((0, 1))
        return np.concatenate([sum(part.monomials(degree) for part in parts) for parts in self.families])


def _blurred(kernel: Kernel, variance: float, n_features: int) -> Kernel:
    averaged = kernel.noise_averaged(variance, n_features)
    if averaged is None:
        raise ValueError(f"{kernel!r} has no closed form under Gaussian noise")
    return averaged


def _spread(site: _Site, coefficients: np.ndarray) -> _Jets | None:
    """Return the coefficients of a site's values and gradients, or None if all are zero."""
    sums: list[Any] = [None, None]
    for member in site.members:
        own = coefficients[member.rows]
        if np.any(own):
            jets = member.part.spread(member.part.to_atoms(own))
            order = member.part.order
            sums[order] = jets if sums[order] is None else sums[order] + jets
    return None if all(jets is None for jets in sums) else (sums[0], sums[1])


def _wanted(site: _Site) -> tuple[bool, bool]:
    orders = {member.part.order for member in site.members}
    return 0 in orders, 1 in orders


def _collect(site: _Site, jets: _Jets, total: np.ndarray) -> None:
    """Add values and gradients at a site to the functionals of its members."""
    for member in site.members:
        results = jets[member.part.order]
        assert results is not None
        total[member.rows] += member.part.from_atoms(member.part.collect(results))


def _add_block(
    kernel: Kernel, left: tuple[Atoms, Any], right: tuple[Atoms, Any], total: np.ndarray
) -> None:
    """Add the Gram matrix between functionals given by atoms and mixes, in tiles."""
    (atoms, mix), (others, other_mix) = left, right
    step = max(1, ENTRIES_AT_ONCE // max(1, len(others.points)))
    for first in range(0, len(atoms.points), step):
        rows = slice(first, first + step)
        tile = gram_of_atoms(kernel, atoms.take(rows), others)
        tile = tile if other_mix is None else (other_mix @ tile.T).T
        if mix is None:
            total[rows] += tile
        else:
            total += mix[:, rows] @ tile


def _blocks(kernel: Kernel, left: Part, right: Part) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield rows of the Gram matrix between all atoms of two parts, in blocks."""
    every = right.listed(np.arange(right.n_atoms))
    step = max(1, VALUES_AT_ONCE // max(1, right.n_atoms))
    for first in range(0, left.n_atoms, step):
        rows = np.arange(first, min(first + step, left.n_atoms))
        yield rows, gram_of_atoms(kernel, left.listed(rows), every)


def _pieces(
    families: list[list[Part]], slices: list[slice], chosen: np.ndarray | None
) -> list[tuple[np.ndarray, Part, np.ndarray | None]]:
    """Return each part with its chosen functionals, and their positions among all chosen ones."""
    pieces: list[tuple[np.ndarray, Part, np.ndarray | None]] = []
    for parts, rows in zip(families, slices, strict=True):
        if chosen is None:
            places, own = np.arange(rows.start, rows.stop), None
        else:
            places = np.flatnonzero((chosen >= rows.start) & (chosen < rows.stop))
            own = chosen[places] - rows.start
        pieces += [(places, part, own) for part in parts if len(places)]
    return pieces
