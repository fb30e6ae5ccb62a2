"""Rows of arrays that can be sliced, of this package and of others, and selected rows."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler

from structinv import (
    InvariantLinearSVC,
)
from structinv.datasets import make_mail_like
from structinv.dual.block_state import BlockState
from structinv.dual.case import Case
from structinv.oracles import Box, FDrop
from structinv.rows import RowFolder, RowWriter, SlicedRows, SomeRows
from structinv.rows.sources import MatrixRows, cut_by_entries, cut_evenly
from structinv.spaces import ExplicitSpace
from structinv.terms.blockwise_term import BlockSizes, BlockwiseTerm

from ..blocks import SMALL, dense, mail, objective, use_small_blocks


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    use_small_blocks(monkeypatch)


def memory_mapped(X, folder):
    np.save(folder / "X.npy", X)
    return np.load(folder / "X.npy", mmap_mode="r")


SOURCES = {
    "memmap": memory_mapped,
    "hdf5": lambda X, folder: (
        pytest.importorskip("h5py").File(folder / "X.h5", "w").create_dataset("X", data=X)
    ),
    "zarr": lambda X, folder: pytest.importorskip("zarr").array(X, chunks=(70, 20)),
    "dask": lambda X, folder: pytest.importorskip("dask.array").from_array(X, chunks=(70, 20)),
}


class TestSources:
    @pytest.mark.parametrize("name", SOURCES)
    def test_arrays_of_other_packages(self, tmp_path, name):
        X, y = dense()
        self.check(SlicedRows(SOURCES[name](X, tmp_path)), X, y)

    def check(self, rows, X, y):
        """Check that a fit on a source reaches the optimum of the rows, for any chunks."""
        a = InvariantLinearSVC(Box(0.1), C=0.1, random_state=0, tol=1e-4).fit(rows, y).solution_
        b = InvariantLinearSVC(Box(0.1), C=0.1, random_state=0, tol=1e-4).fit(X, y).solution_
        assert max(a.relative_gap, b.relative_gap) <= 1e-4
        assert a.dual <= b.primal
        assert b.dual <= a.primal
        model = InvariantLinearSVC(random_state=0).fit(X, y)
        np.testing.assert_array_equal(model.predict(rows), model.predict(X))

    def test_sparse_slices(self):
        X, y = mail(120)
        rows = SlicedRows(sp.csr_array(X))
        assert rows.sparse
        # A row has far fewer values than features.
        assert len(rows.edges(SMALL)) == pytest.approx(1 + X.nnz / SMALL, abs=2)
        model = InvariantLinearSVC(FDrop(3), C=0.1, tol=1e-2, random_state=0).fit(rows, y)
        assert model.score(X, y) > 0.9

    def test_whatever_slices_by_rows(self):
        X, y = dense()

        class Lazy:
            shape, dtype = X.shape, X.dtype

            def __getitem__(self, rows):
                return Later(X[rows])

        class Later:
            def __init__(self, rows):
                self.rows = rows

            def compute(self):
                return self.rows

        rows = SlicedRows(Lazy())
        np.testing.assert_array_equal(rows.block(3, 9), X[3:9])
        assert InvariantLinearSVC(C=0.1, random_state=0).fit(rows, y).score(rows, y) > 0.8

    @pytest.mark.parametrize("chunks", [(40, 20), ((40,) * 7 + (20,), (20,)), (500, 20), None])
    def test_a_pass_reads_whole_chunks(self, chunks):
        X, y = dense()
        reads = []

        class Chunked:
            shape, dtype = X.shape, X.dtype

            def __getitem__(self, rows):
                reads.append(rows)
                return X[rows]

        array = Chunked()
        array.chunks = chunks
        rows = SlicedRows(array)
        # Blocks of 100 rows.
        term = objective(X, y, Box(0.1)).terms[0]
        term = BlockwiseTerm(
            rows, term.part, term.bound_structure, term.weights, BlockSizes(values=100 * X.shape[1])
        )
        reads.clear()
        case = Case(term, ExplicitSpace(X.shape[1]))
        BlockState(case, np.random.default_rng(0)).sweep(np.zeros(X.shape[1]))
        reads = sorted((each.start, each.stop) for each in reads)
        assert [start for start, _ in reads] == [0, *(stop for _, stop in reads[:-1])]
        starts = [start for start, _ in reads]
        if chunks is None:
            assert len(starts) > 30
        else:
            # A chunk that is larger than a block is read once for each block.
            assert starts == list(range(0, 300, 100 if chunks == (500, 20) else 40))

    def test_a_slice_of_another_shape_is_refused(self):
        class Wrong:
            shape, dtype = (5, 2), np.dtype(float)

            def __getitem__(self, rows):
                return np.ones((1, 2))

        with pytest.raises(ValueError, match=r"rows 1 to 2 must have shape \(2, 2\), got \(1, 2\)"):
            SlicedRows(Wrong()).block(1, 3)

    @pytest.mark.parametrize("most", [1, 7, 10**6])
    def test_cuts(self, most):
        indptr = np.array([0, 0, 5, 5, 30, 31, 31])
        for edges in (cut_evenly(6, most), cut_by_entries(indptr, most)):
            assert edges[0] == 0
            assert edges[-1] == 6
            assert np.all(np.diff(edges) > 0)


class TestFaults:
    @pytest.mark.parametrize(
        "use",
        [
            lambda rows, y: np.asarray(rows),
            lambda rows, y: train_test_split(rows, y),
            lambda rows, y: cross_val_score(InvariantLinearSVC(Box(0.1)), rows, y, error_score="raise"),
            lambda rows, y: GridSearchCV(InvariantLinearSVC(Box(0.1)), {"C": [1.0]}).fit(rows, y),
            lambda rows, y: make_pipeline(MaxAbsScaler(), InvariantLinearSVC(Box(0.1))).fit(rows, y),
        ],
    )
    def test_tools_that_make_an_array_of_rows(self, use):
        X, y = dense()
        with pytest.raises(TypeError, match="cannot be converted to an array.*InvariantLinearSVC"):
            use(SlicedRows(X), y)

    @pytest.mark.parametrize("path", ["rows", Path("rows")])
    def test_a_path_in_the_place_of_rows(self, path):
        X, y = dense()
        model = InvariantLinearSVC(random_state=0).fit(X, y)
        for use in (model.predict, model.certify, lambda path: InvariantLinearSVC().fit(path, y)):
            with pytest.raises(
                TypeError, match=r"got the path 'rows': use structinv\.rows\.RowFolder\(path\)"
            ):
                use(path)

    @pytest.mark.parametrize(
        ("array", "message"),
        [
            ([[1.0, 2.0]], "shape of two positive numbers"),
            (np.ones(3), "shape of two positive numbers"),
            (np.array([["a"]]), "dtype of real numbers"),
            (np.ones((3, 2), np.float16), "float16"),
        ],
    )
    def test_arrays_that_cannot_be_sliced(self, array, message):
        with pytest.raises(TypeError, match=message):
            SlicedRows(array)


# Selected rows of a source.


@pytest.fixture(scope="module")
def mails():
    X, y = make_mail_like(240, 100, random_state=0)
    X = X.astype(float)
    X.sort_indices()
    return X, y


@pytest.mark.parametrize("form", [sp.csr_matrix, lambda X: X.toarray()])
@pytest.mark.parametrize(
    "numbers", [[3, 4, 5], [0, 7, 7, 239], range(240), np.arange(240) % 7 == 0], ids=str
)
def test_blocks_together_are_the_rows(mails, form, numbers):
    X = form(mails[0])
    some = SomeRows(MatrixRows(X), numbers)
    edges = some.edges(2000)
    assert edges[0] == 0
    assert edges[-1] == some.shape[0]
    assert np.all(np.diff(edges) > 0)
    blocks = [some.block(*pair) for pair in zip(edges[:-1], edges[1:], strict=True)]
    joined = sp.vstack(blocks).toarray() if some.sparse else np.concatenate(blocks)
    whole = mails[0].toarray()[np.asarray(numbers)]
    np.testing.assert_array_equal(joined, whole)
    assert some.shape == whole.shape
    if some.sparse:
        assert all(block.has_canonical_format for block in blocks)


def test_no_block_of_the_source_is_read_twice(mails):
    reads = []

    class Counted(MatrixRows):
        def block(self, start, stop):
            reads.append((start, stop))
            return super().block(start, stop)

    rows = Counted(mails[0])
    some, own = SomeRows(rows, np.arange(240) % 5 != 0), rows.edges(2000)
    for start, stop in zip(some.edges(2000)[:-1], some.edges(2000)[1:], strict=True):
        some.block(start, stop)
    assert len(reads) == len(own) - 1
    for (start, stop), first, last in zip(reads, own[:-1], own[1:], strict=True):
        assert first <= start < stop <= last


def test_a_part_of_a_folder_can_be_pickled(mails, tmp_path):
    with RowWriter(tmp_path / "rows") as writer:
        writer.append(*mails)
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
def test_invalid_row_numbers_raise(mails, numbers, error, message):
    with pytest.raises(error, match=message):
        SomeRows(MatrixRows(mails[0]), numbers)


def test_labels_are_those_of_the_rows(mails, tmp_path):
    with RowWriter(tmp_path / "rows") as writer:
        writer.append(*mails)
    some = SomeRows(RowFolder(tmp_path / "rows"), [0, 7, 7, 239])
    assert some.labels.tolist() == np.asarray(mails[1])[[0, 7, 7, 239]].tolist()
    assert SomeRows(some, [1]).labels.tolist() == [mails[1][7]]
    assert SomeRows(MatrixRows(mails[0]), [1]).labels is None


def test_matrix_is_not_a_row_source(mails):
    with pytest.raises(TypeError, match="rows must be a RowSource"):
        SomeRows(mails[0], [1])
