"""Prefetching of blocks: a thread reads the next one while the last one is used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain

from ..utils.matrices import Matrix
from .base import RowSource
from .checked_blocks import read


def read_ahead(source: RowSource, blocks: Sequence[Sequence[slice]]) -> Iterator[Matrix]:
    """Yield the rows of each block. A thread reads one block ahead."""
    if len(blocks) == 0:
        return
    with ThreadPoolExecutor(1) as pool:

        def begin(cuts: Sequence[slice] | None) -> Future[Matrix] | None:
            return None if cuts is None else pool.submit(read, source, cuts)

        following = begin(blocks[0])
        for after in chain(blocks[1:], [None]):
            assert following is not None
            rows, following = following.result(), begin(after)
            yield rows
