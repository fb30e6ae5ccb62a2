"""Indices of sparse matrices are checked before compiled functions follow them."""

from io import BytesIO
from zipfile import ZipFile

import numpy as np
import pytest
import scipy.sparse as sp

from structinv import InvariantLinearSVC, InvariantStructuredSVC, certify, load, save
from structinv.certificates.certificate import worst_change
from structinv.embeddings import GroupCDF
from structinv.estimators import VirtualSVC
from structinv.oracles import FDrop, Identity
from structinv.rows import RowFolder, RowSource, RowWriter, SlicedRows, SomeRows
from structinv.structures import Binary, Sequence
from structinv.utils.matrices import check_indices

from ..estimators.cases import PREDICTORS, TRANSFORMERS

FORMATS = ["csr", "csc", "coo", "bsr"]


def counts(n=20, d=6, seed=0):
    X = sp.csr_matrix(np.random.default_rng(seed).integers(0, 3, (n, d)).astype(float))
    return X, np.arange(n) % 2


def change(X, broken):
    """Break the indices of a matrix in place, in a way that SciPy does not notice."""
    if X.format == "coo":
        X.row[3], X.col[3] = (-9, 1) if broken == "negative" else (2, 10**6)
    elif broken == "decreasing":
        X.indptr[1] = X.indptr[-1]
    else:
        X.indices[3] = -(10**6) if broken == "negative" else 10**6
    return X


BROKEN = ["negative", "large", "decreasing"]


@pytest.mark.parametrize("form", FORMATS)
def test_broken_indices_are_named_in_every_format(form):
    for broken in BROKEN if form != "coo" else BROKEN[:2]:
        X = counts()[0].asformat(form)
        check_indices("X", X)
        with pytest.raises(ValueError, match="X must have (indices from 0 to|an increasing indptr)"):
            check_indices("X", change(X, broken))


def test_the_row_of_a_broken_index_is_named():
    X = counts()[0]
    X.indices[X.indptr[7]] = 6
    with pytest.raises(ValueError, match="^X must have indices from 0 to 5, got 6 in row 7$"):
        check_indices("X", X)


SPARSE = [
    case
    for case in [*PREDICTORS, *TRANSFORMERS]
    if case.estimator.__sklearn_tags__().input_tags.sparse and case.name not in ("tagger", "custom")
]


@pytest.mark.parametrize("case", SPARSE, ids=lambda case: case.name)
def test_no_estimator_follows_broken_indices(case):
    good = sp.csr_matrix(np.abs(case.X))
    fitted = type(case.estimator)(**case.estimator.get_params(deep=False))
    if "oracle" in fitted.get_params(deep=False) and case.name in ("linear", "linear regression"):
        fitted.set_params(oracle=Identity())
    fitted.fit(good, case.y)
    methods = "predict", "decision_function", "certify", "worst_case", "transform"
    calls = [getattr(fitted, name) for name in methods if hasattr(fitted, name)]
    with_labels = [getattr(fitted, name) for name in ("partial_fit", "score") if hasattr(fitted, name)]
    calls += [lambda X, call=call: call(X, case.y) for call in [*with_labels, fitted.fit]]
    for broken in BROKEN:
        bad = change(good.copy(), broken)
        for call in calls:
            with pytest.raises(ValueError, match="X must have (indices from|an increasing)"):
                call(bad)


@pytest.mark.parametrize("broken", BROKEN)
def test_other_entries_do_not_follow_broken_indices(broken, tmp_path):
    X, y = counts()
    bad = change(X.copy(), broken)
    linear = InvariantLinearSVC(random_state=0).fit(X, y)
    labels = Binary().bind(y, np.array([0, 1]))
    sequences = InvariantStructuredSVC(Sequence(), random_state=0).fit([X, X], [y, y])
    writer = RowWriter(tmp_path / "rows")
    with writer:
        writer.append(X)
        for call in (
            lambda: certify(linear, FDrop(1), bad, y),
            lambda: FDrop(1).support(bad, np.zeros((1, 6)), np.zeros(20, dtype=int)),
            lambda: worst_change(np.zeros((1, 6)), np.zeros(1), FDrop(1), labels, bad),
            lambda: sequences.predict([bad]),
            lambda: InvariantStructuredSVC(Sequence()).fit([X, bad], [y, y]),
            lambda: writer.append(bad),
            lambda: SlicedRows(bad).block(0, 20),
            lambda: VirtualSVC(Identity()).fit(bad, y),
            lambda: GroupCDF(Identity()).fit(bad),
        ):
            with pytest.raises(ValueError, match="must have (indices from|an increasing)"):
                call()


def test_partitions_of_dask_do_not_follow_broken_indices():
    partition = pytest.importorskip("structinv.dask.partition")
    with pytest.raises(ValueError, match="X must have indices from 0 to 5"):
        partition.checked_rows(change(counts()[0], "large"))


