"""Fits, predictions and certificates of rows that are read in blocks."""

from __future__ import annotations

import errno
import re
import threading
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from structinv import (
    InvariantLinearSVC,
    InvariantLinearSVR,
    InvariantSVC,
    explain_solver,
)
from structinv.estimators.inputs import as_bytes, block_sizes
from structinv.oracles import Box, Ellipsoid, FAdd, FDrop, FEdit, Identity, Support
from structinv.rows import RowFolder, RowWriter, SlicedRows
from structinv.rows.sources import MatrixRows
from structinv.solvers import BMRM, FrankWolfe, Gap, Pegasos, solve
from structinv.structures import Binary
from structinv.terms import Objective, WorstCase
from structinv.terms.blockwise_term import BlockSizes
from structinv.utils import printing

from ..blocks import CASES, SMALL, dense, mail, objective, use_small_blocks
from ..covering import slow_unless


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    use_small_blocks(monkeypatch)


@pytest.mark.parametrize("case", slow_unless(lambda case: case != "scaled", [(case,) for case in CASES]))
def test_bounds_of_each_check_enclose_the_optimum(case):
    make, oracle = CASES[case]
    X, y = make(120 if make is mail else 300)
    tol = 3e-2 if case == "either" else 1e-3
    optimum = InvariantLinearSVC(oracle, C=0.1, random_state=0, tol=1e-2 * tol).fit(X, y).solution_
    found = solve(objective(X, y, oracle), FrankWolfe(), Gap(tol), random_state=1, check_always=True)
    assert found.relative_gap <= tol
    duals = [record.dual for record in found.history]
    assert duals == sorted(duals)
    for record in found.history:
        assert record.dual <= optimum.primal * (1 + 1e-9)
        assert record.primal >= optimum.dual * (1 - 1e-9)


class Careless(Box):
    """A box with exact bounds, of which only the rows themselves are found."""

    def support(self, X, V, assign, cost=None):
        return Support(X, super().support(X, V, assign, cost).values(V, assign))


@pytest.mark.parametrize("weights", ["equal", "of some rows"])
def test_values_bounds_and_planes_of_blocks_are_those_of_all_rows(weights):
    X, y = dense()
    C = 0.1 if weights == "equal" else 0.1 * (np.arange(len(y)) % 3)
    problem = objective(X, y, Careless(0.3), C)
    term, space = problem.terms[0], problem.space
    assert len(term.cuts) > 1
    whole = WorstCase(X, y, Careless(0.3), Binary(), C)
    f = np.random.default_rng(0).standard_normal(space.size)
    upper, attained = term.total(space, f)
    assert upper > attained + 1.0
    assert (upper, attained) == pytest.approx(whole.total(space, f), rel=1e-12)
    np.testing.assert_allclose(term.values(space, f), whole.values(space, f))
    np.testing.assert_allclose(term.scores(space, f), whole.scores(space, f))
    planes = [each.plane_of_sum(space, f) for each in (term, whole)]
    for name in ("normals", "offsets", "upper", "plane_values"):
        np.testing.assert_allclose(*(getattr(plane, name) for plane in planes), rtol=1e-10, atol=1e-12)


def test_the_precision_of_an_objective_is_that_of_its_least_precise_rows():
    X, y = dense()
    single, double = (objective(X.astype(dtype), y, Box(0.1)) for dtype in ("f4", "f8"))
    whole = WorstCase(X, y, Box(0.1), Binary())
    for terms, dtype in (
        (single.terms, "f4"),
        (double.terms, "f8"),
        ([*double.terms, *single.terms, whole], "f4"),
    ):
        assert Objective(single.space, terms).unit == np.finfo(dtype).eps


@pytest.mark.parametrize("oracle", [Identity(), pytest.param(FDrop(3), marks=pytest.mark.slow)])
def test_rows_in_the_order_of_their_labels_take_few_more_passes(oracle):
    X, y = mail(400)
    order = np.argsort(y, kind="stable")
    passes = []
    for rows in (np.arange(400), order):
        model = InvariantLinearSVC(oracle, C=0.01, random_state=0).fit(MatrixRows(X[rows]), y[rows])
        assert model.solution_.relative_gap <= 1e-3
        passes.append(model.n_iter_)
    assert passes[1] <= 2 * passes[0]


