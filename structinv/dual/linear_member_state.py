"""Masses on the members of every orbit, for functions that are linear in the input."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from ..oracles.base import BoundOracle
from ..oracles.changes import Changes
from ..oracles.listing import listed
from ..spaces import ExplicitSpace
from ..spaces.tensor_rows import MemberRows, TensorRows
from ..structures.competitors import Competitors
from ..terms.planes import PlaneSet
from ..utils.jit import njit
from ..utils.matrices import Matrix, floating, same_entries, scale_rows
from ..utils.packed_rows import PackedRows
from .base import DualState, OutOfTime, in_runs, never
from .case import Case
from .member_steps import ActiveMembers

# Rows that are priced together: this many at most, and about a twelfth of all.
ROWS_AT_ONCE = 256
BATCHES_OF_A_SWEEP = 12
# Rounds over rows with planes, until this share of the gap is left.
FOCUSED_ROUNDS = 20
FOCUSED_SHARE = 0.2
# A sweep that adds no plane has settled once this share of the gap is left.
SETTLED_SHARE = 0.01
# Members made at once to go over them again and again: half as much as the rows themselves, or so much.
LEAST_MADE = 64_000_000


@dataclass
class MemberBlock:
    """The members of some rows that have mass or may get it, row by row.

    Row number r of those asked about owns the entries ``start[r]`` to ``start[r + 1] - 1``; `masses`
    is (n_entries, n_labels).
    """

    start: np.ndarray
    rows: np.ndarray
    members: np.ndarray
    masses: np.ndarray


class LinearMemberState(DualState):
    """Which members of its orbit a row's planes are of, and their masses; never the members themselves.

    A batch of rows is priced at once, by moving the few weights instead of the many rows. The worst
    member of each row and those that have mass are then made, which are a few a row, and each row
    takes exact pairwise steps between them. So memory does not grow with the size of the inputs, and
    sparse rows stay sparse.

    Parameters
    ----------
    case : Case
        Worst cases of single rows, linear in the input, whose oracle has lists. A new member must
        rise by `plane_tol` above those of its row that have mass to be taken up.
    rng : numpy.random.Generator
    """

    checks_planes = True

    def __init__(self, case: Case, rng: np.random.Generator) -> None:
        self.term = term = case.term
        self.space: ExplicitSpace = case.space
        self.changes: Changes = listed(term.bound)
        self.size = case.n_members
        self.rng = rng
        self.plane_tol = case.plane_tol
        grades = self.changes.grades()
        self.grades = np.ones((1, self.size)) if grades is None else grades
        self.rows = np.flatnonzero(term.weights > 0)
        self.gaps = np.zeros(len(term.labels.codes))
        # Of each row a few (member, label) pairs, as one number, -1 for none; and their masses.
        self.pairs = np.full((len(self.gaps), 2), -1, dtype=np.int32)
        self.masses = np.zeros(self.pairs.shape)

    @property
    def n_labels(self) -> int:
        """Number of labels of the term's structure."""
        return self.term.labels.n_labels

    @property
    def offset(self) -> float:
        rows, members, labels, masses = self._active(np.arange(len(self.masses)))
        return float(self.term.weights[rows] * masses @ self._offsets(rows, members, labels))

    def _offsets(self, rows: np.ndarray, members: np.ndarray, labels: np.ndarray) -> np.ndarray:
        return self._rivals(rows).cost_of(labels) * self._grades_of(rows, members)

    def _rivals(self, rows: np.ndarray) -> Competitors:
        return self.term.labels.competitors(rows)

    def _grades_of(self, rows: np.ndarray, members: np.ndarray) -> np.ndarray:
        return self.grades[rows if len(self.grades) > 1 else 0, members]

    def _active(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Place in `rows`, member, label and mass of every plane of these rows that has one."""
        masses = self.masses[rows]
        owners, slots = np.nonzero(masses)
        members, labels = np.divmod(self.pairs[rows[owners], slots], self.n_labels)
        return owners, members, labels, masses[owners, slots]

    def sweep(self, f: np.ndarray, out_of_time: OutOfTime = never) -> tuple[float, int]:
        """See `DualState.sweep`: all rows once, then those with planes, again and again."""
        self.n_added, self.converged = 0, False
        order = self.rng.permutation(self.rows)
        step = min(ROWS_AT_ONCE, 1 + len(order) // BATCHES_OF_A_SWEEP)
        for first in range(0, len(order), step):
            if out_of_time():
                return np.inf, first
            self._visit(f, np.sort(order[first : first + step]))
        total, left = float(self.gaps.sum()), 0.0
        holding = np.flatnonzero(np.any(self.masses > 0, axis=1))
        for rows in self._portions(holding):
            left += np.inf if out_of_time() else self._focus(f, rows, out_of_time)
        left_out = self.plane_tol * self.term.weights.sum()
        few = total <= (1.0 + SETTLED_SHARE) * left_out
        self.converged = self.n_added == 0 and few and left <= SETTLED_SHARE * total
        return total, len(self.rows)

    def _visit(self, f: np.ndarray, rows: np.ndarray) -> None:
        """Take up the worst members of some rows, and step between the planes of each; the gaps."""
        newcomers = np.full(len(rows), -1)
        self.gaps[rows] = self._price(f, rows, newcomers)
        self.n_added += int(np.count_nonzero(newcomers >= 0))
        held = self._held(rows, newcomers)
        if len(held.rows):
            carrying = ActiveMembers(self._points(held.rows, held.members), held.start)
            self._ascend(f, rows, held, carrying, np.arange(len(rows)))
            self._keep(rows, held)

    def _portions(self, rows: np.ndarray) -> list[np.ndarray]:
        """Rows in runs whose members fit in memory next to the rows themselves."""
        return in_runs(rows, np.count_nonzero(self.masses[rows], axis=1), self._room)

    @property
    def _room(self) -> int:
        """How many members fit in memory next to the rows themselves, if they are like these."""
        X = self.term.bound.X
        size = X.data.nbytes + X.indices.nbytes if sp.issparse(X) else X.nbytes
        return int(max(LEAST_MADE, size // 2) // max(1, size // max(1, X.shape[0])))

    def _focus(self, f: np.ndarray, rows: np.ndarray, out_of_time: OutOfTime) -> float:
        """Go over the planes of some rows until most of their gap is gone; what is left of it."""
        total = self.gaps[rows].sum()
        held = self._held(rows, np.full(len(rows), -1))
        carrying = ActiveMembers(self._points(held.rows, held.members), held.start)
        gaps = self._ascend(f, rows, held, carrying, self.rng.permutation(len(rows)))
        target = (FOCUSED_SHARE if self.n_added else SETTLED_SHARE) * total
        for _ in range(FOCUSED_ROUNDS):
            if out_of_time() or gaps.sum() <= target:
                break
            active = np.flatnonzero(gaps > FOCUSED_SHARE * gaps.mean())
            gaps[active] = self._ascend(f, rows, held, carrying, self.rng.permutation(active))[active]
        self._keep(rows, held)
        return float(gaps.sum())

    def _price(self, f: np.ndarray, rows: np.ndarray, newcomers: np.ndarray) -> np.ndarray:
        """The weighted gaps at `f`; the worst member that is not held goes into `newcomers`."""
        arrival = np.empty(len(rows))
        scores = self.changes.scores(rows, self.space.weights(f))
        assert scores is not None
        grades = self.grades if len(self.grades) == 1 else self.grades[rows]
        _worst_newcomers(
            np.ascontiguousarray(scores), self.space.constants(f), *self._rivals(rows).arrays, grades,
            self.pairs[rows], self.masses[rows], self.plane_tol, newcomers, arrival,
        )  # fmt: skip
        return self.term.weights[rows] * arrival

    def _held(self, rows: np.ndarray, newcomers: np.ndarray) -> MemberBlock:
        """The members with mass, and the newcomers of rows that have one."""
        owners, members, labels, masses = self._active(rows)
        new = np.flatnonzero(newcomers >= 0)
        nothing = np.zeros(len(new), dtype=np.int64)
        return self._gathered(
            rows,
            np.concatenate([owners, new]),
            np.concatenate([members, newcomers[new]]),
            np.concatenate([labels, nothing]),
            np.concatenate([masses, nothing]),
        )

    def _gathered(
        self,
        rows: np.ndarray,
        owners: np.ndarray,
        members: np.ndarray,
        labels: np.ndarray,
        masses: np.ndarray,
    ) -> MemberBlock:
        """Masses of members and labels, each of the row ``rows[owners]``, by member."""
        entries, places = np.unique(owners * self.size + members, return_inverse=True)
        dense = np.zeros((len(entries), self.n_labels))
        np.add.at(dense, (places, labels), masses)
        own, listed = np.divmod(entries, self.size)
        return MemberBlock(np.searchsorted(own, np.arange(len(rows) + 1)), rows[own], listed, dense)

    def _points(self, rows: np.ndarray, members: np.ndarray) -> Matrix:
        return member_points(self.term.bound, rows, members)

    def _ascend(
        self,
        f: np.ndarray,
        rows: np.ndarray,
        held: MemberBlock,
        carrying: ActiveMembers,
        order: np.ndarray,
    ) -> np.ndarray:
        """Steps between the planes of the rows ``rows[order]``; the gaps of these on arrival."""
        grades = self._grades_of(held.rows, held.members)
        problem = *self._rivals(rows).arrays, grades, self.term.weights[rows]
        return carrying.ascend(self.space.table(f), order, problem, held.masses)

    def _keep(self, rows: np.ndarray, held: MemberBlock) -> None:
        """Write masses back, with as many columns as the row with most planes needs."""
        entries, labels = np.nonzero(held.masses)
        owners = np.searchsorted(held.start, entries, side="right") - 1
        slots = np.arange(len(entries)) - np.searchsorted(owners, owners)
        short = int(slots.max(initial=-1)) + 1 - self.masses.shape[1]
        if short > 0:
            self.pairs = np.pad(self.pairs, ((0, 0), (0, short)), constant_values=-1)
            self.masses = np.pad(self.masses, ((0, 0), (0, short)))
        self.masses[rows], self.pairs[rows] = 0.0, -1
        # Masses last: Ctrl-C in between must leave none without a member.
        self.pairs[rows[owners], slots] = held.members[entries] * self.n_labels + labels
        self.masses[rows[owners], slots] = held.masses[entries, labels]

    def combination(self) -> np.ndarray:
        """See `DualState.combination`; members are made in portions, each once for all its planes."""
        f = self.space.zeros()
        rows, members, labels, masses = self._active(np.arange(len(self.masses)))
        sizes = self.term.weights[rows] * masses
        each = sizes[:, None] * self._rivals(rows).normals(labels)
        entries, places = np.unique(rows * self.size + members, return_inverse=True)
        ones, shape = np.ones(len(rows)), (len(entries), len(rows))
        summed = sp.csr_matrix((ones, (places.ravel(), np.arange(len(rows)))), shape) @ each
        for first in range(0, len(entries), 16 * ROWS_AT_ONCE):
            part = slice(first, first + 16 * ROWS_AT_ONCE)
            self.space.add(f, self._points(*np.divmod(entries[part], self.size)), summed[part])
        return f

    def planes(self) -> PlaneSet:
        """See `DualState.planes`; the normals make their points when they are asked for."""
        rows, members, labels, masses = self._active(np.arange(len(self.masses)))
        normals = self.made_rows(np.column_stack([rows, members]), self._rivals(rows).normals(labels))
        return PlaneSet(normals, self._offsets(rows, members, labels), rows, masses)

    def pack(self) -> PackedRows:
        """See `DualState.pack`; normals that make their points would keep the rows."""
        each = self.gaps, self.pairs, self.masses
        return PackedRows(each)

    def unpack(self, packed: PackedRows) -> None:
        self.gaps, self.pairs, self.masses = (array.copy() for array in packed.each)

    def restore(self, planes: PlaneSet) -> None:
        """See `DualState.restore`; planes that are none of this set's are left to the null plane."""
        if isinstance(planes.normals, MemberRows) and self._restored(planes, planes.normals):
            return
        # Of a single function the plane alone does not say which label its point is of.
        shifts = range(1, self.n_labels) if self.space.n_outputs == 1 else [1]
        places, members, labels = (
            np.concatenate(each)
            for each in zip(*(self._members_of(planes, shift) for shift in shifts), strict=True)
        )
        # None is taken twice.
        places, first = np.unique(places, return_index=True)
        if len(places):
            self._set(planes.blocks[places], members[first], labels[first], planes.masses[places])

    def _members_of(self, planes: PlaneSet, shift: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Which planes are of members of this set, and of which, for labels so far behind the true."""
        points, coefficients, single = self._terms(planes, shift)
        blocks = planes.blocks[single]
        labels = self._rivals(blocks).labels_of(coefficients)
        members = np.full(len(blocks), -1)
        for member in range(self.size - 1, -1, -1) if len(blocks) else ():
            made = self._points(blocks, np.full(len(blocks), member))
            # A factor may have been multiplied in and divided out.
            excess = abs(made - points) - 4 * np.finfo(made.dtype).eps * abs(made)
            largest = excess.max(axis=1)
            largest = np.ravel(largest.toarray() if sp.issparse(largest) else largest)
            members[largest <= 0] = member
        usable = np.flatnonzero((members >= 0) & (labels >= 0))
        return single[usable], members[usable], labels[usable]

    def _set(
        self, blocks: np.ndarray, members: np.ndarray, labels: np.ndarray, masses: np.ndarray
    ) -> None:
        """Give masses to members and labels of rows."""
        rows, owners = np.unique(blocks, return_inverse=True)
        self._keep(rows, self._gathered(rows, owners, members, labels, masses))

    def _restored(self, planes: PlaneSet, normals: MemberRows) -> bool:
        """Take over planes of members by their numbers, if those are the same members here."""
        rows, members = normals.which.T
        if not np.array_equal(rows, planes.blocks) or np.any(members >= self.size):
            return False
        labels = self._rivals(rows).labels_of(normals.coefficients)
        if np.any(labels < 0):
            return False
        for first in range(0, len(rows), 16 * ROWS_AT_ONCE):
            part = slice(first, first + 16 * ROWS_AT_ONCE)
            own = self.made_rows(normals.which[part], normals.coefficients[part])
            if not same_entries(own.points, normals[part].points):
                return False
        self._set(rows, members, labels, planes.masses)
        return True

    def made_rows(self, which: np.ndarray, coefficients: np.ndarray) -> MemberRows:
        """Normals of members, (n, 2) rows and numbers, which make their points when asked for."""
        return made_rows(self.term.bound, self.space, which, coefficients)

    def _terms(self, planes: PlaneSet, shift: int) -> tuple[Matrix, np.ndarray, np.ndarray]:
        """Points and coefficients of the planes that have a single point, and which planes those are."""
        normals = planes.normals
        if not isinstance(normals, TensorRows):
            normals = TensorRows.of_rows(normals, self.space.n_outputs, 0)
        single = np.flatnonzero(np.diff(normals.start) == 1)
        chosen = normals[single]
        points, coefficients = chosen.points[:, : self.space.n_features], chosen.coefficients
        if coefficients.shape[1] == 1:
            # The factor may stand with the point or in front of it.
            competitors = self._rivals(planes.blocks[single])
            wanted = competitors.normals((competitors.codes + shift) % self.n_labels)
            factor = np.divide(coefficients, wanted, out=np.zeros(wanted.shape), where=wanted != 0)
            points, coefficients = scale_rows(points, factor[:, 0]), wanted
        return points, coefficients, single


def member_points(bound: BoundOracle, rows: np.ndarray, members: np.ndarray) -> Matrix:
    """Members of rows as compiled functions take them."""
    made = floating(listed(bound).points(rows, members))
    return made if sp.issparse(made) else np.ascontiguousarray(made)


def made_rows(
    bound: BoundOracle, space: ExplicitSpace, which: np.ndarray, coefficients: np.ndarray
) -> MemberRows:
    """Normals of members of a bound oracle, (n, 2) rows and numbers, made when they are asked for."""
    return MemberRows(MemberPoints(bound, space), space.stride, which, coefficients)


@dataclass(frozen=True)
class MemberPoints:
    """Members of a bound oracle as a space takes them, its constant feature included."""

    bound: BoundOracle
    space: ExplicitSpace

    def __call__(self, which: np.ndarray) -> Matrix:
        """The points of members, (n, 2) rows and numbers."""
        made = member_points(self.bound, *which.T)
        return self.space.with_constants(made, np.ones(len(which), dtype=made.dtype))


@njit(cache=True, nogil=True)
def _worst_newcomers(
    scores, constants, codes, outputs, signs, costs, slack, grades, pairs, masses, plane_tol, newcomers,
    arrival,
):  # fmt: skip
    """The worst member of each row, if it is not held and lies above those that are; the gaps."""
    n_labels = len(outputs)
    for r in range(len(codes)):
        c, own = codes[r], min(r, grades.shape[0] - 1)
        best, covered, mean, member = 0.0, 0.0, 0.0, -1
        for m in range(scores.shape[1]):
            held = False
            for slot in range(pairs.shape[1]):
                held = held or (masses[r, slot] > 0.0 and pairs[r, slot] // n_labels == m)
            truth = signs[c] * (scores[r, m, outputs[c]] + constants[outputs[c]])
            for k in range(n_labels):
                if k == c:
                    continue
                factor, o = costs[r, k] if slack else 1.0, outputs[k]
                lead = signs[k] * (scores[r, m, o] + constants[o]) - truth
                height = costs[r, k] * grades[own, m] + factor * lead
                if held:
                    covered = height if height > covered else covered
                    for slot in range(pairs.shape[1]):
                        if pairs[r, slot] == m * n_labels + k:
                            mean += masses[r, slot] * height
                elif height > best:
                    best, member = height, m
        gap = (best if best > covered else covered) - mean
        arrival[r] = 0.0 if gap < 0.0 else gap
        newcomers[r] = member if best > covered + plane_tol + 1e-12 * (1.0 + best) else -1