def test_broken_indices_in_a_model_file_are_an_error(tmp_path):
    X, y = counts()
    model = InvariantLinearSVC(Identity(), random_state=0).fit(X, y)
    model.extra_ = X
    save(model, tmp_path / "model")
    with ZipFile(tmp_path / "model") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    (matrix,) = (name for name in members if name.endswith(".npz"))
    stream = BytesIO()
    sp.save_npz(stream, change(sp.load_npz(BytesIO(members[matrix])), "large"))
    with ZipFile(tmp_path / "model", "w") as archive:
        for name, content in members.items():
            archive.writestr(name, stream.getvalue() if name == matrix else content)
    with pytest.raises(ValueError, match="damaged model file: ValueError: a matrix must have indices"):
        load(tmp_path / "model")


class TestFolders:
    @pytest.fixture
    def written(self, tmp_path):
        X, y = counts()
        with RowWriter(tmp_path / "rows") as writer:
            for start in range(0, 20, 5):
                writer.append(X[start : start + 5], np.array(["a", "b"])[y[start : start + 5]])
        return tmp_path / "rows"

    def rewrite(self, folder, name, place, value):
        """Replace a number in a file, as another writer would."""
        values = np.load(folder / name)
        values[place] = value
        np.save(folder / name, values)

    @pytest.mark.parametrize(
        ("name", "place", "value", "message"),
        [
            ("indices.npy", 3, 10**6, r"rows must have indices from 0 to 5, got 1000000 in row \d"),
            ("indices.npy", 3, -(10**6), r"rows must have indices from 0 to 5, got -1000000 in row \d"),
            ("indices.npy", 1, 0, r"rows must have increasing indices in each row, got others in row 0"),
            ("data.npy", -1, np.nan, r"rows: row 19 must contain finite numbers"),
            ("indptr.npy", 1, 70, r"indptr.npy must have increasing numbers from 0 to \d+"),
            ("indptr.npy", 1, -70, r"indptr.npy must have increasing numbers from 0 to \d+"),
            ("indptr.npy", -1, 10**9, r"indptr.npy must have increasing numbers from 0 to \d+"),
        ],
    )
    def test_wrong_numbers_of_another_writer_are_named(self, written, name, place, value, message):
        good = RowFolder(written)
        model = InvariantLinearSVC(FDrop(1), random_state=0).fit(good, good.labels)
        self.rewrite(written, name, place, value)
        y = counts()[1]
        for call in (
            lambda rows: InvariantLinearSVC(FDrop(1)).fit(rows, y),
            model.predict,
            model.certify,
            lambda rows: rows.block(0, 20),
        ):
            rows = RowFolder(written)
            for _ in range(2):
                with pytest.raises(ValueError, match=message):
                    call(rows)

    def test_codes_of_labels_outside_the_classes_are_named(self, written):
        self.rewrite(written, "labels.npy", 4, -1)
        with pytest.raises(ValueError, match=r"labels.npy must have codes from 0 to 1, got -1 in row 4"):
            RowFolder(written).labels.tolist()


class Others(RowSource):
    """A source of another package; each test breaks its blocks."""

    def __init__(self, X, change):
        self.X, self.change = X, change
        self.shape, self.dtype, self.sparse = X.shape, X.dtype, sp.issparse(X)

    def block(self, start, stop):
        return self.change(self.X[start:stop], start)

    def edges(self, most_values):
        return np.array([0, 10, 20])


def break_second(broken):
    return lambda X, start: X if start < 10 else change(X, broken)


def backwards(X, start):
    X.indices[: X.indptr[1]] = X.indices[: X.indptr[1]][::-1].copy()
    return X


def with_nan(X, start):
    return np.where((start + np.arange(len(X)) >= 10)[:, None], np.nan, X)


@pytest.mark.parametrize(
    ("sparse", "change", "error", "message"),
    [
        (True, break_second("large"), ValueError, "got 1000000 in row 1[01]"),
        (True, break_second("decreasing"), ValueError, "an increasing indptr"),
        (True, lambda X, start: X.toarray(), TypeError, "a CSR matrix of float64, got ndarray"),
        (True, backwards, ValueError, "increasing indices in each row"),
        (False, lambda X, start: np.asfortranarray(X), TypeError, "must be a C-contiguous array"),
        (False, lambda X, start: X[:, :3].copy(), ValueError, r"must have shape \(\d+, 6\), got"),
        (False, with_nan, ValueError, "row 10 must contain finite"),
        (False, lambda X, start: X.astype(np.float32), TypeError, "got ndarray of float32"),
    ],
)
def test_blocks_of_other_sources_are_checked(sparse, change, error, message):
    X, y = counts()
    X = X if sparse else X.toarray() + 1.0
    oracle = FDrop(1) if sparse else Identity()
    good, bad = Others(X, lambda X, start: X), Others(X, change)
    model = InvariantLinearSVC(oracle, random_state=0).fit(good, y)
    for call in (
        model.predict,
        lambda X: InvariantLinearSVC(oracle).fit(X, y),
        lambda X: InvariantLinearSVC(oracle).fit(SomeRows(X, np.arange(1, 20)), y[1:]),
    ):
        with pytest.raises(error, match=message):
            call(bad)
