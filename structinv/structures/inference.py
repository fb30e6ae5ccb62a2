"""Inference with unknown bounds, and defaults that use only `decode`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from ..utils.matrices import Matrix
from .competitors import Competitors
from .decodings import Decoding, Layout
from .third_party import checked

if TYPE_CHECKING:
    from .base import Structure


def decoded(
    structure: Structure, potentials: np.ndarray, pairwise: np.ndarray, layout: Layout
) -> Decoding:
    """Call ``structure.decode(potentials, pairwise, layout)``.

    Infinite potentials stand for unknown bounds. The structure receives finite potentials instead, and
    `upper` is infinite for such examples.
    """
    finite, unbounded = without_infinities(potentials, layout)
    decoding = checked(structure).decode(finite, pairwise, layout)
    if unbounded is None:
        return decoding
    upper = decoding.upper
    if upper is None:
        upper = structure.score(finite, decoding.labels, pairwise, layout, decoding.levels)
    return replace(decoding, upper=np.where(unbounded, np.inf, upper))


def runner_up(
    structure: Structure, potentials: np.ndarray, codes: np.ndarray, pairwise: np.ndarray, layout: Layout
) -> Decoding:
    """Call ``structure.runner_up(...)`` and always return a bound, as in `decoded`."""
    finite, unbounded = without_infinities(potentials, layout)
    decoding = checked(structure).runner_up(finite, codes, pairwise, layout)
    upper = decoding.upper
    if upper is None:
        upper = structure.score(finite, decoding.labels, pairwise, layout, decoding.levels)
    if unbounded is not None:
        # Minus infinity means that no other labeling exists.
        upper = np.where(unbounded & (upper > -np.inf), np.inf, upper)
    return Decoding(decoding.labels, upper, decoding.levels)


def without_infinities(potentials: np.ndarray, layout: Layout) -> tuple[np.ndarray, np.ndarray | None]:
    """Replace infinite potentials by 0, and mark the examples that had any.

    The second return value has shape (n_blocks,) and dtype bool. It is omitted (None) if all potentials
    are below infinity.
    """
    if np.max(potentials, initial=-np.inf) != np.inf:
        return potentials, None
    known = potentials < np.inf
    rows = ~np.all(known.reshape(len(known), -1), axis=1)
    return np.where(known, potentials, 0.0), layout.sums(rows.astype(np.int64)) > 0


def default_separate(
    structure: Structure, competitors: Competitors, violations: Any, pairwise: np.ndarray, layout: Layout
) -> Decoding:
    """Return the loss-augmented argmax of each block."""
    reached, codes = violations.gains + violations.costs, competitors.codes
    decoding = decoded(structure, reached, pairwise, layout)
    truth = structure.score(reached, codes, pairwise, layout)
    value = score_of(structure, reached, decoding, pairwise, layout) - truth
    highest, above = value, decoding
    if not np.array_equal(violations.upper, reached):
        above = decoded(structure, violations.upper, pairwise, layout)
        own = structure.score(violations.upper, codes, pairwise, layout)
        highest = score_of(structure, violations.upper, above, pairwise, layout) - own
    if above.upper is not None:
        highest = np.maximum(highest, above.upper - truth)
    chosen = _unless_true(structure, decoding, value > 0, competitors, layout)
    return replace(chosen, upper=np.maximum(0.0, highest))


def default_runner_up(
    structure: Structure, potentials: np.ndarray, codes: np.ndarray, pairwise: np.ndarray, layout: Layout
) -> Decoding:
    """Return the best other labeling: each row in turn is forced to differ."""
    sizes, owners = layout.lengths, layout.owners
    best, highest = codes.copy(), np.full(len(sizes), -np.inf)
    bound, levels = highest.copy(), np.zeros(len(codes), dtype=np.int64)
    for place in range(int(sizes.max(initial=0))):
        forced = (layout.starts[:-1] + place)[place < sizes]
        barred = potentials.copy()
        barred[forced, codes[forced]] = -np.inf
        decoding = decoded(structure, barred, pairwise, layout)
        value = structure.score(barred, decoding.labels, pairwise, layout, decoding.levels)
        value[place >= sizes] = -np.inf
        better = value > highest
        best = np.where(better[owners], decoding.labels, best)
        if decoding.levels is not None:
            levels = np.where(better[owners], decoding.levels, levels)
        highest = np.where(better, value, highest)
        above = value if decoding.upper is None else decoding.upper
        bound = np.maximum(bound, np.where(place < sizes, above, -np.inf))
    return Decoding(best, bound, None if potentials.ndim == 2 else levels)


def _unless_true(
    structure: Structure, decoding: Decoding, wins: np.ndarray, competitors: Competitors, layout: Layout
) -> Decoding:
    """Return the decoding for examples with a positive loss (`wins`), and the true labels for others."""
    rows = wins[layout.owners]
    labels = np.where(rows, decoding.labels, competitors.codes)
    if decoding.fractions is None:
        levels = None if decoding.levels is None else np.where(rows, decoding.levels, 0)
        return Decoding(labels, levels=levels)
    fractions = np.where(
        rows[:, None], decoding.fractions, np.eye(competitors.n_labels)[competitors.codes]
    )
    true = structure.features(competitors.codes, layout, competitors.n_labels)
    features = _scaled(wins, decoding.features) + _scaled(~wins, true)
    return Decoding(labels, fractions=fractions, features=features)


def score_of(
    structure: Structure,
    potentials: np.ndarray,
    decoding: Decoding,
    pairwise: np.ndarray,
    layout: Layout,
) -> np.ndarray:
    """Return the score of each example's labeling, whole or fractional."""
    if decoding.fractions is None:
        return structure.score(potentials, decoding.labels, pairwise, layout, decoding.levels)
    each = np.where(decoding.fractions > 0, potentials, 0.0) * decoding.fractions
    scores: np.ndarray = layout.sums(each.sum(axis=1)) + decoding.features @ pairwise
    return scores


