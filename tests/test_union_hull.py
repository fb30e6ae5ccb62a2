"""In-hull steps of unions: planes of parts, and exchange of level between parts."""

import numpy as np
import pytest
import scipy.sparse as sp

from structinv.datasets import make_mail_like
from structinv.dual import dual_state
from structinv.dual.hull_state import HullState
from structinv.oracles import Box, Ellipsoid, FDrop, FScale, Identity, TangentDerivative
from structinv.oracles.checked_oracle import bind
from structinv.oracles.union_hull import SMALLEST_TAU, UnionHull
from structinv.solvers import FrankWolfe, Gap, Status, SVMStruct, solve
from structinv.spaces import ExplicitSpace
from structinv.structures import Binary
from structinv.terms import Objective, WorstCase

from .covering import each_once
from .oracle_cases import (
    FACTOR,
    RADII,
    TANGENTS,
    Case,
    box,
    ellipsoid,
    only_for,
    row_tangents,
    tangent,
    union,
    words,
)
from .problems import SETTING, Variables, assert_brackets, minimum, objective, worst_losses

_drop, _scale = words(2, 0.0, 1.0), words(3, 0.5, 3.0)
_box, _ball, _turn = box(RADII), ellipsoid(FACTOR, 0.5), tangent(row_tangents, [0.1, 0.3])
TURN = TangentDerivative(row_tangents, [0.1, 0.3])

WORDS = [
    Case("words", FDrop(2) | FScale(3, 0.5, 3.0), union(_drop, _scale)),
    Case("only for one", FDrop(2).only_for(1) | FScale(3, 0.5, 3.0),
         union(only_for(_drop, [1]), _scale)),
    Case("for one each", FDrop(2).only_for(1) | FScale(3, 0.5, 3.0).only_for(0),
         union(only_for(_drop, [1]), only_for(_scale, [0]))),
    Case("only for, around", (FDrop(2) | FScale(3, 0.5, 3.0)).only_for(1),
         only_for(union(_drop, _scale), [1])),
    Case("and nothing", FDrop(2) | Identity(), _drop),
    Case("twice the same", FDrop(2) | FDrop(2), _drop),
]  # fmt: skip
DENSE = [
    Case("box and words", Box(RADII) | FDrop(2), union(_box, _drop)),
    Case("box and ball", Box(RADII) | Ellipsoid(FACTOR, 0.5), union(_box, _ball)),
    Case("three", TURN | Box(RADII) | FDrop(2), union(union(_turn, _box), _drop)),
    Case("shared directions", TangentDerivative(TANGENTS, 0.4).only_for(1) | FDrop(2),
         union(only_for(tangent(TANGENTS, 0.4), [1]), _drop)),
]  # fmt: skip
SETTINGS = ["binary", "binary-slack"]
PROBLEMS = [(case, sparse) for case in WORDS for sparse in (True, False)]
PROBLEMS += [(case, False) for case in DENSE]
NAMED = {f"{case}-{'csr' if sparse else 'dense'}": (case, sparse) for case, sparse in PROBLEMS}
every_problem = pytest.mark.parametrize(("case", "sparse"), PROBLEMS, ids=list(NAMED))


def optimum(case, setting, factor):
    variables = Variables.of(setting)
    return minimum(variables.norm + worst_losses(case, setting, variables, factor))


def state_of(problem):
    return dual_state(problem.terms[0], problem.space, np.random.default_rng(0))


@pytest.mark.parametrize(("named", "name", "factor"), each_once(list(NAMED), SETTINGS, [0.1, 10.0]))
def test_the_optimum_is_reached(named, name, factor):
    case, sparse = NAMED[named]
    setting = SETTING[name]
    problem = objective(case.oracle, setting, sparse=sparse, factor=factor)
    assert isinstance(state_of(problem), HullState)
    found = solve(problem, FrankWolfe(), Gap(1e-6), random_state=0)
    assert found.status is Status.CONVERGED
    assert_brackets(found, optimum(case, setting, factor))


