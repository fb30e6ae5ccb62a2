"""The contract of dual states, for every state: steps, values, arrays, and starts."""

import copy
from itertools import permutations

import numpy as np
import pytest

from structinv.dual import TABLE, dual_state
from structinv.dual.base import never
from structinv.dual.block_state import BlockState
from structinv.dual.box_state import BoxState
from structinv.dual.penalty_state import PenaltyState
from structinv.dual.plane_cache import BatchedState
from structinv.dual.word_state import WordState
from structinv.oracles import Box, FDrop, FScale, Identity
from structinv.solvers import FrankWolfe, Gap, Status, solve
from structinv.spaces import ExplicitSpace
from structinv.structures import Binary
from structinv.terms import WorstCase

from ..covering import slow_unless
from ..dual.cases import AVERAGED, LABELS, STATES, state_of, swept
from ..optima import optimum
from ..oracles.cases import RADII
from ..problems import CASE, SETTING, assert_brackets, objective

every_state = pytest.mark.parametrize("name", STATES)
every_averaged = pytest.mark.parametrize("case", AVERAGED)


def dual(problem, state, f):
    return state.offset - 0.5 * problem.space.dot(f, f)


def distance(space, f, g):
    """Relative to the length of f."""
    both = space.stack([space.element(f), space.element(g)])
    gram = space.gram(both, both)
    return np.sqrt(max(gram[0, 0] - 2 * gram[0, 1] + gram[1, 1], 0.0) / (1.0 + gram[0, 0]))


def test_every_state_has_a_case():
    # Penalties have no blocks, and blocks of rows have the states of their parts.
    others = {PenaltyState, BlockState}
    assert {case.kind for case in STATES.values()} == set(TABLE.values()) - others


@every_state
def test_sweeps_raise_the_dual_and_move_f_as_the_variables(name):
    problem, best = STATES[name].make()
    term, space = problem.terms[0], problem.space
    state, f, before = state_of(problem), space.zeros(), 0.0
    assert type(state) is STATES[name].kind
    slack = 1e-6 * (1.0 + abs(best))
    for _ in range(8):
        gap, _ = state.sweep(f)
        now = dual(problem, state, f)
        assert gap >= 0
        assert before - 1e-9 * (1.0 + abs(before)) <= now <= best + slack
        assert distance(space, f, state.combination()) < 1e-7
        assert state.value(f) == pytest.approx(term.total(space, f), rel=1e-9)
        before = now
    for g in (-2.0 * f, space.zeros()):
        assert state.value(g) == pytest.approx(term.total(space, g), rel=1e-9)


def started(problem, arrays, f, seed=1):
    """A new state that starts from arrays at a function, and its part of f."""
    state = state_of(problem, seed=seed)
    state.start(arrays, f)
    return state, state.combination()


def has_planes(state):
    """Whether planes, which a start computes again, are more than the dual variables."""
    return isinstance(state, BatchedState)


@every_state
def test_arrays_bring_a_state_back(name):
    problem, best = STATES[name].make()
    state, f = swept(problem)
    arrays, value = state.arrays(), dual(problem, state, f)
    again, g = started(problem, arrays, f)
    reached = dual(problem, again, g)
    if not has_planes(state):
        assert reached == pytest.approx(value, rel=1e-9)
        assert distance(problem.space, f, g) < 1e-7
        for own, kept in zip(again.arrays().values(), arrays.values(), strict=True):
            np.testing.assert_allclose(own, kept, rtol=1e-9)
    for _ in range(2):
        again.sweep(g)
    assert reached <= dual(problem, again, g) + 1e-9 <= best + 1e-6 * (1.0 + abs(best))


@every_state
def test_arrays_do_not_share_memory_with_the_state(name):
    problem, _ = STATES[name].make()
    state, f = swept(problem, 1)
    arrays = state.arrays()
    before = copy.deepcopy(arrays)
    for _ in range(2):
        state.sweep(f)
    for own, kept in zip(arrays.values(), before.values(), strict=True):
        np.testing.assert_array_equal(own, kept)


