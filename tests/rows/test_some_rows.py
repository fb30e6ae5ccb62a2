"""Selected rows of a source that is read in blocks."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp

from structinv.datasets import make_mail_like
from structinv.estimators.inputs import block_sizes
from structinv.rows import RowFolder, RowWriter, SomeRows
from structinv.rows.sources import MatrixRows
from structinv.terms.blockwise_term import BlockSizes

SMALL = 2000


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(BlockSizes, "values", SMALL)
    monkeypatch.setattr(block_sizes, "__defaults__", (BlockSizes(values=SMALL),))


@pytest.fixture(scope="module")
def mail():
    X, y = make_mail_like(240, 100, random_state=0)
    X = X.astype(float)
    X.sort_indices()
    return X, y


@pytest.mark.parametrize("form", [sp.csr_matrix, lambda X: X.toarray()])
@pytest.mark.parametrize(
    "numbers", [[3, 4, 5], [0, 7, 7, 239], range(240), np.arange(240) % 7 == 0], ids=str
)
def test_blocks_together_are_the_rows(mail, form, numbers):
    X = form(mail[0])
    some = SomeRows(MatrixRows(X), numbers)
    edges = some.edges(SMALL)
    assert edges[0] == 0
    assert edges[-1] == some.shape[0]
    assert np.all(np.diff(edges) > 0)
    blocks = [some.block(*pair) for pair in zip(edges[:-1], edges[1:], strict=True)]
    joined = sp.vstack(blocks).toarray() if some.sparse else np.concatenate(blocks)
    whole = mail[0].toarray()[np.asarray(numbers)]
    np.testing.assert_array_equal(joined, whole)
    assert some.shape == whole.shape
    if some.sparse:
        assert all(block.has_canonical_format for block in blocks)


def test_no_block_of_the_source_is_read_twice(mail):
    reads = []

    class Counted(MatrixRows):
        def block(self, start, stop):
            reads.append((start, stop))
            return super().block(start, stop)

    rows = Counted(mail[0])
    some, own = SomeRows(rows, np.arange(240) % 5 != 0), rows.edges(SMALL)
    for start, stop in zip(some.edges(SMALL)[:-1], some.edges(SMALL)[1:], strict=True):
        some.block(start, stop)
    assert len(reads) == len(own) - 1
    for (start, stop), first, last in zip(reads, own[:-1], own[1:], strict=True):
        assert first <= start < stop <= last


def test_a_part_of_a_folder_can_be_pickled(mail, tmp_path):
    with RowWriter(tmp_path / "rows") as writer:
        writer.append(*mail)
    some = SomeRows(RowFolder(tmp_path / "rows"), [1, 5, 200])
    again = pickle.loads(pickle.dumps(some))
    assert (some.block(0, 3) != again.block(0, 3)).nnz == 0
    assert "SomeRows(3 rows of RowFolder(" in repr(again)


@pytest.mark.parametrize(
    ("numbers", "error", "message"),
    [
        ([], ValueError, "n above 0"),
        ([[1, 2]], ValueError, "n above 0"),
        (np.zeros(240, dtype=bool), ValueError, "n above 0"),
        ([0.5], TypeError, "must be integers or booleans"),
        ([True, False], ValueError, r"a mask must have shape \(240,\)"),
        ([2, 1], ValueError, "from 0 to 239, and sorted"),
        ([-1, 1], ValueError, "from 0 to 239"),
        ([1, 240], ValueError, "from 0 to 239"),
    ],
)
def test_invalid_row_numbers_raise(mail, numbers, error, message):
    with pytest.raises(error, match=message):
        SomeRows(MatrixRows(mail[0]), numbers)


def test_labels_are_those_of_the_rows(mail, tmp_path):
    with RowWriter(tmp_path / "rows") as writer:
        writer.append(*mail)
    some = SomeRows(RowFolder(tmp_path / "rows"), [0, 7, 7, 239])
    assert some.labels.tolist() == np.asarray(mail[1])[[0, 7, 7, 239]].tolist()
    assert SomeRows(some, [1]).labels.tolist() == [mail[1][7]]
    assert SomeRows(MatrixRows(mail[0]), [1]).labels is None


def test_matrix_is_not_a_row_source(mail):
    with pytest.raises(TypeError, match="rows must be a RowSource"):
        SomeRows(mail[0], [1])
