"""Fits, predictions and certificates of rows that are read in blocks."""

from __future__ import annotations

import errno
import gc
import pickle
import re
import threading
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler

from structinv import (
    InvariantLinearSVC,
    InvariantLinearSVR,
    InvariantSVC,
    explain_solver,
)
from structinv.datasets import make_mail_like
from structinv.dual import dual_state
from structinv.dual.block_state import BlockState, PackedStore
from structinv.dual.case import Case
from structinv.estimators.inputs import as_bytes, block_sizes
from structinv.oracles import Box, Ellipsoid, FAdd, FDrop, FEdit, FScale, Identity, Support
from structinv.rows import RowFolder, RowSource, RowWriter, SlicedRows
from structinv.rows.reading import read_ahead
from structinv.rows.sources import MatrixRows, cut_by_entries, cut_evenly
from structinv.solvers import BMRM, FrankWolfe, Gap, Pegasos, solve
from structinv.spaces import ExplicitSpace
from structinv.structures import Binary
from structinv.structures.classes import Multiclass
from structinv.terms import Objective, WorstCase
from structinv.terms.blockwise_term import BlockSizes, BlockwiseTerm
from structinv.utils import printing
from structinv.utils.row_arrays import join_rows, put_rows, take_rows, zero_rows

from ..covering import slow_unless

