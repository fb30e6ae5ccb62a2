r"""In-hull steps of a union: one dual variable and one point for each part.

The hull of a union is the convex hull of the hulls of its parts. So the averaged plane of a row is a sum
of planes of the parts, :math:`a = \sum_l a_l`. The plane :math:`a_l` has a dual variable
:math:`\tau_l` and a point in :math:`\tau_l` times the hull of :math:`S_l(x)`. The taus of a row fulfill
:math:`\sum_l \tau_l \le 1`.

Each part maximizes the dual objective over its plane and its own tau, with the other taus fixed. This
is slow if the taus add up to 1, or if several of them are positive, because their planes are nearly
equal. In such rows, exact pairwise steps follow: over the dual variables of the averaged planes and of
the worst members of all parts.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..utils.ascent import ascend
from ..utils.jit import njit
from ..utils.matrices import Matrix, dense, scale_rows
from .base import Hull

# If 1 minus the taus of a row is smaller than this, it counts as 0.
SMALLEST_TAU = 1e-6
# A part with tau = 0 and without a gap in a row is skipped for this number of updates.
SKIPPED_UPDATES = 4
# Fraction of a row's gap that may remain after pairwise steps, and the maximum number of these steps.
_LEAVE, _MOST_STEPS = 0.02, 50


class UnionHull(Hull):
    """In-hull steps of a two-class worst-case loss for a union of oracles.

    Shapes: `signs` (n_rows,), `weights` (n_rows,).
    """

    def __init__(
        self, parts: list[Hull], signs: np.ndarray, weights: np.ndarray, intercept: bool
    ) -> None:
        self.parts = parts
        self.signs = np.ascontiguousarray(signs, dtype=np.float64)
        self.weights = np.array(weights, dtype=np.float64)
        self.intercept = bool(intercept)
        # The tau of part l in the union is factors[l] times the part's own tau. These products add up to
        # at most 1. After an exchange, a part's own tau may exceed 1 until the next update.
        self.factors = np.ones((len(parts), len(signs)))
        self.used_taus = np.zeros(self.factors.shape)
        self.idle = np.zeros(self.factors.shape, dtype=np.int64)
        self.scratch = np.zeros(len(signs))

    @property
    def offset(self) -> float:
        return sum(part.offset for part in self.parts)

    def sweep(self, f: np.ndarray, order: np.ndarray, gaps: np.ndarray) -> None:
        """Update all parts, then take pairwise steps in rows where parts compete."""
        gaps[order] = 0.0
        for number, part in enumerate(self.parts):
            unused = 1.0 - (self.used_taus[:, order].sum(axis=0) - self.used_taus[number, order])
            idle = self.idle[number, order]
            free = (unused > SMALLEST_TAU) & (idle % SKIPPED_UPDATES == 0)
            self.idle[number, order] = idle + 1
            rows = order[free]
            self._set_factors(number, rows, np.minimum(unused[free], 1.0))
            part.sweep(f, rows, self.scratch)
            self.used_taus[number, rows] = self.factors[number, rows] * part.taus[rows]
            gaps[rows] += self.scratch[rows]
            busy = (self.used_taus[number, rows] > 0) | (self.scratch[rows] > 0)
            self.idle[number, rows[busy]] = 0
        used_taus = self.used_taus[:, order]
        is_contested = (np.count_nonzero(used_taus, axis=0) > 1) | (
            used_taus.sum(axis=0) > 1.0 - SMALLEST_TAU
        )
        rows = order[is_contested & (self.weights[order] > 0)]
        if len(rows):
            gaps[rows] = np.maximum(gaps[rows], self._exchange(f, rows))

    def _set_factors(self, number: int, rows: np.ndarray, factors: np.ndarray) -> None:
        """Set `factors` of some rows of a part, without a change of its planes."""
        changed = np.flatnonzero(factors != self.factors[number, rows])
        if len(changed):
            changed_rows = rows[changed]
            self.parts[number].rescale(
                changed_rows, factors[changed] / self.factors[number, changed_rows]
            )
            self.factors[number, changed_rows] = factors[changed]

    def _exchange(self, f: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Take pairwise steps between averaged planes and worst members; return gaps."""
        planes: list[Matrix] = []
        n_rows, absorbable = len(rows), []
        taus = np.ones((n_rows, 2 * len(self.parts)))
        before = np.zeros(taus.shape)
        for number, part in enumerate(self.parts):
            averages, corners, description = part.candidates(f, rows)
            planes += [averages, corners]
            taus[:, 2 * number] = part.taus[rows]
            before[:, 2 * number] = self.used_taus[number, rows]
            absorbable.append(description)
        after, gaps = before.copy(), np.zeros(n_rows)
        q = taus.shape[1]
        work = np.zeros((q, q)), np.full(q, q), np.zeros((3, q)), np.zeros(f.size)
        _exchange_rows(
            *_entries(planes), taus, self.signs[rows], self.weights[rows], self.intercept, f, after,
            gaps, *work,
        )  # fmt: skip
        moved = np.flatnonzero(np.any(after != before, axis=1))
        for number, part in enumerate(self.parts):
            old, remaining, steps = before[:, 2 * number], after[:, 2 * number], after[:, 2 * number + 1]
            keep = np.divide(remaining, old, out=np.zeros(n_rows), where=old > 0)
            factors = self.factors[number, rows]
            part.absorb(rows, moved, keep[moved], (steps / factors)[moved], absorbable[number])
            self.used_taus[number, rows] = factors * part.taus[rows]
            self.idle[number, rows] = 0
        return gaps

    def losses(self, f: np.ndarray) -> np.ndarray | None:
        parts = [part.losses(f) for part in self.parts]
        losses = [part for part in parts if part is not None]
        return np.max(losses, axis=0) if len(losses) == len(parts) else None

    def combination(self) -> np.ndarray:
        return np.sum([part.combination() for part in self.parts], axis=0)

    def planes(self) -> tuple[Matrix, np.ndarray]:
        """Return the sums of the planes of all parts."""
        normals, taus = zip(*map(self._planes_of, range(len(self.parts))), strict=True)
        if not all(sp.issparse(each) for each in normals):
            normals = tuple(map(dense, normals))
        return sum(normals[1:], normals[0]), np.sum(taus, axis=0)

    def _planes_of(self, number: int) -> tuple[Matrix, np.ndarray]:
        normals, taus = self.parts[number].planes()
        return scale_rows(normals, self.factors[number]), self.factors[number] * taus

    def planes_by_part(self) -> list[tuple[Matrix, np.ndarray]]:
        return [self._planes_of(number) for number in range(len(self.parts))]

    def restore(self, normals: Matrix, taus: np.ndarray) -> None:
        """Initialize the state from planes; each one is assigned to the nearest part."""
        self.restore_several(normals, taus, np.arange(len(self.signs)), len(self.signs))

    def restore_several(self, normals: Matrix, taus: np.ndarray, rows: np.ndarray, n_rows: int) -> None:
        """Initialize the state from several planes per row, each in the nearest part."""
        owner = np.full(len(rows), -1)
        repetition = _repetitions(rows)
        for number in range(int(repetition.max(initial=-1)) + 1):
            chosen = np.flatnonzero(repetition == number)
            gather = _gather(chosen, rows, n_rows)
            row_normals, row_taus = gather @ normals, gather @ taus
            distances = [_distance(copy.deepcopy(part), row_normals, row_taus) for part in self.parts]
            owner[chosen] = np.argmin(distances, axis=0)[rows[chosen]]
        for number, part in enumerate(self.parts):
            gather = _gather(np.flatnonzero(owner == number), rows, n_rows)
            self._set_factors(number, np.arange(n_rows), np.ones(n_rows))
            part.restore(gather @ normals, gather @ taus)
            self.used_taus[number] = part.taus


