"""Atoms of kernel expansions, with a cache of kernel values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..kernels import Kernel
from ..kernels.kernel_values import half_norms, kernel_matrix
from ..utils.jit import njit
from ..utils.matrices import floating
from .kernel_tiles import add_rows, expand, in_kernel_tiles

if TYPE_CHECKING:
    from ..oracles.changes import Changes

# A key consists of the number of a pool and the index of a point in it. Pool `LOOSE` has the points
# outside all lists.
PLACE_BITS = 40
LOOSE = 0
# All points of a pool are known from the start if this number of kernel columns fits into the cache.
COLUMNS_WORTH_A_CACHE = 2000
ROWS_COMPARED = 1024
ROWS_GATHERED = 16


@dataclass
class MemberPool:
    """Points from the covers of a bound oracle, numbered row by row.

    If all points are known, `mesh` is that of the cover, and their numbers start at `first`. A variant
    that equals the sample is not a separate point: `numbers` maps variants to points, and `origins` maps
    points to their first variant. `slots` maps points to atoms. All `sources` list the same points; they
    may differ in weights, or belong to later fits on the same samples.

    - `sources`: lists of these points
    - `number`: number of the pool
    - `first`: index of the first point among the known points
    - `mesh` (n,): mesh of the cover of each row; None unless all points are known
    - `numbers` (n, s): point of each variant of each row
    - `origins` (n_points,): first variant of each point, counted over all rows
    - `slots` (n_points,): atom of each point, or -1
    """

    sources: list[Changes]
    number: int
    first: int
    mesh: np.ndarray | None
    numbers: np.ndarray
    origins: np.ndarray
    slots: np.ndarray

    @property
    def source(self) -> Changes:
        """List that computes the points."""
        return self.sources[0]

    @property
    def size(self) -> int:
        """Number of variants per row."""
        return self.numbers.shape[1]

    def keys(self, rows: np.ndarray, members: np.ndarray) -> np.ndarray:
        """Return the keys of variants of rows."""
        return (self.number << PLACE_BITS) + self.numbers[rows, members]

    def distinct(self, rows: np.ndarray, members: np.ndarray) -> np.ndarray:
        """Return variants of rows, with 0 instead of copies of the row."""
        copies = self.numbers[rows, members] == self.numbers[rows, 0]
        return np.where(copies, 0, members)

    def members(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the row and the variant of each point."""
        rows, members = np.divmod(self.origins[points], self.size)
        return rows, members