@every_problem
def test_f_is_the_sum_of_the_parts_and_levels_sum_to_at_most_one(case, sparse):
    problem = objective(case.oracle, SETTING["binary"], sparse=sparse, factor=3.0)
    state, f = state_of(problem), problem.space.zeros()
    before = 0.0
    for _ in range(6):
        state.sweep(f)
        np.testing.assert_allclose(state.combination(), f, rtol=1e-9, atol=1e-12)
        dual = state.offset - 0.5 * f @ f
        assert dual >= before - 1e-12
        before = dual
        planes = state.planes()
        assert np.all(planes.alphas > 0)
        assert np.all(np.bincount(planes.blocks, planes.alphas) <= 1 + 1e-12)
        normal, offset = planes.total(problem.space, problem.weights, problem.lower_bounds)
        np.testing.assert_allclose(normal, f, rtol=1e-9, atol=1e-12)
        assert offset == pytest.approx(state.offset, rel=1e-9)


@every_problem
def test_a_run_continues_from_planes(case, sparse):
    problem = objective(case.oracle, SETTING["binary"], sparse=sparse)
    first = solve(problem, FrankWolfe(), Gap(1e-6), random_state=0)
    again = solve(problem, FrankWolfe(), Gap(1e-5), warm_start=first, random_state=0)
    assert again.iterations == 0
    other = solve(problem, SVMStruct(), Gap(1e-6), warm_start=first, random_state=0)
    assert other.iterations == 0
    lists = solve(problem, SVMStruct(), Gap(1e-6), random_state=0)
    from_lists = state_of(problem)
    from_lists.restore(lists.planes)
    f = from_lists.combination()
    dual = from_lists.offset - 0.5 * f @ f
    assert dual == pytest.approx(lists.dual, rel=1e-3)


def test_exchanges_move_level_between_saturated_parts():
    """Updates of single parts alone stop below the optimum of both."""
    X, y = sp.csr_matrix([[1.0, 2.0], [-1.0, 0.5]]), np.array([1, 0])
    oracle = FDrop(1) | FScale(1, 0.5, 2.0)
    problem = Objective(ExplicitSpace(2), [WorstCase(X, y, oracle, Binary(), 0.05)])
    state = state_of(problem)
    assert isinstance(state.hull, UnionHull)
    # All level where it does not belong: dropping what tells least.
    drop, scale = state.hull.parts
    drop.restore(sp.csr_matrix([[0.0, 2.0], [0.0, -0.5]]), np.ones(2))
    state.hull.used_taus[0] = drop.taus
    f = state.combination()
    for _ in range(20):
        state.sweep(f)
    assert np.all(state.hull.used_taus.sum(axis=0) <= 1 + SMALLEST_TAU)
    assert state.value(f)[0] + 0.5 * f @ f == pytest.approx(state.offset - 0.5 * f @ f, rel=1e-6)


def test_unions_with_a_part_without_in_hull_steps_use_planes():
    class Own(FDrop):
        """A part without a hull."""

        def support(self, X, V, assign, cost=None):
            return super().support(X, V, assign)

    problem = objective(Own(1) | FScale(2), SETTING["binary"])
    assert not isinstance(state_of(problem), HullState)


def test_only_for_all_labels_has_the_hull_of_the_oracle():
    X, y = make_mail_like(40, 500, random_state=0)
    asked = np.where(y == "spam", 1.0, -1.0), np.ones(40), False
    reached = []
    for oracle in (FDrop(1).only_for(np.unique(y)), FDrop(1)):
        hull, f, gaps = bind(oracle, X, y).inner.hull(*asked), np.zeros(500), np.zeros(40)
        for _ in range(3):
            hull.sweep(f, np.arange(40), gaps)
        reached.append([f, gaps, hull.combination(), hull.offset])
    for found, known in zip(*reached, strict=True):
        np.testing.assert_array_equal(found, known)
