"""Base class of dual states for sequences, for functions that are linear in x."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from ..spaces import ExplicitSpace
from ..spaces.base import Element
from ..utils.matrices import ALL_ROWS, csr, short_indices
from ..utils.row_arrays import Arrays
from .base import DualState, FocusedSweeps, OutOfTime, never
from .case import Case

PRODUCTS_AT_ONCE = 100_000_000


class SequenceState(FocusedSweeps, DualState):
    """Base class of dual states with sequences as blocks and labelings as planes."""

    quick_value = True
    far_off, enough = 1.0, 0.3
    n_edits: int = 0

    def __init__(self, case: Case, rng: np.random.Generator) -> None:
        self.term = term = case.term
        self.space: ExplicitSpace = case.space
        space, bound_structure = self.space, term.bound_structure
        self.rng = rng
        self.weights = term.weights
        X = csr(term.bound.X)
        if space.intercept:
            X = csr(space.with_constants(X, np.ones(X.shape[0], dtype=X.dtype)))
        X = short_indices(X)
        self._X, self._rows = X, (X.indptr, X.indices, X.data)
        assert bound_structure.layout is not None
        self.layout = bound_structure.layout
        n_labels, barred = (
            bound_structure.n_labels,
            np.zeros((bound_structure.n_labels + 2, bound_structure.n_labels)),
        )
        if bound_structure.structure.follows_ is not None:
            barred[:-1][~bound_structure.structure.follows_] = -np.inf
        codes, costs = bound_structure.codes.astype(np.int32), bound_structure.costs(ALL_ROWS)
        self._truth = self.layout.starts, codes, costs, barred, term.weights
        self._sizes = self.layout.lengths
        self.rows = np.flatnonzero(term.weights > 0)
        self.gaps = np.zeros(bound_structure.n_blocks)
        each = (X.nnz * n_labels + X.shape[0] * n_labels**2) // max(1, bound_structure.n_blocks)
        self.rows_at_once = max(1, PRODUCTS_AT_ONCE // max(1, each))

    @abstractmethod
    def _visit(self, f: Element, order: np.ndarray, moves: bool, gaps: np.ndarray) -> np.ndarray:
        """Visit sequences and return their losses, without weights; do steps if `moves` is True."""

    @abstractmethod
    def _provide_slots(self, order: np.ndarray) -> None:
        """Provide slots for all labelings that a visit of each sequence may add."""

    @abstractmethod
    def _start_from(
        self, blocks: np.ndarray, labels: np.ndarray, edits: np.ndarray, alphas: np.ndarray
    ) -> None:
        """Start from concatenated labelings of `blocks`, which are in increasing order."""

    def _parameters(self, f: Element) -> tuple[np.ndarray, np.ndarray]:
        """Return weights and transitions of an element, as views."""
        n_labels = self._truth[2].shape[1]
        return self.space.table(f), self.space.pairwise(f).reshape(n_labels + 2, n_labels)

    def sweep(self, f: Element, out_of_time: OutOfTime = never) -> tuple[float, int]:
        self._n_visited = 0
        gap, _ = super().sweep(f, out_of_time)
        return gap, self._n_visited

    def _step(self, f: Element, order: np.ndarray, again: bool) -> None:
        self._provide_slots(order)
        self._n_visited += int(self._sizes[order].sum())
        self._visit(f, order, True, self.gaps)

    def value(self, f: Element) -> tuple[float, float]:
        found = self._visit(f, self.rows, False, np.empty(len(self.weights)))
        value = float(self.weights @ found)
        return value, value

    @abstractmethod
    def _listed(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return labelings with positive dual variables, sequence by sequence.

        They are the sequence of each, concatenated labels, edits of each label, and dual variables.
        """

    def arrays(self) -> Arrays:
        blocks, labels, edits, alphas = self._listed()
        n_listed = np.bincount(blocks, minlength=len(self._sizes))
        return {
            "gaps": self.gaps.copy(),
            "labelings.counts": n_listed,
            "labelings.alphas": alphas,
            "positions.counts": n_listed * self._sizes,
            "positions.labels": labels.astype(np.int32),
            "positions.edits": edits.astype(np.int32),
        }

    def _start(self, arrays: Arrays, f: Element) -> int:
        # True and forbidden labelings are left out.
        counts, labels = arrays["labelings.counts"], arrays["positions.labels"]
        n_labels = self.term.bound_structure.n_labels
        lengths_fit = np.array_equal(arrays["positions.counts"], counts * self._sizes)
        if lengths_fit and len(labels) and labels.min() >= 0 and labels.max() < n_labels:
            self.gaps[:] = arrays["gaps"]
            blocks = np.repeat(np.arange(len(counts)), counts)
            alphas = np.maximum(arrays["labelings.alphas"], 0.0)
            chosen = self._valid(blocks, labels, alphas)
            places = self.layout.take(blocks).rows(chosen)
            blocks, alphas = blocks[chosen], alphas[chosen]
            totals = np.bincount(blocks, alphas, len(counts))
            edits = self._valid_edits(blocks, arrays["positions.edits"][places])
            self._start_from(blocks, labels[places], edits, alphas / np.maximum(totals, 1.0)[blocks])
        return 0

    def _valid(self, blocks: np.ndarray, labels: np.ndarray, alphas: np.ndarray) -> np.ndarray:
        """Return the numbers of active, allowed and wrong labelings, sorted by example."""
        bound, layout = self.term.bound_structure, self.layout.take(blocks)
        wrong = layout.sums((labels != bound.codes[self.layout.rows(blocks)]).astype(np.int64)) > 0
        sound = wrong & (alphas > 0) & bound.structure.allows(labels, layout, bound.n_labels)
        chosen: np.ndarray = np.flatnonzero(sound)[np.argsort(blocks[sound], kind="stable")]
        return chosen

    def _valid_edits(self, blocks: np.ndarray, edits: np.ndarray) -> np.ndarray:
        """Return the valid edits of labelings, at most the allowed number.

        They are allowed by this oracle, also if they belong to another one.
        """
        found = np.zeros((len(edits), self.n_edits), dtype=np.int32)
        common = min(found.shape[1], edits.shape[1])
        if common:
            sizes = np.diff(self._rows[0])[self.layout.rows(blocks)]
            found[:, -common:] = edits[:, -common:]
            found[(found < 0) | (found > 2 * sizes[:, None])] = 0
            # A feature is edited once.
            entries = (found + 1) // 2
            repeated = (entries[:, :, None] == entries[:, None, :]) & (entries > 0)[:, :, None]
            found[np.any(np.tril(repeated, -1), axis=2)] = 0
        return found