class AtomStore:
    """Points of kernel expansions, and a cache of kernel values between them.

    An atom is a point that is part of the normal of a plane. The cached table has one row per atom and
    one column per *known* point. Known points are all points of all lists if they fit, otherwise the
    atoms. Values outside the cache are computed again on use.

    A pickle contains only the atoms: no table, no oracle, and no other points.
    """

    def __init__(self, kernel: Kernel, n_features: int, cache_bytes: float) -> None:
        self.kernel = kernel
        self.cache_bytes = cache_bytes
        self.places = np.zeros(0, dtype=np.int64)
        self.keys = np.zeros(0, dtype=np.int64)
        self.origins = np.zeros((0, 2), dtype=np.int64)
        self.pools: list[MemberPool] = []
        self.loose = np.zeros((0, n_features))
        self.loose_origins = np.zeros((0, 2), dtype=np.int64)
        self.loose_slots = np.zeros(0, dtype=np.int64)
        self.n_known = 0
        self.n_cached_rows = 0
        self.n_cached_columns = 0
        # These arrays have spare capacity, so that appending rarely copies them.
        self._known = np.zeros((0, n_features))
        self._norms = np.zeros(0)
        self._table = np.zeros((0, 0))
        # Highest precision of the kernel's values so far.
        self._answers = np.dtype(np.float32)

    def __len__(self) -> int:
        return len(self.places)

    def __reduce__(self) -> tuple:
        points = self.points(np.arange(len(self)))
        return AtomStore.of_points, (self.kernel, points, self.origins, self.cache_bytes)

    @classmethod
    def of_points(
        cls, kernel: Kernel, points: np.ndarray, origins: np.ndarray, cache_bytes: float = 0.0
    ) -> AtomStore:
        """Return a store with these points as atoms, in order, and without a table.

        Shapes: `points` (m, n_features), `origins` (m, 2).
        """
        store = cls(kernel, points.shape[1], 0.0)
        store.slots(store.add_points(points, origins))
        store.trim()
        store.cache_bytes = cache_bytes
        return store

    @property
    def known(self) -> np.ndarray:
        """Known points, as a view."""
        return self._known[: self.n_known]

    @property
    def dtype(self) -> np.dtype:
        """Precision of the table: the highest of the points and the kernel's values."""
        return np.result_type(self._known, self._answers)

    @property
    def table(self) -> np.ndarray:
        """Filled part of the table, as a view."""
        return self._table[: self.n_cached_rows, : self.n_cached_columns]

    def points(self, atoms: np.ndarray) -> np.ndarray:
        """Return the points of some atoms; a view if they are all known points in order."""
        places = self.places[atoms]
        if len(places) == self.n_known and np.array_equal(places, np.arange(self.n_known)):
            return self.known
        return self.known[places]

    def pool(self, source: Changes) -> MemberPool:
        """Return the pool of a list; its points become known if they are few enough."""
        for pool in self.pools:
            if any(source is each for each in pool.sources):
                return pool
        size = source.size
        for pool in self.pools:
            if self._lists_the_same(source, size, pool):
                pool.sources.append(source)
                return pool
        first = self.n_known
        members = self._all_members(source, source.X.shape[0] * size)
        if members is None:
            new, mesh = np.ones((source.X.shape[0], size), dtype=bool), None
        else:
            points, mesh = floating(members), source.mesh()
            new = _first_of_their_kind(points)
            flat = points.reshape(new.size, -1)
            self._know(np.ascontiguousarray(flat if np.all(new) else flat[new.ravel()]))
            self.n_cached_columns = self.n_known
        numbers = np.cumsum(new).reshape(new.shape) - 1
        numbers = np.where(new, numbers, numbers[:, :1])
        origins = np.flatnonzero(new)
        slots = np.full(len(origins), -1, dtype=np.int64)
        created = MemberPool([source], len(self.pools) + 1, first, mesh, numbers, origins, slots)
        self.pools.append(created)
        return created

    def _lists_the_same(self, source: Changes, size: int, pool: MemberPool) -> bool:
        """Return True if a list and a pool have the same points, and those of the pool are stored."""
        n_rows = source.X.shape[0]
        if pool.mesh is None or pool.numbers.shape != (n_rows, size):
            return False
        for first in range(0, n_rows, ROWS_COMPARED):
            rows = slice(first, min(first + ROWS_COMPARED, n_rows))
            points = floating(source.members(rows))
            same = np.array_equal(points, self.known[pool.first + pool.numbers[rows]])
            if not same or not np.array_equal(source.mesh(rows), pool.mesh[rows]):
                return False
        return True

    def _all_members(self, source: Changes, n_points: int) -> np.ndarray | None:
        """Return all points of a list if the table is empty and they fit, otherwise None."""
        total = self.n_known + n_points
        column = total * floating(source.X[:0]).dtype.itemsize
        if self.n_cached_rows or min(total, COLUMNS_WORTH_A_CACHE) * column > self.cache_bytes:
            return None
        return source.members()

    def _know(self, points: np.ndarray) -> None:
        """Append to the known points."""
        points, size = floating(points), self.n_known + len(points)
        if self.n_known == 0:
            # Without spare capacity, because often no points follow.
            self._known, self._norms, self.n_known = points, half_norms(points), size
            return
        dtype = np.result_type(self._known, points)
        if size > len(self._known) or dtype != self._known.dtype:
            larger = np.empty((size + size // 2, points.shape[1]), dtype=dtype)
            larger[: self.n_known] = self.known
            self._known = larger
            self._norms = np.resize(self._norms, len(larger)).astype(larger.dtype)
        self._known[self.n_known : size] = points
        self._norms[self.n_known : size] = half_norms(points)
        self.n_known = size

    def trim(self) -> None:
        """Free the spare capacity, and share memory between loose and known points."""
        self._known, self._norms = self.known.copy(), self._norms[: self.n_known].copy()
        if np.array_equal(self.loose, self._known):
            self.loose = self._known

    def add_points(self, points: np.ndarray, origins: np.ndarray) -> np.ndarray:
        """Add points outside all lists, and return their keys.

        `origins` has the row and variant of each point.
        """
        first = len(self.loose)
        self.loose = np.concatenate([self.loose.astype(points.dtype), points])
        self.loose_origins = np.concatenate([self.loose_origins, origins])
        self.loose_slots = np.concatenate([self.loose_slots, np.full(len(points), -1)])
        return (LOOSE << PLACE_BITS) + np.arange(first, len(self.loose))

    def slots(self, keys: np.ndarray) -> np.ndarray:
        """Return the atoms of these points; new atoms are created."""
        slots = self.find(keys)
        missing = np.unique(keys[slots < 0])
        if len(missing):
            self._add(missing)
            slots = self.find(keys)
        return slots

    def find(self, keys: np.ndarray) -> np.ndarray:
        """Return the atoms of these points, -1 for points that are not atoms."""
        numbers, places = split_keys(keys)
        slots = np.full(len(keys), -1, dtype=np.int64)
        for number, table in enumerate([self.loose_slots, *(pool.slots for pool in self.pools)]):
            in_pool = numbers == number
            slots[in_pool] = table[places[in_pool]]
        return slots

    def points_of(self, keys: np.ndarray) -> np.ndarray:
        """Return the points of these keys, (n, n_features); listed points are recomputed."""
        numbers, places = split_keys(keys)
        loose = np.flatnonzero(numbers == LOOSE)
        owners, parts = [loose], [self.loose[places[loose]]]
        for pool in self.pools:
            in_pool = np.flatnonzero(numbers == pool.number)
            if len(in_pool):
                owners.append(in_pool)
                parts.append(pool.source.points(*pool.members(places[in_pool])))
        if len(loose) == 0 and len(parts) > 1:
            # The empty array of loose points may have another precision.
            owners, parts = owners[1:], parts[1:]
        return np.concatenate(parts)[np.argsort(np.concatenate(owners))]

    def origins_of(self, keys: np.ndarray) -> np.ndarray:
        """Return the row and variant of these keys, (n, 2)."""
        numbers, places = split_keys(keys)
        origins = np.empty((len(keys), 2), dtype=np.int64)
        loose = numbers == LOOSE
        origins[loose] = self.loose_origins[places[loose]]
        for pool in self.pools:
            in_pool = numbers == pool.number
            origins[in_pool] = np.column_stack(pool.members(places[in_pool]))
        return origins

    def _add(self, keys: np.ndarray) -> None:
        """Create atoms from points that are not atoms."""
        numbers, places_in_pool = split_keys(keys)
        first = len(self)
        places, origins = np.empty(len(keys), dtype=np.int64), self.origins_of(keys)
        in_pool = np.flatnonzero(numbers == LOOSE)
        if len(in_pool):
            points = places_in_pool[in_pool]
            self.loose_slots[points] = first + in_pool
            places[in_pool] = self.n_known + np.arange(len(in_pool))
            self._know(self.loose[points])
        for pool in self.pools:
            in_pool = np.flatnonzero(numbers == pool.number)
            if len(in_pool) == 0:
                continue
            points = places_in_pool[in_pool]
            pool.slots[points] = first + in_pool
            if pool.mesh is not None:
                places[in_pool] = pool.first + points
            else:
                places[in_pool] = self.n_known + np.arange(len(in_pool))
                self._know(pool.source.points(*origins[in_pool].T))
        self.places = np.concatenate([self.places, places])
        self.keys = np.concatenate([self.keys, keys])
        self.origins = np.concatenate([self.origins, origins])
        self._extend_table()

    def _extend_table(self) -> None:
        """Add rows for new atoms and columns for new known points, if they fit."""
        rows, columns = len(self), self.n_known
        old_rows, old_columns = self.n_cached_rows, self.n_cached_columns
        itemsize = self.dtype.itemsize
        if columns == old_columns > 0:
            # The number of columns is final: add as many rows as fit.
            rows = min(rows, int(self.cache_bytes // (columns * itemsize)))
        if rows <= old_rows or rows * columns * itemsize > self.cache_bytes:
            return
        if rows > self._table.shape[0] or columns > self._table.shape[1]:
            limit = self.cache_bytes / itemsize
            self._table = _with_room(self.table, rows, columns, limit, self.dtype)
        if self._fill_rows(np.arange(old_rows, rows), self._table[old_rows:rows, :columns]):
            # Repeat in higher precision, in which fewer rows may fit.
            most = self.cache_bytes // (max(1, old_columns) * self.dtype.itemsize)
            self.n_cached_rows = min(old_rows, int(most))
            self._table = self.table.astype(self.dtype)
            self._extend_table()
            return
        if columns > old_columns:
            # New known points are new atoms, so the block is the transpose of an existing one.
            owners = np.full(columns, -1, dtype=np.int64)
            owners[self.places[old_rows:rows]] = np.arange(old_rows, rows)
            block = self._table[owners[old_columns:]][:, self.places[:old_rows]]
            self._table[:old_rows, old_columns:columns] = block.T
        self.n_cached_rows, self.n_cached_columns = rows, columns

    def block(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Return the kernel matrix between two lists of atoms."""
        return self.between(left, self.places[right])

    def square(self, atoms: np.ndarray) -> np.ndarray:
        """Return the kernel matrix of some atoms."""
        places = self.places[atoms]
        if not self._has(atoms, places):
            return self.between(atoms, places)
        values = np.empty((len(atoms), len(atoms)), dtype=self._table.dtype)
        _gather_square(values, self._table, atoms, places, ROWS_GATHERED)
        return values

    def _has(self, atoms: np.ndarray, places: np.ndarray) -> bool:
        """Return True if the table has the kernel between these atoms and known points."""
        return bool(np.all(atoms < self.n_cached_rows) and np.all(places < self.n_cached_columns))

    def between(self, atoms: np.ndarray, places: np.ndarray) -> np.ndarray:
        """Return the kernel matrix between atoms and known points, given by their places."""
        if self._has(atoms, places):
            values = np.empty((len(atoms), len(places)), dtype=self._table.dtype)
            _gather(values, self._table, atoms, places)
            return values
        return kernel_matrix(self.kernel, self.known[self.places[atoms]], self.known[places])

    def apply(self, coefficients: np.ndarray, first: int = 0) -> np.ndarray:
        """Return ``sum_j coefficients_j k(atom_j, z)`` at known points, (u, n_outputs).

        The points are those from number `first` on. The precision is that of the points. The values of
        each output are adjacent in memory.
        """
        used = np.flatnonzero(np.any(coefficients != 0, axis=1))
        values = np.zeros((coefficients.shape[1], self.n_known - first), dtype=self._known.dtype)
        self.add(values, used, coefficients[used], first)
        return values.T

    def add(
        self, values: np.ndarray, atoms: np.ndarray, coefficients: np.ndarray, first: int = 0
    ) -> None:
        """Add ``sum_j coefficients_j k(atom_j, z)`` to values at known points.

        The points are those from number `first` on.

        Shapes: `values` (n_outputs, u), `atoms` (m,), `coefficients` (m, n_outputs).
        """
        cached, late = atoms < self.n_cached_rows, max(self.n_cached_columns, first)
        if np.any(cached) and first < late:
            add_rows(values, self._table, atoms[cached], coefficients[cached], slice(first, late))
        for some, start in ((cached, late), (~cached, first)):
            if np.any(some) and start < self.n_known:
                own, points, norms = atoms[some], self.known[start:], self._norms[: self.n_known]
                both = norms[start:], norms[self.places[own]]
                found = expand(self.kernel, points, self.points(own), coefficients[some], both)
                values[:, start - first :] += found.T

    def _fill_rows(self, atoms: np.ndarray, table: np.ndarray) -> bool:
        """Write the kernel matrix between atoms and all known points to a table.

        Return True if the precision of the table is too low; `dtype` is then sufficient.
        """
        norms, kinds = (self._norms[self.places[atoms]], self._norms[: self.n_known]), {self._answers}

        def write(rows: slice, columns: slice, values: np.ndarray) -> None:
            table[rows, columns] = values
            kinds.add(values.dtype)

        in_kernel_tiles(self.kernel, self.points(atoms), self.known, write, norms)
        self._answers = np.result_type(*kinds)
        return len(atoms) > 0 and not np.can_cast(self._answers, table.dtype)


@njit(cache=True, nogil=True)
def _gather(found, table, rows, columns):
    for a in range(len(rows)):
        row = table[rows[a]]
        for b in range(len(columns)):
            found[a, b] = row[columns[b]]


@njit(cache=True, nogil=True)
def _gather_square(found, table, rows, columns, rows_at_once):
    # Random memory access is slow: read several rows at a time, and only one triangle.
    for start in range(0, len(rows), rows_at_once):
        end = start + rows_at_once if start + rows_at_once < len(rows) else len(rows)
        for b in range(start, len(columns)):
            column = columns[b]
            for a in range(start, end):
                found[a, b] = found[b, a] = table[rows[a], column]


def _first_of_their_kind(points: np.ndarray) -> np.ndarray:
    """Mark the variants, (n, s), that are not copies of the first one of their row."""
    new = np.ones(points.shape[:2], dtype=bool)
    for first in range(0, len(points), ROWS_COMPARED):
        part = points[first : first + ROWS_COMPARED]
        new[first : first + ROWS_COMPARED, 1:] = np.any(part[:, 1:] != part[:, :1], axis=2)
    return new


def split_keys(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the pool number and the place in the pool of each key."""
    return keys >> PLACE_BITS, keys & ((1 << PLACE_BITS) - 1)


def _with_room(table: np.ndarray, rows: int, columns: int, limit: float, dtype: np.dtype) -> np.ndarray:
    """Return a copy of a table with spare capacity, within a limit."""
    n_columns, most_rows = columns, 1.5 * rows
    if columns > table.shape[1] and len(table):
        n_columns = max(columns, int(min(1.5 * columns, np.sqrt(limit))))
    elif columns > rows:
        # The number of columns is final. Unwritten memory is free.
        most_rows = columns
    n_rows = max(rows, int(min(most_rows, limit / max(n_columns, 1))))
    larger = np.empty((n_rows, n_columns), dtype=dtype)
    larger[: table.shape[0], : table.shape[1]] = table
    return larger
