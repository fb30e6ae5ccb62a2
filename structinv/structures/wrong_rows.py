"""How many positions can be wrong in a labelling that scores enough."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .checked_structure import best_by_wrong, decoded, without_infinities
from .layout import Layout

if TYPE_CHECKING:
    from .base import Structure

# Steps of programs over the rows and the number of those that differ; more take too long.
MOST_STEPS = 2e10
MOST_CALLS = 60
# How near a count must be to a whole number from below to be taken for it.
NEARLY = 1e-9


def most_wrong(
    structure: Structure,
    potentials: np.ndarray,
    codes: np.ndarray,
    floors: np.ndarray,
    extra: np.ndarray,
    layout: Layout,
) -> np.ndarray:
    """See `Structure.most_wrong`."""
    # Where a bound is infinite, all rows may be wrong.
    potentials, unbounded = without_infinities(potentials, layout)
    known = np.arange(len(layout)) if unbounded is None else np.flatnonzero(~unbounded)
    counts, unknown = layout.sizes.astype(np.int64), np.zeros(len(layout), dtype=bool)
    # Together those of about one length: answers are as wide as the longest.
    lengths = np.frexp(layout.sizes[known])[1]
    for length in np.unique(lengths):
        blocks = known[lengths == length]
        rows, part = layout.rows(blocks), layout.take(blocks)
        heights = _heights(structure, potentials[rows], codes[rows], extra, part)
        if heights is None:
            unknown[blocks] = True
            continue
        enough = heights >= floors[blocks, None]
        last = heights.shape[1] - 1 - np.argmax(enough[:, ::-1], axis=1)
        counts[blocks] = np.where(enough.any(axis=1), last, 0)
        unknown[blocks] = np.all(heights == np.inf, axis=1)
    if np.any(unknown):
        blocks = np.flatnonzero(unknown)
        rows, part = layout.rows(blocks), layout.take(blocks)
        counts[blocks] = _most_wrong_by_decoding(
            structure, potentials[rows], codes[rows], floors[blocks], extra, part
        )
    return counts


def _heights(
    structure: Structure, potentials: np.ndarray, codes: np.ndarray, extra: np.ndarray, layout: Layout
) -> np.ndarray | None:
    """``structure.best_by_wrong(...)``; None where it would take too long."""
    sizes = layout.sizes.astype(np.float64)
    if np.sum(sizes**2) * potentials[0].size * potentials.shape[1] > MOST_STEPS:
        return None
    return best_by_wrong(structure, potentials, codes, extra, layout)


def _most_wrong_by_decoding(
    structure: Structure,
    potentials: np.ndarray,
    codes: np.ndarray,
    floors: np.ndarray,
    extra: np.ndarray,
    layout: Layout,
) -> np.ndarray:
    """The bound of `Structure.most_wrong` by `decode`.

    With a price p of a row that differs, `decode` maximizes the score plus p times their number, and
    ``(maximum - floor) / p`` bounds that number for any p. The best price lies where the labellings
    found change from such as score enough to such as do not.
    """
    search = _Search(structure, extra)
    search.start(potentials, codes, floors, layout)
    for _ in range(MOST_CALLS):
        if not search.step():
            break
    return np.floor(search.bounds + NEARLY).astype(np.int64)


class _Search:
    """The prices of some blocks, and the best bounds so far."""

    def __init__(self, structure: Structure, extra: np.ndarray) -> None:
        self.structure = structure
        self.extra = extra

    def start(
        self, potentials: np.ndarray, codes: np.ndarray, floors: np.ndarray, layout: Layout
    ) -> None:
        """Ask without a price: of labellings that score enough the one that scores highest."""
        self.potentials, self.codes, self.floors, self.layout = potentials, codes, floors, layout
        self.bounds = layout.sizes.astype(np.float64)
        none = np.zeros(len(layout))
        score, count, value = self._ask(none)
        self.bounds[value < floors] = 0.0
        # Scores above the floors, and counts: of the labelling with most rows that differ among those
        # that score enough, and of the last one that does not.
        self.above, self.fewest = score - floors, count
        self.below, self.most = np.full(len(layout), -np.inf), layout.sizes.astype(np.float64)
        self.prices = np.maximum(self.above, 1e-6 * (1.0 + np.abs(score)))
        self.open = (value >= floors) & (np.floor(self.bounds + NEARLY) > count)

    def step(self) -> bool:
        """Try other prices where they may help; whether they still may."""
        if not np.any(self.open):
            return False
        score, count, value = self._ask(self.prices)
        height = score - self.floors
        found = (value - self.floors) / self.prices
        self.bounds = np.where(self.open, np.minimum(self.bounds, found), self.bounds)
        enough = height >= 0
        more = enough & (count > self.fewest)
        self.above, self.fewest = np.where(more, height, self.above), np.where(more, count, self.fewest)
        self.below, self.most = np.where(enough, self.below, height), np.where(enough, self.most, count)
        known = np.isfinite(self.below)
        rise = np.where(self.most > self.fewest, self.most - self.fewest, 1.0)
        between = np.divide(self.above - self.below, rise, out=4.0 * self.prices, where=known)
        moved = (between > 0) & (np.abs(between - self.prices) > NEARLY * self.prices)
        self.open &= (np.floor(self.bounds + NEARLY) > self.fewest) & moved
        self.prices = np.where(self.open, between, self.prices)
        return True

    def _ask(self, prices: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The scores, counts and bounds of the best labellings at a price for each block."""
        price = np.repeat(prices, self.layout.sizes)
        raised = self.potentials.copy()
        own = np.arange(len(self.codes)), self.codes
        kept = raised[own].copy()
        raised += price.reshape(-1, *[1] * (raised.ndim - 1))
        raised[own] = kept
        found = decoded(self.structure, raised, self.extra, self.layout)
        count = self.layout.sums((found.labels != self.codes).astype(np.float64))
        score = self.structure.score(
            self.potentials, found.labels, self.extra, self.layout, found.levels
        )
        value = score + prices * count
        return score, count, value if found.upper is None else np.maximum(value, found.upper)