def spoiled(arrays, rng):
    """Arrays of the same form with other numbers, most of which are not feasible."""
    found = {}
    for name, array in arrays.items():
        counts = name.endswith(".counts")
        if array.dtype.kind == "f":
            found[name] = array + rng.choice([0.0, 0.3, -2.0, 5.0], size=array.shape)
        else:
            found[name] = array if counts else array + rng.choice([0, 0, 1, -3, 40], size=array.shape)
    return found


@every_state
def test_any_numbers_give_a_feasible_start(name):
    problem, best = STATES[name].make()
    state, f = swept(problem)
    arrays = {key: array.astype(np.int64) if array.dtype.kind in "iu" else array
              for key, array in state.arrays().items()}  # fmt: skip
    slack = 1e-6 * (1.0 + abs(best))
    for seed in range(3):
        again, g = started(problem, spoiled(arrays, np.random.default_rng(seed)), f)
        assert dual(problem, again, g) <= best + slack
        # The variables stay feasible, and the state works with them.
        for _ in range(5):
            again.sweep(g)
        assert distance(problem.space, g, again.combination()) < 1e-7
        assert -slack <= dual(problem, again, g) <= best + slack


@every_state
def test_arrays_of_another_form_start_at_zero(name):
    problem, _ = STATES[name].make()
    state, f = swept(problem)
    arrays, zero = state.arrays(), state_of(problem, seed=1)
    g = zero.combination()
    others = [
        {},
        {key: array[1:] for key, array in arrays.items()},
        {key: array[..., None] for key, array in arrays.items()},
        {key: array.astype(complex) for key, array in arrays.items()},
        {key: np.full(array.shape, np.nan) for key, array in arrays.items()},
    ]
    for given in others:
        again, h = started(problem, given, f)
        assert again.offset == zero.offset
        assert distance(problem.space, g, h) == 0


@pytest.mark.parametrize(
    ("cases", "setting", "options"),
    [(AVERAGED, "binary", {"factor": 2.0}), (LABELS, "multiclass", {"sparse": True})],
    ids=["averaged", "labels"],
)
def test_variables_of_another_set_are_clipped_to_it(cases, setting, options):
    problems = {name: objective(CASE[name].oracle, SETTING[setting], **options) for name in cases}
    ends = {name: swept(problem, 10) for name, problem in problems.items()}
    for here, there in permutations(cases, 2):
        (earlier, g), this = ends[there], problems[here]
        state, f = started(this, earlier.arrays(), g)
        best = optimum(here, setting, options.get("factor", 1.0))
        assert dual(this, state, f) <= best * (1 + 1e-7), (here, there)
        if there == "identity":
            # The rows are members of every set, so that nothing is lost.
            assert distance(this.space, g, f) < 1e-9, here


# A larger set and a smaller one of the same shape.
SIZES = {
    "fscale": (FScale(2, 0.1, 9.0), FScale(1, 0.8, 1.5)),
    "fdrop": (FDrop(5), FDrop(1)),
    "box-radii": (Box(10.0 * RADII), Box(0.5 * RADII)),
}


@pytest.mark.parametrize("case", SIZES)
def test_variables_of_another_size_are_clipped_to_the_set(case):
    this, (larger, smaller) = objective(CASE[case].oracle, factor=2.0), SIZES[case]
    for oracle in (larger, smaller):
        other, f = swept(objective(oracle, factor=2.0), 10)
        state, g = started(this, other.arrays(), f)
        assert dual(this, state, g) <= optimum(case, "binary", 2.0) * (1 + 1e-7)
    assert distance(this.space, f, g) < 1e-7


@pytest.mark.parametrize(("oracle", "key"), [(FDrop(2), "words.counts"), (Box(RADII), "changes")])
def test_rows_that_may_not_change_start_without_changes(oracle, key):
    this, other = objective(oracle.only_for(1), factor=2.0), objective(oracle, factor=2.0)
    earlier, f = swept(other, 10)
    state, _ = started(this, earlier.arrays(), f)
    unchanged = this.terms[0].bound_structure.codes != 1
    assert np.any(earlier.arrays()[key][unchanged])
    assert np.any(state.arrays()[key][~unchanged])
    assert not np.any(state.arrays()[key][unchanged])


