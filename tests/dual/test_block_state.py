"""The dual state of rows in blocks: one state per block, packed between visits."""

from __future__ import annotations

import gc
import pickle
from pathlib import Path

import numpy as np
import pytest

from structinv import (
    InvariantLinearSVC,
)
from structinv.dual import dual_state
from structinv.dual.block_state import BlockState, PackedStore
from structinv.dual.case import Case
from structinv.estimators.inputs import block_sizes
from structinv.oracles import FDrop, FScale
from structinv.rows.sources import MatrixRows
from structinv.spaces import ExplicitSpace
from structinv.structures import Binary
from structinv.structures.classes import Multiclass
from structinv.terms import WorstCase
from structinv.terms.blockwise_term import BlockSizes
from structinv.utils.row_arrays import put_rows, take_rows

from ..blocks import CASES, SMALL, mail, objective, use_small_blocks


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    use_small_blocks(monkeypatch)


def state_of(problem):
    """The dual state of rows in blocks, and the function 0."""
    case = Case(problem.terms[0], problem.space)
    return BlockState(case, np.random.default_rng(0)), problem.space.zeros()


def check_sum(state, f):
    """A function and its offset are the sums of all blocks, also of those that the state holds."""
    np.testing.assert_allclose(state.combination(), f, rtol=0, atol=1e-10)
    known, offset, state.sum = state.sum, state.offset, None
    combination = state.combination()
    if known is not None:
        np.testing.assert_allclose(combination, known, rtol=0, atol=1e-10)
    assert state.offset == pytest.approx(offset, rel=1e-10)


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
    orders = set()
    for _ in range(2):
        reads.clear()
        state.sweep(f)
        assert sorted(reads) == strips
        orders.add(tuple(reads))
    # Each pass has other blocks.
    assert len(orders) == 2
    reads.clear()
    state.combination(), state.value(f)
    assert sorted(reads) == strips


def test_f_is_the_sum_of_all_blocks_after_each_sweep():
    X, y = mail()
    state, f = state_of(objective(X, y, FDrop(3)))
    for _ in range(4):
        state.sweep(f)
        check_sum(state, f)


@pytest.mark.parametrize("sweeps", [0, 2])
@pytest.mark.parametrize("questions", [1, 7])
def test_a_sweep_that_is_cut_short_leaves_a_sound_state(sweeps, questions):
    X, y = mail()
    problem = objective(X, y, FDrop(3))
    state, f = state_of(problem)
    for _ in range(sweeps):
        state.sweep(f)
    asked = iter([False] * questions + [True] * 1000)
    gap, _ = state.sweep(f, lambda: next(asked))
    assert gap == np.inf
    check_sum(state, f)
    # Another run goes on from there, in the order of all rows.
    again, _ = state_of(problem)
    again.start(state.arrays(), f)
    np.testing.assert_allclose(again.combination(), f, rtol=0, atol=1e-10)


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
    "oracle",
    [
        pytest.param(FDrop(3).only_for(1), marks=pytest.mark.slow),
        FDrop(3).only_for(-1),
        (FDrop(3) | FScale(2, 0.5, 2.0)).only_for(1),
    ],
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


def test_rows_that_are_kept_are_limited(monkeypatch):
    X, y = mail(120)
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


class TestPackedStore:
    def test_packed_variables_go_to_disk_and_change_nothing(self, monkeypatch):
        X, y = mail(120)
        stores, old = [], PackedStore.__init__

        def init(self, *arguments):
            old(self, *arguments)
            stores.append(self)

        monkeypatch.setattr(PackedStore, "__init__", init)
        settings = {"C": 0.1, "tol": 5e-2, "random_state": 0}
        free = InvariantLinearSVC(FDrop(3), **settings).fit(MatrixRows(X), y)
        assert stores[-1].on_disk == 0
        assert stores[-1].in_memory > 0
        sizes = BlockSizes(values=SMALL, packed=1000)
        monkeypatch.setattr("structinv.estimators.linear.block_sizes", lambda *_: sizes)
        tight = InvariantLinearSVC(FDrop(3), **settings).fit(MatrixRows(X), y)
        assert stores[-1].in_memory <= 1000
        assert stores[-1].on_disk > 1000
        np.testing.assert_array_equal(tight.coef_, free.coef_)

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
