"""Default methods of structures that use only `Structure.decode`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from ..utils.matrices import Matrix
from .checked_structure import decoded
from .competitors import Competitors
from .decodings import Decoding, Separation
from .layout import Layout

if TYPE_CHECKING:
    from .base import Structure


def separate(
    structure: Structure, competitors: Competitors, violations: Any, pairwise: np.ndarray, layout: Layout
) -> Separation:
    """Return the loss-augmented argmax of each block."""
    reached = violations.gains + violations.costs
    decoding = decoded(structure, reached, pairwise, layout)
    value, truth = _against_truth(structure, reached, decoding, competitors.codes, pairwise, layout)
    highest, bound = value, decoding.upper
    if not np.array_equal(violations.upper, reached):
        above = decoded(structure, violations.upper, pairwise, layout)
        highest, bound = (
            _against_truth(structure, violations.upper, above, competitors.codes, pairwise, layout)[0],
            above.upper,
        )
    if bound is not None:
        highest = np.maximum(highest, bound - truth)
    chosen = _unless_true(structure, decoding, value > 0, competitors, layout)
    return Separation(
        chosen.labels,
        np.maximum(0.0, highest),
        levels=chosen.levels,
        fractions=chosen.fractions,
        features=chosen.features,
    )


def runner_up(
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


def _against_truth(
    structure: Structure,
    potentials: np.ndarray,
    decoding: Decoding,
    codes: np.ndarray,
    pairwise: np.ndarray,
    layout: Layout,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the score difference to the true labeling, and the true score, per block."""
    true_score = structure.score(potentials, codes, pairwise, layout)
    if decoding.fractions is None:
        score = structure.score(potentials, decoding.labels, pairwise, layout, decoding.levels)
        return score - true_score, true_score
    each = np.where(decoding.fractions > 0, potentials, 0.0) * decoding.fractions
    return layout.sums(each.sum(axis=1)) + decoding.features @ pairwise - true_score, true_score


def _scaled(factors: np.ndarray, rows: Matrix) -> Matrix:
    """Multiply each row by a factor."""
    return sp.csr_matrix(sp.diags(factors.astype(np.float64)) @ sp.csr_matrix(rows))
