"""Losses of rows that are read from disk in blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ..rows import RowSource
from ..rows.reading import read, read_ahead
from ..spaces.base import Element, Space
from ..structures.bound import BoundStructure
from ..utils.matrices import ALL_ROWS, Matrix, Rows, count, ranges
from ..utils.printing import report_pass
from .objective import Term
from .planes import Planes, sum_of_planes
from .worst_case import WorstCase


@dataclass(frozen=True)
class BlockSizes:
    """Limits of memory for rows that are read in blocks.

    - `values`: approximate number of stored values of a block
    - `kept`: maximum number of stored values of rows that stay in memory between passes
    - `packed`: maximum number of bytes of packed dual variables in memory
    """

    values: int = 2**22
    kept: int = 2**25
    packed: float = np.inf


# Function of some rows and their numbers that returns their losses.
Part: TypeAlias = Callable[[Matrix, Rows], WorstCase]


class BlockwiseTerm(Term):
    """Sum of the losses of all rows of a source, with few blocks in memory at a time.

    A block is a cut (consecutive rows), or a group of strips from different parts of the rows.

    Shapes: `weights` (n_rows,), `strip_edges` (n_strips + 1,).
    """

    def __init__(
        self,
        source: RowSource,
        part: Part,
        bound_structure: BoundStructure,
        weights: np.ndarray,
        sizes: BlockSizes | None = None,
    ) -> None:
        self.sizes = BlockSizes() if sizes is None else sizes
        self.source = source
        self.part = part
        self.bound_structure = bound_structure
        self.weights = weights
        self.lower_bounds = np.broadcast_to(0.0, len(weights))
        self.cuts, self.strips = source.cuts(self.sizes.values), source.strips(self.sizes.values)
        self.strip_edges = np.array([0, *(strip.stop for strip in self.strips)])
        self.sample = self.of_rows(read(source, [slice(0, 1)]), slice(0, 1))

    planes_are_sums = True

    @property
    def n_outputs(self) -> int:
        """Number of learned functions."""
        return self.bound_structure.n_outputs

    @property
    def oracle(self) -> Any:
        """Oracle of the perturbation sets."""
        return self.sample.oracle

    @property
    def bound(self) -> Any:
        """Oracle, bound to the first row only."""
        return self.sample.bound

    @property
    def dtype(self) -> np.dtype:
        return np.result_type(self.source.dtype, np.float32)

    def of_rows(self, X: Matrix, rows: Rows) -> WorstCase:
        """Return the losses of some rows X, with their numbers among all rows."""
        if self.source.sparse:
            # `read` has checked this.
            X.has_sorted_indices = X.has_canonical_format = True
        return self.part(X, rows)

    def parts(self, groups: Sequence[np.ndarray] | None = None) -> Iterator[WorstCase]:
        """Yield the losses of each cut, or of groups of strips with increasing numbers."""
        numbers: list[Rows] = list(self.cuts)
        blocks = [[cut] for cut in self.cuts]
        if groups is not None:
            blocks = [[self.strips[number] for number in group] for group in groups]
            numbers = [self.rows_in(group) for group in groups]
        done = 0
        report_pass(done, len(self.weights))
        for rows, X in zip(numbers, read_ahead(self.source, blocks), strict=True):
            yield self.of_rows(X, rows)
            done += X.shape[0]
            report_pass(done, len(self.weights))

    def rows_in(self, strips: np.ndarray) -> np.ndarray:
        """Return the numbers of the rows in some strips."""
        numbers, _ = ranges(self.strip_edges[strips], np.diff(self.strip_edges)[strips])
        return numbers

    def validate(self, space: Space) -> None:
        self.sample.validate(space)

    def scores(self, space: Space, f: Element) -> np.ndarray:
        """Return the functions at the unperturbed rows, (n, n_outputs)."""
        return np.concatenate([part.scores(space, f) for part in self.parts()])

    def planes(self, space: Space, f: Element, blocks: Rows = ALL_ROWS) -> Planes:
        # Only consecutive rows of one block are in memory.
        if not isinstance(blocks, slice) or blocks == ALL_ROWS:
            raise ValueError(
                "blocks must be a slice of consecutive rows, because rows are read in blocks, got "
                f"{blocks!r}"
            )
        rows = slice(blocks.start, blocks.stop)
        return self.of_rows(read(self.source, [rows]), rows).planes(space, f)

    def values(self, space: Space, f: Element) -> tuple[np.ndarray, np.ndarray]:
        found = [part.values(space, f) for part in self.parts()]
        upper, attained = (np.concatenate(each) for each in zip(*found, strict=True))
        return upper, attained

    def total(self, space: Space, f: Element) -> tuple[float, float]:
        found = [part.total(space, f) for part in self.parts()]
        return sum(above for above, _ in found), sum(reached for _, reached in found)

    def plane_of_sum(self, space: Space, f: Element) -> Planes:
        one = np.ones(1)
        return sum_of_planes(space, ((part.plane_of_sum(space, f), one) for part in self.parts()))

    def portions(self) -> list[Rows]:
        return list(self.cuts)

    def rows_of(self, blocks: Rows) -> int:
        return count(blocks, len(self.weights))
