"""Dual state with edge marginals of unperturbed sequences, linear in x."""

from __future__ import annotations

import numpy as np

from ..spaces.base import Element
from ..utils.matrices import add_combinations, ranges
from . import case as needs
from . import flow_steps
from .case import Case
from .sequence_state import SequenceState


class FlowState(SequenceState):
    """Marginals of neighboring labels in the average labeling of each sequence.

    The dual depends on the average labeling only by these marginals. They are a flow on the edges of a
    trellis, and only edges with flow are stored. A visit finds the best labeling, and the worst one with
    flow. On every segment where both differ, it does an exact step from the worst to the best. Segments
    move independently. Garber and Meshi (2016) do one step for the whole labeling.
    """

    name = "flows"

    @staticmethod
    def refuses(case: Case) -> str:
        if reason := needs.chains(case):
            return reason
        edits = case.edits
        still = edits is not None and not edits.adds and edits.most == 0
        return "" if still else f"{case.oracle} may perturb rows"

    def __init__(self, case: Case, rng: np.random.Generator) -> None:
        super().__init__(case, rng)
        self._zeros = self._parameters(self.space.zeros())
        none = np.zeros(0, dtype=np.int64)
        self._start_from(none, none, np.zeros((0, 0), dtype=np.int64), np.zeros(0))

    def _numbers(self, labels: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return the numbers of the labelings' edges into rows, for consecutive sequences."""
        n_labels, places = self._truth[2].shape[1], rows - self.layout.starts[self.layout.owners[rows]]
        before = np.where(places == 0, n_labels, np.r_[0, labels[:-1]])
        numbers: np.ndarray = (places * (n_labels + 1) + before) * n_labels + labels
        return numbers

    def _start_from(
        self, blocks: np.ndarray, labels: np.ndarray, edits: np.ndarray, alphas: np.ndarray
    ) -> None:
        totals = np.bincount(blocks, alphas, len(self._sizes))
        # Rounding errors may raise the sum of dual variables above 1.
        alphas = alphas / np.maximum(totals, 1.0)[blocks]
        left = np.maximum(1.0 - totals, 0.0)
        layout, own = self.layout.take(blocks), np.arange(self.layout.n_rows)
        rows = self.layout.rows(blocks)
        edges = np.r_[self._numbers(self._truth[1].astype(np.int64), own), self._numbers(labels, rows)]
        flow = np.r_[left[self.layout.owners], alphas[layout.owners]]
        owners = np.r_[self.layout.owners, blocks[layout.owners]]
        order = np.lexsort((edges, owners))
        edges, flow, owners = edges[order], flow[order], owners[order]
        new = np.r_[True, (edges[1:] != edges[:-1]) | (owners[1:] != owners[:-1])]
        flow = np.add.reduceat(flow, np.flatnonzero(new))
        edges, owners = edges[new][flow > 0], owners[new][flow > 0]
        used = np.bincount(owners, minlength=len(self._sizes))
        self._stored = np.r_[0, np.cumsum(used)], used, edges, flow[flow > 0]

    def _used(self) -> tuple[np.ndarray, ...]:
        """Return slot, sequence, row, previous label and label of each edge with flow."""
        first, used, edges, _ = self._stored
        slots, blocks = ranges(first[:-1], used)
        n_labels = self._truth[2].shape[1]
        rest, label = np.divmod(edges[slots], n_labels)
        place, before = np.divmod(rest, n_labels + 1)
        return slots, blocks, self.layout.starts[blocks] + place, before, label

    @property
    def offset(self) -> float:
        slots, blocks, rows, _, labels = self._used()
        return float((self.weights[blocks] * self._stored[3][slots]) @ self._truth[2][rows, labels])

    def _visit(self, f: Element, order: np.ndarray, moves: bool, gaps: np.ndarray) -> np.ndarray:
        losses = np.zeros(len(self.weights))
        longest = int(self._sizes[order].max(initial=1))
        room = flow_steps.workspace(longest, self._truth[2].shape[1])
        flow_steps.sweep(
            order, moves, self._rows, self._truth, self._stored, self._parameters(f), self._zeros, room,
            gaps, losses,
        )  # fmt: skip
        return losses

    def _provide_slots(self, order: np.ndarray) -> None:
        first, used, edges, flow = self._stored
        # A visit adds the edges of one labeling at most.
        if np.all(np.diff(first)[order] - used[order] >= self._sizes[order]):
            return
        # For all sequences at once, because the others will need more slots soon.
        room = np.where(self.weights > 0, used + used // 2 + 2 * self._sizes, used)
        starts = np.r_[0, np.cumsum(room)]
        others = np.zeros(starts[-1], dtype=np.int64), np.zeros(starts[-1])
        old, new = ranges(first[:-1], used)[0], ranges(starts[:-1], used)[0]
        others[0][new], others[1][new] = edges[old], flow[old]
        self._stored = starts, used, *others

    def combination(self) -> Element:
        f, (slots, blocks, rows, before, labels) = self.space.zeros(), self._used()
        table, links = self._parameters(f)
        amounts, codes = self.weights[blocks] * self._stored[3][slots], self._truth[1]
        coefficients, n_labels = np.zeros((self.layout.n_rows, table.shape[1])), table.shape[1]
        true_before = np.where(before == n_labels, n_labels, codes[rows - 1])
        own, wrong = codes[rows], labels != codes[rows]
        np.add.at(coefficients, (rows[wrong], own[wrong]), amounts[wrong])
        np.subtract.at(coefficients, (rows[wrong], labels[wrong]), amounts[wrong])
        add_combinations(self._X, coefficients, table)
        moved = wrong | (before != true_before)
        np.add.at(links, (true_before[moved], own[moved]), amounts[moved])
        np.subtract.at(links, (before[moved], labels[moved]), amounts[moved])
        last = wrong & (rows + 1 == self.layout.starts[blocks + 1])
        np.add.at(links[n_labels + 1], own[last], amounts[last])
        np.subtract.at(links[n_labels + 1], labels[last], amounts[last])
        return f

    def _listed(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        # Wrong labelings whose average, with the true ones, has these marginals. Each labeling takes all
        # the flow of an edge. The last one takes one edge of each position.
        used, sizes = self._stored[1], self._sizes
        most = used - sizes + 1
        labels = np.zeros(int(most @ sizes), dtype=np.int32)
        alphas, n_labels = np.zeros(int(most.sum())), self._truth[2].shape[1]
        room = flow_steps.workspace(int(sizes.max(initial=1)), n_labels)
        flow_steps.split(self.layout.starts, self._truth[1], self._stored, room, labels, alphas)
        chosen = np.flatnonzero(alphas)
        blocks = np.repeat(np.arange(len(sizes)), most)
        labels = labels[self.layout.take(blocks).rows(chosen)]
        return blocks[chosen], labels, np.zeros((len(labels), 0), dtype=np.int32), alphas[chosen]
