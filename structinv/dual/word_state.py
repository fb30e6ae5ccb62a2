"""Dual state of the two-class hinge loss for rescaled or removed words."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ..spaces.base import Element
from ..utils.matrices import csr_arrays, longest_row
from ..utils.row_arrays import Arrays
from . import case as needs
from .base import DualState
from .case import Case
from .row_state import HingeState
from .word_steps import add_points, listed, losses_of_units, sweep_words

# Relative excess of a limit that is due to rounding errors.
ROUNDING = 1e-12


class WordState(HingeState):
    r"""Dual variables of the hinge loss for rescaled or removed words.

    .. math:: w = \sum_i c_i y_i\, x_i \circ (\tau_i + \delta_i), \quad
       \sum_j n_{ij} \max\Bigl(\frac{-\delta_{ij}}{1-l}, \frac{\delta_{ij}}{u-1}\Bigr)
       \le K \tau_i .

    A word has :math:`n_{ij}` units, 1 by default: each edit rescales it by an equal part. Rows without
    ``edits.changed[i]`` have no deviations.

    Shapes: `delta` (nnz,), `mu` (n,), the K-th largest gain of each row in its last visit.
    """

    name = "words"
    quick_value = False

    def __init__(self, case: Case, rng: np.random.Generator) -> None:
        self.edits = edits = case.edits
        super().__init__(case, rng, edits.rows)
        # The oracle of words with several units has more than losses to compute.
        self.quick_value = len(edits.units) > 0
        self.delta = np.zeros(self.X.nnz, dtype=self.X.dtype)
        self.mu = np.zeros(self.X.shape[0])
        self.entries = csr_arrays(self.X)
        # Number of gains of the row with most of them: every word has one per unit, up to K.
        longest = longest_row(self.X.indptr)
        if len(edits.units):
            ends = np.append(0, np.cumsum(np.minimum(edits.units, edits.max_changes)))
            longest = max(longest, longest_row(ends[self.X.indptr]))
        self.width = longest + 1
        self.moves = edits.moves(self.width, edits.changed)
        self.workspace = (
            listed(self.width, self.moves.drop, self.moves.grow),
            np.empty((3, self.width)),
            np.empty(self.width, dtype=np.int64),
        )

    @staticmethod
    def refuses(case: Case) -> str:
        return needs.hinge_of_rows(case) or needs.rescales_words(case)

    def combination(self) -> Element:
        rates = self.losses.weights * self.losses.signs
        return deviating_combination(self.X, self.delta, self.taus, rates, self.losses.intercept)

    def _step(self, f: Element, order: np.ndarray, again: bool) -> None:
        sweep_words(
            self.entries, self.edits.units, self.losses, self.moves, self.delta, self.taus, self.mu, f,
            order, self.gaps, *self.workspace,
        )  # fmt: skip

    def arrays(self) -> Arrays:
        # Few deviations are nonzero.
        words = listed_deviations(self.X.indptr, self.delta)
        return {**super().arrays(), "mu": self.mu.astype(np.float32), **words}

    def _start(self, arrays: Arrays, f: Element) -> int:
        super()._start(arrays, f)
        self.mu[:] = arrays["mu"]
        most, drop, grow, changed = self.moves
        budgets = most * self.taus * changed
        units = self.edits.units if len(self.edits.units) else 1
        self.delta[:], _ = feasible_deviations(
            arrays, self.X.indptr, self.taus, budgets, drop, grow, units
        )
        return 0

    def value(self, f: Element) -> tuple[float, float]:
        if not self.quick_value:
            return DualState.value(self, f)
        values, rows = np.empty(len(self.mu)), (self.entries, self.edits.units, self.losses, self.moves)
        losses_of_units(*rows, f, self.mu, values, self.workspace[1])
        value = float(self.losses.weights @ values)
        return value, value


def deviating_combination(
    X: sp.csr_matrix, delta: np.ndarray, taus: np.ndarray, rates: np.ndarray, intercept: bool
) -> np.ndarray:
    """Return the sum over all rows of ``rates[i]`` times the averaged point of row i.

    The averaged point of row i is its data times ``taus[i] + delta``.
    """
    f = np.zeros(X.shape[1] + intercept)
    add_points(csr_arrays(X), delta, taus, rates, f)
    if intercept:
        f[-1] = rates @ taus
    return f


def listed_deviations(indptr: np.ndarray, delta: np.ndarray) -> Arrays:
    """Return the nonzero deviations of the entries of CSR rows, as one list per row."""
    changed = np.flatnonzero(delta != 0)
    counts = np.diff(np.searchsorted(changed, indptr))
    places = changed - np.repeat(indptr[:-1], counts)
    return {
        "words.counts": counts.astype(np.int32),
        "words.places": places.astype(np.uint16 if np.all(places < 2**16) else np.int32),
        "words.deviations": delta[changed],
    }


def feasible_deviations(
    arrays: Arrays,
    indptr: np.ndarray,
    taus: np.ndarray,
    budgets: np.ndarray,
    drop: float,
    grow: float,
    units: np.ndarray | int = 1,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the deviation of each entry, and the used budget of each row.

    The deviations of row i are between ``-drop taus[i]`` and ``grow taus[i]``, and an entry at a limit
    uses ``units`` edits. Deviations that exceed the budget in total are scaled down.
    """
    counts = arrays["words.counts"]
    lengths, owners = np.diff(indptr), np.repeat(np.arange(len(counts)), counts)
    places, delta = arrays["words.places"].astype(np.int64), np.zeros(indptr[-1])
    known = np.flatnonzero((places >= 0) & (places < lengths[owners]))
    delta[indptr[owners[known]] + places[known]] = arrays["words.deviations"][known]
    return shrunk(delta, lengths, taus, budgets, drop, grow, units)


def shrunk(
    delta: np.ndarray,
    lengths: np.ndarray,
    taus: np.ndarray,
    budgets: np.ndarray,
    drop: float,
    grow: float,
    units: np.ndarray | int = 1,
) -> tuple[np.ndarray, np.ndarray]:
    """Return feasible deviations for lists of given lengths, and the used budgets."""
    owners = np.repeat(np.arange(len(lengths)), lengths)
    # Limits with rounding errors leave feasible deviations unchanged.
    limits = (1.0 + ROUNDING) * taus
    delta = np.clip(delta, -drop * limits[owners], grow * limits[owners])
    largest = np.where(delta < 0, drop, grow)
    used = units * np.divide(np.abs(delta), largest, out=np.zeros(len(delta)), where=delta != 0)
    spent = np.bincount(owners, used, len(lengths))
    exceeds = spent > (1.0 + ROUNDING) * budgets
    factor = np.divide(budgets, spent, out=np.ones(len(lengths)), where=exceeds)
    return delta * factor[owners], spent * factor