def _scaled(factors: np.ndarray, rows: Matrix) -> Matrix:
    """Multiply each row by a factor."""
    return sp.csr_matrix(sp.diags(factors.astype(np.float64)) @ sp.csr_matrix(rows))


# Limit of the run time of dynamic programs over the rows and the number of wrong ones.
MOST_STEPS = 2e10
MOST_CALLS = 60
# Largest rounding error below an integer count.
NEARLY = 1e-9


def default_most_wrong(
    structure: Structure,
    potentials: np.ndarray,
    codes: np.ndarray,
    thresholds: np.ndarray,
    pairwise: np.ndarray,
    layout: Layout,
) -> np.ndarray:
    """Bound the number of rows that differ from the codes in a sufficient labeling.

    This is the default of `Structure.most_wrong`, which describes the parameters.
    """
    # All rows may be wrong in an example with an infinite bound.
    potentials, unbounded = without_infinities(potentials, layout)
    known = np.arange(len(layout)) if unbounded is None else np.flatnonzero(~unbounded)
    counts, unknown = layout.lengths.astype(np.int64), np.zeros(len(layout), dtype=bool)
    # Examples of similar lengths share a call: the result has one column per row of the longest.
    lengths = np.frexp(layout.lengths[known])[1]
    for length in np.unique(lengths):
        blocks = known[lengths == length]
        rows, part = layout.rows(blocks), layout.take(blocks)
        scores = _scores_by_wrong(structure, potentials[rows], codes[rows], pairwise, part)
        if scores is None:
            unknown[blocks] = True
            continue
        enough = scores >= thresholds[blocks, None]
        last = scores.shape[1] - 1 - np.argmax(enough[:, ::-1], axis=1)
        counts[blocks] = np.where(enough.any(axis=1), last, 0)
        unknown[blocks] = np.all(scores == np.inf, axis=1)
    if np.any(unknown):
        blocks = np.flatnonzero(unknown)
        rows, part = layout.rows(blocks), layout.take(blocks)
        counts[blocks] = _most_wrong_by_decoding(
            structure, potentials[rows], codes[rows], thresholds[blocks], pairwise, part
        )
    return counts