def test_what_an_earlier_fit_has_reached_stays_reached():
    X, y = mail(120)
    model = InvariantLinearSVC(FDrop(3), C=0.1, random_state=0, tol=1e-2, warm_start=True)
    rows = MatrixRows(X)
    before = model.fit(rows, y).solution_
    model.tol = 1e-3
    after = model.fit(rows, y).solution_
    assert after.relative_gap <= 1e-3
    assert min(record.dual for record in after.history) >= before.dual * (1 - 1e-12)
    # Dual variables start fits with other weights.
    model.C = 0.3
    other = model.fit(rows, y).solution_
    afresh = InvariantLinearSVC(FDrop(3), C=0.3, random_state=0, tol=1e-3).fit(X, y).solution_
    assert other.dual <= afresh.primal
    assert afresh.dual <= other.primal


def test_a_killed_fit_goes_on_from_its_checkpoint(tmp_path):
    X, y = mail()
    path = tmp_path / "checkpoint"
    with RowWriter(tmp_path / "rows") as writer:
        writer.append(X, y)
    rows = RowFolder(tmp_path / "rows")
    common = {"C": 0.1, "random_state": 0, "checkpoint": path, "checkpoint_seconds": 1e-9}
    with pytest.warns(ConvergenceWarning):
        first = InvariantLinearSVC(FDrop(3), tol=1e-9, max_seconds=0.1, **common).fit(rows, y)
    assert path.exists()
    # Another process opens the folder anew.
    rows = RowFolder(tmp_path / "rows")
    second = InvariantLinearSVC(FDrop(3), tol=1e-3, **common).fit(rows, y)
    assert second.solution_.dual >= first.solution_.dual * (1 - 1e-12)
    assert not path.exists()


@pytest.mark.parametrize("solver", ["svmstruct", "interior_point", "pegasos", Pegasos()])
def test_other_solvers_are_refused_by_name(solver):
    X, y = mail()
    with pytest.raises(ValueError, match="planes of single rows, but these rows are read in blocks"):
        InvariantLinearSVC(FDrop(3), solver=solver).fit(MatrixRows(X), y)


def test_explain_solver_names_the_blocks():
    X, y = mail()
    told = str(explain_solver(InvariantLinearSVC(FDrop(3)), MatrixRows(X), y))
    assert "rows are read in blocks" in told


def test_predictions_and_certificates_are_those_of_the_matrix(tmp_path):
    X, y = mail(120)
    labels = np.where(y > 0, "spam", "ham")
    with RowWriter(tmp_path / "rows") as writer:
        writer.append(X, labels)
    rows = RowFolder(tmp_path / "rows")
    model = InvariantLinearSVC(FDrop(3), C=0.1, random_state=0).fit(rows, rows.labels)
    np.testing.assert_array_equal(model.predict(rows), model.predict(X))
    np.testing.assert_allclose(model.decision_function(rows), model.decision_function(X))
    assert model.score(rows, labels) == model.score(X, labels)
    for given in (labels, None):
        ours, theirs = model.certify(rows, given), model.certify(X, given)
        np.testing.assert_allclose(ours.attacked, theirs.attacked, rtol=1e-12)
        assert ours.accuracy == theirs.accuracy
        assert ours.exact.all()
    with pytest.raises(TypeError, match="pass one block"):
        model.worst_case(rows, labels)


@pytest.mark.parametrize("oracle", [FAdd(2), pytest.param(FEdit(2, add=1.0), marks=pytest.mark.slow)])
def test_words_that_all_rows_add(oracle):
    X, y = mail(120)
    whole = InvariantLinearSVC(oracle, C=0.01, random_state=0).fit(X, y).solution_
    blocks = InvariantLinearSVC(oracle, C=0.01, random_state=0).fit(MatrixRows(X), y).solution_
    assert blocks.solver == "BMRM"
    assert blocks.dual <= whole.primal
    assert whole.dual <= blocks.primal
    with pytest.raises(ValueError, match="depend on each other: use solver='bmrm'"):
        InvariantLinearSVC(oracle, solver="frank_wolfe").fit(MatrixRows(X), y)


