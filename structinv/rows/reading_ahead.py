"""Blocks of rows in any order, the next one read while the last one is used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain

from ..utils.matrices import Matrix
from .base import RowSource


def read_ahead(source: RowSource, blocks: Sequence[slice]) -> Iterator[tuple[slice, Matrix]]:
    """Each block with its rows. One block is read ahead by a thread.

    Parameters
    ----------
    source : RowSource
    blocks : sequence of slice
        With a start and a stop.
    """
    if len(blocks) == 0:
        return
    with ThreadPoolExecutor(1) as pool:

        def begin(block: slice | None) -> Future[Matrix] | None:
            return None if block is None else pool.submit(source.block, block.start, block.stop)

        following = begin(blocks[0])
        for block, after in zip(blocks, chain(blocks[1:], [None]), strict=True):
            assert following is not None
            rows, following = following.result(), begin(after)
            yield block, rows