def _scores_by_wrong(
    structure: Structure, potentials: np.ndarray, codes: np.ndarray, pairwise: np.ndarray, layout: Layout
) -> np.ndarray | None:
    """Return ``structure.best_by_wrong(...)``, or None if it would take too long."""
    lengths = layout.lengths.astype(np.float64)
    if np.sum(lengths**2) * potentials[0].size * potentials.shape[1] > MOST_STEPS:
        return None
    return checked(structure).best_by_wrong(potentials, codes, pairwise, layout)


def _most_wrong_by_decoding(
    structure: Structure,
    potentials: np.ndarray,
    codes: np.ndarray,
    thresholds: np.ndarray,
    pairwise: np.ndarray,
    layout: Layout,
) -> np.ndarray:
    """Compute the bound of `Structure.most_wrong` by `decode`.

    Each wrong row adds a price p > 0. `decode` then maximizes the score plus p times the number of wrong
    rows, and ``(maximum - threshold) / p`` bounds this number for any p. At the best price, a labeling
    with a sufficient score and one without have the same value.
    """
    free = np.zeros(len(layout))
    score, count, value = _at_prices(structure, potentials, codes, free, pairwise, layout)
    bounds = np.where(value < thresholds, 0.0, layout.lengths.astype(np.float64))
    # Score minus threshold, and number of wrong rows. `excess_in` and `n_wrong_in` belong to the
    # sufficient labeling with most wrong rows. `excess_out` and `n_wrong_out` belong to the last
    # insufficient one.
    excess_in, n_wrong_in = score - thresholds, count
    excess_out, n_wrong_out = np.full(len(layout), -np.inf), layout.lengths.astype(np.float64)
    prices = np.maximum(excess_in, 1e-6 * (1.0 + np.abs(score)))
    is_open = (value >= thresholds) & (np.floor(bounds + NEARLY) > count)
    for _ in range(MOST_CALLS):
        if not np.any(is_open):
            break
        score, count, value = _at_prices(structure, potentials, codes, prices, pairwise, layout)
        excess = score - thresholds
        bounds = np.where(is_open, np.minimum(bounds, (value - thresholds) / prices), bounds)
        enough = excess >= 0
        more = enough & (count > n_wrong_in)
        excess_in, n_wrong_in = np.where(more, excess, excess_in), np.where(more, count, n_wrong_in)
        excess_out = np.where(enough, excess_out, excess)
        n_wrong_out = np.where(enough, n_wrong_out, count)
        rise = np.where(n_wrong_out > n_wrong_in, n_wrong_out - n_wrong_in, 1.0)
        between = np.divide(
            excess_in - excess_out, rise, out=4.0 * prices, where=np.isfinite(excess_out)
        )
        moved = (between > 0) & (np.abs(between - prices) > NEARLY * prices)
        is_open &= (np.floor(bounds + NEARLY) > n_wrong_in) & moved
        prices = np.where(is_open, between, prices)
    return np.floor(bounds + NEARLY).astype(np.int64)


def _at_prices(
    structure: Structure,
    potentials: np.ndarray,
    codes: np.ndarray,
    prices: np.ndarray,
    pairwise: np.ndarray,
    layout: Layout,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return scores, counts and bounds of the best labelings at one price per block."""
    raised = potentials.copy()
    true = np.arange(len(codes)), codes
    true_potentials = raised[true].copy()
    raised += np.repeat(prices, layout.lengths).reshape(-1, *[1] * (raised.ndim - 1))
    raised[true] = true_potentials
    decoding = decoded(structure, raised, pairwise, layout)
    count = layout.sums((decoding.labels != codes).astype(np.float64))
    score = structure.score(potentials, decoding.labels, pairwise, layout, decoding.levels)
    value = score + prices * count
    return score, count, value if decoding.upper is None else np.maximum(value, decoding.upper)