@pytest.mark.parametrize(
    ("n_classes", "settings"),
    [
        (3, {"tol": 1e-2}),
        (2, {"loss": "squared_hinge", "tol": 1e-2}),
        (2, {"loss": "logistic", "tol": 1e-2}),
        (2, {"class_weight": {1: 2.0}}),
        (2, {"solver": "bmrm", "C": 0.01}),
        (2, {"solver": BMRM(), "C": 0.01, "tol": 1e-2}),
    ],
    ids=str,
)
def test_losses_classes_weights_and_solvers(n_classes, settings):
    X, y = mail(120)
    y = y + (n_classes == 3) * (np.arange(len(y)) % 3 == 0)
    weight = np.where(np.arange(len(y)) % 4 == 0, 0.0, 1.5)
    model = InvariantLinearSVC(FDrop(2), **{"C": 0.1, "random_state": 0, **settings})
    whole = clone(model).fit(X, y, sample_weight=weight)
    blocks = clone(model).fit(MatrixRows(X), y, sample_weight=weight)
    assert blocks.solution_.dual <= whole.solution_.primal
    assert whole.solution_.dual <= blocks.solution_.primal
    np.testing.assert_array_equal(blocks.classes_, whole.classes_)
    assert blocks.certify(MatrixRows(X), y).margins.shape == (len(y),)


@pytest.mark.parametrize("oracle", [None, Box(0.1)])
def test_regression(oracle):
    X, _ = dense()
    y = X @ np.linspace(-1, 1, 20) + 3.0
    common = {"C": 0.1, "random_state": 0, "epsilon": 0.2}
    whole = InvariantLinearSVR(oracle, **common).fit(X, y)
    blocks = InvariantLinearSVR(oracle, **common).fit(MatrixRows(X), y)
    assert blocks.solution_.dual <= whole.solution_.primal
    assert whole.solution_.dual <= blocks.solution_.primal
    bounds, same = blocks.certify(MatrixRows(X)), blocks.certify(X)
    np.testing.assert_allclose(bounds.lowest, same.lowest)
    np.testing.assert_allclose(bounds.highest, same.highest)


def test_the_same_seed_gives_the_same_bits():
    X, y = mail(120)
    model = InvariantLinearSVC(FDrop(3), C=0.1, tol=1e-2, random_state=0)
    a, b = (clone(model).fit(MatrixRows(X), y) for _ in range(2))
    np.testing.assert_array_equal(a.coef_, b.coef_)


def test_single_precision_stays():
    X, y = dense()
    model = InvariantLinearSVC(C=0.1, random_state=0).fit(MatrixRows(X.astype(np.float32)), y)
    assert model.coef_.dtype == np.float32


