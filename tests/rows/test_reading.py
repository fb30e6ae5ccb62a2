"""Blocks are read ahead."""

from __future__ import annotations

import numpy as np
import pytest

from structinv.rows import RowSource
from structinv.rows.reading import read_ahead
from structinv.rows.sources import MatrixRows


def test_reading_ahead_keeps_the_order_and_passes_errors_on():
    rows = MatrixRows(np.arange(10.0)[:, None])
    blocks = [[slice(4, 6)], [slice(0, 2), slice(8, 9)], [slice(6, 8)]]
    found = [part.ravel().tolist() for part in read_ahead(rows, blocks)]
    assert found == [[4.0, 5.0], [0.0, 1.0, 8.0], [6.0, 7.0]]
    assert list(read_ahead(rows, [])) == []

    class Fails(RowSource):
        def block(self, start, stop):
            raise OSError(f"rows {start} to {stop - 1} are gone")

        def edges(self, most_values):
            return np.array([0, 5, 10])

    with pytest.raises(OSError, match="rows 4 to 5 are gone"):
        list(read_ahead(Fails(), blocks))
