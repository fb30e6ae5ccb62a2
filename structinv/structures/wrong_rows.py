"""How many positions can be wrong in a labeling that scores enough."""

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
    pairwise: np.ndarray,
    layout: Layout,
) -> np.ndarray:
    """Bound how many rows differ from the codes in a labeling that scores enough.

    This is the default of `Structure.most_wrong`, which describes the parameters.
    """
    # Where a bound is infinite, all rows may be wrong.
    potentials, unbounded = without_infinities(potentials, layout)
    known = np.arange(len(layout)) if unbounded is None else np.flatnonzero(~unbounded)
    counts, unknown = layout.lengths.astype(np.int64), np.zeros(len(layout), dtype=bool)
    # Together those of about one length: answers are as wide as the longest.
    lengths = np.frexp(layout.lengths[known])[1]
    for length in np.unique(lengths):
        blocks = known[lengths == length]
        rows, part = layout.rows(blocks), layout.take(blocks)
        heights = _heights(structure, potentials[rows], codes[rows], pairwise, part)
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
            structure, potentials[rows], codes[rows], floors[blocks], pairwise, part
        )
    return counts


def _heights(
    structure: Structure, potentials: np.ndarray, codes: np.ndarray, pairwise: np.ndarray, layout: Layout
) -> np.ndarray | None:
    """``structure.best_by_wrong(...)``; None where it would take too long."""
    sizes = layout.lengths.astype(np.float64)
    if np.sum(sizes**2) * potentials[0].size * potentials.shape[1] > MOST_STEPS:
        return None
    return best_by_wrong(structure, potentials, codes, pairwise, layout)


def _most_wrong_by_decoding(
    structure: Structure,
    potentials: np.ndarray,
    codes: np.ndarray,
    floors: np.ndarray,
    pairwise: np.ndarray,
    layout: Layout,
) -> np.ndarray:
    """The bound of `Structure.most_wrong` by `decode`.

    With a price p of a row that differs, `decode` maximizes the score plus p times their number, and
    ``(maximum - floor) / p`` bounds that number for any p. The best price lies where the labelings
    found change from such as score enough to such as do not.
    """
    none = np.zeros(len(layout))
    score, count, value = _at_prices(structure, potentials, codes, none, pairwise, layout)
    bounds = np.where(value < floors, 0.0, layout.lengths.astype(np.float64))
    # Scores above the floors, and counts: of the labeling with most rows that differ among those
    # that score enough, and of the last one that does not.
    above, fewest = score - floors, count
    below, most = np.full(len(layout), -np.inf), layout.lengths.astype(np.float64)
    prices = np.maximum(above, 1e-6 * (1.0 + np.abs(score)))
    still = (value >= floors) & (np.floor(bounds + NEARLY) > count)
    for _ in range(MOST_CALLS):
        if not np.any(still):
            break
        score, count, value = _at_prices(structure, potentials, codes, prices, pairwise, layout)
        height = score - floors
        bounds = np.where(still, np.minimum(bounds, (value - floors) / prices), bounds)
        enough = height >= 0
        more = enough & (count > fewest)
        above, fewest = np.where(more, height, above), np.where(more, count, fewest)
        below, most = np.where(enough, below, height), np.where(enough, most, count)
        rise = np.where(most > fewest, most - fewest, 1.0)
        between = np.divide(above - below, rise, out=4.0 * prices, where=np.isfinite(below))
        moved = (between > 0) & (np.abs(between - prices) > NEARLY * prices)
        still &= (np.floor(bounds + NEARLY) > fewest) & moved
        prices = np.where(still, between, prices)
    return np.floor(bounds + NEARLY).astype(np.int64)


def _at_prices(
    structure: Structure,
    potentials: np.ndarray,
    codes: np.ndarray,
    prices: np.ndarray,
    pairwise: np.ndarray,
    layout: Layout,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The scores, counts and bounds of the best labelings at a price for each block."""
    raised = potentials.copy()
    own = np.arange(len(codes)), codes
    kept = raised[own].copy()
    raised += np.repeat(prices, layout.lengths).reshape(-1, *[1] * (raised.ndim - 1))
    raised[own] = kept
    found = decoded(structure, raised, pairwise, layout)
    count = layout.sums((found.labels != codes).astype(np.float64))
    score = structure.score(potentials, found.labels, pairwise, layout, found.levels)
    value = score + prices * count
    return score, count, value if found.upper is None else np.maximum(value, found.upper)