class TestFaults:
    def test_a_folder_that_changes_under_a_fit(self, tmp_path, monkeypatch):
        X, y = mail(120)
        with RowWriter(tmp_path / "rows") as writer:
            writer.append(X, y)
        rows = RowFolder(tmp_path / "rows")
        model = InvariantLinearSVC(FDrop(3), C=0.1, tol=1e-2, random_state=0).fit(rows, y)
        before = model.coef_.copy()
        count, old = [0], RowFolder.blocks

        def blocks(self, cuts):
            count[0] += 1
            if count[0] == 20:
                with (tmp_path / "rows" / "data.npy").open("r+b") as stream:
                    stream.truncate(5000)
            return old(self, cuts)

        monkeypatch.setattr(RowFolder, "blocks", blocks)
        with pytest.raises(OSError, match=r"data\.npy cannot be read: the file was truncated"):
            model.set_params(tol=1e-6).fit(rows, y)
        np.testing.assert_array_equal(model.coef_, before)

    @pytest.mark.parametrize(
        ("labels", "message"),
        [
            (None, "y should be a 1d array"),
            (np.ones(3), "a label for each of the 200 rows, got 3"),
            (np.ones(200), "at least two classes"),
            (np.r_[np.nan, np.ones(199)], "finite"),
            (["a", 1] * 100, "one kind"),
        ],
    )
    def test_labels(self, labels, message):
        X, _ = mail()
        with pytest.raises((ValueError, TypeError), match=message):
            InvariantLinearSVC(FDrop(3)).fit(MatrixRows(X), labels)

    def test_features_of_another_number(self):
        X, y = mail()
        model = InvariantLinearSVC(FDrop(3), C=0.1, tol=0.1, random_state=0).fit(MatrixRows(X), y)
        for ask in (model.predict, model.certify):
            with pytest.raises(
                ValueError, match="X has 299 features, but InvariantLinearSVC is expecting"
            ):
                ask(MatrixRows(X[:, :299]))

    def test_estimators_that_read_all_rows_at_once(self):
        X, y = dense()
        with pytest.raises(TypeError, match="InvariantLinearSVC or InvariantLinearSVR"):
            InvariantSVC(Box(0.1)).fit(MatrixRows(X), y)

    def test_sparse_rows_for_an_oracle_of_dense_rows(self):
        X, y = mail()
        with pytest.raises(TypeError, match="does not support sparse rows"):
            InvariantLinearSVC(Ellipsoid(np.eye(300), 1.0)).fit(MatrixRows(X), y)

    def test_numbers_that_are_not_finite_are_named_by_their_row(self):
        X, y = dense()
        X[123, 4] = np.inf
        with pytest.raises(ValueError, match="row 123 must contain finite numbers"):
            InvariantLinearSVC(random_state=0).fit(SlicedRows(X), y)

    def test_ctrl_c_keeps_the_best_model(self):
        X, y = mail(600)
        rows, count = MatrixRows(X), [0]

        class Pressed(MatrixRows):
            def blocks(self, cuts):
                if threading.current_thread() is not threading.main_thread():
                    count[0] += 1
                    if count[0] == 60:
                        import _thread

                        _thread.interrupt_main()
                return super().blocks(cuts)

        model = InvariantLinearSVC(FDrop(3), C=1.0, random_state=0, tol=1e-9)
        with pytest.raises(KeyboardInterrupt):
            model.fit(Pressed(X), y)
        assert np.isfinite(model.solution_.primal)
        assert model.score(rows, y) > 0.8