EXTREMES = [(each, "binary") for each in AVERAGED] + [(each, "multiclass") for each in LABELS]


# Large weights for all, small ones for each second.
@pytest.mark.parametrize(
    ("case", "setting", "factor"),
    slow_unless(
        lambda case, setting, factor: factor > 1 or EXTREMES.index((case, setting)) % 2 == 0,
        [(*each, factor) for each in EXTREMES for factor in (1e-3, 100.0)],
    ),
)
def test_extreme_weights_keep_the_bounds(case, setting, factor):
    sparse = setting == "multiclass"
    problem = objective(CASE[case].oracle, SETTING[setting], sparse=sparse, factor=factor)
    solution = solve(problem, FrankWolfe(), Gap(1e-6), check_always=True, random_state=0)
    assert solution.status is Status.CONVERGED
    assert_brackets(solution, optimum(case, setting, factor))


@every_averaged
def test_single_precision_rows_reach_the_same_optimum(case):
    problem = objective(CASE[case].oracle, dtype=np.float32)
    assert problem.terms[0].X.dtype == np.float32
    # Shares of rescaled words are in single precision, too.
    tolerance = 1e-4 if case in ("fscale", "only_for") else 1e-6
    solution = solve(problem, FrankWolfe(), Gap(tolerance), random_state=0)
    assert solution.status is Status.CONVERGED
    assert solution.primal == pytest.approx(optimum(case, "binary"), rel=tolerance)


@pytest.mark.parametrize("name", [f"rows-{case}" for case in AVERAGED] + ["rows-slack", "rows-sparse"])
def test_gaps_of_rows_before_their_steps_add_up_to_the_gap(name):
    problem, _ = STATES[name].make()
    state, f = swept(problem)
    gaps = np.zeros(len(problem.weights))
    for row in range(len(gaps)):
        fresh = copy.deepcopy(state)
        fresh.visit(f.copy(), np.array([row]), never, again=False)
        gaps[row] = fresh.gaps[row]
    assert gaps.sum() == pytest.approx(problem.value(f).upper - dual(problem, state, f), rel=1e-9)
    for _ in range(20):
        state.visit(f, np.array([0]), never, again=False)
    assert state.gaps[0] <= 1e-9


@pytest.mark.parametrize(
    "name", ["rows-identity", "rows-sparse", "rows-box-radii", "rows-slack", "slopes", "tube"]
)
def test_a_step_on_a_row_leaves_it_without_a_gap(name):
    problem, _ = STATES[name].make()
    state, f = swept(problem, 1)
    steps = np.zeros(len(problem.weights), dtype=bool)
    for row in range(len(steps)):
        order, before, g = np.array([row]), copy.deepcopy(state), f.copy()
        before.visit(g, order, never, again=False)
        steps[row] = not np.array_equal(f, g)
        before.visit(g, order, never, again=False)
        assert before.gaps[row] <= 1e-12 * (1.0 + problem.value(f).upper)
    assert np.any(steps)


@pytest.mark.parametrize("oracle", [FDrop(2), Box(RADII)], ids=repr)
@pytest.mark.parametrize("label", [0, 1, 2])
def test_rows_of_other_labels_take_the_steps_of_unperturbed_rows(oracle, label):
    problem = objective(oracle.only_for(label), factor=2.0)
    state, f = swept(problem, 50)
    assert isinstance(state, BoxState if isinstance(oracle, Box) else WordState)
    upper, bound = problem.value(f).upper, dual(problem, state, f)
    assert bound == pytest.approx(upper, rel=1e-6)
    if label == 2:
        # No row has this label.
        np.testing.assert_allclose(f, swept(objective(Identity(), factor=2.0), 50)[1], rtol=1e-5)


def test_a_row_without_effect_has_the_full_level():
    term = WorstCase(np.zeros((2, 6)), [0, 1], Box(np.zeros(6)), Binary(), 1.0)
    state = dual_state(term, ExplicitSpace(6), np.random.default_rng(0))
    assert isinstance(state, BoxState)
    assert state.sweep(np.zeros(6)) == (2.0, 2)
    np.testing.assert_array_equal(state.taus, 1.0)
