"""The views of lists: members, scores, grades, names and maps, against members listed by hand."""

import numpy as np
import pytest
import scipy.sparse as sp

from structinv.oracles import Box, FScale, Identity
from structinv.utils.matrices import ALL_ROWS, row_dots

from ..oracles.cases import CASES, ORDERS, D, Reorderings, rows, told
from ..oracles.orbit_cases import ORBIT_CASE, ORBIT_CASES, Halves
from ..problems import SETTING, objective

FINITE = [case for case in CASES if case.oracle.finite]
every_case = pytest.mark.parametrize("case", ORBIT_CASES, ids=str)
every_finite = pytest.mark.parametrize("case", FINITE + ORBIT_CASES, ids=str)
SELECTIONS = [ALL_ROWS, slice(2, 7), np.array([5, 0, 0, 3]), np.zeros(0, dtype=np.intp)]


def bind(case, dtype=np.float64):
    X, y = rows()
    return case.oracle.bind(X.astype(dtype), y)


def directions(p=4, seed=3):
    return np.random.default_rng(seed).standard_normal((p, D))


def test_orbit_lists_the_members_in_order():
    for case in ORBIT_CASES:
        with told(case):
            np.testing.assert_allclose(
                bind(case).changes().members(ALL_ROWS), case.members(*rows()), atol=1e-14
            )
            assert case.oracle.finite


@every_finite
def test_views_of_chosen_rows_are_views_of_all(case):
    for chosen in SELECTIONS:
        bound = bind(case)
        orbit = bound.changes().members(ALL_ROWS)[chosen]
        each = np.arange(len(orbit))
        for number in range(orbit.shape[1]):
            index = (each * (number % 2) + number) % orbit.shape[1]
            wanted = orbit[each, index]
            np.testing.assert_allclose(
                bound.changes().points(chosen, index), wanted, rtol=1e-13, atol=1e-14
            )
            moved = bound.changes().refine(chosen, index, lambda z: z.sum(axis=1))
            np.testing.assert_allclose(moved, wanted, rtol=1e-13, atol=1e-14)
        np.testing.assert_allclose(bound.changes().members(chosen), orbit, rtol=1e-13, atol=1e-14)
        np.testing.assert_array_equal(bound.changes().mesh(chosen), np.zeros(len(orbit)))
        scores = bound.changes().scores(chosen, directions())
        assert (scores is not None) == getattr(case, "scored", scores is not None)
        if scores is not None:
            wanted = np.einsum("nsd,pd->nsp", orbit, directions())
            np.testing.assert_allclose(scores, wanted, rtol=1e-12, atol=1e-12)


def test_every_member_has_a_name():
    for case in FINITE + ORBIT_CASES:
        bound = bind(case)
        names = bound.changes().names
        assert len(names) == bound.changes().members(ALL_ROWS).shape[1]
        assert all(isinstance(name, str) and name for name in names)
        assert [number for number, name in enumerate(names) if name == "identity"] == [0]


def test_grades_are_those_of_the_definition():
    for case in ORBIT_CASES:
        for chosen in SELECTIONS[:3]:
            grades = bind(case).changes().grades(chosen)
            if case.oracle.graded:
                np.testing.assert_allclose(grades, case.grades(*rows())[chosen], rtol=1e-14)
            else:
                assert grades is None


@every_case
def test_support_is_the_best_of_members_and_grades(case):
    for size in (0.0, 0.3, 5.0):
        X, y = rows(4)
        V, each = directions(len(X), seed=4), np.arange(len(X))
        cost = np.random.default_rng(4).uniform(0.0, size, len(X))
        answer = case.oracle.bind(X, y).support(ALL_ROWS, V, each, cost)
        members, grades = case.members(X, y), case.grades(X, y)
        values = np.einsum("nsd,nd->ns", members, V) + cost[:, None] * grades
        rho = np.ones(len(X)) if answer.rho is None else answer.rho
        reached = row_dots(answer.points, V, each) + cost * rho
        np.testing.assert_allclose(reached, values.max(axis=1), rtol=1e-12, atol=1e-12)
        found = np.abs(members - answer.points[:, None]).max(axis=2) + np.abs(grades - rho[:, None])
        assert np.all(found.min(axis=1) <= 1e-13)


def test_maps_pull_directions_back():
    for case in FINITE + ORBIT_CASES:
        with told(case):
            X, y = rows()
            V = directions()
            maps = case.oracle.changes(X, y).adjoint(V)
            assert (maps is not None) == getattr(case, "linear", maps is not None)
            if maps is not None:
                orbit = case.oracle.bind(X, y).changes().members(ALL_ROWS)
                wanted = np.einsum("nsd,pd->nsp", orbit, V)
                np.testing.assert_allclose(
                    np.einsum("spd,nd->nsp", maps, X), wanted, rtol=1e-12, atol=1e-12
                )


def test_the_linear_cases_of_the_contract_are_told_apart():
    X, y = rows()
    V = np.ones((1, D))
    linear = {case.name for case in FINITE if case.oracle.changes(X, y).adjoint(V) is not None}
    maps = {"identity", "finite", "shifts", "rotations", "scalings", "shears", "flip", "permutations"}
    assert linear == maps | {"shared", "weighted", "discounted-finite", "protected-finite"}


def assert_same_planes(space, one, other, tolerance):
    for part in ("offsets", "upper", "plane_values"):
        np.testing.assert_allclose(
            getattr(one, part), getattr(other, part), rtol=tolerance, atol=tolerance
        )
    for seed in range(4):
        f = np.random.default_rng(seed).standard_normal(space.size)
        np.testing.assert_allclose(
            space.scores(f, one.normals), space.scores(f, other.normals), rtol=tolerance, atol=tolerance
        )


@pytest.mark.parametrize(
    "oracle",
    [Halves(), Identity(), Halves() | Identity(), Halves().only_for(1), Halves().discounted(0.4),
     Halves() @ Halves(), FScale(2) @ Halves(), Halves() | FScale(2)],
    ids=repr,
)  # fmt: skip
def test_sparse_rows_have_the_planes_of_dense_ones(oracle):
    for setting in ("binary", "multiclass-slack"):
        dense, sparse = (objective(oracle, SETTING[setting], sparse=flag) for flag in (False, True))
        f = 0.5 * np.random.default_rng(2).standard_normal(dense.space.size)
        assert_same_planes(dense.space, dense.planes(f), sparse.planes(f), 1e-12)
        assert dense.value(f).upper == pytest.approx(sparse.value(f).upper, rel=1e-12)


@pytest.mark.parametrize("oracle", [Identity(), Identity().only_for(1), FScale(2)], ids=repr)
def test_planes_of_sparse_rows_stay_sparse(oracle):
    problem = objective(oracle, SETTING["binary"], sparse=True)
    f = np.random.default_rng(2).standard_normal(problem.space.size)
    assert sp.issparse(problem.planes(f).normals)


def test_a_continuum_has_no_members():
    X, y = rows()
    for oracle in (Box(0.5), Box(0.5) | Reorderings(ORDERS), Box(0.5).discounted(0.5)):
        assert oracle.bind(X, y).changes() is None
    with pytest.raises(ValueError, match="labels"):
        ORBIT_CASE["only_for"].oracle.changes(X)