class TestMemoryLimit:
    def test_a_full_disk_leaves_the_old_model(self, monkeypatch):
        X, y = mail(120)
        model = InvariantLinearSVC(FDrop(3), C=0.1, tol=1e-2, random_state=0).fit(MatrixRows(X), y)
        before = model.coef_.copy()
        sizes = BlockSizes(values=SMALL, packed=0)
        monkeypatch.setattr("structinv.estimators.linear.block_sizes", lambda *_: sizes)
        count, write = [0], Path.write_bytes

        def fails(self, content):
            count[0] += 1
            if count[0] > 20:
                raise OSError(errno.ENOSPC, "No space left on device")
            return write(self, content)

        monkeypatch.setattr(Path, "write_bytes", fails)
        with pytest.raises(OSError, match="No space left on device.*TMPDIR.*memory_limit") as caught:
            model.set_params(C=0.2).fit(MatrixRows(X), y)
        assert caught.value.errno == errno.ENOSPC
        np.testing.assert_array_equal(model.coef_, before)
        assert model.score(X, y) > 0.9

    def test_a_limit_that_leaves_no_room_is_refused(self):
        X, y = mail()
        with pytest.raises(MemoryError, match="memory_limit=20000 must be at least"):
            InvariantLinearSVC(FDrop(3), memory_limit=20_000).fit(MatrixRows(X), y)

    @pytest.mark.parametrize("share", [0.5, 0.999, 1 - 1e-9])
    def test_numbers_of_the_refusal_agree(self, share):
        X, y = mail()

        def refusal(limit):
            with pytest.raises(MemoryError) as caught:
                InvariantLinearSVC(FDrop(3), memory_limit=limit).fit(MatrixRows(X), y)
            return [float(each) for each in re.findall(r"([\d.]+) MB", str(caught.value))]

        needed, _, own, blocks = refusal(1000.0)
        assert own + blocks == pytest.approx(needed)
        assert refusal(needed * 1e6 * share - 2e4)[1] < needed

    @pytest.mark.parametrize("limit", ["4", "4 XB", "-1GB", 0, -5, float("nan"), [1]])
    def test_other_limits_are_refused(self, limit):
        with pytest.raises((TypeError, ValueError), match="memory_limit"):
            as_bytes(limit)

    def test_fits_check_the_limit(self):
        X, y = dense(50)
        for rows in (X, MatrixRows(X)):
            with pytest.raises(ValueError, match="memory_limit must be None, a number of bytes"):
                InvariantLinearSVC(memory_limit="4 XB").fit(rows, y)

    @pytest.mark.parametrize(
        ("limit", "number"), [("1kB", 1e3), ("1.5 GB", 1.5e9), ("2MiB", 2**21), (7, 7.0), ("3b", 3.0)]
    )
    def test_limits_in_bytes(self, limit, number):
        assert as_bytes(limit) == number

    def test_sizes_fit_into_the_limit(self):
        class Large(MatrixRows):
            def __init__(self):
                self.shape, self.dtype, self.sparse = (10**7, 50_000), np.dtype(float), True

        for limit in (5e8, 1e9, 4e9, 1e11):
            sizes = block_sizes(Large(), 4e6, limit, BlockSizes(2**22, 2**25))
            blocks = sizes.values * 48 + sizes.kept * 24
            assert 24e7 + 4e6 + blocks + sizes.packed <= limit
        assert sizes.values == 2**22
        assert sizes.kept == 2**25

    def test_rows_in_memory_are_visited_in_blocks_under_a_limit(self):
        X, y = mail(120)
        settings = {"C": 0.1, "tol": 1e-2, "random_state": 0}
        limited = InvariantLinearSVC(FDrop(3), memory_limit="1GB", **settings).fit(X, y)
        blocks = InvariantLinearSVC(FDrop(3), **settings).fit(MatrixRows(X), y)
        np.testing.assert_array_equal(limited.coef_, blocks.coef_)

    def test_an_estimate_is_told_before_the_fit(self):
        X, y = mail()
        model = InvariantLinearSVC(FDrop(3))
        assert 0 < model.estimate_memory(MatrixRows(X), y) < 1e8


class TestProgress:
    @pytest.fixture
    def clock(self, monkeypatch):
        """Return a clock that advances by a second per call."""
        seconds = iter(range(10**6))
        monkeypatch.setattr(printing.time, "perf_counter", lambda: float(next(seconds)))

    def test_a_pass_is_told_of_now_and_then(self, clock):
        told = []
        with printing.passes_shown_by(lambda *what: told.append(what), 3.0):
            for _ in range(2):
                for done in range(9):
                    printing.report_pass(done, 8)
        # A second a row.
        assert told == 2 * [(3 / 8, 5.0), (6 / 8, 2.0)]
        printing.report_pass(0, 8), printing.report_pass(4, 8)
        assert len(told) == 4

    def test_a_loud_fit_prints_what_is_left(self, monkeypatch, capsys):
        X, y = mail(120)
        settings = {"C": 0.02, "tol": 1e-2, "random_state": 0, "verbose": 1}
        InvariantLinearSVC(FDrop(3), **settings).fit(MatrixRows(X), y)
        assert "pass over the rows" not in capsys.readouterr().err
        monkeypatch.setattr("structinv.estimators.fit_progress.SECONDS_BETWEEN_LINES", 0.0)
        InvariantLinearSVC(FDrop(3), **settings).fit(MatrixRows(X), y)
        lines = [line for line in capsys.readouterr().err.splitlines() if "pass over" in line]
        line = r"\[InvariantLinearSVC\] pass over the rows: \d+% done, about \d+ s left"
        assert len(lines) > 10
        assert all(re.fullmatch(line, each) for each in lines)
        InvariantLinearSVC(FDrop(3), **settings | {"verbose": 0}).fit(MatrixRows(X), y)
        assert capsys.readouterr().err == ""