def _entries(planes: list[Matrix]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return row pointers, indices and data of vertically stacked matrices."""
    parts = [each if sp.issparse(each) else sp.csr_matrix(each) for each in planes]
    first = np.cumsum([0, *(part.nnz for part in parts[:-1])])
    starts = [part.indptr[:-1] + start for part, start in zip(parts, first, strict=True)]
    indptr = np.concatenate([*starts, [first[-1] + parts[-1].nnz]])
    indices = np.concatenate([part.indices for part in parts])
    return indptr, indices, np.concatenate([part.data for part in parts])


def _repetitions(rows: np.ndarray) -> np.ndarray:
    """Count, for each entry, the earlier entries with the same value."""
    order = np.argsort(rows, kind="stable")
    counts = np.empty(len(rows), dtype=np.int64)
    counts[order] = np.arange(len(rows)) - np.searchsorted(rows[order], rows[order])
    return counts


def _gather(chosen: np.ndarray, rows: np.ndarray, n_rows: int) -> Any:
    """Return the matrix that sums the chosen planes of each row."""
    return sp.csr_matrix((np.ones(len(chosen)), (rows[chosen], chosen)), shape=(n_rows, len(rows)))


def _distance(part: Hull, normals: Matrix, taus: np.ndarray) -> np.ndarray:
    """Compute the distance of planes from those that `restore` finds; modifies `part`."""
    part.restore(normals, taus)
    found, of_found = part.planes()
    rest = np.asarray(abs(found - normals).sum(axis=1)).ravel()
    return rest + np.abs(of_found - taus)


@njit(cache=True, nogil=True)
def _exchange_rows(
    indptr, indices, data, taus, signs, weights, intercept, f, alphas, gaps, gram, known, rows, spread
):  # fmt: skip
    """Take pairwise steps between the planes of each row, including the null plane.

    Updates f and alphas. Plane p of row r is row ``p n_rows + r`` of the matrix. Planes 0, 2, 4 ... are
    averaged planes times ``taus[r, p]``; those with alpha 0 are omitted. Planes 1, 3, 5 ... are worst
    members.
    """
    n_rows, q = alphas.shape
    losses, scale, before = rows[0], rows[1], rows[2]
    for r in range(n_rows):
        c, y = weights[r], signs[r]
        largest, mean = 0.0, 0.0
        for p in range(q):
            before[p] = alphas[r, p]
            scale[p] = 1.0 / taus[r, p] if p % 2 == 1 or before[p] > 0.0 else 0.0
            if scale[p] == 0.0:
                losses[p] = -np.inf
                continue
            first, last = indptr[p * n_rows + r], indptr[p * n_rows + r + 1]
            margin = 0.0
            for e in range(first, last):
                margin += data[e] * f[indices[e]]
                spread[indices[e]] = data[e]
            losses[p] = 1.0 - y * (margin * scale[p] + (f[f.size - 1] if intercept else 0.0))
            largest = losses[p] if losses[p] > largest else largest
            mean += before[p] * losses[p]
            for o in range(p + 1):
                total = 0.0
                for e in range(indptr[o * n_rows + r], indptr[o * n_rows + r + 1]):
                    total += spread[indices[e]] * data[e]
                gram[p, o] = gram[o, p] = scale[p] * scale[o] * total + (1.0 if intercept else 0.0)
            for e in range(first, last):
                spread[indices[e]] = 0.0
        gaps[r] = c * (largest - mean) if largest > mean else 0.0
        ascend(losses, gram, known, alphas[r], q, c, _LEAVE * gaps[r], _MOST_STEPS)
        for p in range(q):
            step = c * y * (alphas[r, p] - before[p])
            if step != 0.0:
                for e in range(indptr[p * n_rows + r], indptr[p * n_rows + r + 1]):
                    f[indices[e]] += step * scale[p] * data[e]
                if intercept:
                    f[f.size - 1] += step
