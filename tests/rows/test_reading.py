"""Blocks are read ahead, and checked."""

from __future__ import annotations

import numpy as np
import pytest

from structinv.rows import RowFolder, RowSource
from structinv.rows.reading import read_ahead
from structinv.rows.sources import MatrixRows

from .cases import write


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


@pytest.mark.parametrize(
    ("changed", "row"),
    [
        ([1, 1, 3, 3, 0, 3, 1, 2], 0),
        ([0, 1, 1, 3, 0, 3, 1, 2], 0),
        ([0, 1, 3, 3, 3, 3, 1, 2], 3),
        ([0, 1, 3, 3, 3, 0, 1, 2], 3),
        ([0, 1, 3, 3, 0, 3, 2, 2], 4),
        ([0, 1, 3, 3, 0, 3, 1, 2], None),
    ],
)
def test_unsorted_or_repeated_indices_are_refused_by_the_number_of_their_row(tmp_path, changed, row):
    # Adjacent rows may end and start with the same feature, and the third row is empty.
    X = np.array([[1, 1, 0, 1], [0, 0, 0, 1], [0, 0, 0, 0], [1, 0, 0, 1], [0, 1, 1, 0]], dtype=float)
    write(tmp_path / "rows", X)
    indices = np.load(tmp_path / "rows" / "indices.npy", mmap_mode="r+")
    indices[:] = changed
    indices.flush()
    rows = RowFolder(tmp_path / "rows")
    if row is None:
        np.testing.assert_array_equal(rows.block(0, 5).toarray(), X)
        return
    with pytest.raises(ValueError, match=f"increasing indices in each row, got others in row {row}$"):
        rows.block(0, 5)