SMALL = 3000


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Use about ten blocks of a few dozen rows each."""
    sizes = BlockSizes(values=SMALL)
    monkeypatch.setattr(block_sizes, "__defaults__", (sizes,))
    monkeypatch.setattr(BlockSizes, "values", SMALL)


def mail(n_rows=400, n_features=300, seed=0, dtype=np.float64):
    X, y = make_mail_like(n_rows, n_features, random_state=seed)
    X = X.astype(dtype)
    X.data = np.log1p(X.data)
    return X, np.where(y == "spam", 1, -1)


def dense(n_rows=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 20))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=n_rows) > 0, 1, -1)
    return X, y


def objective(X, y, oracle, C=0.1, most=SMALL):
    classes, weights = np.array([-1, 1]), np.broadcast_to(C, len(y))

    def part(rows, some):
        return WorstCase(rows, y[some], oracle, Binary(), weights[some], classes)

    term = BlockwiseTerm(MatrixRows(X), part, Binary().bind(y, classes), weights, BlockSizes(most))
    return Objective(ExplicitSpace(X.shape[1], 1, intercept=True), [term])


def state_of(problem):
    """The dual state of rows in blocks, and the function 0."""
    case = Case(problem.terms[0], problem.space)
    return BlockState(case, np.random.default_rng(0)), problem.space.zeros()


def check_sum(state, f):
    """A function is the sum of all blocks, also of the sum that the state holds."""
    np.testing.assert_allclose(state.combination(), f, rtol=0, atol=1e-10)
    known, state.sum = state.sum, None
    np.testing.assert_allclose(state.combination(), known, rtol=0, atol=1e-10)


CASES = {
    "plain": (mail, Identity()),
    "dropped": (mail, FDrop(3)),
    "scaled": (mail, FScale(3, low=0.5, high=1.5)),
    "some_labels": (mail, FDrop(3).only_for(1)),
    "either": (mail, FDrop(3) | FScale(5, low=0.5, high=1.0)),
    "plain_dense": (dense, Identity()),
    "box": (dense, Box(0.1)),
    "ellipsoid": (dense, Ellipsoid(0.1 * np.eye(20), 1.0)),
}


@pytest.mark.parametrize("case", slow_unless(lambda case: case != "scaled", [(case,) for case in CASES]))
def test_bounds_of_each_check_enclose_the_optimum(case):
    make, oracle = CASES[case]
    X, y = make()
    optimum = InvariantLinearSVC(oracle, C=0.1, random_state=0, tol=1e-5).fit(X, y).solution_
    found = solve(objective(X, y, oracle), FrankWolfe(), Gap(1e-3), random_state=1, check_always=True)
    assert found.relative_gap <= 1e-3
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


@pytest.mark.parametrize(
    ("case", "structure"),
    [
        *((case, Binary()) for case in CASES),
        *((case, Multiclass()) for case in ("plain", "dropped", "box")),
    ],
    ids=str,
)
def test_a_state_goes_on_from_what_it_packed(case, structure):
    """A packed state, pickled, has the same function, offset and gaps as before."""
    make, oracle = CASES[case]
    X, y = make()
    n_outputs = 1
    if isinstance(structure, Multiclass):
        y, n_outputs = y + (np.arange(len(y)) % 3 == 0), 4
    space = ExplicitSpace(X.shape[1], n_outputs, intercept=True)

    def fresh(packed=None):
        term = WorstCase(X, y, oracle, structure, 0.1)
        state = dual_state(term, space, np.random.default_rng(0))
        if packed is not None:
            arrays, planes = packed
            if planes is None:
                state._start(arrays, f)
            else:
                state.unpack(planes)
        return state

    state, f = fresh(), space.zeros()
    for _ in range(3):
        state.sweep(f)
    packed = pickle.loads(pickle.dumps((state.arrays(), state.pack())))
    again = fresh(packed)
    known = again.combination()
    np.testing.assert_allclose(known, state.combination(), rtol=0, atol=1e-9)
    assert again.offset == pytest.approx(state.offset, rel=1e-9)
    g = known.copy()
    for _ in range(3):
        again.sweep(g)
    np.testing.assert_allclose(again.combination(), g, rtol=0, atol=1e-9)
    # What was packed does not change with the state that took it.
    np.testing.assert_array_equal(fresh(packed).combination(), known)
    if state.packs_rows:
        rows = np.arange(0, len(y), 3)
        back = put_rows(packed[0], rows, take_rows(packed[0], rows), len(y))
        np.testing.assert_array_equal(fresh((back, None)).combination(), known)


def test_some_rows_can_be_taken_from_arrays_and_put_back():
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 4, 20)
    arrays = {
        "one": rng.normal(size=20),
        "two": rng.normal(size=(20, 2)),
        "many.counts": counts,
        "many.values": rng.normal(size=counts.sum()),
        "many.places": np.arange(counts.sum()),
    }
    rows = np.array([1, 5, 6, 19])
    some = take_rows(arrays, rows)
    assert some["many.counts"].tolist() == counts[rows].tolist()
    same = put_rows(arrays, rows, some, 20)
    for name, before in arrays.items():
        np.testing.assert_array_equal(same[name], before)
    ones = np.ones(counts[rows].sum() + 4)
    new = {"many.counts": counts[rows] + 1, "many.values": ones, "many.places": ones}
    longer = {**some, **new}
    other = put_rows(arrays, rows, longer, 20)
    np.testing.assert_array_equal(take_rows(other, rows)["many.values"], ones)
    left = np.setdiff1d(np.arange(20), rows)
    for found in (other, join_rows([take_rows(arrays, left), zero_rows(arrays, 3)])):
        places = left if found is other else np.arange(len(left))
        np.testing.assert_array_equal(
            take_rows(found, places)["many.values"], take_rows(arrays, left)["many.values"]
        )


def test_every_block_is_read_once_a_sweep_and_a_check():
    X, y = mail()
    reads = []

    class Counted(MatrixRows):
        def block(self, start, stop):
            reads.append((start, stop))
            return super().block(start, stop)

    problem = objective(X, y, FDrop(3))
    term = problem.terms[0]
    term.source = Counted(X)
    state, f = state_of(problem)
    strips = [(strip.start, strip.stop) for strip in term.strips]
    for _ in range(2):
        reads.clear()
        state.sweep(f)
        assert sorted(reads) == strips
    reads.clear()
    state.combination(), state.value(f)
    assert sorted(reads) == strips


def test_f_is_the_sum_of_all_blocks_after_each_sweep():
    X, y = mail()
    state, f = state_of(objective(X, y, FDrop(3)))
    for _ in range(4):
        state.sweep(f)
        check_sum(state, f)


def test_a_sweep_that_is_cut_short_leaves_a_sound_state():
    X, y = mail()
    state, f = state_of(objective(X, y, FDrop(3)))
    asked = iter([False] * 7 + [True] * 1000)
    gap, _ = state.sweep(f, lambda: next(asked))
    assert gap == np.inf
    check_sum(state, f)


def test_an_error_in_a_sweep_leaves_a_state_that_can_be_asked():
    X, y = mail()
    problem = objective(X, y, FDrop(3))
    term = problem.terms[0]
    state, f = state_of(problem)
    state.sweep(f)

    def fails(start, stop):
        if start > 100:
            raise OSError("the disk is gone")
        return MatrixRows.block(term.source, start, stop)

    good, term.source.block = term.source.block, fails
    with pytest.raises(OSError, match="the disk is gone"):
        state.sweep(f)
    term.source.block = good
    f = state.combination()
    dual = state.offset - 0.5 * f @ f
    assert 0 < dual <= sum(state.value(f)) / 2 + 0.5 * f @ f


@pytest.mark.parametrize(
    "oracle", [FDrop(3).only_for(1), FDrop(3).only_for(-1), (FDrop(3) | FScale(2, 0.5, 2.0)).only_for(1)]
)
def test_blocks_of_a_single_label_take_over_what_mixed_ones_have_packed(oracle):
    X, y = mail()
    order = np.argsort(y, kind="stable")
    problem = objective(X[order], y[order], oracle)
    term, (state, f) = problem.terms[0], state_of(problem)
    deal = state._random_blocks
    strips = np.arange(len(term.strips))
    heights = []
    for groups in (deal, lambda: np.array_split(strips, len(term.cuts)), deal):
        state._random_blocks = groups
        for _ in range(2):
            state.sweep(f)
            heights.append(state.offset - 0.5 * f @ f)
        check_sum(state, f)
        assert state.offset == pytest.approx(sum(each.offset for _, each in state._states()), rel=1e-12)
    assert np.all(np.diff(heights) > 0)


@pytest.mark.parametrize("oracle", [Identity(), pytest.param(FDrop(3), marks=pytest.mark.slow)])
def test_rows_in_the_order_of_their_labels_take_few_more_passes(oracle):
    X, y = mail(2000)
    order = np.argsort(y, kind="stable")
    passes = []
    for rows in (np.arange(2000), order):
        model = InvariantLinearSVC(oracle, C=0.01, random_state=0).fit(MatrixRows(X[rows]), y[rows])
        assert model.solution_.relative_gap <= 1e-3
        passes.append(model.n_iter_)
    assert passes[1] <= 2 * passes[0]


def test_what_an_earlier_fit_has_reached_stays_reached():
    X, y = mail()
    model = InvariantLinearSVC(FDrop(3), C=0.1, random_state=0, tol=1e-2, warm_start=True)
    rows = MatrixRows(X)
    before = model.fit(rows, y).solution_
    model.tol = 1e-4
    after = model.fit(rows, y).solution_
    assert after.relative_gap <= 1e-4
    assert min(record.dual for record in after.history) >= before.dual * (1 - 1e-12)
    # Dual variables start fits with other weights.
    model.C = 0.3
    other = model.fit(rows, y).solution_
    afresh = InvariantLinearSVC(FDrop(3), C=0.3, random_state=0, tol=1e-4).fit(X, y).solution_
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
        first = InvariantLinearSVC(FDrop(3), tol=1e-9, max_seconds=0.5, **common).fit(rows, y)
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


def test_predictions_and_certificates_are_those_of_the_matrix(tmp_path):
    X, y = mail()
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
    X, y = mail()
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
        (3, {}),
        (2, {"loss": "squared_hinge", "tol": 1e-2}),
        (2, {"loss": "logistic", "tol": 1e-2}),
        (2, {"class_weight": {1: 2.0}}),
        (2, {"solver": "bmrm", "C": 0.01}),
        (2, {"solver": BMRM(), "C": 0.01}),
    ],
    ids=str,
)
def test_losses_classes_weights_and_solvers(n_classes, settings):
    X, y = mail(200)
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
    X, y = mail()
    a, b = (InvariantLinearSVC(FDrop(3), random_state=0).fit(MatrixRows(X), y) for _ in range(2))
    np.testing.assert_array_equal(a.coef_, b.coef_)


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


def test_single_precision_stays(tmp_path):
    X, y = mail(dtype=np.float32)
    model = InvariantLinearSVC(FDrop(3), C=0.1, random_state=0).fit(MatrixRows(X), y)
    assert model.coef_.dtype == np.float32


def test_rows_that_are_kept_are_limited(monkeypatch):
    X, y = mail()
    monkeypatch.setattr(block_sizes, "__defaults__", (BlockSizes(values=SMALL, kept=500),))
    kept = []
    old = BlockState._revisit

    def revisit(self, *rest):
        kept.append(sum(each.state.term.X.nnz for each in self.cached))
        return old(self, *rest)

    monkeypatch.setattr(BlockState, "_revisit", revisit)
    found = InvariantLinearSVC(FDrop(3), C=0.1, random_state=0).fit(MatrixRows(X), y).solution_
    assert 0 < max(kept) <= 500
    assert found.relative_gap <= 1e-3


class TestFaults:
    def test_a_folder_that_changes_under_a_fit(self, tmp_path, monkeypatch):
        X, y = mail()
        with RowWriter(tmp_path / "rows") as writer:
            writer.append(X, y)
        rows = RowFolder(tmp_path / "rows")
        model = InvariantLinearSVC(FDrop(3), C=0.1, random_state=0).fit(rows, y)
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
            (np.ones(3), "a label for each of the 400 rows, got 3"),
            (np.ones(400), "at least two classes"),
            (np.r_[np.nan, np.ones(399)], "finite"),
            (["a", 1] * 200, "one kind"),
        ],
    )
    def test_labels(self, labels, message):
        X, _ = mail()
        with pytest.raises((ValueError, TypeError), match=message):
            InvariantLinearSVC(FDrop(3)).fit(MatrixRows(X), labels)

    def test_features_of_another_number(self):
        X, y = mail()
        model = InvariantLinearSVC(FDrop(3), C=0.1, random_state=0).fit(MatrixRows(X), y)
        for ask in (model.predict, model.certify):
            with pytest.raises(
                ValueError, match="X has 299 features, but InvariantLinearSVC is expecting"
            ):
                ask(MatrixRows(X[:, :299]))

    def test_estimators_that_read_all_rows_at_once(self):
        X, y = dense()
        with pytest.raises(TypeError, match="InvariantLinearSVC or InvariantLinearSVR"):
            InvariantSVC(Box(0.1)).fit(MatrixRows(X), y)

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

    def test_sparse_rows_for_an_oracle_of_dense_rows(self):
        X, y = mail()
        with pytest.raises(TypeError, match="does not support sparse rows"):
            InvariantLinearSVC(Ellipsoid(np.eye(300), 1.0)).fit(MatrixRows(X), y)

    def test_numbers_that_are_not_finite_are_named_by_their_row(self):
        X, y = dense()
        X[123, 4] = np.inf
        with pytest.raises(ValueError, match="row 123 must contain finite numbers"):
            InvariantLinearSVC(random_state=0).fit(SlicedRows(X), y)

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

    def test_ctrl_c_keeps_the_best_model(self):
        X, y = mail(2000)
        rows, count = MatrixRows(X), [0]

        class Pressed(MatrixRows):
            def blocks(self, cuts):
                if threading.current_thread() is not threading.main_thread():
                    count[0] += 1
                    if count[0] == 200:
                        import _thread

                        _thread.interrupt_main()
                return super().blocks(cuts)

        model = InvariantLinearSVC(FDrop(3), C=1.0, random_state=0, tol=1e-9)
        with pytest.raises(KeyboardInterrupt):
            model.fit(Pressed(X), y)
        assert np.isfinite(model.solution_.primal)
        assert model.score(rows, y) > 0.8


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
        X, y = mail()
        rows = SlicedRows(sp.csr_array(X))
        assert rows.sparse
        # A row has far fewer values than features.
        assert len(rows.edges(SMALL)) == pytest.approx(1 + X.nnz / SMALL, abs=2)
        model = InvariantLinearSVC(FDrop(3), C=0.1, random_state=0).fit(rows, y)
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

    @pytest.mark.parametrize("most", [1, 7, 50, 10**6])
    def test_cuts(self, most):
        indptr = np.array([0, 0, 5, 5, 30, 31, 31])
        for edges in (cut_evenly(6, most), cut_by_entries(indptr, most)):
            assert edges[0] == 0
            assert edges[-1] == 6
            assert np.all(np.diff(edges) > 0)

    def test_reading_ahead_keeps_the_order_and_passes_errors_on(self):
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


def test_explain_solver_names_the_blocks():
    X, y = mail()
    told = str(explain_solver(InvariantLinearSVC(FDrop(3)), MatrixRows(X), y))
    assert "rows are read in blocks" in told


class TestMemoryLimit:
    def test_packed_variables_go_to_disk_and_change_nothing(self, monkeypatch):
        X, y = mail()
        stores, old = [], PackedStore.__init__

        def init(self, *arguments):
            old(self, *arguments)
            stores.append(self)

        monkeypatch.setattr(PackedStore, "__init__", init)
        settings = {"C": 0.1, "random_state": 0}
        free = InvariantLinearSVC(FDrop(3), **settings).fit(MatrixRows(X), y)
        assert stores[-1].on_disk == 0
        assert stores[-1].in_memory > 0
        sizes = BlockSizes(values=SMALL, packed=2000)
        monkeypatch.setattr("structinv.estimators.linear.block_sizes", lambda *_: sizes)
        tight = InvariantLinearSVC(FDrop(3), **settings).fit(MatrixRows(X), y)
        assert stores[-1].in_memory <= 2000
        assert stores[-1].on_disk > 2000
        np.testing.assert_array_equal(tight.coef_, free.coef_)

    def test_a_full_disk_leaves_the_old_model(self, monkeypatch):
        X, y = mail()
        model = InvariantLinearSVC(FDrop(3), C=0.1, random_state=0).fit(MatrixRows(X), y)
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

    def test_files_go_with_the_store(self):
        store = PackedStore(3, 0)
        store[0] = {"taus": np.arange(4.0)}
        store[0] = {"taus": np.arange(5.0)}
        folder = Path(store._folder.name)
        assert [path.name for path in folder.iterdir()] == ["block-0"]
        assert len(store[0]["taus"]) == 5
        assert 0 in store
        assert 1 not in store
        del store
        gc.collect()
        assert not folder.exists()

    @pytest.mark.parametrize("limit", ["4", "4 XB", "-1GB", 0, -5, float("nan"), [1]])
    def test_other_limits_are_refused(self, limit):
        X, y = mail()
        with pytest.raises((TypeError, ValueError), match="memory_limit"):
            InvariantLinearSVC(memory_limit=limit).fit(MatrixRows(X), y)

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
        X, y = mail()
        limited = InvariantLinearSVC(FDrop(3), C=0.1, random_state=0, memory_limit="1GB").fit(X, y)
        blocks = InvariantLinearSVC(FDrop(3), C=0.1, random_state=0).fit(MatrixRows(X), y)
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
        X, y = mail()
        settings = {"C": 0.1, "random_state": 0, "verbose": 1}
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
